/**
 * What a request to log in may ask for.
 */
import { localPath } from '../http/local-path.ts';
import { OAuthError } from './errors.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { Parameters } from './parameters.ts';

const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);

/** Browsers that guess which link comes next must not begin or finish a login, nor must whoever only asks for the head. */
export function isLook(req: HttpRequest): boolean {
  return (
    req.method === 'HEAD' ||
    /\bprefetch\b|\bpreview\b/i.test(
      `${req.headers['sec-purpose'] ?? ''} ${req.headers['purpose'] ?? ''} ${req.headers['x-moz'] ?? ''}`,
    )
  );
}

/** Where the browser goes afterwards. @throws OAuthError `invalid_request` for what is no path of this application */
export function returnToOf(parameter: Parameters): string | null {
  const given = parameter('return_to');
  if (given === undefined) return null;
  const path = localPath(given);
  if (path === undefined)
    throw new OAuthError('invalid_request', { description: 'return_to is a path of this application' });
  return path;
}

/** What a login may pass on to the provider; everything else is not. */
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

/** Fewer scopes than the provider is configured with, never others; `openid` stays, since an id_token is expected. */
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
