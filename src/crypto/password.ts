/**
 * Password hashes by PBKDF2 (RFC 8018 §5.2). A hash contains its parameters.
 *
 * Form of a hash. The salt and the hash are in base64 without padding:
 *   $pbkdf2-sha256$i=600000$<salt>$<hash>
 *   $pbkdf2-sha256$i=600000,keyid=2027$<salt>$<hash>      with the pepper "2027"
 *
 * A password is hashed as UTF-8 in Unicode normal form C, so composed and decomposed spellings are equal. It
 * is not trimmed, shortened or case-folded.
 */
import { createHmac, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { BadRequest, SvcError, unavailable } from '../base/errors.ts';
import { bool, given, int, oneOf, readOptions, shown } from '../base/options.ts';
import { Keyring } from './keys.ts';

/**
 * A secret that is mixed into every password hash, and stored outside of the database (OWASP Password
 * Storage, peppering).
 */
export interface Pepper {
  /** Public id, which is stored in each hash: 1 ... 64 letters, digits, `+ / . -`. */
  readonly id: string;
  /** Secret text of at least 32 bytes in UTF-8. */
  readonly secret: string;
}

/** Options of new password hashes. Stored hashes with other parameters can still be verified. */
export interface PasswordOptions {
  /** Hash function. Default `sha256`. */
  readonly algorithm?: 'sha256' | 'sha512' | undefined;
  /**
   * Number of iterations. The default, which is also the minimum, is 600_000 for sha256 and 220_000 for
   * sha512 (OWASP Password Storage).
   */
  readonly iterations?: number | undefined;
  /**
   * Maximum number of iterations in a stored hash, 1 ... 1_000_000_000. A hash with more counts as invalid.
   * Default 5_000_000, which takes some seconds.
   */
  readonly maxIterations?: number | undefined;
  /** Peppers. New hashes use the first pepper; stored hashes may use any of them. Default: no peppers. */
  readonly pepper?: Pepper | readonly Pepper[] | undefined;
  /** Allows fewer iterations than the minimum. Such hashes do not protect passwords. Default false. */
  readonly unsafeForTests?: boolean | undefined;
}

/** Options of checkPassword(). */
export interface CheckPasswordOptions extends PasswordOptions {
  /**
   * Function that stores a new hash. It is called if the password is correct, {@link needsRehash} returns
   * true, and the queue of hashes is not full. It is awaited, and its errors are thrown.
   */
  readonly rehash?: ((fresh: string) => unknown) | undefined;
}

type Algorithm = 'sha256' | 'sha512';

const LEAST_ITERATIONS = { sha256: 600_000, sha512: 220_000 } as const;
const SALT_BYTES = 16;
const HASH_BYTES = { sha256: 32, sha512: 64 } as const;
/** Maximum length of a password in bytes. At least 64 characters must be accepted (OWASP ASVS 6.2.9). */
const MAX_PASSWORD_BYTES = 4_096;
const MAX_STORED_CHARACTERS = 512;

/**
 * Hashes a password. Two hashes of the same password differ.
 *
 * @throws BadRequest for a password that is empty, longer than 4,096 bytes in UTF-8, malformed, or ends in
 *   NUL; HTTPException 503 with `Retry-After` if too many hashes are waiting to be computed; SvcError
 *   `E_OPTION_RANGE`, `E_OPTION_UNKNOWN` for invalid options, `E_SECRET_WEAK`, `E_SECRET_FORM` for invalid
 *   peppers
 */
export async function hashPassword(password: string, options: PasswordOptions = {}): Promise<string> {
  const hashing = read('hashPassword()', options);
  const bytes = bytesOf(password);
  if (bytes === undefined || bytes.length === 0)
    throw new BadRequest(
      `A password must be text of 1 to ${MAX_PASSWORD_BYTES} bytes that does not end in NUL`,
    );
  return freshHash(bytes, hashing);
}

/**
 * Returns whether a password matches a stored hash. With an invalid or missing hash, the check takes as long
 * as with a valid one. So the response time of `checkPassword(password, user?.passwordHash)` does not reveal
 * which users exist.
 *
 * @throws HTTPException 503 with `Retry-After` when too many hashes are waiting to be computed; SvcError for
 *   invalid options, as {@link hashPassword} does
 */
export async function checkPassword(
  password: string,
  stored: string | null | undefined,
  options: CheckPasswordOptions = {},
): Promise<boolean> {
  const { rehash, ...others } = options;
  const hashing = read('checkPassword()', others);
  if (rehash !== undefined && typeof rehash !== 'function')
    throw new SvcError('E_OPTION_RANGE', ['checkPassword()', 'rehash', 'must be a function', shown(rehash)]);
  const bytes = bytesOf(password);
  if (bytes === undefined) return false;
  const found = parse(stored, hashing);
  if (found === undefined) {
    await freshHash(bytes, hashing);
    return false;
  }
  const { algorithm, iterations, pepper, salt, hash } = found;
  const isRight = timingSafeEqual(
    await derive(seasoned(bytes, pepper), salt, iterations, hash.length, algorithm),
    hash,
  );
  if (isRight && rehash !== undefined && isOutdated(found, hashing)) await offer(rehash, bytes, hashing);
  return isRight;
}

/**
 * Returns whether a stored hash should be replaced. The reasons are an invalid hash, fewer iterations than in
 * the options, another algorithm or pepper, and a short salt.
 */
export function needsRehash(stored: string, options: PasswordOptions = {}): boolean {
  const hashing = read('needsRehash()', options);
  const found = parse(stored, hashing);
  return found === undefined || isOutdated(found, hashing);
}

// -- hashing --

interface HashOptions {
  readonly algorithm: Algorithm;
  readonly iterations: number;
  readonly maxIterations: number;
  readonly peppers: readonly Pepper[];
}

const PEPPER_ID = /^[A-Za-z0-9+/.-]{1,64}$/;
const KINDS = {
  algorithm: oneOf(['sha256', 'sha512'], 'sha256'),
  iterations: given<number>('an integer', Number.isSafeInteger),
  maxIterations: int(5_000_000, 1, 1_000_000_000),
  pepper: given<Pepper | readonly Pepper[]>(
    '{ id, secret }, or a list of them, each id 1 … 64 letters, digits or + / . -',
    (value) => [value].flat().every(isPepper),
  ),
  unsafeForTests: bool(false),
};

function isPepper(value: unknown): boolean {
  const { id, secret } = (typeof value === 'object' && value !== null ? value : {}) as Partial<Pepper>;
  return typeof id === 'string' && PEPPER_ID.test(id) && typeof secret === 'string';
}

function read(owner: string, options: PasswordOptions): HashOptions {
  const { algorithm, maxIterations, pepper, unsafeForTests, ...given } = readOptions(owner, options, KINDS);
  const least = unsafeForTests ? 1 : LEAST_ITERATIONS[algorithm];
  const iterations = given.iterations ?? LEAST_ITERATIONS[algorithm];
  if (iterations < least || iterations > maxIterations)
    throw new SvcError('E_OPTION_RANGE', [
      owner,
      'iterations',
      `must be an integer from ${least} to ${maxIterations} for ${algorithm}`,
      shown(iterations),
    ]);
  const peppers = pepper === undefined ? [] : ([pepper].flat() as readonly Pepper[]);
  // throws for a weak pepper, before any password is hashed
  for (const { secret } of peppers) Keyring.of(secret);
  return { algorithm, iterations, maxIterations, peppers };
}

// -- stored hashes --

interface StoredHash {
  readonly algorithm: Algorithm;
  readonly iterations: number;
  readonly pepper: Pepper | undefined;
  readonly salt: Buffer;
  readonly hash: Buffer;
}

/** Pattern of a stored hash. It accepts salts of 4 bytes and more, because other programs use short salts. */
const STORED =
  /^\$pbkdf2-(sha256|sha512)\$i=([1-9]\d{0,9})(?:,keyid=([A-Za-z0-9+/.-]{1,64}))?\$([A-Za-z0-9+/]{6,86})\$([A-Za-z0-9+/]{22,86})$/;

/**
 * Parses a stored hash. Returns undefined if the hash is invalid, has too many iterations, or needs a pepper
 * that the options do not contain.
 */
function parse(stored: unknown, { maxIterations, peppers }: HashOptions): StoredHash | undefined {
  const parts =
    typeof stored === 'string' && stored.length <= MAX_STORED_CHARACTERS ? STORED.exec(stored) : null;
  if (parts === null) return undefined;
  const algorithm = parts[1] as Algorithm;
  const [iterations, keyId] = [Number(parts[2]), parts[3]];
  const pepper = peppers.find(({ id }) => id === keyId);
  const [salt, hash] = [bytesOfBase64(parts[4]!), bytesOfBase64(parts[5]!)];
  if (iterations > maxIterations || (keyId !== undefined && pepper === undefined)) return undefined;
  // for a longer hash, PBKDF2 would repeat all iterations for each additional block
  if (salt === undefined || hash === undefined || hash.length > HASH_BYTES[algorithm]) return undefined;
  return { algorithm, iterations, pepper, salt, hash };
}

/** Decodes base64 without padding. Returns undefined unless the text is canonical base64. */
function bytesOfBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  return unpadded(bytes) === text ? bytes : undefined;
}

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '');
}

