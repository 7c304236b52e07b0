/**
 * Inspects an application in a child process, which imports it without network access and within a time
 * limit.
 */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fstatSync, writeFileSync } from 'node:fs';
import { dirname, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeReport } from '../check/check.ts';
import { systemClock } from '../base/clock.ts';
import { SvcError, errorCode } from '../base/errors.ts';
import { within } from '../base/promises.ts';
import { textsOf } from './command.ts';
import { codeOf, makeFolder } from './load.ts';
import type { ChildProcess } from 'node:child_process';
import type { DescribedPlace } from '../db/describe/describer.ts';
import type { RuleText } from '../check/check.ts';
import type { ReportScope } from '../check/report.ts';
import type { StatementFiles } from '../check/statements/databases.ts';
import type { Subject } from './command.ts';
import type { Finding, Place, Report } from '../base/findings.ts';
import type { Target } from './load.ts';
import type { SecurityRequirement } from '../http/contracts.ts';

/** Databases by the name of their plugin. The name is empty if the command line names no plugin. */
export type DescribedPlaces = Readonly<Record<string, DescribedPlace>>;

export interface Job {
  /** Each message of the child repeats this token, because the application may send its own messages. */
  readonly token: string;
  readonly wants: 'report' | 'live' | 'routes' | 'openapi';
  readonly given: string;
  readonly target: Target;
  readonly module: string;
  readonly timeoutMs: number;
  /** An earlier OpenAPI document, which is compared with the document of the application. */
  readonly baseline?: Readonly<Record<string, unknown>> | undefined;
  /** Databases on which statements are prepared. */
  readonly databases?: DescribedPlaces | undefined;
  readonly statementFiles?: StatementFiles | undefined;
}

/** A route in the output of `svc routes`. */
export interface ListedRoute {
  readonly method: string;
  readonly path: string;
  readonly name: string | null;
  readonly security: readonly SecurityRequirement[];
  /** Kinds of the middleware around the route, outermost first; without a kind, the name of its function or class. */
  readonly middleware: readonly string[];
  readonly isPublic: boolean;
  readonly isOperation: boolean;
  readonly place: Place | null;
}

/** First message of the child: it has started, and will now import the application. */
export interface Begun {
  readonly token: string;
  readonly kind: 'begun';
}

/** Last message of the child. */
export type Answer = { readonly token: string } & (
  | {
      readonly kind: 'checked';
      readonly report: Report;
      readonly unprepared: readonly Finding[];
      readonly rules: readonly RuleText[];
      readonly scope: ReportScope;
      readonly lock: string | undefined;
    }
  | { readonly kind: 'routes'; readonly routes: readonly ListedRoute[] }
  /** The OpenAPI document as JSON, and one line for each part of the application that it cannot express. */
  | { readonly kind: 'openapi'; readonly document: string; readonly problems: readonly string[] }
  /** Answer after a failed import. */
  | {
      readonly kind: 'failed';
      readonly isLate: boolean;
      readonly report: Report;
      readonly rules: readonly RuleText[];
    }
  /** Answer after an unexpected error, which is a bug of this package. */
  | { readonly kind: 'crashed'; readonly stack: string }
);

/**
 * Limits of V8, which cost no more processor time (test/soak/check-speed.ts). With semi-spaces of 16 MiB, the default,
 * reading 1,200 files takes 120 MB more. A heap that may grow beyond 2 GiB collects garbage only after it has grown to
 * four times of what it needs, so the check of these files takes 190 to 290 MB; below 1.5 GiB, it grows by 80 % at most.
 */
const HEAP = ['--max-semi-space-size=4', '--max-old-space-size=1536'] as const;

/**
 * Milliseconds that the parent process waits in addition to the time limit of the import: START_MS until the
 * child process has started, and GRACE_MS after that. A blocked child cannot report a timeout itself.
 */
const START_MS = 3_000;
const GRACE_MS = 1_000;

/** Milliseconds that a child process has to drop its scratch database when it ends early. */
export const LEAVE_MS = 5_000;

/** Kind of the answer to each kind of job. With errors, `openapi` gets a report. */
interface Kinds {
  readonly report: 'checked';
  readonly live: 'checked';
  readonly routes: 'routes';
  readonly openapi: 'openapi' | 'checked';
}

export interface AskOptions<W extends Job['wants'] = Job['wants']> {
  readonly wants: W;
  readonly timeoutMs: number;
  /** Replaces the environment variable SVC_ENV in the child process. */
  readonly env?: string | undefined;
  readonly baseline?: Job['baseline'];
  readonly databases?: Job['databases'];
  readonly statementFiles?: StatementFiles | undefined;
  /** Discards the output of the application. Default false: it goes to standard error. */
  readonly isSilent?: boolean | undefined;
}

/**
 * Imports an application in a child process and inspects it. If the application is broken, the answer is a
 * report, and the promise does not reject.
 *
 * @throws Error with the stack of the child process, after a bug of this package
 */
