/**
 * Converts the return value of a handler into an HttpResponse. A string is sent as `text/plain`, bytes as
 * `application/octet-stream`, and any other value as JSON. `undefined` and `null` lead to 204, unless the
 * route sets another status. An HttpResponse or web Response stays unchanged.
 *
 * The arrays `[body, status]` and `[body, status, headers]` are short for `reply(body, status, headers)`.
 */
import {
  BYTES_TYPE,
  checkedStatus,
  HttpResponse,
  JSON_TYPE,
  Prepared,
  PreparedType,
  setFields,
  StreamingResponse,
  TEXT_TYPE,
  toJson,
} from './response.ts';
import { bytesOf } from '../base/bytes.ts';
import { SvcError } from '../base/errors.ts';
import { formChunks } from './chunks.ts';

/** A body with status and header fields, as a handler returns it. {@link reply} creates it. */
export class Reply<T = unknown, S extends number = number> {
  readonly body: T;
  readonly status: S | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;

  /** @internal */
  constructor(body: T, status: S | undefined, headers: Readonly<Record<string, string>> | undefined) {
    this.body = body;
    this.status = status;
    this.headers = headers;
  }
}

/**
 * Creates a return value for a handler: a body with a status (200 ... 599) and header fields. The body is
 * converted as if the handler had returned only the body.
 * @throws RangeError when the status is not an integer 200 ... 599
 */
export function reply<const T, S extends number = number>(
  body: T,
  status?: S,
  headers?: Readonly<Record<string, string>>,
): Reply<T, S> {
  if (status !== undefined) checkedStatus(status);
  return new Reply(body, status, headers);
}

/** Rules for converting return values of a route, an exception handler or a middleware into responses. */
export interface ReplyPlan {
  /** Status of return values without a status. Undefined means 200, or 204 without a body. */
  readonly status: number | undefined;
  /** Whether `[body, status]` sets body and status of the response. If false, it is sent as a JSON array. */
  readonly readsTuples: boolean;
  /** Converts a body to JSON. Returns undefined if the route declares no response with this status. */
  readonly encode: ((body: unknown, status: number) => string | undefined) | undefined;
  /** Name of the middleware for the error message about an undefined return value. */
  readonly middleware?: string;
}

/** Rules for converting results of exception handlers and middleware into responses. */
export const DEFAULT_PLAN: ReplyPlan = Object.freeze({
  status: undefined,
  readsTuples: true,
  encode: undefined,
});

const JSON_ = new PreparedType(JSON_TYPE);
const TEXT = new PreparedType(TEXT_TYPE);

export function toResponse(value: unknown, plan: ReplyPlan): HttpResponse {
  if (plan.encode !== undefined) return declared(value, plan, plan.encode);
  if (typeof value === 'string') return new HttpResponse(value, TEXT.get(plan.status ?? 200));
  if (value === undefined && plan.middleware !== undefined)
    throw new SvcError('E_MIDDLEWARE_RESULT', [plan.middleware]);
  if (value === undefined || value === null)
    return new HttpResponse(null, new Prepared(plan.status ?? 204, []));
  if (typeof value !== 'object') return json(value, plan);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype) return json(value, plan);
  if (value instanceof HttpResponse) return value;
  if (Array.isArray(value))
    return plan.readsTuples && isTuple(value)
      ? withStatus(value[0], value[1], value[2], plan)
      : json(value, plan);
  if (value instanceof Reply) return withStatus(value.body, value.status, value.headers, plan);
  return unusualReply(value, plan.status ?? 200) ?? json(value, plan);
}

/** The declaration for the status determines the JSON of the body. An HttpResponse stays unchanged. */
function declared(value: unknown, plan: ReplyPlan, encode: NonNullable<ReplyPlan['encode']>): HttpResponse {
  if (value instanceof HttpResponse) return value;
  if (value instanceof Response) return fromWeb(value);
  const given =
    value instanceof Reply
      ? value
      : Array.isArray(value) && plan.readsTuples && isTuple(value)
        ? new Reply(value[0], value[1], value[2])
        : undefined;
  if (given?.body instanceof HttpResponse || given?.body instanceof Response)
    return withStatus(given.body, given.status, given.headers, plan);
  const status = given?.status ?? plan.status ?? 200;
  const body = given === undefined ? value : given.body;
  const text = status === 204 || status === 304 ? undefined : encode(body, status);
  if (text === undefined) return withStatus(body, status, given?.headers, plan);
  const response = new HttpResponse(text, JSON_.get(status));
  setFields(response, given?.headers);
  return response;
}

