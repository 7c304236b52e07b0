/**
 * A report as SARIF 2.1.0 (OASIS), as code scanning services take it.
 *
 * Allowed findings are left out: services that do not know `suppressions` would open alerts for them.
 */
import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fingerprints } from './check-fingerprints.ts';
import { relativeFile, relativeText } from './check-report.ts';
import type { ReportContext } from './check-report.ts';
import type { RuleText } from './check.ts';
import type { Finding, Report, Severity } from './findings.ts';

/** More results are refused by services that take SARIF; the worst come first. */
const MAX_RESULTS = 25_000;
const LEVELS: Readonly<Record<Severity, 'error' | 'warning' | 'note'>> = { error: 'error', warning: 'warning', info: 'note' };
/** Out of 10, for rules of security: from 7 on "high", from 4 on "medium". */
const SECURITY_SEVERITY: Readonly<Record<Severity, string>> = { error: '8.0', warning: '5.0', info: '2.0' };

/** One document of SARIF 2.1.0. `isLoaded`: whether the application could be looked at; `version`: of this package. */
export function sarifReport(report: Report, context: ReportContext, { version, isLoaded }: { readonly version: string; readonly isLoaded: boolean }): string {
  const { rules } = context;
  const prints = fingerprints(report.findings);
  const results = report.findings.slice(0, MAX_RESULTS).map((finding, index) => resultOf(finding, prints[index]!, context));
  return JSON.stringify({
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [{
      tool: { driver: { name: 'svc check', version, semanticVersion: version, rules: rules.map(ruleOf) } },
      invocations: [{ executionSuccessful: isLoaded }],
      columnKind: 'utf16CodeUnits',
      results,
    }],
  }, null, 2);
}

function ruleOf({ id, severity, why, remedy, phase }: RuleText): object {
  return {
    id,
    shortDescription: { text: sentence(why) }, fullDescription: { text: sentence(why) },
    help: { text: `Why: ${sentence(why)}\nFix: ${sentence(remedy)}`, markdown: `**Why:** ${sentence(why)}\n\n**Fix:** ${sentence(remedy)}` },
    defaultConfiguration: { level: LEVELS[severity] },
    properties: { tags: phase === 'security' ? ['security'] : [phase], ...phase === 'security' ? { 'security-severity': SECURITY_SEVERITY[severity] } : {} },
  };
}

function resultOf(finding: Finding, fingerprint: string, { rules, cwd, target }: ReportContext): object {
  const { rule, severity, subject, message, remedy, place } = finding;
  const ruleIndex = rules.findIndex(({ id }) => id === rule);
  return {
    ruleId: rule, ...ruleIndex === -1 ? {} : { ruleIndex },
    level: LEVELS[severity],
    message: { text: `${subject}: ${relativeText(message, cwd)}. Fix: ${sentence(remedy)}` },
    locations: [{
      physicalLocation: {
        artifactLocation: artifact(place === undefined || place.line === 0 ? fileOf(target) : relativeFile(place.file, cwd)),
        region: place === undefined || place.line === 0 ? { startLine: 1 } : { startLine: place.line, startColumn: Math.max(1, place.column) },
      },
      logicalLocations: [{ fullyQualifiedName: subject }],
    }],
    partialFingerprints: { primaryLocationLineHash: fingerprint },
  };
}

function artifact(file: string): object {
  if (isAbsolute(file)) return { uri: pathToFileURL(file).href };
  return { uri: file.split('/').map(encodeURIComponent).join('/'), uriBaseId: '%SRCROOT%' };
}

/** The file of a target such as `src/app.ts:app`: where findings without a place are shown, for there must be one. */
export function fileOf(target: string): string {
  return target.replace(/:[\w$]+$/, '').replace(/^\.\//, '');
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
