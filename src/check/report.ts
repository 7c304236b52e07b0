/**
 * Report formats: text for people, JSON with the stable `schemaVersion` 1, GitHub, GitLab, JUnit and SARIF.
 */
import { pathToFileURL } from 'node:url';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { createHash } from 'node:crypto';
import { fileOfPlace } from '../base/findings.ts';
import type { RuleText } from './check.ts';
import type { Unjudged } from './sources.ts';
import type { StatementScope } from './statements/databases.ts';
import type { Finding, Place, Report, Severity } from '../base/findings.ts';

/** Data that a report needs besides its findings. */
export interface ReportContext {
  /** Target of the command line, such as `src/app.ts:app`. */
  readonly target: string;
  readonly cwd: string;
  /**
   * Root of the repository: files have paths from there in the formats of CI systems (GitHub, GitLab, SARIF).
   * Default: the working folder.
   */
  readonly root?: string | undefined;
  /** Rules that the report lists. They include at least every rule with a finding. */
  readonly rules: readonly RuleText[];
  /** Scope of the check, such as the number of routes. Absent if the application could not be loaded. */
  readonly scope?: ReportScope | undefined;
  /** Whether the report lists the statements that are not known. */
  readonly isVerbose?: boolean;
  /** Number of suppressed findings that the file of `--known` lists. */
  readonly known?: number;
}

/** Scope of a check: the environment, the numbers of checked parts, and the files that could not be read. */
export interface ReportScope {
  /** Environment in which the application was checked. */
  readonly env: string;
  readonly routes: number;
  readonly tools: number;
  readonly sockets: number;
  /** Number of source files that were read. */
  readonly files: number;
  /** Source files that were not read, with the reason. */
  readonly unread: readonly { readonly file: string; readonly why: string }[];
  /** Calls that look dangerous and that no rule could judge, with the reason. Only with `--verbose`. */
  readonly unjudged?: readonly Unjudged[] | undefined;
  /** Numbers of the SQL statements in the sources. */
  readonly statements: StatementScope;
}

/**
 * Words for each severity: the heading in the text, the commands of GitHub, and the severities of GitLab and SARIF. `score` is
 * that of security rules, up to 10: GitHub shows 7 and above as "high", and 4 and above as "medium".
 */
const WORDS = {
  error: { heading: 'Errors', command: 'error', gitlab: 'critical', sarif: 'error', score: '8.0' },
  warning: { heading: 'Warnings', command: 'warning', gitlab: 'minor', sarif: 'warning', score: '5.0' },
  info: { heading: 'Notes', command: 'notice', gitlab: 'info', sarif: 'note', score: '2.0' },
} as const;
const COLOURS = { error: '31', warning: '33', info: '36', dim: '2', bold: '1' } as const;

/** Colours a text. Returns it unchanged if the report has no colours. */
type Paint = (colour: keyof typeof COLOURS, text: string) => string;

/** Returns how many findings have each severity. */
export function countFindings(findings: readonly Finding[]): Readonly<Record<Severity, number>> {
  const count = (severity: Severity): number =>
    findings.filter((finding) => finding.severity === severity).length;
  return { error: count('error'), warning: count('warning'), info: count('info') };
}

/** Returns the report as text, grouped by severity. Each finding has its place, reason and remedy. */
export function humanReport(
  report: Report,
  { target, cwd, rules, scope, isVerbose = false, known = 0 }: ReportContext,
  hasColour: boolean,
): string {
  const paint: Paint = hasColour
    ? (colour, text) => `\u001b[${COLOURS[colour]}m${text}\u001b[0m`
    : (_colour, text) => text;
  const counts = countFindings(report.findings);
  const { other = 0, remedy } = scope?.statements ?? {};
  const explained = new Set<string>();
  const groups = (['error', 'warning', 'info'] as const).flatMap((severity) => {
    const findings = report.findings.filter((finding) => finding.severity === severity);
    if (findings.length === 0) return [];
    return [
      paint('bold', WORDS[severity].heading),
      ...findings.flatMap((finding) => describe(finding, cwd, newWhyOf(finding), paint)),
      '',
    ];
  });
  const allowed = report.suppressed.length - known;
  const suppressed = `${allowed === 0 ? '' : `, ${allowed} allowed`}${known === 0 ? '' : `, ${known} known`}`;
  const summary =
    report.findings.length === 0
      ? `${target}: nothing found${suppressed}`
      : `${target}: ${plural(counts.error, 'error')}, ${plural(counts.warning, 'warning')}` +
        (counts.info === 0 ? '' : `, ${plural(counts.info, 'note')}`) +
        suppressed;
  return [
    ...groups,
    ...(scope === undefined ? [] : [paint('dim', scopeLine(scope, cwd, isVerbose))]),
    ...(remedy === undefined ? [] : [`note: ${plural(other, 'SQL statement')} not judged: ${remedy}`]),
    summary,
  ].join('\n');

  /** Returns the reason of a finding, or undefined if the report already contains this reason. */
  function newWhyOf(finding: Finding): string | undefined {
    const why = whyOf(finding, rules);
    if (why === undefined || explained.has(why)) return undefined;
    explained.add(why);
    return why;
  }
}

