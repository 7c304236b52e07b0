/**
 * W3C Trace Context, Level 1: the fields `traceparent` and `tracestate` of a request, and those of calls made for it.
 *
 *   traceparent = version "-" trace-id "-" parent-id "-" flags      2, 32, 16 and 2 hex digits, lower case; ids not all 0
 *   tracestate  = 0 ... 32 members `key=value`, by commas              opaque: passed on as it came, or left out whole
 *
 * A `traceparent` that is malformed, or there twice, begins a new trace, and `tracestate` counts for nothing then (§3.3). No
 * `traceresponse` is sent: Level 1 has none, and clients have `X-Request-Id`. Trace ids come from clients: they are for logs
 * and tools, and decide nothing.
 */
import { randomUUID } from 'node:crypto';

/** Where a request stands in its trace. */
export interface TraceContext {
  /** 32 hex digits; of the caller, else new. */
  readonly traceId: string;
  /** The caller's span, 16 hex digits; undefined where the trace begins here. */
  readonly parentId: string | undefined;
  /** The span of this request, 16 hex digits: new for each. */
  readonly spanId: string;
  /** Whether the caller may have recorded the trace. False where it begins here: whoever records decides anew. */
  readonly isSampled: boolean;
  /** `tracestate` to be passed on; empty where there is none, or one that is malformed. */
  readonly state: string;
}

/** One answer for a malformed field, an unknown version that has been cut, and anything else. The last part is for versions above 00. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;
const VERSION_0_CHARACTERS = 55;
const NO_TRACE = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const SAMPLED = 1;
const MAX_MEMBERS = 32;
/** `key=value` or `tenant@system=value` (§3.3.1.3); the value ends with no space. */
const MEMBER =
  /^((?:[a-z][a-z0-9_*/-]{0,255})|(?:[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}))=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const OUTER_SPACE = /^[ \t]+|[ \t]+$/g;

/** Reads both fields, each as one text with commas where it came several times. */
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
    isSampled: (Number.parseInt(match[4]!, 16) & SAMPLED) !== 0, // other flags are for later versions: not passed on (§3.2.2.5)
    state: tracestate === undefined ? '' : readState(tracestate),
  };
}

/**
 * The fields of a call made for this request: `traceparent`, and `tracestate` where there is one. Each call gets a span id of
 * its own, so ask anew for each; `spanId` (16 hex digits) names one that somebody records.
 *
 *   await fetch(url, { headers: traceHeaders(req) });
 *
 * They tell whoever is called the trace id: for services of your own, not for strangers.
 */
export function traceHeaders(
  { trace }: { readonly trace: TraceContext },
  spanId: string = newSpanId(),
): Record<string, string> {
  const traceparent = `00-${trace.traceId}-${spanId}-${trace.isSampled ? '01' : '00'}`;
  return trace.state === '' ? { traceparent } : { traceparent, tracestate: trace.state };
}

/** Version ff is none; 00 has nothing behind its flags, later ones may (§3.2.4). */
function isValid(match: RegExpExecArray, length: number): boolean {
  const [, version, traceId, parentId] = match;
  return (
    version !== 'ff' &&
    (version !== '00' || length === VERSION_0_CHARACTERS) &&
    traceId !== NO_TRACE &&
    parentId !== NO_SPAN
  );
}

/** The members in their order, without those that are empty; nothing where one is malformed, a key comes twice, or there are too many. */
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

/** 122 random bits, never all zero: the digits of a UUID, of which node:crypto keeps a stock. */
function newTraceId(): string {
  return randomUUID().replaceAll('-', '');
}

/** 62 random bits, never all zero: one bit of them is always set. */
function newSpanId(): string {
  const uuid = randomUUID();
  return uuid.slice(19, 23) + uuid.slice(24);
}
