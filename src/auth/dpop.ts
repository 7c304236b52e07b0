/**
 * DPoP proofs (RFC 9449): a client shows by a signature that it holds the key to which its token is bound.
 *
 * A proof is a JWT in the header field DPoP, signed by the private key of `jwk`. Its header is { typ:
 * 'dpop+jwt', alg, jwk }, and its claims are { jti, htm, htu, iat, ath }. A proof must be signed with ES256,
 * EdDSA or RS256 (RFC 9449 §11.6), and is accepted only once.
 */
import { hash } from 'node:crypto';
import { isRecord } from '../base/options.ts';
import { readKeySet, thumbprintOf } from '../crypto/jwk.ts';
import { isSignedBy, openJws } from '../crypto/jws.ts';
import { CERTIFICATE_HEADERS, UNSUPPORTED_HEADERS } from '../crypto/jwt-json.ts';
import { canonicalPath } from '../http/path.ts';
import { CARRIER } from '../http/state.ts';
import type { VerificationKey } from '../crypto/jwk.ts';
import type { SignatureInput } from '../crypto/jws.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { JsonObject } from '../crypto/jwt-json.ts';

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
  | 'other_scheme'
  | 'replayed';

export interface ProofChecks {
  readonly nowSeconds: number;
  /** Access token of the request, whose hash must be the claim `ath`. Undefined at the token endpoint. */
  readonly accessToken?: string | undefined;
  /** Thumbprint of the key that must have signed the proof. */
  readonly thumbprint?: string | undefined;
  /** Returns whether the claim `nonce` is accepted. Default: it is not checked. */
  readonly acceptsNonce?: (nonce: unknown) => boolean;
  /**
   * Marks a proof as used for `ttlMs`. Only the first of several calls with one key returns true. Called after
   * all other checks.
   */
  readonly use: (key: string, ttlMs: number) => Awaitable<boolean>;
}

interface OpenedProof extends SignatureInput {
  readonly key: VerificationKey;
  readonly claims: JsonObject;
}

const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'] as const;
/** Parameter of a `WWW-Authenticate: DPoP` challenge: the accepted signature algorithms. */
export const PROOF_ALGORITHMS: string = `algs="${ALGORITHMS.join(' ')}"`;
/** Maximum length of a proof in characters. A proof with an RSA key of 8,192 bits has about 3,000. */
const MAX_CHARACTERS = 8_192;
const MAX_JTI_CHARACTERS = 256;
const MAX_AGE_SECONDS = 60;
/**
 * Time in milliseconds for which a used proof is remembered. A proof is valid from 60 seconds before its time
 * `iat` until 60 seconds after it.
 */
const REMEMBERED_MS = (2 * MAX_AGE_SECONDS + 1) * 1_000;
const CREDENTIALS = /^dpop +([\w.~+/-]+=*)$/i;
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];
const FORBIDDEN_HEADERS = [...UNSUPPORTED_HEADERS, ...CERTIFICATE_HEADERS];

/** Returns the access token in the header `Authorization: DPoP ...` (RFC 9449 §7.1). */
export function dpopTokenOf(req: HttpRequest): string | undefined {
  return CREDENTIALS.exec(req.headers['authorization'] ?? '')?.[1];
}

/**
 * Returns the request that has the DPoP proof. A call of an MCP tool creates an inner request, so its proof
 * is in the outer HTTP request.
 */
export function carrierOf(req: HttpRequest): HttpRequest {
  return req.state.has(CARRIER) ? req.state.get(CARRIER) : req;
}

/**
 * Checks that the sender of a token may use it. A token that is bound to a key requires a proof of this key.
 * An unbound token must be sent as `Bearer`. Returns undefined, or the reason to refuse the token.
 */
export async function issueOfSender(
  claims: JsonObject,
  req: HttpRequest,
  checks: Omit<ProofChecks, 'accessToken' | 'thumbprint'>,
): Promise<ProofIssue | undefined> {
  const accessToken = dpopTokenOf(req);
  const { cnf } = claims;
  if (cnf === undefined && accessToken === undefined) return undefined;
  const thumbprint = isRecord(cnf) ? cnf['jkt'] : undefined;
  if (accessToken === undefined || typeof thumbprint !== 'string') return 'other_scheme';
  const proven = await readProof(req, { ...checks, accessToken, thumbprint });
  return typeof proven === 'object' ? undefined : proven;
}

/**
 * Checks the proof of a request (RFC 9449 §4.3). Returns the thumbprint of its key, or the reason to refuse
 * the proof.
 */
export async function readProof(
  req: HttpRequest,
  checks: ProofChecks,
): Promise<{ readonly thumbprint: string } | ProofIssue> {
  const text = req.headers['dpop'];
  if (text === undefined) return 'absent';
  const opened = openProof(text);
  if (typeof opened === 'string') return opened;
  if (!(await isSignedBy(opened, opened.key))) return 'signature';
  const refusal = issueOf(opened.claims, req, checks.nowSeconds, checks.accessToken);
  if (refusal !== undefined) return refusal;
  if (checks.acceptsNonce?.(opened.claims['nonce']) === false) return 'nonce';
  const thumbprint = thumbprintOf(opened.key.key);
  if (checks.thumbprint !== undefined && checks.thumbprint !== thumbprint) return 'other_key';
  const use = hash('sha256', `${thumbprint} ${String(opened.claims['jti'])}`, 'base64url');
  return (await checks.use(use, REMEMBERED_MS)) ? { thumbprint } : 'replayed';
}

function openProof(text: string): OpenedProof | ProofIssue {
  const opened = openJws(text, MAX_CHARACTERS);
  if (typeof opened === 'string') return 'malformed';
  const { header, claims, signed, signature } = opened;
  if (header['typ'] !== 'dpop+jwt') return 'typ';
  const algorithm = ALGORITHMS.find((each) => each === header['alg']);
  if (algorithm === undefined) return 'alg';
  if (FORBIDDEN_HEADERS.some((name) => Object.hasOwn(header, name))) return 'header';
  const { jwk } = header;
  if (!isRecord(jwk) || PRIVATE_MEMBERS.some((name) => Object.hasOwn(jwk, name))) return 'jwk';
  const [key] = readKeySet([jwk]).keys;
  if (key?.algorithms.includes(algorithm) !== true) return 'jwk';
  return { algorithm, key, signed, signature, claims };
}

function issueOf(
  { jti, htm, htu, iat, ath }: JsonObject,
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

/**
 * Returns whether the claim `htu` is the URL of the request. The query and the fragment are ignored, and
 * other spellings of the path are equal (RFC 9449 §4.3).
 */
function isTarget(htu: string, req: HttpRequest): boolean {
  const given = URL.parse(htu);
  const own = URL.parse(`${req.scheme}://${req.host}`);
  if (given === null || own === null || given.username !== '' || given.password !== '') return false;
  return given.origin === own.origin && canonicalPath(given.pathname) === req.path;
}
