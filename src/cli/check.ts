/**
 * `svc check`: reports mistakes in an application without starting it.
 *
 * Exit status:
 *   0  nothing at or above --fail-level     1  findings, or too many warnings     2  invalid arguments
 *   3  the module could not be imported     4  a bug of this package              124  time limit reached
 */
import { appendFileSync, existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { findRule, isSelected, makeReport, matches, select } from '../check/check.ts';
import {
  countFindings,
  fingerprints,
  githubReport,
  githubSummary,
  gitlabReport,
  humanReport,
  jsonReport,
  junitReport,
  sarifReport,
} from '../check/report.ts';
import { isLock, readLock } from '../check/statements/lock.ts';
import { systemClock } from '../base/clock.ts';
import { ask, failed, hasColours, printAll, readPlaces, readWord, writeOutput } from './inspect.ts';
import { ENVS } from '../base/config.ts';
import { ENV_FILE_HELP, readCount, textOf, textsOf } from './command.ts';
import { SvcError } from '../base/errors.ts';
import { codeOf, ownVersion, permissionFault } from './load.ts';
import { isTextList, nearest } from '../base/options.ts';
import type { ReportContext } from '../check/report.ts';
import type { RuleText, Selection } from '../check/check.ts';
import type { StatementFiles } from '../check/statements/databases.ts';
import type { Command, Invocation } from './command.ts';
import type { Answer, AskOptions } from './inspect.ts';
import type { Finding, Report, Severity } from '../base/findings.ts';

const DEFAULT_TIMEOUT_SECONDS = 60;
const MAX_TIMEOUT_SECONDS = 86_400;
const FORMATS = ['human', 'json', 'sarif', 'github', 'gitlab', 'junit'] as const;
const SEVERITIES = ['error', 'warning', 'info'] as const satisfies readonly Severity[];

export const checkCommand: Command = {
  usage:
    'svc check <module>[:<app>] [options]\n       svc check [<module>[:<app>]] --list\n       svc check [<module>[:<app>]] --explain <rule>',
  summary: 'finds mistakes and security problems of an application, without starting the application',
  details: [
    `  --format <form>     ${FORMATS.join(', ')}; default human, and github where GITHUB_ACTIONS=true`,
    '  --output <f>=<file> also writes the report in a form to a file; may be repeated: --output sarif=check.sarif --output junit=check.xml',
    '  --fail-level <l>    error (default), warning or info: the least severity that fails the check',
    '  --max-warnings <n>  fails if there are more than <n> warnings',
    '  --only <rules>      checks only these rules: ids or patterns such as "SVC1*", separated by commas; may be repeated',
    '  --skip <rules>      does not check these rules; written as for --only',
    '  --baseline <file>   an earlier OpenAPI document of the application: a change that breaks its clients is a finding (SVC306); or the file of --statements of the previous release: a migration that breaks its statements is a finding (SVC422); may be repeated',
    '  --statements <file> writes what the databases say about the SQL statements to a file, and reads it for databases that are not there',
    '  --known <file>      file of known findings: the first run writes it, except where CI is set; later runs report only other findings, and remove findings that no longer occur from the file',
    '  --live              also checks over the network whether databases and other services respond and have their migrations',
    '  --database <url>    prepares the SQL statements of the sources on a database that has all migrations; name=url for one of several databases. Runs none of them',
    '  --scratch-database <url>  prepares them on a database that check creates on a server, migrates and drops',
    '  --verbose           lists SQL statements whose text is not known, and calls that look dangerous and that no rule could judge',
    '  --env <name>        production, development or test; default SVC_ENV, else production, even if the source sets another',
    ENV_FILE_HELP,
    `  --timeout <seconds> time limit for the import of the module; default ${DEFAULT_TIMEOUT_SECONDS}`,
    '  --no-color          prints no colours; colours are used only on terminals, and not with NO_COLOR',
    '  --list              prints the rules; with a module, also those of its plugins and its own; as JSON with --format json',
    '  --explain <rule>    prints the purpose of a rule and the remedy for its findings; loads no application',
    '',
    'The module is imported in a process of its own, without network. No startup hook runs. Only the files of --output, --known and --statements are written.',
    'Standard output has only the report; output of the application goes to standard error.',
    '',
    'Status: 0 passed, 1 findings, 2 invalid arguments, 3 the module could not be imported, 4 a bug of svc, 124 time limit reached',
  ].join('\n'),
  options: {
    format: { type: 'string' },
    output: { type: 'string', multiple: true },
    'fail-level': { type: 'string' },
    'max-warnings': { type: 'string' },
    baseline: { type: 'string', multiple: true },
    statements: { type: 'string' },
    known: { type: 'string' },
    only: { type: 'string', multiple: true },
    skip: { type: 'string', multiple: true },
    env: { type: 'string' },
    'env-file': { type: 'string' },
    timeout: { type: 'string' },
    'no-color': { type: 'boolean' },
    database: { type: 'string', multiple: true },
    'scratch-database': { type: 'string', multiple: true },
    verbose: { type: 'boolean' },
    live: { type: 'boolean' },
    list: { type: 'boolean' },
    explain: { type: 'string' },
  },
  choices: {
    format: FORMATS,
    output: FORMATS.map((format) => `${format}=`),
    'fail-level': SEVERITIES,
    env: ENVS,
    only: idsOfRules,
    skip: idsOfRules,
    explain: idsOfRules,
    database: [],
    'scratch-database': [],
    'max-warnings': [],
    timeout: [],
  },
  takesModule: (values, positionals) => positionals.length > 0 || !isAboutRules(values),
  check: readCheckOptions,
  absent: async ({ values }, given, error) =>
    print(
      await failed({ token: '', given }, error.message.replace(/^Cannot load "[^"]*": /, ''), {
        remedy: error.remedy,
      }),
      given,
      values,
    ),
  run: (invocation) =>
    check(invocation).catch((error: unknown) => {
      const fault = permissionFault(error);
      if (fault instanceof SvcError) throw fault;
      process.stderr.write(
        `svc: ${String((error as Error | null)?.cause ?? (error as Error | null)?.stack ?? error)}\n`,
      );
      return 4;
    }),
};

