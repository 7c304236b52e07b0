/**
 * What DevProvider says, apart from what it remembers: its answers, its metadata, and which requests are wrong.
 */
import { hash } from 'node:crypto';
import { escapeHtml } from '../../base/html.ts';
import type { DevAlgorithm } from './keys.ts';

/** Somebody to log in as. */
export interface DevUser {
  readonly sub: string;
  readonly name?: string | undefined;
  readonly email?: string | undefined;
  /** Default true. */
  readonly emailVerified?: boolean | undefined;
  readonly picture?: string | undefined;
  /** More claims, in the user info and the id_token. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
}

/** A request as `handle()` takes it. */
export interface DevRequest {
  readonly method: string;
  /** Below the issuer, for example `/authorize`. */
  readonly path: string;
  /** Without the question mark. */
  readonly query: string;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
  /** Where the application was asked, for example `http://localhost:8000`: `redirectUris` that are paths are of this origin. */
  readonly origin?: string | undefined;
}

/** An answer of `handle()`. Names of headers are in lower case. */
export interface DevResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Claims by the scope that asks for them (OpenID Connect Core §5.4). */
const PROFILES: Readonly<Record<string, readonly string[]>> = {
  email: ['email', 'email_verified'],
  profile: ['name', 'picture'],
};

/** The discovery document (OpenID Connect Discovery §3, RFC 8414 §2, RFC 9207 §3); the endpoints are below `url`. */
export function metadataOf(
  issuer: string,
  algorithm: DevAlgorithm,
  url: string,
): Readonly<Record<string, unknown>> {
  return {
    issuer,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    userinfo_endpoint: `${url}/userinfo`,
    jwks_uri: `${url}/jwks`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [algorithm],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    code_challenge_methods_supported: ['S256'],
    scopes_supported: ['openid', 'email', 'profile'],
    authorization_response_iss_parameter_supported: true,
    claims_supported: [
      'sub',
      'iss',
      'aud',
      'exp',
      'iat',
      'auth_time',
      'nonce',
      'at_hash',
      'name',
      'email',
      'email_verified',
      'picture',
    ],
    request_parameter_supported: false,
    request_uri_parameter_supported: false,
    claims_parameter_supported: false,
  };
}

/** What may be asked for where; other methods are answered with 405. */
export const METHODS: ReadonlyMap<string, string> = new Map([
  ['/.well-known/openid-configuration', 'GET, HEAD'],
  ['/jwks', 'GET, HEAD'],
  ['/authorize', 'GET, HEAD, POST'],
  ['/token', 'POST'],
  ['/userinfo', 'GET, HEAD, POST'],
]);

/** The error of an authorization request that goes back to the application (RFC 6749 §4.1.2.1, RFC 7636 §4.4.1). */
export function authorizationError(
  given: URLSearchParams,
  one: (name: string) => string | undefined,
): string | undefined {
  if (new Set(given.keys()).size < given.size) return 'invalid_request';
  if (given.has('request')) return 'request_not_supported';
  if (given.has('request_uri')) return 'request_uri_not_supported';
  if (!given.has('response_type') || (given.get('response_mode') ?? 'query') !== 'query')
    return 'invalid_request';
  if (given.get('response_type') !== 'code') return 'unsupported_response_type';
  return one('code_challenge_method') === 'S256' && /^[\w-]{43}$/.test(one('code_challenge') ?? '')
    ? undefined
    : 'invalid_request';
}

/** The claims of a user that these scopes give (OpenID Connect Core §5.4). */
export function claimsOf(
  { sub, name, email, emailVerified = true, picture, claims }: DevUser,
  scopes: readonly string[],
): Record<string, unknown> {
  const all: Readonly<Record<string, unknown>> = {
    name,
    picture,
    email,
    email_verified: email === undefined ? undefined : emailVerified,
  };
  const allowed = scopes.flatMap((scope) => (Object.hasOwn(PROFILES, scope) ? PROFILES[scope]! : []));
  return {
    ...claims,
    ...Object.fromEntries(
      allowed.filter((claim) => all[claim] !== undefined).map((claim) => [claim, all[claim]]),
    ),
    sub,
  };
}

/** A page for mistakes that must not be sent back to anybody. */
export function badPage(problem: string): DevResponse {
  return { status: 400, headers: pageHeaders([]), body: errorPage(problem) };
}

/** RFC 6749 §5.2. */
export function tokenError(
  error: string,
  status: number = 400,
  headers: Readonly<Record<string, string>> = {},
): DevResponse {
  return json(status, { error }, { 'cache-control': 'no-store', pragma: 'no-cache', ...headers });
}

/** An answer in JSON. */
export function json(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): DevResponse {
  return {
    status,
    headers: { 'content-type': 'application/json', 'x-content-type-options': 'nosniff', ...headers },
    body: JSON.stringify(body),
  };
}

/*
 * The pages of DevProvider: plain HTML, no scripts, nothing from elsewhere.
 */

/** Somebody who may be picked. */
interface PickableUser {
  readonly sub: string;
  readonly name: string;
  readonly email: string | undefined;
}

const STYLE =
  'body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem;color:#1b1b1b;background:#fff;overflow-wrap:anywhere}' +
  'button{display:block;width:100%;margin:.5rem 0;padding:.75rem 1rem;font:inherit;text-align:left;color:inherit;' +
  'background:#f2f4f7;border:1px solid #667085;border-radius:.5rem;cursor:pointer}' +
  'button:hover,button:focus-visible{background:#dde7f7;outline:2px solid #1d4ed8}small{display:block;color:#475467}' +
  '@media(prefers-color-scheme:dark){body{color:#f2f4f7;background:#16181d}button{background:#262a33;border-color:#98a2b3}button:hover,button:focus-visible{background:#1e3a6e;outline-color:#93c5fd}small{color:#d0d5dd}}';
const STYLE_HASH = hash('sha256', STYLE, 'base64');

/**
 * Headers of a page. `formOrigins`: where a sent form may lead, for browsers judge the redirect that answers it as well
 * (Content Security Policy, form-action).
 */
export function pageHeaders(formOrigins: readonly string[]): Record<string, string> {
  const targets = formOrigins.length === 0 ? "'none'" : ["'self'", ...formOrigins].join(' ');
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action ${targets}; base-uri 'none'; frame-ancestors 'none'`,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  };
}

/** Asks who is logging in. `parameters` are those of the authorization request, and come back with the answer. */
export function pickerPage(
  action: string,
  parameters: Readonly<Record<string, string>>,
  users: readonly PickableUser[],
): string {
  const hidden = Object.entries(parameters).map(
    ([name, value]) => `<input type="hidden" name="${escapeHtml(name)}" value="${escapeHtml(value)}">`,
  );
  const buttons = users.map(
    ({ sub, name, email }) =>
      `<button name="user" value="${escapeHtml(sub)}">${escapeHtml(name)}<small>${escapeHtml(email ?? sub)}</small></button>`,
  );
  return page(
    'Choose who to be',
    `<p>This stands in for an identity provider during development. Nobody is asked for a password.</p>
<form method="post" action="${escapeHtml(action)}">
${hidden.join('\n')}
${buttons.join('\n')}
<button name="deny" value="1">Cancel the login</button>
</form>`,
  );
}

/** Says why nobody is sent anywhere. */
function errorPage(problem: string): string {
  return page('This login cannot go on', `<p>${escapeHtml(problem)}</p>`);
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
}
