/**
 * Report formats for other programs: each report is parsed again, and the official validator checks SARIF.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  fileOf,
  fingerprints,
  githubReport,
  githubSummary,
  gitlabReport,
  humanReport,
  jsonReport,
  junitReport,
  sarifReport,
} from '../../src/check/report.ts';
import { CORE_RULES } from '../../src/check/rules/rules.ts';
import { makeReport } from '../../src/check/check.ts';
import { scratch } from '../support/scratch.ts';
import type { ReportContext } from '../../src/check/report.ts';
import type { Finding } from '../../src/base/findings.ts';

const CWD = '/project';
const CONTEXT: ReportContext = {
  target: './src/app.ts:app',
  cwd: CWD,
  rules: CORE_RULES.map(({ run: _, ...text }) => text),
};
const at = (file: string, line: number, column: number): Finding['place'] => ({ file, line, column });
const FINDINGS: readonly Finding[] = [
  {
    rule: 'SVC101',
    severity: 'error',
    subject: 'GET /a, b',
    message: 'twice,\nat file:///project/src/a.ts:9 & 100%',
    remedy: 'Leave "one" out',
    place: at('file:///project/src/a%20b.ts', 3, 5),
  },
  {
    rule: 'SVC101',
    severity: 'error',
    subject: 'GET /a, b',
    message: 'twice again',
    remedy: 'Leave one out',
    place: at('/elsewhere/a.ts', 7, 1),
  },
  {
    rule: 'SVC103',
    severity: 'warning',
    subject: 'GET /A',
    message: 'a twin | of `another`',
    remedy: 'Rename it',
    place: at('/project/src/b.ts', 0, 0),
  },
  {
    rule: 'shop/note',
    severity: 'info',
    subject: 'all',
    message: 'noted: \u0000\u001b<>&"\'\ud800',
    remedy: 'Know it',
  },
];
const REPORT = makeReport(FINDINGS, [{ ...FINDINGS[0]!, subject: 'GET /allowed' }]);
const EMPTY = makeReport([]);
const OPTIONS = { version: '1.4.0', isLoaded: true };

test('the fingerprint of a check finding depends on rule, subject and occurrence number, not on message or source position', () => {
  const moved = FINDINGS.map((finding) => ({
    ...finding,
    message: 'other',
    place: at('/project/z.ts', 99, 9),
  }));
  assert.deepEqual(fingerprints(moved), fingerprints(FINDINGS));
  const [first, second, third] = fingerprints(FINDINGS);
  assert.match(first!, /^[0-9a-f]{16}:1$/);
  assert.equal(second, first!.replace(':1', ':2'));
  assert.notEqual(third!.slice(0, 16), first!.slice(0, 16));
});

test('sarifReport() lists each check rule, and lists each finding with level, place and fingerprint', () => {
  const {
    version,
    runs: [run],
  } = JSON.parse(sarifReport(REPORT, CONTEXT, OPTIONS));
  assert.equal(version, '2.1.0');
  assert.deepEqual(
    run.tool.driver.rules.map(({ id }: { id: string }) => id),
    CORE_RULES.map(({ id }) => id),
  );
  assert.deepEqual(
    [run.tool.driver.name, run.tool.driver.version, run.invocations],
    ['svc check', '1.4.0', [{ executionSuccessful: true }]],
  );
  const secret = run.tool.driver.rules.find(({ id }: { id: string }) => id === 'SVC205');
  assert.deepEqual(
    [secret.defaultConfiguration, secret.properties],
    [
      { level: 'error' },
      {
        tags: ['security', 'external/cwe/cwe-798', 'external/cwe/cwe-521'],
        'security-severity': '8.0',
      },
    ],
  );
  assert.equal(run.results.length, FINDINGS.length, 'allowed findings are left out');
  const inOrder = REPORT.findings.map(({ rule, severity, subject }, index) => {
    const result = run.results[index];
    assert.equal(result.ruleId, rule);
    assert.equal(result.level, { error: 'error', warning: 'warning', info: 'note' }[severity]);
    assert.ok(result.message.text.startsWith(subject));
    if (rule === 'shop/note') assert.equal('ruleIndex' in result, false);
    else assert.equal(run.tool.driver.rules[result.ruleIndex].id, rule);
    return [
      result.locations[0].physicalLocation.artifactLocation,
      result.locations[0].physicalLocation.region,
    ];
  });
  assert.deepEqual(inOrder, [
    [{ uri: 'file:///elsewhere/a.ts' }, { startLine: 7, startColumn: 1 }],
    [
      { uri: 'src/a%20b.ts', uriBaseId: '%SRCROOT%' },
      { startLine: 3, startColumn: 5 },
    ],
    [{ uri: 'src/app.ts', uriBaseId: '%SRCROOT%' }, { startLine: 1 }],
    [{ uri: 'src/app.ts', uriBaseId: '%SRCROOT%' }, { startLine: 1 }],
  ]);
  assert.deepEqual(
    run.results.map((result: { partialFingerprints: object }) => result.partialFingerprints),
    fingerprints(REPORT.findings).map((primaryLocationLineHash) => ({ primaryLocationLineHash })),
  );
  assert.equal(
    JSON.parse(sarifReport(EMPTY, CONTEXT, { ...OPTIONS, isLoaded: false })).runs[0].invocations[0]
      .executionSuccessful,
    false,
  );
});

test('sarifReport() keeps the 25,000 most severe results if there are more findings', () => {
  const many = makeReport(
    Array.from({ length: 25_010 }, (_, index): Finding => ({
      rule: 'SVC103',
      severity: index < 20 ? 'error' : 'warning',
      subject: `GET /${index}`,
      message: 'm',
      remedy: 'r',
    })),
  );
  const { results } = JSON.parse(sarifReport(many, CONTEXT, OPTIONS)).runs[0] as {
    results: { level: string }[];
  };
  assert.equal(results.length, 25_000);
  assert.equal(results.filter(({ level }) => level === 'error').length, 20);
});

test(
  'the official SARIF validator accepts the output of sarifReport()',
  { skip: process.platform !== 'linux' && 'the validator package supports only Linux' },
  (t) => {
    const folder = scratch(t, 'sarif', { '@microsoft/sarif-multitool-linux': '5.7.0' });
    if (folder === undefined) return;
    const place = mkdtempSync(join(tmpdir(), 'svc-sarif-'));
    t.after(() => rmSync(place, { recursive: true, force: true }));
    const validator = join(folder, 'node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool');
    chmodSync(validator, 0o755); // install scripts are off, so no script has set the mode
    const validate = (text: string): { status: number | null; problems: string[] } => {
      const [input, output] = [join(place, 'in.sarif'), join(place, 'out.sarif')];
      writeFileSync(input, text);
      const { status, error } = spawnSync(
        validator,
        ['validate', input, '--output', output, '--log', 'ForceOverwrite', '--rule-kind', 'Sarif;Gh'],
        {
          env: { ...process.env, DOTNET_SYSTEM_GLOBALIZATION_INVARIANT: '1' },
          encoding: 'utf8',
          timeout: 60_000,
        },
      );
      if (error !== undefined) throw error;
      const { runs } = JSON.parse(readFileSync(output, 'utf8').replace(/^\uFEFF/, '')) as {
        runs: {
          results?: { ruleId: string; level?: string; kind?: string; message: { arguments?: string[] } }[];
        }[];
      };
      return {
        status,
        problems: (runs[0]?.results ?? []).map(
          ({ ruleId, level, message }) =>
            `${level ?? 'warning'} ${ruleId} ${message.arguments?.join(' ') ?? ''}`,
        ),
      };
    };
    const reported = validate(sarifReport(REPORT, IN_REPOSITORY, OPTIONS));
    assert.deepEqual(
      reported.problems.filter((problem) => problem.startsWith('error')),
      [],
    );
    assert.deepEqual(
      validate(sarifReport(EMPTY, CONTEXT, OPTIONS)).problems.filter((problem) =>
        problem.startsWith('error'),
      ),
      [],
    );
    const broken = JSON.parse(sarifReport(REPORT, CONTEXT, OPTIONS));
    broken.runs[0].results[0].ruleIndex = 999;
    broken.runs[0].results[1].locations[0].physicalLocation.region.startLine = 0;
    assert.notDeepEqual(
      validate(JSON.stringify(broken)).problems.filter((problem) => problem.startsWith('error')),
      [],
      'the validator looks',
    );
  },
);

test('githubReport() writes one correctly escaped workflow command of GitHub Actions for each finding, most severe first', () => {
  const lines = githubReport(REPORT, CONTEXT).split('\n');
  const read = lines.slice(0, -1).map((line) => {
    const [, command, properties, data] = /^::(\w+) ([^:]*)::(.*)$/.exec(line)!;
    const unescape = (text: string): string =>
      text
        .replace(/%3A/g, ':')
        .replace(/%2C/g, ',')
        .replace(/%0D/g, '\r')
        .replace(/%0A/g, '\n')
        .replace(/%25/g, '%');
    return {
      command,
      ...Object.fromEntries(
        properties!.split(',').map((pair) => {
          const cut = pair.indexOf('=');
          return [pair.slice(0, cut), unescape(pair.slice(cut + 1))];
        }),
      ),
      data: unescape(data!),
    };
  });
  assert.deepEqual(read, [
    {
      command: 'error',
      file: '/elsewhere/a.ts',
      line: '7',
      col: '1',
      title: 'SVC101 GET /a, b',
      data: 'twice again\nFix: Leave one out',
    },
    {
      command: 'error',
      file: 'src/a b.ts',
      line: '3',
      col: '5',
      title: 'SVC101 GET /a, b',
      data: 'twice,\nat src/a.ts:9 & 100%\nFix: Leave "one" out',
    },
    {
      command: 'warning',
      file: 'src/app.ts',
      title: 'SVC103 GET /A',
      data: 'a twin | of `another`\nFix: Rename it',
    },
    {
      command: 'notice',
      file: 'src/app.ts',
      title: 'shop/note all',
      data: `${FINDINGS[3]!.message}\nFix: Know it`,
    },
  ]);
  assert.equal(lines.at(-1), './src/app.ts:app: errors 2, warnings 1, notes 1, allowed 1');
});

test('githubSummary() escapes the text of findings so that no text can break the Markdown table', () => {
  const rows = githubSummary(REPORT, CONTEXT).trimEnd().split('\n').slice(4);
  assert.equal(rows.length, FINDINGS.length);
  for (const row of rows) assert.equal(row.split(/(?<!\\)\|/).length, 8, row);
  assert.match(githubSummary(EMPTY, CONTEXT), /Nothing found/);
});

test('gitlabReport() returns GitLab code-quality issues with description, check name, fingerprint, severity and place', () => {
  const issues = JSON.parse(gitlabReport(REPORT, CONTEXT)) as {
    description: string;
    check_name: string;
    fingerprint: string;
    severity: string;
    location: { path: string; lines: { begin: number } };
  }[];
  assert.deepEqual(
    issues.map(({ check_name, severity, location }) => [
      check_name,
      severity,
      location.path,
      location.lines.begin,
    ]),
    [
      ['SVC101', 'critical', '/elsewhere/a.ts', 7],
      ['SVC101', 'critical', 'src/a b.ts', 3],
      ['SVC103', 'minor', 'src/app.ts', 1],
      ['shop/note', 'info', 'src/app.ts', 1],
    ],
  );
  assert.equal(new Set(issues.map(({ fingerprint }) => fingerprint)).size, 4);
  assert.equal(issues[0]!.description, 'GET /a, b: twice again. Fix: Leave one out');
  assert.deepEqual(JSON.parse(gitlabReport(EMPTY, CONTEXT)), []);
});

interface SarifResult {
  readonly locations: readonly {
    readonly physicalLocation: { readonly artifactLocation: { readonly uri: string } };
  }[];
}

/** A monorepo: the working folder is a part of the repository. */
const IN_REPOSITORY: ReportContext = {
  ...CONTEXT,
  cwd: '/repo/apps/shop',
  root: '/repo',
  scope: {
    env: 'production',
    routes: 1,
    sockets: 0,
    tools: 0,
    files: 2,
    unread: [{ file: '/repo/apps/shop/src/big.js', why: 'the file is too large' }],
    statements: { described: 0, other: 0, unknown: [] },
  },
};
const OF_REPOSITORY = makeReport([
  {
    ...FINDINGS[0]!,
    message: 'as at file:///repo/apps/shop/src/a.ts:9',
    place: at('file:///repo/lib/b.ts', 3, 5),
  },
  { ...FINDINGS[2]!, place: undefined },
]);