type Format = (typeof FORMATS)[number];

interface Output {
  readonly format: Format;
  readonly file: string;
}

interface CheckOptions extends Selection {
  readonly format: Format;
  readonly outputs: readonly Output[];
  readonly failLevel: Severity;
  readonly maxWarnings: number | undefined;
  readonly timeoutMs: number;
  readonly baseline: AskOptions['baseline'];
  readonly databases: AskOptions['databases'];
  readonly statementFiles: StatementFiles;
  /** File of known findings (`--known`), which are left out of the report. */
  readonly known: string | undefined;
  readonly wants: 'report' | 'live';
}

/** Returns every rule of this package. Loads the rules that read sources, which other commands do not need. */
async function coreRules(): Promise<readonly RuleText[]> {
  return (await import('../check/rules/rules.ts')).CORE_RULES;
}

async function idsOfRules(): Promise<readonly string[]> {
  return (await coreRules()).map(({ id }) => id);
}

function isAboutRules(values: Invocation['values']): boolean {
  return values['list'] === true || values['explain'] !== undefined;
}

async function check({ values, subject }: Invocation): Promise<number> {
  const options = await readCheckOptions(values);
  if (isAboutRules(values))
    return printRules(
      values,
      options,
      subject === undefined
        ? await coreRules()
        : (await ask(subject, { wants: 'report', timeoutMs: options.timeoutMs })).rules,
    );
  const startMs = systemClock.monotonicMs();
  const answer = await ask(subject!, options); // `subject` is set, because this command takes a module
  const { lock } = options.statementFiles;
  if (answer.kind === 'checked' && lock !== undefined && answer.lock !== lock.text)
    writeOutput(lock.file, answer.lock!.trimEnd(), 'statements');
  const status = await print(answer, subject!.given, values);
  if (options.format === 'human' && process.stderr.isTTY)
    process.stderr.write(`svc check took ${((systemClock.monotonicMs() - startMs) / 1_000).toFixed(2)} s\n`);
  return status;
}

