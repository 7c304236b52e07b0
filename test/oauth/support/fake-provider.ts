/** Scripted identity provider. It counts requests, and by default logs in the user Ada. */
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { CERTIFICATE_PEM, KEY_PEM } from './tls.ts';
import type { JsonWebKey, KeyObject, KeyPairKeyObjectResult } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';

/** A received request. */
export interface SeenRequest {
  readonly endpoint: Endpoint;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly form: URLSearchParams;
  /** Name of the server in the TLS handshake. */
  readonly servername: TLSSocket['servername'] | undefined;
}

/** Names of the endpoints: the last segments of their paths. */
export type Endpoint = 'discovery' | 'token' | 'userinfo' | 'emails' | 'jwks' | 'other';

/** Response that replaces the default one. A body that is an object is sent as JSON. */
export interface Scripted {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The response is sent when this promise resolves. */
  readonly until?: Promise<unknown>;
  /** Sends the response in place of the provider. */
  readonly answer?: (response: ServerResponse, request: IncomingMessage) => void;
}

/** Key pairs of three kinds, generated once because that takes time. */
export const RSA: KeyPairKeyObjectResult = generateKeyPairSync('rsa', { modulusLength: 2_048 });
export const EC: KeyPairKeyObjectResult = generateKeyPairSync('ec', { namedCurve: 'P-256' });
export const EC384: KeyPairKeyObjectResult = generateKeyPairSync('ec', { namedCurve: 'P-384' });
export const EC521: KeyPairKeyObjectResult = generateKeyPairSync('ec', { namedCurve: 'P-521' });
export const ED: KeyPairKeyObjectResult = generateKeyPairSync('ed25519');

const PATHS: Readonly<Record<string, Endpoint | undefined>> = {
  '/.well-known/openid-configuration': 'discovery',
  '/token': 'token',
  '/userinfo': 'userinfo',
  '/emails': 'emails',
  '/jwks': 'jwks',
};

