/**
 * Rules about deployment: internals that are public in production, missing security headers, limits that are
 * too high or switched off, and settings.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { callsOfRequest, codeOf } from './reader/functions.ts';
import { layersWithPlaces, letsStrangersIn, ownRoutes, subjectOf } from './check.ts';
import { variableOf } from '../base/config.ts';
import { SvcError } from '../base/errors.ts';
import { closest } from '../base/options.ts';
import { isThenable } from '../base/promises.ts';
import { RateLimitMiddleware, namesForwarded } from '../http/middleware/rate-limit.ts';
import { SecurityHeadersMiddleware } from '../http/middleware/security-headers.ts';
import { fileLimit } from '../schema/schema.ts';
import type { Finding } from '../base/findings.ts';
import type { HttpRequest, RateLimitKey } from '../http/contracts.ts';
import type { ApplicationView, ReportFinding, RuleText } from './check.ts';

/** SVC208: stack traces, API documents or metrics that are public in production. */
export function findExposedInsides(view: ApplicationView, report: ReportFinding): void {
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
        cause: { key: 'env', value: env },
      },
    );
  if (isOn(settings.peek('debug')))
    report('setting debug', 'error replies show stack traces to every client', place, {
      remedy: 'Remove the setting debug (SVC_DEBUG) in production: the log contains the stack traces, too',
      cause: { key: 'debug', value: settings.peek('debug') },
    });
  if (view.hasPublicDocs && isOn(settings.peek('enableDocs'))) {
    report('setting enableDocs', '/docs and /openapi.json show every route to every client', place, {
      severity: 'warning',
      remedy: 'Remove the setting enableDocs (SVC_ENABLE_DOCS) in production, unless the API is public',
      cause: { key: 'enableDocs', value: settings.peek('enableDocs') },
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
export function findMissingHeaders(view: ApplicationView, report: ReportFinding): void {
  findLoosePolicies(view, report);
  if (
    view.env !== 'production' ||
    ownRoutes(view).length === 0 ||
    view.middleware.some((layer) => layer.kind === 'security-headers')
  )
    return;
  report(
    'the application',
    'replies have no security headers: no content security policy, no HSTS, no nosniff',
    view.place,
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

/** Matches code that reads the host name of a request. */
const READS_HOST = /\breq(?:uest)?\.host\b|\bheaders(?:\.|\[['"])host\b/;
/** Matches addresses at which only clients on the same machine can connect (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3). */
const LOOPBACK = /^(?:127\.|\[?::1\]?$|localhost$)/;

/**
 * SVC219: links made of a host name that clients choose, and logins over a network without TLS. The findings
 * are notes, because a proxy may check host names and provide TLS.
 */
export function findUnnamedHosts(
  view: ApplicationView,
  { severity, remedy }: RuleText,
  sources: readonly string[],
): readonly Finding[] {
  if (view.env !== 'production') return [];
  const { settings, middleware, place } = view;
  const finding = { rule: 'SVC219', severity, subject: 'the application', place } as const;
  const namesHosts = middleware.some((layer) => layer.kind === 'trusted-host');
  const hasLogins = ownRoutes(view).some(({ route }) => route.security.length > 0);
  const hasTls = settings.peek('trustProxy') !== undefined || settings.peek('tlsCert') !== undefined;
  // without the setting `host`, the server listens on 127.0.0.1
  const host = String(settings.peek('host') ?? '127.0.0.1');
  return [
    ...(namesHosts || !sources.some((source) => READS_HOST.test(source))
      ? []
      : [
          {
            ...finding,
            message:
              'the server accepts requests for any host name, so a client can choose the host of links that are built from req.host',
            remedy,
          },
        ]),
    ...(hasTls || !hasLogins || settings.peek('socket') !== undefined || LOOPBACK.test(host)
      ? []
      : [
          {
            ...finding,
            message: `clients log in without TLS: the server listens on ${host}, and neither a certificate (SVC_TLS_CERT) nor a trusted proxy (SVC_TRUST_PROXY) is configured`,
            why: 'Without TLS, every machine on the network path can read and change requests, with their cookies and tokens',
            remedy:
              'If a proxy terminates TLS and redirects http to https, set trustProxy, for example to 1. Otherwise give the server a certificate',
          },
        ]),
  ];
}

/**
 * SVC218: NODE_TLS_REJECT_UNAUTHORIZED=0, which switches off the verification of TLS certificates in the
 * whole process.
 */
export function findUnverifiedTls({ place }: ApplicationView, report: ReportFinding): void {
  if (process.env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    report(
      'variable NODE_TLS_REJECT_UNAUTHORIZED',
      'TLS certificates are not verified: attackers on the network can pretend to be a database, a login provider or a service',
      place,
      {
        remedy:
          'Remove the environment variable. To trust your own certificate authority, set NODE_EXTRA_CA_CERTS=ca.pem',
        cause: { key: 'NODE_TLS_REJECT_UNAUTHORIZED', value: '0' },
      },
    );
}

/**
 * SVC210: trusted networks so large that they include clients, and rate limits by a header that clients can
 * set.
 */
export function findForgedClients(view: ApplicationView, report: ReportFinding): void {
  findTrustedCrowds(view, report);
  for (const [layer, place] of layersWithPlaces(view)) {
    if (!(layer instanceof RateLimitMiddleware)) continue;
    const header = layer.keys
      // the rate limit middleware itself reports key functions that use a forwarded address
      .filter((key) => !namesForwarded(key))
      .map(headerOfKey)
      .find((name) => name !== undefined);
    if (header !== undefined)
      report(
        'middleware rate-limit',
        `the rate limit counts requests by the header "${header}", so a client can avoid the limit by sending a new value each time`,
        place,
        {
          severity: 'warning',
          remedy: 'Let the option "key" return req.ip, or the id of the authenticated user',
        },
      );
  }
}

/**
 * Header fields with a credential. A rate limit may count by such a field: a client cannot invent values,
 * because guards reject invalid credentials.
 */
const CREDENTIALS: ReadonlySet<string> = new Set(['authorization', 'cookie', 'x-api-key']);

/**
 * Returns a header field on which the key of a rate limit depends, unless the field carries a credential. A
 * test request records which fields the key function reads. A second request, with other header values, shows
 * whether the key changes.
 */
function headerOfKey(key: RateLimitKey): string | undefined {
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
  return [...names].find((name) => !CREDENTIALS.has(name));
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
      { cause: { key: 'trustProxy', value: trusted } },
    );
}

/** Highest values of limits that still protect the process. */
const GREATEST = {
  headersTimeoutMs: 120_000,
  requestTimeoutMs: 3_600_000,
  sendTimeoutMs: 600_000,
  maxBodyBytes: 1_073_741_824,
} as const;
const GREATEST_UPLOAD = 1_073_741_824;
/** Matches a call of `req.body()` without a limit, which reads the whole body. */
const READS_ALL = String.raw`body\s*\(\s*\)`;

/** SVC212: limits of bodies, files, times and WebSockets that are too high or switched off. */
export function findUnlimited(view: ApplicationView, report: ReportFinding): void {
  findUnguardedSockets(view, report);
  const { settings, place } = view;
  for (const [name, greatest] of Object.entries(GREATEST)) {
    const value = Number(settings.peek(name) ?? 0);
    if (value > greatest)
      report(
        `setting ${name}`,
        `the limit ${value} is too high to protect the process: a few clients can use up its memory and connections`,
        settings.placeOf(name) ?? place,
        { severity: 'warning', cause: { key: name, value } },
      );
  }
  for (const detail of ownRoutes(view)) {
    const {
      route,
      declared: { spec, handler },
      inputs,
    } = detail;
    if (
      spec.maxBodyBytes === undefined &&
      settings.peek('maxBodyBytes') === undefined &&
      callsOfRequest(handler, READS_ALL)
    ) {
      report(subjectOf(detail), 'the handler reads request bodies of any length', route.place, {
        remedy: 'Set a limit: req.body({ maxBytes: 1_000_000 }), or the option maxBodyBytes of the route',
      });
    }
    if ((spec.maxBodyBytes ?? 0) > GREATEST_UPLOAD)
      report(
        subjectOf(detail),
        `the route accepts request bodies of ${spec.maxBodyBytes} bytes: a few clients can fill the memory or the disk`,
        route.place,
        {
          severity: 'warning',
        },
      );
    for (const field of inputs.form?.fields ?? []) {
      const limit = fileLimit(field.node);
      if (limit !== undefined && limit > GREATEST_UPLOAD)
        report(subjectOf(detail), `the file "${field.name}" may have any length`, route.place, {
          severity: 'warning',
        });
    }
  }
}

/** Default limit of form bodies in bytes. */
const FORM_BYTES = 10_000_000;

/** SVC214: file limits of a form that are higher than the limit of its body. */
export function findLimitConflicts(view: ApplicationView, report: ReportFinding): void {
  const setting = view.settings.peek('maxBodyBytes');
  const usual = Math.min(FORM_BYTES, setting === undefined ? Infinity : Number(setting));
  for (const detail of ownRoutes(view)) {
    const { form } = detail.inputs;
    const cap = detail.declared.spec.maxBodyBytes ?? usual;
    for (const { name, node } of form?.fields ?? []) {
      const limit = fileLimit(node);
      if (limit === undefined || limit === Infinity || limit <= cap) continue;
      report(
        subjectOf(detail),
        `the file "${name}" may have ${limit} bytes, but the request body only ${cap}: the server refuses larger bodies with status 413`,
        detail.route.place,
      );
    }
  }
}

/** Highest limit of a WebSocket message that still protects the process. */
const LARGE_MESSAGE_BYTES = 67_108_864;

function findUnguardedSockets(view: ApplicationView, report: ReportFinding): void {
  for (const detail of view.details) {
    const {
      route,
      declared: { socket },
    } = detail;
    if (socket === undefined) continue;
    const { options, guard } = socket;
    const warn = (message: string, remedy: string): void =>
      report(subjectOf(detail), message, route.place, { severity: 'warning', remedy });
    if (guard.origin.allowed?.isAny)
      warn(
        "pages of every site may open the WebSocket: origins: '*'",
        "Name the sites that may open the WebSocket: origins: ['https://app.example']",
      );
    const stranger = guard.origin.allowed?.strangerAmong();
    if (stranger !== undefined)
      warn(
        `pages of unknown sites may open the WebSocket: its origin function accepts ${stranger}`,
        "Name the sites that may open the WebSocket: origins: ['https://app.example']",
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

/*
 * The functions below parse version ranges of Node.js in package.json, such as `^24.18.1 || >=26.5`.
 */

type Version = readonly [major: number, minor: number, patch: number];

/** Returns `engines.node` of the nearest package.json in a folder or above, or undefined. */
export function enginesOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const file = join(at, 'package.json');
    if (existsSync(file)) return readEngines(file);
    if (at === dirname(at)) return undefined;
  }
}

function readEngines(file: string): string | undefined {
  try {
    const { engines } = JSON.parse(readFileSync(file, 'utf8')) as { engines?: { node?: unknown } | null };
    return typeof engines?.node === 'string' ? engines.node : undefined;
  } catch {
    // npm reports an invalid package.json itself
    return undefined;
  }
}

/**
 * Returns whether a version is in a range such as `>=24 <27`. Undefined if the version or range cannot be
 * parsed. Ignores prerelease and build parts of the version.
 */
export function satisfies(version: string, range: string): boolean | undefined {
  const own = versionOf(version.split(/[-+]/)[0]!);
  if (own === undefined) return undefined;
  const results = range.split('||').map((part) => isIn(own.from, part.trim()));
  return results.includes(true) ? true : results.includes(undefined) ? undefined : false;
}

/**
 * Whether a version satisfies one alternative of a range, such as `>=24 <27`. Undefined if the alternative
 * cannot be parsed.
 */
function isIn(version: Version, part: string): boolean | undefined {
  const hyphen = /^(\S+)\s+-\s+(\S+)$/.exec(part);
  const comparators =
    hyphen === null
      ? part.replace(/(\^|~|[<>]=?|=)\s+/g, '$1').split(/\s+/)
      : [`>=${hyphen[1]!}`, `<=${hyphen[2]!}`];
  const results = comparators.map((comparator) => compares(version, comparator));
  return results.includes(undefined) ? undefined : results.every((result) => result === true);
}

function compares(version: Version, comparator: string): boolean | undefined {
  // every part of this pattern is optional, so it matches every text
  const [, operator = '', rest = ''] = /^(\^|~|[<>]=?|=)?v?(.*)$/.exec(comparator)!;
  const wanted = versionOf(rest);
  if (wanted === undefined) return undefined;
  const { from, parts } = wanted;
  const below = nextOf(from, parts);
  switch (operator) {
    case '>=':
      return order(version, from) >= 0;
    case '>':
      return below === undefined
        ? false
        : order(version, parts === 3 ? from : below) > (parts === 3 ? 0 : -1);
    case '<':
      return order(version, from) < 0;
    case '<=':
      return below === undefined || order(version, below) < 0;
    case '~':
      return order(version, from) >= 0 && before(version, nextOf(from, Math.min(parts, 2)));
    case '^':
      return (
        order(version, from) >= 0 &&
        before(
          version,
          nextOf(from, parts === 0 ? 0 : from[0] > 0 || parts === 1 ? 1 : from[1] > 0 || parts === 2 ? 2 : 3),
        )
      );
    default:
      return order(version, from) >= 0 && before(version, below);
  }
}

function before(version: Version, limit: Version | undefined): boolean {
  return limit === undefined || order(version, limit) < 0;
}

/**
 * Increments the number at position `parts`, and sets the later numbers to 0. For 1.2.3, returns 2.0.0 if
 * `parts` is 1, and 1.3.0 if it is 2. Undefined if `parts` is 0.
 */
function nextOf([major, minor, patch]: Version, parts: number): Version | undefined {
  return parts === 0
    ? undefined
    : parts === 1
      ? [major + 1, 0, 0]
      : parts === 2
        ? [major, minor + 1, 0]
        : [major, minor, patch + 1];
}

function order(left: Version, right: Version): number {
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/**
 * Parses a version such as `24.1.0`, `24.x` or `*`. Returns the lowest matching version, and the number of
 * fixed parts: 24.0.0 and 1 for `24.x`.
 */
function versionOf(text: string): { readonly from: Version; readonly parts: number } | undefined {
  if (text === '' || text === '*' || /^x$/i.test(text)) return { from: [0, 0, 0], parts: 0 };
  const match = /^(\d+)(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?$/.exec(text);
  if (match === null) return undefined;
  const numbers = match
    .slice(1)
    .map((part) => (part === undefined || !/^\d+$/.test(part) ? undefined : Number(part)));
  const parts = numbers[1] === undefined ? 1 : numbers[2] === undefined ? 2 : 3;
  return { from: [numbers[0]!, numbers[1] ?? 0, parts === 3 ? numbers[2]! : 0], parts };
}

/**
 * Settings that the application reads only when a server starts, and the type of each. Rule SVC401 runs
 * earlier, and validates their values by these types.
 */
const LATER: Readonly<Record<string, NumberConstructor | BooleanConstructor | StringConstructor>> = {
  host: String,
  port: Number,
  socket: String,
  socketMode: String,
  shutdownDelaySeconds: Number,
  shutdownTimeoutSeconds: Number,
  enableDocs: Boolean,
  mcpToken: String,
  tlsCert: String,
  tlsKey: String,
};
/** Environment variables that the framework itself reads and that are not settings. */
const FOREIGN: ReadonlySet<string> = new Set(['SVC_DEBUG', 'SVC_NODE_INTERNALS', 'SVC_WORKERS']);
const CASTS = { number: Number, boolean: Boolean, string: String } as const;

/** SVC401: settings that are missing, misspelt or invalid. */
export function findSettings({ settings, secrets, place }: ApplicationView, report: ReportFinding): void {
  const reads = [...settings.reads().values()];
  const isRead = new Set(reads.map((read) => read.key));
  for (const { key, variable, cast, fallback } of reads) {
    if (cast !== undefined && cast !== 'custom') recast(key, CASTS[cast]);
    else if (cast === undefined && fallback === undefined && settings.peek(key) === undefined) {
      report(
        `setting ${key}`,
        'the code reads the setting without a default, but nothing sets the setting',
        settings.placeOf(key),
        {
          remedy: `Set ${variable} (--env-file reads a file), or add a default: config.get("${key}", …). The default null makes the setting optional`,
        },
      );
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
      'the environment variable is set, but no code reads it' +
        (suggestion === undefined ? '' : `: did you mean ${suggestion}?`),
      place,
      {
        severity: 'warning',
        remedy:
          'Correct or remove the environment variable. If code reads the variable later, declare a default: new Svc({ config: { … } })',
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
