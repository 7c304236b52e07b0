/**
 * A provider of a running application.
 */
import type { ProviderClient } from './client.ts';
import type { OAuthProvider } from './options.ts';

/** A provider and the client that talks to it. */
export interface ConnectedProvider {
  readonly provider: OAuthProvider;
  /** A new one each time the application starts. */
  client: ProviderClient;
}
