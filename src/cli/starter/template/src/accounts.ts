/** Accounts at identity providers. Each account belongs to one person. */
import { randomUUID } from 'node:crypto';
import { str } from 'svc';
import type { Database } from 'svc/db';

/**
 * Returns the person to whom an account belongs. A new account gets `person`. If two requests insert an
 * account at the same time, the first insert is kept.
 */
export async function personOf(
  db: Database,
  provider: string,
  subject: string,
  person: string = randomUUID(),
): Promise<string | undefined> {
  const insert = 'insert into account (provider, subject, person) values (?, ?, ?) on conflict do nothing';
  await db.execute(insert, [provider, subject, person]);
  const select = 'select person from account where provider = ? and subject = ?';
  return db.scalar(select, [provider, subject], { as: str });
}

export async function providersOf(db: Pick<Database, 'fetchAll'>, person: string): Promise<string[]> {
  const select = 'select provider from account where person = ?';
  return (await db.fetchAll(select, [person])).map(({ provider }) => String(provider));
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
