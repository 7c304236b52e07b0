/**
 * DPoP (RFC 9449) binds a token to a key. The sender of the token shows by a signature, the DPoP proof, that
 * it holds the key. See the option `dpop` of the plugin.
 *
 * A proof is a JWT in the header field DPoP, signed by the private key of `jwk`. Its header is { typ:
 * 'dpop+jwt', alg, jwk }, and its claims are { jti, htm, htu, iat, ath }.
 *
 * A login is bound to a key from its start only if the parameter `dpop_jkt` names the key (RFC 9449 §10).
 * Without this parameter, the first refresh with a proof binds the login to the key of the proof. From then
 * on, only that key can refresh the login.
 *
 * Access tokens of a bound login have the claim `cnf: { jkt }` (RFC 9449 §6.1), and require the scheme `DPoP`
 * with a proof of that key. A proof must be signed with ES256, EdDSA or RS256 (RFC 9449 §11.6).
 *
 * Server nonces (RFC 9449 §8) show that a proof is new, even if the client's clock is wrong. A nonce consists
 * of the number of a five-minute window and its HMAC, so nothing is stored.
 */
import { hash, createHmac, timingSafeEqual } from 'node:crypto';
import { isRecord } from '../../base/options.ts';
import { objectOf } from '../../crypto/jwt-json.ts';
import { canonicalPath } from '../../http/path.ts';
import { CARRIER } from '../../http/state.ts';
import { isSignedBy } from '../../crypto/jws.ts';
import { readKeySet, thumbprintOf } from '../../crypto/jwk.ts';
import { OAuthError } from '../errors.ts';
import type { KeyObject } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { Audit } from '../audit.ts';
import type { SingleUse } from '../single-use.ts';
import type { SignatureInput } from '../../crypto/jws.ts';
import type { VerificationKey } from '../../crypto/jwk.ts';
import type { Keyring } from '../../crypto/keys.ts';

/** Reason why a proof is refused. */
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

interface Expected {
  /** Access token of the request, whose hash must be the claim `ath`. Undefined at the token endpoint. */
  readonly accessToken?: string | undefined;
  /** Thumbprint of the key that must have signed the proof. */
  readonly thumbprint?: string | undefined;
}

interface Opened extends SignatureInput {
  readonly key: VerificationKey;
  readonly claims: Readonly<Record<string, unknown>>;
}

const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'] as const;
const ALGS = `algs="${ALGORITHMS.join(' ')}"`;
/** Maximum length of a proof in characters. A proof with an RSA key of 8,192 bits has about 3,000. */
const MAX_CHARACTERS = 8_192;
const MAX_JTI_CHARACTERS = 256;
const MAX_AGE_SECONDS = 60;
/**
 * Time in milliseconds for which a used proof is remembered. A proof is valid from 60 seconds before its time
 * `iat` until 60 seconds after it.
 */
const REMEMBERED_MS = 2 * MAX_AGE_SECONDS * 1_000 + 1_000;
/** Matches a compact JWS. Repeated header fields are joined by commas, so repeated proofs do not match. */
const COMPACT = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/;
const CREDENTIALS = /^dpop +([\w.~+/-]+=*)$/i;
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];
const FORBIDDEN_HEADERS = ['crit', 'b64', 'jku', 'x5u', 'x5c', 'zip', 'enc'];

interface DPoPDeps {
  /** Whether every refresh requires a DPoP proof. */
  readonly isRequired: boolean;
  /** Whether every proof requires a nonce of this server. */
  readonly requiresNonce: boolean;
  readonly nonces: DpopNonces;
  readonly used: SingleUse;
  readonly clock: Clock;
  readonly audit: Audit;
}

/** Verifies DPoP proofs (RFC 9449). A proof is accepted only once, even if there are several processes. */
export class DPoP {
  readonly #deps: DPoPDeps;
  /**
   * Result of accepts() for each request. A proof can be used only once, but several dependencies of a route
   * may check it.
   */
  readonly #judged = new WeakMap<HttpRequest, Promise<boolean>>();
  /** Error code in `WWW-Authenticate` for each request with a refused proof. */
  readonly #unproven = new WeakMap<HttpRequest, 'invalid_dpop_proof' | 'use_dpop_nonce'>();

  constructor(deps: DPoPDeps) {
    this.#deps = deps;
  }

  /** Returns the nonce for the client's next proof (RFC 9449 §8.2). */
  get nonce(): string {
    return this.#deps.nonces.current();
  }