async function print(
  answer: Extract<Answer, { report: Report }>,
  target: string,
  values: Invocation['values'],
): Promise<number> {
  const options = await readCheckOptions(values);
  const isLoaded = answer.kind === 'checked';
  const { known: file } = options;
  // why a module could not be imported is shown whatever rules are selected
  const selected = isLoaded ? selectedOf(answer, options) : answer.report;
  const isKept = file === undefined || !isLoaded;
  // the file of known findings lists every route, so a new one in a table of routes is a new finding
  const report = withoutRepeats(
    isKept ? selected : withoutKnown(selected, answer.rules, { ...options, known: file }),
  );
  const cwd = process.cwd();
  const isVerbose = values['verbose'] === true;
  // calls that no rule could judge are listed only if the user asks for them
  const scope = isLoaded ? { ...answer.scope, ...(isVerbose ? {} : { unjudged: undefined }) } : undefined;
  const known = report.suppressed.length - selected.suppressed.length;
  const context = { target, cwd, root: repositoryRoot(cwd), rules: answer.rules, scope, isVerbose, known };
  await printAll(
    render(options.format, report, context, { options, isLoaded, hasColour: hasColours(values) }),
  );
  if (options.format === 'github') summarize(report, context);
  for (const { format, file } of options.outputs)
    writeOutput(file, render(format, report, context, { options, isLoaded, hasColour: false }));
  if (answer.kind === 'failed') return answer.isLate ? 124 : 3;
  return fails(report, options) ? 1 : 0;
}

/** Returns the findings of the selected rules, and those that say which statements no rule could judge. */
function selectedOf(
  { report, unprepared }: Extract<Answer, { kind: 'checked' }>,
  options: Selection,
): Report {
  const { findings, suppressed } = select(report, options);
  const hidden = unprepared.filter(
    ({ rule }) => !isSelected(rule, options) && isSelected(rule, { only: [], skip: options.skip }),
  );
  return makeReport([...findings, ...hidden], suppressed);
}

/** Joins the findings of one mistake: a router with two prefixes, or a loop over a table, declares several routes at one place. */
function withoutRepeats({ findings, suppressed }: Report): Report {
  const groups = Map.groupBy(findings, (finding) => {
    const { rule, severity, message, subject, place } = finding;
    const isOfRoute = /^[A-Z]+ \//.test(subject) && place !== undefined;
    return JSON.stringify([rule, severity, message, place, isOfRoute ? '' : subject]);
  });
  const joined = [...groups.values()].flatMap(([first, ...more]) => {
    if (first === undefined) return [];
    const others = new Set(more.map(({ subject }) => subject));
    others.delete(first.subject);
    return others.size === 0
      ? [first]
      : [{ ...first, message: `${first.message}; also ${listed([...others])}` }];
  });
  return makeReport(joined, suppressed);
}

/** Routes that a message names. More are counted. */
const MAX_NAMED = 4;

function listed(subjects: readonly string[]): string {
  const named = subjects.slice(0, subjects.length > MAX_NAMED ? MAX_NAMED - 1 : MAX_NAMED);
  const more = subjects.length - named.length;
  return [...named, ...(more === 0 ? [] : [`${more} more routes`])].join(', ');
}

/**
 * Suppresses the findings that the file of `--known` lists. If the file does not exist, writes all findings
 * to it. Removes findings that no longer occur, so that the file only shrinks.
 */
