/** FakeIssuer: an authorization server for tests. It signs access tokens with a fresh key, and serves nothing. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { withKeys } from '../auth/issuer/guard.ts';
import { systemClock } from '../base/clock.ts';
import { given, isObject, oneOf, readOptions } from '../base/options.ts';
import { signedToken } from '../crypto/jws.ts';
import type { KeyObject } from 'node:crypto';
import type { AuthSource } from '../auth/auth.ts';
import type { Clock } from '../base/clock.ts';
import type { Context } from '../http/contracts.ts';

/** Options of {@link FakeIssuer}. An option that is `undefined` has its default. */
export interface FakeIssuerOptions {
  /** Claim `aud` of the tokens. Default: none, so that each token names its own. */
  readonly audience?: string | readonly string[] | undefined;
  /** Signature algorithm. Default `ES256`. */
  readonly algorithm?: 'RS256' | 'ES256' | 'EdDSA' | undefined;
  /** Clock of the tokens' times. Default: the system clock. */
  readonly clock?: Clock | undefined;
}

const VALID_SECONDS = 300;

/**
 * An authorization server for tests of an application with IssuerAuth().
 *
 * Example:
 *   const issuer = new FakeIssuer('https://login.example', { audience: 'https://api.example' });
 *   await using client = new TestClient(app, { overrides: [issuer.overrideOf(token)] });
 *   const headers = { authorization: `Bearer ${issuer.token({ sub: 'ada', scope: 'orders:read' })}` };
 */
export class FakeIssuer {
  readonly #issuer: string;
  readonly #audience: string | readonly string[] | undefined;
  readonly #algorithm: 'RS256' | 'ES256' | 'EdDSA';
  readonly #clock: Clock;
  readonly #keyId = randomBytes(8).toString('hex');
  readonly #pair: { readonly privateKey: KeyObject; readonly publicKey: KeyObject };

  /** `issuer` is the claim `iss`: the option `issuer` of the guard under test. */
  constructor(issuer: string, options: FakeIssuerOptions = {}) {
    const { audience, algorithm, clock } = readOptions('FakeIssuer', options, {
      audience: given<string | readonly string[]>(),
      algorithm: oneOf(['RS256', 'ES256', 'EdDSA'], 'ES256'),
      clock: given<Clock>('a clock', isObject),
    });
    this.#issuer = issuer;
    this.#audience = audience;
    this.#algorithm = algorithm;
    this.#clock = clock ?? systemClock;
    this.#pair = PAIRS[algorithm]();
  }

  /** The public key as a JWK set (RFC 7517 §5). */
  get jwks(): { readonly keys: readonly Readonly<Record<string, unknown>>[] } {
    const key = this.#pair.publicKey.export({ format: 'jwk' });
    return { keys: [{ ...key, kid: this.#keyId, use: 'sig', alg: this.#algorithm }] };
  }

  /**
   * Returns an access token (RFC 9068) that is valid for five minutes. `claims` are added to the usual ones, and
   * replace them: a claim that is `undefined` is left out. `header` does the same for the header.
   */
  token(
    claims: Readonly<Record<string, unknown>> & { readonly sub?: string },
    header: { readonly typ?: string; readonly kid?: string } = {},
  ): string {
    const iat = Math.floor(this.#clock.nowMs() / 1_000);
    const usual = { iss: this.#issuer, aud: this.#audience, iat, exp: iat + VALID_SECONDS, sub: 'ada' };
    return signedToken(
      this.#pair.privateKey,
      { alg: this.#algorithm, typ: 'at+jwt', kid: this.#keyId, ...header },
      { ...usual, jti: randomBytes(8).toString('hex'), ...claims },
    );
  }

  /**
   * Returns an element of the option `overrides` of TestClient: the guard then verifies the tokens of these
   * issuers, and fetches no keys. `others` are further issuers that the guard trusts.
   *
   * @throws SvcError `E_AUTH` if IssuerAuth() did not create the guard, or it does not trust an issuer
   */
  overrideOf(
    guard: AuthSource<unknown>,
    ...others: readonly FakeIssuer[]
  ): readonly [source: unknown, replacement: (context: Context) => unknown] {
    return withKeys(guard, new Map([this, ...others].map((each) => [each.#issuer, each.jwks.keys])));
  }
}

const PAIRS = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2_048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: () => generateKeyPairSync('ed25519'),
} as const;
