/**
 * The catalogue of all rules of this package, sorted by id. Also contains the code of a few rules.
 *
 * The id of a rule never changes. Other files report the findings of rules without `run`:
 * cli/inspect-child.ts (loading), routing/ (compiling) and source/examine.ts (source code).
 */
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import {
  findForgeable,
  findGuessable,
  findStrangers,
  findUnguardedWrites,
  findWeaker,
} from './access-rules.ts';
import { findBlocking, findLostCleanUp, findOutlived, findUnknownNames, findUnused } from './code-rules.ts';
import {
  findImpossibleReplies,
  findUnbounded,
  findUndescribedBodies,
  findUndescribedReplies,
} from './contract-rules.ts';
import { findOpaque, reportDocument } from './document-rules.ts';
import {
  enginesOf,
  findExposedInsides,
  findMissingHeaders,
  findForgedClients,
  findUnverifiedTls,
  findLimitConflicts,
  findSettings,
  findUnlimited,
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
import { fileOfPlace } from '../base/findings.ts';
import { CONVERTERS } from '../http/path.ts';
import type { ApplicationView, CoreRule, ReportFinding } from './check.ts';

/** Every rule of this package, sorted by id. */
export const CORE_RULES: readonly CoreRule[] = [
  {
    id: 'SVC001',
    severity: 'error',
    phase: 'load',
    why: 'A module that cannot be imported cannot be deployed. A module that listens, connects or starts timers at import cannot be checked or tested',
    remedy:
      'At import, only declare the application. Start work in app.onStartup(), and end the module with: if (import.meta.main) await app.run()',
  },
  {
    id: 'SVC101',
    severity: 'error',
    phase: 'graph',
    why: 'Only one of two routes with the same method and path can answer. Paths that differ only in parameter names count as the same path',
    remedy: 'Remove one of the two routes, or change its path or method',
  },
  {
    id: 'SVC102',
    severity: 'error',
    phase: 'graph',
    run: findUnreachable,
    why: 'Other routes receive every request for the route, so its handler and its guard never run',
    remedy: 'Remove the route, or make its path more specific than the routes that take its requests',
  },
  {
    id: 'SVC103',
    severity: 'warning',
    phase: 'graph',
    run: findTwins,
    why: 'Many clients and proxies ignore case and final slashes in paths. A guard of a route does not protect the route with the other spelling',
    remedy: 'Keep one spelling of the path, and redirect the other spelling to it',
  },
  {
    id: 'SVC104',
    severity: 'error',
    phase: 'graph',
    run: findUnknownNames,
    why: 'Two routes must not share a name, because urlFor() and API documents find routes by name',
    remedy: 'Give each route a unique name',
  },
  {
    id: 'SVC105',
    severity: 'info',
    phase: 'graph',
    run: findContradictions,
    why: 'The server itself answers HEAD (like GET, without a body) and OPTIONS. A handler for HEAD or OPTIONS can contradict those replies',
    remedy:
      'Remove the handler of HEAD or OPTIONS, or make its reply match the reply to GET or to the CORS preflight',
  },
  {
    id: 'SVC106',
    severity: 'error',
    phase: 'graph',
    why: 'The prefix of a router and the path of a route form one path, where no parameter may occur twice. No router may include itself',
    remedy: 'Rename one of the two parameters, or remove the call that includes the router in itself',
  },
  {
    id: 'SVC107',
    severity: 'error',
    phase: 'graph',
    why: 'A route cannot answer requests while one of its schemas or dependencies is invalid',
    remedy: 'Fix the schema or dependency that the message names',
  },
  {
    id: 'SVC109',
    severity: 'info',
    phase: 'graph',
    run: findOpaque,
    why: 'A mounted handler checks access and input itself. Rules, the OpenAPI document and MCP know only routes of svc',
    remedy: 'Move the routes of the handler to svc one by one, or allow the finding with a reason',
  },
  {
    id: 'SVC111',
    severity: 'error',
    phase: 'graph',
    why: 'A dependency that needs itself, directly or through other dependencies, can never get a value',
    remedy: 'Break the cycle: let one dependency read its value from the request or the application',
  },
  {
    id: 'SVC112',
    severity: 'error',
    phase: 'graph',
    run: findOutlived,
    why: 'A long-lived dependency must not keep the value of a short-lived dependency: that value may be cleaned up, or belong to another request',
    remedy:
      'Give both dependencies the same scope, for example the scope "request": Depends(fn, { scope: "request" })',
  },
  {
    id: 'SVC113',
    severity: 'warning',
    phase: 'graph',
    run: findIdle,
    why: 'If a router and a route declare dependencies of the same name, both run, but the handler receives only the dependency of the route',
    remedy: 'Rename one of the two dependencies, or remove the one that is not intended',
  },
  {
    id: 'SVC114',
    severity: 'error',
    phase: 'graph',
    why: 'A plugin starts after the plugins that it requires, so these must be registered, and no two plugins may require each other',
    remedy:
      'Register the missing plugin, remove one of the requirements that form a circle, or correct the options of the plugin',
  },
  {
    id: 'SVC121',
    severity: 'error',
    phase: 'graph',
    run: findMissingLayers,
    why: 'Some middleware works only before or after certain other middleware, and only with options that do not contradict each other',
    remedy: 'Move the middleware, or change its options, as the message says',
  },
  {
    id: 'SVC123',
    severity: 'info',
    phase: 'graph',
    why: 'If an exception class has two handlers, the second handler receives every error, and the first handler never runs',
    remedy: 'Register one exception handler for each class',
  },
  {
    id: 'SVC201',
    severity: 'error',
    phase: 'security',
    run: findUnguardedWrites,
    why: 'Without a guard, every client that finds the route can change data',
    remedy:
      'Add a guard: me: Depends(BearerAuth()). If every client may call the route, say so with a reason: public: "sign up"',
  },
  {
    id: 'SVC202',
    severity: 'error',
    phase: 'security',
    run: findForgeable,
    why: 'Browsers send the session cookie also with requests that other sites cause. Without CSRF protection, any such site can act as the visitor',
    remedy:
      'Register the CSRF middleware after the session middleware: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
  },
  {
    id: 'SVC203',
    severity: 'warning',
    phase: 'security',
    run: findWeaker,
    why: 'A client that may not read or change a resource should not be able to delete the resource either',
    remedy:
      'Require for the less protected route the roles and scopes that the better protected route requires',
  },
  {
    id: 'SVC204',
    severity: 'error',
    phase: 'security',
    run: findGuessable,
    why: 'An attacker who may try passwords, codes or tokens without limit finds a valid one in the end',
    remedy: 'Add app.use(new RateLimitMiddleware()), and the option rateLimit: { perMinute: 5 } of the route',
  },
  {
    id: 'SVC205',
    severity: 'error',
    phase: 'security',
    run: findSecrets,
    why: 'Signatures and tokens are only as safe as their secret. An attacker who knows or guesses the secret can forge signatures and tokens',
    remedy: `Set the environment variable of the secret to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
  },
  {
    id: 'SVC206',
    severity: 'error',
    phase: 'security',
    run: findStrangers,
    why: 'A site that may send requests with the cookies of a visitor can act as the visitor. Allow only known sites that use TLS',
    remedy:
      'Name the allowed origins: new CORSMiddleware({ origins: ["https://app.example"], credentials: true })',
  },
  {
    id: 'SVC207',
    severity: 'error',
    phase: 'graph',
    why: 'A cookie that identifies a client must travel over TLS only, stay out of reach of scripts, and go to no other host',
    remedy: 'Remove the options of the cookie that differ from the defaults, because the defaults are safe',
  },
  {
    id: 'SVC208',
    severity: 'error',
    phase: 'security',
    run: findExposedInsides,
    why: 'Stack traces, route lists and metrics show an attacker how the application is built',
    remedy: 'In production, turn off stack traces and API documents, and require a credential for metrics',
  },
  {
    id: 'SVC210',
    severity: 'error',
    phase: 'security',
    run: findForgedClients,
    why: 'If the application trusts every proxy, a client can claim any IP address. Rate limits, logs and access rules then see a wrong address',
    remedy: "Name the proxies: trustProxy: ['loopback', '10.0.0.0/8'], or their number: trustProxy: 1",
  },
  {
    id: 'SVC211',
    severity: 'warning',
    phase: 'security',
    run: findMissingHeaders,
    why: 'Browsers apply protections such as CSP and HSTS only when response headers ask for them',
    remedy: 'Add app.use(new SecurityHeadersMiddleware()) before other middleware',
  },
  {
    id: 'SVC212',
    severity: 'error',
    phase: 'security',
    run: findUnlimited,
    why: 'Without limits, a few clients can use up memory and connections. If any page may open a WebSocket, other sites can act as the visitor',
    remedy:
      'Lower the limit to what your largest request needs, or remove the limit so that its default applies',
  },
  {
    id: 'SVC213',
    severity: 'warning',
    phase: 'security',
    run: findExposed,
    why: 'Every client can read every file below a static directory once it knows or guesses the name',
    remedy:
      'Serve a directory that holds only public files: no links, and no files whose names begin with a dot',
  },
  {
    id: 'SVC214',
    severity: 'error',
    phase: 'security',
    run: findLimitConflicts,
    why: 'If a field allows larger files than the limit of the request body, the server refuses files that the schema allows',
    remedy:
      'Raise maxBodyBytes above the sum of the limits of all form fields, or lower the option maxLength of the fields',
  },
  {
    id: 'SVC215',
    severity: 'warning',
    phase: 'source',
    why: 'A leaked token works until it expires, and most leaks are noticed late',
    remedy:
      'Remove the option requireExp: false, which accepts tokens without an expiry time, and issue tokens that expire: expiresInSeconds: 3_600',
  },
  {
    id: 'SVC216',
    severity: 'warning',
    phase: 'source',
    why: 'GET must change nothing (RFC 9110 §9.2.1). Any page can make a browser send a GET request, and CSRF protection ignores GET requests',
    remedy: 'Change data only in routes for POST or DELETE, which pages call with a form or fetch()',
  },
  {
    id: 'SVC217',
    severity: 'error',
    phase: 'source',
    why: 'An attacker can give a browser a known session id. If a login keeps that id, the attacker is logged in, too (session fixation)',
    remedy: 'Call req.session.regenerate() before req.session.set()',
  },
  {
    id: 'SVC218',
    severity: 'error',
    phase: 'security',
    run: findUnverifiedTls,
    why: 'Without TLS, other machines on the network path can read and change statements, rows and passwords',
    remedy:
      'Remove sslmode from the database URL: the default for remote hosts (verify-full) requires TLS. For Redis, use a URL that begins with rediss:',
  },
  {
    id: 'SVC219',
    severity: 'info',
    phase: 'source',
    why: 'An attacker can send a request with a forged host name. A password-reset link that is built from that name leads to the attacker',
    remedy: 'Name the allowed hosts: app.use(new TrustedHostMiddleware({ hosts: ["app.example"] }))',
  },
  {
    id: 'SVC301',
    severity: 'warning',
    phase: 'contract',
    run: findUndescribedBodies,
    why: 'A request body without a schema reaches the handler unchecked, and the OpenAPI document does not describe it',
    remedy: 'Declare a schema of the body: body: User, or form: { name: Field(str, { maxLength: 40 }) }',
  },
  {
    id: 'SVC302',
    severity: 'error',
    phase: 'contract',
    run: findUndescribedReplies,
    why: 'The response schema decides which fields the server sends to clients',
    remedy:
      'Declare response: User without secret fields, or mark a field that must not be sent: Field(str, { secret: true })',
  },
  {
    id: 'SVC303',
    severity: 'error',
    phase: 'contract',
    run: findImpossibleReplies,
    why: 'If a route declares a reply that it can never send, the OpenAPI document and generated clients are wrong',
    remedy: 'Declare the status and the schema of the reply that the handler sends',
  },
  {
    id: 'SVC304',
    severity: 'warning',
    phase: 'contract',
    run: findUnbounded,
    why: 'Input of unlimited length can use up memory, time or storage',
    remedy: 'Limit texts and lists with maxLength, and write regular expressions without nested repetitions',
  },
  {
    id: 'SVC305',
    severity: 'error',
    phase: 'contract',
    run: reportDocument,
    why: 'Programs generate clients from the OpenAPI document, and AI models choose tools by their descriptions. Ambiguous names or texts lead to wrong calls',
    remedy: 'Give each route a unique path, and each schema and tool a unique name',
  },
  {
    id: 'SVC306',
    severity: 'error',
    phase: 'contract',
    why: 'Clients written for the earlier version of the API fail if the new version accepts or returns less',
    remedy: 'Keep the old route or field beside the new one, or publish a new version of the API',
  },
  {
    id: 'SVC401',
    severity: 'error',
    phase: 'environment',
    run: findSettings,
    why: 'An invalid setting causes an error when code first uses the setting. An environment variable that no code reads is probably misspelt',
    remedy: 'Set the environment variable to a valid value, or remove the variable to use the default',
  },
  {
    id: 'SVC402',
    severity: 'error',
    phase: 'live',
    run: async (view, report) => (await import('./live.ts')).findMigrations(view, report),
    why: 'An application whose database lacks migrations fails at the first statement that needs them',
    remedy: 'Apply the migrations before the new version starts: svc migrate up <module>',
  },
  {
    id: 'SVC403',
    severity: 'warning',
    phase: 'environment',
    why: 'Worker processes do not share memory. A client can use the full rate limit in each process, and each process knows only its own sessions',
    remedy: 'Use a store that all processes share, or serve with one process',
  },
  {
    id: 'SVC404',
    severity: 'warning',
    phase: 'environment',
    run: findMachine,
    why: 'Older Node.js releases have known vulnerabilities. A release line past its end of life gets no more fixes',
    remedy: 'Run the newest release of a supported line: 24 or 26',
  },
  {
    id: 'SVC405',
    severity: 'warning',
    phase: 'live',
    run: async (view, report) => (await import('./live.ts')).findCertificates(view, report),
    why: 'Clients refuse an expired certificate, and a server does not start with a certificate that does not match its key',
    remedy: 'Renew the certificate, and set SVC_TLS_CERT to its chain and SVC_TLS_KEY to its key',
  },
  {
    id: 'SVC501',
    severity: 'warning',
    phase: 'contract',
    run: findBlocking,
    why: 'A synchronous call stops the whole process: every other request waits until the call ends',
    remedy: 'Call the asynchronous form of the function, or run the function in a worker thread',
  },
  {
    id: 'SVC502',
    severity: 'warning',
    phase: 'contract',
    run: findLostCleanUp,
    why: 'If clean-up code does not run, connections stay open. If clean-up code is not awaited, a failed commit goes unnoticed',
    remedy: 'Put the clean-up code into finally { … }, and await its asynchronous calls',
  },
  {
    id: 'SVC503',
    severity: 'info',
    phase: 'load',
    why: 'Each process and worker imports the module at its start, so a slow import delays every start and every deployment',
    remedy: 'Import rarely needed modules only when code needs them, and do slow work in app.onStartup()',
  },
  ...SOURCE_RULES,
];

/** Returns every rule of this package. */
export function coreRules(): readonly CoreRule[] {
  return CORE_RULES;
}

/** SVC113: dependencies that no code uses. */
function findIdle(view: ApplicationView, report: ReportFinding): void {
  findRebound(view, report);
  findUnused(view, report);
}

/** A folder with one of these entries contains a program, whose sources must not be public. */
const PRIVATE = ['package.json', 'node_modules'];

/** Matches the names of files with keys, databases or backups. */
const KEEPS_SECRETS = /\.(?:key|pem|p12|pfx|sqlite3?|db|sql|bak)$/i;

/** SVC213: static folders that serve private files. */
function findExposed({ details, place }: ApplicationView, report: ReportFinding): void {
  for (const {
    route,
    declared: { mount, template },
  } of details) {
    if (mount === undefined || !('folder' in mount)) continue;
    // only the route with a `path` parameter serves the files
    if (template.parameters.at(-1)?.converter !== CONVERTERS.path) continue;
    const subject = `GET ${route.template}`;
    if (mount.followsSymlinks)
      report(
        subject,
        'clients can read files outside of the static directory through links, because the option followSymlinks is set',
        route.place,
      );
    if (mount.dotfiles === 'allow')
      report(
        subject,
        "the static directory serves files whose names begin with a dot, because the option dotfiles is 'allow'",
        route.place,
      );
    const { directory } = mount.folder;
    const found = PRIVATE.filter((name) => existsSync(join(directory, name)));
    const own = fileOfPlace(place);
    if (found.length === 0 && dirname(own) === resolve(directory)) found.push(basename(own));
    found.push(...readdirSync(directory).filter((name) => KEEPS_SECRETS.test(name)));
    if (found.length > 0)
      report(
        subject,
        `the static directory ${resolve(directory)} contains files that are not public: ${found.join(', ')}`,
        route.place,
      );
  }
}

/**
 * Release lines of Node.js. `floor` is the first release without known vulnerabilities; undefined accepts
 * every release. `endsOn` is the day on which support ends.
 */
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
/** Supported versions of Node.js. Equal to `engines.node` in package.json. */
export const SUPPORTED_NODE = '^24.18.1 || >=26.5.1';

/** SVC404: a version of Node.js that is not supported, or that package.json does not allow. */
function findMachine(view: ApplicationView, report: ReportFinding): void {
  findOldNode(view, report);
  const wanted = enginesOf(process.cwd());
  if (wanted !== undefined && satisfies(view.nodeVersion, wanted) === false) {
    report(
      `Node.js ${view.nodeVersion}`,
      `package.json requires another version of Node.js: engines.node is "${wanted}"`,
      undefined,
      {
        remedy:
          'Run the application with a version that engines.node allows, or change engines.node in package.json',
      },
    );
  }
}

function findOldNode({ nodeVersion, nowMs }: ApplicationView, report: ReportFinding): void {
  const [major = 0, minor = 0, patch = 0] = nodeVersion.split(/[.-]/).map(Number);
  const line = LINES[major];
  const problems: string[] = [];
  if (major !== 24 && major < 26)
    problems.push(`the version is outside the supported range (${SUPPORTED_NODE})`);
  else if (
    line?.floor !== undefined &&
    (minor < line.floor[0] || (minor === line.floor[0] && patch < line.floor[1]))
  ) {
    problems.push(`the version lacks the security fixes of ${major}.${line.floor.join('.')}`);
  }
  if (line !== undefined && nowMs >= Date.parse(`${line.endsOn}T00:00:00Z`))
    problems.push(`this release line of Node.js reached its end of life on ${line.endsOn}`);
  for (const problem of problems) report(`Node.js ${nodeVersion}`, problem);
}
