/** Input from outside in the log, in metrics and documents, and requests with ambiguous lengths. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc, createLogger } from 'svc';
import { OAuthPlugin } from 'svc/oauth';
import { TestClient } from 'svc/testing';
import { FakeProvider } from './support/fake-provider.ts';
import { RawClient } from '../support/raw-http.ts';
import { LoginSite, SECRET, fakeProvider } from './support/site.ts';

const EVIL = `a\r\nb\u2028{"event":"login_succeeded"}\u001b[31m\u202e`;
const LONG = 'x'.repeat(1_000_000);

test('OAuth: a text from the provider, the browser or a hook is logged as one escaped line of limited length', async () => {
  await using fake = await FakeProvider.start();
  const lines: string[] = [];
  const logger = createLogger({ level: 'debug', format: 'json', sink: (line) => void lines.push(line) });
  const app = new Svc({ authSecret: SECRET, env: 'test', logger }).register(
    new OAuthPlugin({
      provider: fakeProvider(fake),
      onUser: (_provider, { subject }) => {
        throw new Error(`${EVIL} ${LONG} ${subject}`);
      },
      limits: { login: false, callback: false },
    }),
  );
  await using client = new TestClient(app, { raiseErrors: false });
  const callback = async (query: Record<string, string>): Promise<number> => {
    const state = new URL(
      (
        await client.get('/oauth/login', { headers: { 'user-agent': `\u001b[31m${'u'.repeat(5_000)}` } })
      ).headers.get('location')!,
    ).searchParams.get('state')!;
    return (await client.get('/oauth/callback', { query: { state, ...query } })).status;
  };
  assert.equal(await callback({ error: EVIL }), 502);
  assert.equal(await callback({ error: 'y'.repeat(60_000) }), 502);
  fake.failNext('token', { body: { error: EVIL + LONG.slice(0, 900_000) } });
  assert.equal(await callback({ code: 'c' }), 502);
  assert.equal(await callback({ code: EVIL }), 500, 'the hook');
  await client.get('/oauth/callback', { query: { state: EVIL, code: 'c' } });
  for (const form of [{ refresh_token: EVIL }, { token: `${EVIL}svcrt_` }])
    for (const path of ['/oauth/token', '/oauth/revoke']) await client.post(path, { form });
  assert.ok(lines.length > 10);
  for (const line of lines) {
    assert.doesNotMatch(line, /[\p{Cc}\u2028\u2029\u202a-\u202e]/u);
    assert.ok(line.length < 20_000, `${line.length} characters: ${line.slice(0, 200)}`);
    assert.notEqual((JSON.parse(line) as { event: string }).event, 'login_succeeded');
  }
});

test('OAuth: metrics, health probes, the API reference and the OpenAPI document contain neither secrets nor settings', async () => {
  await using site = await LoginSite.open({
    plugin: {
      issuer: 'https://issuer-of-ours.example',
      audience: 'audience-of-ours',
      allowedRedirectUris: ['http://127.0.0.1:8000/oauth/callback'],
    },
    app: { title: 'shop' },
  });
  await site.begin();
  for (const path of ['/metrics', '/docs', '/openapi.json', '/healthz', '/readyz']) {
    const text = await (await site.client.get(path)).text();
    for (const setting of [
      SECRET,
      'client-secret-9f2c',
      'issuer-of-ours',
      'audience-of-ours',
      '127.0.0.1:8000',
      site.fake.url,
    ])
      assert.ok(!text.includes(setting), `${path} shows ${setting}`);
  }
  assert.match(await site.metrics(), /svc_oauth_/);
});

test('OAuth: the server refuses a request with an ambiguous body length before OAuthPlugin handles it', async (t) => {
  await using site = await LoginSite.open();
  const { refresh_token: token } = await site.login();
  const server = await site.app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const form = `refresh_token=${token}`;
  const head =
    'POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n';
  for (const request of [
    `${head}Content-Length: ${form.length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${form}`,
    `${head}Transfer-Encoding: chunked\r\nContent-Length: ${form.length}\r\n\r\n${form}`,
    `${head}Content-Length: ${form.length}\r\nContent-Length: 5\r\n\r\n${form}`,
    `${head}Content-Length: ${form.length}\r\nContent-Length: ${form.length}\r\n\r\n${form}`,
    `${head}Content-Length: ${form.length}, ${form.length}\r\n\r\n${form}`,
    `${head}Transfer-Encoding: chunked, identity\r\n\r\n${form}`,
    `${head}Content-Length : ${form.length}\r\n\r\n${form}`,
    `${head.replaceAll('\r\n', '\n')}Content-Length: ${form.length}\n\n${form}`,
  ]) {
    await using raw = await RawClient.open(Number(new URL(server.url).port));
    assert.equal((await raw.send(request).answer()).status, 400, JSON.stringify(request.slice(100)));
  }
  await server.close();
  assert.deepEqual(site.audited('token_refreshed'), []);
});
