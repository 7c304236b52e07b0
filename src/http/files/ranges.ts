/**
 * Ranges of bytes (RFC 9110 §14): the field `Range` read, and several parts of one content laid out as multipart/byteranges.
 *
 *   Range: bytes=0-499, 1000-, -500          first and last, both included; from one on; the last so many
 */
import { randomUUID } from 'node:crypto';

/** Bytes `start ... end - 1`. */
export interface Slice {
  readonly start: number;
  readonly end: number;
}

/** More are no honest wish: then the content is sent whole. */
const MAX_RANGES = 16;
const MAX_FIELD_LENGTH = 1_000;

/**
 * What a `Range` asks of content of `size` bytes: the slices in the order they were asked for, `unsatisfiable` (416) when
 * none of them lies within, or `whole` where the field does not count. It does not when it is malformed or of another
 * unit (§14.2), and when it asks for too much: more than 16 ranges, or any that overlap, which only costs the server.
 */
export function readRanges(field: string, size: number): readonly Slice[] | 'unsatisfiable' | 'whole' {
  if (field.length > MAX_FIELD_LENGTH || !/^bytes=/i.test(field)) return 'whole';
  const slices: Slice[] = [];
  let count = 0;
  for (const text of field.slice(6).split(',')) {
    const spec = text.replace(/^[ \t]+|[ \t]+$/g, '');
    if (spec === '') continue; // empty list members (§5.6.1.2)
    const slice = readRange(spec, size);
    if (slice === undefined || ++count > MAX_RANGES) return 'whole';
    if (slice.start < slice.end) slices.push(slice);
    else if (size === 0 && spec.startsWith('-') && /[1-9]/.test(spec)) return 'whole'; // satisfied by nothing, which no Content-Range can say
  }
  if (count === 0) return 'whole';
  if (slices.length === 0) return 'unsatisfiable';
  return overlap(slices) ? 'whole' : slices;
}

/** One range within the content, empty where it lies outside; undefined when it is malformed. */
function readRange(spec: string, size: number): Slice | undefined {
  const match = /^(?:(\d+)-(\d*)|-(\d+))$/.exec(spec);
  if (match === null) return undefined;
  const [, first, last, suffix] = match;
  if (first === undefined) return { start: Math.max(0, size - Number(suffix)), end: size };
  const start = Number(first);
  if (last === '') return { start: Math.min(start, size), end: size };
  if (isGreater(first, last!)) return undefined;
  return { start: Math.min(start, size), end: Math.min(Number(last) + 1, size) };
}

/** Digits compared as numbers of any length. */
function isGreater(left: string, right: string): boolean {
  const [a, b] = [left, right].map((digits) => digits.replace(/^0+/, '')) as [string, string];
  return a.length === b.length ? a > b : a.length > b.length;
}

function overlap(slices: readonly Slice[]): boolean {
  const sorted = slices.toSorted((left, right) => left.start - right.start);
  return sorted.some((slice, index) => index > 0 && slice.start < sorted[index - 1]!.end);
}

/** `Content-Range` of a slice, or, without one, of an answer 416. */
export function contentRange(slice: Slice | undefined, size: number): string {
  return slice === undefined ? `bytes */${size}` : `bytes ${slice.start}-${slice.end - 1}/${size}`;
}

/** Several slices as one body (§14.6): texts to be sent as they are, and slices of the content between them. */
export interface Multipart {
  readonly mediaType: string;
  readonly parts: readonly (Uint8Array | Slice)[];
  readonly length: number;
}

/** Lays slices out, each with its own type and range. The boundary is random: no content has it but by a chance of 2^-122. */
export function layOut(slices: readonly Slice[], size: number, mediaType: string | undefined): Multipart {
  const boundary = randomUUID();
  const type = mediaType === undefined ? '' : `Content-Type: ${mediaType}\r\n`;
  const parts = slices.flatMap((slice, index): (Uint8Array | Slice)[] => [
    Buffer.from(
      `${index === 0 ? '' : '\r\n'}--${boundary}\r\n${type}Content-Range: ${contentRange(slice, size)}\r\n\r\n`,
      'latin1',
    ),
    slice,
  ]);
  parts.push(Buffer.from(`\r\n--${boundary}--\r\n`));
  const length = parts.reduce((sum, part) => sum + lengthOf(part), 0);
  return { mediaType: `multipart/byteranges; boundary=${boundary}`, parts, length };
}

/** Of a text or slice, in bytes. */
export function lengthOf(part: Uint8Array | Slice): number {
  return part instanceof Uint8Array ? part.length : part.end - part.start;
}
