/**
 * What a token that is refused is answered with, and why it is, for whoever reads the audit log.
 */
import { Unauthorized } from './errors.ts';

/** Why a token is refused. */
export type TokenRefusal =
  | 'length' | 'form' | 'header' | 'algorithm' | 'type' | 'key' | 'signature' | 'payload' | 'subject' | 'claim type' | 'expired' | 'no expiry' | 'not yet valid' | 'issuer' | 'audience' | 'revoked'
  | 'schema' | 'verify'; // by BearerAuth(), of tokens that are otherwise in order

/** 401: a token that is malformed, forged, expired or meant for somebody else. All look the same to the client (RFC 6750 §3.1). */
export class InvalidToken extends Unauthorized {
  /** For the audit log; never sent. */
  readonly reason: TokenRefusal;

  constructor(reason: TokenRefusal) {
    // no stack: it would say where tokens are verified, and taking it costs ten times the rest (test/bench/jwt.ts)
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0;
    super('The access token is invalid or has expired', REFUSED);
    Error.stackTraceLimit = limit;
    this.reason = reason;
  }
}

const REFUSED = Object.freeze({ code: 'invalid_token', headers: Object.freeze({ 'WWW-Authenticate': 'Bearer error="invalid_token"' }) });
