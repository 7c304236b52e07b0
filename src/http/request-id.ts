/**
 * Request ids and trace contexts: how a request gets them, and in which fields they are sent.
 *
 * A well-formed `X-Request-Id` of the request is its id. Otherwise the id is 128 random bits in hex. Every
 * response, log line and problem document has it. An application makes ids in one way for all its requests;
 * http/middleware/request-id.ts configures it.
 */
import { randomFillSync } from 'node:crypto';
import { findField } from './headers.ts';

/** How requests get their ids. An option that is `undefined` has its default. */
export interface RequestIDOptions {
  /** Name of the field with the id, in requests and responses. Default `X-Request-Id`. */
  readonly header?: string | undefined;
  /**
   * Whether to use the id that a request brings: letters, digits and `._:+=@/-`, at most 128 characters.
   * Default true, so that the logs of several services have the same id for a request. Set it to false if
   * clients reach the server directly and ids in the logs must be unique.
   */
  readonly acceptIncoming?: boolean | undefined;
  /**
   * Makes an id of the same syntax, synchronously. If it throws or returns an invalid id, that is logged
   * once, and a random id is used. Default: 128 random bits as 32 hex digits.
   */
  readonly generate?: (() => string) | undefined;
}

/**
 * Syntax of an id. Only safe characters are allowed, because ids are written to header fields, logs and
 * problem bodies unchanged.
 */
const VALID_ID = /^[A-Za-z0-9][A-Za-z0-9._:+=@/-]{0,127}$/;

/** Gives requests their ids, as configured. @internal */
export class RequestIdentity {
  /** Name of the header field with the id, spelled as it is sent. */
  readonly field: string;
  /** Name of the header field with the id, in lower case. */
  readonly name: string;
  readonly #acceptsIncoming: boolean;
  readonly #generate: (() => string) | undefined;
  /** Called once if `generate` fails or returns an invalid id. */
  onInvalid: ((error: unknown) => void) | undefined;

  constructor({ header = 'X-Request-Id', acceptIncoming = true, generate }: RequestIDOptions = {}) {
    this.field = header;
    this.name = header.toLowerCase();
    this.#acceptsIncoming = acceptIncoming;
    this.#generate = generate;
  }

  /**
   * Returns the id for a request with these fields. Never throws, because the response to an error needs the
   * id as well.
   */
  idOf(rawHeaders: readonly string[]): string {
    if (this.#acceptsIncoming) {
      const incoming = findField(rawHeaders, this.name);
      if (incoming !== undefined && VALID_ID.test(incoming)) return incoming;
    }
    return this.#generate === undefined ? randomHex(ID_DIGITS) : this.#made(this.#generate);
  }

  /** Makes a new id, for a request whose header fields were not read. */
  fresh(): string {
    return this.#generate === undefined ? randomHex(ID_DIGITS) : this.#made(this.#generate);
  }

  #made(generate: () => string): string {
    try {
      const id: unknown = generate();
      if (typeof id === 'string' && VALID_ID.test(id)) return id;
      this.#complain(
        new TypeError(
          'generate() must return 1 … 128 letters, digits and ._:+=@/-, the first a letter or digit',
        ),
      );
    } catch (error) {
      this.#complain(error);
    }
    return randomHex(ID_DIGITS);
  }

  #complain(error: unknown): void {
    this.onInvalid?.(error);
    this.onInvalid = undefined;
  }
}

/** The default identity, for applications without RequestIDMiddleware. @internal */
export const USUAL_IDENTITY: RequestIdentity = new RequestIdentity();

/*
 * W3C Trace Context, Level 1: the fields `traceparent` and `tracestate` of a request, and of the calls made
 * while it is handled.
 *
 * Syntax:
 *   traceparent = version "-" trace-id "-" parent-id "-" flags      2, 32, 16 and 2 lower-case hex digits; ids not all 0
 *   tracestate  = 0 ... 32 members `key=value`, separated by commas     opaque: passed on as received, or dropped whole
 *
 * A malformed or repeated `traceparent` starts a new trace and drops `tracestate` (Trace Context §3.3). No
 * `traceresponse` is sent: Level 1 does not define it, and clients have `X-Request-Id`. Clients choose trace
 * ids, so the framework only writes them to logs and events, and bases no decision on them.
 */