function json(value: unknown, plan: ReplyPlan): HttpResponse {
  return new HttpResponse(toJson(value), JSON_.get(plan.status ?? 200));
}

/**
 * Returns whether an array means `[body, status]` or `[body, status, headers]`. The status must be an integer
 * 200 ... 599. The body must not be a number, so that a list of numbers stays a list.
 */
function isTuple(
  value: readonly unknown[],
): value is [body: unknown, status: number, headers?: Record<string, string>] {
  if (value.length !== 2 && value.length !== 3) return false;
  const [body, status, headers] = value;
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 599) return false;
  if (typeof body === 'number') return false;
  return (
    value.length === 2 ||
    (typeof headers === 'object' && headers !== null && Object.getPrototypeOf(headers) === Object.prototype)
  );
}

function withStatus(
  body: unknown,
  status: number | undefined,
  headers: Readonly<Record<string, string>> | undefined,
  plan: ReplyPlan,
): HttpResponse {
  const given = toResponse(body, { status: status ?? plan.status, readsTuples: false, encode: undefined });
  // a response that the handler returned is copied, because the program may send it again
  const response = given === body ? given.copy() : given;
  // a response that is returned without a status of its own keeps its status
  if (status !== undefined) response.status = status;
  setFields(response, headers);
  return response;
}

const BYTES = new PreparedType(BYTES_TYPE);

/** Returns the response for bytes or a web Response; undefined for other objects. */
function unusualReply(value: object, status: number): HttpResponse | undefined {
  const bytes = bytesOf(value);
  if (bytes !== undefined) return new HttpResponse(bytes, BYTES.get(status));
  if (value instanceof Response) return fromWeb(value);
  const refuse = (problem: string): never => {
    throw new SvcError('E_REPLY', [problem]);
  };
  if (
    Symbol.asyncIterator in value ||
    value instanceof ReadableStream ||
    typeof (value as Iterator<unknown>).next === 'function'
  ) {
    return refuse('a stream or generator must be wrapped in new StreamingResponse(…)');
  }
  if (value instanceof Map || value instanceof Set)
    return refuse(`a ${value.constructor.name} must be converted to an object or an array`);
  if (value instanceof Blob || value instanceof FormData || value instanceof URLSearchParams)
    return refuse(`a ${value.constructor.name} must be wrapped in new Response(…)`);
  if (value instanceof Error) return refuse('an Error must be thrown, not returned');
  return undefined;
}

/**
 * Fields of a web Response that are not sent (hop-by-hop fields, RFC 9110 §7.6.1). They describe the
 * connection to another server, not the connection to the client.
 */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Recognizes the media type of a FormData body that Node has encoded, by the boundary. */
const FORM = /^multipart\/form-data; boundary=-+formdata-undici-/;

/**
 * Converts a web `Response` into an HttpResponse whose body is a stream. If fetch() has decoded the body,
 * `Content-Encoding` and `Content-Length` are omitted, because they describe the encoded body.
 */
export function fromWeb(web: Response): HttpResponse {
  const { body, status } = web;
  const response =
    body === null
      ? new HttpResponse(null, { status })
      : new StreamingResponse(
          web.type === 'default' && FORM.test(web.headers.get('content-type') ?? '')
            ? formChunks(body)
            : body,
          { status },
        );
  // removes the default media type, because only the media type of the web Response may be sent
  response.headers.delete('Content-Type');
  const isDecoded = web.type !== 'default' && web.headers.has('content-encoding');
  web.headers.forEach((value, name) => {
    if (HOP_BY_HOP.has(name) || (isDecoded && name === 'content-encoding')) return;
    if (name !== 'content-length') response.headers.append(name, value);
    else if (!isDecoded) response.contentLength = Number(value);
  });
  return response;
}
