import assert from 'node:assert/strict';
import test from 'node:test';
import {
  BadRequest,
  ClientDisconnected,
  HTTPException,
  InternalError,
  NotFound,
  SvcError,
} from '../../src/base/errors.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { isThenable } from '../../src/base/promises.ts';
import {
  CoreEdge,
  ErrorRenderer,
  ExceptionHandlers,
  asMiddleware,
  compose,
  guarded,
} from '../../src/http/pipeline.ts';
import { HttpResponse } from '../../src/http/response.ts';
import { DescriptorWatch } from '../../src/observability/descriptors.ts';
import { systemClock } from '../../src/base/clock.ts';
import { DEFAULT_PLAN } from '../../src/http/reply.ts';
import { collectedLog } from '../support/collected-log.ts';
import { fakeRequest } from '../support/transport.ts';
import type { MiddlewareFunction } from '../../src/http/contracts.ts';
import type { TransportRequest } from '../../src/http/request/request.ts';

interface Run {
  readonly response: HttpResponse;
  readonly events: Record<string, unknown>[];
  readonly unhandled: unknown[];
  readonly wasSync: boolean;
}

/** Sends one request through layers around a core. Returns the response and the log. */
async function run(
  layers: readonly MiddlewareFunction[],
  core: (req: TransportRequest) => unknown,
  options: { debug?: boolean; hasLeft?: boolean; handlers?: (handlers: ExceptionHandlers) => void } = {},
): Promise<Run> {
  const { logger, events } = collectedLog();
  const handlers = new ExceptionHandlers();
  options.handlers?.(handlers);
  const unhandled: unknown[] = [];
  const errors = new ErrorRenderer({
    handlers: [handlers],
    log: logger,
    descriptors: new DescriptorWatch(logger, createMetrics({ log: logger }), systemClock),
    debug: options.debug ?? false,
    onUnhandled: (error) => void unhandled.push(error),
    errors: createMetrics({ log: logger }).counter('svc_test_total', 'errors'),
  });
  const layer = compose(layers.map(asMiddleware), guarded(core, new CoreEdge(DEFAULT_PLAN, errors)), errors);
  const { req, outgoing } = fakeRequest({ url: '/x' });
  if (options.hasLeft === true) outgoing.close(false);
  const result = layer(req);
  return { wasSync: result instanceof HttpResponse, response: await result, events, unhandled };
}
const json = (response: HttpResponse): Record<string, unknown> =>
  JSON.parse(response.body as string) as Record<string, unknown>;
const throwing = (error: unknown) => (): never => {
  throw error;
};
/** Adds a header field to the response. */
const outer: MiddlewareFunction = async (_req, next) => {
  const response = await next();
  response.headers.set('X-Outer', 'there');
  return response;
};

test('compose() calls middleware in order and then the handler, and returns through the middleware in reverse order', async () => {
  const order: string[] = [];
  const layer =
    (name: string): MiddlewareFunction =>
    async (_req, next) => {
      order.push(`${name} in`);
      const response = await next();
      order.push(`${name} out`);
      return response;
    };
  const { response } = await run([layer('a'), layer('b')], () => {
    order.push('core');
    return 'x';
  });
  assert.deepEqual(order, ['a in', 'b in', 'core', 'b out', 'a out']);
  assert.equal(response.body, 'x');
});

test('compose() returns a response instead of a promise if all middleware are synchronous, also for errors', async () => {
  const pass: MiddlewareFunction = (_req, next) => next();
  assert.ok((await run([pass, pass], () => 'x')).wasSync);
  assert.ok((await run([pass, pass], throwing(new NotFound()))).wasSync);
  assert.ok((await run([pass, () => 'short'], () => 'x')).wasSync);
  assert.ok(!(await run([pass, outer], () => 'x')).wasSync);
  assert.ok(!(await run([pass], async () => 'x')).wasSync);
});

test('if a middleware returns a response itself, no inner middleware and no handler runs', async () => {
  let runs = 0;
  const { response } = await run([outer, () => ['no', 403], () => ++runs], () => ++runs);
  assert.equal(response.status, 403);
  assert.equal(response.headers.get('x-outer'), 'there');
  assert.equal(runs, 0);
});

test('a middleware may return any value that a handler may return, and null is sent as an empty response', async () => {
  assert.equal((await run([() => ({ a: 1 })], () => 'x')).response.body, '{"a":1}');
  assert.equal((await run([() => null], () => 'x')).response.status, 204);
});

