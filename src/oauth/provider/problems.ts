/** Checks the options of a provider. Reports only the first problem. */
import { issueOfUrl } from '../../auth/provider/addresses.ts';
import { missingEndpoint, readMetadata } from './discovery.ts';
import { PROTOCOL_PARAMETERS, TENANT, URLS, WELL_KNOWN } from './option-types.ts';
import type { ResolvedProviderOptions } from './option-types.ts';

export function issueOf(given: ResolvedProviderOptions): string | undefined {
  if (!/^[a-z][a-z0-9-]{0,31}$/.test(given.name))
    return 'the name is not of the form [a-z][a-z0-9-]*, at most 32 characters';
  if (given.clientId === '')
    return `the clientId is empty: read it from a variable such as SVC_${given.name.replaceAll('-', '_').toUpperCase()}_CLIENT_ID, or use a fake provider where SVC_ENV is development or test (it is production unless set)`;
  if (!isVisible(given.clientId)) return 'the clientId has spaces or control characters';
  const problem = issueOfClient(given);
  if (problem !== undefined) return problem;
  return issueOfIssuer(given) ?? issueOfUrls(given) ?? issueOfParts(given) ?? issueOfEndpoints(given);
}

/** Returns why the secret or key does not fit the client's authentication method; undefined if it fits. */
function issueOfClient(given: ResolvedProviderOptions): string | undefined {
  const { clientAuth, clientSecret, assertions } = given;
  if (clientAuth === 'none' || clientAuth === 'private_key_jwt') {
    if (clientSecret !== undefined) return `a clientSecret is set although clientAuth is "${clientAuth}"`;
  } else if (typeof clientSecret !== 'function' && !isVisible(clientSecret ?? ''))
    return 'the clientSecret is empty, or has spaces or control characters';
  if ((clientAuth === 'private_key_jwt') !== (assertions !== undefined))
    return 'clientAuth "private_key_jwt" needs a clientKey, and no other clientAuth has one';
  return undefined;
}

function issueOfUrls(given: ResolvedProviderOptions): string | undefined {
  for (const name of URLS) {
    const problem =
      given[name] === undefined
        ? undefined
        : issueOfUrl(given[name].replace(TENANT, 'common'), given.allowInsecure);
    if (problem !== undefined) return `the ${name} ${problem}`;
  }
  return undefined;
}

function issueOfIssuer(given: ResolvedProviderOptions): string | undefined {
  const { issuer } = given;
  if (issuer === undefined) {
    if (given.discoveryUrl !== undefined)
      return `the issuer is missing: it can be derived only from a discoveryUrl that ends in ${WELL_KNOWN}`;
    return given.usesOpenId ? 'the scopes include "openid", which needs an issuer' : undefined;
  }
  const problem = issueOfUrl(issuer.replace(TENANT, 'common'), given.allowInsecure);
  if (problem !== undefined) return `the issuer ${problem}`;
  if (issuer.includes('?')) return 'the issuer has a query'; // an issuer must not have a query (RFC 8414 §2)
  return given.tenants !== undefined && !issuer.includes(TENANT)
    ? `the option tenants is set, but the issuer does not contain ${TENANT}`
    : undefined;
}

function issueOfParts(given: ResolvedProviderOptions): string | undefined {
  const taken = Object.entries(given.authorizeParams).find(
    ([name, value]) => PROTOCOL_PARAMETERS.has(name) && !(name === 'response_mode' && value === 'form_post'),
  )?.[0];
  if (taken !== undefined) return `the authorizeParams include "${taken}", which the login sets itself`;
  if (given.authorizeParams['max_age'] !== undefined && !/^\d{1,9}$/.test(given.authorizeParams['max_age']))
    return 'the authorizeParams have a max_age that is not a whole number of seconds';
  const { idTokenAlgorithms: algorithms, clientSecret: secret } = given;
  if (algorithms.includes('HS256')) {
    if (algorithms.length > 1)
      return 'the idTokenAlgorithms have HS256 beside others: a public key could be taken for the secret';
    if (typeof secret !== 'string' || Buffer.byteLength(secret) < 32)
      return 'the id_tokens are signed with a clientSecret of fewer than 32 bytes (RFC 7518 §3.2)';
  }
  if (given.clientAuth === 'none' && !given.usesPkce)
    return 'the provider has neither a clientSecret nor PKCE, so a stolen code suffices';
  if (
    !/^[a-z_]{1,32}$/.test(given.clientIdName) ||
    (given.clientIdName !== 'client_id' && PROTOCOL_PARAMETERS.has(given.clientIdName))
  )
    return 'the clientIdName is already the name of another parameter';
  if (
    !/^[A-Za-z_]{1,32}$/.test(given.postLogoutName) ||
    ['client_id', 'id_token_hint', 'state'].includes(given.postLogoutName)
  )
    return 'the postLogoutName is already the name of another parameter';
  // the characters that a scope may contain (RFC 6749 §3.3)
  const odd = given.scopes.find((scope) => !/^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope));
  if (odd !== undefined) return 'the scopes include one with spaces, quotes or control characters';
  return undefined;
}

function issueOfEndpoints(given: ResolvedProviderOptions): string | undefined {
  // discovery may find the missing endpoints later
  if (given.issuer !== undefined && given.metadata === undefined) return undefined;
  const named = given.metadata === undefined ? {} : readMetadata(given.metadata, given);
  return typeof named === 'string' ? `the metadata cannot be used: ${named}` : missingEndpoint(given, named);
}

function isVisible(value: string): boolean {
  return value !== '' && !/[\0-\x20\x7f]/.test(value);
}
