/**
 * What a store keeps of a request that must be executed once, and the key it is kept by. No I/O.
 *
 *   key        SHA-256 of [method, route, who sends it, the client's key]       two clients never share one
 *   record     claimed    somebody executes it; owner says who
 *              answered   its answer, for whoever sends it again
 *              done       executed, and its answer is not kept: too large, or a stream
 */
import { createHash } from 'node:crypto';
import { isChunks } from '../chunks.ts';
import { HttpResponse } from '../response.ts';

/** What is known of a request that has come before. `print` is its fingerprint. */
export type IdempotencyRecord =
  | { readonly kind: 'claimed'; readonly print: string; readonly owner: string }
  | {
      readonly kind: 'answered';
      readonly print: string;
      readonly status: number;
      readonly fields: readonly string[];
      readonly body: string | Uint8Array | null;
    }
  | { readonly kind: 'done'; readonly print: string; readonly status: number };

/** Of a longer field nothing is read. */
const MAX_FIELD = 1_024;
const MAX_KEY = 255;
/** A string with parameters, which have no meaning here (RFC 9651 §3.3.3). */
const QUOTED =
  /^"((?:[ !#-[\]-~]|\\["\\])*)"(?: *; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[ !#-[\]-~]|\\["\\])*"|[^";, ]+))?)*$/;
/** As many clients send it, against the draft. */
const BARE = /^[A-Za-z0-9._~:+=@/-]+$/;

/**
 * The key in an `Idempotency-Key` field (draft-ietf-httpapi-idempotency-key-header-07 §2.1): a structured string, 1 ... 255
 * characters. The bare form, without quotation marks, is the same key. Undefined for anything else, two fields among it.
 */
export function readIdempotencyKey(field: string): string | undefined {
  if (field.length > MAX_FIELD) return undefined;
  const text = field.trim();
  const quoted = QUOTED.exec(text);
  const key = quoted !== null ? quoted[1]!.replace(/\\(.)/g, '$1') : BARE.test(text) ? text : '';
  return key.length > 0 && key.length <= MAX_KEY ? key : undefined;
}

/** By what a record is kept: none of what it is made of can be told from it. */
export function recordKey(parts: readonly string[]): string {
  return `idempotency:${createHash('sha256').update(JSON.stringify(parts)).digest('base64url')}`;
}

/** Tells requests apart that have come with the same key: by target, content type and every byte of the body. */
export function fingerprint(target: string, contentType: string, body: Uint8Array): string {
  return createHash('sha256')
    .update(`${JSON.stringify([target, contentType])}\n`)
    .update(body)
    .digest('base64url');
}

/** Fields of one answer that are not of another: they belong to the client, the moment or the connection. */
const UNKEPT_FIELDS =
  /^(?:set-cookie|date|age|x-request-id|traceparent|tracestate|ratelimit.*|x-ratelimit-.*|access-control-.*)$/i;
/** Statuses that ask to come again, with something else or at another time: a later attempt is a new one. */
const UNKEPT_STATUSES: ReadonlySet<number> = new Set([401, 408, 421, 425, 429]);

/** Whether the request has been dealt with: its answer stands for every repetition. */
export function isFinal(status: number): boolean {
  return status < 500 && !UNKEPT_STATUSES.has(status);
}

/** The record of an answer. */
export function recordOf(response: HttpResponse, print: string, maxBytes: number): IdempotencyRecord {
  const { status, body } = response;
  const fields: string[] = [];
  let bytes = 0;
  for (const [name, value] of response.headers) {
    if (UNKEPT_FIELDS.test(name)) continue;
    fields.push(name, value);
    bytes += name.length + value.length;
  }
  if (isChunks(body)) return { kind: 'done', print, status };
  bytes += body === null ? 0 : typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  return bytes > maxBytes
    ? { kind: 'done', print, status }
    : { kind: 'answered', print, status, fields, body };
}

/** The answer of a record, as it was, and `Idempotency-Replayed: true`. */
export function replay({
  status,
  fields,
  body,
}: IdempotencyRecord & { readonly kind: 'answered' }): HttpResponse {
  const response = new HttpResponse(body, { status });
  for (let index = 0; index < fields.length; index += 2)
    response.headers.append(fields[index]!, fields[index + 1]!);
  response.headers.set('Idempotency-Replayed', 'true');
  return response;
}

/** The text that a store keeps. Of equal records it is equal. */
export function encodeRecord(record: IdempotencyRecord): string {
  const { kind, print } = record;
  switch (kind) {
    case 'claimed':
      return JSON.stringify({ k: kind, p: print, o: record.owner });
    case 'done':
      return JSON.stringify({ k: kind, p: print, s: record.status });
    case 'answered': {
      const { status, fields, body } = record;
      return JSON.stringify({
        k: kind,
        p: print,
        s: status,
        f: fields,
        ...(typeof body === 'object'
          ? { b: body === null ? null : Buffer.from(body).toString('base64') }
          : { t: body }),
      });
    }
  }
}

/** What {@link encodeRecord} wrote; undefined for anything else, which only another version of the program can have written. */
export function decodeRecord(text: string): IdempotencyRecord | undefined {
  const { k: kind, p: print, o: owner, s: status, f: fields, t: body, b: bytes } = jsonObject(text);
  if (typeof print !== 'string') return undefined;
  if (kind === 'claimed' && typeof owner === 'string') return { kind, print, owner };
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 599) return undefined;
  const dealt = { print, status: status as number };
  if (kind === 'done') return { kind, ...dealt };
  if (kind !== 'answered' || !Array.isArray(fields) || !fields.every((field) => typeof field === 'string'))
    return undefined;
  const answered = { kind, ...dealt, fields: fields as readonly string[] } as const;
  if (typeof body === 'string') return { ...answered, body };
  return bytes === null
    ? { ...answered, body: null }
    : typeof bytes === 'string'
      ? { ...answered, body: Buffer.from(bytes, 'base64') }
      : undefined;
}

function jsonObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}
