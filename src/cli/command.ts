/** The type of a command, and the functions with which commands import an application. */
import { systemClock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { isOfSources } from '../base/findings.ts';
import { loadApplication } from './load.ts';
import type { ParseArgsOptionsConfig } from 'node:util';
import type { Svc } from '../app/svc.ts';
import type { Clock } from '../base/clock.ts';
import type { Target } from './load.ts';

export interface Subject {
  /** The argument that names the application, as written on the command line. */
  readonly given: string;
  readonly target: Target;
  readonly module: URL;
}

export interface Invocation {
  readonly positionals: readonly string[];
  readonly values: Readonly<Record<string, unknown>>;
  /** All arguments, including the command. */
  readonly argv: readonly string[];
  /** The application; undefined for a command that takes no module. */
  readonly subject: Subject | undefined;
}

/** Input of a command whose `takesModule` is true. */
export type ModuleInvocation = Invocation & { readonly subject: Subject };

/** Values of an option. A function loads them when shell completion is written. */
type Choices = readonly string[] | (() => Promise<readonly string[]>);

export interface Command {
  readonly usage: string;
  readonly summary: string;
  readonly details: string;
  readonly options: ParseArgsOptionsConfig;
  /** Names of options that may be given without their value, which is then empty. */
  readonly optionalValues?: readonly string[];
  /**
   * Values of an option, for shell completion. An empty list means free text, such as a number. For an option
   * without an entry, the shell completes file names.
   */
  readonly choices?: Readonly<Record<string, Choices>>;
  /** Values of the first argument, for shell completion. */
  readonly verbs?: readonly string[];
  /**
   * Whether an argument names an application: always, never, or depending on the options. If so, the file of
   * `--env-file` is read first, and the command runs in the copy of this package that the application
   * imports.
   */
  readonly takesModule: boolean | ((values: Invocation['values'], positionals: readonly string[]) => boolean);
  /** Number of positional arguments before the module. Default 0. */
  readonly words?: number;
  /**
   * Rejects invalid option values before the module is searched for. May return a promise.
   * @throws SvcError `E_CLI_USAGE` for an invalid value
   */
  check?(values: Invocation['values']): unknown;
  /**
   * Called if the module cannot be found; `svc check` then prints a report about it. Without this method, the
   * error is thrown.
   */
  absent?(invocation: Invocation, given: string, error: SvcError): Promise<number>;
  /**
   * Runs the command. Resolves with the exit status, or with undefined if a server keeps the process alive.
   */
  run(invocation: Invocation): Promise<number | undefined>;
}

/** Returns the value of an option of type string. */
export function textOf(values: Invocation['values'], option: string): string | undefined {
  return values[option] as string | undefined;
}

/** Returns the values of an option of type string that may be repeated. */
export function textsOf(values: Invocation['values'], option: string): readonly string[] {
  return (values[option] ?? []) as readonly string[];
}

/** Help text for `--env-file`, which every command with a module has. */
export const ENV_FILE_HELP =
  '  --env-file <file>   first reads environment variables from a file; a variable that is already set keeps its value';

/** Help text for `--env`, of commands that take the environment of the application. */
export const ENV_HELP = `  --env <name>        production, development or test; default SVC_ENV, else the environment that the application sets`;

/** Time limit in milliseconds for the import of a module. */
const LOAD_TIMEOUT_MS = 30_000;
/** Time in milliseconds until a message on standard error says that a promise has not settled. */
const NOTICE_MS = 5_000;

/** Imports the application. In production, errors in its declarations are refused, or only logged with `isChecked: false`. */
export async function openApplication(
  subject: Subject,
  { isChecked = true }: { readonly isChecked?: boolean } = {},
): Promise<Svc> {
  const app = await importApplication(subject);
  if (app.env !== 'production') return app;
  assertChecks(app, isChecked);
  return app;
}

/**
 * Logs the errors of an application that starts. If `isChecked` is true, only those that its sources may answer.
 * @throws SvcError `E_COMPILE` with all findings, if `isChecked` is true and there are other errors
 */
export function assertChecks(app: Svc, isChecked: boolean): void {
  const { findings } = app.check();
  const errors = findings.filter(({ severity }) => severity === 'error');
  if (isChecked && !errors.every(isOfSources))
    throw new SvcError('E_COMPILE', [findings, 'start the application in production'], { findings });
  for (const { rule, subject, message } of errors) app.log.warn('check_failed', { rule, subject, message });
}

export async function importApplication({ target, module, given }: Subject): Promise<Svc> {
  let what = 'a top-level await';
  const loading = loadApplication(target, module, (name) => {
    what = `the function ${name}()`;
  });
  return (imported = await settling(loading, given, () => what, LOAD_TIMEOUT_MS));
}

let imported: Svc | undefined;

/** Returns the application of the running command; undefined if the command has imported none. */
export function importedApplication(): Svc | undefined {
  return imported;
}

/**
 * Waits for a promise with a time limit, and reports on standard error if it takes long. `what` returns the work
 * that messages name.
 *
 * If nothing else keeps the process alive, Node.js emits `beforeExit` while the promise is pending. The
 * returned promise then rejects. Without this, the process would exit with status 0.
 */
export async function settling<T>(
  pending: Promise<T>,
  target: string,
  what: () => string,
  deadlineMs?: number,
  clock: Clock = systemClock,
): Promise<T> {
  const { promise: hung, reject } = Promise.withResolvers<never>();
  const onHung = (): void =>
    reject(new SvcError('E_LOAD', [target, `${what()} waits forever, so the application cannot be loaded`]));
  using _notice = clock.after(NOTICE_MS, () =>
    process.stderr.write(
      `svc: still waiting for ${target} after ${NOTICE_MS / 1000} seconds: ${what()} has not ended\n`,
    ),
  );
  using _deadline = deadlineMs === undefined ? undefined : clock.after(deadlineMs, onHung);
  process.once('beforeExit', onHung);
  try {
    return await Promise.race([pending, hung]);
  } finally {
    process.off('beforeExit', onHung);
  }
}

/** Parses a whole number within a range from the text of an option. */
export function readCount(
  option: string,
  text: unknown,
  least: number,
  greatest: number,
): number | undefined {
  if (text === undefined) return undefined;
  const count = typeof text === 'string' && /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(count >= least && count <= greatest))
    throw new SvcError('E_CLI_USAGE', [
      `--${option} needs a number from ${least} to ${greatest}, found "${String(text)}"`,
    ]);
  return count;
}
