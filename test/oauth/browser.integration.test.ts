/**
 * Chromium logs in, refreshes and logs out at an application in development, through the pages of DevProvider.
 *
 * The application is at localhost and the provider at 127.0.0.1: two sites for a browser. SCREENSHOTS names a folder for
 * pictures of the pages.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import {
  BearerAuth,
  CSRFMiddleware,
  Depends,
  HTMLResponse,
  HttpResponse,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  Svc,
  csrfToken,
} from 'svc';
import { OAuthPlugin, currentUser } from 'svc/oauth';
import { DevProvider } from '../../src/oauth/dev-provider/dev-provider.ts';
import { collectedLog } from '../support/collected-log.ts';
import { Chromium, chromiumProgram, needsChromium } from '../support/chromium.ts';
import { LateServer } from './support/late-server.ts';
import { SECRET, claimsOf } from './support/site.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import type { HttpRequest, RunningServer } from 'svc';
import type { OAuthPluginOptions } from 'svc/oauth';
import type { Page } from '../support/chromium.ts';
import type { Tokens } from './support/site.ts';

/** Script of the page: a function for each button. */
const SCRIPT = `
const ask = (path) => fetch(path, { method: 'POST', headers: { 'X-CSRF-Token': document.querySelector('meta[name=csrf]').content } });
document.querySelector('#refresh').addEventListener('click', async () => {
  const answer = await ask('/oauth/token');
  location.assign('/refreshed#' + encodeURIComponent(answer.status + ' ' + await answer.text())); // kept beyond the page, which may go before anybody has looked
});
document.querySelector('#logout').addEventListener('click', async () => {
  await ask('/oauth/revoke');
  location.assign('/bye');
});
`;

interface SiteOptions {
  readonly plugin?: Partial<OAuthPluginOptions>;
  /** Response mode of the provider. Default: a redirect. */
  readonly responseMode?: 'query' | 'form_post';
  /** Exempt paths of the CSRF middleware. Default: the callback, which the state protects. undefined: no CSRF middleware. */
  readonly exempt?: readonly string[] | undefined;
}

