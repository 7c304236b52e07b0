/**
 * A report as JUnit's XML: a suite for each phase, a case for each rule, which fails where the check fails by it.
 */
import { relativeFile, relativeText } from './check-report.ts';
import type { ReportContext } from './check-report.ts';
import type { RuleText } from './check.ts';
import type { Finding, Report } from './findings.ts';

/** `fails` says of a finding whether it is at or above the level that fails the check; others are told as output of their case. */
export function junitReport(report: Report, { rules, cwd, target }: ReportContext, fails: (finding: Finding) => boolean): string {
  const phases = [...new Set(rules.map(({ phase }) => phase))];
  const suites = phases.map((phase) => suiteOf(phase, rules.filter((rule) => rule.phase === phase), report.findings));
  const failures = new Set(report.findings.filter(fails).map(({ rule }) => rule)).size;
  return ['<?xml version="1.0" encoding="UTF-8"?>', `<testsuites name="${escapeXml(`svc check ${target}`)}" tests="${rules.length}" failures="${failures}">`, ...suites, '</testsuites>'].join('\n');

  function suiteOf(phase: string, ofPhase: readonly RuleText[], findings: readonly Finding[]): string {
    const failed = ofPhase.filter(({ id }) => findings.some((finding) => finding.rule === id && fails(finding)));
    const cases = ofPhase.map((rule) => caseOf(rule, findings.filter((finding) => finding.rule === rule.id)));
    return [`  <testsuite name="${escapeXml(phase)}" tests="${ofPhase.length}" failures="${failed.length}" errors="0" skipped="0">`, ...cases, '  </testsuite>'].join('\n');
  }

  function caseOf({ id, phase, why }: RuleText, findings: readonly Finding[]): string {
    const open = `    <testcase classname="${escapeXml(`svc.check.${phase}`)}" name="${escapeXml(`${id}: ${why}`)}"`;
    if (findings.length === 0) return `${open}/>`;
    const failing = findings.filter(fails);
    const others = findings.filter((finding) => !fails(finding));
    return [
      `${open}>`,
      ...failing.length === 0 ? [] : [`      <failure type="${failing[0]!.severity}" message="${escapeXml(failing.map(({ subject, message }) => `${subject}: ${relativeText(message, cwd)}`).join('; '))}">${escapeXml(textOf(failing))}</failure>`],
      ...others.length === 0 ? [] : [`      <system-out>${escapeXml(textOf(others))}</system-out>`],
      '    </testcase>',
    ].join('\n');
  }

  function textOf(findings: readonly Finding[]): string {
    return findings.map(({ severity, subject, message, remedy, place }) => {
      const where = place === undefined || place.line === 0 ? '' : ` at ${relativeFile(place.file, cwd)}:${place.line}:${place.column}`;
      return `${severity}: ${subject}${where}\n${relativeText(message, cwd)}\nfix: ${remedy}`;
    }).join('\n\n');
  }
}

/** Text as XML 1.0 can hold it: what it has no form for becomes U+FFFD. */
function escapeXml(text: string): string {
  return text.toWellFormed().replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\r', '&#13;');
}