function isOutdated(found: StoredHash, { algorithm, iterations, peppers }: HashOptions): boolean {
  return (
    found.algorithm !== algorithm ||
    found.iterations < iterations ||
    found.pepper?.id !== peppers[0]?.id ||
    found.salt.length < SALT_BYTES ||
    found.hash.length < HASH_BYTES.sha256
  );
}

// -- hashing --

/**
 * Returns the bytes of a password in UTF-8, or undefined if the password is invalid. Lone surrogates are
 * invalid, because UTF-8 encodes each of them as U+FFFD. A NUL at the end is invalid, because HMAC ignores it
 * (RFC 2104 §2).
 */
function bytesOf(password: unknown): Buffer | undefined {
  if (
    typeof password !== 'string' ||
    Buffer.byteLength(password) > MAX_PASSWORD_BYTES ||
    !password.isWellFormed() ||
    password.endsWith('\0')
  )
    return undefined;
  const bytes = Buffer.from(password.normalize('NFC'));
  return bytes.length > MAX_PASSWORD_BYTES ? undefined : bytes;
}

function seasoned(password: Buffer, pepper: Pepper | undefined): Buffer {
  return pepper === undefined
    ? password
    : createHmac('sha256', Keyring.of(pepper.secret).derive('svc password pepper').current.key)
        .update(password)
        .digest();
}

