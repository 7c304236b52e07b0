/**
 * Rules about access (SVC201 … SVC204, SVC206, SVC220): missing or weak authentication, CORS, CSRF, and logins
 * without a rate limit.
 */
import { CORSMiddleware } from '../../http/middleware/cors.ts';
import { UNKNOWN_ORIGIN } from '../../http/origins.ts';
import { RateLimitMiddleware } from '../../http/middleware/rate-limit.ts';
import { CSRFMiddleware } from '../../http/session/csrf.ts';
import { codeOf } from '../reader/functions.ts';
import { isSecret } from '../../observability/redact.ts';
import { placeOfGuard } from '../../auth/auth.ts';
import { trustedBy } from '../../auth/issuer/guard.ts';
import { predicateOf } from '../../auth/require.ts';
import { functionOf } from '../../routing/di.ts';
import { plansOf, plansWithin } from '../../schema/schema.ts';
import {
  aboutRoute,
  dependenciesOf,
  layersWithPlaces,
  letsStrangersIn,
  sourceAt,
  isGuarded,
  isPublic,
  isWrite,
  layersOf,
  ownRoutes,
  shapeOf,
  subjectOf,
} from '../check.ts';
import type { ApplicationView, CoreRule, ReportFinding, Tell } from '../check.ts';
import type { Middleware, SecurityRequirement } from '../../http/contracts.ts';
import type { RouteDetail } from '../../routing/compile.ts';
import type { ObjectPlan } from '../../schema/schema.ts';

/** Rules about access, sorted by id. */
export const ACCESS_RULES: readonly CoreRule[] = [
  {
    id: 'SVC201',
    severity: 'error',
    phase: 'security',
    cwe: [306, 862],
    sources: ['OWASP Top 10 2021: A01 Broken Access Control'],
    why: 'Without a guard, every client that finds the route can change data',
    remedy:
      'Add a guard: me: Depends(BearerAuth()). For a guard of your own, declare what it checks: provide({ security: { scheme: "bearer", scopes: [], roles: [] } }, check). If every client may call the route, say so with a reason: public: "sign up"',
    wrong: "app.post('/notes', { body: Note }, save);",
    right: "app.post('/notes', { body: Note, me: Depends(BearerAuth()) }, save);",
    run: findIdleGuards,
    onRoute: findUnguardedWrites,
  },
  {
    id: 'SVC202',
    severity: 'error',
    phase: 'security',
    cwe: [352],
    sources: ['OWASP Cheat Sheet: Cross-Site Request Forgery Prevention'],
    why: 'Browsers send the session cookie also with requests that other sites cause. Without CSRF protection, any such site can act as the visitor',
    remedy:
      'Register the CSRF middleware after the session middleware: app.use(new SessionMiddleware()), then app.use(new CSRFMiddleware())',
    wrong: 'app.use(new SessionMiddleware());',
    right: 'app.use(new SessionMiddleware()); app.use(new CSRFMiddleware());',
    run: findForgeable,
  },
  {
    id: 'SVC203',
    severity: 'warning',
    phase: 'security',
    cwe: [863],
    sources: ['OWASP Top 10 2021: A01 Broken Access Control'],
    why: 'A client that may not read or change a resource should not be able to delete the resource either',
    remedy:
      'Require for the less protected route the roles and scopes that the better protected route requires',
    wrong: "PUT asks for requireRoles('admin'), DELETE for BearerAuth()",
    right: "both ask for requireRoles('admin')",
    run: findWeaker,
  },
  {
    id: 'SVC204',
    severity: 'error',
    phase: 'security',
    cwe: [307],
    sources: ['OWASP Cheat Sheet: Authentication'],
    why: 'An attacker who may try passwords, codes or tokens without limit finds a valid one in the end',
    remedy: 'Add app.use(new RateLimitMiddleware()), and the option rateLimit: { perMinute: 5 } of the route',
    wrong: "app.post('/login', { form: Login }, login);",
    right: "app.post('/login', { form: Login, rateLimit: { perMinute: 5 } }, login);",
    onRoute: findGuessable,
  },
  {
    id: 'SVC206',
    severity: 'error',
    phase: 'security',
    cwe: [942],
    sources: ['Fetch §3.2'],
    why: 'A site that may send requests with the cookies of a visitor can act as the visitor. Allow only known sites that use TLS',
    remedy:
      'Name the allowed origins: new CORSMiddleware({ origins: ["https://app.example"], credentials: true })',
    wrong: "origins: (origin) => origin.endsWith('shop.example'), credentials: true",
    right: "origins: ['https://shop.example'], credentials: true",
    run: findStrangers,
  },
  {
    id: 'SVC220',
    severity: 'warning',
    phase: 'security',
    cwe: [319, 345],
    sources: ['RFC 8725 §3.11', 'RFC 9068 §4'],
    why: 'An attacker who replaces the keys, or who has another token of a user, is accepted as a user of this API',
    remedy:
      'Name a claim that only access tokens have: requiredClaims: { token_use: "access" }. If the issuer sends typ: at+jwt, remove requireType',
    wrong: 'IssuerAuth({ issuer, audience, requireType: false })',
    right: 'IssuerAuth({ issuer, audience })',
    run: findDoubtfulIssuers,
  },
];

