/**
 * Turns the violation of a database constraint into an HTTP error response, in one handler or in all
 * handlers:
 *   await db.execute('insert into account …').catch(conflictOn({ email: 'This address is taken' }));
 *   app.exceptionHandler(ConstraintViolation, conflictOn());
 *
 * The error response has the text of the rule for this constraint, or a general text. It never contains SQL,
 * values, or names of tables, columns and constraints.
 */
import { Conflict, UnprocessableContent, type HTTPException } from '../base/errors.ts';
import { throwing } from '../http/pipeline.ts';
import { ConstraintViolation, type ConstraintKind } from './errors.ts';

/** Error response for a constraint violation. */
export interface ConflictRule {
  /** Text for the client. It becomes the member `detail` of the error response. */
  readonly detail: string;
  /** Status of the response. Default: 409 or 422, depending on the violation, see {@link conflictOn}. */
  readonly status?: 409 | 422 | undefined;
  /**
   * Path of the rejected value in the request body, for example `email` or `['home', 'city']`. The response
   * lists the path in its member `errors`, as it does after a failed validation: it begins with `body`, or
   * with `form` on a route with `form`.
   */
  readonly field?: string | readonly (string | number)[] | undefined;
}

/**
 * Error responses for constraint violations. A property name is a column (`email`), several columns in order
 * (`owner, title`), or a constraint (`account_email_key`). A table may precede it: `account.email`.
 */
export type ConflictRules = Readonly<Record<string, string | ConflictRule>>;

const GENERAL_DETAILS: Readonly<Record<ConstraintKind, string>> = {
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
 * A violation of a `unique` or `exclude` constraint gives 409 Conflict. So does the `delete` of a row to
 * which other rows refer. All other violations give 422 Unprocessable Content. The member `code` of the
 * response is the kind of the violation, for example `unique`.
 *
 * Without rules, each violation gets a general text. With rules, a violation that matches no rule is thrown
 * unchanged.
 */
export function conflictOn(rules?: ConflictRules): (error: unknown) => never {
  return throwing((error: unknown): never => {
    if (!(error instanceof ConstraintViolation)) throw error;
    const rule = rules === undefined ? undefined : ruleOf(rules, error);
    if (rules !== undefined && rule === undefined) throw error;
    throw exceptionOf(error, typeof rule === 'string' ? { detail: rule } : rule);
  });
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
  const detail = rule?.detail ?? (isReferenced ? STILL_REFERENCED : GENERAL_DETAILS[error.kind]);
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
