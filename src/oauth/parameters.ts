/**
 * Reads the parameters of requests. Each parameter may occur only once (RFC 6749 §3.1, RFC 6749 §3.2), and
 * has a maximum length.
 */
import { own } from '../base/options.ts';
import { OAuthError, invalidRequest, redirectRefused } from './errors.ts';
import { allowsClientRedirect } from './redirects.ts';
import { parseObject } from '../crypto/jwt-json.ts';
import { localPath } from '../http/path.ts';
import { isSubject } from './provider/user-info.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { MultiMap } from '../http/request/query.ts';
import type { ClientLogin } from './login-state.ts';

const MAX_LENGTH = 4_096;
const MAX_BODY_BYTES = 16_384;

/**
 * Function that returns a parameter by name; undefined if it is absent or empty (RFC 6749 §3.1). Throws if it
 * has more than `maxLength` characters, by default 4,096.
 */
export type Parameters = (name: string, maxLength?: number) => string | undefined;

/** Returns a function that reads the parameters of a query or form. */
export function parametersOf(from: MultiMap): Parameters {
  return (name, maxLength = MAX_LENGTH) => {
    const values = from.getAll(name);
    if (values.length > 1) throw invalidRequest(`The parameter ${name} occurs more than once`);
    const [value] = values;
    if (value !== undefined && value.length > maxLength)
      throw invalidRequest(`The parameter ${name} is longer than ${maxLength} characters`);
    return value === '' ? undefined : value;
  };
}

/**
 * Returns a function that reads the parameters in a request body: a form, or a JSON object of strings. An
 * empty body has no parameters.
 *
 * @throws HTTPException 400, 413, 415
 */
export async function bodyParameters(req: HttpRequest): Promise<Parameters> {
  const type = req.headers['content-type'];
  const options = { maxBytes: MAX_BODY_BYTES };
  if (type === undefined && (await req.body(options)).length === 0) return () => undefined;
  if (type === undefined || !/^application\/(?:[\w.+-]*\+)?json\s*(?:;|$)/i.test(type))
    return parametersOf(await req.form(options));
  await req.json(options); // called only for its error, which names the position of invalid JSON
  const body = parseObject(await req.text(options));
  if (body === undefined)
    throw invalidRequest('The request body must be a JSON object without duplicate members');
  return (name, maxLength = MAX_LENGTH) => {
    const value = own(body, name);
    if (value === undefined || value === null || value === '') return undefined;
    if (typeof value !== 'string' || value.length > maxLength)
      throw invalidRequest(`The parameter ${name} must be a string of at most ${maxLength} characters`);
    return value;
  };
}

const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);

/** Returns whether a request is a HEAD request or a prefetch, which must not affect a login. */
export function isLook(req: HttpRequest): boolean {
  return (
    req.method === 'HEAD' ||
    /\bprefetch\b|\bpreview\b/i.test(
      `${req.headers['sec-purpose'] ?? ''} ${req.headers['purpose'] ?? ''} ${req.headers['x-moz'] ?? ''}`,
    )
  );
}

/** Maximum length of `return_to` in characters. It is part of a cookie, whose size is limited. */
const MAX_RETURN_TO = 2_000;

/** Returns the parameter `return_to`, a local path to open after the login. */
export function returnToOf(parameter: Parameters): string | null {
  const given = parameter('return_to', MAX_RETURN_TO);
  if (given === undefined) return null;
  const path = localPath(given);
  if (path === undefined)
    throw invalidRequest('return_to must be a path of this application, such as /account');
  return path;
}

/** Returns the parameter `subject`, the id of a user at a provider; undefined if it is absent. */
export function subjectOf(parameter: Parameters): string | undefined {
  const given = parameter('subject');
  if (given === undefined || isSubject(given)) return given;
  throw invalidRequest('subject must be a text of 1 to 255 characters without control characters');
}

/** Returns the parameters that the client sends for the provider: `login_hint` and `prompt`. */
export function extraOf(parameter: Parameters): Readonly<Record<string, string>> {
  const extra: Record<string, string> = {};
  const [hint, prompt] = [parameter('login_hint'), parameter('prompt')];
  if (hint !== undefined) {
    if (!/^[^\p{Cc}]{1,200}$/u.test(hint))
      throw invalidRequest('login_hint must be a text of 1 to 200 characters without control characters');
    extra['login_hint'] = hint;
  }
  if (prompt !== undefined) {
    if (!PROMPTS.has(prompt)) throw invalidRequest(`prompt must be one of ${[...PROMPTS].join(', ')}`);
    extra['prompt'] = prompt;
  }
  return extra;
}

/** Returns the scopes that a client asks for; undefined if it names none. */
export function scopesOf(
  asked: string | undefined,
  configured: readonly string[],
): readonly string[] | undefined {
  if (asked === undefined) return undefined;
  const scopes = asked.split(' ').filter((scope) => scope !== '');
  if (!scopes.every((scope) => configured.includes(scope)))
    throw new OAuthError('invalid_scope', {
      description: 'The request names a scope that is not configured for this provider',
    });
  return scopes;
}

const MAX_CLIENT_CHARACTERS = 500;

/** Returns the native client that logs in (RFC 8252); null if the browser itself logs in. */
export function clientOf(parameter: Parameters, redirects: readonly string[]): ClientLogin | null {
  const client = linkClientOf(parameter, redirects);
  const challenge = parameter('code_challenge');
  if (client === null) {
    if (challenge === undefined) return null;
    throw invalidRequest('code_challenge requires the parameter client_redirect_uri');
  }
  if (
    challenge === undefined ||
    !/^[\w-]{43}$/.test(challenge) ||
    parameter('code_challenge_method') !== 'S256'
  )
    throw invalidRequest(
      'client_redirect_uri requires a code_challenge of 43 characters and code_challenge_method=S256',
    );
  return { ...client, challenge };
}

/** Returns the native client that links an account. A link needs no challenge. */
export function linkClientOf(parameter: Parameters, redirects: readonly string[]): ClientLogin | null {
  const redirectUri = parameter('client_redirect_uri', MAX_CLIENT_CHARACTERS);
  const state = parameter('client_state', MAX_CLIENT_CHARACTERS) ?? null;
  if (redirectUri === undefined) {
    if (state === null) return null;
    throw invalidRequest('client_state requires the parameter client_redirect_uri');
  }
  if (!allowsClientRedirect(redirects, redirectUri))
    throw redirectRefused('client_redirect_uri', redirectUri);
  if (state !== null && !/^[\x20-\x7e]+$/.test(state))
    throw invalidRequest('client_state must consist of printable ASCII characters');
  return { redirectUri, challenge: null, state };
}
