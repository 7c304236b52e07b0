/**
 * A provider's description of itself (OpenID Connect Discovery §3, RFC 8414 §2): JSON -> what a client needs of it.
 */
import { isWithinSite, issueOfUrl } from './addresses.ts';

/** Metadata of a provider, as far as a client needs it. */
export interface Metadata {
  readonly authorizeUrl: string | undefined;
  readonly tokenUrl: string | undefined;
  readonly userinfoUrl: string | undefined;
  readonly jwksUrl: string | undefined;
  /** Only ever opened by browsers. */
  readonly endSessionUrl: string | undefined;
  /** How the token endpoint authenticates clients: of what it supports, the first of `post` and `basic`. */
  readonly clientAuth: 'post' | 'basic' | undefined;
  /** Whether every authorization answer has `iss` (RFC 9207 §3). */
  readonly sendsIssuer: boolean;
}

/** How a description is judged. */
interface MetadataRules {
  readonly issuer: string;
  readonly allowInsecure: boolean | readonly string[];
  readonly requireSameSite: boolean;
}

const ENDPOINTS = {
  authorizeUrl: 'authorization_endpoint',
  tokenUrl: 'token_endpoint',
  userinfoUrl: 'userinfo_endpoint',
  jwksUrl: 'jwks_uri',
  endSessionUrl: 'end_session_endpoint',
} as const;

/** The metadata, or in a few words why they cannot be used. The issuer is compared byte for byte (RFC 8414 §3.3). */
export function readMetadata(
  document: Readonly<Record<string, unknown>>,
  { issuer, allowInsecure, requireSameSite }: MetadataRules,
): Metadata | string {
  if (document['issuer'] !== issuer) return 'issuer is not the one configured';
  const urls: Record<keyof typeof ENDPOINTS, string | undefined> = {
    authorizeUrl: undefined,
    tokenUrl: undefined,
    userinfoUrl: undefined,
    jwksUrl: undefined,
    endSessionUrl: undefined,
  };
  for (const [name, member] of Object.entries(ENDPOINTS) as [keyof typeof ENDPOINTS, string][]) {
    const url = document[member];
    if (url === undefined) continue;
    const problem = issueOfUrl(url as string, allowInsecure); // which refuses what is no string
    if (problem !== undefined) return `${member} ${problem}`;
    if (requireSameSite && !isWithinSite(new URL(url as string).hostname, new URL(issuer).hostname))
      return `${member} is not within the issuer's site`;
    urls[name] = url as string;
  }
  return {
    ...urls,
    clientAuth: clientAuthOf(document['token_endpoint_auth_methods_supported']),
    sendsIssuer: document['authorization_response_iss_parameter_supported'] === true,
  };
}

/** A list that is absent means HTTP Basic (OpenID Connect Discovery §3); one without either of the two leaves the choice open. */
function clientAuthOf(methods: unknown): 'post' | 'basic' | undefined {
  if (methods === undefined) return 'basic';
  if (!Array.isArray(methods)) return undefined;
  return methods.includes('client_secret_post')
    ? 'post'
    : methods.includes('client_secret_basic')
      ? 'basic'
      : undefined;
}
