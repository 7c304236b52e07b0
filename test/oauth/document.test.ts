/** The OpenAPI document matches the responses of the plugin's endpoints. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { Referee, undocumented } from '../support/openapi-referee.ts';
import { scratch } from '../support/scratch.ts';
import { LoginSite } from './support/site.ts';
import type { OpenApiDocument, Operation } from 'svc';

/** Returns a function that checks responses against the document of a site. */
async function checker(
  site: LoginSite,
  folder: string,
): Promise<
  (
    method: 'get' | 'post',
    path: string,
    response: Response,
    status: number,
    template?: string,
  ) => Promise<void>
> {
  const document = (await (await site.client.get('/openapi.json')).json()) as OpenApiDocument;
  const referee = new Referee(folder, document);
  return async (method, path, response, status, template = path) => {
    const operation = document.paths[template]?.[method] as Operation;
    const text = await response.text();
    const type = response.headers.get('content-type');
    const body =
      text === '' ? undefined : type?.startsWith('text/html') === true ? text : (JSON.parse(text) as unknown);
    assert.equal(response.status, status, `${method} ${path}: ${text}`);
    assert.equal(
      undocumented(
        operation,
        ['paths', template, method],
        { status: response.status, type, body, hasBody: text !== '' },
        referee,
      ),
      undefined,
      `${method} ${path}`,
    );
  };
}

test('the OpenAPI document describes the responses of OAuthPlugin with tokens, errors and rate limits', async (t) => {
  const folder = scratch(t, 'ajv', { ajv: '^8.17.0', 'ajv-formats': '^3.0.0' });
  if (folder === undefined) return;
  await using site = await LoginSite.open({ plugin: { scopes: ['read'], limits: { login: 2 } } });
  const check = await checker(site, folder);
  const { response, state } = await site.begin();
  await check('get', '/oauth/login', response, 302);
  await check(
    'get',
    '/oauth/login',
    await site.client.get('/oauth/login', { query: { redirect_uri: 'https://elsewhere.example' } }),
    400,
  );
  await check('get', '/oauth/login', await site.client.get('/oauth/login'), 429);
  await check(
    'get',
    '/oauth/login',
    await site.client.get('/oauth/login', { headers: { 'Sec-Purpose': 'prefetch' } }),
    204,
  );
  const back = await site.back({ code: 'c-1', state });
  const tokens = (await back.clone().json()) as { refresh_token: string };
  await check('get', '/oauth/callback', back, 200);
  await check('get', '/oauth/callback', await site.back({ code: 'c-1', state }), 400);
  await check(
    'post',
    '/oauth/callback',
    await site.client.post('/oauth/callback', { form: { code: 'c-1', state: 'unknown' } }),
    200,
  ); // the response is the page that posts the form again
  await check(
    'post',
    '/oauth/token',
    await site.client.post('/oauth/token', { form: { refresh_token: tokens.refresh_token } }),
    200,
  );
  await check(
    'post',
    '/oauth/token',
    await site.client.post('/oauth/token', { json: { grant_type: 'password' } }),
    400,
  );
  await check(
    'post',
    '/oauth/token',
    await site.client.post('/oauth/token', { form: { refresh_token: 'none' } }),
    400,
  );
  await check(
    'post',
    '/oauth/token',
    await site.client.post('/oauth/token', { body: 'x', headers: { 'Content-Type': 'text/plain' } }),
    415,
  );
  await check(
    'post',
    '/oauth/token',
    await site.client.post('/oauth/token', { form: { refresh_token: 'x'.repeat(20_000) } }),
    413,
  );
  await check(
    'post',
    '/oauth/revoke',
    await site.client.post('/oauth/revoke', { form: { token: 'none' } }),
    200,
  );
  await check('post', '/oauth/revoke', await site.client.post('/oauth/revoke'), 400);
});

test('in cookie mode, the OpenAPI document describes the responses of OAuthPlugin with cookies and error pages', async (t) => {
  const folder = scratch(t, 'ajv', { ajv: '^8.17.0', 'ajv-formats': '^3.0.0' });
  if (folder === undefined) return;
  await using site = await LoginSite.open({ plugin: { mode: 'cookie' } });
  const check = await checker(site, folder);
  const { state } = await site.begin();
  await check('get', '/oauth/callback', await site.back({ code: 'c-1', state }), 303);
  await check(
    'get',
    '/oauth/callback',
    await site.client.get('/oauth/callback', {
      query: { code: 'c-1', state },
      headers: { Accept: 'text/html' },
    }),
    400,
  );
  const ours = { 'Sec-Fetch-Site': 'same-origin' };
  await check('post', '/oauth/token', await site.client.post('/oauth/token', { headers: ours }), 200);
  await check(
    'post',
    '/oauth/token',
    await site.client.post('/oauth/token', { headers: { 'Sec-Fetch-Site': 'cross-site' } }),
    403,
  );
  await check('post', '/oauth/revoke', await site.client.post('/oauth/revoke', { headers: ours }), 200);
});

test('with the option "errorPath" of OAuthPlugin, the OpenAPI document describes the redirect of a failed login', async (t) => {
  const folder = scratch(t, 'ajv', { ajv: '^8.17.0', 'ajv-formats': '^3.0.0' });
  if (folder === undefined) return;
  await using site = await LoginSite.open({ plugin: { mode: 'cookie', errorPath: '/sorry' } });
  const check = await checker(site, folder);
  const query = { redirect_uri: 'https://elsewhere.example' };
  await check(
    'get',
    '/oauth/login',
    await site.client.get('/oauth/login', { query, headers: { Accept: 'text/html' } }),
    303,
  );
  await check('get', '/oauth/login', await site.client.get('/oauth/login', { query }), 400);
});

test('if there are several OAuth providers, the OpenAPI document describes the routes and error responses of each provider', async (t) => {
  const folder = scratch(t, 'ajv', { ajv: '^8.17.0', 'ajv-formats': '^3.0.0' });
  if (folder === undefined) return;
  await using site = await LoginSite.open({
    names: ['one', 'two'],
    provider: { tokenUrl: 'http://127.0.0.1:1/token' },
  });
  const check = await checker(site, folder);
  const path = '/oauth/two/login';
  const { state, response } = await site.begin({}, { path });
  await check('get', path, response, 302, '/oauth/{provider}/login');
  await check(
    'get',
    '/oauth/three/login',
    await site.client.get('/oauth/three/login'),
    404,
    '/oauth/{provider}/login',
  );
  await check(
    'get',
    '/oauth/two/callback',
    await site.back({ code: 'c-1', state }, { path: '/oauth/two/callback' }),
    502,
    '/oauth/{provider}/callback',
  );
});

test('the OpenAPI document lists the parameters of logins and links, and return_to only in cookie mode', async () => {
  for (const mode of ['json', 'cookie'] as const) {
    await using site = await LoginSite.open({ plugin: { mode, onLink: () => undefined } });
    const { paths } = (await (await site.client.get('/openapi.json')).json()) as OpenApiDocument;
    const returnTo = mode === 'cookie' ? ['return_to'] : [];
    const login = paths['/oauth/login']?.['get'] as Operation;
    assert.deepEqual(
      login.parameters?.map((parameter) => [
        'name' in parameter && parameter.name,
        'in' in parameter && parameter.in,
      ]),
      ['redirect_uri', 'scope', 'login_hint', 'prompt', ...returnTo].map((name) => [name, 'query']),
    );
    const link = paths['/oauth/{provider}/link']?.['post'] as { readonly requestBody: unknown };
    assert.equal(JSON.stringify(link.requestBody).includes('"return_to"'), mode === 'cookie');
  }
});
