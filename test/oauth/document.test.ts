/** The OpenAPI document matches the responses of the plugin's endpoints. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { Referee, undocumented } from '../support/openapi-referee.ts';
import { scratch } from '../support/scratch.ts';
import { LoginSite } from './support/site.ts';
import { IdempotencyMiddleware, TimeoutMiddleware } from 'svc';
import type { OpenApiDocument, Operation } from 'svc';
import type { OAuthPluginOptions } from '../../src/oauth/index.ts';

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

/** Names of an operation: parameters, members of the form (required ones with "!"), and statuses with types. */
function shapeOf(method: string, path: string, operation: Operation): string {
  const {
    parameters = [],
    requestBody,
    responses = {},
  } = operation as unknown as {
    parameters?: readonly { name: string; in: string; required?: boolean }[];
    requestBody?: {
      required: boolean;
      content: Record<string, { schema: { properties: object; required?: readonly string[] } }>;
    };
    responses?: Record<string, { content?: object }>;
  };
  const form = requestBody?.content['application/x-www-form-urlencoded']?.schema;
  const mark = (isRequired: boolean | undefined): string => (isRequired === true ? '!' : '');
  return [
    `${method} ${path}`,
    ...parameters.map((each) => `${each.in} ${each.name}${mark(each.required)}`),
    ...Object.keys(form?.properties ?? {}).map(
      (name) => `body ${name}${mark(form?.required?.includes(name))}`,
    ),
    ...(requestBody === undefined
      ? []
      : [
          `body ${Object.keys(requestBody.content).map((type) => type.split('/')[1])}${mark(requestBody.required)}`,
        ]),
    ...Object.entries(responses).map(([status, { content = {} }]) =>
      [status, ...Object.keys(content)].join(' '),
    ),
  ].join(', ');
}

const MOST: OAuthPluginOptions = {
  onLink: () => undefined,
  onUnlink: () => undefined,
  postLogoutRedirectUris: ['https://app.example/bye'],
  backchannelLogout: true,
};
const CONFIGURATIONS: readonly (readonly [string, OAuthPluginOptions, readonly string[]])[] = [
  [
    'json',
    {},
    [
      'get /oauth/login, query redirect_uri, query scope, query login_hint, query prompt, 204, 302, 429, 4XX, 5XX',
      'get /oauth/callback, query code, query state, query error, query error_description, query iss, 200 application/json, 204, 429, 4XX, 5XX',
      'post /oauth/callback, body code, body state, body error, body error_description, body iss, body x-www-form-urlencoded!, 200 application/json text/html, 204, 429, 4XX, 5XX',
      'post /oauth/token, body grant_type, body refresh_token!, body scope, body x-www-form-urlencoded,json!, 200 application/json, 429, 4XX, 5XX',
      'post /oauth/revoke, body token, body token_type_hint, body refresh_token, body x-www-form-urlencoded,json, 200, 429, 4XX, 5XX',
    ],
  ],
  [
    'json with every route',
    { ...MOST, dpop: 'required' },
    [
      'get /oauth/login, query redirect_uri, query scope, query login_hint, query prompt, query dpop_jkt, 204, 302, 429, 4XX, 5XX',
      'get /oauth/callback, query code, query state, query error, query error_description, query iss, 200 application/json, 204, 429, 4XX, 5XX',
      'post /oauth/callback, body code, body state, body error, body error_description, body iss, body x-www-form-urlencoded!, 200 application/json text/html, 204, 429, 4XX, 5XX',
      'post /oauth/token, header DPoP!, body grant_type, body refresh_token!, body scope, body x-www-form-urlencoded,json!, 200 application/json, 429, 4XX, 5XX',
      'post /oauth/revoke, body token, body token_type_hint, body refresh_token, body x-www-form-urlencoded,json, 200, 429, 4XX, 5XX',
      'post /oauth/logout, body refresh_token!, body post_logout_redirect_uri, body state, body x-www-form-urlencoded,json!, 200 application/json, 204, 429, 4XX, 5XX',
      'post /oauth/{provider}/link, path provider!, body redirect_uri, body scope, body login_hint, body prompt, body x-www-form-urlencoded,json, 200 application/json text/html, 204, 401, 429, 4XX, 5XX',
      'post /oauth/{provider}/unlink, path provider!, body subject, body x-www-form-urlencoded,json, 204, 401, 429, 4XX, 5XX',
    ],
  ],
  [
    'json with native clients',
    { dpop: 'off', nativeRedirects: ['http://127.0.0.1/done'] },
    [
      'get /oauth/login, query redirect_uri, query scope, query login_hint, query prompt, query client_redirect_uri, query code_challenge, query code_challenge_method, query client_state, 204, 302, 429, 4XX, 5XX',
      'get /oauth/callback, query code, query state, query error, query error_description, query iss, 200 application/json, 204, 303, 429, 4XX, 5XX',
      'post /oauth/callback, body code, body state, body error, body error_description, body iss, body x-www-form-urlencoded!, 200 application/json text/html, 204, 303, 429, 4XX, 5XX',
      'post /oauth/token, body grant_type, body code, body code_verifier, body client_redirect_uri, body refresh_token, body scope, body x-www-form-urlencoded,json, 200 application/json, 429, 4XX, 5XX',
      'post /oauth/revoke, body token, body token_type_hint, body refresh_token, body x-www-form-urlencoded,json, 200, 429, 4XX, 5XX',
    ],
  ],
  [
    'cookie',
    { ...MOST, mode: 'cookie', errorPath: '/sorry' },
    [
      'get /oauth/login, query redirect_uri, query scope, query login_hint, query prompt, query return_to, 204, 302, 303, 429, 4XX, 5XX',
      'get /oauth/callback, query code, query state, query error, query error_description, query iss, 204, 303, 429, 4XX, 5XX',
      'post /oauth/callback, body code, body state, body error, body error_description, body iss, body x-www-form-urlencoded!, 200 text/html, 204, 303, 429, 4XX, 5XX',
      'post /oauth/token, body grant_type, body refresh_token, body scope, body x-www-form-urlencoded,json, 200 application/json, 429, 4XX, 5XX',
      'post /oauth/revoke, body token, body token_type_hint, body refresh_token, body x-www-form-urlencoded,json, 200, 429, 4XX, 5XX',
      'get /oauth/logout, query post_logout_redirect_uri, query state, 204, 303, 429, 4XX, 5XX',
      'post /oauth/logout, body refresh_token, body post_logout_redirect_uri, body state, body x-www-form-urlencoded,json, 200 text/html, 204, 303, 429, 4XX, 5XX',
      'post /oauth/{provider}/link, path provider!, body redirect_uri, body scope, body login_hint, body prompt, body return_to, body x-www-form-urlencoded,json, 200 application/json text/html, 204, 303, 401, 429, 4XX, 5XX',
      'post /oauth/{provider}/unlink, path provider!, body subject, body return_to, body x-www-form-urlencoded,json, 204, 401, 429, 4XX, 5XX',
    ],
  ],
];

