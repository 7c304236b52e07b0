/**
 * A comment in the source can allow a finding. It names the rule and a reason, and may name the last day on
 * which it applies:
 *   // svc-allow SVC606 until 2027-01-31: names come from the table of uploads
 *
 * The comment stands at the end of the reported line, or alone on the line above it. It can allow every
 * finding that has a line, except errors that prevent the application from starting.
 */
import { pathToFileURL } from 'node:url';
import { makeReport, issueOf } from './check.ts';
import { beginnings, fileOfPlace } from '../base/findings.ts';
import type { Finding, Report } from '../base/findings.ts';
import type { RuleText } from './check.ts';
import type { SourceModule } from './reader/modules.ts';

const ALLOW =
  /^(?:\/\/|\/\*)\s*svc-allow\s+([\w@./-]+(?:\s*,\s*[\w@./-]+)*)(?:\s+until\s+(\S+?))?\s*(?::\s*([^]*?))?\s*(?:\*\/)?$/;

interface InlineAllowance {
  readonly rules: readonly string[];
  readonly reason: string;
  readonly until: string | undefined;
}

/**
 * Returns the report without the findings that `svc-allow` comments allow. A comment without a reason, or
 * past its last day, turns the finding into an error.
 */
export function allowInline(
  report: Report,
  modules: readonly SourceModule[],
  rules: readonly RuleText[],
  nowMs: number,
): Report {
  const byFile = new Map<string, ReadonlyMap<number, InlineAllowance[]>>();
  for (const module of modules)
    if (module.source.includes('svc-allow'))
      byFile.set(pathToFileURL(module.file).href, allowancesOf(module));
  if (byFile.size === 0) return report;
  const findings: Finding[] = [];
  const suppressed = [...report.suppressed];
  for (const finding of report.findings) {
    const { place, rule } = finding;
    const file = place === undefined ? undefined : pathToFileURL(fileOfPlace(place)).href;
    const lines = [place, beginnings.get(finding)].flatMap((each) => each?.line ?? []);
    const allowances = file === undefined ? [] : lines.flatMap((line) => byFile.get(file)?.get(line) ?? []);
    const allowance = allowances.find((each) => each.rules.includes(rule));
    if (allowance === undefined || preventsStart(finding, rules)) {
      findings.push(finding);
      continue;
    }
    const problem = issueOf({ rule, ...allowance }, nowMs);
    if (problem === undefined) suppressed.push(finding);
    else findings.push({ ...finding, severity: 'error', message: `${finding.message}; ${problem}` });
  }
  return makeReport(findings, suppressed);
}

function preventsStart({ rule, severity }: Finding, rules: readonly RuleText[]): boolean {
  const phase = rules.find(({ id }) => id === rule)?.phase;
  return severity === 'error' && (phase === 'graph' || phase === 'load');
}

/** Returns the `svc-allow` comments of a module, grouped by the line of code to which they apply. */
function allowancesOf(module: SourceModule): Map<number, InlineAllowance[]> {
  const byLine = new Map<number, InlineAllowance[]>();
  const lines = module.source.split('\n');
  for (const { text, start, end } of module.comments) {
    const match = ALLOW.exec(text);
    if (match === null) continue;
    const [, rules, until, reason = ''] = match;
    let { line } = module.placeAt(start);
    const before = module.source.slice(module.source.lastIndexOf('\n', start - 1) + 1, start);
    if (before.trim() === '') {
      ({ line } = module.placeAt(end));
      do line++;
      while (/^\s*(?:\/\/.*|\/\*.*\*\/\s*)?$/.test(lines[line - 1] ?? 'end'));
    }
    const allowance = { rules: rules!.split(/\s*,\s*/), reason, until };
    byLine.set(line, [...(byLine.get(line) ?? []), allowance]);
  }
  return byLine;
}