async function freshHash(password: Buffer, { algorithm, iterations, peppers }: HashOptions): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(seasoned(password, peppers[0]), salt, iterations, HASH_BYTES.sha256, algorithm);
  const parameters = `i=${iterations}${peppers[0] === undefined ? '' : `,keyid=${peppers[0].id}`}`;
  return `$pbkdf2-${algorithm}$${parameters}$${unpadded(salt)}$${unpadded(hash)}`;
}

/** Calls `rehash` with a new hash. Does nothing if too many hashes are waiting to be computed. */
async function offer(
  rehash: (fresh: string) => unknown,
  password: Buffer,
  hashing: HashOptions,
): Promise<void> {
  const fresh = await freshHash(password, hashing).catch(() => undefined);
  if (fresh !== undefined) await rehash(fresh);
}

/**
 * Maximum number of hashes that are computed at once. The thread pool of Node.js has four threads by default.
 * The fourth stays free to read files and to resolve host names.
 */
const MOST_AT_ONCE = 3;
/**
 * Maximum number of hashes that wait to be computed. In a longer queue, the last clients would wait too long.
 */
const MOST_WAITING = 64;
const inThreadPool = promisify(pbkdf2);
const waiting: (() => void)[] = [];
let running = 0;

/** Computes PBKDF2 in the thread pool. At most three computations run at once; the others wait in order. */
async function derive(
  password: Buffer,
  salt: Buffer,
  iterations: number,
  bytes: number,
  algorithm: Algorithm,
): Promise<Buffer> {
  if (running < MOST_AT_ONCE) running++;
  else if (waiting.length < MOST_WAITING)
    // resolved when another computation ends; this one takes its place, so `running` stays unchanged
    await new Promise<void>((resolve) => waiting.push(resolve));
  else throw unavailable('Too many passwords are being checked; try again later', 2);
  try {
    return await inThreadPool(password, salt, iterations, bytes, algorithm);
  } finally {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}
