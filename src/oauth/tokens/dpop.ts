/**
 * DPoP (RFC 9449): proof that whoever uses a token holds the key that it is bound to. Option `dpop` of the plugin.
 *
 *   DPoP: { typ: 'dpop+jwt', alg, jwk } . { jti, htm, htu, iat, ath } . signature by the private key of jwk
 *
 * A login is bound from its start where it names the key (`dpop_jkt`, §10): the callback is a redirect, which has no proof. Others are
 * bound by the first refresh that brings a proof, in the statement that rotates the token. From then on nothing but that key refreshes it, its access tokens say `cnf: { jkt }` (§6.1), and count with the
 * scheme `DPoP` and a proof of that key alone. `jwk` is the only key a proof may name; ES256, EdDSA and RS256 alone (§11.6).
 */
import { hash } from 'node:crypto';
import { isRecord } from '../../base/options.ts';
import { objectOf } from '../../crypto/jwt-json.ts';
import { CARRIER } from '../../http/state.ts';
import { isSignedBy } from '../provider/id-token.ts';

import { readKeySet } from '../provider/jwks.ts';
import { OAuthError } from '../errors.ts';
import type { JsonWebKey, KeyObject } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { Audit } from '../audit.ts';
import type { SingleUse } from '../single-use.ts';
import type { DpopNonces } from './dpop-nonces.ts';
import type { SignatureInput } from '../provider/id-token.ts';
import type { VerificationKey } from '../provider/jwks.ts';

/** Which check a proof has failed. */
type ProofIssue =
  | 'absent'
  | 'malformed'
  | 'typ'
  | 'alg'
  | 'header'
  | 'jwk'
  | 'signature'
  | 'jti'
  | 'htm'
  | 'htu'
  | 'iat'
  | 'ath'
  | 'nonce'
  | 'other_key'
  | 'replayed';

/** What a proof must fit besides its request. */
interface Expected {
  /** Whose hash is `ath`: at resources. */
  readonly accessToken?: string | undefined;
  /** Whose key it must be. */
  readonly thumbprint?: string | undefined;
}

interface Opened extends SignatureInput {
  readonly key: VerificationKey;
  readonly claims: Readonly<Record<string, unknown>>;
}

const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'] as const;
const ALGS = `algs="${ALGORITHMS.join(' ')}"`;
/** An RSA key of 8,192 bits and its signature take 3,000. */
const MAX_CHARACTERS = 8_192;
const MAX_JTI_CHARACTERS = 256;
const MAX_AGE_SECONDS = 60;
/** A proof may be from 60 seconds ahead, and then counts for another 60. */
const REMEMBERED_MS = 2 * MAX_AGE_SECONDS * 1_000 + 1_000;
/** Fields that came twice are joined with a comma, which no proof has. */
const COMPACT = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/;
const CREDENTIALS = /^dpop +([\w.~+/-]+=*)$/i;
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];
const FORBIDDEN_HEADERS = ['crit', 'b64', 'jku', 'x5u', 'x5c', 'zip', 'enc'];

/** Judges proofs. Each counts once, at whichever process. */
export class DPoP {
  readonly #isRequired: boolean;
  readonly #clock: Clock;
  readonly #audit: Audit;
  readonly #used: SingleUse;
  readonly #nonces: DpopNonces;
  readonly #requiresNonce: boolean;
  /** Several dependencies may ask about one request, whose proof counts once. */
  readonly #judged = new WeakMap<HttpRequest, Promise<boolean>>();
  /** Requests whose proof was refused, and the error of the challenge. */
  readonly #unproven = new WeakMap<HttpRequest, 'invalid_dpop_proof' | 'use_dpop_nonce'>();

  /** `isRequired`: no refresh without a proof. `requiresNonce`: no proof without a nonce of this server. */
  constructor(deps: {
    readonly isRequired: boolean;
    readonly requiresNonce: boolean;
    readonly nonces: DpopNonces;
    readonly used: SingleUse;
    readonly clock: Clock;
    readonly audit: Audit;
  }) {
    this.#isRequired = deps.isRequired;
    this.#clock = deps.clock;
    this.#audit = deps.audit;
    this.#used = deps.used;
    this.#nonces = deps.nonces;
    this.#requiresNonce = deps.requiresNonce;
  }

  /** The nonce for the next proof of a client (§8.2). */
  get nonce(): string {
    return this.#nonces.current();
  }