  /**
   * Returns the thumbprint of the key that a request proves; null if the request has no proof.
   *
   * @throws OAuthError `use_dpop_nonce` when the proof needs a nonce, `invalid_dpop_proof` when it is
   * invalid, or missing but required
   */
  async keyOf(req: HttpRequest, loginId: string): Promise<string | null> {
    if (req.headers['dpop'] === undefined && !this.#deps.isRequired) return null;
    const proven = await this.#prove(req, {});
    if (typeof proven === 'object') return proven.thumbprint;
    this.#deps.audit.refreshRefused(req, `dpop_${proven}`, loginId);
    throw new OAuthError(proven === 'nonce' ? 'use_dpop_nonce' : 'invalid_dpop_proof', {
      reason: proven,
      headers: { 'DPoP-Nonce': this.nonce },
    });
  }

  /** Returns the access token in the header `Authorization: DPoP ...` (RFC 9449 §7.1). */
  tokenOf(req: HttpRequest): string | undefined {
    return CREDENTIALS.exec(req.headers['authorization'] ?? '')?.[1];
  }

  /**
   * Returns the `WWW-Authenticate` challenge for a protected route (RFC 9449 §7.1). The challenge contains
   * an error only if the request used the scheme `DPoP`.
   */
  challengeOf(req: HttpRequest, error: string | undefined): string {
    if (error === undefined || this.tokenOf(req) === undefined) return `DPoP ${ALGS}`;
    return `DPoP error="${this.#unproven.get(carrierOf(req)) ?? error}", ${ALGS}`;
  }

  /**
   * Returns whether an access token is accepted. A token that is bound to a key requires a proof of this key.
   * An unbound token must be sent as `Bearer`.
   */
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
    this.#deps.audit.proofRefused(req, proven);
    return false;
  }

  /** Checks the proof of a request (RFC 9449 §4.3). Marks the proof as used only after all other checks. */
  async #prove(req: HttpRequest, expected: Expected): Promise<{ readonly thumbprint: string } | ProofIssue> {
    const text = req.headers['dpop'];
    if (text === undefined) return 'absent';
    const opened = openProof(text);
    if (typeof opened === 'string') return opened;
    if (!(await isSignedBy(opened, opened.key.key))) return 'signature';
    const refusal = issueOf(opened.claims, req, this.#deps.clock.nowMs() / 1_000, expected.accessToken);
    if (refusal !== undefined) return refusal;
    const { nonce } = opened.claims;
    if (nonce === undefined ? this.#deps.requiresNonce : !this.#deps.nonces.accepts(nonce)) return 'nonce';
    const thumbprint = thumbprintOf(opened.key.key);
    if (expected.thumbprint !== undefined && expected.thumbprint !== thumbprint) return 'other_key';
    const use = hash('sha256', `${thumbprint} ${String(opened.claims['jti'])}`, 'base64url');
    return (await this.#deps.used.use('proof', use, REMEMBERED_MS)) ? { thumbprint } : 'replayed';
  }
}

/**
 * Returns the request that has the DPoP proof. A call of an MCP tool creates an inner request, so its proof
 * is in the outer HTTP request.
 */
function carrierOf(req: HttpRequest): HttpRequest {
  return req.state.has(CARRIER) ? req.state.get(CARRIER) : req;
}

/** Parses a proof, without verifying its signature. */
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

const WINDOW_MS = 300_000;
const MAC_BYTES = 16;
const NONCE = /^([0-9a-z]{1,10})\.([\w-]{22})$/;

/** Creates and checks the server's nonces for DPoP proofs. */
export class DpopNonces {
  readonly #keys: Keyring;
  readonly #clock: Clock;

  constructor(ring: Keyring, clock: Clock) {
    this.#keys = ring.derive('svc-oauth-dpop-nonce');
    this.#clock = clock;
  }

  /** Returns the current nonce, for the header `DPoP-Nonce`. */
  current(): string {
    const window = this.#window().toString(36);
    return `${window}.${macOf(window, this.#keys.current.key)}`;
  }

  /**
   * Returns whether a nonce belongs to the current five-minute window, or to the previous or next one. The
   * next one counts, because the clock of another host may be ahead.
   */
  accepts(nonce: unknown): boolean {
    const parts = typeof nonce === 'string' ? NONCE.exec(nonce) : null;
    if (parts === null) return false;
    const [, window, mac] = parts as unknown as [string, string, string];
    return (
      Math.abs(parseInt(window, 36) - this.#window()) <= 1 &&
      this.#keys.keys.some(({ key }) => timingSafeEqual(Buffer.from(macOf(window, key)), Buffer.from(mac)))
    );
  }

  #window(): number {
    return Math.floor(this.#clock.nowMs() / WINDOW_MS);
  }
}

function macOf(window: string, key: KeyObject): string {
  return createHmac('sha256', key).update(window).digest().subarray(0, MAC_BYTES).toString('base64url');
}
