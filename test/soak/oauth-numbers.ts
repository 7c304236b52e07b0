/**
 * What is said of large numbers, counted once, whatever SOAK_SECONDS says (some 30 s).
 *
 *   node --conditions=svc-source test/soak/oauth-numbers.ts
 *
 * A million access tokens have a million ids. 100,000 logins begun from one address within a minute leave no row.
 */
import assert from 'node:assert/strict';
import { Svc, createLogger } from '../../src/index.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { TestClient } from '../../src/testing/index.ts';
import { AccessTokens } from '../../src/oauth/tokens/access.ts';
import { OAuthPlugin, githubProvider } from '../../src/oauth/index.ts';
import { DatabasePlugin, db } from '../../src/db/index.ts';
import { OAUTH_SECRET } from '../support/oauth-tokens.ts';

const MILLION = 1_000_000;
const STARTS = 100_000;
const clock = new ManualClock();

function manyIds(): void {
  const tokens = new AccessTokens({
    secrets: OAUTH_SECRET,
    ttlSeconds: 900,
    issuer: undefined,
    audience: undefined,
    scopes: [],
    isForCookies: false,
    isExact: false,
    clock,
    log: createLogger({ level: 'silent' }),
  });
  const user = { sub: 'ada', scopes: [], claims: {} };
  const ids = new Set<string>();
  for (let count = 0; count < MILLION; count++) {
    const [, payload] = tokens.make(user, 'login', clock.nowMicros()).split('.');
    ids.add((JSON.parse(Buffer.from(payload!, 'base64url').toString()) as { jti: string }).jti);
  }
  assert.equal(ids.size, MILLION);
  console.log(`${MILLION} access tokens, ${ids.size} ids`);
}

async function manyStarts(): Promise<void> {
  const app = new Svc({ authSecret: OAUTH_SECRET, env: 'test', logger: createLogger({ level: 'silent' }) });
  app
    .register(new DatabasePlugin('sqlite::memory:'))
    .register(new OAuthPlugin({ provider: githubProvider('id', 'secret'), onUser: () => 'ada' }));
  app.get('/states', async ({ req }) =>
    String(await req.state.get(db).scalar('select count(*) from svc_oauth_used')),
  );
  await using client = new TestClient(app, { clock });
  const answers = new Map<number, number>();
  for (let count = 0; count < STARTS; count++) {
    const { status } = await client.get('/oauth/login');
    answers.set(status, (answers.get(status) ?? 0) + 1);
  }
  const states = await (await client.get('/states')).text();
  assert.deepEqual(
    [states, [...answers]],
    [
      '0',
      [
        [302, 20],
        [429, STARTS - 20],
      ],
    ],
  );
  console.log(`${STARTS} logins begun from one address within a minute: ${states} states`);
}

manyIds();
await manyStarts();
console.log('ok');
