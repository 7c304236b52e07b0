/** Serves DevProvider on its own server, or through routes of an application. */
import { splitQuery } from '../../http/path.ts';
import { HttpResponse } from '../../http/response.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Router } from '../../routing/route.ts';
import type { InProcess, OAuthProviderOptions } from '../provider/options.ts';
import type { DevRequest, DevResponse } from './protocol.ts';

/** Function that passes a request to DevProvider, and returns its response. */
export type Handle = (request: DevRequest) => Promise<DevResponse>;

const MAX_BODY_BYTES = 65_536;
/** The routes are public, because their users have no token yet. */
const SPEC = {
  public: 'Development stand-in for an identity provider',
  mcp: false,
  rateLimit: false,
  meta: { csrf: false, docs: false, idempotency: false },
  summary: 'Identity provider for development',
} as const;

export async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  handle: Handle,
): Promise<void> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) return void response.writeHead(413, { connection: 'close' }).end();
      chunks.push(chunk);
    }
    const [path, query] = splitQuery(request.url ?? '/');
    const headers = request.headers as Readonly<Record<string, string | undefined>>;
    const answer = await handle({
      method: request.method ?? '',
      path,
      query,
      headers,
      body: Buffer.concat(chunks).toString(),
    });
    response
      .writeHead(answer.status, answer.headers)
      .end(request.method === 'HEAD' ? undefined : answer.body);
  } catch {
    response.destroy(); // an error occurred: for example, the client has disconnected
  }
}

export function serveOn(router: Router, path: string, handle: Handle): void {
  router.route(`${path}/{rest:path}`, ['GET', 'POST'], SPEC, async ({ req }) => {
    const [, query] = splitQuery(req.target);
    const origin = `${req.scheme}://${req.host}`;
    const answer = await handle({
      method: req.method,
      path: req.path.slice(path.length),
      query,
      headers: req.headers,
      body: await req.text({ maxBytes: MAX_BODY_BYTES }),
      origin,
    });
    return new HttpResponse(answer.body, { status: answer.status, headers: answer.headers });
  });
}

/** Returns a transport that passes requests for the provider to `handle`, without a network. */
export function inProcess(issuer: string, handle: Handle): InProcess {
  return {
    async call({ method, url, headers = {}, body = '' }) {
      const [address, query] = splitQuery(url);
      const answer = await handle({ method, path: address.slice(issuer.length), query, headers, body });
      return {
        status: answer.status,
        mediaType: answer.headers['content-type'] ?? '',
        body: Buffer.from(answer.body),
        isPrivate: true,
      };
    },
    close() {
      /** there are no connections to close */
    },
  };
}

/**
 * Returns the endpoints of a provider that an application serves below `path`, as options of OAuthProvider. They
 * are not discovered, because the application may not accept requests yet.
 */
export function pathsBelow(issuer: string, path: string): Partial<OAuthProviderOptions> {
  // `http://localhost` is a placeholder: in URLs for browsers, the origin of the application replaces it
  const here = `http://localhost${path}`;
  return {
    authorizeUrl: `${here}/authorize`,
    endSessionUrl: `${here}/logout`,
    tokenUrl: `${issuer}/token`,
    userinfoUrl: `${issuer}/userinfo`,
    jwksUrl: `${issuer}/jwks`,
  };
}
