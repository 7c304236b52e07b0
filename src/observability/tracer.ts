/**
 * Spans of distributed tracing: the interface through which the framework reports them, and functions that
 * start and end them. An application passes its tracer as `new Svc({ tracer })`. src/operations/README.md has
 * a tracer for OpenTelemetry.
 *
 * The tracer keeps the active span, so spans of other libraries join the spans of the framework. Names and
 * attributes follow the semantic conventions of OpenTelemetry for HTTP and databases.
 *
 * An exception of a tracer never reaches the program: {@link guardedTracer} logs the first one.
 */
import { HTTPException, isDisconnect } from '../base/errors.ts';
import { isThenable } from '../base/promises.ts';
import { mask } from './redact.ts';
import type { Logger } from './log.ts';

/**
 * Kind of a span. `server`: a received request. `client`: a call to another service. `consumer`: a received
 * message. `internal`: work within the application.
 */
export type SpanKind = 'server' | 'client' | 'consumer' | 'internal';

/** Value of an attribute. */
export type SpanValue = string | number | boolean;

/** An error for a span. Secrets in its texts are masked. */
export interface SpanError {
  /** Name of the error class, or `thrown` for a value that is not an error. */
  readonly type: string;
  readonly message: string;
  readonly stack: string | undefined;
}

/** Description of a new span. */
export interface SpanStart {
  /** Kind of the span, as in OpenTelemetry. */
  readonly kind: SpanKind;
  /** Attributes that are known at the start. A sampler may read them. Members may be undefined. */
  readonly attributes: Readonly<Record<string, SpanValue | undefined>>;
  /**
   * Header fields of a received request, by lower-case name. The span of its sender, for example in
   * `traceparent`, is the parent; without one, the span begins a trace. Undefined: the active span is the
   * parent.
   */
  readonly remote?: Readonly<Record<string, string | undefined>> | undefined;
}

/** A span that has started. The framework calls `end()` exactly once. */
export interface Span {
  /** Id of the trace, 32 hex digits. */
  readonly traceId: string;
  /** Id of the span, 16 hex digits. */
  readonly spanId: string;
  /** Whether the span is recorded and exported. */
  readonly isSampled: boolean;
  /** Value of `tracestate`; empty if there is none. */
  readonly state: string;
  /**
   * Calls `fn` and returns its result. Meanwhile, and in the continuations of its promises, this span is the
   * active one.
   */
  run<T>(fn: () => T): T;
  /** Sets an attribute. */
  set(name: string, value: SpanValue): void;
  /** Sets the status to "error", and records the error if there is one. */
  fail(error?: SpanError): void;
  /** Ends the span. Later calls of its methods have no effect. */
  end(): void;
}

/** Creates spans. Its methods are synchronous, and must not throw. */
export interface Tracer {
  /** Starts a span, without making it active. Returns undefined if there is nothing to trace. */
  start(name: string, start: SpanStart): Span | undefined;
  /** Returns the header fields that carry the active span to another service; empty if there is none. */
  inject(): Readonly<Record<string, string>>;
}

/**
 * Calls `work` in a new span, and ends the span when the result of `work` is there. Returns this result.
 * `work` gets the span; undefined if the tracer makes none. `describe` adds attributes for an error.
 */
export function inSpan<T>(
  tracer: Tracer,
  name: string,
  start: SpanStart,
  work: (span: Span | undefined) => T,
  describe?: (span: Span, error: unknown) => void,
): T {
  const span = tracer.start(name, start);
  if (span === undefined) return work(undefined);
  const failed = (error: unknown): never => {
    failSpan(span, error);
    describe?.(span, error);
    span.end();
    throw error;
  };
  let value: T;
  try {
    value = span.run(() => work(span));
  } catch (error) {
    return failed(error);
  }
  if (isThenable(value))
    // the returned promise has the same result, and settles after the end of the span
    return Promise.resolve(value).then((ready) => {
      span.end();
      return ready;
    }, failed) as T;
  span.end();
  return value;
}

/**
 * Records an error as the reason of a span's failure. A response with a status below 500 and a client that
 * has disconnected are not failures.
 */
export function failSpan(span: Span, error: unknown): void {
  if (isDisconnect(error) || (error instanceof HTTPException && error.status < 500)) return;
  const shown = shownError(error);
  span.set('error.type', shown.type);
  span.fail(shown);
}

function shownError(error: unknown): SpanError {
  if (!(error instanceof Error)) return { type: 'thrown', message: typeof error, stack: undefined };
  try {
    const { name, message, stack } = error;
    return {
      type: String(name),
      message: mask(String(message)),
      stack: typeof stack === 'string' ? mask(stack) : undefined,
    };
  } catch {
    return { type: 'Error', message: 'the members of the error cannot be read', stack: undefined };
  }
}

/** Returns a tracer whose methods never throw. The first exception of `tracer` is logged. */
export function guardedTracer(tracer: Tracer, log: Logger | undefined): Tracer {
  return tracer instanceof GuardedTracer ? tracer : new GuardedTracer(tracer, log);
}

class GuardedTracer implements Tracer {
  readonly #tracer: Tracer;
  readonly #log: Logger | undefined;
  #hasFailed = false;

  constructor(tracer: Tracer, log: Logger | undefined) {
    this.#tracer = tracer;
    this.#log = log;
  }

  start(name: string, start: SpanStart): Span | undefined {
    const span = this.attempt(() => this.#tracer.start(name, start));
    return span === undefined ? undefined : this.attempt(() => new GuardedSpan(span, this));
  }

  inject(): Readonly<Record<string, string>> {
    return this.attempt(() => this.#tracer.inject()) ?? {};
  }

  /** Calls `work`. Returns undefined if it throws. */
  attempt<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      if (!this.#hasFailed) this.#log?.error('tracer_failed', error);
      this.#hasFailed = true;
      return undefined;
    }
  }
}

class GuardedSpan implements Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
  readonly state: string;
  readonly #span: Span;
  readonly #owner: GuardedTracer;

  constructor(span: Span, owner: GuardedTracer) {
    this.#span = span;
    this.#owner = owner;
    this.traceId = span.traceId;
    this.spanId = span.spanId;
    this.isSampled = span.isSampled;
    this.state = span.state;
  }

  run<T>(fn: () => T): T {
    let outcome: { readonly value: T } | { readonly error: unknown } | undefined;
    const work = (): void => {
      try {
        outcome = { value: fn() };
      } catch (error) {
        outcome = { error };
      }
    };
    this.#owner.attempt(() => this.#span.run(work));
    if (outcome === undefined) work(); // the tracer has thrown before it called `work`
    const ready = outcome!;
    if ('error' in ready) throw ready.error;
    return ready.value;
  }

  set(name: string, value: SpanValue): void {
    this.#owner.attempt(() => this.#span.set(name, value));
  }

  fail(error?: SpanError): void {
    this.#owner.attempt(() => this.#span.fail(error));
  }

  end(): void {
    this.#owner.attempt(() => this.#span.end());
  }
}