for (const [name, plugin, expected] of CONFIGURATIONS)
  test(`the OpenAPI document lists the routes, parameters and responses of OAuthPlugin (${name})`, async () => {
    await using site = await LoginSite.open({ plugin });
    const { paths } = (await (await site.client.get('/openapi.json')).json()) as OpenApiDocument;
    const found = Object.entries(paths)
      .filter(([path]) => path.startsWith('/oauth'))
      .flatMap(([path, item]) =>
        Object.entries(item as Record<string, Operation>).map(([method, operation]) =>
          shapeOf(method, path, operation),
        ),
      );
    assert.deepEqual(found, expected);
  });

test('the OpenAPI document describes each response and schema that the endpoints of OAuthPlugin share', async () => {
  await using site = await LoginSite.open({});
  const { components } = (await (await site.client.get('/openapi.json')).json()) as {
    components: Record<'responses' | 'schemas', Record<string, { description?: string }>>;
  };
  const descriptionsOf = (part: 'responses' | 'schemas'): unknown =>
    Object.fromEntries(
      Object.entries(components[part]).flatMap(([name, { description }]) =>
        /^(?:OAuth|Token)/.test(name) ? [[name, description]] : [],
      ),
    );
  assert.deepEqual(descriptionsOf('responses'), {
    OAuthRefusal: 'The request is refused',
    OAuthFailure: 'The application, or the identity provider, has failed',
    OAuthTooManyRequests: 'The client has sent too many requests',
  });
  assert.deepEqual(descriptionsOf('schemas'), {
    OAuthError: 'Error response (RFC 6749 §5.2)',
    TokenAnswer: 'Response with tokens (RFC 6749 §5.1)',
  });
});

/** Options that together add every endpoint and parameter. */
const FEATURES: readonly Partial<OAuthPluginOptions>[] = [
  {},
  { mode: 'cookie' },
  { dpop: 'required' },
  { nativeRedirects: ['com.example.app:/callback'] },
  { onLink: () => true, onUnlink: () => true },
  { mode: 'cookie', onLink: () => true, onUnlink: () => true },
];

