/**
 * Endpoints of OAuthPlugin: method, path, spec and handler of each route. The spec contains its OpenAPI
 * description, because the endpoints declare no schemas, and have the error format of OAuth.
 */
import { BearerAuth } from '../auth/auth.ts';
import { NotFound } from '../base/errors.ts';
import { Depends } from '../routing/di.ts';
import { PREFIX } from './assembly.ts';
import { OAUTH_ERRORS } from './errors.ts';
import type { Claims } from '../crypto/jwt.ts';
import type { Awaitable, Context, HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { Registered } from './assembly.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { ConnectedProvider } from './provider/client.ts';

type Method = 'GET' | 'POST';

/** Handler of an endpoint. `me` contains the claims of the access token, if the endpoint reads the token. */
type Handler = (
  req: HttpRequest,
  context: Context & { readonly me?: Claims | undefined },
) => Awaitable<HttpResponse>;

interface Endpoint {
  readonly method: Method;
  readonly path: string;
  readonly spec: object;
  readonly handler: Handler;
}

/** OpenAPI description of an endpoint. Members other than the texts and `login` belong to `meta.openapi`. */
interface Described extends Readonly<Record<string, unknown>> {
  /** Credential that clients get by a login at this endpoint. */
  readonly login?: 'bearer' | 'session';
  readonly summary: string;
  readonly description: string;
  readonly responses: Readonly<Record<string, unknown>>;
}

type Describe = (options: ReadOptions, method: Method) => Described;

const TEXT = { type: 'string' } as const;
const PAGE = { 'text/html': { schema: TEXT } } as const;
const ADDRESS = { type: 'string', format: 'uri' } as const;
const THUMBPRINT = { type: 'string', pattern: '^[\\w-]{43}$' } as const;
const FORM = 'application/x-www-form-urlencoded';
const REF = '#/components';
const META = { csrf: false, idempotency: false, rateLimit: 'own' } as const;

export function endpointsOf(options: ReadOptions, registered: Registered): readonly Endpoint[] {
  const components = componentsOf(options);
  return rowsOf(options, registered).map(([method, path, describe, handler, dependencies]) => {
    const { summary, description, login, ...operation } = describe(options, method);
    const responses = { ...REFUSALS, ...operation.responses };
    const meta = { ...META, login, openapi: { ...operation, responses, components } };
    const spec = { public: 'people log in here', mcp: false, tags: ['oauth'], summary, description, meta };
    return { method, path: PREFIX + path, spec: { ...dependencies, ...spec }, handler };
  });
}

type Row = readonly [method: Method, path: string, Describe, Handler, dependencies?: object];

function rowsOf(options: ReadOptions, registered: Registered): readonly Row[] {
  const { connected, loginEndpoints, logouts, tokenEndpoints } = registered;
  const named = (req: HttpRequest, fits = (_: ConnectedProvider): boolean => true): ConnectedProvider => {
    const found = connected.get(String(req.pathParams['provider']));
    if (found === undefined || !fits(found)) throw new NotFound();
    return found;
  };
  const logins = (path: string, of: (req: HttpRequest) => ConnectedProvider): readonly Row[] => [
    ['GET', `${path}/login`, DESCRIBED.login, (req) => loginEndpoints.login(req, of(req))],
    ['GET', `${path}/callback`, DESCRIBED.callback, (req) => loginEndpoints.callback(req, of(req))],
    ['POST', `${path}/callback`, DESCRIBED.callback, (req) => loginEndpoints.callback(req, of(req))],
  ];
  const logout = (method: Method): Row => [method, '/logout', DESCRIBED.logout, (req) => logouts.logout(req)];
  const rows: Row[] = [];
  const [first] = connected.values();
  if (first !== undefined) rows.push(...logins('', () => first));
  rows.push(['POST', '/token', DESCRIBED.token, (req) => tokenEndpoints.token(req)]);
  rows.push(['POST', '/revoke', DESCRIBED.revoke, (req) => tokenEndpoints.revoke(req)]);
  if (options.postLogoutRedirectUris !== undefined) {
    if (options.mode === 'cookie') rows.push(logout('GET'));
    rows.push(logout('POST'));
  }
  if (options.backchannelLogout && [...connected.values()].some(isOpenId))
    rows.push([
      'POST',
      '/{provider}/backchannel-logout',
      DESCRIBED.backchannelLogout,
      (req) => logouts.backchannel(req, named(req, isOpenId)),
    ]);
  rows.push(...linkRows(options, registered, named));
  if (connected.size > 1) rows.push(...logins('/{provider}', named));
  return rows;
}

function linkRows(
  { authSecret, issuer, audience, onUnlink }: ReadOptions,
  { links }: Registered,
  named: (req: HttpRequest) => ConnectedProvider,
): readonly Row[] {
  if (links === undefined) return [];
  const user = { me: Depends(BearerAuth(authSecret, { optional: true, issuer, audience })) };
  const link: Handler = (req, { me }) => links.link(req, named(req), me);
  const unlink: Handler = (req, { me }) => links.unlink(req, named(req), me);
  const linking: Row = ['POST', '/{provider}/link', DESCRIBED.link, link, user];
  return onUnlink === undefined
    ? [linking]
    : [linking, ['POST', '/{provider}/unlink', DESCRIBED.unlink, unlink, user]];
}

/** Returns whether a provider uses OpenID Connect. Only such a provider sends logout tokens. */
function isOpenId({ provider }: ConnectedProvider): boolean {
  return provider.scopes.includes('openid');
}

type DescribedSchema = Readonly<Record<string, unknown>> & { readonly description: string };

const DESCRIBED = {
  login: ({ mode, errorPath, dpop, nativeRedirects }) => ({
    summary: 'Start a login',
    login: mode === 'json' ? 'bearer' : 'session',
    description:
      'Sends the browser to the identity provider, with a PKCE challenge (RFC 7636) and a "state" parameter that is valid once.',
    parameters: queries({
      redirect_uri: {
        ...ADDRESS,
        description:
          'Redirect URI to which the provider sends the browser; optional if only one redirect URI is allowed',
      },
      scope: described(
        'Scopes to request from the provider, separated by spaces: a subset of the configured ones',
      ),
      login_hint: {
        ...described('Hint for the provider about the user, such as an e-mail address'),
        maxLength: 200,
      },
      prompt: {
        ...described('Whether the provider asks the user to log in, to consent, or to select an account'),
        enum: ['none', 'login', 'consent', 'select_account'],
      },
      ...(nativeRedirects.length > 0 && {
        client_redirect_uri: described('Address of the native client that gets the code'),
        code_challenge: {
          ...THUMBPRINT,
          description: 'PKCE challenge of the client: SHA-256 of its verifier in base64url',
        },
        code_challenge_method: { ...described('Method of the challenge'), const: 'S256' },
        client_state: { ...described('Text that the client gets back unchanged'), maxLength: 500 },
      }),
      ...(dpop !== 'off' && {
        dpop_jkt: {
          ...THUMBPRINT,
          description:
            'SHA-256 thumbprint of the DPoP key to which all tokens of the login are bound (RFC 9449 §10)',
        },
      }),
      ...(mode === 'cookie' && {
        return_to: described('Path of this application to open after the login'),
      }),
    }),
    responses: {
      200: null,
      302: redirect('Redirect to the identity provider'),
      ...(mode === 'cookie' &&
        errorPath !== undefined && {
          303: redirect('Redirect to the error page, because the login cannot begin'),
        }),
    },
  }),
  callback: ({ mode, nativeRedirects }, method) => ({
    summary:
      method === 'GET'
        ? 'Complete a login'
        : 'Complete a login, for identity providers that respond with a form',
    description: `The identity provider redirects the browser here; the code in the request is exchanged for ${mode === 'json' ? 'tokens' : 'cookies'}.`,
    ...(method === 'GET'
      ? { parameters: queries(CALLBACK) }
      : { requestBody: { required: true, content: { [FORM]: { schema: objectOf(CALLBACK) } } } }),
    responses: {
      200:
        mode === 'cookie' && method === 'GET'
          ? null
          : {
              description:
                mode === 'json'
                  ? 'The login has succeeded'
                  : 'Page that sends the same form again from this site, so that the browser includes the cookies',
              content: { ...(mode === 'json' && json(refTo('TokenAnswer'))), ...(method === 'POST' && PAGE) },
            },
      ...((mode === 'cookie' || nativeRedirects.length > 0) && {
        303: redirect('Redirect after a login, or to the error page'),
      }),
    },
  }),
  token: ({ mode, dpop, nativeRedirects }) => ({
    summary: 'Refresh an access token',
    description:
      'Returns new tokens for a refresh token (RFC 6749 §6). The old refresh token is replaced: using it again ends the login.',
    ...(dpop !== 'off' && {
      parameters: [
        {
          name: 'DPoP',
          in: 'header',
          required: dpop === 'required',
          description: 'DPoP proof for the key to which the tokens are bound (RFC 9449)',
          schema: TEXT,
        },
      ],
    }),
    requestBody: body(
      {
        ...(nativeRedirects.length === 0
          ? { grant_type: { ...TEXT, const: 'refresh_token' } }
          : {
              grant_type: { ...TEXT, enum: ['refresh_token', 'authorization_code'] },
              code: TEXT,
              code_verifier: TEXT,
              client_redirect_uri: TEXT,
            }),
        refresh_token: TEXT,
        scope: described('Subset of the granted scopes, separated by spaces'),
      },
      mode === 'json' && nativeRedirects.length === 0 ? ['refresh_token'] : [],
    ),
    responses: { 200: answer('New access token and refresh token', refTo('TokenAnswer')), 204: null },
  }),
  link: ({ mode, nativeRedirects, errorPath }) => ({
    summary: 'Link another account',
    description:
      'Sends the browser to the identity provider, and links the account there to the logged-in user. The user must be logged in: the request needs an access token, or cookies; a request with cookies must be sent by a page of this application.',
    requestBody: body({
      redirect_uri: ADDRESS,
      scope: TEXT,
      login_hint: TEXT,
      prompt: TEXT,
      ...(mode === 'cookie' && { return_to: TEXT }),
      ...(nativeRedirects.length > 0 && { client_redirect_uri: TEXT, client_state: TEXT }),
    }),
    responses: {
      200: {
        description: 'Address of the page of the provider; for browsers, a page that goes there',
        content: { ...json(objectOf({ authorization_url: ADDRESS }, ['authorization_url'])), ...PAGE },
      },
      ...(mode === 'cookie' &&
        errorPath !== undefined && {
          303: redirect('Redirect to the error page, because the user must log in again'),
        }),
    },
  }),
  unlink: ({ mode }) => ({
    summary: 'Unlink an account',
    description:
      'Unlinks an account at this provider from the logged-in user, unless the user has no other way to log in.',
    requestBody: body({
      subject: described('Id of the account at the provider; required if the user has several there'),
      ...(mode === 'cookie' && { return_to: TEXT }),
    }),
    responses: { 204: { description: 'The account is unlinked' }, 200: null },
  }),
  logout: ({ mode }, method) => ({
    summary: 'Log out here and at the identity provider',
    description:
      'Ends the login, and redirects to the logout page of the identity provider (OpenID Connect RP-Initiated Logout 1.0).',
    ...(method === 'GET'
      ? {
          parameters: queries({
            post_logout_redirect_uri: described(
              'Address to which the provider sends the browser after the logout',
            ),
            state: described('Text that the address gets back unchanged'),
          }),
        }
      : {
          requestBody: body(
            { refresh_token: TEXT, post_logout_redirect_uri: TEXT, state: TEXT },
            mode === 'json' ? ['refresh_token'] : [],
          ),
        }),
    responses:
      mode === 'json'
        ? {
            200: answer(
              'Address of the logout page of the provider',
              objectOf({ logout_url: { type: ['string', 'null'], format: 'uri' } }, ['logout_url']),
            ),
          }
        : {
            200:
              method === 'GET'
                ? null
                : { description: 'Page that goes to the identity provider, for browsers', content: PAGE },
            303: redirect('Redirect to the identity provider'),
          },
  }),
  backchannelLogout: () => ({
    summary: 'Log out at the request of the identity provider',
    description:
      'Ends the logins that a logout token names. Only the identity provider calls this endpoint (OpenID Connect Back-Channel Logout 1.0).',
    requestBody: body({ logout_token: TEXT }, ['logout_token']),
    responses: { 200: { description: 'The logins have ended' } },
  }),
  revoke: ({ mode }) => ({
    summary: 'Log out',
    description: 'Ends the login to which the refresh token belongs (RFC 7009). An unknown token is ignored.',
    requestBody: body({
      token: TEXT,
      token_type_hint: TEXT,
      refresh_token: described('Another name for `token`'),
    }),
    responses: {
      200: {
        description:
          mode === 'json' ? 'The token is revoked' : 'The token is revoked, and the cookies are removed',
      },
      204: null,
    },
  }),
} satisfies Readonly<Record<string, Describe>>;

const CALLBACK = {
  code: described('Code to exchange for tokens of the provider'),
  state: described('State of the login'),
  error: described('Error code of the provider, in place of a code'),
  error_description: described('Description of the error'),
  iss: described('Issuer of the provider (RFC 9207)'),
};

/**
 * Error responses of all endpoints, in the format of RFC 6749. Null removes a response that the document
 * would otherwise list.
 */
const REFUSALS = {
  400: null,
  404: null,
  503: null,
  429: { $ref: `${REF}/responses/OAuthTooManyRequests` },
  '4XX': { $ref: `${REF}/responses/OAuthRefusal` },
  '5XX': { $ref: `${REF}/responses/OAuthFailure` },
};

/** Possible values of `token_type` for each value of the option `dpop`. */
const TOKEN_TYPES = { off: ['Bearer'], optional: ['Bearer', 'DPoP'], required: ['DPoP'] };

function componentsOf({ mode, dpop }: ReadOptions): object {
  const content = {
    ...json(refTo('OAuthError')),
    ...(mode === 'cookie' && { 'text/html': { schema: TEXT } }),
  };
  const tokens = mode === 'json' ? { access_token: TEXT, refresh_token: TEXT } : {};
  const members = {
    ...tokens,
    token_type: { ...TEXT, enum: mode === 'cookie' ? ['Cookie'] : TOKEN_TYPES[dpop] },
    expires_in: { type: 'integer', minimum: 1, description: 'Seconds' },
    scope: described('Scopes, separated by spaces'),
  };
  const failure = {
    error: { ...TEXT, enum: Object.keys(OAUTH_ERRORS).sort() },
    error_description: TEXT,
    request_id: described('Id of the request in the log'),
  };
  const retryAfter = {
    description: 'How many seconds to wait before the next attempt',
    schema: { type: 'integer', minimum: 0 },
  };
  return {
    schemas: {
      OAuthError: {
        ...objectOf(failure, Object.keys(failure)),
        description: 'Error response (RFC 6749 §5.2)',
      },
      TokenAnswer: {
        ...objectOf(members, Object.keys(members)),
        description: 'Response with tokens (RFC 6749 §5.1)',
      },
    },
    responses: {
      OAuthRefusal: { description: 'The request is refused', content },
      OAuthFailure: { description: 'The application, or the identity provider, has failed', content },
      OAuthTooManyRequests: {
        description: 'The client has sent too many requests',
        headers: { 'Retry-After': retryAfter },
        content,
      },
    },
  };
}

function described(description: string): DescribedSchema {
  return { ...TEXT, description };
}

function queries(schemas: Readonly<Record<string, DescribedSchema>>): object[] {
  return Object.entries(schemas).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    description,
    schema,
  }));
}

function redirect(description: string): object {
  return {
    description,
    headers: {
      Location: {
        description: 'Address to which the browser is redirected',
        schema: { type: 'string', format: 'uri-reference' },
      },
    },
  };
}

function refTo(schema: string): object {
  return { $ref: `${REF}/schemas/${schema}` };
}

function json(schema: object): object {
  return { 'application/json': { schema } };
}

function answer(description: string, schema: object): object {
  return { description, content: json(schema) };
}

function objectOf(properties: Readonly<Record<string, object>>, required: readonly string[] = []): object {
  return { type: 'object', properties, ...(required.length > 0 && { required }) };
}

/** Returns the OpenAPI description of a request body, which is a form or a JSON object. */
function body(properties: Readonly<Record<string, object>>, required: readonly string[] = []): object {
  const schema = objectOf(properties, required);
  return { required: required.length > 0, content: { [FORM]: { schema }, ...json(schema) } };
}
