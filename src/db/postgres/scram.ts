/**
 * Client side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677), and of the md5 method for old
 * accounts. Order of calls and messages:
 *   new ScramFirst() -> client-first -> server-first -> answer() -> client-final -> server-final -> verify()
 *
 * Each call returns the object for the next call. A `ScramDone` exists only after the server's signature was
 * verified, so a server that does not know the password is never accepted.
 */
import {
  createHash,
  createHmac,
  createSecretKey,
  hash,
  pbkdf2,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import { promisify } from 'node:util';
import { preparedPassword } from './saslprep.ts';

const derive = promisify(pbkdf2);

/** Minimum number of iterations. With fewer, guessing a password is too cheap (RFC 7677 §4). */
const MIN_ITERATIONS = 4_096;
/**
 * Maximum number of iterations. With more, a server that is not authenticated yet could use over 5 s of CPU
 * time.
 */
const MAX_ITERATIONS = 10_000_000;

const NONCE_BYTES = 18;
const KEY_BYTES = 32;
/** Maximum number of passwords whose keys are cached. Each account on each server has one entry. */
const MAX_KEPT = 64;

/** Reason why a message of the server is refused. Never contains the exchanged data. */
export class ScramIssue extends Error {
  override readonly name = 'ScramIssue';
}

/** Channel binding of the exchange to the TLS connection (RFC 5802 §6). */
export type ChannelBinding =
  /** Channel binding is disabled or not possible, for example because the connection has no TLS. */
  | { readonly kind: 'none' }
  /**
   * The client supports channel binding, but the server's message did not offer it. With this information,
   * the server detects whether an attacker has removed the offer.
   */
  | { readonly kind: 'unused' }
  /** `digest` is the digest of the server's certificate (RFC 5929 §4.1). */
  | { readonly kind: 'tls-server-end-point'; readonly digest: Uint8Array };

/** Proof that the exchange succeeded: the server knows the password. */
interface ScramDone {
  readonly kind: 'verified';
}

const DONE: ScramDone = Object.freeze({ kind: 'verified' });

/** State of a login after the client's first message. */
export class ScramFirst {
  readonly message: string;
  readonly mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-256-PLUS';
  readonly #password: string;
  readonly #gs2: Buffer;
  readonly #nonce: string;
  readonly #bare: string;
  readonly #keys: ScramKeyring;

  /** `nonce` is printable ASCII text that contains no comma. Only tests set it. */
  constructor(
    password: string,
    binding: ChannelBinding,
    keys: ScramKeyring,
    nonce: string = randomBytes(NONCE_BYTES).toString('base64'),
    user: string = '',
  ) {
    const header = gs2Header(binding);
    this.mechanism = binding.kind === 'tls-server-end-point' ? 'SCRAM-SHA-256-PLUS' : 'SCRAM-SHA-256';
    this.#password = password;
    this.#gs2 = Buffer.concat([
      Buffer.from(header),
      binding.kind === 'tls-server-end-point' ? binding.digest : new Uint8Array(0),
    ]);
    this.#nonce = nonce;
    // PostgreSQL ignores this user name and uses the one in the start-up message
    this.#bare = `n=${user},r=${nonce}`;
    this.#keys = keys;
    this.message = header + this.#bare;
  }

  /** Returns the reply to the server's first message, with the client's proof. @throws ScramIssue */
  async answer(serverFirst: string): Promise<ScramFinal> {
    const { nonce, salt, iterations } = readServerFirst(serverFirst, this.#nonce);
    const { clientKey, storedKey, serverKey } = await this.#keys.get(this.#password, salt, iterations);
    const withoutProof = `c=${this.#gs2.toString('base64')},r=${nonce}`;
    const authMessage = `${this.#bare},${serverFirst},${withoutProof}`;
    const signature = hmac(storedKey, authMessage);
    const proof = clientKey.map((byte, index) => byte ^ signature[index]!);
    return new ScramFinal(
      `${withoutProof},p=${Buffer.from(proof).toString('base64')}`,
      hmac(serverKey, authMessage),
    );
  }
}

/** State of a login after the client has sent its proof. */
class ScramFinal {
  readonly message: string;
  readonly #expected: Buffer;

  constructor(message: string, expected: Buffer) {
    this.message = message;
    this.#expected = expected;
  }

