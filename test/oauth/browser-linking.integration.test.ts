/**
 * Chromium links a second account, logs in with both, unlinks, and logs out at the provider, with two DevProviders on their own sites.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { HTMLResponse, SecurityHeadersMiddleware, SessionMiddleware, Svc } from 'svc';
import { OAuthPlugin, currentUser } from 'svc/oauth';
import { DevProvider } from '../../src/oauth/dev-provider/dev-provider.ts';
import { collectedLog } from '../support/collected-log.ts';
import { Chromium, chromiumProgram, needsChromium } from '../support/chromium.ts';
import { LateServer } from './support/late-server.ts';
import { SECRET } from './support/site.ts';
import type { HttpRequest } from 'svc';
import type { OAuthProvider } from 'svc/oauth';

const chromium = chromiumProgram() === undefined ? undefined : await Chromium.start({ after });
const NAMES = ['one', 'two'] as const;

/** A provider on its own site that has sessions. */
interface Provider {
  readonly late: LateServer;
  readonly provider: OAuthProvider;
  /** Starts to serve the provider for an application at this address. */
  begin(appUrl: string, callback: string): void;
  readonly ended: string[];
}

async function providerOf(name: string, stack: AsyncDisposableStack): Promise<Provider> {
  const late = stack.use(await LateServer.start());
  const options = { env: 'test', issuer: late.url } as const;
  const ended: string[] = [];
  return {
    late,
    ended,
    provider: new DevProvider({ ...options, redirectUris: ['http://unused.example/'] }).provider({
      name,
      endSessionUrl: `${late.url}/end`,
    }),
    begin(appUrl, callback) {
      const dev = new DevProvider({ ...options, redirectUris: [appUrl + callback] });
      late.answerWith(async (request, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        const [path, query = ''] = request.url!.split('?', 2) as [string, string?];
        if (path === '/end') {
          ended.push(query);
          return void response
            .writeHead(200, { 'content-type': 'text/html' })
            .end('<!doctype html><p>You have left the provider</p>');
        }
        const { status, headers, body } = await dev.handle({
          method: request.method!,
          path,
          query,
          headers: request.headers as Record<string, string>,
          body: Buffer.concat(chunks).toString(),
        });
        return void response.writeHead(status, headers).end(body);
      });
    },
  };
}

test('A person links a second account, logs in with each of the two accounts, unlinks one account, and logs out at the provider', async (t) => {
  if (!needsChromium(t) || chromium === undefined) return;
  await using stack = new AsyncDisposableStack();
  const [one, two] = [await providerOf('one', stack), await providerOf('two', stack)];
  const users = new Map<string, string>();
  const app = new Svc({ authSecret: SECRET, logger: collectedLog().logger, env: 'development' });
  // its policy form-action 'self' also applies to the redirects of forms
  app.use(new SecurityHeadersMiddleware()).use(new SessionMiddleware());
  app.register(
    new OAuthPlugin({
      providers: [one.provider, two.provider],
      mode: 'cookie',
      onUser: (provider, { subject }) => {
        const key = `${provider} ${subject}`;
        if (!users.has(key)) users.set(key, `user-${subject}`);
        return users.get(key);
      },
      onLink: (sub, provider, { subject }) => {
        users.set(`${provider} ${subject}`, sub);
      },
      onUnlink: (sub, provider) => {
        const own = [...users].filter(([, user]) => user === sub).map(([key]) => key);
        if (own.every((key) => key.startsWith(`${provider} `))) return false;
        for (const key of own) if (key.startsWith(`${provider} `)) users.delete(key);
        return true;
      },
      postLogoutRedirectUris: ['http://localhost/goodbye'],
      storeProviderTokens: true,
    }),
  );
  const page = ({ req }: { readonly req: HttpRequest }): HTMLResponse =>
    new HTMLResponse(`<!doctype html><title>App</title><p>${req.session.get(currentUser) ?? 'nobody'} is logged in</p>
${NAMES.map((name) => `<a id="login-${name}" href="/oauth/${name}/login">Log in</a><form method="post" action="/oauth/${name}/link"><button id="link-${name}">Link</button></form>`).join('')}
<form method="post" action="/oauth/logout"><button id="logout">Log out</button></form>`);
  app.get('/', {}, page);
  app.get('/favicon.ico', {}, () => undefined);
  const server = stack.adopt(await app.run({ port: 0, handleSignals: false }), (running) => running.close());
  const url = server.url.replace('127.0.0.1', 'localhost');
  one.begin(url, '/oauth/callback');
  two.begin(url, '/oauth/two/callback');

  const ada = await chromium.visitor();
  await ada.open(url);
  await ada.click('#login-one', one.late.url);
  await ada.click('button[value="ada"]', url);
  assert.match(await ada.text(), /user-ada is logged in/);
  await ada.click('#link-two', two.late.url);
  await ada.click('button[value="alan"]', url);
  assert.equal(users.get('two alan'), 'user-ada');
  assert.match(await ada.text(), /user-ada is logged in/, 'nothing else has changed');

  const other = await chromium.visitor();
  await other.open(url);
  await other.click('#login-two', two.late.url);
  await other.click('button[value="alan"]', url);
  assert.match(await other.text(), /user-ada is logged in/, 'by the other account');

  const post = (path: string): Promise<number> =>
    ada.run(`fetch(${JSON.stringify(path)}, { method: 'POST' }).then((answer) => answer.status)`);
  assert.deepEqual([await post('/oauth/two/unlink'), await post('/oauth/one/unlink')], [204, 409]);
  assert.equal(
    await other.run("fetch('/oauth/token', { method: 'POST' }).then((answer) => answer.status)"),
    400,
    'the login by the account that was unlinked has ended',
  );

  await ada.open(url);
  await ada.click('#logout', one.late.url);
  assert.match(await ada.text(), /You have left the provider/);
  const query = new URLSearchParams(one.ended[0]);
  assert.equal(query.get('post_logout_redirect_uri'), 'http://localhost/goodbye');
  assert.match(query.get('id_token_hint')!, /^[\w-]+\.[\w-]+\.[\w-]+$/);
  await ada.open(url);
  assert.match(await ada.text(), /nobody is logged in/);
  assert.ok(!ada.complaints.some((text) => text.includes('form-action')), 'no policy was in the way');
  const away = ada.requests.filter(
    ({ url: at }) => at.startsWith(two.late.url) || at.startsWith(`${one.late.url}/end`),
  );
  assert.ok(
    away.length > 0 && away.every(({ headers }) => !(headers['Referer'] ?? '').startsWith(url)),
    'no Referer',
  );
  const foreign = await chromium.visitor();
  await foreign.open(url);
  await foreign.click('#login-one', one.late.url);
  await foreign.click('button[value="ada"]', url);
  await foreign.open(
    `data:text/html,<form method="post" action="${url}/oauth/two/link"><button>x</button></form>`,
  );
  await foreign.click('button', url);
  assert.match(await foreign.text(), /another origin|not sent by a page of this application/);
});
