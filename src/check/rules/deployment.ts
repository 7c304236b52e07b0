/**
 * Rules about deployment: internals that are public in production, missing security headers, limits that are
 * too high or switched off, and settings.
 */
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { callsOfRequest, codeOf } from '../reader/functions.ts';
import { aboutRoute, layersOf, layersWithPlaces, letsStrangersIn, ownRoutes } from '../check.ts';
import { fileOfPlace } from '../../base/findings.ts';
import { isThenable } from '../../base/promises.ts';
import { RateLimitMiddleware, namesForwarded } from '../../http/middleware/rate-limit.ts';
import { SecurityHeadersMiddleware } from '../../http/middleware/security-headers.ts';
import { CONVERTERS } from '../../http/path.ts';
import { IdempotencyMiddleware } from '../../http/middleware/idempotency.ts';
import { fileLimit, within } from '../../schema/schema.ts';
import type { Finding } from '../../base/findings.ts';
import type { HttpRequest, Middleware, RateLimitKey, SecurityRequirement } from '../../http/contracts.ts';
import type { ApplicationView, CoreRule, ReportFinding, RuleText, Tell } from '../check.ts';
import type { RouteDetail } from '../../routing/compile.ts';

/** Rules about deployment, sorted by id. */
export const DEPLOYMENT_RULES: readonly CoreRule[] = [
  {
    id: 'SVC207',
    severity: 'error',
    phase: 'graph',
    cwe: [614, 1004],
    sources: ['RFC 6265 §4.1.2', 'OWASP Cheat Sheet: Session Management'],
    why: 'A cookie that identifies a client must travel over TLS only, stay out of reach of scripts, and go to no other host',
    remedy: 'Remove the options of the cookie that differ from the defaults, because the defaults are safe',
    wrong: "setCookie('session', id, { httpOnly: false })",
    right: "setCookie('session', id)",
  },
  {
    id: 'SVC208',
    severity: 'error',
    phase: 'security',
    cwe: [489, 215],
    why: 'Stack traces, route lists and metrics show an attacker how the application is built',
    remedy: 'In production, turn off stack traces and API documents, and require a credential for metrics',
    wrong: "new Svc({ env: 'development' })",
    right: 'new Svc()',
    run: findExposedInsides,
  },
  {
    id: 'SVC210',
    severity: 'error',
    phase: 'security',
    cwe: [348],
    sources: ['RFC 7239 §8.1'],
    why: 'If the application trusts every proxy, a client can claim any IP address. Rate limits, logs and access rules then see a wrong address. If a rate limit counts by a header that clients choose, each new value has a new limit',
    remedy:
      "Name the proxies: trustProxy: ['loopback', '10.0.0.0/8'], or their number: trustProxy: 1. Let rate limits count by req.ip, or add a second limit without the option key",
    wrong: "trustProxy: 'all'  // or one RateLimitMiddleware, with key: (req) => req.headers['x-client']",
    right: "trustProxy: ['10.0.0.0/8']  // app.use(new RateLimitMiddleware({ name: 'address' }))",
    run: findForgedClients,
  },
  {
    id: 'SVC211',
    severity: 'warning',
    phase: 'security',
    cwe: [693, 1021],
    sources: ['OWASP Cheat Sheet: Content Security Policy'],
    why: 'Browsers apply protections such as CSP and HSTS only when response headers ask for them',
    remedy: 'Add app.use(new SecurityHeadersMiddleware()) before other middleware',
    wrong: 'contentSecurityPolicy: "script-src \'unsafe-inline\'"',
    right: 'new SecurityHeadersMiddleware()',
    run: findMissingHeaders,
  },
  {
    id: 'SVC212',
    severity: 'error',
    phase: 'security',
    cwe: [770, 400],
    why: 'Without limits, a few clients can use up memory and connections. If any page may open a WebSocket, other sites can act as the visitor',
    remedy:
      'Lower the limit to what your largest request needs, or remove the limit so that its default applies',
    wrong:
      "await req.body()\n  app.post('/videos', { maxBodyBytes: 5_000_000_000 }, …) // above 1_073_741_824",
    right:
      "await req.body({ maxBytes: 1_000_000 })\n  app.post('/videos', { maxBodyBytes: 1_000_000_000, requestTimeoutMs: 600_000 }, …)",
    run: findUnlimited,
  },
  {
    id: 'SVC213',
    severity: 'warning',
    phase: 'security',
    cwe: [552],
    why: 'Every client can read every file below a static directory once it knows or guesses the name',
    remedy:
      'Serve a directory that holds only public files: no links, and no files whose names begin with a dot',
    wrong: "app.mountStatic('/', '.')",
    right: "app.mountStatic('/public', 'public')",
    run: findExposed,
  },
  {
    id: 'SVC214',
    severity: 'error',
    phase: 'security',
    why: 'If one limit is below another one, the server refuses files or bodies that the application declares to accept',
    remedy:
      'Raise maxBodyBytes above the sum of the limits of all form fields, or lower the option maxLength of the fields',
    wrong: 'form: { file: Field(file, { maxLength: 50_000_000 }) }',
    right: 'form: { file: Field(file, { maxLength: 50_000_000 }) }, maxBodyBytes: 51_000_000',
    onRoute: findLimitConflicts,
    run: findKeyedLimits,
  },
  {
    id: 'SVC218',
    severity: 'error',
    phase: 'security',
    cwe: [319],
    why: 'Without TLS, other machines on the network path can read and change statements, rows and passwords',
    remedy:
      'Remove sslmode from the database URL: the default for remote hosts (verify-full) requires TLS. For Redis, use a URL that begins with rediss:',
    wrong: "'postgres://db.example/shop?sslmode=disable'",
    right: "'postgres://db.example/shop'",
    run: findUnverifiedTls,
  },
  {
    id: 'SVC219',
    severity: 'info',
    phase: 'source',
    cwe: [644],
    sources: ['Django security.W020 and W008'],
    why: 'An attacker can send a request with a forged host name. A password-reset link that is built from that name leads to the attacker',
    remedy: 'Name the allowed hosts: app.use(new TrustedHostMiddleware({ hosts: ["app.example"] }))',
    wrong: 'app.use(new SecurityHeadersMiddleware());',
    right: "app.use(new TrustedHostMiddleware({ hosts: ['app.example'] }));",
  },
];

