/**
 * Findings: what is wrong with an application, where it was declared, and what to do about it.
 *
 * `compileAll()` throws all of them at once as one `SvcError`; `svc check` prints the very same records.
 */

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

/** Where the package's own frames are: its folder, and, where source maps are on, the sources that it was built from. */
const OWN_FOLDERS: readonly string[] = [new URL('.', import.meta.url), new URL('../src/', import.meta.url)].flatMap(({ href, pathname }) => [href, decodeURIComponent(pathname)]);
const UNKNOWN: Place = Object.freeze({ file: '<unknown>', line: 0, column: 0 });

/** Remembers the caller's place: the innermost stack frame that is not of this package. */
export function declaredHere(): Declared {
  return new CapturedPlace();
}

class CapturedPlace implements Declared {
  #stack: Error | undefined = new Error('place');
  #place: Place = UNKNOWN;

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
    if (OWN_FOLDERS.some((folder) => file.startsWith(folder))) continue;
    return Object.freeze({ file, line: Number(frame[2]), column: Number(frame[3]) });
  }
  return UNKNOWN;
}