test('the GitHub, GitLab and SARIF reports have paths from the root of the repository, also for findings without a place', () => {
  const [first, second] = githubReport(OF_REPOSITORY, IN_REPOSITORY).split('\n');
  assert.match(
    first!,
    /^::error file=lib\/b\.ts,line=3,col=5,title=[^:]*::as at apps\/shop\/src\/a\.ts:9%0A/,
  );
  assert.match(second!, /^::warning file=apps\/shop\/src\/app\.ts,title=/);
  assert.match(
    githubSummary(OF_REPOSITORY, IN_REPOSITORY),
    /\| lib\/b\.ts:3 \| as at apps\/shop\/src\/a\.ts:9 \|/,
  );
  const issues = JSON.parse(gitlabReport(OF_REPOSITORY, IN_REPOSITORY)) as { location: { path: string } }[];
  assert.deepEqual(
    issues.slice(0, 2).map(({ location }) => location.path),
    ['lib/b.ts', 'apps/shop/src/app.ts'],
  );
  const [run] = JSON.parse(sarifReport(OF_REPOSITORY, IN_REPOSITORY, OPTIONS)).runs;
  assert.deepEqual(run.originalUriBaseIds, { '%SRCROOT%': { uri: 'file:///repo/' } });
  assert.deepEqual(
    run.results.map((result: SarifResult) => result.locations[0]!.physicalLocation.artifactLocation.uri),
    ['lib/b.ts', 'apps/shop/src/app.ts'],
  );
  assert.match(run.results[0].message.text, /as at apps\/shop\/src\/a\.ts:9/);
});

