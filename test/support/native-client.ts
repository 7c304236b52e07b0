/**
 * A native client in its own process (RFC 8252 §7.3): it listens on a free port of the loopback interface,
 * uses PKCE, and needs a browser that it does not control. It knows only the address of the server, and
 * imports nothing from this package.
 *
 *   argument: address of the server   IPC: { open } for the browser, then { state, issuer, tokens, refreshed, me } or { error }
 */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface TokenResponse {
  readonly access_token: string;
  readonly refresh_token: string;
  readonly error?: string;
}

const server = process.argv[2]!;
const verifier = randomBytes(32).toString('base64url');
const state = randomBytes(16).toString('base64url');
const listener = createServer().listen(0, '127.0.0.1');
await once(listener, 'listening');
const redirectUri = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/done`;

const open = new URL('/oauth/login', server);
open.search = new URLSearchParams({
  client_redirect_uri: redirectUri,
  code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  code_challenge_method: 'S256',
  client_state: state,
}).toString();
const answered = once(listener, 'request') as Promise<[IncomingMessage, ServerResponse]>;
process.send!({ open: open.href });

const [request, response] = await answered;
response.end('You may close this window');
const parameters = new URL(request.url!, redirectUri).searchParams;
listener.close();

async function tokens(form: Record<string, string>): Promise<TokenResponse> {
  const answer = await fetch(new URL('/oauth/token', server), {
    method: 'POST',
    body: new URLSearchParams(form),
  });
  return (await answer.json()) as TokenResponse;
}

if (parameters.get('state') !== state || parameters.has('error')) {
  process.send!({ error: parameters.get('error') ?? 'state' });
} else {
  const exchange = {
    grant_type: 'authorization_code',
    code: parameters.get('code')!,
    client_redirect_uri: redirectUri,
  };
  const stolen = await tokens({ ...exchange, code_verifier: randomBytes(32).toString('base64url') });
  const first = await tokens({ ...exchange, code_verifier: verifier });
  const next = await tokens({ grant_type: 'refresh_token', refresh_token: first.refresh_token });
  const me = await fetch(new URL('/me', server), {
    headers: { authorization: `Bearer ${next.access_token}` },
  });
  process.send!({
    issuer: parameters.get('iss'),
    stolen: stolen.error,
    isRotated: next.refresh_token.startsWith('svcrt_') && next.refresh_token !== first.refresh_token,
    me: await me.text(),
  });
}
process.disconnect();
