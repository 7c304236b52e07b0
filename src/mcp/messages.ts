/**
 * JSON-RPC 2.0 as MCP uses it: values <-> messages. No method is known here.
 *
 *   request        { jsonrpc, id, method, params? }     id: text or an integer, never null
 *   notification   { jsonrpc, method, params? }         no id at all; never answered, whatever it says
 *   response       { jsonrpc, id, result | error }      of the client, to nothing that we have asked
 *   anything else  an error, with the id where one can be read
 */
import { isRecord } from '../base/options.ts';

/** An object of JSON. */
export type JsonObject = { readonly [name: string]: unknown };
/** What a request is known by. */
export type RequestId = string | number;

export const PARSE_ERROR = -32_700;
export const INVALID_REQUEST = -32_600;
export const METHOD_NOT_FOUND = -32_601;
export const INVALID_PARAMS = -32_602;
export const INTERNAL_ERROR = -32_603;
/** A resource that is not there: until 2025-11-25. */
export const RESOURCE_NOT_FOUND = -32_002;
/** A field of HTTP that says something else than the message. */
export const HEADER_MISMATCH = -32_020;
/** A version that is not spoken. */
export const UNSUPPORTED_VERSION = -32_022;

/** A message, as what it is. */
export type Message =
  | { readonly kind: 'request'; readonly id: RequestId; readonly method: string; readonly params: JsonObject }
  | { readonly kind: 'notification'; readonly method: string; readonly params: JsonObject }
  | { readonly kind: 'response' }
  | { readonly kind: 'invalid'; readonly id: RequestId | undefined; readonly error: RpcError };

/** A request. */
export type RpcRequest = Extract<Message, { readonly kind: 'request' }>;

/** Ends a request with an error of the protocol, never of a tool. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** What a value is. Throws nothing. */
export function readMessage(value: unknown): Message {
  if (!isRecord(value)) return invalid(undefined, 'A message is an object');
  const id = isRequestId(value['id']) ? value['id'] : undefined;
  if (value['jsonrpc'] !== '2.0') return invalid(id, 'A message says "jsonrpc": "2.0"');
  const { method, params } = value;
  if (method === undefined && ('result' in value || 'error' in value)) return { kind: 'response' };
  if (typeof method !== 'string') return invalid(id, 'A request says its "method", which is a string');
  if ('id' in value && id === undefined)
    return invalid(undefined, 'The "id" of a request is a string or an integer');
  if (params !== undefined && !isRecord(params)) {
    if (id === undefined) return { kind: 'notification', method, params: {} };
    return {
      kind: 'invalid',
      id,
      error: Array.isArray(params)
        ? new RpcError(INVALID_PARAMS, '"params" is an object')
        : new RpcError(INVALID_REQUEST, '"params" is an object'),
    };
  }
  if (id === undefined) return { kind: 'notification', method, params: params ?? {} };
  return { kind: 'request', id, method, params: params ?? {} };
}

function invalid(id: RequestId | undefined, problem: string): Message {
  return { kind: 'invalid', id, error: new RpcError(INVALID_REQUEST, problem) };
}

/** The answer to a request. */
export function success(id: RequestId, result: JsonObject): JsonObject {
  return { jsonrpc: '2.0', id, result };
}

/** The answer to what has gone wrong. Without an id it says null, or nothing where the version has it so. */
export function failure(
  id: RequestId | undefined,
  { code, message, data }: RpcError,
  dialect: Dialect | undefined,
): JsonObject {
  const error = data === undefined ? { code, message } : { code, message, data };
  if (id !== undefined) return { jsonrpc: '2.0', id, error };
  return dialect?.omitsUnknownIds === true ? { jsonrpc: '2.0', error } : { jsonrpc: '2.0', id: null, error };
}

/** Something that is told without being asked. */
export function notification(method: string, params: JsonObject): JsonObject {
  return { jsonrpc: '2.0', method, params };
}

function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || Number.isSafeInteger(value);
}

/*
 * The versions of the Model Context Protocol that are spoken, and what each of them has.
 *
 *   legacy   2024-11-05 ... 2025-11-25   `initialize` agrees on a version for the process, or for the session
 *   modern   2026-07-28                every request says its version; nothing is remembered between two of them
 */

/** What a version has, as far as answers differ. */
export interface Dialect {
  readonly version: string;
  /** Every request says version and capabilities; results say what kind they are, and how long they may be kept. */
  readonly isModern: boolean;
  /** Tools have `annotations`, progress has a `message`, content may be `audio`: since 2025-03-26. */
  readonly hasAnnotations: boolean;
  /** Several messages may come in one array: until 2025-03-26. */
  readonly hasBatches: boolean;
  /** Tools have `title`, `outputSchema` and `structuredContent`: since 2025-06-18. */
  readonly hasStructure: boolean;
  /** `structuredContent` is any value, not only an object: since 2026-07-28. */
  readonly hasAnyStructure: boolean;
  /** A message about one that has no readable id has none either; before, it says null as JSON-RPC does: since 2025-11-25. */
  readonly omitsUnknownIds: boolean;
}

function dialect(version: string): Dialect {
  return {
    version,
    isModern: version >= '2026',
    hasAnnotations: version >= '2025-03-26',
    hasBatches: version <= '2025-03-26',
    hasStructure: version >= '2025-06-18',
    hasAnyStructure: version >= '2026',
    omitsUnknownIds: version >= '2025-11-25',
  };
}

/** The oldest first. */
const LEGACY: readonly Dialect[] = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'].map(dialect);
/** The newest first: the one to prefer stands in front. */
export const MODERN: readonly Dialect[] = ['2026-07-28'].map(dialect);

/** What `initialize` offers whoever asks for a version that it does not know. */
export const NEWEST_LEGACY: Dialect = LEGACY.at(-1)!;
/** What every version since 2025-06-18 has: used where nobody has said which one. */
export const NEWEST: Dialect = MODERN[0]!;
/** Of a request over HTTP that says none: it had no field for it. */
export const UNSAID: Dialect = LEGACY.find(({ version }) => version === '2025-03-26')!;

/** What error -32022 lists: every version that is spoken, however it is agreed on. */
export const SUPPORTED: readonly string[] = [...MODERN, ...LEGACY.toReversed()].map(({ version }) => version);

/** The legacy version of that name. */
export function legacyDialect(version: unknown): Dialect | undefined {
  return LEGACY.find((known) => known.version === version);
}
/** The modern version of that name. */
export function modernDialect(version: unknown): Dialect | undefined {
  return MODERN.find((known) => known.version === version);
}
