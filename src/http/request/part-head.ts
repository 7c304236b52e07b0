/**
 * Parses the head of one part of a multipart form (RFC 7578 §4), which contains the names of field and file,
 * and the media type.
 *
 * Example:
 *   Content-Disposition: form-data; name="avatar"; filename="me.png"
 *   Content-Type: image/png
 *
 * Names of fields and files are UTF-8 (RFC 7578 §5.1). In quotes, `\"` and `\\` are escapes; any other
 * backslash is literal. Browsers and curl instead write `%22`, `%0D` and `%0A` (HTML, "multipart form data"),
 * so only these three percent-escapes are decoded.
 *
 * Clients must not send the parameter `filename*` (RFC 8187; RFC 7578 §4.2). It is accepted nevertheless, if
 * it is UTF-8. If a part has both parameters, `filename` is used, as in other parsers.
 */
import { isToken } from '../headers.ts';
import { decodeEscapes } from '../path.ts';

export interface PartHead {
  readonly name: string;
  /**
   * Name of the file; undefined if the part is not a file. It is the last path segment of the received name,
   * without control characters. It may be empty.
   */
  readonly filename: string | undefined;
  /** Media type as declared by the client; `text/plain` if the part has none (RFC 7578 §4.4). */
  readonly contentType: string;
}

/** Maximum number of header fields in one part. */
const MAX_FIELDS = 32;
const NAME = 'Content-Disposition: form-data; name="';
const FILENAME = '"; filename="';
const TYPE = '"\r\nContent-Type: ';
/**
 * Backslash, slash, "%", and all characters that are not printable ASCII. Only anyHead() parses names with
 * them.
 */
const UNUSUAL = /[^ -~]|[\\%/]/;
const PLAIN_TYPE = /^[\w.+-]+\/[\w.+-]+$/;
const DEFAULT_TYPE = 'text/plain';

/** `text` lacks the empty line at its end. Returns an error text if the head is invalid. */
export function parsePartHead(text: string): PartHead | string {
  return usualHead(text) ?? anyHead(text);
}

/**
 * Parses a head as browsers write it; returns undefined for any other head. Takes 0.3 µs; anyHead() would
 * take 0.9 µs (test/bench/parts.mjs --only=multipart).
 */
function usualHead(text: string): PartHead | undefined {
  if (!text.startsWith(NAME)) return undefined;
  const nameEnd = text.indexOf('"', NAME.length);
  if (nameEnd === -1) return undefined;
  const name = text.slice(NAME.length, nameEnd);
  if (UNUSUAL.test(name)) return undefined;
  if (nameEnd === text.length - 1) return { name, filename: undefined, contentType: DEFAULT_TYPE };
  if (!text.startsWith(FILENAME, nameEnd)) return undefined;
  const fileStart = nameEnd + FILENAME.length;
  const fileEnd = text.indexOf('"', fileStart);
  if (fileEnd === -1 || !text.startsWith(TYPE, fileEnd)) return undefined;
  const filename = text.slice(fileStart, fileEnd);
  const contentType = text.slice(fileEnd + TYPE.length);
  return UNUSUAL.test(filename) || filename.startsWith('.') || !PLAIN_TYPE.test(contentType)
    ? undefined
    : { name, filename, contentType };
}

/** Parses a head in any form. Returns an error text if it is invalid. */
function anyHead(text: string): PartHead | string {
  let disposition: string | undefined, type: string | undefined, encoding: string | undefined;
  const lines = text.split('\r\n', MAX_FIELDS + 1);
  if (lines.length > MAX_FIELDS) return `a part has more than ${MAX_FIELDS} fields in its head`;
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon === -1 || line.startsWith('--') || /[\0-\x08\n-\x1f\x7f]/.test(line))
      return 'a part has a head that is not made of "name: value" lines';
    const name = line.slice(0, colon);
    if (!isToken(name)) return 'a part has a header field whose name is not a token';
    const value = line.slice(colon + 1).trim();
    switch (name.toLowerCase()) {
      case 'content-disposition':
        if (disposition !== undefined) return 'a part has two Content-Disposition fields';
        disposition = value;
        break;
      case 'content-type':
        if (type !== undefined) return 'a part has two Content-Type fields';
        type = value;
        break;
      case 'content-transfer-encoding':
        encoding = value;
        if (!/^(?:7bit|8bit|binary)$/i.test(encoding))
          return 'a part has a transfer encoding other than 7bit, 8bit and binary';
        break;
      default: // a receiver must ignore other fields (RFC 7578 §4.8)
    }
  }
  return disposition === undefined
    ? 'a part has no Content-Disposition'
    : readDisposition(disposition, type === undefined || type === '' ? DEFAULT_TYPE : type);
}

function readDisposition(value: string, contentType: string): PartHead | string {
  const end = value.indexOf(';');
  if ((end === -1 ? value : value.slice(0, end)).trim().toLowerCase() !== 'form-data')
    return 'a part has a Content-Disposition other than form-data';
  let name: string | undefined, filename: string | undefined, extended: string | undefined;
  const pattern =
    /;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:[^"\\]|\\[^])*)"|([!#$%&'*+\-.^_`|~0-9A-Za-z]+))[ \t]*/y;
  let at = end === -1 ? value.length : end;
  while (at < value.length) {
    pattern.lastIndex = at;
    const match = pattern.exec(value);
    if (match === null) return 'a part has a malformed Content-Disposition';
    at = pattern.lastIndex;
    const text = match[2] === undefined ? match[3]! : unescaped(match[2]);
    switch (match[1]!.toLowerCase()) {
      case 'name':
        if (name !== undefined) return 'a part has two names';
        name = text;
        break;
      case 'filename':
        if (filename !== undefined) return 'a part has two file names';
        filename = text;
        break;
      case 'filename*':
        if (extended !== undefined) return 'a part has two file names';
        extended = extendedValue(match[3] ?? '');
        if (extended === undefined) return 'a part has a filename* that is not percent-encoded UTF-8';
        break;
      default: // other parameters have no meaning in forms
    }
  }
  if (name === undefined) return 'a part has no name';
  const given = filename ?? extended;
  return { name, filename: given === undefined ? undefined : baseName(given), contentType };
}

function unescaped(quoted: string): string {
  const text = quoted.includes('\\') ? quoted.replace(/\\(["\\])/g, '$1') : quoted;
  return text.includes('%')
    ? text.replace(/%(?:22|0D|0A)/gi, (code) => String.fromCharCode(parseInt(code.slice(1), 16)))
    : text;
}

/** Decodes the value of `filename*` (RFC 8187 §3.2.1). Returns undefined if it is not UTF-8. */
function extendedValue(text: string): string | undefined {
  const encoded = /^utf-8'[A-Za-z0-9-]*'((?:%[0-9A-Fa-f]{2}|[!#$&+\-.^_`|~0-9A-Za-z])*)$/i.exec(text)?.[1];
  return encoded === undefined ? undefined : decodeEscapes(encoded);
}

/**
 * Returns the last segment of a path, whose separators may be slashes or backslashes. Removes control
 * characters, and characters that change the direction of text.
 */
function baseName(given: string): string {
  const name = given
    .slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1)
    .replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '');
  return name === '.' || name === '..' ? '' : name;
}
