/**
 * Signatures of MariaDB's client_ed25519: Ed25519 (RFC 8032 §5.1), but the expanded key is SHA-512 of the password itself, of any
 * length, where the RFC hashes a seed of 32 bytes. Node signs by seeds only, so the curve is here: some 10 ms, once for each
 * connection. Not in constant time; what is signed by it is a nonce of the server, whose answers take as long as the network does.
 */
import { createHash } from 'node:crypto';

/** A point in extended coordinates: x = X/Z, y = Y/Z, xy = T/Z. */
type Point = readonly [X: bigint, Y: bigint, Z: bigint, T: bigint];

/** The field is the integers modulo P, the group has L elements, the curve is -x² + y² = 1 + D·x²·y². */
const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const D = mod(-121665n * power(121666n, P - 2n));
const ZERO: Point = [0n, 1n, 1n, 0n];
const BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202n;
const BASE_Y = 46316835694926478169428394003475163141307993866256225615783033603165251855960n;
const BASE: Point = [BASE_X, BASE_Y, 1n, mod(BASE_X * BASE_Y)];
const KEY_BYTES = 32;

/** What is signed, and the public key by which the server checks it. */
export interface Ed25519Answer {
  readonly signature: Buffer;
  readonly publicKey: Buffer;
}

/** Signs a message by a password. */
export function signByPassword(password: string | Uint8Array, message: Uint8Array): Ed25519Answer {
  const expanded = sha512(typeof password === 'string' ? Buffer.from(password) : password);
  const scalar = clamped(expanded.subarray(0, KEY_BYTES));
  const publicKey = encoded(multiplied(BASE, scalar));
  const nonce = littleEndian(sha512(expanded.subarray(KEY_BYTES), message)) % L;
  const commitment = encoded(multiplied(BASE, nonce));
  const challenge = littleEndian(sha512(commitment, publicKey, message)) % L;
  return { signature: Buffer.concat([commitment, bytesOf((nonce + challenge * scalar) % L)]), publicKey };
}

function sha512(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('sha512');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** RFC 8032 §5.1.5, step 2. */
function clamped(half: Uint8Array): bigint {
  const bytes = Buffer.from(half);
  bytes[0]! &= 0xf8;
  bytes[31]! &= 0x7f;
  bytes[31]! |= 0x40;
  return littleEndian(bytes);
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
}
function bytesOf(value: bigint): Buffer {
  return Buffer.from(value.toString(16).padStart(2 * KEY_BYTES, '0'), 'hex').reverse();
}

/** §5.1.2: y, and whether x is odd in the highest bit. */
function encoded([X, Y, Z]: Point): Buffer {
  const inverse = power(Z, P - 2n);
  const bytes = bytesOf(mod(Y * inverse));
  if (mod(X * inverse) % 2n === 1n) bytes[31]! |= 0x80;
  return bytes;
}

function multiplied(point: Point, scalar: bigint): Point {
  let sum = ZERO;
  for (let power = point; scalar > 0n; scalar >>= 1n) {
    if ((scalar & 1n) === 1n) sum = added(sum, power);
    power = added(power, power);
  }
  return sum;
}

/** §5.1.4; doubling is the same. */
function added([X1, Y1, Z1, T1]: Point, [X2, Y2, Z2, T2]: Point): Point {
  const a = mod((Y1 - X1) * (Y2 - X2));
  const b = mod((Y1 + X1) * (Y2 + X2));
  const c = mod(2n * D * T1 * T2);
  const d = mod(2n * Z1 * Z2);
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

function mod(value: bigint): bigint {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let square = base; exponent > 0n; exponent >>= 1n) {
    if ((exponent & 1n) === 1n) result = mod(result * square);
    square = mod(square * square);
  }
  return result;
}