function whyOf({ rule, why }: Finding, rules: readonly RuleText[]): string | undefined {
  return why ?? rules.find(({ id }) => id === rule)?.why;
}

function scopeLine(
  { env, routes, tools, sockets, files, unread, statements, unjudged = [] }: ReportScope,
  cwd: string,
  isVerbose: boolean,
): string {
  const parts = { route: routes, socket: sockets, tool: tools, file: files };
  const counted = Object.entries(parts).map(([what, count]) => plural(count, what));
  const left = unread.map(({ file, why }) => `; not read: ${relativeFile(file, cwd)} (${why})`).join('');
  const unknown = [
    ...statements.unknown.map((place) => `the statement at ${shownPlace(place, cwd)} is not known`),
    ...unjudged.map(({ place, why }) => `${shownPlace(place, cwd)}: ${why}`),
  ].map((line) => `\n  ${line}`);
  return `Checked ${[...counted, ...statementsIn(statements)].join(', ')}, as ${env}; packages and external services were not checked${left}${isVerbose ? unknown.join('') : ''}`;
}

/** Returns the numbers of the SQL statements in words; nothing for sources without statements. */
function statementsIn({ described, other, unknown }: StatementScope): readonly string[] {
  if (described + other + unknown.length === 0) return [];
  const left = other + unknown.length === 0 ? '' : ` (not judged: ${other + unknown.length})`;
  return [`${plural(described, 'statement')}${left}`];
}

function describe(
  { rule, severity, subject, message, remedy, place }: Finding,
  cwd: string,
  why: string | undefined,
  paint: Paint,
): string[] {
  const where = place === undefined || place.line === 0 ? '' : `  ${paint('dim', shownPlace(place, cwd))}`;
  return [
    `  ${paint(severity, rule)}  ${subject}${where}`,
    `      ${relativeText(message, cwd)}`,
    ...(why === undefined ? [] : [`      why: ${why}`]),
    `      fix: ${remedy}`,
  ];
}

function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/**
 * Returns one JSON document with `ok`, `counts`, `findings` and `suppressed`. Files below the working folder
 * have relative paths.
 */
export function jsonReport(report: Report, { target, cwd, rules, scope }: ReportContext): string {
  const plain = (finding: Finding): object => {
    const { rule, severity, subject, message, remedy, place } = finding;
    return {
      rule,
      severity,
      subject,
      message: relativeText(message, cwd),
      why: whyOf(finding, rules) ?? null,
      remedy,
      place: place === undefined || place.line === 0 ? null : plainPlace(place, cwd),
    };
  };
  return JSON.stringify(
    {
      schemaVersion: report.schemaVersion,
      target,
      ok: report.ok,
      counts: { ...countFindings(report.findings), suppressed: report.suppressed.length },
      findings: report.findings.map(plain),
      suppressed: report.suppressed.map(plain),
      scope: scope && {
        ...scope,
        unread: scope.unread.map(({ file, why }) => ({ file: relativeFile(file, cwd), why })),
        statements: {
          ...scope.statements,
          unknown: scope.statements.unknown.map((place) => plainPlace(place, cwd)),
        },
      },
    },
    null,
    2,
  );
}

const plainPlace = ({ file, ...at }: Place, cwd: string): Place => ({ file: relativeFile(file, cwd), ...at });

/** Returns a place as text, such as `src/app.ts:12:5`. */
export function shownPlace(place: Place, cwd: string): string {
  return place.line === 0 ? '' : `${relativeFile(place.file, cwd)}:${place.line}:${place.column}`;
}

/**
 * Returns the path of a file. It is relative, with slashes, if the file is below the working folder, and
 * otherwise absolute.
 */
export function relativeFile(file: string, cwd: string): string {
  const path = fileOfPlace({ file });
  const below = relative(cwd, path);
  return below === '' || below.startsWith('..') || isAbsolute(below) ? path : below.replaceAll(sep, '/');
}

