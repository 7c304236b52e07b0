/**
 * A tracer that keeps its spans, and fails a test that breaks the rules: each span ends exactly once, and is
 * not changed afterwards.
 */
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import type {
  Span,
  SpanError,
  SpanKind,
  SpanStart,
  SpanValue,
  Tracer,
} from '../../src/observability/tracer.ts';

const VALID = /^00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])$/;

/** A span of {@link FakeTracer}. */
export class FakeSpan implements Span {
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Record<string, SpanValue>;
  readonly traceId: string;
  readonly spanId: string;
  /** Id of the parent; undefined if the span begins a trace. */
  readonly parentId: string | undefined;
  readonly isSampled: boolean;
  readonly state: string;
  /** Errors of fail(); undefined for a failure without an error. */
  readonly errors: (SpanError | undefined)[] = [];
  isEnded = false;
  readonly #active: AsyncLocalStorage<FakeSpan>;

  constructor(
    name: string,
    { kind, attributes }: SpanStart,
    ids: Pick<FakeSpan, 'traceId' | 'spanId' | 'parentId' | 'isSampled' | 'state'>,
    active: AsyncLocalStorage<FakeSpan>,
  ) {
    this.name = name;
    this.kind = kind;
    this.attributes = Object.fromEntries(
      Object.entries(attributes).filter((entry): entry is [string, SpanValue] => entry[1] !== undefined),
    );
    this.traceId = ids.traceId;
    this.spanId = ids.spanId;
    this.parentId = ids.parentId;
    this.isSampled = ids.isSampled;
    this.state = ids.state;
    this.#active = active;
  }

  run<T>(fn: () => T): T {
    return this.#active.run(this, fn);
  }

  set(name: string, value: SpanValue): void {
    assert.equal(this.isEnded, false, `set() of ${this.name} after its end`);
    this.attributes[name] = value;
  }

  fail(error?: SpanError): void {
    assert.equal(this.isEnded, false, `fail() of ${this.name} after its end`);
    this.errors.push(error);
  }

  end(): void {
    assert.equal(this.isEnded, false, `${this.name} ends twice`);
    this.isEnded = true;
  }
}

/** Creates spans with consecutive ids. The active span is kept in an AsyncLocalStorage. */
export class FakeTracer implements Tracer {
  /** All spans in the order of their starts. */
  readonly spans: FakeSpan[] = [];
  readonly #active = new AsyncLocalStorage<FakeSpan>();

  start(name: string, start: SpanStart): FakeSpan {
    const id = this.spans.length + 1;
    const spanId = id.toString(16).padStart(16, '0');
    const field = VALID.exec(start.remote?.['traceparent'] ?? '');
    const outer = start.remote === undefined ? this.active : undefined;
    const span = new FakeSpan(
      name,
      start,
      {
        spanId,
        traceId: field?.[1] ?? outer?.traceId ?? id.toString(16).padStart(32, 'a'),
        parentId: field?.[2] ?? outer?.spanId,
        isSampled: field === null ? (outer?.isSampled ?? true) : field[3] === '01',
        state: field === null ? (outer?.state ?? '') : (start.remote?.['tracestate'] ?? ''),
      },
      this.#active,
    );
    this.spans.push(span);
    return span;
  }

  inject(): Record<string, string> {
    const { active } = this;
    if (active === undefined) return {};
    const traceparent = `00-${active.traceId}-${active.spanId}-${active.isSampled ? '01' : '00'}`;
    return active.state === '' ? { traceparent } : { traceparent, tracestate: active.state };
  }

  get active(): FakeSpan | undefined {
    return this.#active.getStore();
  }

  /** Returns the first span with this name. */
  span(name: string): FakeSpan {
    const found = this.spans.find((span) => span.name === name);
    assert.ok(found, `no span "${name}" among ${this.spans.map((span) => span.name).join(', ')}`);
    return found;
  }

  /** Returns the names of the spans as lines, each indented below its parent. */
  tree(parentId?: string, indent = ''): string[] {
    return this.spans
      .filter((span) => span.parentId === parentId)
      .flatMap((span) => [indent + span.name, ...this.tree(span.spanId, `${indent}  `)]);
  }

  /** Fails if a span has not ended. */
  assertEnded(): void {
    assert.deepEqual(
      this.spans.filter((span) => !span.isEnded).map((span) => span.name),
      [],
    );
  }
}
