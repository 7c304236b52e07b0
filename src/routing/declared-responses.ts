/** Converts return values of handlers into JSON by the schema that `response` declares for their status. */
import { SvcError } from '../base/errors.ts';
import { FORGOTTEN_AWAIT, isThenable } from '../base/promises.ts';
import { FieldType, compileSerializer } from '../schema/schema.ts';
import { isTypeSource, typesByStatus } from './spec.ts';
import { given, isObject, optionalInt, readOptions } from '../base/options.ts';
import { DEFAULT_PLAN } from '../http/reply.ts';
import { PROBLEM_TYPE } from '../http/response.ts';
import type { Issue } from '../base/errors.ts';
import type { ReplyPlan } from '../http/reply.ts';
import type { Serializer, TypeSource } from '../schema/schema.ts';
import type { RouteSpec } from './spec.ts';
import type { ErrorClass, ExceptionHandler } from '../http/pipeline.ts';

export function replyPlanOf(
  response: NonNullable<RouteSpec['response']>,
  { status, tuple }: Pick<RouteSpec, 'status' | 'tuple'>,
  subject: string,
  isOfErrors = false,
): ReplyPlan {
  const byStatus = new Map<number, Serializer>();
  let usual: Serializer | undefined;
  let isList = false;
  if (isTypeSource(response)) {
    usual = compileSerializer(response, `the response of ${subject}`);
    isList = isListType(response);
  } else {
    for (const [status, source] of typesByStatus(response, subject))
      byStatus.set(status, compileSerializer(source, `the response ${status} of ${subject}`));
  }
  const serializerFor = (of: number): Serializer | undefined => {
    const found = byStatus.get(of) ?? (isOfErrors || of < 300 ? usual : undefined);
    if (found === undefined && of < 400)
      throw new SvcError('E_RESPONSE_MISMATCH', [
        subject,
        `the option "response" declares no type for the status ${of}`,
      ]);
    return found;
  };
  return {
    status: status ?? [...byStatus.keys()].filter((key) => key < 300).sort((left, right) => left - right)[0],
    readsTuples: tuple !== false && !isList,
    encode(body, of) {
      const result = serializerFor(of)?.toJson(body === undefined ? null : body);
      if (result === undefined || result.ok) return result?.value;
      throw new SvcError('E_RESPONSE_MISMATCH', [
        subject,
        [...new Set(result.issues.slice(0, 10).map((issue) => inWords(issue, body)))].join('; '),
      ]);
    },
  };
}

/** If the value is or contains a promise, the text says that an `await` is missing. */
function inWords({ loc, message }: Issue, body: unknown): string {
  const at = (length: number): string => loc.slice(0, length).join('.') || 'the value';
  let value = body;
  for (let depth = 0; depth <= loc.length; depth++) {
    if (isThenable(value)) return `${at(depth)} ${FORGOTTEN_AWAIT}`;
    if (typeof value !== 'object' || value === null) break;
    value = (value as Readonly<Record<string | number, unknown>>)[loc[depth]!];
  }
  return `${at(loc.length)} ${message}`;
}

/** Returns whether a type is a list or tuple, possibly as part of a union or nullable type. */
function isListType(source: TypeSource): boolean {
  if (!(source instanceof FieldType)) return false;
  const { shape } = source;
  return (
    shape.kind === 'list' ||
    shape.kind === 'tuple' ||
    (shape.kind === 'choice' && shape.members.some(isListType)) ||
    (shape.kind === 'nullable' && isListType(shape.inner)) ||
    (shape.kind === 'lazy' && isListType(shape.get()))
  );
}

/**
 * Spec of an exception handler, with the types of its responses:
 * `app.exceptionHandler(NotFound, { response: Problem }, handler)`.
 */
export interface ExceptionSpec {
  /**
   * Type of all responses, or an object of types by status. A response that does not match becomes a 500. Or
   * `application/problem+json`, for a handler that throws its error again for programs, and returns pages or redirects
   * for browsers. The API document then keeps the problem details of svc, and responses are not compared with it.
   */
  readonly response: TypeSource | Readonly<Record<number, TypeSource>> | typeof PROBLEM_TYPE;
  /** Status for return values that name no status: 200 ... 599. Default 200. */
  readonly status?: number | undefined;
}
/** Arguments of exceptionHandler() after the class: a handler, or a spec and a handler. */
export type ExceptionArguments<E> =
  readonly [handler: ExceptionHandler<E>] | readonly [spec: ExceptionSpec, handler: ExceptionHandler<E>];

interface ReadHandler<E> {
  readonly handler: ExceptionHandler<E>;
  readonly plan: ReplyPlan;
  readonly spec: ExceptionSpec | undefined;
}

export function readExceptionHandler<E>(
  errorClass: ErrorClass<E>,
  rest: ExceptionArguments<E>,
): ReadHandler<E> {
  if (rest.length === 1) return { handler: rest[0], plan: DEFAULT_PLAN, spec: undefined };
  const [declared, handler] = rest;
  const subject = `the exception handler of ${String((errorClass as { name?: unknown } | undefined)?.name)}`;
  if (!isObject(declared)) throw new SvcError('E_EXCEPTION_HANDLER', ['the handler is not a function']);
  const { response, status } = readOptions(subject, declared, {
    response: given<ExceptionSpec['response']>(
      `a type, an object of types by status, or "${PROBLEM_TYPE}"`,
      (value) => typeof value === 'function' || isObject(value) || value === PROBLEM_TYPE,
    ),
    status: optionalInt(200, 599),
  });
  if (response === undefined)
    throw new SvcError('E_OPTION_RANGE', [
      subject,
      'response',
      'must be a type, or an object that gives each status code a type',
      'undefined',
    ]);
  const spec = { response, ...(status === undefined ? {} : { status }) };
  const plan =
    response === PROBLEM_TYPE
      ? DEFAULT_PLAN
      : replyPlanOf(response, { status, tuple: undefined }, subject, true);
  return { handler, plan, spec };
}