function withoutKnown(
  report: Report,
  rules: readonly RuleText[],
  { known: file, ...options }: CheckOptions & { readonly known: string },
): Report {
  const found = keysOf(report.findings);
  const known = readKnown(file);
  const isJudged = (key: string): boolean => judges(key.split(' ', 1)[0]!, rules, options);
  const kept = known === undefined ? found : known.filter((key) => found.includes(key) || !isJudged(key));
  if (known === undefined || kept.length < known.length)
    writeOutput(file, JSON.stringify({ schemaVersion: 1, known: kept }, null, 2), 'known');
  if (known === undefined) process.stderr.write(`${kept.length} known findings were written to ${file}\n`);
  const isKnown = new Set(kept);
  return makeReport(
    report.findings.filter((_, index) => !isKnown.has(found[index]!)),
    [...report.suppressed, ...report.findings.filter((_, index) => isKnown.has(found[index]!))],
  );
}

/** Whether this run can report findings of a rule, which may need `--live` or a file. */
function judges(
  id: string,
  rules: readonly RuleText[],
  options: Pick<CheckOptions, 'only' | 'skip' | 'wants' | 'baseline' | 'statementFiles'>,
): boolean {
  const { baseline, statementFiles } = options;
  const isAbsent =
    (id === 'SVC306' && baseline === undefined) ||
    (id === 'SVC421' && statementFiles.lock === undefined) ||
    (id === 'SVC422' && statementFiles.previous === undefined);
  if (!isSelected(id, options) || isAbsent) return false;
  return options.wants === 'live' || rules.find((rule) => rule.id === id)?.phase !== 'live';
}

/** Returns a readable key for each finding, without a line number: its rule, subject and fingerprint. */
function keysOf(findings: readonly Finding[]): string[] {
  return fingerprints(findings).map(
    (print, index) => `${findings[index]!.rule} ${findings[index]!.subject} ${print}`,
  );
}

/**
 * Returns the file of `--known`. Where `CI` is set, the file must exist: a job would write it to a folder that is
 * lost, and each run would pass.
 */
function readKnownFile(values: Invocation['values']): string | undefined {
  const file = textOf(values, 'known');
  if (file !== undefined && process.env['CI'] && !existsSync(file))
    throw new SvcError('E_CLI_USAGE', [
      `the file "${file}" of --known does not exist: write it on your machine, and commit it`,
    ]);
  return file;
}

function readKnown(file: string): readonly string[] | undefined {
  if (!existsSync(file)) return undefined;
  const refuse = (cause?: unknown): never => {
    throw new SvcError(
      'E_CLI_USAGE',
      [`--known needs a file that svc check --known has written, but ${file} has another content`],
      { cause },
    );
  };
  try {
    const { known } = JSON.parse(readFileSync(file, 'utf8')) as { known?: unknown };
    return isTextList(known) ? known : refuse();
  } catch (error) {
    return refuse(error);
  }
}

interface RenderOptions {
  readonly options: CheckOptions;
  readonly isLoaded: boolean;
  readonly hasColour: boolean;
}

function render(
  format: Format,
  report: Report,
  context: ReportContext,
  { options, isLoaded, hasColour }: RenderOptions,
): string {
  switch (format) {
    case 'human':
      return humanReport(report, context, hasColour);
    case 'json':
      return jsonReport(report, context);
    case 'sarif':
      return sarifReport(report, context, { version: ownVersion(), isLoaded });
    case 'github':
      return githubReport(report, context);
    case 'gitlab':
      return gitlabReport(report, context);
    case 'junit':
      return junitReport(report, context, failsBy(options));
  }
}

/** Appends to `GITHUB_STEP_SUMMARY`. A failed write does not fail the check. */
function summarize(report: Report, context: ReportContext): void {
  const file = process.env['GITHUB_STEP_SUMMARY'];
  if (!file) return;
  try {
    appendFileSync(file, githubSummary(report, context));
  } catch (error) {
    process.stderr.write(`svc: the job summary (GITHUB_STEP_SUMMARY) cannot be written: ${codeOf(error)}\n`);
  }
}

