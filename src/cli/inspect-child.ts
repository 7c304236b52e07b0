/**
 * Child process that imports an application to inspect it: it receives one request, sends one response and
 * exits.
 *
 * The standard output of this process is connected to standard error of the parent, so that output of the
 * application does not mix with a report.
 */
import { systemClock } from '../base/clock.ts';
import { layersOf, makeReport, probe } from '../check/check.ts';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseHandlers } from '../check/rules/code.ts';
import { findObjectsOfOthers } from '../check/rules/contract.ts';
import { findUnnamedHosts } from '../check/rules/deployment.ts';
import { absentVariables } from '../check/rules/variables.ts';
import { readProject } from '../check/reader/modules.ts';
import { Sources } from '../check/sources.ts';
import { findStaleRowClasses } from '../check/rules/environment.ts';
import { CORE_RULES, coreRule, textsOf } from '../check/rules/rules.ts';
import { denyStart } from '../app/lifecycle.ts';
import { Describers, leave } from './describers.ts';
import { Denied, HandleWatch, denyNetwork, isDenied } from './quarantine.ts';
import { variableOf, isServedByMany } from '../base/config.ts';
import { SvcError } from '../base/errors.ts';
import { faultOf } from '../base/faults.ts';
import { placeOf } from '../base/findings.ts';
import { recordSecrets } from '../base/used-secrets.ts';
import { hasSecret } from '../crypto/keys.ts';
import { isFault, loadApplication } from './load.ts';
import { middlewareName } from '../http/pipeline.ts';
import { flush } from '../observability/log.ts';
import { findBreakingChanges } from '../openapi/compare.ts';
import { planNames } from '../mcp/tools.ts';
import { openapiFindings } from '../openapi/openapi.ts';
import type { Svc } from '../app/svc.ts';
import type { Answer, Begun, Job, ListedRoute } from './inspect.ts';
import type { Finding, Place, Report } from '../base/findings.ts';
import type { UsedSecret } from '../base/used-secrets.ts';
import type { Trespass } from './quarantine.ts';
import type { Project } from '../check/reader/modules.ts';
import type { ApplicationView } from '../check/check.ts';
import type { ReportScope } from '../check/report.ts';
import type { SourceReport } from '../check/examine.ts';

const FAULTY = { rule: 'SVC001', severity: 'error' } as const;
const STACK_FRAMES = 50;
const SLOW_IMPORT_MS = 1_500;

process.once('message', (job: Job) => {
  // fork() defines process.send. It is bound here, because the application may remove it later.
  const send = process.send!.bind(process);
  const answer = (of: Answer): void => {
    flush();
    process.channel?.ref(); // keeps the process alive until the parent has received the response
    send(of);
  };
  send({ token: job.token, kind: 'begun' } satisfies Begun);
  work(job).then(answer, (error: unknown) =>
    answer({
      token: job.token,
      kind: 'crashed',
      stack: error instanceof Error ? (error.stack ?? error.message) : String(error),
    }),
  );
});
process.once('disconnect', () => void leave()); // the parent process has ended, or has reached its time limit

async function work(job: Job): Promise<Answer> {
  prepareProcess();
  const secrets = recordSecrets();
  const network = denyNetwork();
  const { loaded, found, running } = await importIn(job, network);
  const { token, wants, baseline } = job;
  if (!('app' in loaded)) {
    const report = makeReport([...found, ...unloaded(job, loaded, running)]);
    return { token, kind: 'failed', isLate: 'isLate' in loaded, report, rules: textsOf() };
  }
  const { app } = loaded;
  if (wants === 'routes') return { token, kind: 'routes', routes: routesOf(app) };
  if (baseline !== undefined) found.push(...findBreakingChanges(app.inspect(), baseline));
  if (wants === 'report' || wants === 'live') {
    judgeAsDeployed(app);
    // texts that may contain the host names that CORS origin functions accept
    await probe(app.inspect(), () =>
      [...projectOf(job).modules.map(({ source }) => source), ...Object.values(process.env)].join('\n'),
    );
    await parseHandlers();
  }
  const checked = app.check();
  const isBroken = checked.findings.some(
    ({ rule, severity }) => severity === 'error' && rule.startsWith('SVC1'),
  );
  // for an application with errors, the answer is a report, because its OpenAPI document would lack routes
  if (wants !== 'openapi' || isBroken) return reportOn(job, app, { found, checked, secrets, network });
  const problems = openapiFindings(app.inspect()).map(({ subject, message }) => `${subject}: ${message}`);
  return { token, kind: 'openapi', document: JSON.stringify(app.openapi(), null, 2), problems };
}

