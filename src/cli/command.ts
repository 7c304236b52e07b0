/**
 * Type of a command, and shared parts of commands that take an application.
 */
import { systemClock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { loadApplication } from './load.ts';
import type { ParseArgsOptionsConfig } from 'node:util';
import type { Svc } from '../app/svc.ts';
import type { Clock } from '../base/clock.ts';
import type { Target } from './load.ts';

/** The application that a command is about: not loaded yet. */
export interface Subject {
  /** As it was given. */
  readonly given: string;
  readonly target: Target;
  /** The file of its module. */
  readonly module: URL;
}

/** Input of a command. */
export interface Invocation {
  readonly positionals: readonly string[];
  readonly values: Readonly<Record<string, unknown>>;
  /** The whole command line. */
  readonly argv: readonly string[];
  /** There for commands that take a module. */
  readonly subject: Subject | undefined;
}

/** A command. */
export interface Command {
  readonly usage: string;
  readonly summary: string;
  readonly details: string;
  readonly options: ParseArgsOptionsConfig;
  /** Words of options, for shell completion; empty if unknown, as for numbers. Unlisted options complete files. */
  readonly choices?: Readonly<Record<string, readonly string[]>>;
  /** Words of the first argument, for shell completion. */
  readonly verbs?: readonly string[];
  /** Whether its argument names an application, always or with these options: then `--env-file` is read first, and the application's own copy of the package takes over. */
  readonly takesModule: boolean | ((values: Invocation['values'], positionals: readonly string[]) => boolean);
  /** Number of words before the module. Default 0. */
  readonly words?: number;
  /** Refuses option values before anything is looked up. @throws SvcError `E_CLI_USAGE` */
  check?(values: Invocation['values']): void;
  /** Handles a missing module, if that is a valid result of the command. Default: it is thrown. */
  absent?(invocation: Invocation, given: string, error: SvcError): Promise<number>;
  /** The exit status, or undefined where a server keeps the process alive. */
  run(invocation: Invocation): Promise<number | undefined>;
}

/** Help for the options that every command with a module has. */
export const ENV_FILE_HELP =
  '  --env-file <file>   reads variables from a file first; those that are set already win';

/** Environments that an option can name. */
export const ENVIRONMENTS = ['production', 'development', 'test'] as const;

/** Time for a module to load before it counts as hanging. */
const LOAD_TIMEOUT_MS = 30_000;
/** Time before a waiting user is informed. */
const NOTICE_MS = 5_000;

/** Imports the application. In production its checks must pass, unless disabled: then findings are logged. @throws SvcError `E_LOAD`, `E_COMPILE` */
export async function openApplication(
  subject: Subject,
  { isChecked = true }: { readonly isChecked?: boolean } = {},
): Promise<Svc> {
  const app = await importApplication(subject);
  if (app.env !== 'production') return app;
  if (isChecked) app.assertChecks();
  else
    for (const { rule, severity, subject: about, message } of app.check().findings)
      if (severity === 'error') app.log.warn('check_failed', { rule, subject: about, message });
  return app;
}

/** Imports the application, and does not check it. @throws SvcError `E_LOAD` */
export function importApplication({ target, module, given }: Subject): Promise<Svc> {
  return settling(loadApplication(target, module), given, 'a top-level await', LOAD_TIMEOUT_MS);
}

/**
 * A promise with a time limit. A promise that never settles hangs the process while other work runs, which is reported on standard error. Without
 * other work the process would exit with status 0 and no message: Node emits `beforeExit` for that.
 */
export async function settling<T>(
  pending: Promise<T>,
  target: string,
  what: string,
  deadlineMs?: number,
  clock: Clock = systemClock,
): Promise<T> {
  const { promise: hung, reject } = Promise.withResolvers<never>();
  const onHung = (): void => reject(new SvcError('E_LOAD', [target, `${what} never settles`]));
  using _notice = clock.after(NOTICE_MS, () =>
    process.stderr.write(
      `svc: still waiting for ${target} after ${NOTICE_MS / 1000} seconds: ${what} has not settled\n`,
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

/** A whole number in a range out of an option's text. @throws SvcError `E_CLI_USAGE` */
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
      `--${option} needs a number ${least} … ${greatest}, found "${String(text)}"`,
    ]);
  return count;
}
