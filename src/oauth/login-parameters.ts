/**
 * Parameters of a request to log in.
 */
import { localPath } from '../http/path.ts';
import { OAuthError } from './errors.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { ClientRedirects } from './client-redirects.ts';
import type { ClientLogin } from './login-state.ts';
import type { Parameters } from './parameters.ts';

const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);

/** Whether a request only looks ahead: HEAD, or a prefetch of a link. It must not begin or finish a login. */
export function isLook(req: HttpRequest): boolean {
  return (
    req.method === 'HEAD' ||
    /\bprefetch\b|\bpreview\b/i.test(
      `${req.headers['sec-purpose'] ?? ''} ${req.headers['purpose'] ?? ''} ${req.headers['x-moz'] ?? ''}`,
    )
  );
}

/** Limited because it is kept in a cookie. */
const MAX_RETURN_TO = 2_000;

/** Local path to open after the login. @throws OAuthError `invalid_request` for anything but a path of this application */
export function returnToOf(parameter: Parameters): string | null {
  const given = parameter('return_to', MAX_RETURN_TO);
  if (given === undefined) return null;
  const path = localPath(given);
  if (path === undefined)
    throw new OAuthError('invalid_request', { description: 'return_to is a path of this application' });
  return path;
}

/** Parameters that are passed on to the provider. All others are ignored. */
export function extraOf(parameter: Parameters): Readonly<Record<string, string>> {
  const extra: Record<string, string> = {};
  const [hint, prompt] = [parameter('login_hint'), parameter('prompt')];
  if (hint !== undefined) {
    if (!/^[^\p{Cc}]{1,200}$/u.test(hint))
      throw new OAuthError('invalid_request', {
        description: 'login_hint is a text of at most 200 characters',
      });
    extra['login_hint'] = hint;
  }
  if (prompt !== undefined) {
    if (!PROMPTS.has(prompt))
      throw new OAuthError('invalid_request', { description: `prompt is one of ${[...PROMPTS].join(', ')}` });
    extra['prompt'] = prompt;
  }
  return extra;
}

/** Scopes for one login: a subset of the provider's. `openid` stays, because an id_token is expected. */
export function scopesOf(
  asked: string | undefined,
  configured: readonly string[],
): readonly string[] | undefined {
  if (asked === undefined) return undefined;
  const scopes = asked.split(' ').filter((scope) => scope !== '');
  if (!scopes.every((scope) => configured.includes(scope)))
    throw new OAuthError('invalid_scope', {
      description: 'The scope asked for exceeds what this provider is configured with',
    });
  return configured.includes('openid') && !scopes.includes('openid') ? ['openid', ...scopes] : scopes;
}

const MAX_CLIENT_CHARACTERS = 500;

/** The native client that a login is for (RFC 8252); null for a login of the browser itself. @throws OAuthError `invalid_request`, `invalid_redirect_uri` */
export function clientOf(parameter: Parameters, redirects: ClientRedirects): ClientLogin | null {
  const redirectUri = parameter('client_redirect_uri', MAX_CLIENT_CHARACTERS);
  const challenge = parameter('code_challenge');
  const state = parameter('client_state', MAX_CLIENT_CHARACTERS) ?? null;
  if (redirectUri === undefined) {
    if (challenge === undefined && state === null) return null;
    throw new OAuthError('invalid_request', {
      description: 'code_challenge and client_state need a client_redirect_uri',
    });
  }
  if (!redirects.allows(redirectUri)) throw new OAuthError('invalid_redirect_uri');
  if (
    challenge === undefined ||
    !/^[\w-]{43}$/.test(challenge) ||
    parameter('code_challenge_method') !== 'S256'
  )
    throw new OAuthError('invalid_request', {
      description: 'A client needs a code_challenge of 43 characters, and code_challenge_method=S256',
    });
  if (state !== null && !/^[\x20-\x7e]+$/.test(state))
    throw new OAuthError('invalid_request', { description: 'client_state is printable ASCII' });
  return { redirectUri, challenge, state };
}
