/**
 * Rules about who may do what: writes that nobody guards, guards that contradict each other, and places where secrets can be
 * tried as often as somebody likes.
 */
import { CORSMiddleware } from '../http/middleware/cors.ts';
import { UNKNOWN_ORIGIN } from '../http/origins.ts';
import { CSRFMiddleware } from '../http/session/csrf.ts';
import { layersWithPlaces, sourceAt } from './probes.ts';
import { isGuarded, isPublic, isWrite, layersOf, ownRoutes, shapeOf, subjectOf } from './check.ts';
import type { ApplicationView, ReportFinding } from './check.ts';
import type { SecurityRequirement } from '../http/contracts.ts';
import type { RouteDetail } from '../routing/compile.ts';

/** SVC201 */
export function findUnguarded(view: ApplicationView, report: ReportFinding): void {
  for (const detail of ownRoutes(view)) {
    if (isWrite(detail) && !isGuarded(detail) && !isPublic(detail)) {
      report(
        subjectOf(detail),
        detail.route.security.length === 0
          ? 'it changes data, and no guard asks who sends the request'
          : 'it changes data, and its guard lets requests without a credential through (optional: true)',
        detail.route.place,
      );
    }
  }
}

/** SVC206: a function for origins that compares a part of them. One that allows every origin is found while it is compiled. */
export function findStrangers(view: ApplicationView, report: ReportFinding): void {
  for (const [layer, place] of layersWithPlaces(view)) {
    if (!(layer instanceof CORSMiddleware) || !layer.allowsCredentials) continue;
    const { allowed } = layer;
    const stranger = allowed.strangerAmong(sourceAt(place));
    if (stranger === undefined || (stranger === UNKNOWN_ORIGIN && !allowed.isAsynchronous)) continue; // compile() has found the latter
    report(
      'middleware cors',
      stranger === UNKNOWN_ORIGIN
        ? 'its function allows an origin that no site has, so pages of every site may call with the cookies of their visitors'
        : `its function allows ${stranger}, a site that any other owner may register, to call with the cookies of its visitors`,
      place,
    );
  }
}

/** SVC202: what a browser sends by itself proves nothing about who wanted it. */
export function findForgeable(view: ApplicationView, report: ReportFinding): void {
  for (const detail of view.details) {
    const { route, declared } = detail;
    const isBySession = route.security.some(
      ({ scheme, credential }) => scheme === 'session' && credential?.in !== 'header',
    );
    if (!isBySession || !isWrite(detail)) continue;
    const guards = layersOf(view, declared).filter((layer) => layer.kind === 'csrf');
    if (guards.some((guard) => !(guard instanceof CSRFMiddleware) || guard.covers(route))) continue;
    report(
      subjectOf(detail),
      `it is authenticated by session, and any other site can make a browser send it: ${guards.length === 0 ? 'no CSRF middleware is in force' : 'it is exempt from the CSRF middleware'}`,
      route.place,
    );
  }
}

/** From the one that changes least. */
const STRENGTH = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'];

/** SVC203: of the methods of one path, a later one that asks for less than an earlier one. */
export function findWeaker(view: ApplicationView, report: ReportFinding): void {
  for (const details of Map.groupBy(ownRoutes(view), shapeOf).values()) {
    const inOrder = details
      .filter(({ route }) => STRENGTH.includes(route.method))
      .sort((left, right) => STRENGTH.indexOf(left.route.method) - STRENGTH.indexOf(right.route.method));
    inOrder.forEach((detail, index) => {
      if (!isWrite(detail)) return;
      const before = inOrder.slice(0, index);
      const stricter = before.find((other) => asksForMore(other, detail));
      const other = stricter ?? before.find((earlier) => ranksAbove(earlier, detail));
      if (other !== undefined) {
        const demand = stricter === undefined ? `asks for ${demandsOf(detail)} only` : weakDemandOf(detail);
        report(
          subjectOf(detail),
          `${other.route.method} of the same path asks for ${demandsOf(other)}, but this method changes more and ${demand}`,
          detail.route.place,
        );
      } else findForeignRoles(detail, before, report);
    });
  }
  findUnguardedCorners(view, report);
}

function weakDemandOf(detail: RouteDetail): string {
  return isGuarded(detail) ? 'accepts every authenticated client' : 'asks for no credential';
}

/** Where no guard asks for anything and no declaration says that this is meant, SVC201 reports it. */
function asksForMore(other: RouteDetail, detail: RouteDetail): boolean {
  const [theirs, own] = [other.route.security, detail.route.security];
  if (!isGuarded(detail)) return isGuarded(other) && isPublic(detail);
  const counts = isWrite(other) || detail.route.method === 'DELETE';
  return counts && theirs.some(isQualified) && !own.some(isQualified);
}

function isQualified({ roles, scopes }: SecurityRequirement): boolean {
  return roles.length + scopes.length > 0;
}

