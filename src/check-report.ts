/**
 * Reports as text: for people, and as JSON whose form (`schemaVersion` 1) is for ever.
 */
import { pathToFileURL } from 'node:url';
import { isAbsolute, relative, sep } from 'node:path';
import { fileOfPlace } from './place.ts';
import type { RuleText } from './check.ts';
import type { Finding, Place, Report, Severity } from './findings.ts';

/** What a report is about, and where paths begin. */
export interface ReportContext {
  /** As it was asked for: `src/app.ts:app`. */
  readonly target: string;
  readonly cwd: string;
  /** Those that have found something, at least. */
  readonly rules: readonly RuleText[];
}

/** How many findings there are of each severity. */
export interface Counts {
  readonly error: number;
  readonly warning: number;
  readonly info: number;
}

const HEADINGS: Readonly<Record<Severity, string>> = { error: 'Errors', warning: 'Warnings', info: 'Notes' };
const COLOURS = { error: '31', warning: '33', info: '36', dim: '2', bold: '1' } as const;

/** Writes text in a colour, or leaves it as it is. */
type Paint = (colour: keyof typeof COLOURS, text: string) => string;

/** How many findings there are of each severity. */
export function countFindings(findings: readonly Finding[]): Counts {
  const count = (severity: Severity): number => findings.filter((finding) => finding.severity === severity).length;
  return { error: count('error'), warning: count('warning'), info: count('info') };
}

/** Grouped by severity, each finding with its place, why it matters and what to do. */
export function humanReport(report: Report, { target, cwd, rules }: ReportContext, hasColour: boolean): string {
  const paint: Paint = hasColour ? (colour, text) => `\u001b[${COLOURS[colour]}m${text}\u001b[0m` : (_colour, text) => text;
  const counts = countFindings(report.findings);
  const explained = new Set<string>();
  const groups = (['error', 'warning', 'info'] as const).flatMap((severity) => {
    const findings = report.findings.filter((finding) => finding.severity === severity);
    if (findings.length === 0) return [];
    return [paint('bold', HEADINGS[severity]), ...findings.flatMap((finding) => describe(finding, cwd, explained.has(finding.rule) ? undefined : whyOf(finding.rule), paint)), ''];
  });
  const suppressed = report.suppressed.length === 0 ? '' : `, ${report.suppressed.length} allowed`;
  const summary = report.findings.length === 0 ? `${target}: nothing found${suppressed}`
    : `${target}: ${plural(counts.error, 'error')}, ${plural(counts.warning, 'warning')}` + (counts.info === 0 ? '' : `, ${plural(counts.info, 'note')}`) + suppressed;
  return [...groups, summary].join('\n');

  /** Once in a report is enough. */
  function whyOf(id: string): string | undefined {
    explained.add(id);
    return rules.find((rule) => rule.id === id)?.why;
  }
}

function describe({ rule, severity, subject, message, remedy, place }: Finding, cwd: string, why: string | undefined, paint: Paint): string[] {
  const where = place === undefined || place.line === 0 ? '' : `  ${paint('dim', shownPlace(place, cwd))}`;
  return [
    `  ${paint(severity, rule)}  ${subject}${where}`, `      ${relativeText(message, cwd)}`,
    ...why === undefined ? [] : [`      why: ${why}`], `      fix: ${remedy}`,
  ];
}

function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** One document: `ok`, `counts`, `findings` and `suppressed`; files relative to the working folder where they are below it. */
export function jsonReport(report: Report, { target, cwd, rules }: ReportContext): string {
  const plain = ({ rule, severity, subject, message, remedy, place }: Finding): object => ({
    rule, severity, subject, message: relativeText(message, cwd), why: rules.find((candidate) => candidate.id === rule)?.why ?? null, remedy,
    place: place === undefined || place.line === 0 ? null : { file: relativeFile(place.file, cwd), line: place.line, column: place.column },
  });
  return JSON.stringify({
    schemaVersion: report.schemaVersion, target, ok: report.ok, counts: { ...countFindings(report.findings), suppressed: report.suppressed.length },
    findings: report.findings.map(plain), suppressed: report.suppressed.map(plain),
  }, null, 2);
}

/** `src/app.ts:12:5` */
export function shownPlace(place: Place, cwd: string): string {
  return place.line === 0 ? '' : `${relativeFile(place.file, cwd)}:${place.line}:${place.column}`;
}

/** The path of a file, from the working folder where it is below it, with slashes. */
export function relativeFile(file: string, cwd: string): string {
  const path = fileOfPlace({ file });
  const below = relative(cwd, path);
  return below === '' || below.startsWith('..') || isAbsolute(below) ? path : below.replaceAll(sep, '/');
}

/** A message without the working folder in front of its files. */
export function relativeText(text: string, cwd: string): string {
  return text.replaceAll(`${pathToFileURL(cwd).href}/`, '').replaceAll(`${cwd}${sep}`, '');
}
