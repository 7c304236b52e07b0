/**
 * The catalogue of checks: every rule of this package by its id, and those among them that look at a compiled application.
 *
 * An id is for ever. What has no `run` is found where it happens: while loading (cli/inspect-child.ts) or compiling
 * (routing/compile.ts, routing/di.ts, routing/plugin.ts, routing/route.ts), or in the sources (source/examine.ts).
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findForgeable, findGuessable, findStrangers, findUnguarded, findWeaker } from './access-rules.ts';
import { findBlocking, findLostCleanUp, findOutlived, findUnknownNames, findUnused } from './code-rules.ts';
import {
  findImpossibleReplies,
  findUnbounded,
  findUndescribedBodies,
  findUndescribedReplies,
} from './contract-rules.ts';
import { findDocumentFlaws } from './document-rules.ts';
import {
  enginesOf,
  findExposedInsides,
  findMissingHeaders,
  findLimitConflicts,
  findUnlimited,
  findUnnamedHosts,
  satisfies,
} from './deploy-rules.ts';
import {
  findContradictions,
  findMissingLayers,
  findRebound,
  findTwins,
  findUnreachable,
} from './graph-rules.ts';
import { findSecrets } from './secrets.ts';
import { SOURCE_RULES } from './source/catalogue.ts';
import { SvcError } from '../base/errors.ts';
import { closest } from '../base/options.ts';
import { CONVERTERS } from '../http/path.ts';
import { variableOf } from '../base/config.ts';
import type { ApplicationView, CoreRule, ReportFinding } from './check.ts';

/** Every rule of this package, in the order of their ids. */
export const CORE_RULES: readonly CoreRule[] = [
  {
    id: 'SVC001',
    severity: 'error',
    phase: 'load',
    why: 'A module that cannot be imported cannot be deployed. One that listens, connects or starts timers while it is imported cannot be checked, tested or used by another program either',
    remedy:
      'Declare at import; start what runs in app.onStartup(), and the server behind: if (import.meta.main) await app.run()',
  },
  {
    id: 'SVC101',
    severity: 'error',
    phase: 'graph',
    why: 'Of two routes with the same method and path only one can answer; names of parameters do not tell paths apart',
    remedy: 'Remove one of the two, or give it another path or method',
  },
  {
    id: 'SVC102',
    severity: 'error',
    phase: 'graph',
    run: findUnreachable,
    why: 'A route that no request can reach is dead code, and often the protected one of two',
    remedy: 'Remove the route, or make its path more specific than those that take its requests',
  },
  {
    id: 'SVC103',
    severity: 'warning',
    phase: 'graph',
    run: findTwins,
    why: 'Paths that differ only in case or in a slash at the end are two routes here, and one for many clients and proxies: a rule of access for one does not protect the other',
    remedy: 'Keep one spelling, and let the other redirect to it',
  },
  {
    id: 'SVC104',
    severity: 'error',
    phase: 'graph',
    run: findUnknownNames,
    why: 'A name belongs to one route: urlFor() and documents find it by that',
    remedy: 'Give each route a name of its own',
  },
  {
    id: 'SVC105',
    severity: 'info',
    phase: 'graph',
    run: findContradictions,
    why: 'HEAD is answered as GET without a body, and OPTIONS from the table of routes: a handler that says something else tells clients what is not so',
    remedy: 'Leave the handler out, unless it answers what GET and the preflight would',
  },
  {
    id: 'SVC106',
    severity: 'error',
    phase: 'graph',
    why: 'Prefixes of routers and paths of routes make up one path, which must be readable: no parameter twice, no router inside itself',
    remedy: 'Rename the parameter of one of the two, or include the router once',
  },
  {
    id: 'SVC107',
    severity: 'error',
    phase: 'graph',
    why: 'A route whose schemas or dependencies cannot be compiled could never answer',
    remedy: 'Mend what the message names',
  },
  {
    id: 'SVC111',
    severity: 'error',
    phase: 'graph',
    why: 'A dependency that needs itself can never be resolved',
    remedy: 'Break the circle: let one of them take what it needs from the request or the application',
  },
  {
    id: 'SVC112',
    severity: 'error',
    phase: 'graph',
    run: findOutlived,
    why: 'What lives longer cannot hold what lives shorter: it would use a value that has been cleaned up, or that belongs to another request',
    remedy: 'Give the outer dependency the narrower scope, or the inner one the wider',
  },
  {
    id: 'SVC113',
    severity: 'warning',
    phase: 'graph',
    run: findIdle,
    why: 'The handler sees the dependency of the innermost declaration; the other of that name runs for every request, and nobody sees what it gives',
    remedy: 'Give one of the two another name, or leave out the one that is not meant',
  },
  {
    id: 'SVC114',
    severity: 'error',
    phase: 'graph',
    why: 'Plugins are started in the order of what they require, so that there must be one',
    remedy: 'Register what is missing, break the circle, or mend what the plugin is made with',
  },
  {
    id: 'SVC121',
    severity: 'error',
    phase: 'graph',
    run: findMissingLayers,
    why: 'A middleware does its work only in its place of the onion and with settings that fit together',
    remedy: 'Follow what the middleware says of its order and options',
  },
  {
    id: 'SVC123',
    severity: 'info',
    phase: 'graph',
    why: 'Of two handlers for one class of exceptions the second takes all: the first never runs',
    remedy: 'Keep one handler for each class',
  },
  {
    id: 'SVC201',
    severity: 'error',
    phase: 'security',
    run: findUnguarded,
    why: 'Whoever finds a route that changes something can use it, unless it asks who they are',
    remedy:
      'Let it depend on who is there: me: Depends(BearerAuth()); where everybody may, say so and why: public: "anybody may sign up"',
  },
  {
    id: 'SVC202',
    severity: 'error',
    phase: 'security',
    run: findForgeable,
    why: 'A browser sends the cookie of a session whoever has made it send the request: without protection any page can act as the visitor who is logged in',
    remedy:
      'Register the protection behind the session: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
  },
  {
    id: 'SVC203',
    severity: 'warning',
    phase: 'security',
    run: findWeaker,
    why: 'Who may not read or change something should not be able to delete it: a guard is most often forgotten where a method was added later',
    remedy: 'Ask for the same, or for more, wherever more is changed',
  },
  {
    id: 'SVC204',
    severity: 'error',
    phase: 'security',
    run: findGuessable,
    why: 'A password, a code or a token that can be tried as often as somebody likes is found in the end',
    remedy: 'Limit it: app.use(new RateLimitMiddleware()), and for the route rateLimit: { perMinute: 5 }',
  },
  {
    id: 'SVC205',
    severity: 'error',
    phase: 'security',
    run: findSecrets,
    why: 'What signs and verifies needs a secret that nobody can guess; without one nothing it protects is protected',
    remedy: `Set the variable to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
  },
  {
    id: 'SVC206',
    severity: 'error',
    phase: 'security',
    run: findStrangers,
    why: 'A site that may call with the cookies of its visitors acts for them: it must be one you know, over TLS',
    remedy:
      'Name the origins that may call: new CORSMiddleware({ origins: ["https://app.example"], credentials: true })',
  },
  {
    id: 'SVC207',
    severity: 'error',
    phase: 'graph',
    why: 'A cookie that says who somebody is must go over TLS only, and to no other host',
    remedy: 'Leave the attributes of the cookie to their defaults',
  },
  {
    id: 'SVC208',
    severity: 'error',
    phase: 'security',
    run: findExposedInsides,
    why: 'What helps to develop helps to attack: traces, routes and metrics tell how an application is built',
    remedy: 'Turn it off in production, or ask for a credential',
  },
  {
    id: 'SVC210',
    severity: 'error',
    phase: 'security',
    why: 'Who trusts every proxy lets each client choose the address it is known by: limits, logs and rules by address are worth nothing then',
    remedy:
      "Name the proxies: trustProxy: ['loopback', '10.0.0.0/8'], or say how many there are: trustProxy: 1",
  },
  {
    id: 'SVC211',
    severity: 'warning',
    phase: 'security',
    run: findMissingHeaders,
    why: 'A browser protects visitors only as far as headers tell it to',
    remedy: 'Add app.use(new SecurityHeadersMiddleware()) before other middleware',
  },
  {
    id: 'SVC212',
    severity: 'error',
    phase: 'security',
    run: findUnlimited,
    why: 'Whatever a client may send, or wait for, without limit, a few clients can take the whole process with; a WebSocket that any page may open acts for its visitor',
    remedy: 'Keep limits and guards to their defaults, or to what your largest request needs',
  },
  {
    id: 'SVC213',
    severity: 'warning',
    phase: 'security',
    run: findExposed,
    why: 'Whatever lies in a directory of static files can be read by everybody who knows, or guesses, its name',
    remedy:
      'Serve a directory that holds nothing but what is meant to be public, and leave links and names with a dot out of it',
  },
  {
    id: 'SVC214',
    severity: 'error',
    phase: 'security',
    run: findLimitConflicts,
    why: 'The smaller of two limits decides, so what the larger one promises is refused',
    remedy: 'Give the route a maxBodyBytes above what its fields may have together, or lower their maxLength',
  },
  {
    id: 'SVC215',
    severity: 'warning',
    phase: 'source',
    why: 'A token that leaks is worth something until it ends, and most leaks are noticed late or never',
    remedy: 'Leave out requireExp, and give tokens an end: expiresInSeconds: 3_600',
  },
  {
    id: 'SVC216',
    severity: 'warning',
    phase: 'source',
    why: 'GET changes nothing (RFC 9110 §9.2.1): browsers send it for pictures, links and in advance, and no protection against forged requests looks at it',
    remedy: 'Make it POST or DELETE, with a form or fetch()',
  },
  {
    id: 'SVC217',
    severity: 'error',
    phase: 'source',
    why: 'An id that was there before the login may be known to another person, who has planted it: session fixation',
    remedy: 'Call req.session.regenerate() before req.session.set()',
  },
  {
    id: 'SVC218',
    severity: 'error',
    phase: 'source',
    why: 'Between two machines, statements, rows and passwords without TLS are readable and can be changed',
    remedy: 'Leave out sslmode, which is verify-full for other hosts; use rediss: for Redis',
  },
  {
    id: 'SVC219',
    severity: 'info',
    phase: 'security',
    run: findUnnamedHosts,
    why: 'A link in an e-mail is made of the host that a request names: a client that names its own gets the reset link of another person',
    remedy: 'Name the hosts: app.use(new TrustedHostMiddleware({ hosts: ["app.example"] }))',
  },
  {
    id: 'SVC301',
    severity: 'warning',
    phase: 'contract',
    run: findUndescribedBodies,
    why: 'A body without a schema reaches the handler unchecked, and no document tells what it should be',
    remedy: 'Declare it: body: User, or form: { name: Field(str, { maxLength: 40 }) }',
  },
  {
    id: 'SVC302',
    severity: 'error',
    phase: 'contract',
    run: findUndescribedReplies,
    why: 'A reply without a schema sends whatever the object has, now and after the next change; a secret that it names is sent to every client',
    remedy: 'Declare it: response: User; leave secrets out of it, or mark them: Field(str, { secret: true })',
  },
  {
    id: 'SVC303',
    severity: 'error',
    phase: 'contract',
    run: findImpossibleReplies,
    why: 'What a route declares and can never send is wrong in every document and every client made of it',
    remedy: 'Declare the status and the schema that it replies with',
  },
  {
    id: 'SVC304',
    severity: 'warning',
    phase: 'contract',
    run: findUnbounded,
    why: 'A pattern that backtracks without bound lets a short text keep the process busy for minutes; a text or a list without bound fills memory and databases',
    remedy: 'Write patterns without repetitions inside repetitions; give texts and lists a maxLength',
  },
  {
    id: 'SVC305',
    severity: 'error',
    phase: 'contract',
    run: findDocumentFlaws,
    why: 'Clients are made from documents, and choose tools by them: what a document cannot say, or says in two ways, they get wrong',
    remedy: 'Give each route a path, and each schema a name, that no other has',
  },
  {
    id: 'SVC306',
    severity: 'error',
    phase: 'contract',
    why: 'Clients that were written against the interface as it was stop working when it takes less, or gives less, than it did',
    remedy: 'Keep what was, beside what is new; or publish a new version of the interface',
  },
  {
    id: 'SVC401',
    severity: 'error',
    phase: 'environment',
    run: findSettings,
    why: 'A setting that cannot be read as what it is used for fails when it is first needed; a variable that nobody reads is most likely misspelt',
    remedy:
      'Set the variable, or the setting, to text of the form that is needed, or leave it out for its default',
  },
  {
    id: 'SVC402',
    severity: 'error',
    phase: 'live',
    run: async (view, report) => (await import('./live.ts')).findMigrations(view, report),
    why: 'A version of an application that meets a database without its migrations fails at the first statement that needs them, and one that cannot reach it, at all',
    remedy: 'Apply the migrations before the new version starts: svc migrate up <module>',
  },
  {
    id: 'SVC403',
    severity: 'warning',
    phase: 'environment',
    why: 'What is in the memory of one process is not in that of another: limits count several times, sessions are lost, requests are executed again',
    remedy: 'Give it a store that all processes share, or serve with one process',
  },
  {
    id: 'SVC404',
    severity: 'warning',
    phase: 'environment',
    run: findMachine,
    why: 'Node.js below its last security release has published holes that a server shows to everybody; a line past its end of life gets no more fixes',
    remedy: 'Run the newest release of a supported line: 24 or 26',
  },
  {
    id: 'SVC405',
    severity: 'warning',
    phase: 'live',
    run: async (view, report) => (await import('./live.ts')).findCertificates(view, report),
    why: 'Clients refuse a certificate that has ended, and a server does not start with one that is not of its key',
    remedy: 'Renew the certificate, and name its chain and its key: SVC_TLS_CERT, SVC_TLS_KEY',
  },
  {
    id: 'SVC501',
    severity: 'warning',
    phase: 'contract',
    run: findBlocking,
    why: 'A call that waits for a file, a process or a computation in place stops the whole process: every other request waits, too',
    remedy: 'Use the asynchronous form, or a worker',
  },
  {
    id: 'SVC502',
    severity: 'warning',
    phase: 'contract',
    run: findLostCleanUp,
    why: 'Clean-up that does not run, or that nobody waits for, leaks connections and loses the errors of commits',
    remedy: 'Put it into finally { … }, and await it',
  },
  {
    id: 'SVC503',
    severity: 'info',
    phase: 'load',
    why: 'Every process that starts, each worker and each rolling deploy, waits for the import',
    remedy: 'Import what is needed later when it is needed, and do what takes long in app.onStartup()',
  },
  ...SOURCE_RULES,
];

/** All of them: what is imported with this function is not needed until it is called. */
export function coreRules(): readonly CoreRule[] {
  return CORE_RULES;
}

// -- SVC113 --

function findIdle(view: ApplicationView, report: ReportFinding): void {
  findRebound(view, report);
  findUnused(view, report);
}

// -- SVC213 --

/** What shows that a directory holds a program rather than what is meant for everybody. */
const PRIVATE = ['package.json', 'node_modules'];

function findExposed(view: ApplicationView, report: ReportFinding): void {
  for (const {
    route,
    declared: { mount, template },
  } of view.details) {
    if (mount === undefined || template.parameters.at(-1)?.converter !== CONVERTERS.path) continue; // once for each mount
    const subject = `GET ${route.template}`;
    if (mount.followsSymlinks)
      report(subject, 'it follows links out of its directory: followSymlinks', route.place);
    if (mount.dotfiles === 'allow')
      report(subject, "it serves names that begin with a dot: dotfiles: 'allow'", route.place);
    const found = PRIVATE.filter((name) => existsSync(join(mount.folder.directory, name)));
    if (found.length > 0)
      report(subject, `its directory ${mount.folder.directory} has ${found.join(', ')}`, route.place);
  }
}

// -- SVC401 --

/** Settings that the framework reads when it needs them, and how. */
const LATER: Readonly<Record<string, NumberConstructor | BooleanConstructor | StringConstructor>> = {
  host: String,
  port: Number,
  enableDocs: Boolean,
  mcpToken: String,
  tlsCert: String,
  tlsKey: String,
};
/** Variables that are no settings of an application. */
const FOREIGN: ReadonlySet<string> = new Set(['SVC_DEBUG', 'SVC_NODE_INTERNALS', 'SVC_WORKERS']);
const CASTS = { number: Number, boolean: Boolean, string: String } as const;

function findSettings({ settings, secrets }: ApplicationView, report: ReportFinding): void {
  const reads = [...settings.reads().values()];
  const isRead = new Set(reads.map((read) => read.key));
  for (const { key, variable, cast, fallback } of reads) {
    if (cast !== undefined && cast !== 'custom') recast(key, CASTS[cast]);
    else if (cast === undefined && fallback === undefined && settings.peek(key) === undefined) {
      report(`setting ${key}`, `it is read without a default, and nothing sets it`, settings.placeOf(key), {
        remedy: `Set ${variable}, or give a default: config.get("${key}", …); with null it may be absent`,
      });
    }
  }
  for (const [key, cast] of Object.entries(LATER)) if (!isRead.has(key)) recast(key, cast);
  const known = new Set(
    [...Object.keys(LATER), ...secrets.map((secret) => secret.key), 'authSecret', 'authSecretPrevious'].map(
      variableOf,
    ),
  );
  for (const { variable, suggestion = closest(variable, known) } of settings.unknownVariables()) {
    if (known.has(variable) || FOREIGN.has(variable)) continue;
    report(
      `variable ${variable}`,
      'it is set, and nothing reads it' + (suggestion === undefined ? '' : `: did you mean ${suggestion}?`),
      undefined,
      {
        severity: 'warning',
        remedy:
          'Correct or remove it; a setting that is read later has its default in config: { … } of new Svc()',
      },
    );
  }

  function recast(key: string, cast: (text: string) => unknown): void {
    try {
      if (settings.peek(key) !== undefined) settings.get(key, undefined, { cast });
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      report(`setting ${key}`, error.message, settings.placeOf(key));
    }
  }
}

// -- SVC404 --

/** A line of Node.js: the first release without known holes (undefined: none is needed yet), and the day after its last. */
const LINES: Readonly<
  Record<
    number,
    { readonly floor: readonly [minor: number, patch: number] | undefined; readonly endsOn: string }
  >
> = {
  20: { floor: undefined, endsOn: '2026-04-30' },
  22: { floor: [23, 2], endsOn: '2027-04-30' },
  24: { floor: [18, 1], endsOn: '2028-04-30' },
  25: { floor: undefined, endsOn: '2026-06-01' },
  26: { floor: [5, 1], endsOn: '2029-04-30' },
  27: { floor: undefined, endsOn: '2030-04-30' },
};
/** As `engines` of package.json says it. */
export const SUPPORTED_NODE = '^24.18.1 || >=26.5.1';

function findMachine(view: ApplicationView, report: ReportFinding): void {
  findOldNode(view, report);
  const wanted = enginesOf(process.cwd());
  if (wanted !== undefined && satisfies(view.nodeVersion, wanted) === false) {
    report(
      `Node.js ${view.nodeVersion}`,
      `the package asks for another one: engines.node is "${wanted}"`,
      undefined,
      {
        remedy:
          'Run the application with a Node.js that its package.json asks for, or change engines.node there',
      },
    );
  }
}

function findOldNode({ nodeVersion, nowMs }: ApplicationView, report: ReportFinding): void {
  const [major = 0, minor = 0, patch = 0] = nodeVersion.split(/[.-]/).map(Number);
  const line = LINES[major];
  const problems: string[] = [];
  if (major !== 24 && major < 26)
    problems.push(`it is outside of what this package supports (${SUPPORTED_NODE})`);
  else if (
    line?.floor !== undefined &&
    (minor < line.floor[0] || (minor === line.floor[0] && patch < line.floor[1]))
  ) {
    problems.push(`it lacks the security fixes of ${major}.${line.floor.join('.')}`);
  }
  if (line !== undefined && nowMs >= Date.parse(`${line.endsOn}T00:00:00Z`))
    problems.push(`its line had its end of life on ${line.endsOn}`);
  for (const problem of problems) report(`Node.js ${nodeVersion}`, problem);
}