/** SVC208: stack traces, API documents or metrics that are public in production. */
function findExposedInsides(view: ApplicationView, report: ReportFinding): void {
  if (view.env !== 'production') return;
  const { settings, place } = view;
  const env = settings.peek('env');
  if (typeof env === 'string' && env !== 'production' && settings.sourceOf('env') !== 'environment')
    report(
      'setting env',
      `the source code sets env to "${env}" even in production, where every client can then read stack traces and API documents`,
      place,
      {
        severity: 'warning',
        remedy:
          'Remove env from the source code, and set the variable SVC_ENV=development on development machines',
        about: { option: { key: 'env', value: env } },
      },
    );
  if (isOn(settings.peek('debug')))
    report('setting debug', 'error responses show stack traces to every client', place, {
      remedy: 'Remove the setting debug (SVC_DEBUG) in production: the log contains the stack traces, too',
      about: { option: { key: 'debug', value: settings.peek('debug') } },
    });
  if (view.hasPublicDocs && isOn(settings.peek('enableDocs'))) {
    report('setting enableDocs', '/docs and /openapi.json show every route to every client', place, {
      severity: 'warning',
      remedy: 'Remove the setting enableDocs (SVC_ENABLE_DOCS) in production, unless the API is public',
      about: { option: { key: 'enableDocs', value: settings.peek('enableDocs') } },
    });
  }
  if (
    view.metricsGuard !== undefined &&
    (letsStrangersIn(view.metricsGuard) ||
      /=>\s*(?:\(?\s*true\b|\{\s*return\s+true\b)/.test(codeOf(view.metricsGuard)))
  ) {
    report(
      'setting ops',
      'every client can read /metrics, because the function ops.metrics.auth accepts every request',
      place,
      {
        severity: 'warning',
        remedy:
          'Require a token: ops: { metrics: { auth: process.env["METRICS_TOKEN"] } }, or remove auth, so that only private addresses can read /metrics',
      },
    );
  }
}

function isOn(value: unknown): boolean {
  return value === true || (typeof value === 'string' && /^(?:true|1|yes|on)$/i.test(value));
}

/** SVC211: production without security headers. */
function findMissingHeaders(view: ApplicationView, report: ReportFinding): void {
  findLoosePolicies(view, report);
  if (
    view.env !== 'production' ||
    ownRoutes(view).length === 0 ||
    view.middleware.some((layer) => layer.kind === 'security-headers')
  )
    return;
  report(
    'the application',
    'responses have no security headers: no content security policy, no HSTS, no nosniff',
    view.place,
    { about: { lacks: 'security headers' } },
  );
}

/**
 * Matches values of script-src that let an injected script run. A scheme such as `https:` counts only if no
 * host name follows it.
 */
const LOOSE = /'unsafe-inline'|'unsafe-eval'|(?<![\w:/*.-])(?:https?:|data:|\*)(?![\w/.*-])/;

function findLoosePolicies(view: ApplicationView, report: ReportFinding): void {
  for (const [layer, place] of layersWithPlaces(view)) {
    const directives =
      layer instanceof SecurityHeadersMiddleware ? (layer.policy ?? '').split(/\s*;\s*/) : [];
    const scripts =
      directives.find((each) => /^script-src\s/.test(each)) ??
      directives.find((each) => /^default-src\s/.test(each)) ??
      '';
    const found = LOOSE.exec(scripts)?.[0];
    if (found === undefined || (found === "'unsafe-inline'" && /'nonce-|'strict-dynamic'/.test(scripts)))
      continue;
    report(
      'middleware security-headers',
      `the content security policy allows ${found} for scripts, so a script that is injected into a page runs`,
      place,
      {
        remedy: "Name the allowed sources of scripts: script-src 'self'. For an inline script use cspNonce()",
      },
    );
  }
}

/** Matches addresses at which only clients on the same machine can connect (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3). */
const LOOPBACK = /^(?:127\.|\[?::1\]?$|localhost$)/;

/**
 * SVC219: links made of a host name that clients choose, and logins over a network without TLS. The findings
 * are notes, because a proxy may check host names and provide TLS. `hasLinks` says whether the sources make such links.
 */
export function findUnnamedHosts(
  view: ApplicationView,
  { severity, remedy }: RuleText,
  hasLinks: boolean,
): readonly Finding[] {
  if (view.env !== 'production') return [];
  const { settings, middleware, place } = view;
  const finding = { rule: 'SVC219', severity, subject: 'the application', place } as const;
  const found: Finding[] = [];
  const namesHosts = middleware.some((layer) => layer.kind === 'trusted-host');
  const hasLogins = ownRoutes(view).some(({ route }) => route.security.length > 0);
  const hasTls = settings.peek('trustProxy') !== undefined || settings.peek('tlsCert') !== undefined;
  // without the setting `host`, the server listens on 127.0.0.1
  const host = String(settings.peek('host') ?? '127.0.0.1');
  if (hasLinks && !namesHosts)
    found.push({
      ...finding,
      message:
        'the server accepts requests for any host name, so a client can choose the host of links that are built from req.host',
      remedy,
    });
  if (hasLogins && !hasTls && settings.peek('socket') === undefined && !LOOPBACK.test(host))
    found.push({
      ...finding,
      message: `clients log in without TLS: the server listens on ${host}, and neither a certificate (SVC_TLS_CERT) nor a trusted proxy (SVC_TRUST_PROXY) is configured`,
      why: 'Without TLS, every machine on the network path can read and change requests, with their cookies and tokens',
      remedy:
        'If a proxy terminates TLS and redirects http to https, set trustProxy, for example to 1. Otherwise give the server a certificate',
    });
  return found;
}

/**
 * SVC218: NODE_TLS_REJECT_UNAUTHORIZED=0, which switches off the verification of TLS certificates in the
 * whole process.
 */
function findUnverifiedTls({ place }: ApplicationView, report: ReportFinding): void {
  if (process.env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    report(
      'variable NODE_TLS_REJECT_UNAUTHORIZED',
      'TLS certificates are not verified: attackers on the network can pretend to be a database, a login provider or a service',
      place,
      {
        remedy:
          'Remove the environment variable. To trust your own certificate authority, set NODE_EXTRA_CA_CERTS=ca.pem',
        about: { variable: 'NODE_TLS_REJECT_UNAUTHORIZED' },
      },
    );
}

/**
 * SVC210: trusted networks so large that they include clients, and rate limits by a header that clients can
 * set.
 */
function findForgedClients(view: ApplicationView, report: ReportFinding): void {
  findTrustedCrowds(view, report);
  for (const [layer, place] of layersWithPlaces(view)) {
    if (!(layer instanceof RateLimitMiddleware) || hasLimitByAddress(layer, view)) continue;
    const header = layer.keys
      // the rate limit middleware itself reports key functions that use a forwarded address
      .filter((key) => !namesForwarded(key))
      .map((key) => headerOfKey(key, (name) => isVerified(name, layer, view)))
      .find((name) => name !== undefined);
    if (header !== undefined) report('middleware rate-limit', chosenKey(header), place, CHOSEN_KEY);
  }
}

/** Message of SVC210 about a rate limit whose key is a header field. */
export function chosenKey(header: string): string {
  return `the rate limit counts requests by the header "${header}", so a client can avoid the limit by sending a new value each time`;
}

/** Severity and remedy of SVC210 for a rate limit whose key is a header field. */
export const CHOSEN_KEY = {
  severity: 'warning',
  remedy:
    'Let the option "key" return req.ip, or add a second limit by address: app.use(new RateLimitMiddleware({ name: \'address\' })). To count by what a guard has found, call take() of a RateLimiter in the handler',
} as const;

/** Header fields with a credential. */
export const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'cookie', 'x-api-key']);

/** Whether a guard of every route that a limit counts rejects invented values of a header field. */
function isVerified(header: string, layer: Middleware, view: ApplicationView): boolean {
  return ownRoutes(view)
    .filter(({ declared }) => layersOf(view, declared).includes(layer))
    .every(({ route }) =>
      route.security.some((each) => fieldOf(each) === header && each.isOptional !== true),
    );
}

/** Returns the header field in which clients send a credential. */
function fieldOf({ scheme, credential }: SecurityRequirement): string {
  if (credential !== undefined) return credential.in === 'cookie' ? 'cookie' : credential.name.toLowerCase();
  return scheme === 'session' ? 'cookie' : scheme === 'apiKey' ? 'x-api-key' : 'authorization';
}

/** Whether another limit counts each request that the layer counts, by the address of its client. */
function hasLimitByAddress(layer: Middleware, view: ApplicationView): boolean {
  const isByAddress = (each: Middleware): boolean =>
    each instanceof RateLimitMiddleware && each.keys.length === 0;
  const lists = ownRoutes(view)
    .map(({ declared }) => declared.use)
    .filter((use) => use.includes(layer));
  return (
    view.middleware.some(isByAddress) || (lists.length > 0 && lists.every((use) => use.some(isByAddress)))
  );
}

/**
 * Returns a header field on which the key of a rate limit depends, unless guards verify the field. A
 * test request records which fields the key function reads. A second request, with other header values, shows
 * whether the key changes.
 */
function headerOfKey(key: RateLimitKey, isVerifiedField: (name: string) => boolean): string | undefined {
  const names = new Set<string>();
  const keyFor = (value: string): unknown => {
    const get = (_target: object, name: string | symbol): string | undefined => {
      if (typeof name !== 'string') return undefined;
      names.add(name);
      return value;
    };
    const request = {
      method: 'GET',
      path: '/',
      ip: '203.0.113.9',
      cookies: {},
      headers: new Proxy({}, { get }),
    };
    // key() throws if it reads a member that `request` lacks. The rule then skips this key function.
    return key(request as unknown as HttpRequest);
  };
  try {
    const [one, other] = [keyFor('a'), keyFor('b')];
    for (const result of [one, other]) if (isThenable(result)) result.then(undefined, () => undefined);
    if (typeof one !== 'string' || typeof other !== 'string' || one === other) return undefined;
  } catch {
    return undefined;
  }
  return [...names].find((name) => !isVerifiedField(name));
}

function findTrustedCrowds({ settings, place }: ApplicationView, report: ReportFinding): void {
  const trusted = settings.peek('trustProxy');
  const networks = typeof trusted === 'string' ? trusted.trim().split(/\s*,\s*/) : [trusted].flat();
  const large = networks.find(
    (network) => typeof network === 'string' && /^[\da-f.:]+\/[0-7]$/i.test(network),
  );
  if (large !== undefined)
    report(
      'setting trustProxy',
      `the network "${String(large)}" of trusted proxies is too large: clients in this network can claim any IP address`,
      place,
      { about: { option: { key: 'trustProxy', value: trusted } } },
    );
}

/** Highest values of limits that still protect the process. */
const GREATEST = {
  headersTimeoutMs: 120_000,
  requestTimeoutMs: 3_600_000,
  sendTimeoutMs: 600_000,
  maxBodyBytes: 1_073_741_824,
} as const;
/** Matches a call of `req.body()` without a limit, which reads the whole body. */
const READS_ALL = String.raw`body\s*\(\s*\)`;

/** SVC212: limits of bodies, files, times and WebSockets that are too high or switched off. */
function findUnlimited(view: ApplicationView, report: ReportFinding): void {
  findUnguardedSockets(view, report);
  const { settings, place } = view;
  for (const [name, greatest] of Object.entries(GREATEST)) {
    const value = Number(settings.peek(name) ?? 0);
    if (value > greatest)
      report(
        `setting ${name}`,
        `the limit ${value} is too high to protect the process, above ${greatest}: a few clients can use up its memory and connections`,
        settings.placeOf(name) ?? place,
        { severity: 'warning', about: { option: { key: name, value } } },
      );
  }
  for (const detail of ownRoutes(view)) {
    const tell = aboutRoute(detail, report);
    const { declared, inputs } = detail;
    const { spec, handler } = declared;
    if (
      spec.maxBodyBytes === undefined &&
      settings.peek('maxBodyBytes') === undefined &&
      callsOfRequest(handler, READS_ALL)
    ) {
      tell('the handler reads request bodies of any length', {
        remedy: 'Set a limit: req.body({ maxBytes: 1_000_000 }), or the option maxBodyBytes of the route',
      });
    }
    if ((spec.maxBodyBytes ?? 0) > GREATEST.maxBodyBytes)
      tell(
        `the route accepts request bodies of ${spec.maxBodyBytes} bytes, above ${GREATEST.maxBodyBytes}: a few clients can fill the memory or the disk`,
        { severity: 'warning' },
      );
    // a limit of the body also limits its files; if that limit is too high, the warning above is enough
    if (spec.maxBodyBytes !== undefined) continue;
    for (const { name, node } of inputs.form?.fields ?? [])
      if (fileLimit(node) === Infinity)
        tell(`the file "${name}" has no limit of its own`, {
          severity: 'warning',
          remedy:
            within(node).node.kind === 'list'
              ? 'Limit each file: list(file, { maxLength: 5_000_000 }), or add maxBodyBytes to the route'
              : 'Add maxLength to the field, or maxBodyBytes to the route',
        });
  }
}

/** Limit in bytes of bodies and forms for which neither the route nor the application sets a lower one. */
const USUAL_BODY_BYTES = 10_000_000;

function usualBodyBytes({ settings }: ApplicationView): number {
  const setting = settings.peek('maxBodyBytes');
  return Math.min(USUAL_BODY_BYTES, setting === undefined ? Infinity : Number(setting));
}

/** SVC214: file limits of a form that are higher than the limit of its body. */
function findLimitConflicts({ inputs, declared }: RouteDetail, tell: Tell, view: ApplicationView): void {
  const cap = declared.spec.maxBodyBytes ?? usualBodyBytes(view);
  for (const { name, node } of inputs.form?.fields ?? []) {
    const limit = fileLimit(node);
    if (limit !== undefined && limit !== Infinity && limit > cap)
      tell(
        `the file "${name}" may have ${limit} bytes, but the request body only ${cap}: the server refuses larger bodies with status 413`,
      );
  }
}

/** Greatest value of the option maxBodyBytes of IdempotencyMiddleware. */
const MOST_KEYED = 1_000_000_000;

/** SVC214: bodies and files that a route accepts, but IdempotencyMiddleware does not. */
function findKeyedLimits(view: ApplicationView, report: ReportFinding): void {
  const usual = usualBodyBytes(view);
  // the default limit is not a decision of the application
  const ofAll = view.settings.peek('maxBodyBytes') === undefined ? 0 : usual;
  const reported = new Set<Middleware>();
  for (const detail of ownRoutes(view)) {
    const { spec, use } = detail.declared;
    const { body, form } = detail.inputs;
    const files = (form?.fields ?? []).flatMap(({ node }) => fileLimit(node) ?? []);
    const own = spec.maxBodyBytes ?? (files.length === 0 ? undefined : Math.min(Math.max(...files), usual));
    for (const layer of new Set([...view.middleware, ...use])) {
      if (!(layer instanceof IdempotencyMiddleware) || !layer.covers(detail.route)) continue;
      const { isRequired, maxBodyBytes: limit } = layer;
      const more = {
        severity: isRequired ? 'error' : 'warning',
        remedy:
          (own ?? ofAll) > MOST_KEYED
            ? 'Leave the route out: meta: { idempotency: false }'
            : `Raise the limit, which is memory for each such request: new IdempotencyMiddleware({ maxBodyBytes: ${own ?? ofAll} }). Or leave the route out: meta: { idempotency: false }`,
      } as const;
      const says = (accepts: string): string =>
        `${accepts}, but IdempotencyMiddleware only ${limit} with a key: the server refuses larger bodies with status 413`;
      if (own !== undefined && own > limit)
        aboutRoute(detail, report)(says(`the route accepts bodies of ${own} bytes`), more);
      const isUsual = own === undefined && (body !== undefined || form !== undefined);
      if (!isUsual || ofAll <= limit || reported.has(layer)) continue;
      reported.add(layer);
      const place = view.placeOfMiddleware(layer) ?? detail.route.place;
      report(
        'middleware idempotency',
        says(`with the setting maxBodyBytes, routes accept bodies of ${ofAll} bytes`),
        place,
        more,
      );
    }
  }
}

/** Highest limit of a WebSocket message that still protects the process. */
const LARGE_MESSAGE_BYTES = 67_108_864;

const NAME_ORIGINS = "Name the sites that may open the WebSocket: origins: ['https://app.example']";

function findUnguardedSockets(view: ApplicationView, report: ReportFinding): void {
  for (const detail of view.details) {
    const tell = aboutRoute(detail, report);
    const { socket } = detail.declared;
    if (socket === undefined) continue;
    const { options, guard } = socket;
    const warn = (message: string, remedy: string): void => tell(message, { severity: 'warning', remedy });
    if (guard.origin.allowed?.isAny)
      warn("pages of every site may open the WebSocket: origins: '*'", NAME_ORIGINS);
    const stranger = guard.origin.allowed?.strangerAmong();
    if (stranger !== undefined)
      warn(
        `pages of unknown sites may open the WebSocket: its origin function accepts ${stranger}`,
        NAME_ORIGINS,
      );
    if (options.heartbeatMs === false && options.idleTimeoutMs === false)
      warn(
        'nothing closes the WebSocket when its client is gone: heartbeatMs: false without an idleTimeoutMs',
        'Remove heartbeatMs to use its default, or set idleTimeoutMs',
      );
    if (options.maxMessageBytes > LARGE_MESSAGE_BYTES)
      warn(
        `one message may take ${options.maxMessageBytes} bytes of memory: maxMessageBytes`,
        'Remove maxMessageBytes to use its default, or set it to the size of your largest message',
      );
  }
}

/** A folder with one of these entries contains a program, whose sources must not be public. */
const PRIVATE = ['package.json', 'node_modules'];

/** Matches the names of files with keys, databases or backups. */
const KEEPS_SECRETS = /\.(?:key|pem|p12|pfx|sqlite3?|db|sql|bak)$/i;

/** SVC213: static folders that serve private files. */
function findExposed({ details, place }: ApplicationView, report: ReportFinding): void {
  for (const { route, declared } of details) {
    const { mount, template } = declared;
    if (mount === undefined || !('folder' in mount)) continue;
    // only the route with a `path` parameter serves the files
    if (template.parameters.at(-1)?.converter !== CONVERTERS.path) continue;
    const tell = (message: string): void => report(`GET ${route.template}`, message, route.place);
    if (mount.followsSymlinks)
      tell(
        'clients can read files outside of the static directory through links, because the option followSymlinks is set',
      );
    if (mount.dotfiles === 'allow')
      tell(
        "the static directory serves files whose names begin with a dot, because the option dotfiles is 'allow'",
      );
    const { directory } = mount.folder;
    const found = PRIVATE.filter((name) => existsSync(join(directory, name)));
    const own = fileOfPlace(place);
    if (found.length === 0 && dirname(own) === resolve(directory)) found.push(basename(own));
    found.push(...readdirSync(directory).filter((name) => KEEPS_SECRETS.test(name)));
    if (found.length > 0)
      tell(
        `the static directory ${resolve(directory)} contains files that are not public: ${found.join(', ')}`,
      );
  }
}