/** SVC201: routes that change data without authenticating the client. rules/routes.ts judges WebSockets and MCP tools. */
function findUnguardedWrites(detail: RouteDetail, tell: Tell): void {
  if (isWrite(detail) && !isGuarded(detail) && !isPublic(detail))
    tell(
      detail.route.security.length === 0
        ? 'the route changes data, but no guard authenticates the client'
        : 'the route changes data, but its guard accepts requests without a credential (optional: true)',
    );
}

/** Matches the code of a function that always returns true. */
const ALWAYS_TRUE =
  /^(?:async\s*)?(?:function\s*[\w$]*\s*\([^)]*\)|\([^)]*\)\s*=>|[\w$]+\s*=>|[\w$]+\s*\([^)]*\))\s*(?:\{\s*return\s+true\s*;?\s*\}|\(?true\)?)$/;

function findIdleGuards(view: ApplicationView, report: ReportFinding): void {
  for (const { dependency, detail } of dependenciesOf(view)) {
    const tell = aboutRoute(detail, report, placeOfGuard(dependency.source));
    const predicate = predicateOf(dependency.source);
    if (predicate !== undefined && (letsStrangersIn(predicate) || ALWAYS_TRUE.test(codeOf(predicate).trim())))
      tell('the condition is always true, so the guard accepts every authenticated client', {
        remedy: 'Test the claims of the token: requireIf((claims) => claims.department === "billing")',
      });
    if (letsStrangersIn(functionOf(dependency)))
      tell('the guard accepts even an invented API key, because its function verify() accepts every key', {
        remedy: 'Return undefined from verify() if the key is unknown',
      });
  }
}

/** SVC220: guards whose keys come without TLS, or that accept tokens of any type. */
function findDoubtfulIssuers(view: ApplicationView, report: ReportFinding): void {
  for (const { dependency, detail } of dependenciesOf(view)) {
    const tell = aboutRoute(detail, report, placeOfGuard(dependency.source));
    for (const { issuer, jwks, allowInsecure, requireType, requiredClaims } of trustedBy(dependency.source)) {
      const hosts = typeof allowInsecure === 'object' && jwks === undefined ? allowInsecure : [];
      if (hosts.length > 0 && view.env === 'production')
        tell(
          `the keys of the issuer "${issuer}" may come by http from ${hosts.join(', ')}, so an attacker on the network can replace them and sign tokens for every user`,
          {
            remedy:
              'Let the issuer use https, with its own certificate authority in the option ca, and remove allowInsecure',
          },
        );
      if (!requireType && Object.keys(requiredClaims).length === 0)
        tell(
          `the guard accepts tokens of the issuer "${issuer}" that may be of another kind, such as an id_token: it requires neither the type at+jwt nor a claim`,
        );
    }
  }
}

/**
 * SVC206: CORS origin functions that accept sites of unknown owners, for example because they compare only
 * the end of an origin.
 */
