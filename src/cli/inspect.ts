/**
 * Asking a child process about an application: imported there without network, under a time limit, and nowhere else.
 */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fstatSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeReport } from '../check/check.ts';
import { CORE_RULES } from '../check/rules.ts';
import { systemClock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { codeOf } from './load.ts';
import type { RuleText } from '../check/check.ts';
import type { ReportScope } from '../check/report.ts';
import type { Subject } from './command.ts';
import type { Place, Report } from '../base/findings.ts';
import type { Target } from './load.ts';
import type { SecurityRequirement } from '../http/contracts.ts';

/** What the child is asked. */
export interface Job {
  /** Comes back with the answer: the application may send messages of its own. */
  readonly token: string;
  readonly wants: 'report' | 'live' | 'routes' | 'openapi';
  readonly given: string;
  readonly target: Target;
  /** The URL of the module. */
  readonly module: string;
  readonly timeoutMs: number;
  /** An earlier document, which the application is compared with. */
  readonly baseline?: Readonly<Record<string, unknown>> | undefined;
}

/** A route as it is listed. */
export interface ListedRoute {
  readonly method: string;
  readonly path: string;
  readonly name: string | null;
  readonly security: readonly SecurityRequirement[];
  readonly isPublic: boolean;
  readonly isOperation: boolean;
  readonly place: Place | null;
}

/** What comes back first, before anything of the application has run. */
export interface Begun {
  readonly token: string;
  readonly kind: 'begun';
}

/** What comes back in the end. */
export type Answer = { readonly token: string } & (
  | {
      readonly kind: 'checked';
      readonly report: Report;
      readonly rules: readonly RuleText[];
      readonly scope: ReportScope;
    }
  | { readonly kind: 'routes'; readonly routes: readonly ListedRoute[] }
  /** JSON, and what it leaves out, a line each. */
  | { readonly kind: 'openapi'; readonly document: string; readonly problems: readonly string[] }
  /** The module was not imported. */
  | {
      readonly kind: 'failed';
      readonly isLate: boolean;
      readonly report: Report;
      readonly rules: readonly RuleText[];
    }
  /** Our own fault. */
  | { readonly kind: 'crashed'; readonly stack: string }
);

/** How long the child may take to begin, and beyond its own limit to say what keeps it: one that is blocked never will. */
const START_MS = 3_000;
const GRACE_MS = 1_000;

/** The answer for each job, besides `failed`. An application with mistakes has a report in place of a document. */
interface Kinds {
  readonly report: 'checked';
  readonly live: 'checked';
  readonly routes: 'routes';
  readonly openapi: 'openapi' | 'checked';
}

/** How an application is asked. */
export interface AskOptions<W extends Job['wants'] = Job['wants']> {
  readonly wants: W;
  readonly timeoutMs: number;
  /** Instead of SVC_ENV. */
  readonly env?: string | undefined;
  readonly baseline?: Job['baseline'];
}

/**
 * Imports an application in a child process and asks about it. Never rejects for anything that the application does.
 *
 * @throws Error with the child's stack, for our own fault
 */
export async function ask<W extends Job['wants']>(
  subject: Subject,
  { wants, timeoutMs, env, baseline }: AskOptions<W>,
): Promise<Extract<Answer, { kind: Kinds[W] | 'failed' }>> {
  const job: Job = {
    token: randomUUID(),
    wants,
    given: subject.given,
    target: subject.target,
    module: subject.module.href,
    timeoutMs,
    baseline,
  };
  const child = fork(fileURLToPath(new URL(`./inspect-child${extname(import.meta.url)}`, import.meta.url)), {
    stdio: ['ignore', 2, 2, 'ipc'], // what the application prints goes to standard error
    env: { ...process.env, ...(env === undefined ? {} : { SVC_ENV: env }), NODE_DISABLE_COMPILE_CACHE: '1' }, // nothing is written to disk
  });
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const within = (graceMs: number): Disposable =>
    systemClock.after(timeoutMs + graceMs, () =>
      resolve(failed(job, `it did not finish within ${timeoutMs / 1_000} s`, { isLate: true })),
    );
  let deadline = within(START_MS);
  child.on('message', (message: Begun | Answer) => {
    if (message?.token !== job.token) return;
    if (message.kind !== 'begun') return resolve(message);
    deadline[Symbol.dispose]();
    deadline = within(GRACE_MS);
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
    if (answer.kind === 'crashed') throw new Error('The child process failed', { cause: answer.stack });
    return answer as Extract<Answer, { kind: Kinds[W] | 'failed' }>; // by inspect-child.ts
  } finally {
    deadline[Symbol.dispose]();
    child.kill('SIGKILL');
  }
}

/** Nothing came of it: there is no application to ask. */
export function failed(
  { token, given }: Pick<Job, 'token' | 'given'>,
  message: string,
  { isLate = false, remedy }: { readonly isLate?: boolean; readonly remedy?: string } = {},
): Extract<Answer, { kind: 'failed' }> {
  const { id: rule, severity, remedy: usual } = CORE_RULES.find((candidate) => candidate.id === 'SVC001')!; // the catalogue begins with it
  return {
    token,
    kind: 'failed',
    isLate,
    report: makeReport([{ rule, severity, subject: given, message, remedy: remedy ?? usual }]),
    rules: CORE_RULES.map(({ run: _, ...text }) => text),
  };
}

/** A word out of a few, from an option. @throws SvcError `E_CLI_USAGE` */
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

/** Writes a file that an option names. @throws SvcError `E_CLI_USAGE` where that cannot be */
export function writeOutput(file: string, text: string, option = 'output'): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `${text}\n`);
  } catch (error) {
    throw new SvcError('E_CLI_USAGE', [`--${option} ${file} cannot be written: ${codeOf(error)}`], {
      cause: error,
    });
  }
}

/** There is no room for what is written. */
const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/**
 * Writes to standard output and waits until it is there: the process ends at once afterwards. A reader that has left is no fault, half a
 * document in a file is. Files are written here, for Node takes what a stream of one has room for as all of it.
 *
 * @throws SvcError `E_CLI_USAGE` where there is no room
 */
export async function printAll(text: string): Promise<void> {
  try {
    if (fstatSync(1).isFile()) writeFileSync(1, `${text}\n`);
    else await written(`${text}\n`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
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

/** Whether standard output takes colours: a terminal that is not dumb, and nobody asked for none. */
export function hasColours(values: Readonly<Record<string, unknown>>): boolean {
  return (
    process.stdout.isTTY &&
    values['no-color'] !== true &&
    !process.env['NO_COLOR'] &&
    process.env['TERM'] !== 'dumb'
  );
}