test('every report format names the source files that were not read, with the reason', () => {
  const isHere = (text: string, file = 'apps/shop/src/big.js'): void => {
    assert.ok(text.includes(file), text);
    assert.ok(text.includes('the file is too large'), text);
  };
  isHere(humanReport(EMPTY, IN_REPOSITORY, false), 'src/big.js');
  isHere(jsonReport(EMPTY, IN_REPOSITORY), 'src/big.js');
  isHere(githubReport(EMPTY, IN_REPOSITORY).split('\n')[0]!);
  isHere(githubSummary(EMPTY, IN_REPOSITORY).replaceAll('\\', ''));
  const [issue] = JSON.parse(gitlabReport(EMPTY, IN_REPOSITORY)) as { severity: string; location: object }[];
  isHere(JSON.stringify(issue));
  assert.deepEqual(
    [issue!.severity, issue!.location],
    ['info', { path: 'apps/shop/src/big.js', lines: { begin: 1 } }],
  );
  const [{ invocations }] = JSON.parse(sarifReport(EMPTY, IN_REPOSITORY, OPTIONS)).runs;
  isHere(JSON.stringify(invocations[0].toolExecutionNotifications));
  const suites = elements(junitReport(EMPTY, IN_REPOSITORY, () => true));
  const skipped = suites.findIndex(({ name }) => name === 'skipped');
  isHere(
    `${suites[skipped - 1]!.attributes['name']} ${suites[skipped]!.attributes['message']}`,
    'src/big.js',
  );
});