/** Returns a function that is true for findings whose severity makes the check fail. */
function failsBy({ failLevel }: CheckOptions): (finding: Finding) => boolean {
  const failing = SEVERITIES.slice(0, SEVERITIES.indexOf(failLevel) + 1);
  return ({ severity }) => failing.includes(severity);
}

function fails({ findings }: Report, options: CheckOptions): boolean {
  return (
    findings.some(failsBy(options)) ||
    (options.maxWarnings !== undefined && countFindings(findings).warning > options.maxWarnings)
  );
}

async function printRules(
  values: Invocation['values'],
  { format }: CheckOptions,
  rules: readonly RuleText[],
): Promise<number> {
  const asJson = (listed: readonly RuleText[]): string =>
    JSON.stringify(
      { schemaVersion: 1, rules: listed },
      ['schemaVersion', 'rules', 'id', 'severity', 'phase', 'why', 'remedy'],
      2,
    );
  const id = textOf(values, 'explain');
  if (id === undefined) {
    const width = Math.max(...rules.map((rule) => rule.id.length));
    await printAll(
      format === 'json'
        ? asJson(rules)
        : rules
            .map(
              (rule) =>
                `${rule.id.padEnd(width)}  ${rule.severity.padEnd(7)}  ${rule.phase.padEnd(11)}  ${rule.remedy}`,
            )
            .join('\n'),
    );
    return 0;
  }
  const found = findRule(id, rules);
  if ('near' in found) throw unknownRule(id, found.near);
  const { rule } = found;
  await printAll(
    format === 'json'
      ? asJson([rule])
      : `${rule.id}: ${rule.severity} unless a finding says otherwise, found in the phase ${rule.phase}\n\nWhy: ${rule.why}.\n\nFix: ${rule.remedy}.${more(rule)}`,
  );
  return 0;
}

/** Returns the explanation of a rule: code that breaks it, code that does not, and further reading. */
function more({ wrong, right, cwe = [], sources = [] }: RuleText): string {
  if (wrong === undefined) return '';
  const further = [...cwe.map((each) => `CWE-${each}`), ...sources];
  return `\n\nWrong:\n  ${wrong}\n\nRight:\n  ${right}${further.length === 0 ? '' : `\n\nSee: ${further.join(', ')}.`}`;
}

function unknownRule(id: string, near: string | undefined): SvcError<'E_CLI_USAGE'> {
  return new SvcError('E_CLI_USAGE', [
    `unknown rule "${id}": ${near === undefined ? 'svc check --list shows all rules' : `did you mean "${near}"?`}`,
  ]);
}

async function readCheckOptions(values: Invocation['values']): Promise<CheckOptions> {
  return {
    ...readFiles(values),
    databases: readPlaces(values),
    known: readKnownFile(values),
    format: readWord(
      'format',
      values['format'],
      FORMATS,
      process.env['GITHUB_ACTIONS'] === 'true' ? 'github' : 'human',
    ),
    outputs: textsOf(values, 'output').map(readOutput),
    failLevel: readWord('fail-level', values['fail-level'], SEVERITIES, 'error'),
    maxWarnings: readCount('max-warnings', values['max-warnings'], 0, 999_999_999),
    timeoutMs:
      (readCount('timeout', values['timeout'], 1, MAX_TIMEOUT_SECONDS) ?? DEFAULT_TIMEOUT_SECONDS) * 1_000,
    wants: values['live'] === true ? 'live' : 'report',
    only: await readPatterns('only', textsOf(values, 'only')),
    skip: await readPatterns('skip', textsOf(values, 'skip')),
  };
}

/**
 * Reads the files of `--baseline` and `--statements`. The first line of a file says whether it has statements: both
 * kinds of baselines are what the previous release has left, so they share an option.
 */