/** Removes the working folder from file paths in a message. */
function relativeText(text: string, cwd: string): string {
  return text.replaceAll(`${pathToFileURL(cwd).href}/`, '').replaceAll(`${cwd}${sep}`, '');
}

/** A finding with its file and its message as they are from one folder. The line is 1 for a finding without a place. */
interface Row extends Omit<Finding, 'place'> {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Whether the place is known. Otherwise it is the file of the target. */
  readonly isKnown: boolean;
}

/** Returns the findings as they are from the root of the repository, or from another folder. */
function rowsOf(
  findings: readonly Finding[],
  { target, cwd, root = cwd }: ReportContext,
  from = root,
): readonly Row[] {
  return findings.map(({ place, message, ...finding }) => ({
    ...finding,
    message: relativeText(message, from),
    ...(place === undefined || place.line === 0
      ? { file: relativeFile(resolve(cwd, fileOf(target)), from), line: 1, column: 1, isKnown: false }
      : { ...place, file: relativeFile(place.file, from), isKnown: true }),
  }));
}

/**
 * Returns what was not checked, with the reason: source files that were not read, from the root of the repository, and
 * statements, for which the file is that of the target.
 */
function unreadOf(context: ReportContext): readonly { file: string; why: string }[] {
  const { scope, target, cwd, root = cwd } = context;
  const { described = 0, other = 0, unknown = [], remedy } = scope?.statements ?? {};
  const unread = (scope?.unread ?? []).map(({ file, why }) => ({
    file: relativeFile(file, root),
    why: `the file was not read: ${relativeText(why, root)}`,
  }));
  if (remedy === undefined) return unread;
  const file = relativeFile(resolve(cwd, fileOf(target)), root);
  const why = `SQL statements that were not judged: ${other} of ${described + other + unknown.length}; ${remedy}`;
  return [...unread, { file, why }];
}

/**
 * Returns one workflow command of GitHub Actions for each finding and for all that was not checked, then a
 * summary. GitHub shows only ten findings of each level, so the most severe come first.
 */
export function githubReport(report: Report, context: ReportContext): string {
  const { target, known = 0 } = context;
  const { error, warning, info } = countFindings(report.findings);
  return [
    ...rowsOf(report.findings, context).map(({ file, line, column, isKnown, ...row }) =>
      workflowCommand(
        WORDS[row.severity].command,
        { file, ...(isKnown ? { line, col: column } : {}), title: `${row.rule} ${row.subject}` },
        `${row.message}\nFix: ${row.remedy}`,
      ),
    ),
    ...unreadOf(context).map(({ file, why }) => workflowCommand('notice', { file, title: 'svc check' }, why)),
    `${target}: errors ${error}, warnings ${warning}, notes ${info}, allowed ${report.suppressed.length - known}${known === 0 ? '' : `, known ${known}`}`,
  ].join('\n');
}

function workflowCommand(name: string, properties: object, text: string): string {
  const written = Object.entries(properties)
    .map(([key, value]) => `${key}=${escapeProperty(String(value))}`)
    .join(',');
  return `::${name} ${written}::${escapeData(text)}`;
}

/**
 * Returns all findings as a Markdown table for the summary of a GitHub job. Unlike annotations, a summary is
 * not limited to ten findings.
 */
export function githubSummary(report: Report, context: ReportContext): string {
  const title = `### svc check ${inMarkdown(context.target)}\n\n`;
  const unread = unreadOf(context).map(({ file, why }) => `- ${inMarkdown(`${file}: ${why}`)}\n`);
  const left = unread.length === 0 ? '' : `\n${unread.join('')}`;
  if (report.findings.length === 0) return `${title}Nothing found.\n${left}`;
  const rows = rowsOf(report.findings, context).map(
    ({ rule, severity, subject, message, remedy, file, line, isKnown }) => {
      const cells = [severity, rule, subject, isKnown ? `${file}:${line}` : '', message, remedy];
      return `| ${cells.map(inMarkdown).join(' | ')} |`;
    },
  );
  return `${title}| Level | Rule | Subject | Place | Finding | Fix |\n| --- | --- | --- | --- | --- | --- |\n${rows.join('\n')}\n${left}`;
}

