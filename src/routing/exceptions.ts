/**
 * Exception handlers may declare their replies as routes do: `app.exceptionHandler(NotFound, { response:
 * Problem }, handler)`.
 */
import { SvcError } from '../base/errors.ts';
import { given, isObject, readOptions } from '../base/options.ts';
import { DEFAULT_PLAN } from '../http/reply.ts';
import { replyPlanOf } from './replies.ts';
import type { ErrorClass, ExceptionHandler } from '../http/pipeline.ts';
import type { ReplyPlan } from '../http/reply.ts';
import type { TypeSource } from '../schema/schema.ts';

/** The replies of an exception handler. */
export interface ExceptionSpec {
  /** Type of all replies, or types by status. A reply that does not match is a 500, and is not sent. */
  readonly response: TypeSource | Readonly<Record<number, TypeSource>>;
  /** Status of a reply that names none: 200 ... 599. Default 200. */
  readonly status?: number | undefined;
}
/** The arguments after the class: a handler, or a spec and a handler. */
export type ExceptionArguments<E> =
  readonly [handler: ExceptionHandler<E>] | readonly [spec: ExceptionSpec, handler: ExceptionHandler<E>];

/** An exception handler with its checked spec. */
interface ReadHandler<E> {
  readonly handler: ExceptionHandler<E>;
  readonly plan: ReplyPlan;
  readonly spec: ExceptionSpec | undefined;
}

/**
 * Checks the arguments.
 * @throws SvcError `E_EXCEPTION_HANDLER`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, and for mistakes in schemas
 */
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
      'a type, or types by status',
      (value) => typeof value === 'function' || isObject(value),
    ),
    status: given<number>(
      'an integer 200 … 599',
      (value) => Number.isInteger(value) && (value as number) >= 200 && (value as number) <= 599,
    ),
  });
  if (response === undefined)
    throw new SvcError('E_OPTION_RANGE', [subject, 'response', 'a type, or types by status', 'undefined']);
  const spec = { response, ...(status === undefined ? {} : { status }) };
  return { handler, plan: replyPlanOf(response, { status, tuple: undefined }, subject, true), spec };
}
