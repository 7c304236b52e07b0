/** Marks of values that rules of access follow: the principal, and results of the database. */
import type { Made } from './text.ts';

/** Mark of the client that a guard has authenticated, and of its claims. */
export const PRINCIPAL = 'principal';
/** Mark of rows that a statement selects by the principal. */
export const OWN_ROW = 'row of the principal';
/** Mark of the result of a change of rows that a statement selects by the principal. */
export const OWN_CHANGE = 'change of the principal';
/** Mark of a result of the database. */
export const ROW = 'database row';
/** Mark of a number that arithmetic made of a result of the database. */
export const COMPUTED = 'computed row';

/** Marks of numbers that count milliseconds or seconds, because code multiplies or divides by a thousand. */
export const MILLISECONDS = 'milliseconds';
export const SECONDS = 'seconds';

/** Mark of a setting that has a text of the sources if no variable sets it. */
export const FALLBACK = 'fallback';

/** Types of the results of guards of this package. */
export const GUARDS: RegExp =
  /^svc\.(?:BearerAuth|IssuerAuth|APIKeyAuth|requireRoles|requireScopes|requireIf|requireSession)$/;

/** Whether a mark says that a value belongs to the client that a guard has authenticated. */
export function isOfPrincipal({ by }: Made): boolean {
  return by === PRINCIPAL || by === OWN_ROW || by === OWN_CHANGE;
}

/** Whether a call returns a value that belongs to the client: an entry of its session. */
export function isPrincipal(meaning: string): boolean {
  return /^svc\.Session\.(?:get|require)$/.test(meaning);
}

/** Whether a mark says that a number is the time, in milliseconds. */
export function isClock(by: string): boolean {
  return /^(?:Date|Date\.now|svc\.Clock\.nowMs)$/.test(by);
}
