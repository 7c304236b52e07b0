/**
 * Request ids and trace contexts: their origin, and the header fields in which they are sent.
 *
 * The id of a request is its well-formed `X-Request-Id` field, or else 128 random bits in hex. It is part of
 * every response, log line and problem document. RequestIDMiddleware changes how an application creates ids.
 */
import { randomFillSync } from 'node:crypto';
import { findField, stripped } from './headers.ts';

/** How requests get their ids. An option that is `undefined` has its default. */
export interface RequestIDOptions {
  /** Name of the header field for the id, in requests and responses. Default `X-Request-Id`. */
  readonly header?: string | undefined;
  /**
   * Whether to use the id that a request contains: letters, digits and `._:+=@/-`, at most 128 characters.
   * Default true, so that the logs of several services show the same id for a request. Set false if ids in
   * the logs must be unique, and clients reach the server directly.
   */
  readonly acceptIncoming?: boolean | undefined;
  /**
   * Returns a new id: at most 128 letters, digits and `._:+=@/-`. Must be synchronous. If it throws or
   * returns an invalid id, the failure is logged once, and a random id is used. Default: 128 random bits as
   * 32 hex digits.
   */
  readonly generate?: (() => string) | undefined;
}

/**
 * Syntax of an id. Its characters are safe in header fields, logs and problem documents, where ids appear
 * unchanged.
 */
const VALID_ID = /^[A-Za-z0-9][A-Za-z0-9._:+=@/-]{0,127}$/;

/** Determines the ids of requests, by the options of RequestIDMiddleware. @internal */
export class RequestIdentity {
  /** Name of the header field for the id, as it is sent. */
  readonly field: string;
  /** Name of the header field for the id, in lower case. */
  readonly name: string;
  readonly #acceptsIncoming: boolean;
  readonly #generate: (() => string) | undefined;
  /** Called the first time that `generate` throws or returns an invalid id. */
  onInvalid: ((error: unknown) => void) | undefined;

  constructor({ header = 'X-Request-Id', acceptIncoming = true, generate }: RequestIDOptions = {}) {
    this.field = header;
    this.name = header.toLowerCase();
    this.#acceptsIncoming = acceptIncoming;
    this.#generate = generate;
  }

  /** Never throws, because error responses contain the id, too. */
  idOf(rawHeaders: readonly string[]): string {
    if (this.#acceptsIncoming) {
      const incoming = findField(rawHeaders, this.name);
      if (incoming !== undefined && VALID_ID.test(incoming)) return incoming;
    }
    // a call of fresh() alone would be one more function for each request
    return this.#generate === undefined ? randomHex(ID_DIGITS) : this.fresh();
  }

  /** Returns a new id. */
  fresh(): string {
    const generate = this.#generate;
    if (generate === undefined) return randomHex(ID_DIGITS);
    try {
      const id: unknown = generate();
      if (typeof id === 'string' && VALID_ID.test(id)) return id;
      throw new TypeError(
        'generate() must return 1 to 128 letters, digits and ._:+=@/-, beginning with a letter or digit',
      );
    } catch (error) {
      this.onInvalid?.(error);
      this.onInvalid = undefined;
    }
    return randomHex(ID_DIGITS);
  }
}

/** Determines ids in applications without RequestIDMiddleware. @internal */
export const USUAL_IDENTITY: RequestIdentity = new RequestIdentity();

/*
 * The request field `traceparent` is `version-traceid-parentid-flags`, with 2, 32, 16 and 2 lower-case hex
 * digits. The field `tracestate` has at most 32 members `key=value`, separated by commas. It is passed on as
 * received.
 *
 * A malformed or repeated `traceparent` starts a new trace, and `tracestate` is dropped (Trace Context §3.3).
 * Trace ids are only logged, and no decision depends on them, because clients can send any trace id.
 */

/** Trace and span of one request (W3C Trace Context, Level 1). */
export interface TraceContext {
  /** Id of the trace, 32 hex digits: from the caller, or new. */
  readonly traceId: string;
  /** Id of the span of the caller, 16 hex digits; undefined if the trace starts with this request. */
  readonly parentId: string | undefined;
  /**
   * Id of the span of this request, 16 hex digits. With a tracer, it is the span that the tracer exports;
   * otherwise it is a new id.
   */
  readonly spanId: string;
  /** Whether the trace is recorded: as the tracer decides; without one, as the caller has decided. */
  readonly isSampled: boolean;
  /** Value of `tracestate` to pass on; empty if the field is absent or malformed. */
  readonly state: string;
  /** Returns the header fields that carry the active span of the tracer; undefined without a tracer. */
  readonly inject?: (() => Readonly<Record<string, string>>) | undefined;
}

