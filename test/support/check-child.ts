/**
 * Applications checked one after the other in one process, each under its own environment and in its own folder: imported, and
 * asked by `app.check()`, as the process does in which `svc check` imports a single one. That process watches the import besides.
 *
 *   node test/support/check-child.ts subjects.json      [{ file, cwd, env }] → [{ report, rules }]
 */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import type { Svc } from 'svc';
import type { RuleText } from '../../src/check/check.ts';
import type { Report } from '../../src/base/findings.ts';

/** An application that its module exports as `app`. */
export interface CheckSubject {
  readonly file: string;
  readonly cwd: string;
  /** Besides what this process has. */
  readonly env: Readonly<Record<string, string>>;
}

/** What it says of itself. */
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
  Error.stackTraceLimit = 50; // as there
  for (const each of JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as CheckSubject[])
    all.push(await answerOf(each));
  console.log(JSON.stringify(all));
}
