/**
 * DPoP (RFC 9449) binds the tokens of a login to a key. See the option `dpop` of the plugin; auth/dpop.ts
 * checks the proofs.
 *
 * A login is bound to a key from its start only if the parameter `dpop_jkt` names the key (RFC 9449 §10).
 * Without this parameter, the first refresh with a proof binds the login to the key of the proof. From then
 * on, only that key can refresh the login.
 *
 * Access tokens of a bound login have the claim `cnf: { jkt }` (RFC 9449 §6.1), and require the scheme `DPoP`
 * with a proof of that key.
 *
 * Server nonces (RFC 9449 §8) show that a proof is new, even if the client's clock is wrong. A nonce consists
 * of the number of a five-minute window and its HMAC, so nothing is stored.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { PROOF_ALGORITHMS, carrierOf, dpopTokenOf, issueOfSender, readProof } from '../../auth/dpop.ts';
import { OAuthError } from '../errors.ts';
import type { KeyObject } from 'node:crypto';
import type { ProofChecks } from '../../auth/dpop.ts';
import type { Clock } from '../../base/clock.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { Audit } from '../audit.ts';
import type { SingleUse } from '../single-use.ts';
import type { Keyring } from '../../crypto/keys.ts';

interface DPoPDeps {
  readonly isRequired: boolean;
  readonly requiresNonce: boolean;
  readonly nonces: DpopNonces;
  readonly used: SingleUse;
  readonly clock: Clock;
  readonly audit: Audit;
}

/** Verifies DPoP proofs (RFC 9449). A proof is accepted only once, even if there are several processes. */
export class DPoP {
  readonly #deps: DPoPDeps;
  /** Result of accepts() for each request: a proof is used once, but may be checked twice. */
  readonly #judged = new WeakMap<HttpRequest, Promise<boolean>>();
  /** Error code in `WWW-Authenticate` for each request with a refused proof. */
  readonly #unproven = new WeakMap<HttpRequest, 'invalid_dpop_proof' | 'use_dpop_nonce'>();

  constructor(deps: DPoPDeps) {
    this.#deps = deps;
  }

  /** Returns the nonce for the client's next proof (RFC 9449 §8.2). */
  get nonce(): string {
    return this.#deps.nonces.current();
  }

  /** Returns the thumbprint of the key that a request proves; null if the request has no proof. */
  async keyOf(req: HttpRequest, loginId: string): Promise<string | null> {
    if (req.headers['dpop'] === undefined && !this.#deps.isRequired) return null;
    const proven = await readProof(req, this.#checks());
    if (typeof proven === 'object') return proven.thumbprint;
    this.#deps.audit.refreshRefused(req, `dpop_${proven}`, loginId);
    throw new OAuthError(proven === 'nonce' ? 'use_dpop_nonce' : 'invalid_dpop_proof', {
      reason: proven,
      headers: { 'DPoP-Nonce': this.nonce },
    });
  }

  /**
   * Returns the `WWW-Authenticate` challenge for a protected route (RFC 9449 §7.1). The challenge contains
   * an error only if the request used the scheme `DPoP`.
   */
  challengeOf(req: HttpRequest, error: string | undefined): string {
    if (error === undefined || dpopTokenOf(req) === undefined) return `DPoP ${PROOF_ALGORITHMS}`;
    return `DPoP error="${this.#unproven.get(carrierOf(req)) ?? error}", ${PROOF_ALGORITHMS}`;
  }

  /**
   * Returns whether an access token is accepted. A token that is bound to a key requires a proof of this key.
   * An unbound token must be sent as `Bearer`.
   */
  accepts(claims: Claims, asking: HttpRequest): Promise<boolean> {
    const req = carrierOf(asking);
    let judged = this.#judged.get(req);
    if (judged === undefined) this.#judged.set(req, (judged = this.#judge(claims, req)));
    return judged;
  }

  async #judge(claims: Claims, req: HttpRequest): Promise<boolean> {
    const issue = await issueOfSender(claims, req, this.#checks());
    if (issue === undefined) return true;
    if (issue !== 'other_scheme' && issue !== 'other_key')
      this.#unproven.set(req, issue === 'nonce' ? 'use_dpop_nonce' : 'invalid_dpop_proof');
    this.#deps.audit.warn('dpop_refused', req, issue);
    return false;
  }

  #checks(): ProofChecks {
    const { nonces, requiresNonce, used, clock } = this.#deps;
    return {
      nowSeconds: clock.nowMs() / 1_000,
      acceptsNonce: (nonce) => (nonce === undefined ? !requiresNonce : nonces.accepts(nonce)),
      use: (key, ttlMs) => used.use('proof', key, ttlMs),
    };
  }
}

const WINDOW_MS = 300_000;
const MAC_BYTES = 16;
const NONCE = /^([0-9a-z]{1,10})\.([\w-]{22})$/;

export class DpopNonces {
  readonly #keys: Keyring;
  readonly #clock: Clock;

  constructor(ring: Keyring, clock: Clock) {
    this.#keys = ring.derive('svc-oauth-dpop-nonce');
    this.#clock = clock;
  }

  /** Returns the current nonce, for the header `DPoP-Nonce`. */
  current(): string {
    const window = this.#window().toString(36);
    return `${window}.${macOf(window, this.#keys.current.key)}`;
  }

  /**
   * Returns whether a nonce belongs to the current five-minute window, or to the previous or next one. The
   * next one counts, because the clock of another host may be ahead.
   */
  accepts(nonce: unknown): boolean {
    const parts = typeof nonce === 'string' ? NONCE.exec(nonce) : null;
    if (parts === null) return false;
    const [, window = '', mac = ''] = parts;
    return (
      Math.abs(parseInt(window, 36) - this.#window()) <= 1 &&
      this.#keys.keys.some(({ key }) => timingSafeEqual(Buffer.from(macOf(window, key)), Buffer.from(mac)))
    );
  }

  #window(): number {
    return Math.floor(this.#clock.nowMs() / WINDOW_MS);
  }
}

function macOf(window: string, key: KeyObject): string {
  return createHmac('sha256', key).update(window).digest().subarray(0, MAC_BYTES).toString('base64url');
}
