/** Marks of values that rules of access follow: the principal, and answers of the database. */

/** Mark of the client that a guard has authenticated, of its claims, and of rows that a statement selects by them. */
export const PRINCIPAL = 'principal';
/** Mark of an answer of the database. */
export const ROW = 'database row';
/** Mark of a number that arithmetic made of an answer of the database. */
export const COMPUTED = 'computed row';

/** Types of the results of guards of this package. */
export const GUARDS: RegExp =
  /^svc\.(?:BearerAuth|APIKeyAuth|requireRoles|requireScopes|requireIf|requireSession)$/;

/** Whether a call returns a value that belongs to the client: an entry of its session. */
export function isPrincipal(meaning: string): boolean {
  return /^svc\.Session\.(?:get|require)$/.test(meaning);
}
