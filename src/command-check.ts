/**
 * `svc check`: everything that is wrong with an application, found without starting it.
 *
 *   0  nothing at or above --fail-level     1  findings, or too many warnings     2  not understood
 *   3  the module could not be imported     4  our own fault                      124  out of time
 */
import { findRule, matches, select } from './check.ts';
import { CORE_RULES } from './check-rules.ts';
import { countFindings, humanReport, jsonReport } from './check-report.ts';
import { ask, failed, hasColours, printAll, readWord, withoutCrash } from './command-load.ts';
import { ENV_FILE_HELP, readCount } from './command.ts';
import { SvcError } from './errors.ts';
import { closest } from './options.ts';
import type { RuleText, Selection } from './check.ts';
import type { Command, Invocation, Subject } from './command.ts';
import type { Answer } from './command-load.ts';
import type { Report, Severity } from './findings.ts';

const DEFAULT_TIMEOUT_SECONDS = 60;
const MAX_TIMEOUT_SECONDS = 86_400;
const SEVERITIES = ['error', 'warning', 'info'] as const satisfies readonly Severity[];

export const checkCommand: Command = {
  usage: 'svc check <module>[:<app>] [options]\n       svc check [<module>[:<app>]] --list\n       svc check [<module>[:<app>]] --explain <rule>',
  summary: 'finds what is wrong with an application, without starting it',
  details: [
    '  --format <form>     human (default) or json',
    '  --fail-level <l>    error (default), warning or info: the least severity that fails the check',
    '  --max-warnings <n>  fails when there are more warnings than that',
    '  --only <rules>      looks at these rules only: ids or patterns such as "SVC1*", with commas or several times',
    '  --skip <rules>      leaves these rules out',
    '  --live              asks databases and other services too, which takes a network: whether they answer, and have their migrations',
    '  --env <name>        production, development or test; default SVC_ENV, else what the application says',
    ENV_FILE_HELP,
    `  --timeout <seconds> how long it may take to import the module; default ${DEFAULT_TIMEOUT_SECONDS}`,
    '  --no-color          no colours; they are used on terminals only, and not with NO_COLOR',
    '  --list              the rules; with a module also those of its plugins and its own',
    '  --explain <rule>    what a rule is for and what to do about its findings',
    '',
    'The module is imported in a process of its own, without network; no startup hook runs and nothing is written.',
    'Standard output has the report alone; what the application prints goes to standard error.',
    '',
    'Status: 0 passed, 1 findings, 2 not understood, 3 the module could not be imported, 4 our own fault, 124 out of time',
  ].join('\n'),
  options: {
    format: { type: 'string' }, 'fail-level': { type: 'string' }, 'max-warnings': { type: 'string' }, only: { type: 'string', multiple: true }, skip: { type: 'string', multiple: true },
    env: { type: 'string' }, 'env-file': { type: 'string' }, timeout: { type: 'string' }, 'no-color': { type: 'boolean' }, live: { type: 'boolean' }, list: { type: 'boolean' }, explain: { type: 'string' },
  },
  takesModule: (values, positionals) => positionals.length > 0 || !isAboutRules(values),
  check: (values) => void readSettings(values),
  absent: ({ values }, given, error) => print(failed({ token: '', given }, error.message.replace(/^Cannot load "[^"]*": /, ''), false), given, values),
  run: (invocation) => check(invocation).catch((error: unknown) => {
    if (error instanceof SvcError) throw error;
    process.stderr.write(`svc: ${String((error as Error | null)?.cause ?? (error as Error | null)?.stack ?? error)}\n`);
    return 4;
  }),
};

interface Settings extends Selection {
  readonly format: 'human' | 'json';
  readonly failLevel: Severity;
  readonly maxWarnings: number | undefined;
  readonly env: string | undefined;
  readonly timeoutMs: number;
  readonly wants: 'report' | 'live';
}

function isAboutRules(values: Invocation['values']): boolean {
  return values['list'] === true || values['explain'] !== undefined;
}

async function check({ values, subject }: Invocation): Promise<number> {
  const settings = readSettings(values);
  if (isAboutRules(values)) return tellOfRules(values, subject === undefined ? CORE_RULES : await rulesOf(subject, settings));
  const answer = withoutCrash(await ask(subject!, settings)); // takesModule
  if (answer.kind === 'routes') throw new Error('The child process answered another question');
  return print(answer, subject!.given, values);
}

/** The report, and the status that it means. */
async function print(answer: Extract<Answer, { report: Report }>, target: string, values: Invocation['values']): Promise<number> {
  const settings = readSettings(values);
  const report = select(answer.report, settings);
  const context = { target, cwd: process.cwd(), rules: answer.rules };
  await printAll(settings.format === 'json' ? jsonReport(report, context) : humanReport(report, context, hasColours(values)));
  if (answer.kind === 'failed') return answer.isLate ? 124 : 3;
  return fails(report, settings) ? 1 : 0;
}

function fails({ findings }: Report, { failLevel, maxWarnings }: Settings): boolean {
  const failing = SEVERITIES.slice(0, SEVERITIES.indexOf(failLevel) + 1);
  return findings.some((finding) => failing.includes(finding.severity)) || maxWarnings !== undefined && countFindings(findings).warning > maxWarnings;
}

async function rulesOf(subject: Subject, { timeoutMs, env }: Settings): Promise<readonly RuleText[]> {
  const answer = withoutCrash(await ask(subject, { wants: 'report', timeoutMs, env }));
  return answer.kind === 'routes' ? CORE_RULES : answer.rules;
}

async function tellOfRules(values: Invocation['values'], rules: readonly RuleText[]): Promise<number> {
  const id = values['explain'] as string | undefined; // parseArgs was told that it is a string
  if (id === undefined) {
    const width = Math.max(...rules.map((rule) => rule.id.length));
    await printAll(rules.map((rule) => `${rule.id.padEnd(width)}  ${rule.severity.padEnd(7)}  ${rule.phase.padEnd(11)}  ${rule.remedy}`).join('\n'));
    return 0;
  }
  const found = findRule(id, rules);
  if ('near' in found) throw unknownRule(id, found.near);
  const { rule } = found;
  await printAll(`${rule.id}: ${rule.severity}, found in the phase ${rule.phase}\n\nWhy: ${rule.why}.\n\nFix: ${rule.remedy}.`);
  return 0;
}

function unknownRule(id: string, near: string | undefined): SvcError<'E_CLI_USAGE'> {
  return new SvcError('E_CLI_USAGE', [`unknown rule "${id}"` + (near === undefined ? '' : `: did you mean "${near}"?`)]);
}

/** @throws SvcError `E_CLI_USAGE` */
function readSettings(values: Invocation['values']): Settings {
  return {
    format: readWord('format', values['format'], ['human', 'json'], 'human'),
    failLevel: readWord('fail-level', values['fail-level'], SEVERITIES, 'error'),
    maxWarnings: readCount('max-warnings', values['max-warnings'], 0, 999_999_999),
    env: values['env'] === undefined ? undefined : readWord('env', values['env'], ['production', 'development', 'test'], 'production'),
    timeoutMs: (readCount('timeout', values['timeout'], 1, MAX_TIMEOUT_SECONDS) ?? DEFAULT_TIMEOUT_SECONDS) * 1_000,
    wants: values['live'] === true ? 'live' : 'report', only: readPatterns('only', values['only']), skip: readPatterns('skip', values['skip']),
  };
}

/** Patterns of rules. One of this package's that fits none is misspelt; those of plugins are not known yet. */
function readPatterns(option: string, given: unknown): string[] {
  const patterns = ((given ?? []) as readonly string[]).flatMap((text) => text.split(',')).map((pattern) => pattern.trim()).filter((pattern) => pattern !== '');
  for (const pattern of patterns) {
    if (!/^[\w*./@-]+$/.test(pattern)) throw new SvcError('E_CLI_USAGE', [`--${option} needs ids of rules or patterns such as "SVC1*", found "${pattern}"`]);
    const isOurs = /^SVC[^*/]*$/i.test(pattern) || !/[*/]/.test(pattern);
    if (isOurs && !CORE_RULES.some((rule) => matches(pattern, rule.id))) throw unknownRule(pattern, closest(pattern, CORE_RULES.map((rule) => rule.id)));
  }
  return patterns;
}
