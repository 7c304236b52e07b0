/**
 * The catalogue of checks: every rule of this package by its id, and those among them that look at a compiled application.
 *
 * An id is for ever. What has no `run` is found where it happens: while loading (command-load-child.ts) or compiling
 * (compile.ts, di.ts, plugin.ts, route.ts).
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findForgeable, findGuessable, findUnguarded, findWeaker } from './check-access-rules.ts';
import { findBlocking, findLostCleanUp, findOutlived, findUnknownNames, findUnused } from './check-code-rules.ts';
import { findImpossibleReplies, findUnbounded, findUndescribedBodies, findUndescribedReplies } from './check-contract-rules.ts';
import { findDocumentFlaws } from './check-document-rules.ts';
import { findExposedInsides, findMissingHeaders, findUnlimited } from './check-deploy-rules.ts';
import { findCertificates, findMigrations } from './check-live.ts';
import { layersOf, shapeOf } from './check-routes.ts';
import { findSecrets } from './check-secrets.ts';
import { viewOfDependency } from './di.ts';
import { SvcError } from './errors.ts';
import { closest } from './options.ts';
import { segmentsOf } from './http/exemptions.ts';
import { IdempotencyMiddleware } from './http/idempotency.ts';
import { CONVERTERS } from './http/path.ts';
import { variableOf } from './config.ts';
import { enginesOf, satisfies } from './node-range.ts';
import type { ApplicationView, CoreRule, Tell } from './check.ts';
import type { RouteDetail } from './compile.ts';
import type { Dependency } from './di.ts';
import type { Place } from './findings.ts';
import type { MiddlewareKind, SecurityRequirement } from './http/contracts.ts';
import type { ParsedTemplate } from './http/path.ts';

/** Every rule of this package, in the order of their ids. */
export const CORE_RULES: readonly CoreRule[] = [
  {
    id: 'SVC001', severity: 'error', phase: 'load',
    why: 'A module that cannot be imported cannot be deployed. One that listens, connects or starts timers while it is imported cannot be checked, tested or used by another program either',
    remedy: 'Declare at import; start what runs in app.onStartup(), and the server behind: if (import.meta.main) await app.run()',
  },
  {
    id: 'SVC101', severity: 'error', phase: 'graph',
    why: 'Of two routes with the same method and path only one can answer; names of parameters do not tell paths apart',
    remedy: 'Remove one of the two, or give it another path or method',
  },
  {
    id: 'SVC102', severity: 'error', phase: 'graph', run: findUnreachable,
    why: 'A route that no request can reach is dead code, and often the protected one of two',
    remedy: 'Remove the route, or make its path more specific than those that take its requests',
  },
  {
    id: 'SVC103', severity: 'warning', phase: 'graph', run: findTwins,
    why: 'Paths that differ only in case or in a slash at the end are two routes here, and one for many clients and proxies: a rule of access for one does not protect the other',
    remedy: 'Keep one spelling, and let the other redirect to it',
  },
  {
    id: 'SVC104', severity: 'error', phase: 'graph', run: findUnknownNames,
    why: 'A name belongs to one route: urlFor() and documents find it by that',
    remedy: 'Give each route a name of its own',
  },
  {
    id: 'SVC105', severity: 'info', phase: 'graph', run: findContradictions,
    why: 'HEAD is answered as GET without a body, and OPTIONS from the table of routes: a handler that says something else tells clients what is not so',
    remedy: 'Leave the handler out, unless it answers what GET and the preflight would',
  },
  {
    id: 'SVC106', severity: 'error', phase: 'graph',
    why: 'Prefixes of routers and paths of routes make up one path, which must be readable: no parameter twice, no router inside itself',
    remedy: 'Rename the parameter of one of the two, or include the router once',
  },
  {
    id: 'SVC107', severity: 'error', phase: 'graph',
    why: 'A route whose schemas or dependencies cannot be compiled could never answer',
    remedy: 'Mend what the message names',
  },
  {
    id: 'SVC111', severity: 'error', phase: 'graph',
    why: 'A dependency that needs itself can never be resolved',
    remedy: 'Break the circle: let one of them take what it needs from the request or the application',
  },
  {
    id: 'SVC112', severity: 'error', phase: 'graph', run: findOutlived,
    why: 'What lives longer cannot hold what lives shorter: it would use a value that has been cleaned up, or that belongs to another request',
    remedy: 'Give the outer dependency the narrower scope, or the inner one the wider',
  },
  {
    id: 'SVC113', severity: 'warning', phase: 'graph', run: findIdle,
    why: 'The handler sees the dependency of the innermost declaration; the other of that name runs for every request, and nobody sees what it gives',
    remedy: 'Give one of the two another name, or leave out the one that is not meant',
  },
  {
    id: 'SVC114', severity: 'error', phase: 'graph',
    why: 'Plugins are started in the order of what they require, so that there must be one',
    remedy: 'Register what is missing, break the circle, or mend what the plugin is made with',
  },
  {
    id: 'SVC121', severity: 'error', phase: 'graph', run: findMissingLayers,
    why: 'A middleware does its work only in its place of the onion and with settings that fit together',
    remedy: 'Follow what the middleware says of its order and options',
  },
  {
    id: 'SVC123', severity: 'info', phase: 'graph',
    why: 'Of two handlers for one class of exceptions the second takes all: the first never runs',
    remedy: 'Keep one handler for each class',
  },
  {
    id: 'SVC201', severity: 'error', phase: 'security', run: findUnguarded,
    why: 'Whoever finds a route that changes something can use it, unless it asks who they are',
    remedy: 'Let it depend on who is there: me: Depends(BearerAuth()); where everybody may, say so and why: public: "anybody may sign up"',
  },
  {
    id: 'SVC202', severity: 'error', phase: 'security', run: findForgeable,
    why: 'A browser sends the cookie of a session whoever has made it send the request: without protection any page can act as the visitor who is logged in',
    remedy: 'Register the protection behind the session: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
  },
  {
    id: 'SVC203', severity: 'warning', phase: 'security', run: findWeaker,
    why: 'Who may not read or change something should not be able to delete it: a guard is most often forgotten where a method was added later',
    remedy: 'Ask for the same, or for more, wherever more is changed',
  },
  {
    id: 'SVC204', severity: 'error', phase: 'security', run: findGuessable,
    why: 'A password, a code or a token that can be tried as often as somebody likes is found in the end',
    remedy: 'Limit it: app.use(new RateLimitMiddleware()), and for the route rateLimit: { perMinute: 5 }',
  },
  {
    id: 'SVC205', severity: 'error', phase: 'security', run: findSecrets,
    why: 'What signs and verifies needs a secret that nobody can guess; without one nothing it protects is protected',
    remedy: `Set the variable to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
  },
  {
    id: 'SVC206', severity: 'error', phase: 'security',
    why: 'A site that may call with the cookies of its visitors acts for them: it must be one you know, over TLS',
    remedy: 'Name the origins that may call: new CORSMiddleware({ origins: ["https://app.example"], credentials: true })',
  },
  {
    id: 'SVC207', severity: 'error', phase: 'graph',
    why: 'A cookie that says who somebody is must go over TLS only, and to no other host',
    remedy: 'Leave the attributes of the cookie to their defaults',
  },
  {
    id: 'SVC208', severity: 'error', phase: 'security', run: findExposedInsides,
    why: 'What helps to develop helps to attack: traces, routes and metrics tell how an application is built',
    remedy: 'Turn it off in production, or ask for a credential',
  },
  {
    id: 'SVC210', severity: 'error', phase: 'security',
    why: 'Who trusts every proxy lets each client choose the address it is known by: limits, logs and rules by address are worth nothing then',
    remedy: "Name the proxies: trustProxy: ['loopback', '10.0.0.0/8'], or say how many there are: trustProxy: 1",
  },
  {
    id: 'SVC211', severity: 'warning', phase: 'security', run: findMissingHeaders,
    why: 'A browser protects visitors only as far as headers tell it to',
    remedy: 'Add app.use(new SecurityHeadersMiddleware()) before other middleware',
  },
  {
    id: 'SVC212', severity: 'error', phase: 'security', run: findUnlimited,
    why: 'Whatever a client may send, or wait for, without limit, a few clients can take the whole process with; a WebSocket that any page may open acts for its visitor',
    remedy: 'Keep limits and guards to their defaults, or to what your largest request needs',
  },
  {
    id: 'SVC213', severity: 'warning', phase: 'security', run: findExposed,
    why: 'Whatever lies in a directory of static files can be read by everybody who knows, or guesses, its name',
    remedy: 'Serve a directory that holds nothing but what is meant to be public, and leave links and names with a dot out of it',
  },
  {
    id: 'SVC301', severity: 'warning', phase: 'contract', run: findUndescribedBodies,
    why: 'A body without a schema reaches the handler unchecked, and no document tells what it should be',
    remedy: 'Declare it: body: User, or form: { name: Field(str, { maxLength: 40 }) }',
  },
  {
    id: 'SVC302', severity: 'error', phase: 'contract', run: findUndescribedReplies,
    why: 'A reply without a schema sends whatever the object has, now and after the next change; a secret that it names is sent to every client',
    remedy: 'Declare it: response: User; leave secrets out of it, or mark them: Field(str, { secret: true })',
  },
  {
    id: 'SVC303', severity: 'error', phase: 'contract', run: findImpossibleReplies,
    why: 'What a route declares and can never send is wrong in every document and every client made of it',
    remedy: 'Declare the status and the schema that it replies with',
  },
  {
    id: 'SVC304', severity: 'warning', phase: 'contract', run: findUnbounded,
    why: 'A pattern that backtracks without bound lets a short text keep the process busy for minutes; a text or a list without bound fills memory and databases',
    remedy: 'Write patterns without repetitions inside repetitions; give texts and lists a maxLength',
  },
  {
    id: 'SVC305', severity: 'error', phase: 'contract', run: findDocumentFlaws,
    why: 'Clients are made from documents, and choose tools by them: what a document cannot say, or says in two ways, they get wrong',
    remedy: 'Give each route a path, and each schema a name, that no other has',
  },
  {
    id: 'SVC306', severity: 'error', phase: 'contract',
    why: 'Clients that were written against the interface as it was stop working when it takes less, or gives less, than it did',
    remedy: 'Keep what was, beside what is new; or publish a new version of the interface',
  },
  {
    id: 'SVC401', severity: 'error', phase: 'environment', run: findSettings,
    why: 'A setting that cannot be read as what it is used for fails when it is first needed; a variable that nobody reads is most likely misspelt',
    remedy: 'Set the variable, or the setting, to text of the form that is needed, or leave it out for its default',
  },
  {
    id: 'SVC402', severity: 'error', phase: 'live', run: findMigrations,
    why: 'A version of an application that meets a database without its migrations fails at the first statement that needs them, and one that cannot reach it, at all',
    remedy: 'Apply the migrations before the new version starts: svc migrate up <module>',
  },
  {
    id: 'SVC403', severity: 'warning', phase: 'environment',
    why: 'What is in the memory of one process is not in that of another: limits count several times, sessions are lost, requests are executed again',
    remedy: 'Give it a store that all processes share, or serve with one process',
  },
  {
    id: 'SVC404', severity: 'warning', phase: 'environment', run: findMachine,
    why: 'Node.js below its last security release has published holes that a server shows to everybody; a line past its end of life gets no more fixes',
    remedy: 'Run the newest release of a supported line: 24 or 26',
  },
  {
    id: 'SVC405', severity: 'warning', phase: 'live', run: findCertificates,
    why: 'Clients refuse a certificate that has ended, and a server does not start with one that is not of its key',
    remedy: 'Renew the certificate, and name its chain and its key: SVC_TLS_CERT, SVC_TLS_KEY',
  },
  {
    id: 'SVC501', severity: 'warning', phase: 'contract', run: findBlocking,
    why: 'A call that waits for a file, a process or a computation in place stops the whole process: every other request waits, too',
    remedy: 'Use the asynchronous form, or a worker',
  },
  {
    id: 'SVC502', severity: 'warning', phase: 'contract', run: findLostCleanUp,
    why: 'Clean-up that does not run, or that nobody waits for, leaks connections and loses the errors of commits',
    remedy: 'Put it into finally { … }, and await it',
  },
  {
    id: 'SVC503', severity: 'info', phase: 'load',
    why: 'Every process that starts, each worker and each rolling deploy, waits for the import',
    remedy: 'Import what is needed later when it is needed, and do what takes long in app.onStartup()',
  },
];

// ── SVC102 ──

/**
 * Which templates take everything that a route matches: those of the same method that the router prefers.
 *
 * The router prefers segment by segment, and in each position the better kinds leave something over: text that is no
 * number, a number that no literal spells. So only a template with `path` at its end can be covered, by templates that begin
 * exactly as it does, and all that counts of a remaining segment is whether it is empty (E) or not (O): text that no more
 * specific segment takes. What is left of a template is a word of E, O and, at its end, P (any rest but nothing).
 */
export function coveredBy<T>(path: ParsedTemplate, others: readonly T[], templateOf: (other: T) => ParsedTemplate): T[] {
  const own = segmentsOf(path);
  if (own.at(-1) !== ':path') return [];
  const prefix = own.slice(0, -1);
  const rests = others.flatMap((other) => {
    const segments = segmentsOf(templateOf(other));
    if (segments.length < own.length || prefix.some((segment, index) => segments[index] !== segment)) return [];
    const word = segments.slice(prefix.length).map(letterOf).join('');
    return word === 'P' || word.includes('X') ? [] : [{ other, word }]; // "P" is the same template: a duplicate
  });
  return leavesGap(rests.map((rest) => rest.word), '') ? [] : rests.map((rest) => rest.other);
}

/** X takes some texts only, so that it never covers. */
function letterOf(segment: string): 'E' | 'O' | 'P' | 'X' {
  return segment === '=' ? 'E' : segment === `:${CONVERTERS.str.name}` ? 'O' : segment === `:${CONVERTERS.path.name}` ? 'P' : 'X';
}

/** Whether a rest that begins with `word` is matched by none of `rests`, all of which begin with it. A rest is not empty: neither no segment, nor one empty one. */
function leavesGap(rests: readonly string[], word: string): boolean {
  if (word !== '' && word !== 'E' && !rests.includes(word)) return true;
  const isOpen = rests.includes(`${word}P`);
  return ['O', 'E'].some((letter) => {
    const longer = word + letter;
    const following = rests.filter((rest) => rest.startsWith(longer));
    if (!isOpen) return leavesGap(following, longer);
    return letter === 'E' && longer !== 'E' && !following.includes(longer); // P takes every other rest
  });
}

function findUnreachable(view: ApplicationView, tell: Tell): void {
  for (const { route, declared } of view.details) {
    if (declared.template.parameters.at(-1)?.converter !== CONVERTERS.path) continue;
    const rivals = view.details.filter((other) => other.route.method === route.method || route.method === 'HEAD' && other.route.method === 'GET');
    const takers = coveredBy(declared.template, rivals, (rival) => rival.declared.template);
    if (takers.length === 0) continue;
    const names = [...new Set(takers.map((taker) => taker.route.template))].join(', ');
    tell(`${route.method} ${route.template}`, `it can never be reached: more specific routes take every path that it matches: ${names}`, route.place);
  }
}

// ── SVC103 ──

function findTwins(view: ApplicationView, tell: Tell): void {
  const first = new Map<string, RouteDetail>();
  for (const detail of view.details.toSorted((left, right) => Number(right.isOperation) - Number(left.isOperation))) {
    const { route, declared } = detail;
    const segments = segmentsOf(declared.template);
    if (segments.length > 1 && segments.at(-1) === '=') segments.pop();
    const key = `${route.method} ${segments.join('/').toLowerCase()}`;
    const twin = first.get(key);
    if (twin === undefined) first.set(key, detail);
    else if (shapeOf(twin) !== shapeOf(detail) && (declared.mount === undefined || declared.mount !== twin.declared.mount)) { // a mount redirects itself
      const what = shapeOf(twin).toLowerCase() === shapeOf(detail).toLowerCase() ? 'in case' : 'in a slash at the end';
      tell(`${route.method} ${route.template}`, `it differs from ${twin.route.template}${at(twin.route.place)} only ${what}`, route.place);
    }
  }
}

function at(place: Place): string {
  return place.line === 0 ? '' : ` at ${place.file}:${place.line}`;
}

// ── SVC105 ──

function findContradictions(view: ApplicationView, tell: Tell): void {
  if (!view.details.some(({ route }) => route.method === 'HEAD' || route.method === 'OPTIONS')) return;
  const gets = new Map(view.details.filter(({ route }) => route.method === 'GET').map((detail) => [shapeOf(detail), detail]));
  for (const { route, declared, isOperation } of view.details) {
    if (isOperation || declared.mount !== undefined || !declared.methods.includes(route.method)) continue;
    const subject = `${route.method} ${route.template}`;
    const get = gets.get(shapeOf({ declared }));
    if (route.method === 'HEAD' && get === undefined) tell(subject, 'there is no GET whose head it could be', route.place);
    else if (route.method === 'HEAD' && get!.declared !== declared) tell(subject, `it is another handler than that of GET${at(get!.route.place)}, whose head it should be`, route.place);
    if (route.method === 'OPTIONS' && layersOf(view, declared).some((layer) => layer.kind === 'cors')) tell(subject, 'preflights never reach it: the CORS middleware answers them', route.place);
  }
}

// ── SVC113 ──

function findIdle(view: ApplicationView, tell: Tell): void {
  findRebound(view, tell);
  findUnused(view, tell);
}

function findRebound(view: ApplicationView, tell: Tell): void {
  for (const declared of new Set(view.details.map((detail) => detail.declared))) {
    const outer = new Map<string, Dependency<unknown>>();
    for (const [name, dependency] of [...declared.routerDeps, ...Object.entries(declared.deps)]) {
      const earlier = outer.get(name);
      outer.set(name, dependency);
      if (earlier === undefined || earlier.source === dependency.source) continue;
      tell(`${declared.methods.join(', ')} ${declared.template.template}`,
        `"${name}" is ${viewOfDependency(earlier).label} for its router and ${viewOfDependency(dependency).label} for the route: both run, the handler sees the second`, declared.declared.place);
    }
  }
}

// ── SVC121 ──

/** What a route asks for, and no layer around it does. */
function findMissingLayers(view: ApplicationView, tell: Tell): void {
  for (const { route, declared } of view.details) {
    const subject = `${route.method} ${route.template}`;
    const lacks = (kind: MiddlewareKind): boolean => !layersOf(view, declared).some((layer) => layer.kind === kind);
    if (typeof route.rateLimit === 'object' && lacks('rate-limit')) {
      tell(subject, 'its rateLimit is kept by nobody: there is no RateLimitMiddleware', route.place, { remedy: 'Add app.use(new RateLimitMiddleware())' });
    }
    if (declared.use.some((layer) => layer.kind === 'request-id')) {
      tell(subject, 'its RequestIDMiddleware does nothing: requests get their ids before their routes are known', route.place, { remedy: 'Register it for the application: app.use(new RequestIDMiddleware())' });
    }
    if (layersOf(view, declared).some((layer) => layer instanceof IdempotencyMiddleware && !layer.knowsPrincipal && layer.covers(route)) && route.security.length === 0 && lacks('session')) {
      tell(subject, 'nothing says who sends it, so that its idempotency keys belong to whatever client has the same address or cookies', route.place, {
        severity: 'warning', remedy: 'Say who sends it: new IdempotencyMiddleware({ principal: (req) => … }), or let it ask for a credential',
      });
    }
    if (route.security.some(isOwnSession) && lacks('session')) {
      tell(subject, 'it asks who is logged in by session, and there is no session middleware: every answer would be a 500', route.place, { remedy: 'Register it: app.use(new SessionMiddleware())' });
    }
  }
}

/** That of `req.session`; one with a credential of its own reads another cookie. */
function isOwnSession({ scheme, credential }: SecurityRequirement): boolean {
  return scheme === 'session' && credential === undefined;
}

// ── SVC213 ──

/** What shows that a directory holds a program rather than what is meant for everybody. */
const PRIVATE = ['package.json', 'node_modules'];

function findExposed(view: ApplicationView, tell: Tell): void {
  for (const { route, declared: { mount, template } } of view.details) {
    if (mount === undefined || template.parameters.at(-1)?.converter !== CONVERTERS.path) continue; // once for each mount
    const subject = `GET ${route.template}`;
    if (mount.followsSymlinks) tell(subject, 'it follows links out of its directory: followSymlinks', route.place);
    if (mount.dotfiles === 'allow') tell(subject, "it serves names that begin with a dot: dotfiles: 'allow'", route.place);
    const found = PRIVATE.filter((name) => existsSync(join(mount.folder.directory, name)));
    if (found.length > 0) tell(subject, `its directory ${mount.folder.directory} has ${found.join(', ')}`, route.place);
  }
}

// ── SVC401 ──

/** Settings that the framework reads when it needs them, and how. */
const LATER: Readonly<Record<string, NumberConstructor | BooleanConstructor | StringConstructor>> = { host: String, port: Number, enableDocs: Boolean, mcpToken: String, tlsCert: String, tlsKey: String };
/** Variables that are no settings of an application. */
const FOREIGN: ReadonlySet<string> = new Set(['SVC_DEBUG', 'SVC_WORKERS']);
const CASTS = { number: Number, boolean: Boolean, string: String } as const;

function findSettings({ settings, secrets }: ApplicationView, tell: Tell): void {
  const reads = [...settings.reads().values()];
  const isRead = new Set(reads.map((read) => read.key));
  for (const { key, variable, cast, fallback } of reads) {
    if (cast !== undefined && cast !== 'custom') recast(key, CASTS[cast]);
    else if (cast === undefined && fallback === undefined && settings.peek(key) === undefined) {
      tell(`setting ${key}`, `it is read without a default, and nothing sets it`, settings.placeOf(key), {
        remedy: `Set ${variable}, or give a default: config.get("${key}", …); with null it may be absent`,
      });
    }
  }
  for (const [key, cast] of Object.entries(LATER)) if (!isRead.has(key)) recast(key, cast);
  const known = new Set([...Object.keys(LATER), ...secrets.map((secret) => secret.key), 'authSecret', 'authSecretPrevious'].map(variableOf));
  for (const { variable, suggestion = closest(variable, known) } of settings.unknownVariables()) {
    if (known.has(variable) || FOREIGN.has(variable)) continue;
    tell(`variable ${variable}`, 'it is set, and nothing reads it' + (suggestion === undefined ? '' : `: did you mean ${suggestion}?`), undefined, {
      severity: 'warning', remedy: 'Correct or remove it; a setting that is read later has its default in config: { … } of new Svc()',
    });
  }

  function recast(key: string, cast: (text: string) => unknown): void {
    try {
      if (settings.peek(key) !== undefined) settings.get(key, undefined, { cast });
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      tell(`setting ${key}`, error.message, settings.placeOf(key));
    }
  }
}

// ── SVC404 ──

/** A line of Node.js: the first release without known holes (undefined: none is needed yet), and the day after its last. */
const LINES: Readonly<Record<number, { readonly floor: readonly [minor: number, patch: number] | undefined; readonly endsOn: string }>> = {
  20: { floor: undefined, endsOn: '2026-04-30' }, 22: { floor: [23, 2], endsOn: '2027-04-30' }, 24: { floor: [18, 1], endsOn: '2028-04-30' },
  25: { floor: undefined, endsOn: '2026-06-01' }, 26: { floor: [5, 1], endsOn: '2029-04-30' }, 27: { floor: undefined, endsOn: '2030-04-30' },
};
/** As `engines` of package.json says it. */
export const SUPPORTED_NODE = '^24.18.1 || >=26.5.1';

function findMachine(view: ApplicationView, tell: Tell): void {
  findOldNode(view, tell);
  const wanted = enginesOf(process.cwd());
  if (wanted !== undefined && satisfies(view.nodeVersion, wanted) === false) {
    tell(`Node.js ${view.nodeVersion}`, `the package asks for another one: engines.node is "${wanted}"`, undefined, { remedy: 'Run the application with a Node.js that its package.json asks for, or change engines.node there' });
  }
}

function findOldNode({ nodeVersion, nowMs }: ApplicationView, tell: Tell): void {
  const [major = 0, minor = 0, patch = 0] = nodeVersion.split(/[.-]/).map(Number);
  const line = LINES[major];
  const problems: string[] = [];
  if (major !== 24 && major < 26) problems.push(`it is outside of what this package supports (${SUPPORTED_NODE})`);
  else if (line?.floor !== undefined && (minor < line.floor[0] || minor === line.floor[0] && patch < line.floor[1])) {
    problems.push(`it lacks the security fixes of ${major}.${line.floor.join('.')}`);
  }
  if (line !== undefined && nowMs >= Date.parse(`${line.endsOn}T00:00:00Z`)) problems.push(`its line had its end of life on ${line.endsOn}`);
  for (const problem of problems) tell(`Node.js ${nodeVersion}`, problem);
}