/** Position of a request in its trace. */
export interface TraceContext {
  /** 32 hex digits: the id of the caller's trace, else a new one. */
  readonly traceId: string;
  /** Id of the caller's span, 16 hex digits; undefined if the trace begins with this request. */
  readonly parentId: string | undefined;
  /** Id of the span of this request, 16 hex digits: new for each request. */
  readonly spanId: string;
  /** Whether the caller may have recorded the trace. False for a new trace. */
  readonly isSampled: boolean;
  /** `tracestate` to pass on; empty if absent or malformed. */
  readonly state: string;
}

/** Syntax of `traceparent` in version 00, and of the part of later versions that is known. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;
const VERSION_0_CHARACTERS = 55;
const NO_TRACE = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const SAMPLED = 1;
const MAX_MEMBERS = 32;
/** `key=value` or `tenant@system=value` (Trace Context §3.3.1.3); the value ends with no space. */
const MEMBER =
  /^((?:[a-z][a-z0-9_*/-]{0,255})|(?:[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}))=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const OUTER_SPACE = /^[ \t]+|[ \t]+$/g;

/** Parses both fields. A repeated field is given as one text, joined with commas. */
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
    // all other flags are dropped, because only later versions define them (Trace Context §3.2.2.5)
    isSampled: (Number.parseInt(match[4]!, 16) & SAMPLED) !== 0,
    state: tracestate === undefined ? '' : readState(tracestate),
  };
}

/**
 * Returns the fields of a call to another service made while this request is handled: `traceparent`, and
 * `tracestate` if there is one. Each call needs its own span id, so call this function once per call.
 * `spanId` (16 hex digits) sets the id of a span that you record.
 *
 * Example:
 *   await fetch(url, { headers: traceHeaders(req) });
 *
 * The receiver learns the trace id from the fields, so send them only to your own services.
 */
export function traceHeaders(
  { trace }: { readonly trace: TraceContext },
  spanId: string = newSpanId(),
): Record<string, string> {
  const traceparent = `00-${trace.traceId}-${spanId}-${trace.isSampled ? '01' : '00'}`;
  return trace.state === '' ? { traceparent } : { traceparent, tracestate: trace.state };
}

/**
 * Whether the version is valid: ff is not. Version 00 must end after its flags, later versions may continue
 * (Trace Context §3.2.4).
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
 * The members of `tracestate` in order, without empty ones. Empty text if one is malformed, a key repeats, or
 * there are too many.
 */
function readState(field: string): string {
  const members: string[] = [];
  const keys = new Set<string>();
  for (const part of field.split(',')) {
    const member = part.replace(OUTER_SPACE, '');
    if (member === '') continue;
    const key = MEMBER.exec(member)?.[1];
    if (key === undefined || keys.has(key) || keys.size === MAX_MEMBERS) return '';
    keys.add(key);
    members.push(member);
  }
  return members.join(',');
}

/** 128 random bits. All zeros, which Trace Context §3.2.2.3 forbids, does not occur in practice. */
function newTraceId(): string {
  return randomHex(ID_DIGITS);
}

function newSpanId(): string {
  return randomHex(SPAN_DIGITS);
}

/** Number of hex digits of a trace id, and of a span id. */
const ID_DIGITS = 32,
  SPAN_DIGITS = 16;
/**
 * Buffer for the random bytes of many ids. An id is a slice of their hex text, so the text stays in memory as
 * long as the id.
 */
const drawnBytes = Buffer.alloc(4_096);

let drawn = '';
let used = 0;

/**
 * Returns random hex digits. One block of random bytes serves many ids: calling `randomUUID()` for each id
 * would take 5 % of the time of a short response (http-inject --steps=json).
 */
function randomHex(digits: number): string {
  if (used + digits > drawn.length) {
    drawn = randomFillSync(drawnBytes).toString('hex');
    used = 0;
  }
  return drawn.slice(used, (used += digits));
}