function findStrangers(view: ApplicationView, report: ReportFinding): void {
  for (const [layer, place] of layersWithPlaces(view)) {
    if (!(layer instanceof CORSMiddleware) || !layer.allowsCredentials) continue;
    const { allowed } = layer;
    const stranger = allowed.strangerAmong(sourceAt(place));
    // CORSMiddleware itself reports a synchronous function that accepts every origin
    if (stranger === undefined || (stranger === UNKNOWN_ORIGIN && !allowed.isAsynchronous)) continue;
    report(
      'middleware cors',
      stranger === UNKNOWN_ORIGIN
        ? 'the CORS origin function accepts even an invented origin, so pages of every site may send requests with cookies'
        : `the CORS origin function accepts ${stranger}: an attacker could register this site and send requests with the cookies of visitors`,
      place,
    );
  }
}

/**
 * SVC202: routes that change data, use a session and have no CSRF protection. A browser sends the session
 * cookie even when a page of another site makes the request.
 */
function findForgeable(view: ApplicationView, report: ReportFinding): void {
  for (const detail of view.details) {
    const { route, declared } = detail;
    const isBySession = route.security.some(
      ({ scheme, credential }) => scheme === 'session' && credential?.in !== 'header',
    );
    if (!isBySession || !isWrite(detail)) continue;
    const guards = layersOf(view, declared).filter((layer) => layer.kind === 'csrf');
    if (guards.some((guard) => !(guard instanceof CSRFMiddleware) || guard.covers(route))) continue;
    const because =
      guards.length === 0
        ? 'no CSRF middleware is registered'
        : 'the route is exempt from the CSRF middleware';
    const tell = aboutRoute(detail, report);
    if (needsPreflight(detail, view))
      tell(
        `only the CORS preflight keeps other sites from sending this request with the session cookie, because ${because}`,
        {
          severity: 'warning',
          why: 'A CORS rule that allows an origin, now or later, also allows it to change data in the name of the visitor',
        },
      );
    else tell(`other sites can make a browser send this request with the session cookie, because ${because}`);
  }
}

/** Whether browsers ask the server before they send the request from another site (Fetch §4.8). */
function needsPreflight({ route, declared, inputs }: RouteDetail, { settings }: ApplicationView): boolean {
  if (route.method !== 'POST') return true;
  const isStrict = declared.spec.strictContentType ?? settings.get('strictContentType', true);
  return isStrict && inputs.body !== undefined && inputs.form === undefined;
}

/** HTTP methods, sorted by how much they usually change. */
const STRENGTH = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'];

/**
 * SVC203: methods that change more than another method of the path, but require less. Example: `POST`
 * requires a role, and `DELETE` accepts every client that has logged in.
 */
function findWeaker(view: ApplicationView, report: ReportFinding): void {
  for (const details of Map.groupBy(ownRoutes(view), shapeOf).values()) {
    const inOrder = details
      .filter(({ route }) => STRENGTH.includes(route.method))
      .sort((left, right) => STRENGTH.indexOf(left.route.method) - STRENGTH.indexOf(right.route.method));
    inOrder.forEach((detail, index) => {
      if (!isWrite(detail) || usesOwnSession(detail)) return;
      const before = inOrder.slice(0, index);
      const stricter = before.find((other) => asksForMore(other, detail));
      const other = stricter ?? before.find((earlier) => ranksAbove(earlier, detail));
      const tell = aboutRoute(detail, report);
      if (other !== undefined) {
        const weak = isGuarded(detail) ? 'accepts every authenticated client' : 'requires no credential';
        const demand = stricter === undefined ? `requires only ${demandsOf(detail)}` : weak;
        tell(
          `the method ${detail.route.method} changes more than the method ${other.route.method} of the same path, but has weaker protection: ${other.route.method} requires ${demandsOf(other)}, and ${detail.route.method} ${demand}`,
        );
      } else findForeignRoles(detail, before, tell);
    });
  }
  findWeakerBulk(view, report);
  findOddRows(view, report);
  findUnguardedCorners(view, report);
}

