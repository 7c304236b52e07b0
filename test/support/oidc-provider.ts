/**
 * oidc-provider, a certified OpenID provider: installed for the tests, and started on a free port.
 */
import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { LateServer } from '../oauth/support/late-server.ts';
import { scratch } from './scratch.ts';
import type { TestContext } from 'node:test';
import type { Listener } from '../oauth/support/late-server.ts';

/** Members of `oidc-provider` that these tests use. */
interface OidcProviderModule {
  readonly default: new (issuer: string, configuration: object) => { callback(): Listener };
}

/** Imports a file of a package that the tests of logins install; undefined when the test is skipped. */
export async function importedParty<T>(t: TestContext, file: string): Promise<T | undefined> {
  const folder = scratch(t, 'oauth-parties', { 'oidc-provider': '^9.13.0', oauth4webapi: '^3.8.0' });
  return folder === undefined
    ? undefined
    : ((await import(pathToFileURL(join(folder, 'node_modules', file)).href)) as T);
}

const KEY = generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export({ format: 'jwk' });

/**
 * Feature of an oidc-provider that issues access tokens for every resource (RFC 8707), as JWTs by RS256 (RFC 9068).
 * `scope` has the scopes of the resources.
 */
export function tokensForResources(scope: string): { readonly resourceIndicators: object } {
  return {
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context: unknown, audience: string) => ({
        scope,
        audience,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  };
}

/** A running oidc-provider. Its address is known before its configuration. */
export class CertifiedProvider implements AsyncDisposable {
  readonly #module: OidcProviderModule;
  readonly #server: LateServer;

  /** The issuer, without a slash at its end. */
  readonly url: string;

  private constructor(module: OidcProviderModule, server: LateServer, url: string) {
    this.#module = module;
    this.#server = server;
    this.url = url;
  }

  /**
   * Returns undefined when the test is skipped. `hostname` is the host of the issuer, for a proxy that leads to
   * this machine.
   */
  static async start(t: TestContext, hostname: string = '127.0.0.1'): Promise<CertifiedProvider | undefined> {
    const module = await importedParty<OidcProviderModule>(t, 'oidc-provider/lib/index.js');
    if (module === undefined) return undefined;
    for (const method of ['info', 'warn'] as const) t.mock.method(console, method, () => undefined); // its advice for production
    const server = await LateServer.start();
    return new CertifiedProvider(module, server, server.url.replace('127.0.0.1', hostname));
  }

  /** Address on this machine. */
  get address(): string {
    return this.#server.url;
  }

  /**
   * Sets the configuration. Requests wait for it. Users log in by a page with a form, and agree by another. The
   * default key signs by RS256.
   */
  configure({ features, ...configuration }: Readonly<Record<string, unknown>> & { features?: object }): void {
    const provider = new this.#module.default(this.url, {
      jwks: { keys: [{ ...KEY, kid: 'provider-1', use: 'sig', alg: 'RS256' }] },
      cookies: { keys: ['3f0a9c7d5e1b48263f0a9c7d5e1b4826'] },
      features: { devInteractions: { enabled: true }, ...features },
      ...configuration,
    });
    this.#server.answerWith(provider.callback());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#server[Symbol.asyncDispose]();
  }
}
