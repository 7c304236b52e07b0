/**
 * Verifies the access tokens of authorization servers for IssuerAuth() (RFC 9068 §4, RFC 8725).
 *
 * The steps are: form and length; header; exact match of `iss` with a trusted issuer; signature by a key of
 * this issuer; claims. So no token causes a fetch unless it names a trusted issuer.
 *
 * A token cannot choose its own key: `jwk`, `jku`, `x5u` and `x5c` are ignored (RFC 8725 §3.10).
 */
import { SCHEMES, RefusedToken, challenge } from '../auth.ts';
import { PROOF_ALGORITHMS, carrierOf, dpopTokenOf, issueOfSender } from '../dpop.ts';
import { ProviderFault } from '../provider/failure.ts';
import { Unauthorized, unavailable, withoutStack } from '../../base/errors.ts';
import { isTextList } from '../../base/options.ts';
import { whenReady } from '../../base/promises.ts';
import { MemoryRecordStore } from '../../cache/stores.ts';
import { findSigner } from '../../crypto/jwk.ts';
import { openJws } from '../../crypto/jws.ts';
import { UNSUPPORTED_HEADERS } from '../../crypto/jwt-json.ts';
import { issueOfClaims, mediaType, tokenChecks } from '../../crypto/jwt.ts';
import { SecurityLog } from '../../http/security-log.ts';
import { TOKEN_END_MS } from '../../http/state.ts';
import { sharedCounter } from '../../observability/metrics.ts';
import { planOf } from '../../schema/schema.ts';
import { IssuerKeys } from './keys.ts';
import type { Challenge } from '../auth.ts';
import type { RecordStore } from '../../cache/stores.ts';
import type { KeySet, SignedToken, SignerResult } from '../../crypto/jwk.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';
import type { TokenChecks, TokenRefusal } from '../../crypto/jwt.ts';
import type { Awaitable, Context, HttpRequest, Services } from '../../http/contracts.ts';
import type { Counter } from '../../observability/metrics.ts';
import type { SchemaPlan } from '../../schema/schema.ts';
import type { IssuerClaims, ReaderOptions, ResolvedIssuer } from './options.ts';

/** An issuer with its keys, and the checks of its tokens. */
interface Known {
  readonly issuer: ResolvedIssuer;
  readonly keys: IssuerKeys;
  readonly checks: TokenChecks;
}

/** A token whose header and issuer are accepted, and whose signature is not verified. */
interface Opened {
  readonly head: string;
  readonly header: JsonObject;
  readonly token: SignedToken;
  readonly claims: Record<string, unknown>;
  readonly known: Known;
}

/** Type of access tokens (RFC 9068 §2.1). */
const ACCESS_TOKEN = 'at+jwt';
const BEARER = /^bearer +/i;
const SCHEME = /^(?:bearer|dpop)(?: |$)/i;
/** Claims that only id_tokens, logout tokens and security events have. */
const OTHER_TOKENS = ['at_hash', 'c_hash', 's_hash', 'events'];
const RETRY_AFTER_SECONDS = 5;
/** Maximum number of parsed headers. An issuer has one header for each of its keys. */
const MOST_HEADERS = 64;

/**
 * Yields the reader of one application, and closes it afterwards. Outside of tests, it fetches the keys in the
 * background.
 */
export function* openReader(
  issuers: readonly ResolvedIssuer[],
  options: ReaderOptions,
  services: Services,
): Generator<IssuerReader> {
  const reader = new IssuerReader(issuers, options, services);
  if (services.env !== 'test') reader.fetchKeys();
  try {
    yield reader;
  } finally {
    reader.close();
  }
}

export class IssuerReader {
  readonly #known: ReadonlyMap<unknown, Known>;
  readonly #options: ReaderOptions;
  readonly #schema: SchemaPlan | undefined;
  readonly #services: Services;
  readonly #records: RecordStore;
  readonly #refusals: Counter;
  /** Parsed headers of tokens whose signature was valid. The keys of the map are the headers in base64url. */
  readonly #headers = new Map<string, JsonObject>();
  readonly #absent: Challenge;
  readonly #refused: Challenge;