/** Syntax of `traceparent` in version 00. Later versions begin in the same way. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;
const VERSION_0_CHARACTERS = 55;
const NO_TRACE = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const SAMPLED = 1;
const MAX_MEMBERS = 32;
/**
 * Syntax of a `tracestate` member: `key=value` or `tenant@system=value` (Trace Context §3.3.1.3). The value
 * does not end with a space.
 */
const MEMBER =
  /^((?:[a-z][a-z0-9_*/-]{0,255})|(?:[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}))=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** Parses `traceparent` and `tracestate`. The values of a repeated field must be joined by commas. */
export function readTraceContext(
  traceparent: string | undefined,
  tracestate: string | undefined,
): TraceContext {
  const match = traceparent === undefined ? null : TRACEPARENT.exec(traceparent);
  if (match === null || !isValid(match, traceparent!.length))
    return { traceId: newTraceId(), parentId: undefined, spanId: newSpanId(), isSampled: false, state: '' };
  return {
    traceId: match[2]!,
    parentId: match[3]!,
    spanId: newSpanId(),
    // flags other than `sampled` are dropped, because Trace Context Level 1 does not define them (§3.2.2.5)
    isSampled: (Number.parseInt(match[4]!, 16) & SAMPLED) !== 0,
    state: tracestate === undefined ? '' : readState(tracestate),
  };
}

/**
 * Returns the header fields for one call to another service during a request: `traceparent`, and `tracestate`
 * if there is one. Call this function again for each call to a service. `spanId` (16 hex digits) is the id of a
 * span that you record. Default: the active span of the tracer; without a tracer, a random id.
 *
 * Example:
 *   await fetch(url, { headers: traceHeaders(req) });
 *
 * The other service learns the trace id, so send these fields only to your own services.
 */
export function traceHeaders(
  { trace }: { readonly trace: TraceContext },
  spanId?: string,
): Record<string, string> {
  const active = spanId === undefined ? trace.inject?.() : undefined;
  if (active !== undefined && Object.keys(active).length > 0) return { ...active };
  const parentId = spanId ?? (trace.inject === undefined ? newSpanId() : trace.spanId);
  const traceparent = `00-${trace.traceId}-${parentId}-${trace.isSampled ? '01' : '00'}`;
  return trace.state === '' ? { traceparent } : { traceparent, tracestate: trace.state };
}

/**
 * Returns whether version and ids of a `traceparent` are valid. In version 00, nothing may follow the flags;
 * later versions may add text (Trace Context §3.2.4).
 */
function isValid(match: RegExpExecArray, length: number): boolean {
  const [, version, traceId, parentId] = match;
  return (
    version !== 'ff' &&
    (version !== '00' || length === VERSION_0_CHARACTERS) &&
    traceId !== NO_TRACE &&
    parentId !== NO_SPAN
  );
}

/**
 * Returns the members of `tracestate` in order, without empty ones. Returns an empty text if a member is
 * malformed, a key repeats, or there are more than 32 members.
 */
function readState(field: string): string {
  const members: string[] = [];
  const keys = new Set<string>();
  for (const part of field.split(',')) {
    const member = stripped(part);
    if (member === '') continue;
    const key = MEMBER.exec(member)?.[1];
    if (key === undefined || keys.has(key) || keys.size === MAX_MEMBERS) return '';
    keys.add(key);
    members.push(member);
  }
  return members.join(',');
}

/** Returns 128 random bits. Trace Context §3.2.2.3 forbids all zeros, but that does not occur in practice. */
function newTraceId(): string {
  return randomHex(ID_DIGITS);
}

function newSpanId(): string {
  return randomHex(SPAN_DIGITS);
}

const ID_DIGITS = 32;
const SPAN_DIGITS = 16;
/**
 * Random bytes for many ids. V8 keeps the hex text of the whole buffer in memory as long as one id from it
 * exists, so the buffer is small.
 */
const drawnBytes = Buffer.alloc(4_096);

let drawn = '';
let used = 0;

/**
 * Returns random hex digits from a block of random bytes that serves many ids. Calling `randomUUID()` for
 * each id would take 5 % of the time of a short response (`http-inject` of test/bench/candidate.mjs).
 */
function randomHex(digits: number): string {
  if (used + digits > drawn.length) {
    drawn = randomFillSync(drawnBytes).toString('hex');
    used = 0;
  }
  return drawn.slice(used, (used += digits));
}