function readFiles(values: Invocation['values']): Pick<CheckOptions, 'baseline' | 'statementFiles'> {
  const read = textsOf(values, 'baseline').map((file) => ({ file, text: readGiven('baseline', file) }));
  const document = read.findLast(({ text }) => !isLock(text));
  const previous = read.findLast(({ text }) => isLock(text));
  const lock = textOf(values, 'statements');
  const text = lock === undefined || !existsSync(lock) ? '' : readGiven('statements', lock);
  if (text !== '' && !isLock(text))
    refuseFile('statements', lock!, 'svc check --statements has not written the file');
  return {
    baseline: document && openapiIn(document.file, document.text),
    statementFiles: {
      lock: lock === undefined ? undefined : statementsIn('statements', lock, text),
      previous: previous && statementsIn('baseline', previous.file, previous.text),
    },
  };
}

function refuseFile(option: string, file: string, problem: string, cause?: unknown): never {
  throw new SvcError('E_CLI_USAGE', [`--${option} "${file}": ${problem}`], { cause });
}

function readGiven(option: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    return refuseFile(option, file, `the file cannot be read: ${codeOf(error)}`, error);
  }
}

function statementsIn(option: string, file: string, text: string): NonNullable<StatementFiles['lock']> {
  try {
    readLock(text);
  } catch (error) {
    refuseFile(option, file, (error as Error).message, error);
  }
  return { file: resolve(file), text };
}

function openapiIn(file: string, text: string): AskOptions['baseline'] {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return refuseFile('baseline', file, 'the file does not contain valid JSON', error);
  }
  if (typeof document !== 'object' || document === null || !('paths' in document))
    return refuseFile('baseline', file, 'the file is not an OpenAPI document: it has no member "paths"');
  return document as NonNullable<AskOptions['baseline']>;
}

function readOutput(given: string): Output {
  const [form, file] = [given.slice(0, given.indexOf('=')), given.slice(given.indexOf('=') + 1)];
  if (!given.includes('=') || file === '')
    throw new SvcError('E_CLI_USAGE', [
      `--output needs a format and a file, such as "sarif=check.sarif", found "${given}"`,
    ]);
  return { format: readWord('output', form, FORMATS, 'human'), file };
}

/**
 * Returns the patterns of rules in an option. Rejects a pattern such as `SVC9*` that matches no built-in
 * rule, because it is probably misspelt. Accepts any pattern with a slash, because it may match rules of
 * plugins.
 */
async function readPatterns(option: string, given: readonly string[]): Promise<string[]> {
  const patterns = given
    .flatMap((text) => text.split(','))
    .map((pattern) => pattern.trim())
    .filter((pattern) => pattern !== '');
  const ids = patterns.length === 0 ? [] : await idsOfRules();
  for (const pattern of patterns) {
    if (!/^[\w*./@-]+$/.test(pattern))
      throw new SvcError('E_CLI_USAGE', [
        `--${option} needs the ids of rules, or patterns such as "SVC1*", found "${pattern}"`,
      ]);
    const isOurs = /^SVC(?:\d|[^*/]*$)/i.test(pattern) || !/[*/]/.test(pattern);
    if (isOurs && !ids.some((id) => matches(pattern, id)))
      throw unknownRule(pattern, nearest(pattern, ids, 1));
  }
  return patterns;
}

/**
 * Returns the folder from which CI systems resolve the paths of annotations: `GITHUB_WORKSPACE` if the folder
 * is below it, else the next folder above with a `.git`, else the folder itself. `.git` is a file in worktrees and submodules.
 */
export function repositoryRoot(folder: string, env: NodeJS.ProcessEnv = process.env): string {
  const workspace = env['GITHUB_WORKSPACE'];
  if (workspace && existsSync(workspace)) {
    const root = realpathSync(workspace);
    if (`${folder}${sep}`.startsWith(root.endsWith(sep) ? root : root + sep)) return root;
  }
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return at;
    if (at === dirname(at)) return folder;
  }
}
