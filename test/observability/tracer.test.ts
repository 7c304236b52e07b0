import assert from 'node:assert/strict';
import test from 'node:test';
import { ClientDisconnected, Forbidden, InternalError } from '../../src/base/errors.ts';
import { failSpan, guardedTracer, inSpan } from '../../src/observability/tracer.ts';
import { collectedLog } from '../support/collected-log.ts';
import { FakeTracer } from '../support/fake-tracer.ts';
import type { Span, SpanStart } from '../../src/observability/tracer.ts';

const START: SpanStart = { kind: 'internal', attributes: {} };

test('inSpan() ends its span when the callback returns, throws, resolves or rejects, and passes on the outcome', async () => {
  const tracer = new FakeTracer();
  const failing = (): never => {
    throw new TypeError('now');
  };
  assert.equal(
    inSpan(tracer, 'value', START, (span) => span === tracer.active),
    true,
  );
  assert.throws(() => inSpan(tracer, 'throws', START, failing), /now/);
  const pending = Promise.withResolvers<number>();
  const later = inSpan(tracer, 'resolves', START, () => pending.promise);
  assert.equal(tracer.span('resolves').isEnded, false);
  pending.resolve(5);
  assert.equal(await later, 5);
  await assert.rejects(
    inSpan(tracer, 'rejects', START, () => Promise.reject(new TypeError('late'))),
    /late/,
  );
  const thenable = { then: (resolve: (value: number) => void) => resolve(7) };
  assert.equal(await (inSpan(tracer, 'thenable', START, () => thenable) as unknown as Promise<number>), 7);
  tracer.assertEnded();
  assert.deepEqual(
    tracer.spans.map(({ name, attributes, errors }) => [
      name,
      attributes['error.type'],
      ...errors.map((error) => error?.message),
    ]),
    [
      ['value', undefined],
      ['throws', 'TypeError', 'now'],
      ['resolves', undefined],
      ['rejects', 'TypeError', 'late'],
      ['thenable', undefined],
    ],
  );
});

test('inSpan() ends its span, and throws the same error, if the members of the error cannot be read', () => {
  const tracer = new FakeTracer();
  const error = new Error('hidden');
  Object.defineProperty(error, 'message', {
    get: () => {
      throw new Error('getter');
    },
  });
  const work = (): never => {
    throw error;
  };
  let thrown: unknown;
  try {
    inSpan(tracer, 'a', START, work);
  } catch (found) {
    thrown = found;
  }
  assert.ok(thrown === error && tracer.span('a').isEnded);
});

test('in the callback of inSpan(), the span is active, also after an await', async () => {
  const tracer = new FakeTracer();
  await inSpan(tracer, 'outer', START, async () => {
    await inSpan(tracer, 'inner', START, () => Promise.resolve());
    await Promise.resolve();
    inSpan(tracer, 'second', START, () => undefined);
  });
  assert.deepEqual(tracer.tree(), ['outer', '  inner', '  second']);
  assert.equal(tracer.active, undefined);
});

test('failSpan() masks secrets, and ignores responses below 500 and disconnected clients', () => {
  const tracer = new FakeTracer();
  const span = tracer.start('span', START);
  const caused = new Error('canceled', { cause: new ClientDisconnected() });
  for (const error of [new Forbidden(), new ClientDisconnected(), caused]) failSpan(span, error);
  assert.deepEqual([span.errors, span.attributes], [[], {}]);
  failSpan(span, new Error('refused: Bearer abcdefghijk'));
  failSpan(span, new InternalError());
  failSpan(span, 5);
  assert.deepEqual(
    span.errors.map((error) => error?.type),
    ['Error', 'InternalError', 'thrown'],
  );
  assert.doesNotMatch(JSON.stringify(span.errors), /abcdefghijk/);
});

test('with guardedTracer(), an exception of any method of a tracer is logged once, and the work runs once', async () => {
  const inner = new FakeTracer();
  for (const method of ['start', 'inject', 'run', 'late run', 'set', 'fail', 'end']) {
    const { logger, events } = collectedLog();
    const fails = (): never => {
      throw new Error(`no ${method}`);
    };
    const tracer = guardedTracer(
      {
        start: (name, start) => {
          if (method === 'start') fails();
          const span: Span = inner.start(name, start);
          if (method === 'late run') Object.assign(span, { run: (fn: () => unknown) => [fn(), fails()] });
          else if (method !== 'inject') Object.assign(span, { [method]: fails });
          return span;
        },
        inject: fails,
      },
      logger,
    );
    assert.equal(guardedTracer(tracer, logger), tracer);
    let runs = 0;
    const work = async (): Promise<number> => ++runs;
    assert.equal(await inSpan(tracer, 'work', START, work), 1, method);
    await assert.rejects(
      inSpan(tracer, 'fails', START, async () => {
        runs++;
        throw new Error('mine');
      }),
      /mine/,
    );
    const span = tracer.start('set', START);
    span?.set('a', 1);
    if (method === 'inject') assert.deepEqual(tracer.inject(), {});
    assert.equal(runs, 2, method);
    assert.deepEqual(
      events.map(({ event, error }) => [event, (error as { message: string }).message]),
      [['tracer_failed', `no ${method}`]],
    );
  }
});