test('if a middleware calls next() twice, it gets an error, and the handler runs once', async () => {
  let runs = 0;
  async function twice(_req: unknown, next: () => unknown): Promise<unknown> {
    await next();
    return next();
  }
  const { response, unhandled } = await run([outer, twice], () => ++runs);
  assert.equal(response.status, 500);
  assert.equal(response.headers.get('x-outer'), 'there');
  assert.equal(runs, 1);
  assert.equal((unhandled[0] as SvcError).code, 'E_NEXT_TWICE');
  assert.match((unhandled[0] as SvcError).message, /"twice"/);
});

test('if a middleware calls next() again during the first call, it gets an error', async () => {
  let again: (() => unknown) | undefined;
  let runs = 0;
  const pass: MiddlewareFunction = (_req, next) => {
    again = next;
    return next();
  };
  const { response, unhandled } = await run([pass], () => {
    runs++;
    return again!();
  });
  assert.deepEqual([response.status, runs, (unhandled[0] as SvcError).code], [500, 1, 'E_NEXT_TWICE']);
});

test('if a middleware calls next() twice, it gets an error, even if the promise of the first call has a then() that never calls back', async () => {
  let runs = 0;
  const twice: MiddlewareFunction = (_req, next) => {
    void next();
    return next();
  };
  const { response, unhandled } = await run(
    [
      twice,
      () => {
        runs++;
        return Object.assign(Promise.resolve('x'), { then: () => undefined });
      },
    ],
    () => 'x',
  );
  assert.deepEqual([response.status, runs, (unhandled[0] as SvcError).code], [500, 1, 'E_NEXT_TWICE']);
});

test('compose() awaits instances of subclasses of Promise in the same way as promises of async functions', async () => {
  class Own<T> extends Promise<T> {
    /* from a library */
  }
  assert.equal((await run([outer, () => Own.resolve({ a: 1 })], () => 'x')).response.body, '{"a":1}');
  assert.equal((await run([outer, () => Own.reject(new NotFound())], () => 'x')).response.status, 404);
});

for (const [what, layer] of [
  ['returns nothing', () => undefined],
  ['resolves with undefined', async () => undefined],
  [
    'calls next(), but returns nothing',
    async (_req: unknown, next: () => unknown) => {
      await next();
    },
  ],
] as const) {
  test(`if a middleware returns no response, the client receives a 500 with E_MIDDLEWARE_RESULT (the middleware ${what})`, async () => {
    const { response, unhandled } = await run([outer, layer], () => 'x');
    assert.equal(response.status, 500);
    assert.equal(response.headers.get('x-outer'), 'there');
    assert.equal((unhandled[0] as SvcError).code, 'E_MIDDLEWARE_RESULT');
  });
}

for (const [what, layer, status] of [
  ['throws', throwing(new Error('sync')), 500],
  ['rejects', () => Promise.reject(new Error('async')), 500],
  ['throws an HTTP exception', throwing(new HTTPException(418, 'tea')), 418],
  [
    'rejects after next()',
    async (_req: unknown, next: () => unknown) => {
      await next();
      throw new BadRequest();
    },
    400,
  ],
  ['returns a value that cannot be sent', () => Symbol('x'), 500],
  ['rejects with undefined', () => Promise.reject(), 500],
  ['returns a thenable that throws', () => ({ then: throwing(new Error('then')) }), 500],
] as const) {
  test(`if a middleware fails, the client receives an error response, and outer middleware still adds its header fields (the middleware ${what}: ${status})`, async () => {
    const { response } = await run([outer, layer], () => 'x');
    assert.equal(response.status, status);
    assert.equal(response.headers.get('x-outer'), 'there');
    assert.equal(response.headers.get('content-type'), 'application/problem+json');
  });
}

for (const thrown of [
  undefined,
  null,
  'text',
  0,
  5n,
  Symbol('s'),
  {},
  [],
  () => 1,
  Object.create(null),
  new Error('plain'),
  new InternalError('declared'),
]) {
  test(`if a handler throws an error or any other value, the response is a 500, and the error is logged once: ${typeof thrown === 'object' && thrown !== null ? Object.prototype.toString.call(thrown) : String(thrown)}`, async () => {
    for (const core of [throwing(thrown), () => Promise.reject(thrown as Error)]) {
      for (const debug of [false, true]) {
        const { response, events, unhandled } = await run([outer], core, { debug });
        assert.equal(response.status, 500);
        assert.equal(response.headers.get('x-outer'), 'there');
        assert.equal(events.length, 1);
        assert.equal(events[0]!['event'], 'unhandled_error');
        assert.deepEqual(unhandled, thrown instanceof InternalError ? [] : [thrown]); // exceptions that the application declared are not logged
        assert.equal('trace' in json(response), debug);
      }
    }
  });
}