/** Least number of routes that one line declares, from which a single weaker guard is a mistake. */
const LEAST_ROWS = 4;

/** Reports the only route of a table, whose loop declares all routes at one place, that requires no role or scope. */
function findOddRows(view: ApplicationView, report: ReportFinding): void {
  const written = ownRoutes(view).filter((detail) => isWrite(detail) && isGuarded(detail));
  const tables = Map.groupBy(written, ({ route: { place } }) =>
    place === undefined ? '' : `${place.file}:${place.line}:${place.column}`,
  );
  for (const [place, details] of tables) {
    const [odd, ...others] = details.filter(({ route }) => !route.security.some(isQualified));
    if (place === '' || odd === undefined || others.length > 0 || details.length < LEAST_ROWS) continue;
    if (OF_ONE_CLIENT.test(odd.route.template) || usesOwnSession(odd)) continue;
    const [first] = details.filter((detail) => detail !== odd);
    const tell = aboutRoute(odd, report);
    tell(
      `the other ${details.length - 1} routes of the table require more, such as ${demandsOf(first!)}, and this route accepts every authenticated client`, // the table has further routes
    );
  }
}

/**
 * Reports `DELETE /users` if its guard is weaker than the guard of `DELETE /users/{id}`. Skips paths such as
 * `/sessions`, where a client deletes only its own data.
 */
function findWeakerBulk(view: ApplicationView, report: ReportFinding): void {
  const all = ownRoutes(view).filter(({ route }) => route.method === 'DELETE');
  for (const detail of all) {
    const { template } = detail.route;
    const tell = aboutRoute(detail, report);
    if (OF_ONE_CLIENT.test(template)) continue;
    const item = all.find(
      (other) =>
        other.route.template.startsWith(`${template}/{`) &&
        shapeOf(other).split('/').length === shapeOf(detail).split('/').length + 1 &&
        (asksForMore(other, detail) || ranksAbove(other, detail)),
    );
    if (item !== undefined)
      tell(
        `this route deletes more than DELETE ${item.route.template}, but has weaker protection: DELETE ${item.route.template} requires ${demandsOf(item)}, and this route requires only ${demandsOf(detail)}`,
      );
  }
}

