/**
 * Findings: mistakes in an application, each with the place of its declaration and a remedy.
 *
 * `compileAll()` throws all findings as one `SvcError`; `svc check` prints the same findings.
 */
import { fileURLToPath } from 'node:url';
import { ownFolders } from './package-root.ts';

/** Severity of a finding. An `error` makes the compilation or `svc check` fail. */
export type Severity = 'error' | 'warning' | 'info';

/** Place of a declaration: a file URL or path, and one-based line and column. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/**
 * A mistake that `compileAll()` or `svc check` reports. The id `rule` is permanent (`SVC101`, or
 * `plugin/rule` for rules of plugins); the wording may change.
 */
export interface Finding {
  /** Id of the rule. */
  readonly rule: `SVC${number}` | `${string}/${string}`;
  /** Severity of the finding. */
  readonly severity: Severity;
  /** Part of the application that the finding is about, for example `POST /users`. */
  readonly subject: string;
  /** Description of the mistake. */
  readonly message: string;
  /** Explanation for this particular finding. It is shown instead of the explanation of the rule. */
  readonly why?: string | undefined;
  /** Remedy. */
  readonly remedy: string;
  /** Where the finding is. */
  readonly place?: Place | undefined;
}

/** Examples and further reading that explain a rule of `svc check`. */
export interface Explanation {
  /** Code with the mistake. */
  readonly wrong: string;
  /** Code without the mistake. */
  readonly right: string;
  /** Numbers of the Common Weakness Enumeration. */
  readonly cwe?: readonly number[];
  /** Further reading, such as RFCs and OWASP. */
  readonly sources?: readonly string[];
}

/** Result of `app.check()`. `ok` is false if any finding is an error. */
export interface Report {
  readonly schemaVersion: 1;
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  readonly suppressed: readonly Finding[];
}

/**
 * Place of a declaration. It is computed when `place` is read, because formatting a stack takes far longer
 * than capturing it.
 */
export interface Declared {
  readonly place: Place;
}

const UNKNOWN: Place = Object.freeze({ file: '<unknown>', line: 0, column: 0 });

/**
 * Captures the place of the caller: the innermost stack frame outside this package. `by` is the function of
 * this package that the program called. With `by`, only two frames are captured, which saves time.
 */
export function declaredHere(by?: AnyFunction): Declared {
  return new CapturedPlace(by === undefined ? new Error('place') : framesBelow(by));
}

type AnyFunction = (...args: never[]) => unknown;

/**
 * Number of captured frames. The second is needed if the first is a function of V8, as in
 * `Reflect.apply(app.get, app, args)`.
 */
const FRAMES = 2;

/** Captures two stack frames, which takes half the time and memory of a whole stack. */
function framesBelow(by: AnyFunction): { readonly stack?: string } {
  const { stackTraceLimit } = Error;
  const frames = {};
  // unlike an assignment, Reflect.set() does not throw if intrinsics are frozen
  Reflect.set(Error, 'stackTraceLimit', FRAMES);
  Error.captureStackTrace(frames, by);
  Reflect.set(Error, 'stackTraceLimit', stackTraceLimit);
  return frames;
}

class CapturedPlace implements Declared {
  #stack: { readonly stack?: string | undefined } | undefined;
  #place: Place = UNKNOWN;

  constructor(stack: { readonly stack?: string | undefined }) {
    this.#stack = stack;
  }

  get place(): Place {
    if (this.#stack !== undefined) {
      this.#place = placeOf(this.#stack.stack ?? '');
      this.#stack = undefined;
    }
    return this.#place;
  }
}

/**
 * Returns the first frame of a V8 stack outside this package and Node itself; `<unknown>` 0:0 if there is
 * none.
 */
export function placeOf(stack: string): Place {
  for (const line of stack.split('\n')) {
    const frame = /^\s+at (?:.*? \()?((?:file:\/\/|\/|[A-Za-z]:\\).+?):(\d+):(\d+)\)?$/.exec(line);
    if (frame === null) continue;
    const file = frame[1]!;
    folders ??= ownFolders();
    if (folders.some((folder) => file.startsWith(folder))) continue;
    return Object.freeze({ file, line: Number(frame[2]), column: Number(frame[3]) });
  }
  return UNKNOWN;
}

// folders of this package, listed on first use, because a start without findings does not need them
let folders: readonly string[] | undefined;

/** Returns the file of a place as a path, also if `file` is a file URL. */
export function fileOfPlace({ file }: { readonly file: string }): string {
  return file.startsWith('file:') ? fileURLToPath(file) : file;
}

/** Returns the line that describes a finding in the message of E_COMPILE. */
export function findingLine({ rule, subject, message, place }: Finding): string {
  return (
    `\n  ${rule} ${subject}: ${message}` +
    (place === undefined ? '' : ` (${fileOfPlace(place)}:${place.line}:${place.column})`)
  );
}

/** The parts of the application that a finding is about, by which the search of the sources places and judges it. */
export interface About {
  /** Route that the finding names. Each finding whose subject is a route has it. */
  readonly route?: { readonly method: string; readonly template: string };
  /** Option or setting that causes the finding, such as `debug: true`. Its line becomes the place of the finding. */
  readonly option?: { readonly key: string; readonly value: unknown };
  /** Environment variable that causes the finding. */
  readonly variable?: string;
  /** Environment variable that the import of the application has not read. */
  readonly unread?: string;
  /** Protection, schema or operation of the API document that the route or the application does not have. */
  readonly lacks?: 'rate limit' | 'response schema' | 'security headers' | 'operation';
  /** Member of a response that may be a secret. */
  readonly field?: string;
  /** Name under which the route declares a dependency that its handler does not use. */
  readonly unused?: string;
  /** Generator of a dependency, and the call in its clean-up that is not awaited. */
  readonly cleanUp?: { readonly of: string; readonly call: string };
  /** Whether the finding is about a secret that is written in the sources. */
  readonly isWritten?: boolean;
}

/** Maps a finding to what it is about. */
export const abouts: WeakMap<Finding, About> = new WeakMap();

/** Whether the sources decide about a finding: they may do what it misses. Only `svc check` reads them. */
export function isOfSources(finding: Finding): boolean {
  const { lacks, unread, field, unused, cleanUp } = abouts.get(finding) ?? {};
  return [lacks, unread, field, unused, cleanUp].some((part) => part !== undefined);
}

/**
 * Maps a finding inside of an SQL statement to the place where the statement begins. A comment cannot stand inside of
 * a text, so it allows the finding there.
 */
export const beginnings: WeakMap<Finding, Place> = new WeakMap();