  verify(serverFinal: string): ScramDone {
    const [, kind, value = ''] = /^([ve])=([^,]*)(?:,|$)/.exec(serverFinal) ?? [];
    if (kind === 'e') throw new ScramIssue('the server ended the login with an error');
    const signature = kind === 'v' ? fromBase64(value) : undefined;
    if (signature === undefined) throw new ScramIssue("the server's last message has no signature");
    if (signature.length !== this.#expected.length || !timingSafeEqual(signature, this.#expected))
      throw new ScramIssue("the server's signature is wrong: this server does not know the password");
    return DONE;
  }
}

/**
 * Keys that a login derives from a password (RFC 5802 §3). With these keys, a client can log in without the
 * password, so they are never shown.
 */
interface ScramKeys {
  readonly clientKey: Uint8Array;
  readonly storedKey: KeyObject;
  readonly serverKey: KeyObject;
}

/**
 * Caches the keys that are derived from passwords, so that all connections of an account derive them once.
 * Two of the keys are KeyObjects: Node.js never prints their bytes, and computes an HMAC with them four times
 * as fast.
 */
export class ScramKeyring {
  readonly #kept = new Map<string, Promise<ScramKeys>>();

  get(password: string, salt: Buffer, iterations: number): Promise<ScramKeys> {
    const name = `${iterations},${salt.toString('base64')},${hash('sha256', password, 'base64')}`;
    const kept = this.#kept.get(name);
    if (kept !== undefined) return kept;
    const oldest = this.#kept.size >= MAX_KEPT ? this.#kept.keys().next().value : undefined;
    if (oldest !== undefined) this.#kept.delete(oldest);
    const deriving = deriveKeys(password, salt, iterations);
    this.#kept.set(name, deriving);
    deriving.catch(() => this.#kept.delete(name));
    return deriving;
  }
}

async function deriveKeys(password: string, salt: Buffer, iterations: number): Promise<ScramKeys> {
  const salted = createSecretKey(
    await derive(preparedPassword(password), salt, iterations, KEY_BYTES, 'sha256'),
  );
  const clientKey = hmac(salted, 'Client Key');
  return {
    clientKey,
    storedKey: createSecretKey(createHash('sha256').update(clientKey).digest()),
    serverKey: createSecretKey(hmac(salted, 'Server Key')),
  };
}

/**
 * Returns the reply to AuthenticationMD5Password (PostgreSQL manual §55.2.1): `md5` + md5hex(md5hex(password
 * + user) + salt).
 */
export function md5Password(user: string, password: string, salt: Uint8Array): string {
  const inner = createHash('md5').update(password).update(user).digest('hex');
  return `md5${createHash('md5').update(inner).update(salt).digest('hex')}`;
}

function gs2Header(binding: ChannelBinding): string {
  switch (binding.kind) {
    case 'none':
      return 'n,,';
    case 'unused':
      return 'y,,';
    case 'tls-server-end-point':
      return 'p=tls-server-end-point,,';
  }
}

function readServerFirst(
  message: string,
  ours: string,
): { readonly nonce: string; readonly salt: Buffer; readonly iterations: number } {
  const [, nonce, salt64 = '', digits = ''] =
    /^r=([\x21-\x2b\x2d-\x7e]+),s=([^,]+),i=([1-9]\d{0,9})(?:,|$)/.exec(message) ?? [];
  if (nonce === undefined) throw new ScramIssue("the server's first message cannot be read");
  if (!nonce.startsWith(ours) || nonce.length === ours.length)
    throw new ScramIssue("the server's nonce does not begin with the client's nonce, or adds nothing to it");
  const salt = fromBase64(salt64);
  if (salt === undefined) throw new ScramIssue("the server's salt is not base64");
  const iterations = Number(digits);
  if (iterations < MIN_ITERATIONS || iterations > MAX_ITERATIONS)
    throw new ScramIssue(
      `the server requests ${iterations} iterations, but only ${MIN_ITERATIONS} to ${MAX_ITERATIONS} are accepted`,
    );
  return { nonce, salt, iterations };
}

/** Decodes base64 strictly, because Node.js ignores invalid characters. */
function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length > 0 && bytes.toString('base64') === text ? bytes : undefined;
}

function hmac(key: KeyObject, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest();
}