test('every report format says how to judge the statements to a database without a known schema', () => {
  const remedy = 'name a server by --scratch-database';
  const statements = { described: 0, other: 13, unknown: [], remedy };
  const context = { ...IN_REPOSITORY, scope: { ...IN_REPOSITORY.scope!, unread: [], statements } };
  const [checked, note] = humanReport(EMPTY, context, false).split('\n');
  assert.match(checked!, /0 statements \(not judged: 13\)/);
  assert.equal(note, `note: 13 SQL statements not judged: ${remedy}`);
  assert.equal(JSON.parse(jsonReport(EMPTY, context)).scope.statements.remedy, remedy);
  const why = `SQL statements that were not judged: 13 of 13; ${remedy}`;
  assert.equal(
    githubReport(EMPTY, context).split('\n')[0],
    `::notice file=apps/shop/src/app.ts,title=svc check::${why}`,
  );
  assert.ok(githubSummary(EMPTY, context).includes(why));
  assert.equal(JSON.parse(gitlabReport(EMPTY, context))[0].description, why);
  const [{ invocations }] = JSON.parse(sarifReport(EMPTY, context, OPTIONS)).runs;
  assert.equal(invocations[0].toolExecutionNotifications[0].message.text, why);
  assert.ok(junitReport(EMPTY, context, () => true).includes(why));
});

