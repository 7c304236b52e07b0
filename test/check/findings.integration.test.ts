/**
 * `svc check` over the cases of corpus.ts: it reports every marked mistake at its line, and no other error or warning.
 *
 * Each case runs in its own folder with its own environment. Cases that depend on the import, the arguments or the whole
 * application run the command. The other cases share one child process that calls app.check().
 */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { before, test } from 'node:test';
import { Svc } from 'svc';
import { jsonReport } from '../../src/check/report.ts';
import { BIN, ROOT, build } from '../support/build.ts';
import { messagesIn, patternOf, textsOf } from '../support/messages.ts';
import { folder, run } from '../support/run.ts';
import { severityOf } from '../support/severities.ts';
import { allCases } from './corpus.ts';
import type { TestContext } from 'node:test';
import type { CheckAnswer, CheckSubject } from '../support/check-child.ts';
import type { Case } from './corpus.ts';

before(build);

interface Found {
  readonly rule: string;
  readonly severity: string;
  readonly subject: string;
  readonly message: string;
  readonly place: { readonly file: string; readonly line: number } | null;
}

/** Creates a working directory with the files of a case. */
function folderOf(t: TestContext, { files }: Case): string {
  const cwd = folder(t);
  for (const [name, source] of Object.entries(files)) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true });
    if (source === '') writeFileSync(join(cwd, name), '');
    else copyFileSync(source, join(cwd, name));
  }
  return cwd;
}

/** Runs the command `svc check` on a case and returns its problems. */
async function byCommand(t: TestContext, each: Case): Promise<string[]> {
  const cwd = folderOf(t, each);
  const { status, stdout, stderr } = await run(
    process.execPath,
    [BIN, 'check', `${each.file}:app`, '--format', 'json', ...each.args],
    { cwd, env: each.env },
  );
  assert.match(stdout, /^\{/, `status ${status}: ${stderr}`);
  const findings = findingsIn(stdout);
  const statuses = findings.some(({ severity }) => severity === 'error') ? [1, 3] : [0]; // 3: the import failed
  return [...(statuses.includes(status!) ? [] : [`status ${status}`]), ...problems(each, findings, cwd)];
}

function findingsIn(json: string): readonly Found[] {
  return (JSON.parse(json) as { findings: Found[] }).findings;
}

/** Checks several cases in one child process and returns the problems of each. */
async function together(t: TestContext, shared: readonly Case[]): Promise<string[][]> {
  const subjects = shared.map((each): CheckSubject => ({
    file: each.file,
    cwd: folderOf(t, each),
    env: each.env,
  }));
  const cwd = folder(t, { 'subjects.json': JSON.stringify(subjects) });
  const { status, stdout, stderr } = await run(
    process.execPath,
    [join(ROOT, 'test/support/check-child.ts'), 'subjects.json'],
    { cwd },
  );
  assert.equal(status, 0, stderr);
  const all = JSON.parse(stdout.slice(stdout.lastIndexOf('\n', stdout.length - 2) + 1)) as CheckAnswer[]; // applications may print earlier lines
  assert.equal(all.length, shared.length);
  return all.map(({ report, rules }, index) => {
    const { file: target, cwd: place } = subjects[index]!;
    return problems(shared[index]!, findingsIn(jsonReport(report, { target, cwd: place, rules })), place);
  });
}

/** Messages of all findings. */
const messages = new Set<string>();

/** Returns the differences between expected and reported findings, as text. */
function problems(each: Case, findings: readonly Found[], cwd: string): string[] {
  for (const { message } of findings) messages.add(message);
  const isMarked = ({ rule, place }: Found): boolean =>
    each.kind === 'corpus' &&
    rule === each.rule &&
    (each.line === undefined || (place?.line === each.line && resolve(cwd, place!.file) === each.file));
  const missing =
    each.kind === 'corpus' && !findings.some(isMarked)
      ? [`not found: ${each.rule} at line ${each.line}`]
      : [];
  const surplus = findings.filter(
    (finding) => !isMarked(finding) && finding.severity !== 'info' && finding.rule !== 'SVC404',
  ); // SVC404 depends on the machine
  const mistaken = findings.filter(
    (finding) => (severityOf(finding) ?? finding.severity) !== finding.severity,
  );
  return [
    ...missing,
    ...mistaken.map(
      ({ rule, severity, message }) =>
        `severity ${severity}, expected ${severityOf({ rule, message })}: ${rule}: ${message}`,
    ),
    ...surplus.map(
      ({ rule, severity, subject, message, place }) =>
        `${severity} ${rule} at ${place?.line}: ${subject}: ${message}`,
    ),
  ];
}

const LANES = 3;
/** Examples that one child process checks. */
const GROUP = 25;
/** Rules that only the command reports or places, or that depend on the process. */
const OF_THE_COMMAND: ReadonlySet<string | undefined> = new Set([
  'SVC001',
  'SVC113',
  'SVC203',
  'SVC219',
  'SVC305',
  'SVC306',
  'SVC401',
  'SVC403',
  'SVC404',
  'SVC502',
  'SVC503',
]);
const cases = allCases().filter(({ awaits }) => awaits.every((method) => method in Svc.prototype));
const isAlone = ({ kind, imports, args, rule }: Case): boolean =>
  kind === 'clean' || imports !== 'well' || args.length > 0 || OF_THE_COMMAND.has(rule);

// each example has its own time limit, because the limit of a busy machine for all of them is unknown
const OPTIONS = { timeout: Infinity, concurrency: LANES };

test(
  'svc check reports each marked line of the examples in test/check/corpus, and reports no error or warning for unmarked lines',
  OPTIONS,
  async (t) => {
    const shared = cases.filter((each) => !isAlone(each));
    const alone = cases.filter(isAlone);
    assert.ok(alone.length >= 40, `${alone.length} by the command`);
    assert.ok(cases.length >= 180, `${cases.length}`);
    const names = (some: readonly Case[]): string =>
      some.map(({ kind, name }) => `${kind}/${name}`).join(', ');
    const groups = Array.from({ length: Math.ceil(shared.length / GROUP) }, (_, index) =>
      shared.slice(index * GROUP, (index + 1) * GROUP),
    );
    await Promise.all([
      ...groups.map((group) =>
        t.test(names(group), async (part) => {
          const found = await together(part, group);
          assert.deepEqual(
            found.flatMap((each, index) => each.map((problem) => `${names([group[index]!])}: ${problem}`)),
            [],
          );
        }),
      ),
      ...alone.map((each) =>
        t.test(names([each]), async (part) => assert.deepEqual(await byCommand(part, each), [])),
      ),
    ]);
    // a subtest, because it needs the messages of all cases, and tests run in random order
    await t.test(
      'each message of the rules for applications is produced by an example in test/check/corpus or expected by another test',
      checkMessages,
    );
  },
);

/** Returns the longest literal part of a message. */
const longest = (texts: readonly string[]): string =>
  texts.reduce((one, other) => (other.length > one.length ? other : one)).trim();

function checkMessages(): void {
  const tests = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => readFileSync(join(import.meta.dirname, name), 'utf8'))
    .join('\n');
  const written = messagesIn('src/check/rules', false).flatMap(textsOf);
  assert.ok(written.length >= 50, `${written.length}`);
  const missing = written.filter(
    (texts) =>
      !tests.includes(longest(texts)) &&
      ![...messages].some((message) => new RegExp(`^${patternOf(texts)}$`).test(message)),
  );
  assert.deepEqual(missing, []);
}
