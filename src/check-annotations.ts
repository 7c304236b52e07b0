/**
 * Reports in the forms that forges show beside the code: workflow commands of GitHub, code quality of GitLab.
 */
import { fingerprints } from './check-fingerprints.ts';
import { countFindings, relativeFile, relativeText } from './check-report.ts';
import { fileOf } from './check-sarif.ts';
import type { ReportContext } from './check-report.ts';
import type { Finding, Report, Severity } from './findings.ts';

const COMMANDS: Readonly<Record<Severity, string>> = { error: 'error', warning: 'warning', info: 'notice' };
const GITLAB_SEVERITIES: Readonly<Record<Severity, string>> = { error: 'critical', warning: 'minor', info: 'info' };

/** A line for each finding, the worst first, for only ten of each level are shown; then how many there are. */
export function githubReport(report: Report, { target, cwd }: ReportContext): string {
  const { error, warning, info } = countFindings(report.findings);
  const lines = report.findings.map(({ rule, severity, subject, message, remedy, place }) => {
    const at = place === undefined || place.line === 0 ? { file: fileOf(target) } : { file: relativeFile(place.file, cwd), line: place.line, col: place.column };
    const properties = Object.entries({ ...at, title: `${rule} ${subject}` }).map(([name, value]) => `${name}=${escapeProperty(String(value))}`).join(',');
    return `::${COMMANDS[severity]} ${properties}::${escapeData(`${relativeText(message, cwd)}\nFix: ${remedy}`)}`;
  });
  return [...lines, `${target}: errors ${error}, warnings ${warning}, notes ${info}, allowed ${report.suppressed.length}`].join('\n');
}

/** The same as a table in Markdown, for the summary of a job, where nothing is cut off. */
export function githubSummary(report: Report, { target, cwd }: ReportContext): string {
  const title = `### svc check ${inMarkdown(target)}\n\n`;
  if (report.findings.length === 0) return `${title}Nothing found.\n`;
  const rows = report.findings.map(({ rule, severity, subject, message, remedy, place }) => {
    const where = place === undefined || place.line === 0 ? '' : `${relativeFile(place.file, cwd)}:${place.line}`;
    return `| ${[severity, rule, subject, where, relativeText(message, cwd), remedy].map(inMarkdown).join(' | ')} |`;
  });
  return `${title}| Level | Rule | Subject | Place | Finding | Fix |\n| --- | --- | --- | --- | --- | --- |\n${rows.join('\n')}\n`;
}

/** A list of issues of GitLab's code quality, a form of Code Climate's. */
export function gitlabReport(report: Report, { target, cwd }: ReportContext): string {
  const prints = fingerprints(report.findings);
  return JSON.stringify(report.findings.map((finding, index) => issueOf(finding, prints[index]!, target, cwd)), null, 2);
}

function issueOf({ rule, severity, subject, message, remedy, place }: Finding, fingerprint: string, target: string, cwd: string): object {
  const hasPlace = place !== undefined && place.line !== 0;
  return {
    description: `${subject}: ${relativeText(message, cwd)}. Fix: ${remedy}`, check_name: rule, fingerprint, severity: GITLAB_SEVERITIES[severity],
    location: { path: hasPlace ? relativeFile(place.file, cwd) : fileOf(target), lines: { begin: hasPlace ? place.line : 1 } },
  };
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