/** Parses the XML of JUnit reports into elements with attributes and text. Fails on text that is not well-formed. */
function elements(xml: string): { name: string; attributes: Record<string, string>; text: string }[] {
  const found: { name: string; attributes: Record<string, string>; text: string }[] = [];
  const open: { name: string; attributes: Record<string, string>; text: string }[] = [];
  const decode = (text: string): string =>
    text.replace(/&(?:#(\d+)|(\w+));/g, (_all, code: string | undefined, name: string | undefined) =>
      code !== undefined
        ? String.fromCodePoint(Number(code))
        : ({ amp: '&', lt: '<', gt: '>', quot: '"' } as Record<string, string>)[name!]!,
    );
  for (const [, text, tag] of xml.replace(/^<\?xml[^?]*\?>/, '').matchAll(/([^<]*)(?:<([^>]*)>)?/g)) {
    assert.doesNotMatch(text!, /&(?!(?:amp|lt|gt|quot|#\d+);)/);
    if (open.length > 0) open.at(-1)!.text += decode(text!);
    if (tag === undefined) continue;
    if (tag.startsWith('/')) {
      assert.equal(open.pop()!.name, tag.slice(1));
      continue;
    }
    const [, name, rest, isEmpty] = /^([\w-]+)((?:\s+\w+="[^"<]*")*)\s*(\/?)$/.exec(tag) ?? assert.fail(tag);
    const element = {
      name: name!,
      attributes: Object.fromEntries(
        [...rest!.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key!, decode(value!)]),
      ),
      text: '',
    };
    found.push(element);
    if (isEmpty === '') open.push(element);
  }
  assert.deepEqual(open, []);
  return found;
}

test('junitReport() has a test case for each check rule, which fails if findings of the rule make the check fail', () => {
  const rules = [
    ...CONTEXT.rules,
    { id: 'shop/note', severity: 'info', why: 'to <know> & "tell"', remedy: 'Know it', phase: 'contract' },
  ] as const;
  const read = elements(junitReport(REPORT, { ...CONTEXT, rules }, ({ severity }) => severity === 'error'));
  const [all] = read;
  assert.deepEqual(
    [all!.name, all!.attributes],
    ['testsuites', { name: 'svc check ./src/app.ts:app', tests: String(rules.length), failures: '1' }],
  );
  assert.deepEqual(
    read.filter(({ name }) => name === 'testsuite').map(({ attributes }) => attributes['name']),
    [...new Set(rules.map(({ phase }) => phase))],
  );
  assert.equal(read.filter(({ name }) => name === 'testcase').length, rules.length);
  const [failure, ...others] = read.filter(({ name }) => name === 'failure');
  assert.deepEqual([others, failure!.attributes['type']], [[], 'error']);
  assert.match(
    failure!.text,
    /^error: GET \/a, b at \/elsewhere\/a\.ts:7:1\ntwice again\nfix: Leave one out\n\nerror: GET \/a, b at src\/a b\.ts:3:5\n/,
  );
  const reported = read.filter(({ name }) => name === 'system-out').map(({ text }) => text);
  assert.equal(reported.length, 2);
  assert.ok(
    reported.some((text) => text.includes('noted: \uFFFD\uFFFD<>&"\'\uFFFD')),
    'what XML cannot hold is replaced',
  );
});

test('fileOf() returns the file name in a target such as src/app.ts:app', () => {
  assert.deepEqual(['src/app.ts:app', './app.ts', 'C:/x/app.ts:app', 'app.js:default'].map(fileOf), [
    'src/app.ts',
    'app.ts',
    'C:/x/app.ts',
    'app.js',
  ]);
});
