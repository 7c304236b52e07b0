/**
 * Accounts at identity providers. Each account belongs to one person.
 */
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
 * Unlinks an account, unless it is the last way to log in. If two calls run at the same time, one of them is
 * retried.
 */
export function unlink(db: Database, person: string, provider: string): Promise<boolean> {
  return db.transaction(
    async (tx) => {
      if ((await providersOf(tx, person)).every((each) => each === provider)) return false;
      await tx.execute('delete from account where person = ? and provider = ?', [person, provider]);
      return true;
    },
    { isolation: 'serializable', retries: 5 },
  );
}