/** Whether a route starts or ends the session of its client, which needs no more than the client itself. */
function usesOwnSession({ declared: { handler } }: RouteDetail): boolean {
  return /\.session\.(?:regenerate|destroy)\s*\(/.test(codeOf(handler));
}

/**
 * Whether the guard of `other` is stricter than the guard of `detail`. False if `detail` has no guard and is
 * not public: SVC201 reports such a route.
 */
function asksForMore(other: RouteDetail, detail: RouteDetail): boolean {
  const [theirs, own] = [other.route.security, detail.route.security];
  if (!isGuarded(detail)) return isGuarded(other) && isPublic(detail);
  const counts = isWrite(other) || detail.route.method === 'DELETE';
  return counts && theirs.some(isQualified) && !own.some(isQualified);
}

function isQualified({ roles, scopes }: SecurityRequirement): boolean {
  return roles.length + scopes.length > 0;
}

/**
 * Patterns for roles and for the last words of scopes such as `notes:read`, from the fewest rights to the
 * most.
 */
const RANKS: readonly RegExp[] = [
  /^(?:guest|anonymous|public)$/i,
  /^(?:readers?|viewers?|users?|members?|customers?|read|view|readonly)$/i,
  /^(?:editors?|authors?|writers?|contributors?|write|edit|update|moderators?)$/i,
  /^(?:managers?|maintainers?|manage)$/i,
  /^(?:admins?|administrators?|owners?|root|superusers?|superadmins?|delete|admin)$/i,
];

/**
 * Compares the lowest role or scope of each route, and returns whether `other` has the higher one. False if a
 * role or scope is not in RANKS.
 */
function ranksAbove(other: RouteDetail, detail: RouteDetail): boolean {
  const [theirs, own] = [ranksOf(other), ranksOf(detail)];
  return theirs.length > 0 && own.length > 0 && Math.min(...theirs) > Math.min(...own);
}

function ranksOf({ route: { security } }: RouteDetail): number[] {
  const words = security.flatMap(({ roles, scopes }) => [
    ...roles,
    ...scopes.map((scope) => scope.split(/[:./]/).at(-1)!), // split() always returns at least one part
  ]);
  const ranks = words.map((word) => RANKS.findIndex((rank) => rank.test(word)));
  return ranks.includes(-1) ? [] : ranks;
}

/** Reports two methods of one path if both change data and no role may call both. */
function findForeignRoles(detail: RouteDetail, before: readonly RouteDetail[], tell: Tell): void {
  const rolesOf = ({ route: { security } }: RouteDetail): readonly string[] =>
    security.flatMap(({ roles }) => roles);
  const own = rolesOf(detail);
  if (own.length === 0 || ranksOf(detail).length > 0) return;
  const other = before.find(
    (earlier) =>
      isWrite(earlier) && rolesOf(earlier).length > 0 && !rolesOf(earlier).some((role) => own.includes(role)),
  );
  if (other !== undefined)
    tell(
      `two methods of the path require different roles: ${other.route.method} requires ${demandsOf(other)}, and ${detail.route.method} requires ${demandsOf(detail)}`,
      {
        severity: 'info',
        remedy:
          'Require the same role for all methods of the path. If the difference is intended, allow it with a reason: allow: [{ rule: "SVC203", reason: "…" }]',
      },
    );
}

/** Matches paths where a client changes only its own data. */
const OF_ONE_CLIENT = /\bme\b|profile|session|log-?out/;
const CORNER = /^(?:admin|administration|internal|backoffice|manage|management|staff)$/i;

/**
 * Reports routes below a path such as `/admin` that require no role or scope, although another route below
 * that path requires one.
 */
function findUnguardedCorners(view: ApplicationView, report: ReportFinding): void {
  const corners = Map.groupBy(ownRoutes(view), ({ declared }) => {
    const segments = declared.template.template.split('/');
    const index = segments.findIndex((segment) => CORNER.test(segment));
    return index === -1 ? '' : segments.slice(0, index + 1).join('/');
  });
  for (const [corner, details] of corners) {
    const stricter = details.find(({ route }) => route.security.some(isQualified));
    if (corner === '' || stricter === undefined) continue;
    for (const detail of details) {
      // SVC201 reports writes without a guard
      if (isPublic(detail) || (!isGuarded(detail) && (isWrite(detail) || isAboutSecrets(detail)))) continue;
      if (detail.route.security.some(isQualified)) continue;
      if (OF_ONE_CLIENT.test(detail.route.template)) continue;
      const tell = aboutRoute(detail, report);
      tell(
        `this route accepts every ${isGuarded(detail) ? 'authenticated client' : 'client'}, but another route below ${corner} requires more: ${subjectOf(stricter)} requires ${demandsOf(stricter)}`,
        {
          remedy: `Require a role for every route below ${corner}, for example with new Router({ prefix, deps: { me: … } })`,
        },
      );
    }
  }
}

function demandsOf({ route: { security } }: RouteDetail): string {
  const named = security.flatMap(({ roles, scopes }) => [
    ...roles.map((role) => `the role "${role}"`),
    ...scopes.map((scope) => `the scope "${scope}"`),
  ]);
  return named.length === 0 ? 'a credential' : named.join(', ');
}

/** Words in paths and tags of routes where clients send or receive a secret. */
const SECRET_WORDS =
  /^(?:log-?in|log-?on|sign-?in|tokens?|passwords?|(?:password-reset|(?:reset|change)-password)|forgot(?:-password)?|otp|totp|2fa|mfa|magic-links?)$/i;

/**
 * Words that suggest a secret only together with a word of ACCOUNT_WORDS: in `/password/reset`, but not in
 * `/filters/reset`.
 */
const CHANGING_WORDS = /^(?:reset|change|verify|verification)$/i;
const ACCOUNT_WORDS =
  /^(?:auth|accounts?|users?|members?|me|profile|identity|credentials|passwords?|pins?|e?mail|phone|codes?)$/i;
/** Words in paths where clients send a short code, such as a PIN. */
const CODE_WORDS = /^(?:unlock|pins?|passcodes?)$/i;
/** Words in paths of routes that create a secret and show it only once. */
const ISSUING_WORDS =
  /^(?:auth|oauth2?|refresh|sessions?|(?:api|access|signing)-?keys?|[\w-]+-tokens?|credentials)$/i;

/** Whether the path or the tags of a route suggest that its requests or responses contain secrets. */
export function isAboutSecrets(detail: RouteDetail): boolean {
  const words = wordsOf(detail);
  return (
    words.some((word) => SECRET_WORDS.test(word)) ||
    (words.some((word) => CHANGING_WORDS.test(word)) && words.some((word) => ACCOUNT_WORDS.test(word)))
  );
}

/** Whether the route responds with a secret that it creates, such as a key or a pair of tokens. */
export function isIssuing(detail: RouteDetail): boolean {
  return isWrite(detail) && wordsOf(detail).some((word) => ISSUING_WORDS.test(word));
}

function wordsOf({ declared: { template, tags } }: RouteDetail): readonly string[] {
  return [...template.template.split('/').filter((segment) => !segment.includes('{')), ...tags];
}

/** Returns the objects in the body and in the form of a route. */
export function plansOfInputs({ body, form }: RouteDetail['inputs']): Set<ObjectPlan> {
  const plans = new Set<ObjectPlan>();
  if (body !== undefined) plansWithin(body.node, plans);
  if (form !== undefined) plansOf(form, plans);
  return plans;
}

/** Whether a route receives the address of an account, and nothing that a client could guess: it sends a mail. */
function sendsMail({ inputs }: RouteDetail): boolean {
  const names = [...plansOfInputs(inputs)].flatMap(({ fields }) => fields.map(({ wireName }) => wireName));
  return (
    names.some((name) => /mail/i.test(name)) &&
    !names.some((name) => isSecret(name, 'text') || /code$|^(?:pin|otp)$/i.test(name))
  );
}

/** SVC204: routes for passwords, codes or tokens without a rate limit. */
function findGuessable(detail: RouteDetail, tell: Tell, view: ApplicationView): void {
  const { route, declared } = detail;
  if (!isWrite(detail) || isGuarded(detail) || route.meta['rateLimit'] === 'own') return;
  const isAboutCodes = isAboutSecrets(detail) || wordsOf(detail).some((word) => CODE_WORDS.test(word));
  if (!isAboutCodes && !/\bcheckPassword\s*\(/.test(codeOf(declared.handler))) return;
  const limits = layersOf(view, declared).filter((layer) => layer.kind === 'rate-limit');
  const isOff = route.rateLimit === false;
  if (!isOff && limits.length > 0) return findLooseLimit(detail, limits, tell);
  const reason = isOff ? 'the option rateLimit of the route is false' : 'no rate limit applies to the route';
  const isMail = sendsMail(detail);
  tell(
    isMail
      ? `clients can have mails sent to any address without limit, because ${reason}`
      : `clients can try passwords, codes or tokens without limit, because ${reason}`,
    {
      ...(isMail && { why: 'An attacker floods the mailboxes of others, until providers refuse your mails' }),
      about: { ...(!isOff && { lacks: 'rate limit' }) },
    },
  );
}

/** Rate limit, in requests per minute, above which passwords can be guessed. */
const MOST_TRIES = 600;

function findLooseLimit(detail: RouteDetail, limits: readonly Middleware[], tell: Tell): void {
  const { route, declared } = detail;
  const perMinute = Math.min(
    ...limits.map((layer) => (layer instanceof RateLimitMiddleware ? layer.perMinuteOf(route) : 0)),
  );
  // a handler that calls take() of a RateLimiter limits the rate itself
  if (perMinute <= MOST_TRIES || /\.take\s*\(/.test(codeOf(declared.handler))) return;
  tell(
    `the rate limit allows ${perMinute} attempts a minute for ${subjectOf(detail)}, too many to prevent guessing of passwords or codes`,
    { about: { option: { key: 'perMinute', value: perMinute } } },
  );
}
