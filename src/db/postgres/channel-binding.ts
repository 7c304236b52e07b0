/**
 * Computes the channel binding tls-server-end-point (RFC 5929 §4.1): a digest of the server's certificate.
 * The digest uses the hash function of the certificate's signature.
 *
 * The signature algorithm is read from the DER encoding of the certificate (RFC 5280 §4.1), because some
 * supported Node.js versions do not expose it.
 */
import { createHash } from 'node:crypto';

const SEQUENCE = 0x30;
const OID = 0x06;
/** DER tag [0] EXPLICIT, which marks the hash algorithm in RSASSA-PSS-params (RFC 4055 §3.1). */
const CONTEXT_0 = 0xa0;

/** Hash functions by OID of the signature. RFC 5929 replaces MD5 and SHA-1 by SHA-256. */
const SIGNATURES: Readonly<Record<string, string>> = {
  '1.2.840.113549.1.1.4': 'sha256',
  '1.2.840.113549.1.1.5': 'sha256',
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
  '1.2.840.113549.1.1.14': 'sha224',
  '1.2.840.113549.1.1.15': 'sha512-224',
  '1.2.840.113549.1.1.16': 'sha512-256',
  '1.2.840.10040.4.3': 'sha256',
  '2.16.840.1.101.3.4.3.2': 'sha256',
  '1.2.840.10045.4.1': 'sha256',
  '1.2.840.10045.4.3.1': 'sha224',
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
};
const RSA_PSS = '1.2.840.113549.1.1.10';
const HASHES: Readonly<Record<string, string>> = {
  '1.3.14.3.2.26': 'sha256',
  '2.16.840.1.101.3.4.2.1': 'sha256',
  '2.16.840.1.101.3.4.2.2': 'sha384',
  '2.16.840.1.101.3.4.2.3': 'sha512',
  '2.16.840.1.101.3.4.2.4': 'sha224',
};

interface Element {
  readonly tag: number;
  readonly body: Uint8Array;
  /** Bytes after this DER element. */
  readonly rest: Uint8Array;
}

/** Returns the digest of a certificate. Undefined if its signature has no hash function. */
export function serverEndPoint(der: Uint8Array): Uint8Array | undefined {
  const hash = signatureHash(der);
  return hash === undefined ? undefined : createHash(hash).update(der).digest();
}

/**
 * Returns the hash function of a certificate's signature, by its name in Node.js. Exported for tests.
 * @internal
 */
export function signatureHash(der: Uint8Array): string | undefined {
  const certificate = element(der);
  const tbs = certificate?.tag === SEQUENCE ? element(certificate.body) : undefined;
  const algorithm = tbs === undefined ? undefined : element(tbs.rest);
  const id = algorithm?.tag === SEQUENCE ? element(algorithm.body) : undefined;
  if (id?.tag !== OID) return undefined;
  const name = oidText(id.body);
  return name === RSA_PSS ? pssHash(id.rest) : Object.hasOwn(SIGNATURES, name) ? SIGNATURES[name] : undefined;
}

/** Returns the hash function of an RSASSA-PSS signature; the default SHA-1 becomes SHA-256. */
function pssHash(parameters: Uint8Array): string | undefined {
  const sequence = element(parameters);
  const explicit = sequence?.tag === SEQUENCE ? element(sequence.body) : undefined;
  if (explicit?.tag !== CONTEXT_0) return sequence?.tag === SEQUENCE ? 'sha256' : undefined;
  const algorithm = element(explicit.body);
  const id = algorithm?.tag === SEQUENCE ? element(algorithm.body) : undefined;
  const name = id?.tag === OID ? oidText(id.body) : '';
  return Object.hasOwn(HASHES, name) ? HASHES[name] : undefined;
}

/** Reads one DER element. Returns undefined when `bytes` does not contain a whole element. */
function element(bytes: Uint8Array): Element | undefined {
  const [tag, first] = bytes;
  if (tag === undefined || first === undefined) return undefined;
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
  if (first === 0x80 || lengthBytes > 4 || bytes.length < 2 + lengthBytes) return undefined;
  let length = first < 0x80 ? first : 0;
  // `bytes` contains all length bytes: this was checked above
  for (let index = 0; index < lengthBytes; index++) length = length * 256 + bytes[2 + index]!;
  const start = 2 + lengthBytes;
  return start + length > bytes.length
    ? undefined
    : { tag, body: bytes.subarray(start, start + length), rest: bytes.subarray(start + length) };
}

function oidText(body: Uint8Array): string {
  const numbers: number[] = [];
  let number = 0;
  for (const byte of body) {
    number = number * 128 + (byte & 0x7f);
    if (byte >= 0x80) continue;
    if (numbers.length === 0)
      numbers.push(Math.min(2, Math.floor(number / 40)), number - 40 * Math.min(2, Math.floor(number / 40)));
    else numbers.push(number);
    number = 0;
  }
  return numbers.join('.');
}