/** Returns the issues of a GitLab code quality report, a variant of the Code Climate format. */
export function gitlabReport(report: Report, context: ReportContext): string {
  const prints = fingerprints(report.findings);
  return JSON.stringify(
    [
      ...rowsOf(report.findings, context).map(
        ({ rule, severity, subject, message, remedy, file, line }, index) => ({
          description: `${subject}: ${message}. Fix: ${remedy}`,
          check_name: rule,
          fingerprint: prints[index]!,
          severity: WORDS[severity].gitlab,
          location: { path: file, lines: { begin: line } },
        }),
      ),
      ...unreadOf(context).map(({ file, why }) => ({
        description: why,
        check_name: 'svc check',
        fingerprint: digestOf('unread', file),
        severity: WORDS.info.gitlab,
        location: { path: file, lines: { begin: 1 } },
      })),
    ],
    null,
    2,
  );
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}

function inMarkdown(text: string): string {
  return text.replace(/[\\`*_{}[\]<>|#]/g, '\\$&').replace(/\s+/g, ' ');
}

/**
 * Returns a stable fingerprint for each finding. It consists of a hash of rule and subject, a colon, and a
 * counter. The hash does not include the place, so a finding that was dismissed in GitLab or GitHub stays
 * dismissed when code moves.
 */
export function fingerprints(findings: readonly Finding[]): readonly string[] {
  const seen = new Map<string, number>();
  return findings.map(({ rule, subject }) => {
    const digest = digestOf(rule, subject);
    const nth = (seen.get(digest) ?? 0) + 1;
    seen.set(digest, nth);
    return `${digest}:${nth}`;
  });
}

function digestOf(rule: string, subject: string): string {
  return createHash('sha256').update(`${rule}\0${subject}`).digest('hex').slice(0, 16);
}

/**
 * Returns a JUnit report with one test case for each rule. If `fails` returns true for a finding, its test
 * case fails. Other findings become output of the test case. A part that was not checked is a skipped case.
 */
export function junitReport(
  report: Report,
  context: ReportContext,
  fails: (finding: Finding) => boolean,
): string {
  const { rules, cwd, target } = context;
  const rows = rowsOf(report.findings, context, cwd);
  const failing = new Set(rows.filter((_, index) => fails(report.findings[index]!)));
  const byRule = Map.groupBy(rows, ({ rule }) => rule);
  const failed = new Set([...failing].map(({ rule }) => rule));
  const unread = unreadOf({ ...context, root: cwd });
  const suites = [...Map.groupBy(rules, ({ phase }) => phase)].map(([phase, ofPhase]) =>
    suiteOf(phase, ofPhase.map(caseOf), { failures: ofPhase.filter(({ id }) => failed.has(id)).length }),
  );
  const skipped = unread.map(
    ({ file, why }) =>
      `    <testcase classname="svc.check.sources" name="${escapeXml(file)}"><skipped message="${escapeXml(why)}"/></testcase>`,
  );
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="${escapeXml(`svc check ${target}`)}" tests="${rules.length + unread.length}" failures="${failed.size}">`,
    ...suites,
    ...(unread.length === 0 ? [] : [suiteOf('sources', skipped, { skipped: unread.length })]),
    '</testsuites>',
  ].join('\n');

  function caseOf({ id, phase, why }: RuleText): string {
    const open = `    <testcase classname="${escapeXml(`svc.check.${phase}`)}" name="${escapeXml(`${id}: ${why}`)}"`;
    const found = byRule.get(id);
    if (found === undefined) return `${open}/>`;
    const bad = found.filter((row) => failing.has(row));
    const others = found.filter((row) => !failing.has(row));
    const words = bad.map(({ subject, message }) => `${subject}: ${message}`).join('; ');
    const failures = bad
      .slice(0, 1)
      .map(
        ({ severity }) =>
          `      <failure type="${severity}" message="${escapeXml(words)}">${textOf(bad)}</failure>`,
      );
    return [
      `${open}>`,
      ...failures,
      ...(others.length === 0 ? [] : [`      <system-out>${textOf(others)}</system-out>`]),
      '    </testcase>',
    ].join('\n');
  }

  function textOf(found: readonly Row[]): string {
    const texts = found.map(({ severity, subject, message, remedy, file, line, column, isKnown }) => {
      const where = isKnown ? ` at ${file}:${line}:${column}` : '';
      return `${severity}: ${subject}${where}\n${message}\nfix: ${remedy}`;
    });
    return escapeXml(texts.join('\n\n'));
  }
}

function suiteOf(
  name: string,
  cases: readonly string[],
  { failures = 0, skipped = 0 }: { readonly failures?: number; readonly skipped?: number },
): string {
  return [
    `  <testsuite name="${escapeXml(name)}" tests="${cases.length}" failures="${failures}" errors="0" skipped="${skipped}">`,
    ...cases,
    '  </testsuite>',
  ].join('\n');
}

/** Escapes a text for XML 1.0. Replaces characters that XML cannot express by U+FFFD. */
function escapeXml(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\n', '&#10;')
    .replaceAll('\r', '&#13;');
}

/*
 * The SARIF report (version 2.1.0, OASIS) is for code scanning services.
 *
 * The SARIF report leaves out findings that the application allows. Some services ignore the member
 * `suppressions`, and would open alerts for these findings.
 */

/**
 * Maximum number of results that code scanning services accept in one report. The report keeps the most
 * severe findings.
 */
const MAX_RESULTS = 25_000;

/**
 * Returns a SARIF 2.1.0 document. `isLoaded` is true if the application could be loaded; `version` is the
 * version of this package.
 */
export function sarifReport(
  report: Report,
  context: ReportContext,
  { version, isLoaded }: { readonly version: string; readonly isLoaded: boolean },
): string {
  const { rules } = context;
  const prints = fingerprints(report.findings);
  const results = rowsOf(report.findings.slice(0, MAX_RESULTS), context).map((row, index) =>
    resultOf(row, prints[index]!, rules),
  );
  return JSON.stringify(
    {
      $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
      version: '2.1.0',
      runs: [
        {
          tool: {
            driver: { name: 'svc check', version, semanticVersion: version, rules: rules.map(ruleOf) },
          },
          originalUriBaseIds: { [ROOT_ID]: { uri: `${pathToFileURL(context.root ?? context.cwd).href}/` } },
          invocations: [{ executionSuccessful: isLoaded, ...notificationsOf(context) }],
          columnKind: 'utf16CodeUnits',
          results,
        },
      ],
    },
    null,
    2,
  );
}

function ruleOf({ id, severity, why, remedy, phase, cwe = [] }: RuleText): object {
  const isSecurity = phase === 'security' || (phase === 'source' && cwe.length > 0);
  return {
    id,
    shortDescription: { text: sentence(why) },
    fullDescription: { text: sentence(why) },
    help: {
      text: `Why: ${sentence(why)}\nFix: ${sentence(remedy)}`,
      markdown: `**Why:** ${sentence(why)}\n\n**Fix:** ${sentence(remedy)}`,
    },
    defaultConfiguration: { level: WORDS[severity].sarif },
    properties: {
      tags: [
        ...(isSecurity ? ['security'] : [phase]),
        ...cwe.map((each) => `external/cwe/cwe-${String(each).padStart(3, '0')}`),
      ],
      ...(isSecurity ? { 'security-severity': WORDS[severity].score } : {}),
    },
  };
}

function resultOf(row: Row, fingerprint: string, rules: readonly RuleText[]): object {
  const { rule, severity, subject, message, remedy, file, line, column, isKnown } = row;
  const ruleIndex = rules.findIndex(({ id }) => id === rule);
  return {
    ruleId: rule,
    ...(ruleIndex === -1 ? {} : { ruleIndex }),
    level: WORDS[severity].sarif,
    message: { text: `${subject}: ${message}. Fix: ${sentence(remedy)}` },
    locations: [
      {
        physicalLocation: {
          artifactLocation: artifact(file),
          region: { startLine: line, ...(isKnown ? { startColumn: Math.max(1, column) } : {}) },
        },
        logicalLocations: [{ fullyQualifiedName: subject }],
      },
    ],
    partialFingerprints: { primaryLocationLineHash: fingerprint },
  };
}

/** Returns a notification for all that was not checked. */
function notificationsOf(context: ReportContext): object {
  const toolExecutionNotifications = unreadOf(context).map(({ file, why }) => ({
    level: 'warning',
    message: { text: why },
    locations: [{ physicalLocation: { artifactLocation: artifact(file) } }],
  }));
  return toolExecutionNotifications.length === 0 ? {} : { toolExecutionNotifications };
}

/** Id of the root of the repository, to which paths are relative (SARIF 2.1.0 §3.14.14). */
const ROOT_ID = '%SRCROOT%';

function artifact(file: string): object {
  if (isAbsolute(file)) return { uri: pathToFileURL(file).href };
  return { uri: file.split('/').map(encodeURIComponent).join('/'), uriBaseId: ROOT_ID };
}

/**
 * Returns the file of a target such as `src/app.ts:app`. The SARIF document uses it for findings without a
 * place.
 */
export function fileOf(target: string): string {
  return target.replace(/:[\w$]+$/, '').replace(/^\.\//, '');
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
