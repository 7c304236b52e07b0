/**
 * Cursors: a position in a list as text for clients. A signature keeps clients from inventing one.
 *
 *   payload.mac      payload = base64url of ["next", …values] as JSON; mac = HMAC-SHA-256 over the order of the list and the payload
 *
 * A cursor is signed, not encrypted: a client can read its row's values in the order columns. It is valid
 * only for lists with the same order.
 */
import { timingSafeEqual } from 'node:crypto';
import { BadRequest, SvcError } from '../../base/errors.ts';
import { Keyring, authSecrets, hmacSha256, type Secrets } from '../../crypto/keys.ts';
import { services } from '../../http/state.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { Position } from './order.ts';

/** Maximum length of a cursor, because it is part of a URL. */
export const MAX_CURSOR_CHARACTERS = 1_024;
const LABEL = 'svc page cursor';

/** A position, and the direction of reading from it. */
export interface Cursor {
  readonly isForward: boolean;
  readonly position: Position;
}

/**
 * Returns the signing keys: from the given secrets, else from the application of the request.
 *
 * @throws SvcError `E_SECRET_ABSENT`
 */
export function cursorKeys(secret: Secrets | undefined, req: HttpRequest | undefined): Keyring {
  const config = req?.state.get(services).config;
  const secrets = secret ?? (config === undefined ? undefined : authSecrets(config));
  if (secrets === undefined) throw new SvcError('E_SECRET_ABSENT', ['secret, or the request in fetch()']);
  return Keyring.of(secrets).derive(LABEL);
}

/** Returns a cursor as text. @throws SvcError `E_DB_PAGE` when the text is too long */
export function writeCursor(keys: Keyring, order: string, { isForward, position }: Cursor): string {
  const values = position.map((value) => {
    if (typeof value === 'bigint') return { bigint: String(value) };
    return value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('base64') } : value;
  });
  const payload = Buffer.from(JSON.stringify([isForward ? 'next' : 'previous', ...values])).toString(
    'base64url',
  );
  const cursor = `${payload}.${hmacSha256(keys.current.key, `${order}\n${payload}`)}`;
  if (cursor.length > MAX_CURSOR_CHARACTERS)
    throw new SvcError('E_DB_PAGE', [
      `the cursor of a row has ${cursor.length} characters, but at most ${MAX_CURSOR_CHARACTERS} are allowed`,
    ]);
  return cursor;
}

/** Parses a cursor that this application has signed. @throws BadRequest for any other text */
export function readCursor(keys: Keyring, order: string, text: string): Cursor {
  const [payload = '', mac = ''] = text.split('.', 2);
  const given = Buffer.from(mac);
  const isOurs = keys.keys.some(({ key }) => {
    const expected = Buffer.from(hmacSha256(key, `${order}\n${payload}`));
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!isOurs || text !== `${payload}.${mac}`)
    throw new BadRequest('The input has 1 problem', {
      issues: [{ loc: ['query', 'cursor'], code: 'cursor', message: 'must be a cursor of this list' }],
    });
  const [way, ...values] = JSON.parse(Buffer.from(payload, 'base64url').toString()) as readonly [
    string,
    ...Written[],
  ]; // the signature proves the format
  return { isForward: way === 'next', position: values.map(valueOf) };
}

/** Returns a value in the form of the payload. */
type Written = string | number | boolean | null | { readonly bigint: string } | { readonly bytes: string };

function valueOf(written: Written): Position[number] {
  if (typeof written !== 'object' || written === null) return written;
  return 'bigint' in written ? BigInt(written.bigint) : new Uint8Array(Buffer.from(written.bytes, 'base64'));
}
