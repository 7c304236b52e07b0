/**
 * Rules about who may do what: writes that nobody guards, guards that contradict each other, and places where secrets can be
 * tried as often as somebody likes.
 */
import { CORSMiddleware } from '../http/middleware/cors.ts';
import { UNKNOWN_ORIGIN } from '../http/origins.ts';
import { CSRFMiddleware } from '../http/session/csrf.ts';
import { isGuarded, isPublic, isWrite, layersOf, ownRoutes, shapeOf, subjectOf } from './check.ts';
import type { ApplicationView, ReportFinding } from './check.ts';
import type { RouteDetail } from '../routing/compile.ts';

/** SVC201 */
export function findUnguarded(view: ApplicationView, report: ReportFinding): void {
  for (const detail of ownRoutes(view)) {
    if (isWrite(detail) && !isGuarded(detail) && !isPublic(detail)) {
      report(
        subjectOf(detail),
        detail.route.security.length === 0
          ? 'it changes something, and nobody asks who sends it'
          : 'it changes something, and lets everybody through who brings no credential',
        detail.route.place,
      );
    }
  }
}

/** SVC206: a function for origins that compares a part of them. One that allows every origin is found while it is compiled. */
export function findStrangers(view: ApplicationView, report: ReportFinding): void {
  const layers = new Map(view.middleware.map((layer) => [layer, view.placeOfMiddleware(layer)]));
  for (const { declared, route } of ownRoutes(view))
    for (const layer of declared.use) layers.set(layer, route.place);
  for (const [layer, place] of layers) {
    if (!(layer instanceof CORSMiddleware) || !layer.allowsCredentials) continue;
    const { stranger } = layer.allowed;
    if (stranger !== undefined && stranger !== UNKNOWN_ORIGIN)
      report(
        'middleware cors',
        `its function allows ${stranger}, which may belong to another owner, to call with the cookies of its visitors`,
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
      const stricter = inOrder.slice(0, index).find((other) => asksForMore(other, detail));
      if (stricter === undefined) return;
      const lacks = !isGuarded(detail) ? 'asks for nothing' : 'takes anybody who is known';
      report(
        subjectOf(detail),
        `${stricter.route.method} of the same path asks for ${demandsOf(stricter)}, and this, which changes more, ${lacks}`,
        detail.route.place,
      );
    });
  }
}

/** Where nobody guards it at all and nobody has said so, SVC201 tells. */
function asksForMore(other: RouteDetail, detail: RouteDetail): boolean {
  const [theirs, own] = [other.route.security, detail.route.security];
  if (!isGuarded(detail)) return isGuarded(other) && isPublic(detail);
  const isQualified = ({ roles, scopes }: (typeof own)[number]): boolean => roles.length + scopes.length > 0;
  const counts = isWrite(other) || detail.route.method === 'DELETE';
  return counts && theirs.some(isQualified) && !own.some(isQualified);
}

function demandsOf({ route: { security } }: RouteDetail): string {
  const named = security.flatMap(({ roles, scopes }) => [
    ...roles.map((role) => `the role "${role}"`),
    ...scopes.map((scope) => `the scope "${scope}"`),
  ]);
  return named.length === 0 ? 'a credential' : named.join(', ');
}

/** Words of paths and tags behind which somebody shows a secret, or gets one. */
const SECRET_WORDS =
  /^(?:log-?in|log-?on|sign-?in|tokens?|passwords?|(?:password-reset|(?:reset|change)-password)|forgot(?:-password)?|otp|totp|2fa|mfa|magic-links?)$/i;

/** What is about a secret beside a word of somebody's account: anything else can be reset and changed, too. */
const CHANGING_WORDS = /^(?:reset|change)$/i;
const ACCOUNT_WORDS =
  /^(?:auth|accounts?|users?|members?|me|profile|identity|credentials|passwords?|pins?|e?mail)$/i;
/** Where a secret is made and shown, once, to whoever asks for it. */
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
          ? 'secrets can be tried here without any limit: its rateLimit is false'
          : 'secrets can be tried here as often as somebody likes: no rate limit is in force',
        route.place,
      );
  }
}
