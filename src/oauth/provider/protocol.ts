/**
 * Constants of the protocol with a provider.
 */

/** Parameters of an authorization URL that only the client sets. */
export const PROTOCOL_PARAMETERS: ReadonlySet<string> = new Set([
  'response_type',
  'response_mode',
  'client_id',
  'client_secret',
  'redirect_uri',
  'scope',
  'state',
  'nonce',
  'code_challenge',
  'code_challenge_method',
  'code_verifier',
  'request',
  'request_uri',
]);
/** Placeholder for a tenant's id in an issuer. */
export const TENANT = '{tenantid}';
export const GUID: RegExp = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/;

/** Names of the options that are URLs. */
export const URLS = [
  'authorizeUrl',
  'tokenUrl',
  'userinfoUrl',
  'jwksUrl',
  'emailsUrl',
  'endSessionUrl',
  'discoveryUrl',
] as const;
/** Path of the discovery document below an issuer (OpenID Connect Discovery §4). */
export const WELL_KNOWN = '/.well-known/openid-configuration';
