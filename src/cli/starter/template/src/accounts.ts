/** Accounts at identity providers. Each account belongs to one person. */
import { randomUUID } from 'node:crypto';
import { Field, Schema, str } from 'svc';
import type { Database } from 'svc/db';
import type { UserInfo } from 'svc/oauth';

export class Account extends Schema {
  provider = Field(str);
  name = Field(str);
}

/**
 * Returns the person to whom an account belongs, and stores its name of today. A new account gets `person`. If
 * two requests insert an account at the same time, the first insert is kept.
 */
export function personOf(
  db: Database,
  provider: string,
  { subject, name }: UserInfo,
  person: string = randomUUID(),
): Promise<string | undefined> {
  const upsert = `insert into account (provider, subject, person, name) values (?, ?, ?, ?)
    on conflict (provider, subject) do update set name = excluded.name returning person`;
  return db.scalar(upsert, [provider, subject, person, name ?? subject], { as: str });
}

export function accountsOf(db: Database, person: string): Promise<Account[]> {
  const select = 'select provider, name from account where person = ? order by provider';
  return db.fetchAll(select, [person], { as: Account });
}

/**
 * Unlinks an account, or all at a provider, but never the last way to log in. Concurrent calls are retried.
 */
export function unlink(db: Database, person: string, provider: string, subject?: string): Promise<boolean> {
  const other =
    'select 1 from account where person = ? and not (provider = ? and subject = coalesce(?, subject))';
  const remove = 'delete from account where person = ? and provider = ? and subject = coalesce(?, subject)';
  const chosen = [person, provider, subject ?? null];
  return db.transaction(
    async (tx) =>
      (await tx.scalar(other, chosen)) !== undefined && (await tx.execute(remove, chosen)).affectedRows > 0,
    { isolation: 'serializable', retries: 5 },
  );
}
