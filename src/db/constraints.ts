/**
 * Constraint violations as answers of the application.
 *
 *   await db.execute('insert into account …').catch(conflictOn({ email: 'This address is taken' }));      in a handler
 *   app.exceptionHandler(ConstraintViolation, conflictOn());                                               for all handlers
 *
 * Clients read the sentences of the rules, or a general one. Names of tables, columns and constraints, statements and values never
 * leave the server.
 */
import { Conflict, UnprocessableContent, type HTTPException } from '../base/errors.ts';
import { ConstraintViolation, type ConstraintKind } from './errors.ts';

/** The answer to one violation. */
export interface ConflictRule {
  /** The sentence that the client reads. */
  readonly detail: string;
  /** Default 409 or 422: see {@link conflictOn}. */
  readonly status?: 409 | 422 | undefined;
  /** Where the body has the value, for example `email` or `['home', 'city']`: sent in `errors`, as for input that fails its schema. */
  readonly field?: string | readonly (string | number)[] | undefined;
}

/**
 * Answers by what was violated: a column (`email`), columns in the order of their key (`owner, title`), a constraint
 * (`account_email_key`), or either behind its table and a dot (`account.email`).
 */
export type ConflictRules = Readonly<Record<string, string | ConflictRule>>;

/** Sentences for clients where no rule says more. */
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
 * Returns a function that turns a constraint violation into `Conflict` or `UnprocessableContent`, and throws every other error as it is. Pass it to `catch()`, or to
 * `app.exceptionHandler()`.
 *
 * 409 Conflict: `unique`, `exclusion`, and a `delete` of a row that others refer to. 422 Unprocessable Content: all others. The problem's `code`
 * is the kind of the violation. With rules, a violation that has none is thrown as it is; without rules, each becomes a general answer.
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