/** Words of roles and of ends of scopes, from the weakest. */
const RANKS: readonly RegExp[] = [
  /^(?:guest|anonymous|public)$/i,
  /^(?:readers?|viewers?|users?|members?|customers?|read|view|readonly)$/i,
  /^(?:editors?|authors?|writers?|contributors?|write|edit|update|moderators?)$/i,
  /^(?:managers?|maintainers?|manage)$/i,
  /^(?:admins?|administrators?|owners?|root|superusers?|superadmins?|delete|admin)$/i,
];

/** Whether another method asks for roles or scopes that all rank above those of this one. Unknown words have no rank. */
function ranksAbove(other: RouteDetail, detail: RouteDetail): boolean {
  const [theirs, own] = [ranksOf(other), ranksOf(detail)];
  return theirs.length > 0 && own.length > 0 && Math.min(...theirs) > Math.min(...own);
}

function ranksOf({ route: { security } }: RouteDetail): number[] {
  const words = security.flatMap(({ roles, scopes }) => [
    ...roles,
    ...scopes.map((scope) => scope.split(/[:./]/).at(-1)!), // split() gives one part at least
  ]);
  const ranks = words.map((word) => RANKS.findIndex((rank) => rank.test(word)));
  return ranks.includes(-1) ? [] : ranks;
}

/** Two methods of one path that change it, for roles that have nothing in common: a note, for this may be meant. */
function findForeignRoles(detail: RouteDetail, before: readonly RouteDetail[], report: ReportFinding): void {
  const rolesOf = ({ route: { security } }: RouteDetail): readonly string[] =>
    security.flatMap(({ roles }) => roles);
  const own = rolesOf(detail);
  if (own.length === 0 || ranksOf(detail).length > 0) return;
  const other = before.find(
    (earlier) =>
      isWrite(earlier) && rolesOf(earlier).length > 0 && !rolesOf(earlier).some((role) => own.includes(role)),
  );
  if (other !== undefined)
    report(
      subjectOf(detail),
      `${other.route.method} of the same path asks for ${demandsOf(other)}, and this method for ${demandsOf(detail)}: no role may do both`,
      detail.route.place,
      {
        severity: 'info',
        remedy: 'Ask for one role on all methods of a path, or leave it where it is meant',
      },
    );
}

const CORNER = /^(?:admin|administration|internal|backoffice|manage|management|staff)$/i;

/** A route below `/admin` without a role, beside others that ask for one. */
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
      if (!isGuarded(detail) || isPublic(detail) || detail.route.security.some(isQualified)) continue;
      if (/\bme\b|profile|log-?out/.test(detail.route.template)) continue;
      report(
        subjectOf(detail),
        `${subjectOf(stricter)} asks for ${demandsOf(stricter)}, but this route below ${corner} accepts every authenticated client`,
        detail.route.place,
        { remedy: `Ask for a role on every route below ${corner}: new Router({ prefix, deps: { me: … } })` },
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

/** Words of paths and tags behind which clients show a secret, or get one. */
const SECRET_WORDS =
  /^(?:log-?in|log-?on|sign-?in|tokens?|passwords?|(?:password-reset|(?:reset|change)-password)|forgot(?:-password)?|otp|totp|2fa|mfa|magic-links?)$/i;

/** Words that are about a secret beside a word of an account: anything else can be reset and changed, too. */
const CHANGING_WORDS = /^(?:reset|change)$/i;
const ACCOUNT_WORDS =
  /^(?:auth|accounts?|users?|members?|me|profile|identity|credentials|passwords?|pins?|e?mail)$/i;
/** Words of paths where a secret is made and shown once. */
const ISSUING_WORDS =
  /^(?:auth|oauth2?|refresh|sessions?|(?:api|access|signing)-?keys?|[\w-]+-tokens?|credentials)$/i;

/** Whether a route's path or tags say that secrets are shown or given there. */
export function isAboutSecrets(detail: RouteDetail): boolean {
  const words = wordsOf(detail);
  return (
    words.some((word) => SECRET_WORDS.test(word)) ||
    (words.some((word) => CHANGING_WORDS.test(word)) && words.some((word) => ACCOUNT_WORDS.test(word)))
  );
}

/** Whether it answers what it has just made, such as a key or a pair of tokens. */
export function isIssuing(detail: RouteDetail): boolean {
  return isWrite(detail) && wordsOf(detail).some((word) => ISSUING_WORDS.test(word));
}

function wordsOf({ declared: { template, tags } }: RouteDetail): readonly string[] {
  return [...template.template.split('/').filter((segment) => !segment.includes('{')), ...tags];
}

/** SVC204 */
export function findGuessable(view: ApplicationView, report: ReportFinding): void {
  for (const detail of ownRoutes(view)) {
    const { route, declared } = detail;
    if (!isWrite(detail) || isGuarded(detail) || !isAboutSecrets(detail) || route.meta['rateLimit'] === 'own')
      continue;
    const isLimited =
      route.rateLimit !== false && layersOf(view, declared).some((layer) => layer.kind === 'rate-limit');
    if (!isLimited)
      report(
        subjectOf(detail),
        route.rateLimit === false
          ? 'passwords, codes or tokens can be tried here without limit: its rateLimit is false'
          : 'passwords, codes or tokens can be tried here without limit: no rate limit is in force',
        route.place,
      );
  }
}
