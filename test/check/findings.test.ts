/**
 * `svc check` over the corpus: every planted mistake is found at its line, nothing else is found there, and nothing in applications
 * that have none. Each is checked as a user would: by the command, in a folder of its own, with no other settings than its own.
 */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { before, test } from 'node:test';
import { Svc } from 'svc';
import { BIN, build } from '../support/build.ts';
import { folder, run } from '../support/run.ts';
import { allCases } from './corpus.ts';
import type { TestContext } from 'node:test';
import type { Case } from './corpus.ts';

before(build);

interface Found {
  readonly rule: string;
  readonly severity: string;
  readonly subject: string;
  readonly message: string;
  readonly place: { readonly file: string; readonly line: number } | null;
}

async function check(t: TestContext, { file, env, args, files }: Case): Promise<{ readonly findings: readonly Found[]; readonly cwd: string }> {
  const cwd = folder(t);
  for (const [name, source] of Object.entries(files)) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true });
    if (source === '') writeFileSync(join(cwd, name), '');
    else copyFileSync(source, join(cwd, name));
  }
  const { status, stdout, stderr } = await run(process.execPath, [BIN, 'check', `${file}:app`, '--format', 'json', ...args], { cwd, env });
  assert.match(stdout, /^\{/, `status ${status}: ${stderr}`);
  return { findings: (JSON.parse(stdout) as { findings: Found[] }).findings, cwd };
}

/** What must be found and is not, and what is found and must not be, in words. */
function problems(each: Case, findings: readonly Found[], cwd: string): string[] {
  const isMarked = ({ rule, place }: Found): boolean => each.kind === 'corpus' && rule === each.rule
    && (each.line === undefined || place !== null && place.line === each.line && resolve(cwd, place.file) === each.file);
  const missing = each.kind === 'corpus' && !findings.some(isMarked) ? [`not found: ${each.rule} at line ${each.line}`] : [];
  const surplus = findings.filter((finding) => !isMarked(finding) && finding.severity !== 'info' && finding.rule !== 'SVC404'); // which is of the machine
  return [...missing, ...surplus.map(({ rule, severity, subject, message, place }) => `${severity} ${rule} at ${place?.line}: ${subject}: ${message}`)];
}

const cases = allCases();
const LANES = 3;

test('svc check finds what is marked in each application of the corpus, where it is marked, and nothing else', { skip: process.env['FAST_TESTS'] === '1' && 'FAST_TESTS=1: it starts a process for each of them' }, async (t) => {
  const waiting = cases.filter(({ awaits }) => awaits.every((method) => method in Svc.prototype));
  const wrong: string[] = [];
  let checked = 0;
  await Promise.all(Array.from({ length: LANES }, async () => {
    for (let each = waiting.shift(); each !== undefined; each = waiting.shift()) {
      const { findings, cwd } = await check(t, each);
      checked++;
      wrong.push(...problems(each, findings, cwd).map((problem) => `${each!.kind}/${each!.name}: ${problem}`));
    }
  }));
  assert.deepEqual(wrong, []);
  assert.ok(checked >= 180, `${checked}`);
});
