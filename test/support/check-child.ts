/**
 * Checks applications one after the other in one process, each with its own environment and folder. Each is
 * imported and checked by `app.check()`, as in the process in which `svc check` imports an application.
 * Unlike that process, it does not watch the import.
 *
 *   node test/support/check-child.ts subjects.json      [{ file, cwd, env }] → [{ report, rules }]
 */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import type { Svc } from 'svc';
import type { RuleText } from '../../src/check/check.ts';
import type { Report } from '../../src/base/findings.ts';

/** An application to check, which its module exports as `app`. */
export interface CheckSubject {
  readonly file: string;
  readonly cwd: string;
  /** Variables that are added to those of this process. */
  readonly env: Readonly<Record<string, string>>;
}

/** A line that this program prints: the findings of one application. */
export interface CheckAnswer {
  readonly report: Report;
  readonly rules: readonly RuleText[];
}

async function answerOf({ file, cwd, env }: CheckSubject): Promise<CheckAnswer> {
  process.chdir(cwd);
  Object.assign(process.env, env);
  const { app } = (await import(pathToFileURL(file).href)) as { app: Svc };
  const answer = { report: app.check(), rules: app.rules };
  for (const name of Object.keys(env)) delete process.env[name];
  return answer;
}

if (import.meta.main) {
  const all: CheckAnswer[] = [];
  Error.stackTraceLimit = 50; // same limit as in `svc check`
  for (const each of JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as CheckSubject[])
    all.push(await answerOf(each));
  console.log(JSON.stringify(all));
}
