/**
 * Runs the test files named below again, with every login, state and refresh token in PostgreSQL.
 */
import { after, test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { DatabasePlugin } from '../../src/db/index.ts';
import { postgresUrl } from '../support/postgres-database.ts';
import { postgresProblem } from '../support/postgres-server.ts';
import { Ends } from '../support/run.ts';
import { LoginSite } from './support/site.ts';

const problem = postgresProblem();
if (problem !== undefined)
  test(
    'OAuthPlugin with PostgreSQL as its token store can log a user in, refresh tokens and revoke tokens',
    { skip: problem },
    () => undefined,
  );
else {
  LoginSite.databases = async () => {
    const scope = new Ends();
    const url = await postgresUrl(scope);
    return {
      // the clock of the tests differs from that of the database server
      plugin: new DatabasePlugin(url, { clock: systemClock, migrations: 'apply', pool: { max: 5 } }),
      end: () => scope[Symbol.asyncDispose](),
    };
  };
  after(() => {
    LoginSite.databases = undefined;
  });
  for (const file of [
    'callback',
    'cookie-mode',
    'defects',
    'tokens/dpop',
    'login',
    'plugin',
    'token-endpoint',
  ])
    await import(`./${file}.test.ts`);
}
