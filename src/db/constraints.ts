/**
 * Turns constraint violations into HTTP error responses.
 *
 *   await db.execute('insert into account …').catch(conflictOn({ email: 'This address is taken' }));      in a handler
 *   app.exceptionHandler(ConstraintViolation, conflictOn());                                               for all handlers
 *
 * The response contains the text of the matching rule, or a general text. Names of tables, columns and
 * constraints, statements and values never leave the server.
 */
import { Conflict, UnprocessableContent, type HTTPException } from '../base/errors.ts';
import { ConstraintViolation, type ConstraintKind } from './errors.ts';

/** How a client is informed of one kind of constraint violation. */
export interface ConflictRule {
  /** Text for the client, sent as the problem's `detail`. */
  readonly detail: string;
  /** Status of the response. Default 409 or 422: see {@link conflictOn}. */
  readonly status?: 409 | 422 | undefined;
  /**
   * Path of the rejected value in the request body, for example `email` or `['home', 'city']`. The response
   * lists this path in the member `errors`, like the path of a value that does not match its schema.
   */
  readonly field?: string | readonly (string | number)[] | undefined;
}

/**
 * Rules for violations. The key of a rule is the violated column (`email`), the columns of the violated key
 * in order (`owner, title`), or the name of the constraint (`account_email_key`). Each key may start with a
 * table and a dot (`account.email`).
 */
export type ConflictRules = Readonly<Record<string, string | ConflictRule>>;

/** General texts for clients, by the kind of the violation. conflictOn() without rules uses them. */
const DETAILS: Readonly<Record<ConstraintKind, string>> = {
  unique: 'There is such an entry already',
  exclusion: 'The entry collides with another one',
  foreign_key: 'The entry refers to something that does not exist',
  not_null: 'A required value is missing',
  check: 'A value breaks a rule',
  constraint: 'The entry breaks a rule',
};
const STILL_REFERENCED = 'Other entries still refer to this one';

/**
 * Returns an error handler that throws a constraint violation as `Conflict` or `UnprocessableContent`, and
 * any other error unchanged. Pass it to `catch()` or to `app.exceptionHandler()`.
 *
 * `unique`, `exclusion`, and a `delete` of a row that other rows refer to give 409 Conflict. All other kinds
 * give 422 Unprocessable Content. The problem's `code` is the kind of the violation. When rules are given, a
 * violation without a matching rule is thrown unchanged. Without rules, each violation gets a general
 * response.
 */
export function conflictOn(rules?: ConflictRules): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof ConstraintViolation)) throw error;
    const rule = rules === undefined ? undefined : ruleOf(rules, error);
    if (rules !== undefined && rule === undefined) throw error;
    throw exceptionOf(error, typeof rule === 'string' ? { detail: rule } : rule);
  };
}

function ruleOf(rules: ConflictRules, error: ConstraintViolation): string | ConflictRule | undefined {
  const { columns, constraint, table } = error;
  const names = [columns.length > 0 ? columns.join(', ') : undefined, constraint].filter(
    (name) => name !== undefined,
  );
  const keys = [...(table === undefined ? [] : names.map((name) => `${table}.${name}`)), ...names];
  const key = keys.find((name) => Object.hasOwn(rules, name));
  return key === undefined ? undefined : rules[key];
}

function exceptionOf(error: ConstraintViolation, rule: ConflictRule | undefined): HTTPException {
  const isReferenced = error.kind === 'foreign_key' && /^\s*delete\b/i.test(error.sql ?? '');
  const isConflict = isReferenced || error.kind === 'unique' || error.kind === 'exclusion';
  const detail = rule?.detail ?? (isReferenced ? STILL_REFERENCED : DETAILS[error.kind]);
  const field = rule?.field;
  const Class = (rule?.status ?? (isConflict ? 409 : 422)) === 409 ? Conflict : UnprocessableContent;
  return new Class(detail, {
    code: error.kind,
    cause: error,
    ...(field === undefined
      ? {}
      : { issues: [{ loc: ['body', ...[field].flat()], code: error.kind, message: detail }] }),
  });
}