export async function ask<W extends Job['wants']>(
  subject: Subject,
  { wants, timeoutMs, env, baseline, databases, statementFiles, isSilent = false }: AskOptions<W>,
): Promise<Extract<Answer, { kind: Kinds[W] | 'failed' }>> {
  const job: Job = {
    token: randomUUID(),
    wants,
    given: subject.given,
    target: subject.target,
    module: subject.module.href,
    timeoutMs,
    baseline,
    databases,
    statementFiles,
  };
  const child = fork(fileURLToPath(new URL(`./inspect-child${extname(import.meta.url)}`, import.meta.url)), {
    execArgv: [...HEAP, ...process.execArgv],
    stdio: ['ignore', ...(isSilent ? (['ignore', 'ignore'] as const) : [2, 2]), 'ipc'],
    // no compile cache, so that nothing is written to disk
    env: { ...process.env, ...(env === undefined ? {} : { SVC_ENV: env }), NODE_DISABLE_COMPILE_CACHE: '1' },
  });
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const late = (graceMs: number): Disposable =>
    systemClock.after(timeoutMs + graceMs, () =>
      resolve(failed(job, `it did not finish within ${timeoutMs / 1_000} s`, { isLate: true })),
    );
  let deadline = late(START_MS);
  child.on('message', (message: Begun | Answer) => {
    if (message?.token !== job.token) return;
    if (message.kind !== 'begun') return resolve(message);
    deadline[Symbol.dispose]();
    deadline = late(GRACE_MS);
  });
  child.on('error', reject);
  child.on('exit', (status, signal) =>
    resolve(
      failed(
        job,
        `it ended the process with ${signal === null ? `status ${status}` : signal} while it was imported`,
      ),
    ),
  );
  child.send(job);
  try {
    const answer = await promise;
    if (answer.kind === 'crashed')
      throw new Error('The child process of svc that inspects the application has crashed', {
        cause: answer.stack,
      });
    return answer as Extract<Answer, { kind: Kinds[W] | 'failed' }>;
  } finally {
    deadline[Symbol.dispose]();
    if (Object.values(databases ?? {}).some(({ isScratch }) => isScratch)) await left(child);
    child.kill('SIGKILL');
  }
}

/** Waits until the child has dropped its scratch database, which takes a moment after the time limit. */
async function left(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = Promise.withResolvers<void>();
  child.once('exit', () => exited.resolve());
  if (child.connected) child.disconnect();
  await within(systemClock, LEAVE_MS + GRACE_MS, exited.promise, () => undefined);
}

/** Returns the answer for an application that could not be imported. */
export async function failed(
  { token, given }: Pick<Job, 'token' | 'given'>,
  message: string,
  { isLate = false, remedy }: { readonly isLate?: boolean; readonly remedy?: string } = {},
): Promise<Extract<Answer, { kind: 'failed' }>> {
  const { coreRule, textsOf } = await import('../check/rules/rules.ts');
  const { id: rule, severity, remedy: usual } = coreRule('SVC001');
  return {
    token,
    kind: 'failed',
    isLate,
    report: makeReport([{ rule, severity, subject: given, message, remedy: remedy ?? usual }]),
    rules: textsOf(),
  };
}

/** Returns the value of an option, one of `words`; without it, `fallback`. */
export function readWord<const T extends string>(
  option: string,
  text: unknown,
  words: readonly T[],
  fallback: T,
): T {
  if (text === undefined) return fallback;
  const word = words.find((candidate) => candidate === text);
  if (word === undefined)
    throw new SvcError('E_CLI_USAGE', [
      `--${option} needs ${words.join(', ').replace(/, ([^,]+)$/, ' or $1')}, found "${String(text)}"`,
    ]);
  return word;
}

/** Forms of a list that a command prints. */
export const LIST_FORMATS = ['human', 'json'] as const;

export function readFormat({ format }: Readonly<Record<string, unknown>>): 'human' | 'json' {
  return readWord('format', format, LIST_FORMATS, 'human');
}

/**
 * Returns the databases of `--database` and `--scratch-database`. An address may follow the name of a plugin, as in
 * `reporting=postgres://…`. Messages show no address, because it may have a password.
 */
export function readPlaces(values: Readonly<Record<string, unknown>>): DescribedPlaces {
  const places: Record<string, DescribedPlace> = {};
  for (const option of ['database', 'scratch-database'] as const)
    for (const given of textsOf(values, option)) {
      const [, name = '', url = ''] = /^(?:([\w.@/-]+)=)?(.*)$/s.exec(given) ?? [];
      const refuse = (problem: string): never => {
        throw new SvcError('E_CLI_USAGE', [`--${option} ${problem}`]);
      };
      if (!/^[a-z][a-z\d+.-]*:/i.test(url)) refuse('needs an address such as postgres://user@host/database');
      if (Object.hasOwn(places, name))
        refuse(name === '' ? 'names a second database: write name=url' : `names "${name}" a second time`);
      places[name] = { url, isScratch: option === 'scratch-database' };
    }
  return places;
}

export function writeOutput(file: string, text: string, option = 'output'): void {
  try {
    makeFolder(dirname(file));
    writeFileSync(file, `${text}\n`);
  } catch (error) {
    throw new SvcError(
      'E_CLI_USAGE',
      [`the file "${file}" of --${option} cannot be written: ${codeOf(error)}`],
      { cause: error },
    );
  }
}

/** Error codes of a full disk, or of an exhausted quota or file size. */
const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/**
 * Writes to standard output and waits until everything is written, because the process exits right
 * afterwards. A closed pipe is not an error.
 *
 * If standard output is a file, uses writeFileSync(), because a file stream of Node.js reports a partial
 * write as complete.
 */
export async function printAll(text: string): Promise<void> {
  try {
    if (fstatSync(1).isFile()) writeFileSync(1, `${text}\n`);
    else await written(`${text}\n`);
  } catch (error) {
    const code = errorCode(error);
    if (FULL.has(code))
      throw new SvcError('E_CLI_USAGE', [`standard output cannot be written: ${code!}`], { cause: error });
  }
}

function written(text: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  process.stdout.once('error', reject);
  process.stdout.write(text, (error) => {
    if (error == null) resolve();
    else reject(error);
  });
  return promise;
}

/** Whether standard output shows colours, and no variable or option disables them. */
export function hasColours(values: Readonly<Record<string, unknown>>): boolean {
  return (
    process.stdout.isTTY &&
    values['no-color'] !== true &&
    !process.env['NO_COLOR'] &&
    process.env['TERM'] !== 'dumb'
  );
}