function prepareProcess(): void {
  // an open channel keeps the event loop busy, so that a promise that never settles would not be detected
  process.channel?.unref();
  // makes stack traces of compiled code show places in its sources
  process.setSourceMapsEnabled(true);
  Error.stackTraceLimit = STACK_FRAMES;
  // opens both streams now, so that they do not count as opened by the application
  void process.stdout.writable;
  void process.stderr.writable;
  denyStart();
}

interface Imported {
  readonly loaded: Loaded;
  readonly found: Finding[];
  /** Unfinished work that keeps the process alive. */
  readonly running: readonly string[];
}

async function importIn(job: Job, network: Network): Promise<Imported> {
  const escaped: unknown[] = [];
  for (const event of ['uncaughtException', 'unhandledRejection'])
    process.on(event, (error: unknown) => void escaped.push(error));
  const watch = new HandleWatch();
  const startedMs = importMsSoFar();
  const loaded = await load(job);
  const importMs = importMsSoFar() - startedMs;
  const hasApp = 'app' in loaded;
  // waits one turn of the event loop, because Node.js emits unhandled rejections after the import
  if (hasApp) await systemClock.sleep(0);
  const open = hasApp ? await watch.leftOpen() : [];
  const tried = await placed(job, [...network.tried, ...open]);
  const found = [
    ...trespasses(job, tried),
    ...escaped.filter((error) => !isDenied(error)).map((error) => loadFinding(job, error)),
    ...(hasApp ? slow(job, importMs) : []),
  ];
  return { loaded, found, running: hasApp ? [] : watch.runningNow() };
}

type Network = ReturnType<typeof denyNetwork>;

/** Joins the findings of the import, the graph, the sources, the statements and the services. */
async function reportOn(
  job: Job,
  app: Svc,
  before: {
    readonly found: readonly Finding[];
    readonly checked: Report;
    readonly secrets: readonly UsedSecret[];
    readonly network: Network;
  },
): Promise<Answer> {
  const { found, checked, network } = before;
  if (job.wants === 'live') network.allow();
  const live = job.wants === 'live' ? await app.checkLive() : undefined;
  const { joinFindings } = await import('../check/source-places.ts');
  const { examineSources } = await import('../check/examine.ts');
  const { allowInline } = await import('../check/allowances.ts');
  const { DeclaredInputs } = await import('../check/values/inputs.ts');
  const { enginesOf, judgeStatements, migrationTexts } = await import('../check/statements/databases.ts');
  const view = app.inspect();
  const inputs = new DeclaredInputs([...view.details, ...view.tools]);
  const { plugins } = view;
  const sources = examineSources(
    projectOf(job),
    CORE_RULES,
    inputs,
    migrationTexts(plugins),
    enginesOf(plugins),
    { isServedByMany: isServedByMany(view), hasAuthSecret: hasSecret(view.settings) },
  );
  const { modules } = sources.project;
  // the password of --database is no secret of the application
  const used = [...before.secrets, ...settingSecrets(app)];
  const { databases = {}, statementFiles } = job;
  if (Object.keys(databases).length > 0) network.allow();
  const hasStatements = sources.statements.calls.length > 0 || statementFiles !== undefined;
  await using describers = await Describers.open(view, databases, hasStatements, migratedNow(view, live));
  const statements = await judgeStatements(view, sources, CORE_RULES, describers.byPlugin, statementFiles);
  const lost = describers.findings;
  const report = makeReport(
    [
      ...found,
      ...joinFindings(
        [...checked.findings, ...findObjectsOfOthers(view, sources.objects)],
        sources,
        used,
        coreRule('SVC205'),
      ),
      ...statements.findings,
      ...lost,
      ...(live?.findings ?? []),
      ...findUnnamedHosts(view, coreRule('SVC219'), sources.hasHostLinks),
      ...(await findStaleRowClasses(view, coreRule('SVC406'), modules)),
    ],
    [...checked.suppressed, ...(live?.suppressed ?? [])],
  );
  const allowed = allowInline(report, modules, app.rules, view.nowMs);
  return {
    token: job.token,
    kind: 'checked',
    report: allowed,
    unprepared: allowed.findings.filter((finding) => lost.includes(finding)),
    rules: textsOf(app.rules),
    scope: { ...scopeOf(app, sources), statements: statements.scope },
    lock: statements.lock,
  };
}