/** Texts of the document, sorted, without those of the application. */
const TEXTS: readonly string[] = [
  'Address of the native client that gets the code',
  'Address of the page of the provider; for browsers, a page that goes there',
  'Address to which the browser is redirected',
  'Always `about:blank`, because the status alone says what the problem is',
  'An access token in the header field `Authorization: Bearer …`',
  'An access token in the header field `Authorization: Bearer …`: log in at [/oauth/login](/oauth/login)',
  'An error response (RFC 9457)',
  'Another name for `token`',
  'Code to exchange for tokens of the provider',
  'Complete a login',
  'Complete a login, for identity providers that respond with a form',
  'Credentials are missing or invalid',
  'DPoP proof for the key to which the tokens are bound (RFC 9449)',
  'Description of the error',
  'Ends the login to which the refresh token belongs (RFC 7009). An unknown token is ignored.',
  'Error code for programs',
  'Error code of the provider, in place of a code',
  'Error response (RFC 6749 §5.2)',
  'Every problem of the input',
  'Explanation for people',
  'Hint for the provider about the user, such as an e-mail address',
  'How many seconds to wait before the next attempt',
  'Id of the account at the provider; required if the user has several there',
  'Id of the request in the log',
  'Issuer of the provider (RFC 9207)',
  'Link another account',
  'Log out',
  'Method of the challenge',
  'New access token and refresh token',
  'No Content',
  'PKCE challenge of the client: SHA-256 of its verifier in base64url',
  'Page that sends the same form again from this site, so that the browser includes the cookies',
  'Path of this application to open after the login',
  'Place of the problem: `body`, `query`, `path`, `header`, `cookie` or `form`, then the path to the member',
  'Redirect URI to which the provider sends the browser; optional if only one redirect URI is allowed',
  'Redirect after a login, or to the error page',
  'Redirect to the identity provider',
  'Refresh an access token',
  'Response with tokens (RFC 6749 §5.1)',
  'Returns new tokens for a refresh token (RFC 6749 §6). The old refresh token is replaced: using it again ends the login.',
  'SHA-256 thumbprint of the DPoP key to which all tokens of the login are bound (RFC 9449 §10)',
  'Scopes to request from the provider, separated by spaces: a subset of the configured ones',
  'Scopes, separated by spaces',
  'Seconds',
  'Sends the browser to the identity provider, and links the account there to the logged-in user. The user must be logged in: the request needs an access token, or cookies; a request with cookies must be sent by a page of this application.\n\nTakes a bearer token, if there is one.',
  'Sends the browser to the identity provider, with a PKCE challenge (RFC 7636) and a "state" parameter that is valid once.',
  'Start a login',
  'State of the login',
  'Subset of the granted scopes, separated by spaces',
  'Text that the client gets back unchanged',
  'The account is unlinked',
  'The application, or the identity provider, has failed',
  'The client has sent too many requests',
  'The identity provider redirects the browser here; the code in the request is exchanged for cookies.',
  'The identity provider redirects the browser here; the code in the request is exchanged for tokens.',
  'The login has succeeded',
  'The reason phrase of the status',
  'The request is refused',
  'The required credentials, and what is wrong with the credentials in the request (RFC 9110)',
  'The token is revoked',
  'The token is revoked, and the cookies are removed',
  'Unlink an account',
  'Unlinks an account at this provider from the logged-in user, unless the user has no other way to log in.\n\nTakes a bearer token, if there is one.',
  'Whether the provider asks the user to log in, to consent, or to select an account',
];

test('the OpenAPI document describes endpoints, parameters and responses of OAuthPlugin with every option', async () => {
  const found = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, member] of Object.entries(value))
      if (typeof member === 'string' && (name === 'description' || name === 'summary')) found.add(member);
      else visit(member);
  };
  for (const plugin of FEATURES) {
    await using site = await LoginSite.open({ plugin });
    const { paths, components } = (await (await site.client.get('/openapi.json')).json()) as OpenApiDocument;
    visit(Object.entries(paths).filter(([path]) => path.startsWith('/oauth')));
    visit(components);
  }
  assert.deepEqual([...found].sort(), TEXTS);
});

test('the OpenAPI document lists the errors of OAuthPlugin as ranges, whatever middleware the application has', async () => {
  await using site = await LoginSite.open({
    more: (app) => app.use(new TimeoutMiddleware()).use(new IdempotencyMiddleware()),
  });
  const { paths } = (await (await site.client.get('/openapi.json')).json()) as OpenApiDocument;
  for (const [path, operations] of Object.entries(paths))
    if (path.startsWith('/oauth'))
      for (const { responses } of Object.values(operations) as Operation[])
        assert.deepEqual(
          Object.keys(responses).filter((status) => /^[45]/.test(status)),
          ['429', '4XX', '5XX'],
          path,
        );
});
