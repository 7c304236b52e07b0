/**
 * Granted logins at DevProvider, by code or by access token.
 */
import type { DevUser } from './protocol.ts';

/** A granted login. */
export interface Grant {
  readonly user: DevUser;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly nonce: string | undefined;
  readonly scopes: readonly string[];
  readonly authTime: number;
  readonly expiresMs: number;
  /** Set when the code was used. The token ends if the code comes again (RFC 6749 §4.1.2). */
  accessToken: string | undefined;
}

const MAX_GRANTS = 1_000;

/** Adds a grant, and deletes the oldest beyond a thousand. */
export function keep(grants: Map<string, Grant>, key: string, grant: Grant): void {
  grants.set(key, grant);
  const [oldest] = grants.keys();
  if (grants.size > MAX_GRANTS) grants.delete(oldest!); // not empty: one was just added
}
