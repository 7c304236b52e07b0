/**
 * Parses and builds JSON-RPC 2.0 messages in the form that MCP uses.
 *
 * Kinds of messages:
 *   - A request is { jsonrpc, id, method, params? }. Its id is text or an integer, never null.
 *   - A notification is { jsonrpc, method, params? }. It has no id, and gets no response.
 *   - A response is { jsonrpc, id, result | error }. The client sends it after a request of the server.
 *   - Any other value is an error. Its error response has the id of the message, if that id is valid.
 */
import { isRecord } from '../base/options.ts';

export type JsonObject = { readonly [name: string]: unknown };
export type RequestId = string | number;

export const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
export const METHOD_NOT_FOUND = -32_601;
export const INVALID_PARAMS = -32_602;
export const INTERNAL_ERROR = -32_603;
/** Error code: resource not found. Only used in protocol versions up to 2025-11-25. */
export const RESOURCE_NOT_FOUND = -32_002;
/** Error code: a header field does not match the message. */
export const HEADER_MISMATCH = -32_020;
/** Error code: the client has not declared a capability that the call requires. */
export const MISSING_CAPABILITY = -32_021;
/** Error code: unsupported protocol version. */
export const UNSUPPORTED_VERSION = -32_022;

/** A parsed message: a request, a notification, a response, or the error for an invalid message. */
export type Message =
  | { readonly kind: 'request'; readonly id: RequestId; readonly method: string; readonly params: JsonObject }
  | { readonly kind: 'notification'; readonly method: string; readonly params: JsonObject }
  | ({ readonly kind: 'response' } & RpcResponse)
  | { readonly kind: 'invalid'; readonly id: RequestId | undefined; readonly error: RpcError };

export interface RpcResponse {
  readonly id: unknown;
  readonly result?: unknown;
  readonly error?: unknown;
}
export type RpcRequest = Extract<Message, { readonly kind: 'request' }>;

/** A JSON-RPC error. A failed tool call is a result with `isError` instead. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Problem of a request whose id another running request has. */
export const REPEATED_ID = 'The id belongs to a request that has no response yet: use another id';

export function invalidRequest(problem: string): RpcError {
  return new RpcError(INVALID_REQUEST, problem);
}

export function invalidParams(problem: string, data?: unknown): RpcError {
  return new RpcError(INVALID_PARAMS, problem, data);
}

export function unsupportedVersion(requested: string, supported: readonly string[] = SUPPORTED): RpcError {
  return new RpcError(UNSUPPORTED_VERSION, 'Unsupported protocol version', { supported, requested });
}

export function textIn(params: JsonObject, name: string): string {
  const value = params[name];
  if (typeof value === 'string') return value;
  throw invalidParams(`"${name}" must be a string`);
}

export function objectIn(params: JsonObject, name: string, fallback?: JsonObject): JsonObject {
  const { [name]: value = fallback } = params;
  if (isRecord(value)) return value;
  throw invalidParams(`"${name}" must be an object`);
}

export function readMessage(value: unknown): Message {
  if (!isRecord(value)) return invalid(undefined, 'A message must be an object');
  const id = isRequestId(value['id']) ? value['id'] : undefined;
  if (value['jsonrpc'] !== '2.0') return invalid(id, 'A message must have "jsonrpc": "2.0"');
  const { method, params } = value;
  if (method === undefined && ('result' in value || 'error' in value))
    return { kind: 'response', id: value['id'], result: value['result'], error: value['error'] };
  if (typeof method !== 'string') return invalid(id, 'A request must have a "method" that is a string');
  if ('id' in value && id === undefined)
    return invalid(undefined, 'The "id" of a request must be a string or an integer');
  if (params !== undefined && !isRecord(params)) {
    if (id === undefined) return { kind: 'notification', method, params: {} };
    const code = Array.isArray(params) ? INVALID_PARAMS : INVALID_REQUEST;
    return { kind: 'invalid', id, error: new RpcError(code, '"params" must be an object') };
  }
  if (id === undefined) return { kind: 'notification', method, params: params ?? {} };
  return { kind: 'request', id, method, params: params ?? {} };
}

