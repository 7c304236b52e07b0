/**
 * Two processes of one application that share Redis: states, codes and limits count for both.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { DevProvider } from 'svc/testing';
import { freePort } from '../support/own-server.ts';
import { forked } from '../support/oauth-races.ts';
import { RedisServer, needsRedis } from '../support/redis-server.ts';
import { folder } from '../support/run.ts';
import type { TestContext } from 'node:test';

const VERIFIER = 'v'.repeat(43);
const CLIENT = {
  client_redirect_uri: 'com.example.app:/done',
  code_challenge: createHash('sha256').update(VERIFIER).digest('base64url'),
  code_challenge_method: 'S256',
};

interface Pair {
  readonly urls: readonly [string, string];
  readonly dev: DevProvider;
  readonly redis: RedisServer;
}

async function pair(t: TestContext, loginsPerMinute: number): Promise<Pair> {
  const redis = await RedisServer.start(t);
  const port = await freePort();
  const database = `sqlite:${join(folder(t), 'data.db')}`;
  const urls: string[] = [];
  for (let index = 0; index < 2; index++) {
    const { said } = await forked(t, 'oauth-redis-site.ts', [
      redis.url,
      database,
      `http://127.0.0.1:${port}`,
      String(loginsPerMinute),
    ]);
    urls.push(String(said));
  }
  const redirectUris = urls.map((url) => `${url}/oauth/callback`);
  const dev = new DevProvider({ env: 'test', port, redirectUris });
  await dev.start();
  t.after(() => dev.stop());
  return { urls: urls as [string, string], dev, redis };
}

/** A login that has returned from the provider: query of the callback, and cookie of the browser. */
interface Answered {
  readonly query: string;
  readonly cookie: string;
}

async function answered({ urls: [url], dev }: Pair, query: Record<string, string> = {}): Promise<Answered> {
  const begun = await fetch(`${url}/oauth/login?${new URLSearchParams(query)}`, { redirect: 'manual' });
  assert.equal(begun.status, 302, await begun.text());
  const callback = await dev.pick(begun.headers.get('location')!, 'ada');
  return { query: new URL(callback).search, cookie: begun.headers.getSetCookie()[0]!.split(';', 1)[0]! };
}

const finish = (url: string, { query, cookie }: Answered): Promise<Response> =>
  fetch(`${url}/oauth/callback${query}`, { headers: { cookie }, redirect: 'manual' });

const exchange = (url: string, code: string): Promise<Response> =>
  fetch(`${url}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      code_verifier: VERIFIER,
      client_redirect_uri: CLIENT.client_redirect_uri,
    }),
  });

const errorOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { error: string }).error;

test('OAuth with Redis: a login that starts at one process can be finished at another process, and its state cannot be used again at either', async (t) => {
  if (!needsRedis(t)) return;
  const site = await pair(t, 1_000);
  const [one, two] = site.urls;
  const login = await answered(site);
  assert.equal((await finish(two, login)).status, 200);
  for (const url of [one, two]) assert.equal(await errorOf(await finish(url, login)), 'invalid_state');
  for (let round = 0; round < 10; round++) {
    const raced = await answered(site);
    const statuses = await Promise.all(
      [one, two, one, two].map(async (url) => (await finish(url, raced)).status),
    );
    assert.deepEqual(statuses.toSorted(), [200, 400, 400, 400]);
  }
});

test('OAuth with Redis: if a native client sends its code to both processes, the code is exchanged for tokens once, and the login lives', async (t) => {
  if (!needsRedis(t)) return;
  const site = await pair(t, 1_000);
  for (let round = 0; round < 10; round++) {
    const back = await finish(site.urls[0], await answered(site, CLIENT));
    const code = new URL(back.headers.get('location')!).searchParams.get('code')!;
    const [one, two] = site.urls;
    const answers = await Promise.all([one, two, one, two].map((url) => exchange(url, code)));
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 400, 400, 400]);
    for (const url of [one, two]) assert.equal(await errorOf(await exchange(url, code)), 'invalid_grant');
    const tokens = (await answers.find(({ status }) => status === 200)!.json()) as { refresh_token: string };
    const body = new URLSearchParams({ refresh_token: tokens.refresh_token });
    assert.equal((await fetch(`${two}/oauth/token`, { method: 'POST', body })).status, 200);
  }
});

test('OAuth with Redis: both processes count logins towards the same limit', async (t) => {
  if (!needsRedis(t)) return;
  const { urls } = await pair(t, 6);
  const statuses = await Promise.all(
    Array.from({ length: 30 }, async (_, index) => {
      const response = await fetch(`${urls[index % 2]!}/oauth/login`, { redirect: 'manual' });
      return response.status;
    }),
  );
  const allowed = statuses.filter((status) => status === 302).length;
  assert.ok(allowed >= 6 && allowed <= 7, `${allowed} of a limit of 6 were allowed`);
  assert.ok(statuses.every((status) => status === 302 || status === 429));
});

test('OAuth with Redis: a callback gets a 503 while Redis is down, and succeeds with the same state when Redis is back', async (t) => {
  if (!needsRedis(t)) return;
  const site = await pair(t, 1_000);
  const login = await answered(site);
  await site.redis.kill();
  const refused = await finish(site.urls[1], login);
  assert.deepEqual([refused.status, await errorOf(refused)], [503, 'temporarily_unavailable']);
  await site.redis.start();
  let response = await finish(site.urls[1], login);
  while (response.status === 503) response = await finish(site.urls[1], login); // repeats the callback until Redis is connected again
  assert.equal(response.status, 200);
});