  constructor(issuers: readonly ResolvedIssuer[], options: ReaderOptions, services: Services) {
    const { leewaySeconds, maxLength, realm, schema, records } = options;
    this.#known = new Map(
      issuers.map((issuer) => {
        const { audience } = issuer;
        const checks = tokenChecks('IssuerAuth()', { audience, leewaySeconds, maxLength });
        return [issuer.issuer, { issuer, keys: new IssuerKeys(issuer, services), checks }];
      }),
    );
    this.#options = options;
    this.#services = services;
    this.#schema = schema === undefined ? undefined : planOf(schema);
    this.#records = records ?? new MemoryRecordStore({ clock: services.clock });
    this.#refusals = sharedCounter(
      services.metrics,
      'svc_auth_tokens_refused_total',
      'Refused access tokens by reason',
      ['reason'],
    );
    this.#absent = { 'WWW-Authenticate': challenge(SCHEMES.bearer, { realm }) };
    this.#refused = { 'WWW-Authenticate': challenge(SCHEMES.bearer, { realm, error: 'invalid_token' }) };
  }

  /** Fetches the keys of all issuers in the background. A failure is only logged. */
  fetchKeys(): void {
    for (const { keys } of this.#known.values()) Promise.resolve(keys.source.atHand()).catch(() => undefined);
  }

  close(): void {
    for (const { keys } of this.#known.values()) keys.close();
  }

  /**
   * Returns the claims of the request's token; undefined if there is no token and the option `optional` is set.
   *
   * @throws Unauthorized when there is no token, InvalidToken when it is refused, HTTPException 503 while no
   * key of its issuer is known
   */
  read(context: Context): Awaitable<IssuerClaims | undefined> {
    const { req } = context;
    const field = req.headers['authorization'];
    if (field === undefined || !SCHEME.test(field)) {
      if (this.#options.optional) return undefined;
      throw withoutStack(() => new Unauthorized('An access token is needed', { headers: this.#absent }));
    }
    const scheme = BEARER.exec(field)?.[0];
    const text = scheme === undefined ? dpopTokenOf(req) : field.slice(scheme.length);
    const opened = text === undefined ? 'form' : this.#open(text);
    if (typeof opened === 'string') throw this.#refusal(opened, req);
    const signer = this.#signer(opened);
    return whenReady(signer, (found) => {
      if (found !== undefined) throw this.#refusal(found, req);
      if (this.#headers.size < MOST_HEADERS) this.#headers.set(opened.head, opened.header);
      return this.#accept(opened, context);
    });
  }

  /** Parses a token, and finds its issuer. Returns the reason to refuse it if either fails. */
  #open(text: string): Opened | TokenRefusal {
    const opened = openJws(text, this.#options.maxLength, this.#headers);
    if (opened === 'too_long') return 'length';
    if (typeof opened === 'string') return opened === 'json' ? 'payload' : 'form';
    const { head, header, claims, signed, signature } = opened;
    const known = this.#known.get(Object.hasOwn(claims, 'iss') ? claims['iss'] : undefined);
    if (known === undefined) return 'issuer';
    const { alg, kid, typ } = header;
    const algorithm = known.issuer.algorithms.find((each) => each === alg);
    if (algorithm === undefined) return 'algorithm';
    if (UNSUPPORTED_HEADERS.some((name) => Object.hasOwn(header, name))) return 'header';
    if (kid !== undefined && typeof kid !== 'string') return 'key';
    if (!isAccessToken(typ, claims, known.issuer.requireType)) return 'type';
    return { head, header, token: { algorithm, keyId: kid, signed, signature }, claims, known };
  }

  #signer(opened: Opened): Awaitable<TokenRefusal | undefined> {
    const { source } = opened.known.keys;
    const set = this.#reachable(opened.known);
    return whenReady(set, (current) =>
      whenReady(signerIn(opened, current), (found) => {
        if (found === 'signed') return undefined;
        const fresh = found === 'unknown' ? source.again() : found === 'other' ? source.renewed() : undefined;
        if (fresh === undefined) return refusalOf(found, opened, current);
        return this.#signerInFresh(opened, fresh, current);
      }),
    );
  }

  async #signerInFresh(
    opened: Opened,
    fetching: Promise<KeySet>,
    known: KeySet,
  ): Promise<TokenRefusal | undefined> {
    // a failed fetch leaves the known keys, which do not fit the token
    const set = await fetching.catch(() => known);
    const found = await signerIn(opened, set);
    return found === 'signed' ? undefined : refusalOf(found, opened, set);
  }

  #reachable({ keys }: Known): KeySet | Promise<KeySet> {
    const set = keys.source.atHand();
    if (!(set instanceof Promise)) return set;
    return set.catch((error: unknown) => {
      if (!(error instanceof ProviderFault)) throw error;
      this.#refusals.add(1, 'keys_unavailable');
      throw unavailable(
        'The access token cannot be verified at the moment; repeat the request later',
        RETRY_AFTER_SECONDS,
      );
    });
  }

  #accept({ claims, known }: Opened, context: Context): Awaitable<IssuerClaims> {
    const { req } = context;
    const found = this.#claimsOf(claims, known);
    if (typeof found === 'string') throw this.#refusal(found, req);
    const isBound = claims['cnf'] !== undefined || dpopTokenOf(req) !== undefined;
    return whenReady(isBound ? this.#isFromSender(claims, req) : true, (isOwn) => {
      if (!isOwn) throw this.#refusal('proof', req);
      const answer = this.#options.verify?.(found, context) ?? true;
      return whenReady(answer as boolean | Promise<boolean>, (isAccepted) => {
        if (isAccepted !== true) throw this.#refusal('verify', req);
        // `exp` is defined: `checks` requires it
        req.state.set(TOKEN_END_MS, ((found.exp ?? 0) + this.#options.leewaySeconds) * 1_000);
        return found;
      });
    });
  }

  #claimsOf(claims: Record<string, unknown>, { issuer, checks }: Known): IssuerClaims | TokenRefusal {
    const nowSeconds = Math.floor(this.#services.clock.nowMs() / 1_000);
    const judged = issuer.audienceClaim === 'aud' ? claims : { ...claims, aud: claims[issuer.audienceClaim] };
    const issue = issueOfClaims(judged, checks, nowSeconds);
    if (issue !== undefined) return issue;
    for (const [name, value] of Object.entries(issuer.requiredClaims))
      if (!Object.hasOwn(claims, name) || claims[name] !== value) return 'required_claim';
    const found = claims as unknown as IssuerClaims;
    const roles = issuer.roles(found);
    const scopes = scopesOf(claims);
    const principal = `${found.iss} ${found.sub}`;
    Object.assign(found, { principal, scopes, roles: isTextList(roles) ? [...roles] : [] });
    if (this.#schema === undefined) return found;
    const result = this.#schema.parseJson(found);
    return result.ok ? Object.assign(found, result.value, { principal }) : 'schema';
  }

  /**
   * Returns whether the sender of a bound token has proven its key. A proof can be used only once, but several
   * guards of a request may check it.
   */
  #isFromSender(claims: Record<string, unknown>, asking: HttpRequest): Promise<boolean> {
    const req = carrierOf(asking);
    let judged = PROVEN.get(req);
    if (judged === undefined) {
      judged = issueOfSender(claims, req, {
        nowSeconds: this.#services.clock.nowMs() / 1_000,
        use: (key, ttlMs) => this.#records.add(`dpop ${key}`, '', ttlMs),
      }).then((issue) => {
        if (issue !== undefined)
          SecurityLog.of(this.#services).refused('dpop_refused', req, { reason: issue });
        return issue === undefined;
      });
      PROVEN.set(req, judged);
    }
    return judged;
  }

  #refusal(reason: TokenRefusal, req: HttpRequest): RefusedToken {
    SecurityLog.of(this.#services).refused('token_rejected', req, { reason });
    this.#refusals.add(1, reason);
    const isDpop = dpopTokenOf(req) !== undefined;
    if (!isDpop && reason !== 'proof') return new RefusedToken(reason, this.#refused);
    const error = reason === 'proof' ? 'invalid_dpop_proof' : 'invalid_token';
    const bearer = (isDpop ? this.#absent : this.#refused)['WWW-Authenticate'];
    const dpop = `DPoP ${isDpop ? `error="${error}", ` : ''}${PROOF_ALGORITHMS}`;
    return new RefusedToken(reason, { 'WWW-Authenticate': `${bearer}, ${dpop}` });
  }
}

/** Whether the proof of each request is accepted. */
const PROVEN = new WeakMap<HttpRequest, Promise<boolean>>();

/**
 * Returns whether a token is an access token: by its header `typ` (RFC 9068 §4). If the issuer sends no such
 * type, only tokens that are surely of another kind are refused.
 */
function isAccessToken(typ: unknown, claims: JsonObject, isRequired: boolean): boolean {
  if (typ !== undefined && typeof typ !== 'string') return false;
  const type = typ === undefined ? undefined : mediaType(typ);
  if (type === ACCESS_TOKEN) return true;
  if (isRequired || (type !== undefined && type !== 'jwt')) return false;
  return !OTHER_TOKENS.some((name) => Object.hasOwn(claims, name));
}

/** In a key set for many tenants, a key may have the issuer of its own tenant. */
function signerIn({ token, known }: Opened, set: KeySet): Awaitable<SignerResult> {
  const { issuer } = known.issuer;
  return findSigner(token, set, (key) => key.issuer === undefined || key.issuer === issuer);
}

function refusalOf(found: SignerResult, { token }: Opened, set: KeySet): TokenRefusal {
  if (found === 'ambiguous') return 'key_ambiguous';
  if (found === 'other') return 'signature';
  const { keyId } = token;
  // the key with this id is of a type that does not fit the algorithm
  return keyId !== undefined && set.keys.some((key) => key.keyId === keyId) ? 'algorithm' : 'key_unknown';
}

/** Returns the scopes of a token, from its claim `scope` (RFC 9068 §2.2.3) or `scp` (Entra, Okta). */
function scopesOf(claims: JsonObject): string[] {
  const name = ['scope', 'scp'].find((each) => Object.hasOwn(claims, each));
  const value = name === undefined ? undefined : claims[name];
  if (typeof value === 'string') return value.split(' ').filter((scope) => scope !== '');
  return isTextList(value) ? [...value] : [];
}