/** An application and its provider, for browsers. */
class Site implements AsyncDisposable {
  readonly url: string;
  readonly events: Record<string, unknown>[];
  readonly provider: string;
  readonly oauth: OAuthPlugin;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    server: RunningServer,
    stack: AsyncDisposableStack,
    parts: Pick<Site, 'events' | 'provider' | 'oauth'>,
  ) {
    this.url = server.url.replace('127.0.0.1', 'localhost');
    this.#stack = stack;
    this.events = parts.events;
    this.provider = parts.provider;
    this.oauth = parts.oauth;
  }

  static async open({ plugin = {}, responseMode = 'query', ...rest }: SiteOptions = {}): Promise<Site> {
    await using stack = new AsyncDisposableStack();
    const late = stack.use(await LateServer.start());
    const { logger, events } = collectedLog();
    const app = new Svc({ authSecret: SECRET, logger, env: 'development' });
    const exempt = 'exempt' in rest ? rest.exempt : ['/oauth/callback'];
    app.use(new SecurityHeadersMiddleware()).use(new SessionMiddleware());
    if (exempt !== undefined) app.use(new CSRFMiddleware({ exempt }));
    const stand = new DevProvider({
      env: 'test',
      redirectUris: ['http://unused.example/'],
      issuer: late.url,
    });
    const oauth = new OAuthPlugin({
      provider: stand.provider(),
      mode: 'cookie',
      onUser: (_provider, info) => `user-${info.subject}`,
      ...plugin,
    });
    app.register(oauth);
    app.get('/app.js', {}, () => new HttpResponse(SCRIPT, { mediaType: 'text/javascript' }));
    app.get('/favicon.ico', {}, () => undefined);
    app.get('/me', { claims: Depends(BearerAuth()) }, ({ claims }) => claims);
    const page = ({ req }: { readonly req: HttpRequest }): HTMLResponse =>
      new HTMLResponse(`<!doctype html><title>App</title><meta name="csrf" content="${exempt === undefined ? '' : csrfToken(req)}">
<p>${req.session.get(currentUser) ?? 'nobody'} is logged in</p><p><a id="login" href="/oauth/login?return_to=/notes">Log in</a></p>
<button id="refresh">Refresh</button><button id="logout">Log out</button><script src="/app.js" defer></script>`);
    for (const path of ['/', '/notes', '/refreshed', '/bye']) app.get(path, {}, page);
    const server = stack.adopt(await app.run({ port: 0, handleSignals: false }), (running) =>
      running.close(),
    );
    const dev = new DevProvider({
      env: 'test',
      redirectUris: [`${server.url.replace('127.0.0.1', 'localhost')}/oauth/callback`],
      issuer: late.url,
    });
    late.answerWith((request, response) => answerAs(dev, responseMode, request, response));
    return new Site(server, stack.move(), { events, provider: late.url, oauth });
  }

  audited(): unknown[] {
    return this.events
      .filter(({ logger }) => logger === 'svc_oauth')
      .map(({ event, reason }) => (reason === undefined ? event : `${String(event)} ${String(reason)}`));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** DevProvider behind node:http. With form_post the browser posts its response (OAuth 2.0 Form Post Response Mode §2). */
async function answerAs(
  dev: DevProvider,
  responseMode: 'query' | 'form_post',
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const [path, query = ''] = request.url!.split('?', 2) as [string, string?];
  const { status, headers, body } = await dev.handle({
    method: request.method!,
    path,
    query,
    headers: request.headers as Record<string, string>,
    body: Buffer.concat(chunks).toString(),
  });
  if (responseMode === 'query' || headers['location'] === undefined)
    return void response.writeHead(status, headers).end(body);
  const target = new URL(headers['location']);
  const fields = [...target.searchParams]
    .map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`)
    .join('');
  response
    .writeHead(200, { 'content-type': 'text/html' })
    .end(
      `<!doctype html><form method="post" action="${target.origin}${target.pathname}">${fields}</form><script>document.forms[0].submit()</script>`,
    );
}

/** One browser for all tests; a hook of a test would close it with that test. */
const chromium = chromiumProgram() === undefined ? undefined : await Chromium.start({ after });
afterEach(() => chromium?.endVisitors());

/** Opens a page of a new browser profile; undefined when the test is skipped. */
async function visitor(t: TestContext): Promise<Page | undefined> {
  return needsChromium(t) ? chromium?.visitor() : undefined;
}

async function pictured(page: Page, name: string): Promise<void> {
  const path = process.env['SCREENSHOTS'];
  if (path !== undefined) writeFileSync(join(path, `${name}.png`), await page.screenshot());
}

async function login(page: Page, site: Site, who: string = 'ada'): Promise<void> {
  await page.open(site.url);
  await page.click('#login', site.provider);
  await page.click(`button[value="${who}"]`, `${site.url}/notes`);
}

const APP_COOKIES = ['svc_access', 'svc_csrf', 'svc_refresh', 'svc_session'];

test('OAuth in a browser: in cookie mode a person can log in, reload, refresh and log out, and no address contains a token', async (t) => {
  const page = await visitor(t);
  if (page === undefined) return;
  await using site = await Site.open();
  await page.open(site.url);
  assert.match(await page.text(), /nobody is logged in/);
  await page.click('#login', site.provider);
  assert.match(
    await page.text(),
    /^Choose who to be\n[\s\S]*Ada Lovelace\nada@example\.test\n[\s\S]*Alan Turing\n[\s\S]*Cancel the login$/,
  );
  await pictured(page, 'picker');
  await page.click('button[value="alan"]', site.url);
  assert.equal(page.url, `${site.url}/notes`);
  assert.match(await page.text(), /user-alan is logged in/);

  const cookies = await page.cookies();
  assert.deepEqual([...cookies.keys()].sort(), APP_COOKIES, 'that of the login is gone');
  for (const { httpOnly, path } of cookies.values()) assert.deepEqual([httpOnly, path], [true, '/']);
  assert.deepEqual(
    [cookies.get('svc_access')!.sameSite, cookies.get('svc_refresh')!.sameSite],
    ['Lax', 'Strict'],
  );
  assert.deepEqual(await page.run('[document.cookie, localStorage.length, sessionStorage.length]'), [
    '',
    0,
    0,
  ]);
  await page.reload();
  assert.match(await page.text(), /user-alan is logged in/);
  assert.equal(
    await page.run('fetch("/me").then((answer) => answer.json()).then((me) => me.sub)'),
    'user-alan',
  );

  await page.click('#refresh', `${site.url}/refreshed`);
  assert.equal(
    await page.run('decodeURIComponent(location.hash.slice(1))'),
    '200 {"token_type":"Cookie","expires_in":900,"scope":""}',
  );
  const refreshed = await page.cookies();
  assert.notEqual(refreshed.get('svc_refresh')!.value, cookies.get('svc_refresh')!.value);
  assert.equal(await page.run('fetch("/me").then((answer) => answer.status)'), 200);
  assert.deepEqual(page.complaints, [], 'no policy was in the way');

  await page.click('#logout', `${site.url}/bye`);
  assert.match(await page.text(), /nobody is logged in/);
  const left = await page.cookies();
  assert.deepEqual([...left.keys()], ['svc_csrf']);
  assert.equal(await page.run('fetch("/me").then((answer) => answer.status)'), 401);
  assert.deepEqual(await site.oauth.listSessions('user-alan'), []);

  const seen = page.requests.flatMap(({ url, headers }) => [url, headers['Referer'] ?? '']);
  for (const secret of [cookies, refreshed].flatMap((jar) => [
    jar.get('svc_access')!.value,
    jar.get('svc_refresh')!.value,
  ]))
    assert.ok(!seen.some((text) => text.includes(secret)), 'a token in an address');
  assert.ok(
    !page.requests.some(({ headers }) => /[?&](?:code|state)=/.test(headers['Referer'] ?? '')),
    'a code in a Referer',
  );
  assert.ok(page.requests.some(({ url }) => url.startsWith(`${site.url}/oauth/callback?code=`)));
});

test('OAuth in a browser: a person logs in with the keyboard alone', async (t) => {
  const page = await visitor(t);
  if (page === undefined) return;
  await using site = await Site.open();
  await page.open(`${site.url}/oauth/login`, site.provider);
  await page.press(['Tab', 'Enter'], site.url);
  assert.equal(page.url, `${site.url}/`);
  assert.match(await page.text(), /user-ada is logged in/);
});

test('OAuth in a browser: in JSON mode the callback page shows the tokens, and a reload of this page gets the error invalid_state', async (t) => {
  const page = await visitor(t);
  if (page === undefined) return;
  await using site = await Site.open({ plugin: { mode: 'json' } });
  await page.open(`${site.url}/oauth/login`, site.provider);
  await page.click('button[value="ada"]', site.url);
  const tokens = JSON.parse(await page.run('document.body.querySelector("pre").textContent')) as Tokens;
  assert.deepEqual([tokens.token_type, claimsOf(tokens.access_token)['sub']], ['Bearer', 'user-ada']);
  assert.deepEqual([...(await page.cookies()).keys()], ['svc_session']);
  await page.reload();
  assert.match(await page.text(), /"error":"invalid_state"/);
});

test('OAuth in a browser: with response_mode=form_post, an intermediate page posts the form again with the login cookie, so that the login succeeds', async (t) => {
  const page = await visitor(t);
  if (page === undefined) return;
  await using site = await Site.open({ responseMode: 'form_post' });
  await page.open(`${site.url}/`);
  await page.click('#login', site.provider);
  await page.click('button[value="ada"]', `${site.url}/notes`);
  assert.match(await page.text(), /user-ada is logged in/);
  const posts = page.requests.filter(
    ({ method, url }) => method === 'POST' && url === `${site.url}/oauth/callback`,
  );
  assert.deepEqual(
    posts.map(({ headers }) => headers['Origin']),
    [site.provider, 'null'],
    'first from the provider, then from our page, which tells nobody where it is',
  );
  assert.ok(!page.requests.some(({ url }) => url.includes('code=')), 'the code is in no address');
  assert.deepEqual(page.complaints, []);
});

test('OAuth in a browser: a cancelled login shows an error page, and a callback address works only in the browser that started the login', async (t) => {
  const [page, other] = [await visitor(t), await visitor(t)];
  if (page === undefined || other === undefined) return;
  await using site = await Site.open();
  await page.open(`${site.url}/oauth/login`, site.provider);
  await page.click('button[name="deny"]', site.url);
  assert.match(
    await page.text(),
    /^The login failed\n+The login was cancelled[^\n]*\n+Log in again, or go to the start page\.\n+access_denied, request [\w-]+$/,
  );
  await pictured(page, 'cancelled');
  assert.equal(await page.run('getComputedStyle(document.body).maxWidth'), '512px', 'its style counts');

  await page.click('a[href="/oauth/login"]', site.provider);
  await page.send('Fetch.enable', { patterns: [{ urlPattern: `${site.url}/oauth/callback*` }] });
  const held = page.next<{ requestId: string; request: { url: string } }>('Fetch.requestPaused');
  const clicked = page.click('button[value="ada"]', `${site.url}/`);
  const { requestId, request } = await held;
  await other.open(request.url);
  assert.match(await other.text(), /The login was started in another browser[\s\S]*state_browser_mismatch/);
  await page.send('Fetch.continueRequest', { requestId });
  await clicked;
  assert.match(await page.text(), /user-ada is logged in/);
});

test('OAuth in a browser: two tabs can log in at the same time, and can refresh their tokens at the same time', async (t) => {
  const page = await visitor(t);
  if (page === undefined) return;
  await using site = await Site.open();
  const tab = await chromium!.page(page.browserContextId);
  await Promise.all(
    [page, tab].map((each) => each.open(`${site.url}/oauth/login?return_to=/notes`, site.provider)),
  );
  await page.click('button[value="ada"]', `${site.url}/notes`);
  await tab.click('button[value="alan"]', `${site.url}/notes`);
  await page.reload();
  for (const each of [page, tab]) assert.match(await each.text(), /user-alan is logged in/);
  const refresh =
    'Promise.all([1, 2, 3].map(() => fetch("/oauth/token", { method: "POST", headers: { "X-CSRF-Token": document.querySelector("meta[name=csrf]").content } }).then((answer) => answer.status)))';
  assert.deepEqual(
    (await Promise.all([page, tab].map((each) => each.run<number[]>(refresh)))).flat(),
    [200, 200, 200, 200, 200, 200],
  );
  assert.deepEqual(await page.run<number[]>(refresh), [200, 200, 200]);
  assert.equal((await site.oauth.listSessions('user-alan')).length, 1);
});

test('OAuth in a browser: a page of another site cannot refresh the tokens or log the user out, and a prefetch starts no login', async (t) => {
  const page = await visitor(t);
  if (page === undefined) return;
  await using site = await Site.open({ exempt: undefined }); // no CSRF middleware: the plugin protects its own routes
  await login(page, site);
  const before = await page.cookies();
  const attacks = [
    ['token', '', /"error":"invalid_request"/],
    ['revoke', '', /"error":"invalid_request"/],
    ['token', before.get('svc_refresh')!.value, /was not sent by a page of this application/],
  ] as const;
  for (const [path, token, answer] of attacks) {
    await page.open(
      `data:text/html,<form method="post" action="${site.url}/oauth/${path}"><input name="refresh_token" value="${token}"><button>x</button></form>`,
    );
    await page.click('button', site.url);
    assert.match(await page.text(), answer);
  }
  await page.open(`${site.url}/notes`);
  assert.match(await page.text(), /user-ada is logged in/);
  assert.deepEqual((await page.cookies()).get('svc_refresh'), before.get('svc_refresh'));

  const started = site.audited().filter((event) => event === 'login_started').length;
  await page.run(
    'new Promise((resolve) => { const link = Object.assign(document.createElement("link"), { rel: "prefetch", href: "/oauth/login", onload: resolve, onerror: resolve }); document.head.append(link); })',
  );
  assert.ok(
    page.requests.some(
      ({ url, headers }) =>
        url === `${site.url}/oauth/login` &&
        /prefetch/.test(headers['Sec-Purpose'] ?? headers['Purpose'] ?? ''),
    ),
  );
  assert.equal(site.audited().filter((event) => event === 'login_started').length, started);
});