function invalid(id: RequestId | undefined, problem: string): Message {
  return { kind: 'invalid', id, error: invalidRequest(problem) };
}

/**
 * Returns an error response, for a text with the error "Invalid Request". If the id of the request is unknown,
 * the response has a null id or none, as the protocol version requires.
 */
export function failure(
  id: RequestId | undefined,
  problem: RpcError | string,
  dialect: Dialect | undefined,
): JsonObject {
  const { code, message, data } = typeof problem === 'string' ? invalidRequest(problem) : problem;
  const error = data === undefined ? { code, message } : { code, message, data };
  if (id !== undefined) return { jsonrpc: '2.0', id, error };
  return dialect?.omitsUnknownIds === true ? { jsonrpc: '2.0', error } : { jsonrpc: '2.0', id: null, error };
}

export function notification(method: string, params: JsonObject): JsonObject {
  return { jsonrpc: '2.0', method, params };
}

const MAX_BATCH = 1_000;

/** Returns the error for a batch that must be refused as a whole; undefined if the batch is allowed. */
export function batchIssue(values: readonly unknown[], dialect: Dialect | undefined): RpcError | undefined {
  if (dialect?.hasBatches !== true)
    return invalidRequest('This protocol version has no batches: send one message at a time');
  if (values.length === 0) return invalidRequest('A batch must have at least one message');
  return values.length > MAX_BATCH
    ? invalidRequest(`A batch must have at most ${MAX_BATCH} messages`)
    : undefined;
}

function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || Number.isSafeInteger(value);
}

/*
 * The supported versions of the Model Context Protocol, and the features of each.
 *
 * Generations of the protocol:
 *   - Legacy, 2024-11-05 ... 2025-11-25: `initialize` negotiates a version for the process or the session.
 *   - Modern, 2026-07-28: each request names its version, and the server is stateless.
 */

/** Features of a protocol version that affect responses. */
export interface Dialect {
  readonly version: string;
  /**
   * True since protocol version 2026-07-28. Each request names its version, and the server keeps no sessions.
   */
  readonly isModern: boolean;
  /**
   * True since protocol version 2025-03-26: tools have `annotations`, progress has a `message`, and content
   * may be `audio`.
   */
  readonly hasAnnotations: boolean;
  /** True up to protocol version 2025-03-26: batches are allowed. */
  readonly hasBatches: boolean;
  /** True since protocol version 2025-06-18: tools have `title`, `outputSchema` and `structuredContent`. */
  readonly hasStructure: boolean;
  /**
   * True since protocol version 2025-11-25: an error response has no id if the id of the request is
   * unreadable. Earlier versions use a null id, as JSON-RPC does.
   */
  readonly omitsUnknownIds: boolean;
}

function dialect(version: string): Dialect {
  return {
    version,
    isModern: version >= '2026',
    hasAnnotations: version >= '2025-03-26',
    hasBatches: version <= '2025-03-26',
    hasStructure: version >= '2025-06-18',
    omitsUnknownIds: version >= '2025-11-25',
  };
}

/** Protocol versions before 2026-07-28, oldest first. */
const LEGACY: readonly Dialect[] = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'].map(dialect);
/** Protocol versions since 2026-07-28, newest first. */
export const MODERN: readonly Dialect[] = ['2026-07-28'].map(dialect);

/** The version that `initialize` offers if the client requests an unsupported one. */
export const NEWEST_LEGACY: Dialect = LEGACY.at(-1)!;
export const NEWEST: Dialect = MODERN[0]!;
/** Protocol version of HTTP requests without MCP-Protocol-Version. */
export const UNSAID: Dialect = LEGACY.find(({ version }) => version === '2025-03-26')!;

/** All supported versions, newest first. */
export const SUPPORTED: readonly string[] = [...MODERN, ...LEGACY.toReversed()].map(({ version }) => version);

export function legacyDialect(version: unknown): Dialect | undefined {
  return LEGACY.find((known) => known.version === version);
}
export function modernDialect(version: unknown): Dialect | undefined {
  return MODERN.find((known) => known.version === version);
}