/** Returns the plugins whose databases respond and have all migrations; none without --live. */
function migratedNow(
  { plugins }: Pick<ApplicationView, 'plugins'>,
  live: Report | undefined,
): ReadonlySet<string> {
  const { findings = [], suppressed = [] } = live ?? {};
  const lacking = new Set(
    [...findings, ...suppressed].flatMap(({ rule, subject }) => (rule === 'SVC402' ? [subject] : [])),
  );
  const names = live === undefined ? [] : plugins.map(({ name }) => name);
  return new Set(names.filter((name) => !lacking.has(`database ${name}`)));
}

/** Compiles the application as production, unless the command line or SVC_ENV names another environment. */
function judgeAsDeployed(app: Svc): void {
  const env = process.env['SVC_ENV'];
  const workers = process.env['SVC_WORKERS'] === undefined ? workersOfScripts() : undefined;
  try {
    if (workers !== undefined) app.config.loadDict({ workers });
    app.withEnvironment({ env: env === 'development' || env === 'test' ? env : 'production' });
  } catch (error) {
    // the module has already compiled the application, so its environment can no longer be changed
    if ((error as Partial<SvcError>).code !== 'E_APP_FROZEN') throw error;
  }
}

function workersOfScripts(): string | undefined {
  for (const file of ['package.json', 'Dockerfile'])
    if (existsSync(file)) {
      const workers = /\brun\b.*--workers[=\s",]+(\d+|auto)\b/.exec(readFileSync(file, 'utf8'))?.[1];
      if (workers !== undefined) return workers;
    }
  return undefined;
}

let project: Project | undefined;

/** Returns the sources of the application. They are read once, because this process inspects one application. */
function projectOf({ module }: Job): Project {
  return (project ??= readProject([fileURLToPath(module)]));
}

/** Returns secret settings whose values are set in code and not by environment variables. */
function settingSecrets(app: Svc): UsedSecret[] {
  const { settings, place } = app.inspect();
  return ['authSecret', 'authSecretPrevious', 'mcpToken'].flatMap((key) =>
    settings.sourceOf(key) === 'environment'
      ? []
      : [settings.peek(key)]
          .flat()
          .filter((text) => typeof text === 'string')
          .map((text) => ({ text, owner: `the application (${variableOf(key)})`, declared: { place } })),
  );
}

/** Counts the parts of the application that the report covers. */
function scopeOf(app: Svc, { project, sources }: SourceReport): Omit<ReportScope, 'statements'> {
  const { details, tools, env } = app.inspect();
  const own = details.filter(({ isOperation }) => !isOperation);
  const sockets = own.filter(({ declared }) => declared.socket !== undefined).length;
  return {
    env,
    routes: own.length - sockets,
    sockets,
    tools: planNames(details, tools).length,
    files: project.modules.length,
    unread: project.unread,
    unjudged: sources.unjudged,
  };
}

type Loaded =
  { readonly app: Svc } | { readonly error: unknown } | { readonly hung: string; readonly isLate?: true };

/** Returns findings that say why there is no application, without denied operations. */
function unloaded(
  job: Job,
  loaded: Exclude<Loaded, { app: Svc }>,
  running: readonly string[],
): readonly Finding[] {
  if ('hung' in loaded) {
    const work = `: unfinished work of the module (${running.join(', ')}) keeps the process alive`;
    return [
      {
        ...FAULTY,
        subject: job.given,
        message: loaded.hung + (running.length === 0 ? '' : work),
        remedy:
          'At the top level of the module, await only work that ends soon. Do other work in app.onStartup()',
      },
    ];
  }
  const { error } = loaded;
  if (isDenied(error)) return [];
  return (error as Partial<SvcError> | null)?.code === 'E_COMPILE'
    ? (error as SvcError).findings
    : [loadFinding(job, error)];
}

/** Imports the application within its time limit. Also detects a top-level await that never settles. */
async function load({ target, module, timeoutMs }: Job): Promise<Loaded> {
  const { promise: ended, resolve } = Promise.withResolvers<Loaded>();
  let what = 'a top-level await';
  const onHung = (): void => resolve({ hung: `${what} waits forever` });
  using _deadline = systemClock.after(timeoutMs, () =>
    resolve({ hung: `the import of the module has not ended after ${timeoutMs / 1_000} s`, isLate: true }),
  );
  process.once('beforeExit', onHung);
  const onCall = (name: string): void => {
    what = `the function ${name}()`;
  };
  const loading = loadApplication(target, new URL(module), onCall).then(
    (app): Loaded => ({ app }),
    (error: unknown): Loaded => ({ error }),
  );
  const loaded = await Promise.race([loading, ended]);
  process.off('beforeExit', onHung);
  return loaded;
}

/** Returns milliseconds of work and waits, without the time of other processes. */
function importMsSoFar(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000 + performance.eventLoopUtilization().idle;
}

/** SVC503: a slow import, which delays every start of every process. */
function slow({ given }: Job, importMs: number): readonly Finding[] {
  if (importMs < SLOW_IMPORT_MS) return [];
  const { severity, remedy } = coreRule('SVC503');
  return [
    {
      rule: 'SVC503',
      severity,
      subject: given,
      message: `importing the application takes ${(importMs / 1_000).toFixed(1)} s, longer than the limit of ${SLOW_IMPORT_MS / 1_000} s`,
      remedy,
    },
  ];
}

/** Finds the place of an opened connection in the sources, if the stack trace does not contain the place. */
async function placed(job: Job, found: readonly Trespass[]): Promise<readonly Trespass[]> {
  const isUnknown = ({ what, place }: Trespass): boolean =>
    place.line === 0 && /^(?:connects|looks up)/.test(what);
  if (!found.some(isUnknown)) return found;
  const { openedAtImport } = await import('../check/examine.ts');
  const opened = openedAtImport(projectOf(job));
  return found.map((each) => (isUnknown(each) && opened !== undefined ? { ...each, place: opened } : each));
}

function trespasses({ given }: Job, found: readonly Trespass[]): Finding[] {
  return found.map(({ what, place }) => ({
    ...FAULTY,
    subject: given,
    message: `the import ${what}`,
    remedy: coreRule('SVC001').remedy,
    place: known(place),
  }));
}

/** Returns the finding for an error of the import: SVC001, or the rule of its code. */
function loadFinding(job: Job, error: unknown): Finding {
  const cause = error instanceof SvcError && error.code === 'E_LOAD' ? (error.cause ?? error) : error;
  const said =
    error instanceof Error
      ? error.message.replace(/^Cannot load "[^"]*": /, '')
      : `a value that is not an Error was thrown`;
  const located = /^((?:file:|\/|[A-Za-z]:\\).*?):(\d+): (.*)$/s.exec(said);
  const place =
    (cause instanceof Error ? known(placeOf(cause.stack ?? '')) : undefined) ??
    (located?.[1] === undefined ? undefined : { file: located[1], line: Number(located[2]), column: 1 });
  const text = cause instanceof Error ? cause.message : said;
  const absent = absentVariables(new Sources(projectOf(job)), text, place);
  const unsaid = absent.filter((name) => !said.includes(name));
  const [variables, are] = unsaid.length === 1 ? ['variable', 'is'] : ['variables', 'are'];
  const note =
    unsaid.length === 0 ? '' : `; the environment ${variables} ${unsaid.join(', ')} ${are} not set`;
  const remedy =
    isFault(cause) && !(cause instanceof Denied)
      ? cause.remedy
      : 'Fix the problem that the message describes, so that the module can be imported';
  return {
    rule: isFault(cause) ? (faultOf(cause.code)?.rule ?? 'SVC001') : 'SVC001',
    severity: 'error',
    subject: job.given,
    message: (located?.[3] ?? said) + note,
    remedy:
      absent.length === 0
        ? remedy
        : `Set ${absent.join(', ')}, or name the file that sets it: --env-file .env. Otherwise: ${remedy}`,
    place,
  };
}

function known(place: Place): Place | undefined {
  return place.line === 0 ? undefined : place;
}

function routesOf(app: Svc): ListedRoute[] {
  const view = app.inspect();
  return view.details.map(({ route, declared, isOperation }) => ({
    method: route.method,
    path: route.template,
    name: route.name ?? null,
    security: route.security,
    middleware: layersOf(view, declared).map((layer) => layer.kind ?? middlewareName(layer)),
    isPublic: declared.spec.public !== undefined && declared.spec.public !== false,
    isOperation,
    place: known(route.place) ?? null,
  }));
}
