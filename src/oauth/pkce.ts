/**
 * Proof key for code exchange (RFC 7636), method S256 on every flow. The verifier is never stored: it is derived from the
 * state and a key of the server, so that neither a copy of the database nor the state alone gives it.
 */
import { createHmac, hash } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

/** The verifier that belongs to a state (§4.1): 43 characters. */
export function verifierOf(state: string, key: KeyObject): string {
  return createHmac('sha256', key).update('svc-pkce-verifier\0').update(state).digest('base64url');
}

/** The challenge of a verifier (§4.2), method S256: 43 characters. */
export function challengeOf(verifier: string): string {
  return hash('sha256', verifier, 'base64url');
}
