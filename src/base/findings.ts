/**
 * Findings: what is wrong with an application, where it was declared, and what to do about it.
 *
 * `compileAll()` throws all of them at once as one `SvcError`; `svc check` prints the very same records.
 */
import { fileURLToPath } from 'node:url';
import { ownFolders } from './package-root.ts';

/** How much a finding matters: an `error` keeps an application from compiling, or a deploy from passing. */
export type Severity = 'error' | 'warning' | 'info';

/** Where a declaration was written: a file URL or path, and one-based line and column. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One mistake. `rule` is stable for ever (`SVC101`, or `plugin/rule` for rules of others); the wording is not. */
export interface Finding {
  readonly rule: `SVC${number}` | `${string}/${string}`;
  readonly severity: Severity;
  /** What it is about, for example `POST /users`. */
  readonly subject: string;
  readonly message: string;
  /** The reason, where that of the rule is about another variant of it. */
  readonly why?: string | undefined;
  readonly remedy: string;
  readonly place?: Place | undefined;
}

/** What `app.check()` answers. `ok` is false as soon as one finding is an error. */
export interface Report {
  readonly schemaVersion: 1;
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  readonly suppressed: readonly Finding[];
}

/** A place that is worked out when somebody asks for it: formatting a stack costs far more than capturing it. */
export interface Declared {
  readonly place: Place;
}

const UNKNOWN: Place = Object.freeze({ file: '<unknown>', line: 0, column: 0 });

/**
 * Remembers the caller's place: the innermost stack frame that is not of this package. `by` is a function of this package that only
 * programs call, and is being called: there may be thousands of such calls, and few frames need to be kept of each.
 */
export function declaredHere(by?: AnyFunction): Declared {
  return new CapturedPlace(by === undefined ? new Error('place') : framesBelow(by));
}

type AnyFunction = (...args: never[]) => unknown;

/** Who calls, and one more: who calls may be a function of V8's, as in `Reflect.apply(app.get, app, args)`. */
const FRAMES = 2;

/** Takes half the time of a whole stack, and half its memory: there may be 10,000 routes. */
function framesBelow(by: AnyFunction): { readonly stack?: string } {
  const { stackTraceLimit } = Error;
  const frames = {};
  Reflect.set(Error, 'stackTraceLimit', FRAMES); // false where intrinsics are frozen
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

/** The first frame of a V8 stack outside this package and Node itself; `<unknown>` 0:0 when there is none. */
export function placeOf(stack: string): Place {
  for (const line of stack.split('\n')) {
    const frame = /^\s+at (?:.*? \()?((?:file:\/\/|\/|[A-Za-z]:\\).+?):(\d+):(\d+)\)?$/.exec(line);
    if (frame === null) continue;
    const file = frame[1]!;
    if (isOwn(file)) continue;
    return Object.freeze({ file, line: Number(frame[2]), column: Number(frame[3]) });
  }
  return UNKNOWN;
}

let folders: readonly string[] | undefined; // a start without findings needs none

function isOwn(file: string): boolean {
  folders ??= ownFolders();
  return folders.some((folder) => file.startsWith(folder));
}

/** The path of a file, where the frame of a stack has told its address: without `%20`. */
export function fileOfPlace({ file }: { readonly file: string }): string {
  return file.startsWith('file:') ? fileURLToPath(file) : file;
}