/** Signs a JWS with any header and claims. */
export function jws(
  header: Readonly<Record<string, unknown>>,
  claims: unknown,
  key: KeyObject = RSA.privateKey,
): string {
  const parts = [header, claims]
    .map((part) => Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url'))
    .join('.');
  const [, family = '', bits = '256'] = /^(..)(256|384|512)$/.exec(String(header['alg'])) ?? [];
  const how =
    family === 'PS'
      ? { key, padding: 6, saltLength: Number(bits) / 8 }
      : { key, dsaEncoding: 'ieee-p1363' as const };
  return `${parts}.${sign(/^Ed/.test(String(header['alg'])) ? null : `sha${bits}`, Buffer.from(parts), how).toString('base64url')}`;
}

/** Returns a public key as a member of a JWK set. */
export function jwk(
  key: KeyObject,
  more: Readonly<Record<string, unknown>> = {},
): JsonWebKey & Record<string, unknown> {
  return { ...key.export({ format: 'jwk' }), ...more };
}

/** A server on a free port of 127.0.0.1 until it is disposed. */
export class FakeProvider {
  readonly requests: SeenRequest[] = [];
  readonly sockets: Set<Socket> = new Set();
  /** Keys of the JWK set. */
  keys: unknown[] = [jwk(RSA.publicKey, { kid: 'rsa', use: 'sig', alg: 'RS256' })];
  /** Claims that are added to the id_token, or replace its own. */
  claims: Record<string, unknown> = {};
  /** Nonce of the id_token. The test sets it, because no browser opens the authorization page. */
  nonce = 'n-1';
  user: unknown = {
    sub: 'ada',
    name: 'Ada Lovelace',
    email: 'ada@example.test',
    email_verified: true,
    picture: 'https://example.test/ada.png',
  };
  metadata: Record<string, unknown> = {};
  nowSeconds: () => number = () => 1_704_067_200;
  readonly #next = new Map<Endpoint, Scripted[]>();
  readonly #server: Server;
  readonly #scheme: string;

  private constructor(server: Server, scheme: string) {
    this.#server = server;
    this.#scheme = scheme;
    server.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.sockets.delete(socket));
    });
  }

  static async start(options: { readonly isTls?: boolean } = {}): Promise<FakeProvider> {
    const server =
      options.isTls === true
        ? https.createServer({ cert: CERTIFICATE_PEM, key: KEY_PEM })
        : http.createServer();
    const fake = new FakeProvider(server, options.isTls === true ? 'https' : 'http');
    server.on(
      'request',
      (request: IncomingMessage, response: ServerResponse) => void fake.#serve(request, response),
    );
    server.on('tlsClientError', () => undefined);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return fake;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }
  /** The issuer, and the prefix of all its URLs. */
  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}`;
  }

  /** Returns the number of requests to one endpoint, or to all. */
  count(endpoint?: Endpoint): number {
    return endpoint === undefined
      ? this.requests.length
      : this.requests.filter((each) => each.endpoint === endpoint).length;
  }

  /** Scripts the next response of an endpoint; several scripts are used in order. */
  failNext(endpoint: Endpoint, scripted: Scripted): void {
    this.#next.set(endpoint, [...(this.#next.get(endpoint) ?? []), scripted]);
  }

  /** Resolves when this number of requests has arrived. */
  async arrived(count: number): Promise<void> {
    while (this.requests.length < count) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Resolves when no client is connected. */
  async left(): Promise<void> {
    while (this.sockets.size > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Returns an id_token with these claims and this key id. */
  idToken(claims: Readonly<Record<string, unknown>> = {}, kid: string = 'rsa'): string {
    const iat = this.nowSeconds();
    return jws(
      { alg: 'RS256', typ: 'JWT', kid },
      {
        iss: this.url,
        aud: 'client',
        sub: 'ada',
        iat,
        exp: iat + 300,
        nonce: this.nonce,
        ...this.claims,
        ...claims,
      },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = request.url!;
    const endpoint = PATHS[url.split('?', 1)[0]!] ?? 'other';
    this.requests.push({
      endpoint,
      method: request.method!,
      url,
      headers: request.headers as Record<string, string>,
      form: new URLSearchParams(Buffer.concat(chunks).toString()),
      servername: (request.socket as Partial<TLSSocket>).servername,
    });
    const scripted = this.#next.get(endpoint)?.shift();
    if (scripted?.answer !== undefined) return scripted.answer(response, request);
    const { status = 200, headers = {}, body = this.#usual(endpoint), until } = scripted ?? {};
    await until;
    const isText = typeof body === 'string' || body instanceof Uint8Array;
    response
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(isText ? body : JSON.stringify(body));
  }

  #usual(endpoint: Endpoint): unknown {
    switch (endpoint) {
      case 'token':
        return {
          access_token: `at-${randomBytes(4).toString('hex')}`,
          token_type: 'Bearer',
          expires_in: 3600,
          id_token: this.idToken(),
        };
      case 'userinfo':
        return this.user;
      case 'emails':
        return [{ email: 'ada@example.test', primary: true, verified: true }];
      case 'jwks':
        return { keys: this.keys };
      case 'discovery':
        return {
          issuer: this.url,
          authorization_endpoint: `${this.url}/authorize`,
          token_endpoint: `${this.url}/token`,
          userinfo_endpoint: `${this.url}/userinfo`,
          jwks_uri: `${this.url}/jwks`,
          token_endpoint_auth_methods_supported: ['client_secret_post'],
          ...this.metadata,
        };
      default:
        return {};
    }
  }
}

/** Returns the left half of a hash of a text, like the claim `at_hash`. */
export function halfHash(text: string, algorithm: string = 'sha256'): string {
  const digest = createHash(algorithm).update(text).digest();
  return digest.subarray(0, digest.length / 2).toString('base64url');
}

/** Returns the S256 challenge of a verifier (RFC 7636 §4.2). */
export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url');
}
