/**
 * OpenAPI descriptions of the endpoints. The endpoints parse their parameters by hand, and their error
 * responses have a form of their own, so the document cannot be derived from route declarations.
 */
import { OAUTH_ERRORS } from './errors.ts';

/** OpenAPI description of one route. */
interface Described {
  readonly summary: string;
  readonly description: string;
  readonly meta: Readonly<Record<string, unknown>>;
}

/** Options that change the responses. */
interface DocumentedMode {
  readonly mode: 'json' | 'cookie';
  readonly dpop: 'off' | 'optional' | 'required';
  readonly errorPath: string | undefined;
  readonly nativeRedirects: readonly string[];
}

/** The endpoints by name. */
export type EndpointName =
  'login' | 'callback' | 'token' | 'revoke' | 'link' | 'unlink' | 'logout' | 'backchannel-logout';

const TEXT = { type: 'string' } as const;
const REF = '#/components';

/** Summary, description and `meta.openapi` of an endpoint, for one of its methods. */
export function describeEndpoint(
  endpoint: EndpointName,
  method: 'GET' | 'POST',
  documented: DocumentedMode,
): Described {
  const { summary, description, ...operation } = ENDPOINTS[endpoint](documented, method);
  return {
    summary,
    description,
    meta: {
      openapi: {
        ...operation,
        responses: { ...REFUSALS, ...operation.responses },
        components: componentsOf(documented),
      },
    },
  };
}

type Endpoint = Pick<Described, 'summary' | 'description'> & {
  readonly responses: Readonly<Record<string, unknown>>;
} & Readonly<Record<string, unknown>>;

const ENDPOINTS: Readonly<
  Record<EndpointName, (documented: DocumentedMode, method: 'GET' | 'POST') => Endpoint>