test('the response to an unhandled error shows the error with its stack and causes only if "debug" is set', async () => {
  const error = new Error('secret detail', { cause: new Error('secret cause') });
  const plain = await run([], throwing(error));
  assert.ok(!String(plain.response.body).includes('secret'));
  assert.deepEqual(Object.keys(json(plain.response)), ['type', 'title', 'status', 'request_id']);
  const debugged = json((await run([], throwing(error), { debug: true })).response);
  assert.match(String(debugged['trace']), /secret detail[^]*Caused by: Error: secret cause/);
});

test('with debug, a response can show an error that is its own cause', async () => {
  const one = new Error('one');
  const two = new Error('two', { cause: one });
  one.cause = two;
  const { response } = await run([], throwing(one), { debug: true });
  assert.equal(response.status, 500);
  assert.match(String(json(response)['trace']), /Caused by: Error: two/);
});

test('HTTP exceptions below 500 are answered with detail, code, issues and header fields, and are not logged', async () => {
  const error = new BadRequest('bad', {
    code: 'c',
    headers: { 'X-A': '1' },
    issues: [{ loc: ['body', 0], code: 'type', message: 'wrong' }],
    cause: new Error('hidden'),
  });
  const { response, events, unhandled } = await run([], throwing(error), { debug: true });
  const { request_id, ...rest } = json(response);
  assert.equal(typeof request_id, 'string');
  assert.deepEqual(rest, {
    type: 'about:blank',
    title: 'Bad Request',
    status: 400,
    detail: 'bad',
    code: 'c',
    errors: [{ loc: ['body', 0], code: 'type', message: 'wrong' }],
  });
  assert.equal(response.headers.get('x-a'), '1');
  assert.deepEqual([events, unhandled], [[], []]);
});

test('an HTTP exception of 500 or above is logged, and answered with its status, detail and header fields', async () => {
  const { response, events } = await run(
    [],
    throwing(new HTTPException(503, 'later', { headers: { 'Retry-After': '5' } })),
  );
  assert.deepEqual(
    [response.status, json(response)['detail'], response.headers.get('retry-after')],
    [503, 'later', '5'],
  );
  assert.deepEqual(
    events.map((event) => [event['event'], event['status']]),
    [['unhandled_error', 503]],
  );
});

for (const [what, error] of [
  ['a field that cannot be sent', new NotFound('gone', { headers: { X: 'a\r\nb' } })],
  ['a field that only the server may set', new NotFound('gone', { headers: { 'Content-Length': '1' } })],
  ['a detail that is a bigint', new NotFound(5n as unknown as string)],
  ['a code that is a bigint', new NotFound('gone', { code: 5n as unknown as string })],
] as const) {
  test(`an HTTP exception with an invalid header field, detail or code is answered with its status, and one event is logged (${what})`, async () => {
    const { response, events } = await run([], throwing(error));
    assert.equal(response.status, 404);
    assert.equal(json(response)['status'], 404);
    assert.equal(events.length, 1);
  });
}

test('ClientDisconnected is not logged as an error', async () => {
  const { response, events, unhandled } = await run([], throwing(new ClientDisconnected()));
  assert.equal(response.status, 400);
  assert.deepEqual(
    events.map((event) => [event['level'], event['event']]),
    [['debug', 'client_disconnected']],
  );
  assert.deepEqual(unhandled, []);
});

test('an error that the disconnect of the client has caused is not logged as an error', async () => {
  const causes = [
    new Error('canceled', { cause: new ClientDisconnected() }),
    new TypeError('fetch failed', { cause: new Error('canceled', { cause: new ClientDisconnected() }) }),
    new HTTPException(502, undefined, { cause: new ClientDisconnected() }),
  ];
  for (const error of causes) {
    const { response, events, unhandled } = await run([], throwing(error), { hasLeft: true });
    assert.equal(response.status, 400);
    assert.deepEqual(
      events.map((event) => [event['level'], event['event']]),
      [['debug', 'client_disconnected']],
    );
    assert.deepEqual(unhandled, []);
  }
});

for (const [what, hasLeft, handler, cause] of [
  ['the client of another request has disconnected', false, undefined, new ClientDisconnected()],
  ['an exception handler fails after the disconnect', true, throwing(new TypeError('bug')), undefined],
  ['the client has left, but an error has another cause', true, undefined, new Error('refused')],
] as const)
  test(`an error is logged if ${what}`, async () => {
    const error = cause === undefined ? new ClientDisconnected() : new Error('canceled', { cause });
    const { response, events, unhandled } = await run([], throwing(error), {
      hasLeft,
      handlers: (handlers) => void (handler && handlers.add(ClientDisconnected, handler)),
    });
    assert.equal(response.status, 500);
    assert.deepEqual(
      events.map((event) => event['event']),
      ['unhandled_error'],
    );
    assert.equal(unhandled.length, 1);
  });