  /** The thumbprint of the key that a refresh has proved to hold; null without a proof. @throws OAuthError `invalid_dpop_proof`, `use_dpop_nonce` */
  async keyOf(req: HttpRequest, loginId: string): Promise<string | null> {
    if (req.headers['dpop'] === undefined && !this.#isRequired) return null;
    const proven = await this.#prove(req, {});
    if (typeof proven === 'object') return proven.thumbprint;
    this.#audit.refreshRefused(req, `dpop_${proven}`, loginId);
    throw new OAuthError(proven === 'nonce' ? 'use_dpop_nonce' : 'invalid_dpop_proof', {
      reason: proven,
      headers: { 'DPoP-Nonce': this.nonce },
    });
  }

  /** The access token of `Authorization: DPoP ...` (§7.1). */
  tokenOf(req: HttpRequest): string | undefined {
    return CREDENTIALS.exec(req.headers['authorization'] ?? '')?.[1];
  }

  /** The challenge of a resource (§7.1). The error is that of the scheme that was tried; a proof that is none has its own. */
  challengeOf(req: HttpRequest, error: string | undefined): string {
    if (error === undefined || this.tokenOf(req) === undefined) return `DPoP ${ALGS}`;
    return `DPoP error="${this.#unproven.get(carrierOf(req)) ?? error}", ${ALGS}`;
  }

  /** Whether an access token counts here: one that is bound with a proof of its key, one that is not as `Bearer`. */
  accepts(claims: Claims, asking: HttpRequest): Promise<boolean> {
    const req = carrierOf(asking);
    let judged = this.#judged.get(req);
    if (judged === undefined) this.#judged.set(req, (judged = this.#judge(claims, req)));
    return judged;
  }

  async #judge(claims: Claims, req: HttpRequest): Promise<boolean> {
    const accessToken = this.tokenOf(req);
    const bound = (claims as Readonly<Record<string, unknown>>)['cnf'];
    if (bound === undefined && accessToken === undefined) return true;
    const thumbprint = isRecord(bound) ? bound['jkt'] : undefined;
    const proven =
      accessToken === undefined || typeof thumbprint !== 'string'
        ? 'other_scheme'
        : await this.#prove(req, { accessToken, thumbprint });
    if (typeof proven === 'object') return true;
    if (proven !== 'other_scheme' && proven !== 'other_key')
      this.#unproven.set(req, proven === 'nonce' ? 'use_dpop_nonce' : 'invalid_dpop_proof');
    this.#audit.proofRefused(req, proven);
    return false;
  }

  /** The checks of §4.3. What is used up by a proof is used up last. */
  async #prove(req: HttpRequest, expected: Expected): Promise<{ readonly thumbprint: string } | ProofIssue> {
    const text = req.headers['dpop'];
    if (text === undefined) return 'absent';
    const opened = openProof(text);
    if (typeof opened === 'string') return opened;
    if (!(await isSignedBy(opened, opened.key))) return 'signature';
    const refusal = issueOf(opened.claims, req, this.#clock.nowMs() / 1_000, expected.accessToken);
    if (refusal !== undefined) return refusal;
    const { nonce } = opened.claims;
    if (nonce === undefined ? this.#requiresNonce : !this.#nonces.accepts(nonce)) return 'nonce';
    const thumbprint = thumbprintOf(opened.key.key);
    if (expected.thumbprint !== undefined && expected.thumbprint !== thumbprint) return 'other_key';
    const use = hash('sha256', `${thumbprint} ${String(opened.claims['jti'])}`, 'base64url');
    return (await this.#used.use('proof', use, REMEMBERED_MS)) ? { thumbprint } : 'replayed';
  }
}

/** The request that was sent: a call of a tool is made of it in process, with the same credentials, and has no proof of its own. */
function carrierOf(req: HttpRequest): HttpRequest {
  return req.state.has(CARRIER) ? req.state.get(CARRIER) : req;
}

/** The thumbprint of a public key (RFC 7638): of its required members in order, by SHA-256, however the client has written them. */
export function thumbprintOf(key: KeyObject): string {
  const jwk: JsonWebKey = key.export({ format: 'jwk' });
  const { crv, e, kty, n, x, y } = jwk;
  return hash('sha256', JSON.stringify({ crv, e, kty, n, x, y }), 'base64url'); // what a kind of key does not have is left out
}

/** Takes a proof apart without believing it. */
function openProof(text: string): Opened | ProofIssue {
  const segments = text.length > MAX_CHARACTERS ? null : COMPACT.exec(text);
  if (segments === null) return 'malformed';
  const [, head, payload, tail] = segments as unknown as [string, string, string, string];
  const header = objectOf(head);
  const claims = objectOf(payload);
  const signature = Buffer.from(tail, 'base64url');
  if (header === undefined || claims === undefined || signature.toString('base64url') !== tail)
    return 'malformed';
  if (header['typ'] !== 'dpop+jwt') return 'typ';
  const algorithm = ALGORITHMS.find((each) => each === header['alg']);
  if (algorithm === undefined) return 'alg';
  if (FORBIDDEN_HEADERS.some((name) => Object.hasOwn(header, name))) return 'header';
  const { jwk } = header;
  if (!isRecord(jwk) || PRIVATE_MEMBERS.some((name) => Object.hasOwn(jwk, name))) return 'jwk';
  const [key] = readKeySet([jwk]).keys;
  if (key?.algorithms.includes(algorithm) !== true) return 'jwk';
  return { algorithm, key, signed: Buffer.from(`${head}.${payload}`), signature, claims };
}

function issueOf(
  { jti, htm, htu, iat, ath }: Readonly<Record<string, unknown>>,
  req: HttpRequest,
  nowSeconds: number,
  accessToken: string | undefined,
): ProofIssue | undefined {
  if (typeof jti !== 'string' || jti === '' || jti.length > MAX_JTI_CHARACTERS) return 'jti';
  if (htm !== req.method) return 'htm';
  if (typeof htu !== 'string' || !isTarget(htu, req)) return 'htu';
  if (typeof iat !== 'number' || !(Math.abs(nowSeconds - iat) <= MAX_AGE_SECONDS)) return 'iat';
  return accessToken !== undefined && ath !== hash('sha256', accessToken, 'base64url') ? 'ath' : undefined;
}

/** Scheme, host and path, compared as URLs are; query and fragment do not count (§4.3). */
function isTarget(htu: string, req: HttpRequest): boolean {
  const given = URL.parse(htu);
  const own = URL.parse(`${req.scheme}://${req.host}${req.path}`);
  if (given === null || own === null || given.username !== '' || given.password !== '') return false;
  return given.origin === own.origin && given.pathname === own.pathname;
}