> = {
  login: ({ mode, errorPath, dpop, nativeRedirects }) => ({
    summary: 'Begin a login',
    description:
      'Sends the browser to the identity provider, with a PKCE challenge (RFC 7636) and a state that counts once.',
    parameters: [
      query(
        'redirect_uri',
        'Where the provider sends the browser: one of those that are allowed; may be left out where there is one',
        { type: 'string', format: 'uri' },
      ),
      query('scope', 'Fewer scopes of the provider than usual, with spaces between them'),
      query('login_hint', 'Who is about to log in', { type: 'string', maxLength: 200 }),
      query('prompt', 'What the provider asks for', {
        type: 'string',
        enum: ['none', 'login', 'consent', 'select_account'],
      }),
      ...(nativeRedirects.length === 0
        ? []
        : [
            query('client_redirect_uri', 'Where the code for a native client goes'),
            query('code_challenge', 'S256 of the verifier of the client', {
              type: 'string',
              pattern: '^[\\w-]{43}$',
            }),
            query('code_challenge_method', 'How it was made', { type: 'string', const: 'S256' }),
            query('client_state', 'Sent back to the client', { type: 'string', maxLength: 500 }),
          ]),
      ...(dpop === 'off'
        ? []
        : [
            query('dpop_jkt', 'The thumbprint of the key that the tokens are bound to from the start', {
              type: 'string',
              pattern: '^[\\w-]{43}$',
            }),
          ]),
      ...(mode === 'json'
        ? []
        : [query('return_to', 'Where the browser goes afterwards: a path of this application')]),
    ],
    responses: {
      200: null,
      302: redirect('To the identity provider'),
      ...(mode === 'json' || errorPath === undefined
        ? {}
        : { 303: redirect('The login cannot begin, where pages say so') }),
    },
  }),
  callback: ({ mode, nativeRedirects }, method) => ({
    summary: method === 'GET' ? 'End a login' : 'End a login, for providers that answer with a form',
    description: `The identity provider redirects the browser here; the code in the request is exchanged for ${mode === 'json' ? 'tokens' : 'cookies'}.`,
    ...(method === 'GET'
      ? { parameters: Object.entries(CALLBACK).map(([name, description]) => query(name, description)) }
      : {
          requestBody: {
            required: true,
            content: { 'application/x-www-form-urlencoded': { schema: objectOf(CALLBACK) } },
          },
        }),
    responses: {
      200:
        mode === 'cookie' && method === 'GET'
          ? null
          : {
              description:
                mode === 'json'
                  ? 'The login has succeeded'
                  : 'A page that posts the form again, with the cookies of this site',
              content: {
                ...(mode === 'json' ? json('TokenAnswer') : {}),
                ...(method === 'POST' ? { 'text/html': { schema: TEXT } } : {}),
              },
            },
      ...(mode === 'json' && nativeRedirects.length === 0
        ? {}
        : { 303: redirect('The login has succeeded, or failed where pages say so') }),
    },
  }),
  token: ({ mode, dpop, nativeRedirects }) => ({
    summary: 'Refresh an access token',
    description:
      'Returns a new pair of tokens for a refresh token (RFC 6749 §6), which is then used up: using it again ends the login.',
    ...(dpop === 'off'
      ? {}
      : {
          parameters: [
            {
              name: 'DPoP',
              in: 'header',
              required: dpop === 'required',
              description: 'A DPoP proof for the key that the tokens are bound to (RFC 9449)',
              schema: TEXT,
            },
          ],
        }),
    requestBody: body(
      {
        grant_type:
          nativeRedirects.length === 0
            ? { type: 'string', const: 'refresh_token' }
            : { type: 'string', enum: ['refresh_token', 'authorization_code'] },
        ...(nativeRedirects.length === 0
          ? {}
          : { code: TEXT, code_verifier: TEXT, client_redirect_uri: TEXT }),
        refresh_token: TEXT,
        scope: { type: 'string', description: 'A part of the scopes, separated by spaces' },
      },
      mode === 'json' && nativeRedirects.length === 0 ? ['refresh_token'] : [],
    ),
    responses: { 200: { description: 'The new pair of tokens', content: json('TokenAnswer') }, 204: null },
  }),
  link: ({ mode }) => ({
    summary: 'Link another account',
    description:
      'For a logged-in user, by an access token or, from a page of this origin, by cookies: redirects to the identity provider, whose account is added to the user.',
    requestBody: body(
      {
        redirect_uri: { type: 'string', format: 'uri' },
        scope: TEXT,
        login_hint: TEXT,
        prompt: TEXT,
        ...(mode === 'json' ? {} : { return_to: TEXT }),
      },
      [],
    ),
    responses: {
      200: {
        description: 'The address of the provider, for programs',
        content: {
          'application/json': {
            schema: {
              type: 'object',
              required: ['authorization_url'],
              properties: { authorization_url: { type: 'string', format: 'uri' } },
            },
          },
        },
      },
      303: redirect('To the identity provider, for browsers'),
    },
  }),
  unlink: () => ({
    summary: 'Unlink an account',
    description:
      'Unlinks the accounts of this provider from the logged-in user, unless that is the only way to log in.',
    responses: { 204: { description: 'The account is unlinked' }, 200: null },
  }),
  logout: ({ mode }, method) => ({
    summary: 'Log out, at the provider as well',
    description:
      'Ends the login, and redirects to the page of the identity provider that ends its session (OpenID Connect RP-Initiated Logout 1.0).',
    ...(method === 'GET'
      ? {
          parameters: [
            query('post_logout_redirect_uri', 'Where the provider sends the browser afterwards'),
            query('state', 'Sent back there'),
          ],
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
            200: {
              description: 'The address of the provider',
              content: {
                'application/json': {
                  schema: {
                    type: 'object',
                    required: ['logout_url'],
                    properties: { logout_url: { type: ['string', 'null'], format: 'uri' } },
                  },
                },
              },
            },
          }
        : { 200: null, 303: redirect('To the identity provider') },
  }),
  'backchannel-logout': () => ({
    summary: 'Logout by the identity provider',
    description:
      'Called by the identity provider only: ends the logins that its logout token names (OpenID Connect Back-Channel Logout 1.0).',
    requestBody: body({ logout_token: TEXT }, ['logout_token']),
    responses: { 200: { description: 'The logins have ended' } },
  }),
  revoke: ({ mode }) => ({
    summary: 'Log out',
    description: 'Ends the login that a refresh token belongs to (RFC 7009), if there is one.',
    requestBody: body(
      {
        token: TEXT,
        token_type_hint: TEXT,
        refresh_token: { type: 'string', description: 'Another name for `token`' },
      },
      [],
    ),
    responses: {
      200: {
        description:
          mode === 'json' ? 'The token is revoked' : 'The token is revoked, and the cookies are removed',
      },
      204: null,
    },
  }),
};

const CALLBACK = {
  code: 'Code to exchange for tokens of the provider',
  state: 'State of the login',
  error: 'Why there is no code',
  error_description: 'Description for people',
  iss: 'Issuer of the provider (RFC 9207)',
};

/**
 * Error responses, which all have the form of OAuth. Null removes a response that would be derived from the
 * route.
 */
const REFUSALS = {
  400: null,
  404: null,
  413: null,
  415: null,
  503: null,
  429: { $ref: `${REF}/responses/OAuthTooManyRequests` },
  '4XX': { $ref: `${REF}/responses/OAuthRefusal` },
  '5XX': { $ref: `${REF}/responses/OAuthFailure` },
};

function componentsOf({ mode, dpop }: DocumentedMode): object {
  const content = { ...json('OAuthError'), ...(mode === 'cookie' ? { 'text/html': { schema: TEXT } } : {}) };
  const types =
    mode === 'cookie'
      ? ['Cookie']
      : dpop === 'off'
        ? ['Bearer']
        : dpop === 'required'
          ? ['DPoP']
          : ['Bearer', 'DPoP'];
  return {
    schemas: {
      OAuthError: {
        type: 'object',
        description: 'Why a request of OAuth failed (RFC 6749 §5.2)',
        required: ['error', 'error_description', 'request_id'],
        properties: {
          error: { type: 'string', enum: Object.keys(OAUTH_ERRORS).sort() },
          error_description: TEXT,
          request_id: { type: 'string', description: 'Id of the request in the log' },
        },
      },
      TokenAnswer: {
        type: 'object',
        description: 'Response with tokens (RFC 6749 §5.1)',
        required: [
          ...(mode === 'json' ? ['access_token', 'refresh_token'] : []),
          'token_type',
          'expires_in',
          'scope',
        ],
        properties: {
          ...(mode === 'json' ? { access_token: TEXT, refresh_token: TEXT } : {}),
          token_type: { type: 'string', enum: types },
          expires_in: { type: 'integer', minimum: 1, description: 'Seconds' },
          scope: { type: 'string', description: 'Scopes, separated by spaces' },
        },
      },
    },
    responses: {
      OAuthRefusal: { description: 'The request is refused', content },
      OAuthFailure: { description: 'The application, or the identity provider, has failed', content },
      OAuthTooManyRequests: {
        description: 'The client has sent too many requests',
        headers: {
          'Retry-After': {
            description: 'How many seconds to wait before the next attempt',
            schema: { type: 'integer', minimum: 0 },
          },
        },
        content,
      },
    },
  };
}

function query(name: string, description: string, schema: object = TEXT): object {
  return { name, in: 'query', description, schema };
}

function redirect(description: string): object {
  return {
    description,
    headers: { Location: { description: 'Where to', schema: { type: 'string', format: 'uri-reference' } } },
  };
}

function json(schema: string): object {
  return { 'application/json': { schema: { $ref: `${REF}/schemas/${schema}` } } };
}

function objectOf(members: Readonly<Record<string, string>>): object {
  return {
    type: 'object',
    properties: Object.fromEntries(
      Object.entries(members).map(([name, description]) => [name, { type: 'string', description }] as const),
    ),
  };
}

/** Returns a request body that is a form or a JSON object of strings. */
function body(properties: Readonly<Record<string, object>>, required: readonly string[]): object {
  const schema = { type: 'object', properties, ...(required.length === 0 ? {} : { required }) };
  return {
    required: required.length > 0,
    content: { 'application/x-www-form-urlencoded': { schema }, 'application/json': { schema } },
  };
}
