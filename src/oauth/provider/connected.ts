/**
 * A provider in a running application.
 */
import type { ProviderClient } from './client.ts';
import type { OAuthProvider } from './options.ts';

/** A provider and its client. */
export interface ConnectedProvider {
  readonly provider: OAuthProvider;
  /** Replaced each time the application starts. */
  client: ProviderClient;
}
