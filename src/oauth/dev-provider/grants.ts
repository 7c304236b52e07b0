/**
 * Logins at DevProvider that were granted, by code or by access token.
 */
import type { DevUser } from './protocol.ts';

/** A login. */
export interface Grant {
  readonly user: DevUser;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly nonce: string | undefined;
  readonly scopes: readonly string[];
  readonly authTime: number;
  readonly expiresMs: number;
  /** Set once the code has been used: it must not live on when the code comes again (RFC 6749 §4.1.2). */
  accessToken: string | undefined;
}

const MAX_GRANTS = 1_000;

/** Adds, and lets go of the oldest beyond a thousand. */
export function keep(grants: Map<string, Grant>, key: string, grant: Grant): void {
  grants.set(key, grant);
  const [oldest] = grants.keys();
  if (grants.size > MAX_GRANTS) grants.delete(oldest!); // there is one: it was just added
}
