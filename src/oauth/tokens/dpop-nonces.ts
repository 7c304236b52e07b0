/**
 * Server nonces for DPoP proofs (RFC 9449 §8). They show that a proof is new, whatever the client's clock says.
 *
 *   nonce = window of five minutes "." HMAC(key, window)        nothing is stored; a nonce is valid in its window and the next
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Keyring } from '../../crypto/keys.ts';
import type { KeyObject } from 'node:crypto';

const WINDOW_MS = 300_000;
const MAC_BYTES = 16;
const NONCE = /^([0-9a-z]{1,10})\.([\w-]{22})$/;

/** Creates and checks nonces. */
export class DpopNonces {
  readonly #keys: Keyring;
  readonly #clock: Clock;

  constructor(ring: Keyring, clock: Clock) {
    this.#keys = ring.derive('svc-oauth-dpop-nonce');
    this.#clock = clock;
  }

  /** The current nonce, for `DPoP-Nonce`. */
  current(): string {
    const window = this.#window().toString(36);
    return `${window}.${macOf(window, this.#keys.current.key)}`;
  }

  /** Returns whether a nonce is of this window, the previous one, or the next one, which another host may have reached. */
  accepts(nonce: unknown): boolean {
    const parts = typeof nonce === 'string' ? NONCE.exec(nonce) : null;
    if (parts === null) return false;
    const [, window, mac] = parts as unknown as [string, string, string];
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