test('an exception handler may return the same values as a route handler, and outer middleware adds header fields to its response', async () => {
  for (const reply of [() => ['mine', 418], async () => ['mine', 418]]) {
    const { response, events } = await run([outer], throwing(new NotFound()), {
      handlers: (handlers) => void handlers.add(NotFound, reply),
    });
    assert.deepEqual(
      [response.status, response.body, response.headers.get('x-outer')],
      [418, 'mine', 'there'],
    );
    assert.deepEqual(events, []);
  }
});

for (const [what, handler, status] of [
  ['throws', throwing(new Error('in the handler')), 500],
  ['rejects', () => Promise.reject(new Error('in the handler')), 500],
  [
    'throws the same error again',
    (error: unknown) => {
      throw error;
    },
    404,
  ],
  ['throws another HTTP exception', throwing(new HTTPException(409)), 409],
  ['returns a value that cannot be sent', () => Symbol('x'), 500],
  ['resolves with a value that cannot be sent', async () => () => 1, 500],
] as const) {
  test(`if an exception handler fails, the client receives an error response, and no other exception handler runs (the first handler ${what}: ${status})`, async () => {
    const { response } = await run([outer], throwing(new NotFound()), {
      handlers: (handlers) => {
        handlers.add(NotFound, handler);
        handlers.add(Error, () => 'never');
      },
    });
    assert.equal(response.status, status);
    assert.equal(response.headers.get('x-outer'), 'there');
  });
}

test('next() never rejects: an outer middleware receives the error response and may replace it', async () => {
  const seen: unknown[] = [];
  const { response } = await run(
    [
      async (_req, next) => {
        seen.push((await next()).status);
        return 'replaced';
      },
    ],
    throwing(new Error('x')),
  );
  assert.deepEqual(seen, [500]);
  assert.equal(response.body, 'replaced');
});

test('if a middleware sets an invalid status, it gets a RangeError, and the response is a 500', async () => {
  const { response, unhandled } = await run(
    [
      outer,
      async (_req, next) => {
        const inner = await next();
        inner.status = 101;
        return inner;
      },
    ],
    () => ({ a: 1 }),
  );
  assert.equal(response.status, 500);
  assert.equal(response.headers.get('x-outer'), 'there');
  assert.ok(unhandled[0] instanceof RangeError);
});

test('asMiddleware() accepts functions with two parameters and objects with handle(), and refuses any other value', async () => {
  class Counting {
    runs = 0;
    handle(_req: unknown, next: () => unknown): HttpResponse {
      this.runs++;
      return next() as HttpResponse;
    }
  }
  const counting = new Counting();
  assert.equal(asMiddleware(counting), counting);
  await run([(req, next) => counting.handle(req, next)], () => 'x');
  assert.equal(counting.runs, 1);
  for (const given of [null, undefined, 5, 'x', {}, { handle: 1 }, []])
    assert.throws(() => asMiddleware(given as never), { code: 'E_MIDDLEWARE' });
  assert.throws(
    () =>
      asMiddleware(
        class Layer {
          handle(): void {}
        } as never,
      ),
    { code: 'E_MIDDLEWARE', message: /an instance of the class Layer, not the class itself: new Layer\(\)/ },
  );
  assert.throws(() => asMiddleware(((_req: unknown, _res: unknown, next: () => void) => next()) as never), {
    code: 'E_MIDDLEWARE',
    message: /the function has 3 parameters/,
  });
});

test('isThenable() is true for promises and for objects with then()', () => {
  assert.deepEqual(
    [
      Promise.resolve(),
      {
        then() {
          /* nothing */
        },
      },
      { then: 1 },
      null,
      undefined,
      'x',
      () => 1,
    ].map(isThenable),
    [true, true, false, false, false, false, false],
  );
});

test('if a middleware only returns the result of next(), compose() creates no promise of its own', async () => {
  const { logger } = collectedLog();
  const errors = new ErrorRenderer({
    handlers: [new ExceptionHandlers()],
    log: logger,
    descriptors: new DescriptorWatch(logger, createMetrics({ log: logger }), systemClock),
    debug: false,
    errors: createMetrics({ log: logger }).counter('svc_test_total', 'errors'),
  });
  const pass: MiddlewareFunction = (_req, next) => next();
  for (const answer of [Promise.resolve(new HttpResponse('x')), new HttpResponse('x')]) {
    assert.equal(
      compose([pass, pass].map(asMiddleware), () => answer, errors)(fakeRequest({ url: '/x' }).req),
      answer,
    );
  }
  const { response, events } = await run([pass, pass], async () => {
    throw new NotFound();
  });
  assert.deepEqual([response.status, events], [404, []]);
});
