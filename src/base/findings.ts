/**
 * Findings: mistakes of an application, with the place of declaration and a remedy.
 *
 * `compileAll()` throws all of them as one `SvcError`; `svc check` prints the same records.
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

/** One mistake. `rule` is permanent (`SVC101`, or `plugin/rule` for rules of plugins); the wording is not. */
export interface Finding {
  readonly rule: `SVC${number}` | `${string}/${string}`;
  readonly severity: Severity;
  /** Subject, for example `POST /users`. */
  readonly subject: string;
  readonly message: string;
  /** The reason, where that of the rule is about another variant of it. */
  readonly why?: string | undefined;
  readonly remedy: string;
  readonly place?: Place | undefined;
}

/** Result of `app.check()`. `ok` is false if one finding is an error. */
export interface Report {
  readonly schemaVersion: 1;
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  readonly suppressed: readonly Finding[];
}

/** A place that is computed on demand: formatting a stack costs far more than capturing it. */
export interface Declared {
  readonly place: Place;
}

const UNKNOWN: Place = Object.freeze({ file: '<unknown>', line: 0, column: 0 });

/**
 * Records the caller's place: the innermost stack frame outside this package. `by` is the package's function that the program called:
 * there may be thousands of calls, and few frames have to be kept for each.
 */
export function declaredHere(by?: AnyFunction): Declared {
  return new CapturedPlace(by === undefined ? new Error('place') : framesBelow(by));
}

type AnyFunction = (...args: never[]) => unknown;

/** Two frames: the caller may be a function of V8, as in `Reflect.apply(app.get, app, args)`. */
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

/** Path of a file from the address in a stack frame: without `%20`. */
export function fileOfPlace({ file }: { readonly file: string }): string {
  return file.startsWith('file:') ? fileURLToPath(file) : file;
}
