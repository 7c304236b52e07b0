import assert from 'node:assert/strict';
import test from 'node:test';
import {
  BackgroundTasks,
  Depends,
  Field,
  NotFound,
  Router,
  Schema,
  Svc,
  SvcError,
  Unauthorized,
  int,
  list,
  provide,
  stateKey,
  str,
} from '../../src/index.ts';
import { HttpServer } from '../../src/http/server/server.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { served } from '../support/served.ts';
import { gateOf, soon } from '../support/endings.ts';
import { RawClient } from '../support/raw-http.ts';
import type { Context, DependencySource, Finding, Issue, SvcOptions } from '../../src/index.ts';
import type { TestClientOptions } from '../../src/testing/index.ts';
import type { TestContext } from 'node:test';

/** Returns an application, its log, and a client that gets unhandled errors as a 500. */
function setUp(
  declare: (app: Svc) => void,
  options: TestClientOptions = {},
  settings: SvcOptions = {},
): { app: Svc; client: TestClient; events: Record<string, unknown>[] } & AsyncDisposable {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, ...settings });
  declare(app);
  const client = new TestClient(app, { raiseErrors: false, ...options });
  const request = client.request.bind(client);
  client.request = (...args) => soon(request(...args), 'an answer');
  return { app, client, events, [Symbol.asyncDispose]: () => client.close() };
}

async function json(client: TestClient, path: string, headers?: Record<string, string>): Promise<unknown> {
  const response = await client.get(path, { headers });
  assert.equal(response.status, 200, await response.clone().text());
  return response.json();
}

/**
 * Returns a function that makes generator dependencies, and the list in which they record their events as
 * words.
 */
function recorder(): {
  readonly steps: string[];
  dependency(name: string): (context: Context) => Generator<string, void>;
  asyncDependency(name: string): (context: Context) => AsyncGenerator<string, void>;
} {
  const steps: string[] = [];
  const left = (name: string, error: unknown): void => {
    steps.push(`${name} got ${error instanceof Error ? error.name : String(error)}`);
  };
  return {
    steps,
    dependency: (name) =>
      function* named() {
        steps.push(`${name} opens`);
        try {
          yield name;
          steps.push(`${name} commits`);
        } catch (error) {
          left(name, error);
          throw error;
        }
      },
    asyncDependency: (name) =>
      async function* named() {
        await null;
        steps.push(`${name} opens`);
        try {
          yield name;
          await null;
          steps.push(`${name} commits`);
        } catch (error) {
          left(name, error);
          throw error;
        }
      },
  };
}

function findings(app: Svc): readonly Finding[] {
  try {
    app.compileAll();
  } catch (error) {
    if (error instanceof SvcError && error.findings !== undefined)
      return error.findings.filter(
        ({ rule }) => !['SVC404', 'SVC113', 'SVC201', 'SVC211', 'SVC302'].includes(rule),
      ); // rules that depend on the Node.js that runs the tests, or on parts that the test omits
    throw error;
  }
  return [];
}

function logged(events: readonly Record<string, unknown>[], event: string): Record<string, unknown>[] {
  return events.filter((line) => line['event'] === event);
}

/** Returns a log event as text, which contains the message of its error. */
function messageOf(line: Record<string, unknown> | undefined): string {
  return JSON.stringify(line);
}

// ── sources ──

class Greeter {
  readonly #word: string;
  constructor({ req }: Context) {
    this.#word = req.method;
  }
  greet(name: string): string {
    return `${this.#word} ${name}`;
  }
}
const LABEL = stateKey<string>('label');
const SOURCES: Readonly<Record<string, DependencySource>> = {
  'a function': () => 'value',
  'an async function': async () => 'value',
  'a generator': function* () {
    yield 'value';
  },
  'an async generator': async function* () {
    yield 'value';
  },
  'a generator that yields a promise': function* () {
    yield Promise.resolve('value');
  },
  'a function made by provide()': provide({}, () => 'value'),
  'a generator inside provide()': provide({}, function* () {
    yield 'value';
  }),
  'a state key': LABEL,
  'a bound function': function (this: string) {
    return this;
  }.bind('value') as () => string,
};
for (const [what, source] of Object.entries(SOURCES)) {
  test(`Depends() injects the value of ${what}`, async () => {
    await using it = setUp((app) => {
      app.state.set(LABEL, 'value');
      app.get('/', { it: Depends(source) }, ({ it: given }) => ({ given }));
    });
    assert.deepEqual(await json(it.client, '/'), { given: 'value' });
  });
}

test('Depends() injects an instance of a class, whose constructor gets the context', async () => {
  await using it = setUp((app) =>
    app.get('/', { greeter: Depends(Greeter) }, ({ greeter }) => greeter.greet('Ada')),
  );
  assert.equal(await (await it.client.get('/')).text(), 'GET Ada');
});

for (const given of [undefined, null, 5, {}, 'x']) {
  test(`Depends() refuses ${JSON.stringify(given)} as its first argument`, () => {
    assert.throws(() => Depends(given as never), { code: 'E_DEPENDS' });
  });
}

test('Depends() refuses unknown options and scopes', () => {
  assert.throws(() => Depends(() => 1, { scop: 'app' } as never), {
    code: 'E_OPTION_UNKNOWN',
    message: /"scope"/,
  });
  assert.throws(() => Depends(() => 1, { scope: 'session' } as never), { code: 'E_OPTION_RANGE' });
});

test('provide() refuses arguments other than a spec and a function, and the error names both', () => {
  for (const given of [[() => 1], [], [{}], [null, () => 1], [{}, {}], [[], () => 1]])
    assert.throws(() => (provide as (...args: readonly unknown[]) => unknown)(...given), {
      code: 'E_DEPENDS',
      message: /an object and a function, found /,
      remedy: /provide\(\{ … \}, fn\)/,
    });
});

test('a function that provide() returns throws when the program calls it directly', () => {
  assert.throws(
    () =>
      provide({}, function paging() {
        return 1;
      })({} as Context),
    { code: 'E_DEPENDS', message: /paging/ },
  );
});

test('a dependency that declares path parameters is refused, and the error names req.pathParams', () => {
  const owner = provide({ params: { id: Field(str) } } as object, () => 1);
  const app = new Svc().get('/notes/{id}', { owner: Depends(owner) }, ({ owner: found }) => found);
  assert.throws(() => app.compileAll(), {
    message: /"params" of .*: a dependency declares no path parameters: read req\.pathParams in its function/,
  });
});

test('provide() gives its function the query, headers and cookies, typed and validated', async () => {
  class Page extends Schema {
    page = Field(1, { ge: 1 });
    tags = Field(list(str), { default: () => [] });
  }
  const inputs = provide(
    {
      query: Page,
      headers: {
        userAgent: Field(''),
        xIds: Field(list(int), { default: () => [] }),
        event: Field('', { alias: 'X-GitHub-Event' }),
        snake_case: Field(''),
      },
      cookies: { theme: Field('light') },
    },
    ({ query, headers, cookies, req }) => ({
      page: query.page,
      tags: query.tags,
      isPage: query instanceof Page,
      ...headers,
      theme: cookies.theme,
      method: req.method,
    }),
  );
  await using it = setUp((app) => app.get('/', { inputs: Depends(inputs) }, ({ inputs: found }) => found));
  assert.deepEqual(
    await json(it.client, '/?page=3&tags=a&tags=b', {
      'User-Agent': 'test',
      'X-Ids': ' 1 ,2,, 3',
      'X-GitHub-Event': 'push',
      'Snake-Case': 'y',
      cookie: 'theme=dark; other=1',
    }),
    {
      page: 3,
      tags: ['a', 'b'],
      isPage: true,
      userAgent: 'test',
      xIds: [1, 2, 3],
      event: 'push',
      snake_case: 'y',
      theme: 'dark',
      method: 'GET',
    },
  );
});

test('invalid inputs of provide() are reported together with those of the route, under the names that the client sent', async () => {
  const inputs = provide(
    {
      headers: { xIds: Field(list(int)), event: Field(str, { alias: 'X-GitHub-Event' }) },
      cookies: { theme: Field(str) },
    },
    () => 1,
  );
  await using it = setUp((app) =>
    app.get('/', { query: { page: Field(1) }, inputs: Depends(inputs) }, () => 1),
  );
  const response = await it.client.get('/?page=x', { headers: { 'X-Ids': '1,b' } });
  assert.equal(response.status, 400);
  const { errors } = (await response.json()) as { errors: { loc: unknown[] }[] };
  assert.deepEqual(
    errors.map((issue) => issue.loc),
    [
      ['query', 'page'],
      ['header', 'x-ids', 1],
      ['header', 'x-github-event'],
      ['cookie', 'theme'],
    ],
  );
});

test('a list input with separator "," is read from a query, a cookie and a form over a socket', async () => {
  const ids = Field(list(int), { separator: ',' });
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/', { query: { ids }, cookies: { ids } }, ({ query, cookies }) => ({
    ...query,
    cookie: cookies.ids,
  }));
  app.post('/', { form: { ids } }, ({ form }) => form.ids);
  await using server = await served(app);
  const read = await server.ask('GET', '/?ids=1,2&ids=3%2C4', 'Cookie: ids=5,6\r\n\r\n');
  assert.deepEqual(read.json(), { ids: [1, 2, 3, 4], cookie: [5, 6] });
  const refused = await server.ask('GET', '/?ids=1,x', 'Cookie: ids=5\r\n\r\n');
  assert.deepEqual(
    [refused.status, (refused.json()['errors'] as Issue[])[0]!.loc],
    [400, ['query', 'ids', 1]],
  );
  const form = 'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nids=7,8,9';
  assert.deepEqual(JSON.parse((await server.ask('POST', '/', form)).text()), [7, 8, 9]);
});

test('a comma-separated list keeps 16,000 spaces within an item', async () => {
  await using it = setUp((app) =>
    app.get('/', { headers: { xIds: Field(list(str)) } }, ({ headers }) => headers.xIds),
  );
  assert.deepEqual(await json(it.client, '/', { 'X-Ids': `a${' '.repeat(16_000)}b` }), [
    `a${' '.repeat(16_000)}b`,
  ]);
});

test('the function in provide() gets only the dependencies that provide() declares, and no input of the route', async () => {
  const inner = provide({ word: Depends(async () => 'deep') }, ({ word }) => `${word}er`);
  const outer = provide({ inner: Depends(inner), greeter: Depends(Greeter) }, async (context) => {
    assert.equal(context.signal.aborted, false);
    assert.equal(context.state.has(LABEL), false);
    return { greeting: context.greeter.greet(context.inner), keys: Object.keys(context) };
  });
  await using it = setUp((app) =>
    app.get('/', { query: { x: Field('') }, outer: Depends(outer) }, ({ outer: found }) => found),
  );
  assert.deepEqual(await json(it.client, '/?x=1'), { greeting: 'GET deeper', keys: ['inner', 'greeter'] });
});

for (const key of ['req', 'signal', 'state', 'params']) {
  test(`compileAll() reports a dependency of provide() with the name "${key}", because the context already has a member of this name`, () => {
    const app = new Svc().get(
      '/',
      { it: Depends(provide({ [key]: Depends(() => 1) } as object, () => 1)) },
      () => 1,
    );
    assert.deepEqual(
      findings(app).map(({ rule, subject }) => [rule, subject]),
      [['SVC107', 'GET /']],
    );
  });
}

test('compileAll() reports a value in the argument of provide() that is not a dependency, and names its key', () => {
  const app = new Svc().get(
    '/',
    {
      it: Depends(
        provide({ db: (() => 1) as never }, function users() {
          return 1;
        }),
      ),
    },
    () => 1,
  );
  assert.match(findings(app)[0]!.message, /"db" of users/);
});

// ── once per request ──

test('a dependency is resolved once per request, however many dependencies and handlers use it', async () => {
  let calls = 0;
  const counter = (): number => ++calls;
  const other = provide({ count: Depends(counter) }, ({ count }) => count);
  await using it = setUp((app) =>
    app.get(
      '/',
      { one: Depends(counter), two: Depends(counter), three: Depends(other) },
      ({ one, two, three }) => [one, two, three],
    ),
  );
  assert.deepEqual(await json(it.client, '/'), [1, 1, 1]);
  assert.deepEqual(await json(it.client, '/'), [2, 2, 2]);
});

test('a dependency with cache: false is resolved again for each dependency or handler that uses it', async () => {
  let calls = 0;
  const counter = (): number => ++calls;
  const fresh = provide({ count: Depends(counter, { cache: false }) }, ({ count }) => count);
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        one: Depends(counter),
        two: Depends(counter, { cache: false }),
        three: Depends(fresh),
        four: Depends(counter),
      },
      ({ one, two, three, four }) => [one, two, three, four],
    ),
  );
  assert.deepEqual(await json(it.client, '/'), [1, 2, 3, 1]);
});

test('each concurrent request resolves its own dependencies', async () => {
  const both = Promise.withResolvers<void>();
  let waiting = 0;
  const own = async ({ req }: Context): Promise<string> => {
    if (++waiting === 2) both.resolve();
    await both.promise;
    return req.path;
  };
  await using it = setUp((app) => app.get('/{n}', { own: Depends(own) }, ({ own: path }) => ({ path })));
  assert.deepEqual(await Promise.all([json(it.client, '/a'), json(it.client, '/b')]), [
    { path: '/a' },
    { path: '/b' },
  ]);
});

// ── order and parallelism ──

test('independent async dependencies run concurrently, and a dependency that needs two others waits for both', async () => {
  const [a, b] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  const started: string[] = [];
  const first = async (): Promise<string> => {
    started.push('first');
    if (started.length === 2) b.resolve('b');
    return a.promise;
  };
  const second = async (): Promise<string> => {
    started.push('second');
    b.resolve('b');
    a.resolve('a');
    return b.promise;
  }; // the first dependency settles because this one has begun
  const third = provide(
    { first: Depends(first), second: Depends(second) },
    ({ first: left, second: right }) => {
      started.push('third');
      return left + right;
    },
  );
  const fourth = (): string => {
    started.push('fourth');
    return 'sync';
  };
  await using it = setUp((app) =>
    app.get(
      '/',
      { first: Depends(first), second: Depends(second), third: Depends(third), fourth: Depends(fourth) },
      ({ third: both, fourth: sync }) => [both, sync, 'x'],
    ),
  );
  assert.deepEqual(await json(it.client, '/'), ['ab', 'sync', 'x']);
  assert.deepEqual(started, ['first', 'second', 'fourth', 'third']);
});

test('a dependency waits only for the dependencies that it needs', async () => {
  const slow = Promise.withResolvers<string>();
  const late = async (): Promise<string> => slow.promise;
  const quick = async (): Promise<string> => 'quick';
  const needsQuick = provide({ quick: Depends(quick) }, ({ quick: found }) => {
    slow.resolve('late');
    return found;
  });
  await using it = setUp((app) =>
    app.get('/', { late: Depends(late), it: Depends(needsQuick) }, ({ late: one, it: two }) => [
      one,
      two,
      '',
    ]),
  );
  assert.deepEqual(await json(it.client, '/'), ['late', 'quick', '']);
});

test('if one dependency fails, the request waits for the dependencies that are still running, and cleans up all of them', async () => {
  const { steps, dependency } = recorder();
  const opened = Promise.withResolvers<void>();
  const slow = async function* (): AsyncGenerator<string, void> {
    await opened.promise;
    steps.push('slow opens');
    try {
      yield 'slow';
    } finally {
      steps.push('slow is left');
    }
  };
  const failing = async (): Promise<never> => {
    queueMicrotask(() => opened.resolve());
    throw new NotFound('none');
  };
  const after = provide({ failing: Depends(failing) }, () => {
    steps.push('never');
  });
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        first: Depends(dependency('first')),
        slow: Depends(slow),
        failing: Depends(failing),
        after: Depends(after),
      },
      () => steps.push('never'),
    ),
  );
  assert.equal((await it.client.get('/')).status, 404);
  assert.deepEqual(steps, ['first opens', 'slow opens', 'slow is left', 'first got NotFound']);
});

test('if a dependency fails, dependencies that have not started yet do not start', async () => {
  const steps: string[] = [];
  const [failed, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const slow = async (): Promise<number> => {
    await gate.promise;
    return 1;
  };
  const failing = async (): Promise<never> => {
    queueMicrotask(() => failed.resolve());
    throw new NotFound();
  };
  const waits = provide({ slow: Depends(slow) }, () => steps.push('never'));
  await using it = setUp((app) =>
    app.get('/', { waits: Depends(waits), failing: Depends(failing) }, () => steps.push('never')),
  );
  const answer = it.client.get('/');
  await failed.promise;
  await new Promise((resolve) => setImmediate(resolve));
  gate.resolve();
  assert.equal((await answer).status, 404);
  assert.deepEqual(steps, []);
});

test('if a sync dependency throws, running dependencies are awaited, and the first failure in the declared order becomes the response', async () => {
  const { steps, asyncDependency } = recorder();
  const failing = (): never => {
    throw new NotFound('sync');
  };
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        one: Depends(asyncDependency('one')),
        two: Depends(async () => {
          throw new Unauthorized('async');
        }),
        failing: Depends(failing),
        never: Depends(() => steps.push('never')),
      },
      () => 1,
    ),
  );
  assert.equal((await it.client.get('/')).status, 401);
  assert.deepEqual(steps, ['one opens', 'one got Unauthorized']);
});

test('dependencies are cleaned up in the reverse of the declared order, sync or async, however long each takes to resolve', async () => {
  const { steps, dependency, asyncDependency } = recorder();
  const inner = dependency('inner');
  const outer = provide({ inner: Depends(inner) }, async function* () {
    steps.push('outer opens');
    yield 1;
    steps.push('outer commits');
  });
  await using it = setUp((app) =>
    app.get(
      '/',
      { a: Depends(asyncDependency('a')), outer: Depends(outer), z: Depends(dependency('z')) },
      () => {
        steps.push('handler');
        return 'x';
      },
    ),
  );
  await it.client.get('/');
  assert.deepEqual(steps, [
    'inner opens',
    'outer opens',
    'z opens',
    'a opens',
    'handler',
    'z commits',
    'outer commits',
    'inner commits',
    'a commits',
  ]);
});

// ── routers and security ──

test('dependencies of routers are resolved from the outermost router inwards, before inputs, even if the handler uses none of them', async () => {
  const order: string[] = [];
  const note = (name: string) => (): string => {
    order.push(name);
    return name;
  };
  const outer = new Router({ deps: { outer: Depends(async () => note('outer')()) } });
  const admin = new Router({ deps: { admin: Depends(note('admin')) } });
  admin.get(
    '/{n:int}',
    { query: { page: Field(1) }, own: Depends(note('own')) },
    ({ admin: who, own, query }) => [who, own, query.page, ''],
  );
  outer.includeRouter(admin, '/admin');
  await using it = setUp((app) => app.includeRouter(outer, '/outer'));
  assert.deepEqual(await json(it.client, '/outer/admin/1?page=2'), ['admin', 'own', 2, '']);
  assert.deepEqual(order.splice(0), ['outer', 'admin', 'own']);
  assert.equal((await it.client.get('/outer/admin/1?page=x')).status, 400);
  assert.deepEqual(order, ['outer', 'admin']);
});

test('if a nested router declares a dependency with the name of an outer dependency, both are resolved, and the handler gets the nested one', async () => {
  const order: string[] = [];
  const inner = new Router({
    deps: {
      me: Depends(() => {
        order.push('inner');
        return 'inner';
      }),
    },
  }).get('', ({ me }) => me);
  const outer = new Router({
    deps: {
      me: Depends(() => {
        order.push('outer');
        return 'outer';
      }),
    },
  }).includeRouter(inner, '/in');
  outer.get('/own', { me: Depends(() => 'own') }, (context) => String((context as { me: unknown }).me));
  await using it = setUp((app) => app.includeRouter(outer, '/o'));
  assert.equal(await (await it.client.get('/o/in')).text(), 'inner');
  assert.deepEqual(order.splice(0), ['outer', 'inner']);
  assert.equal(await (await it.client.get('/o/own')).text(), 'own');
  assert.deepEqual(order, ['outer']);
});

test("a router's dependency that answers 401 runs before the input is validated and before the body is read", async () => {
  const admin = new Router({
    deps: {
      me: Depends(() => {
        throw new Unauthorized('log in first');
      }),
    },
  });
  const bodies: ReadableStreamDefaultController[] = [];
  admin.post('/x', { body: list(int), query: { n: Field(int) } }, () => 1);
  await using it = setUp((app) => app.includeRouter(admin));
  const body = new ReadableStream({
    start(controller) {
      bodies.push(controller);
    },
  }); // never yields a byte
  const response = await it.client.post('/x?n=no', { body, headers: { 'content-type': 'application/json' } });
  assert.equal(response.status, 401);
});

test('a dependency with "security" is resolved before the inputs, together with the dependencies that it needs', async () => {
  const order: string[] = [];
  const key = (): string => {
    order.push('key');
    return 'k';
  };
  const guard = provide(
    { security: { scheme: 'apiKey', scopes: [], roles: [] }, key: Depends(key) },
    ({ req }) => {
      order.push('guard');
      if (req.headers['x-key'] === undefined) throw new Unauthorized();
      return 'me';
    },
  );
  await using it = setUp((app) =>
    app.get(
      '/',
      { query: { n: Field(int) }, db: Depends(() => order.push('db')), me: Depends(guard) },
      ({ me }) => me,
    ),
  );
  assert.equal((await it.client.get('/?n=x')).status, 401);
  assert.equal((await it.client.get('/?n=x', { headers: { 'x-key': '1' } })).status, 400);
  assert.equal((await it.client.get('/?n=1', { headers: { 'x-key': '1' } })).status, 200);
  assert.deepEqual(order, ['key', 'guard', 'key', 'guard', 'key', 'guard', 'db']);
  assert.deepEqual(it.app.routes.find((route) => route.template === '/')!.security, [
    { scheme: 'apiKey', scopes: [], roles: [] },
  ]);
});

test("if a guard of a router answers 401, invalid input of the router's other dependencies is not reported", async () => {
  let isKnown = false;
  const paging = provide({ query: { page: Field(1) } }, ({ query }) => query.page);
  const next = provide({ paging: Depends(paging) }, () => {
    throw new Error('its need has problems');
  });
  const guard = (): string => {
    if (!isKnown) throw new Unauthorized();
    return 'me';
  };
  const router = new Router({ deps: { paging: Depends(paging), next: Depends(next), me: Depends(guard) } });
  router.post('/', { query: { size: Field(int) }, body: list(int) }, () => 1);
  await using it = setUp((app) => app.includeRouter(router));
  assert.equal((await it.client.post('/?page=x', { json: ['x'] })).status, 401);
  isKnown = true;
  const { errors } = (await (await it.client.post('/?page=x', { json: ['x'] })).json()) as {
    errors: { loc: unknown[] }[];
  };
  assert.deepEqual(
    errors.map((issue) => issue.loc),
    [
      ['query', 'page'],
      ['query', 'size'],
      ['body', 0],
    ],
  );
});

// ── exceptions thrown into generators ──

for (const scope of ['request', 'handler'] as const) {
  test(`an error of the handler is thrown into generator dependencies of scope ${scope} in reverse order, and then becomes the response`, async () => {
    const { steps, dependency, asyncDependency } = recorder();
    await using it = setUp((app) =>
      app.get(
        '/',
        { a: Depends(dependency('a'), { scope }), b: Depends(asyncDependency('b'), { scope }) },
        () => {
          throw new NotFound('gone');
        },
      ),
    );
    assert.equal((await it.client.get('/')).status, 404);
    assert.deepEqual(steps, ['a opens', 'b opens', 'b got NotFound', 'a got NotFound']);
    assert.deepEqual(logged(it.events, 'cleanup_failed'), []);
  });

  test(`if a generator dependency of scope ${scope} catches the error of the handler, the response and all other generators are unaffected`, async () => {
    const { steps, dependency } = recorder();
    const swallows = function* (): Generator<number, void> {
      try {
        yield 1;
      } catch {
        steps.push('swallowed');
      }
    };
    await using it = setUp((app) =>
      app.get('/', { a: Depends(dependency('a'), { scope }), b: Depends(swallows, { scope }) }, () => {
        throw new NotFound();
      }),
    );
    assert.equal((await it.client.get('/')).status, 404);
    assert.deepEqual(steps, ['a opens', 'swallowed', 'a got NotFound']);
  });
}

test('if a generator dependency of scope "handler" replaces the error of the handler, the other generators and the client get the new error', async () => {
  const { steps, dependency } = recorder();
  const replaces = async function* (): AsyncGenerator<number, void> {
    try {
      yield 1;
    } catch (error) {
      throw new NotFound('replaced', { cause: error });
    }
  };
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        outer: Depends(dependency('outer')),
        a: Depends(dependency('a'), { scope: 'handler' }),
        b: Depends(replaces, { scope: 'handler' }),
      },
      () => {
        throw new TypeError('first');
      },
    ),
  );
  const response = await it.client.get('/');
  assert.deepEqual(
    [response.status, ((await response.json()) as { detail: string }).detail],
    [404, 'replaced'],
  );
  assert.deepEqual(steps, ['outer opens', 'a opens', 'a got NotFound', 'outer got NotFound']);
});

test('if a generator dependency of scope "request" replaces the error of the handler, the new error is only logged, with route and dependency', async () => {
  const { steps, dependency } = recorder();
  const replaces = function* rollback(): Generator<number, void> {
    try {
      yield 1;
    } catch {
      throw new RangeError('rollback failed');
    }
  };
  await using it = setUp((app) =>
    app.get('/r', { a: Depends(dependency('a')), b: Depends(replaces) }, () => {
      throw new NotFound();
    }),
  );
  assert.equal((await it.client.get('/r')).status, 404);
  assert.deepEqual(steps, ['a opens', 'a got RangeError']);
  const [line, ...more] = logged(it.events, 'cleanup_failed');
  assert.deepEqual(
    [line!['dependency'], line!['route'], line!['method'], more.length],
    ['rollback', '/r', 'GET', 0],
  );
  assert.match(messageOf(line), /rollback failed/);
});

test('if the clean-up of a dependency of scope "request" fails after a successful response, the error is logged and thrown into the earlier generator dependencies', async () => {
  const { steps, dependency } = recorder();
  const fails = function* (): Generator<number, void> {
    yield 1;
    throw new RangeError('release failed');
  };
  await using it = setUp((app) =>
    app.get('/', { a: Depends(dependency('a')), b: Depends(fails) }, () => 'fine'),
  );
  assert.equal((await it.client.get('/')).status, 200);
  assert.deepEqual(steps, ['a opens', 'a got RangeError']);
  assert.equal(logged(it.events, 'cleanup_failed').length, 1);
});

for (const isAsync of [false, true]) {
  test(`if a dependency of scope "handler" fails to commit its transaction, the answer is 500 and not the handler's 201 (${isAsync ? 'async' : 'sync'})`, async () => {
    const steps: string[] = [];
    const { steps: others, dependency } = recorder();
    const commit = (): void => {
      steps.push('commit');
      throw new Error('serialization failure');
    };
    const transaction = isAsync
      ? async function* (): AsyncGenerator<number, void> {
          await null;
          yield 1;
          await null;
          commit();
        }
      : function* (): Generator<number, void> {
          yield 1;
          commit();
        };
    await using it = setUp((app) =>
      app.post(
        '/',
        {
          connection: Depends(dependency('connection')),
          tx: Depends(transaction, { scope: 'handler' }),
          tasks: Depends(BackgroundTasks),
          status: 201,
        },
        ({ tasks }) => {
          tasks.add(() => steps.push('task'));
          return { id: 1 };
        },
      ),
    );
    const response = await it.client.post('/');
    assert.equal(response.status, 500);
    assert.doesNotMatch(await response.text(), /"id"|serialization/);
    assert.deepEqual(steps, ['commit']);
    assert.deepEqual(others, ['connection opens', 'connection got Error']);
  });

  test(`a dependency of scope "handler" commits its transaction before the response is sent, and rolls it back if the handler throws (${isAsync ? 'async' : 'sync'})`, async () => {
    const { steps, dependency, asyncDependency } = recorder();
    let isFailing = false;
    await using it = setUp((app) => {
      app.use(async (_req, next) => {
        const response = await next();
        steps.push(`answer ${response.status}`);
        return response;
      });
      app.get(
        '/',
        {
          connection: Depends(dependency('connection')),
          tx: Depends((isAsync ? asyncDependency : dependency)('tx'), { scope: 'handler' }),
        },
        () => {
          steps.push('handler');
          if (isFailing) throw new Error('no');
          return 'x';
        },
      );
    });
    assert.equal((await it.client.get('/')).status, 200);
    assert.deepEqual(steps.splice(0), [
      'connection opens',
      'tx opens',
      'handler',
      'tx commits',
      'answer 200',
      'connection commits',
    ]);
    isFailing = true;
    assert.equal((await it.client.get('/')).status, 500);
    assert.deepEqual(steps, [
      'connection opens',
      'tx opens',
      'handler',
      'tx got Error',
      'answer 500',
      'connection got Error',
    ]);
  });
}

test('if a reply does not fit its response schema, dependencies of scope "handler" and of scope "request" roll back their transactions', async () => {
  const { steps, dependency } = recorder();
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        tx: Depends(dependency('tx'), { scope: 'handler' }),
        db: Depends(dependency('db')),
        response: list(int),
      },
      () => 'no list' as never,
    ),
  );
  assert.equal((await it.client.get('/')).status, 500);
  assert.deepEqual(steps, ['tx opens', 'db opens', 'tx got SvcError', 'db got SvcError']);
});

test('if the input is refused, ValidationError is thrown into the generator dependencies that have already yielded', async () => {
  const { steps, dependency } = recorder();
  const router = new Router({ deps: { db: Depends(dependency('db')) } });
  router.get('/', { query: { n: Field(int) }, late: Depends(dependency('late')) }, () => 1);
  await using it = setUp((app) => app.includeRouter(router));
  assert.equal((await it.client.get('/?n=x')).status, 400);
  assert.deepEqual(steps, ['db opens', 'db got ValidationError']);
});

const NEVER = 'ended without yielding';
const TWICE = 'yielded a second value';
const MISBEHAVING: Readonly<Record<string, { source: DependencySource; problem: string; isEarly: boolean }>> =
  {
    'a generator that never yields': {
      source: function* () {
        /* nothing */
      },
      problem: NEVER,
      isEarly: true,
    },
    'an async generator that never yields': {
      source: async function* () {
        /* nothing */
      },
      problem: NEVER,
      isEarly: true,
    },
    'a generator that yields twice': {
      source: function* () {
        yield 1;
        yield 2;
      },
      problem: TWICE,
      isEarly: false,
    },
    'an async generator that yields twice': {
      source: async function* () {
        yield 1;
        yield 2;
      },
      problem: TWICE,
      isEarly: false,
    },
  };
for (const [what, { source, problem, isEarly }] of Object.entries(MISBEHAVING)) {
  test(`a dependency fails with E_DEPENDENCY_YIELD if it is ${what}`, async () => {
    await using it = setUp((app) => {
      app.get('/request', { it: Depends(source) }, () => 'fine');
      app.get('/handler', { it: Depends(source, { scope: 'handler' }) }, () => 'fine');
    });
    const { client, events } = it;
    assert.equal((await client.get('/request')).status, isEarly ? 500 : 200);
    assert.match(
      messageOf(logged(events, isEarly ? 'unhandled_error' : 'cleanup_failed')[0]),
      new RegExp(`E_DEPENDENCY_YIELD.*${problem}|${problem}.*E_DEPENDENCY_YIELD`),
    );
    assert.equal((await client.get('/handler')).status, 500);
  });
}

test('if a generator dependency yields again after an error was thrown into it, it is closed and the answer is 500', async () => {
  const steps: string[] = [];
  const again = function* (): Generator<number, void> {
    try {
      try {
        yield 1;
      } catch {
        yield 2;
      }
    } finally {
      steps.push('closed');
    }
  };
  await using it = setUp((app) =>
    app.get('/', { it: Depends(again, { scope: 'handler' }) }, () => {
      throw new NotFound();
    }),
  );
  assert.equal((await it.client.get('/')).status, 500);
  assert.deepEqual(steps, ['closed']);
});

// ── the client leaves ──

/** Serves the application, and opens one connection. Both end with the test. */
async function onSocket(t: TestContext, app: Svc): Promise<{ server: HttpServer; client: RawClient }> {
  await app.startup();
  const server = new HttpServer(app.application());
  t.after(async () => {
    await server.close(0);
    await app.shutdown();
  });
  const { port } = await server.listen({ port: 0 });
  const client = await RawClient.open(port);
  t.after(() => client[Symbol.asyncDispose]());
  return { server, client };
}

for (const isFailing of [false, true]) {
  test(`if the client disconnects and the handler later ${isFailing ? 'fails' : 'returns'}, dependencies are cleaned up before the request stops counting as in flight`, async (t) => {
    const { logger, events } = collectedLog();
    const app = new Svc({ logger });
    const { steps, dependency, asyncDependency } = recorder();
    const [entered, gate, over] = [Promise.withResolvers<void>(), gateOf(t), Promise.withResolvers<void>()];
    const last = function* (): Generator<number, void> {
      try {
        yield 1;
      } finally {
        over.resolve();
      }
    };
    app.get(
      '/',
      {
        last: Depends(last),
        db: Depends(asyncDependency('db')),
        tx: Depends(dependency('tx'), { scope: 'handler' }),
        tasks: Depends(BackgroundTasks),
      },
      async ({ tasks, signal }) => {
        tasks.add(() => steps.push('task'));
        const left = new Promise((resolve) => signal.addEventListener('abort', resolve));
        entered.resolve();
        await left;
        await gate.promise;
        if (isFailing) signal.throwIfAborted();
        return 'nobody reads it';
      },
    );
    const { server, client } = await onSocket(t, app);
    client.get('/');
    await entered.promise;
    client.socket.destroy();
    const closing = server.close(5_000);
    await client.ended();
    assert.equal(server.inFlight, 1);
    gate.resolve();
    await over.promise;
    assert.equal(await closing, 0);
    assert.equal(server.inFlight, 0);
    await app.shutdown();
    assert.deepEqual(
      steps.filter((step) => step !== 'tx opens' && step !== 'db opens'),
      isFailing
        ? ['tx got ClientDisconnected', 'db got ClientDisconnected']
        : ['tx commits', 'db got ClientDisconnected', 'task'],
    );
    assert.deepEqual(logged(events, 'cleanup_failed'), []);
    assert.deepEqual(logged(events, 'unhandled_error'), []);
  });
}

test('if the client disconnects during the response, ClientDisconnected is thrown into generator dependencies', async (t) => {
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  const { steps, dependency } = recorder();
  const over = Promise.withResolvers<void>();
  const last = function* (): Generator<number, void> {
    try {
      yield 1;
    } finally {
      over.resolve();
    }
  };
  app.get(
    '/',
    {
      last: Depends(last),
      db: Depends(dependency('db')),
      tx: Depends(dependency('tx'), { scope: 'handler' }),
    },
    () => 'x'.repeat(50_000_000),
  );
  const { server, client } = await onSocket(t, app);
  client.socket.once('data', () => client.socket.destroy());
  client.get('/');
  await over.promise;
  await server.close(1_000);
  await app.shutdown();
  assert.deepEqual(steps, ['db opens', 'tx opens', 'tx commits', 'db got ClientDisconnected']);
});

test('if the client disconnects while it sends the request body, ClientDisconnected is thrown into the generator dependencies of routers', async (t) => {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  const { steps, dependency } = recorder();
  const [opened, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const first = function* (): Generator<number, void> {
    opened.resolve();
    try {
      yield 1;
    } finally {
      over.resolve();
    }
  };
  const router = new Router({ deps: { first: Depends(first), db: Depends(dependency('db')) } });
  router.post('/', { body: list(int) }, () => steps.push('never'));
  app.includeRouter(router);
  const { server, client } = await onSocket(t, app);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n[1');
  await opened.promise;
  client.socket.destroy();
  await over.promise;
  await server.close(1_000);
  await app.shutdown();
  assert.deepEqual(steps, ['db opens', 'db got ClientDisconnected']);
  assert.deepEqual(logged(events, 'unhandled_error'), []);
});

test('if the client has disconnected, or the clean-up of a dependency fails, the source of a streamed response is closed unread', async (t) => {
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  const [entered, gate] = [Promise.withResolvers<void>(), gateOf(t)];
  let ended = 0;
  const pieces = (): AsyncIterable<string> => ({
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ value: 'x', done: false }),
      return: async () => {
        ended++;
        return { value: undefined, done: true };
      },
    }),
  });
  const fails = function* (): Generator<number, void> {
    yield 1;
    throw new Error('commit');
  };
  const { StreamingResponse } = await import('../../src/index.ts');
  app.get('/left', async ({ signal }) => {
    const left = new Promise((resolve) => signal.addEventListener('abort', resolve));
    entered.resolve();
    await left;
    await gate.promise;
    return new StreamingResponse(pieces());
  });
  app.get('/failed', { tx: Depends(fails, { scope: 'handler' }) }, () => new StreamingResponse(pieces()));
  const { server, client } = await onSocket(t, app);
  assert.equal((await client.get('/failed').answer()).status, 500);
  assert.equal(ended, 1);
  client.get('/left');
  await entered.promise;
  client.socket.destroy();
  const closing = server.close(5_000);
  gate.resolve();
  await closing;
  assert.equal(ended, 2);
});

for (const how of ['the handler runs', 'the handler has answered'] as const) {
  test(`if the signal of a Request for app.fetch() aborts while ${how}, ClientDisconnected is thrown into generator dependencies`, async () => {
    const { logger } = collectedLog();
    const app = new Svc({ logger });
    const { steps, dependency } = recorder();
    const abort = new AbortController();
    const left = Promise.withResolvers<void>();
    const { StreamingResponse } = await import('../../src/index.ts');
    const last = function* (): Generator<number, void> {
      try {
        yield 1;
      } finally {
        left.resolve();
      }
    };
    app.get('/', { last: Depends(last), db: Depends(dependency('db')) }, async () => {
      if (how === 'the handler runs') abort.abort();
      return new StreamingResponse(
        (async function* () {
          for (;;) yield 'x';
        })(),
      );
    });
    const response = await app
      .fetch(new Request('http://localhost/', { signal: abort.signal }))
      .catch(() => undefined);
    abort.abort();
    await left.promise;
    await response?.body?.cancel().catch(() => undefined);
    await app.shutdown();
    assert.deepEqual(steps, ['db opens', 'db got ClientDisconnected']);
  });
}

// ── cycles and scopes ──

test('if getters make dependencies circular, compileAll() reports SVC111 at the route, with the path of the cycle', () => {
  const a: DependencySource = provide(
    {
      get b() {
        return Depends(b);
      },
    } as object,
    function alpha() {
      return 1;
    },
  );
  const b: DependencySource = provide(
    {
      get c() {
        return Depends(c);
      },
    } as object,
    function beta() {
      return 1;
    },
  );
  const c: DependencySource = provide(
    {
      get a() {
        return Depends(a);
      },
    } as object,
    function gamma() {
      return 1;
    },
  );
  const app = new Svc().get('/x', { a: Depends(a) }, () => 1);
  const [finding, ...more] = findings(app);
  assert.deepEqual([finding!.rule, finding!.subject, more.length], ['SVC111', 'GET /x', 0]);
  assert.match(finding!.message, /alpha → beta → gamma → alpha/);
  assert.equal(finding!.place!.file.endsWith('di.test.ts'), true);
});

test('SVC111 names a dependency whose function has no name by the name under which its value is received', () => {
  const account: DependencySource = provide({ audit: Depends(() => 1) }, () => 1);
  const trail: DependencySource = provide(
    {
      get entry() {
        return Depends(entry);
      },
    } as object,
    () => 1,
  );
  const entry: DependencySource = provide({ account: Depends(account), trail: Depends(trail) }, () => 1);
  const [finding] = findings(new Svc().get('/x', { entry: Depends(entry) }, () => 1));
  assert.match(finding!.message, /: entry → trail → entry$/);
});

test('if a dependency needs itself, compileAll() reports SVC111, also with cache: false, in a router and in scope "app"', () => {
  const own: DependencySource = provide(
    {
      get own() {
        return Depends(own, { cache: false });
      },
    } as object,
    function mirror() {
      return 1;
    },
  );
  const shared: DependencySource = provide(
    {
      get own() {
        return Depends(shared, { scope: 'app' });
      },
    } as object,
    function mirror() {
      return 1;
    },
  );
  const app = new Svc()
    .get('/', { own: Depends(own) }, () => 1)
    .get('/app', { own: Depends(shared, { scope: 'app' }) }, () => 1);
  app.includeRouter(new Router({ deps: { own: Depends(own) } }).get('/r', () => 1));
  assert.deepEqual(
    findings(app).map(({ rule, message }) => [rule, /mirror → mirror/.test(message)]),
    [
      ['SVC111', true],
      ['SVC111', true],
      ['SVC111', true],
    ],
  );
});

const inner = function connection(): number {
  return 1;
};
const MISTAKES: Readonly<Record<string, { spec: object; message: RegExp }>> = {
  'scope app needs scope request': {
    spec: {
      it: Depends(
        provide({ c: Depends(inner) }, function pool() {
          return 1;
        }),
        { scope: 'app' },
      ),
    },
    message: /pool lives for the app and needs connection, which lives for the request: pool → connection/,
  },
  'scope request needs scope handler': {
    spec: {
      it: Depends(
        provide({ c: Depends(inner, { scope: 'handler' }) }, function pool() {
          return 1;
        }),
        { scope: 'request' },
      ),
    },
    message: /pool lives for the request and needs connection, which lives for the handler/,
  },
  'scope app needs scope handler through another dependency': {
    spec: {
      it: Depends(
        provide(
          {
            mid: Depends(
              provide({ c: Depends(inner, { scope: 'handler' }) }, function mid() {
                return 1;
              }),
              { scope: 'app' },
            ),
          },
          function pool() {
            return 1;
          },
        ),
        { scope: 'app' },
      ),
    },
    message: /pool → mid → connection/,
  },
  'one function with two scopes': {
    spec: { a: Depends(inner), b: Depends(inner, { scope: 'handler' }) },
    message: /connection is used with the scopes request and handler/,
  },
  'inputs in scope app': {
    spec: {
      it: Depends(
        provide({ query: { a: Field('') } }, function pool() {
          return 1;
        }),
        { scope: 'app' },
      ),
    },
    message: /pool lives for the application and needs a request/,
  },
  'BackgroundTasks in scope app': {
    spec: { it: Depends(BackgroundTasks, { scope: 'app' }) },
    message: /BackgroundTasks lives for the application/,
  },
};
for (const [what, { spec, message }] of Object.entries(MISTAKES)) {
  test(`compileAll() reports a dependency with an invalid scope as SVC112: ${what}`, () => {
    const app = new Svc().get('/', spec, () => 1);
    const found = findings(app);
    assert.deepEqual(
      found.map((finding) => finding.rule),
      ['SVC112'],
    );
    assert.match(found[0]!.message, message);
  });
}

test('if a dependency without an explicit scope needs a dependency of scope "handler", it gets scope "handler" too', async () => {
  const order: string[] = [];
  const inner = provide({}, function* () {
    yield 1;
    order.push('inner');
  });
  const middle = provide({ inner: Depends(inner, { scope: 'handler' }) }, function* () {
    yield 2;
    order.push('middle');
  });
  const outer = provide({ middle: Depends(middle) }, function* () {
    yield 3;
    order.push('outer');
  });
  assert.deepEqual([Depends(outer).scope, Depends(inner).scope], ['handler', 'request']);
  const app = new Svc().get('/', { outer: Depends(outer) }, () => ({}));
  await using client = new TestClient(app);
  await client.get('/');
  assert.deepEqual(order, ['outer', 'middle', 'inner']);
});

test('a dependency may need dependencies of a wider scope, and a function with cache: false may be used in two scopes', async () => {
  const pool = provide({}, function* () {
    yield { id: 7 };
  });
  const connection = provide({ pool: Depends(pool, { scope: 'app' }) }, ({ pool: found }) => found.id);
  const tx = provide({ connection: Depends(connection) }, ({ connection: id }) => id + 1);
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        tx: Depends(tx, { scope: 'handler' }),
        again: Depends(connection, { cache: false, scope: 'handler' }),
      },
      ({ tx: value, again }) => ({ value, again }),
    ),
  );
  assert.deepEqual(await json(it.client, '/'), { value: 8, again: 7 });
});

// ── scope app ──

test('a dependency of scope "app" is resolved once before the first request, shared by all routes, and cleaned up in reverse order at shutdown', async () => {
  const { steps, dependency, asyncDependency } = recorder();
  const pool = asyncDependency('pool');
  const cache = provide(
    { pool: Depends(pool, { scope: 'app' }) },
    dependency('cache') as () => Generator<string, void>,
  );
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  app.get('/a', { cache: Depends(cache, { scope: 'app' }) }, ({ cache: found }) => found);
  app.get(
    '/b',
    { pool: Depends(pool, { scope: 'app' }), cache: Depends(cache, { scope: 'app' }) },
    ({ pool: found }) => found,
  );
  await app.startup();
  assert.deepEqual(steps, ['pool opens', 'cache opens']);
  for (const [path, text] of [
    ['/a', 'cache'],
    ['/b', 'pool'],
    ['/a', 'cache'],
  ] as const)
    assert.equal(await (await app.fetch(new Request(`http://localhost${path}`))).text(), text);
  await app.shutdown();
  assert.deepEqual(steps, ['pool opens', 'cache opens', 'cache commits', 'pool commits']);
});

test('a dependency of scope "app" with cache: false is resolved once for each place that declares it', async () => {
  let made = 0;
  const counter = (): number => ++made;
  await using it = setUp((app) =>
    app.get(
      '/',
      {
        a: Depends(counter, { scope: 'app', cache: false }),
        b: Depends(counter, { scope: 'app', cache: false }),
      },
      ({ a, b }) => [a, b, 0],
    ),
  );
  assert.deepEqual(
    [await json(it.client, '/'), await json(it.client, '/')],
    [
      [1, 2, 0],
      [1, 2, 0],
    ],
  );
});

test('if a dependency of scope "app" fails, the start fails, and the error is thrown into the dependencies that were resolved before it', async () => {
  const { steps, dependency } = recorder();
  let isBroken = true;
  const fails = async (): Promise<string> => {
    if (isBroken) throw new TypeError('no server');
    return 'up';
  };
  const { logger } = collectedLog();
  const app = new Svc({ logger }).get(
    '/',
    { a: Depends(dependency('a'), { scope: 'app' }), b: Depends(fails, { scope: 'app' }) },
    ({ b }) => b,
  );
  await assert.rejects(app.startup(), { message: 'no server' });
  assert.deepEqual(steps.splice(0), ['a opens', 'a got TypeError']);
  isBroken = false;
  await app.startup();
  assert.equal(await (await app.fetch(new Request('http://localhost/'))).text(), 'up');
  await app.shutdown();
  assert.deepEqual(steps, ['a opens', 'a commits']);
});

for (const [how, start] of [
  ['startup()', (app: Svc) => app.startup()],
  ['run()', (app: Svc) => app.run({ port: 0, handleSignals: false })],
  ['fetch()', (app: Svc) => app.fetch(new Request('http://localhost/'))],
  ['a request of a test client', (app: Svc) => new TestClient(app).get('/')],
] as const) {
  test(`if a dependency of scope "app" fails, ${how} rejects only after the earlier dependencies are cleaned up in reverse order, however long this takes`, async () => {
    const steps: string[] = [];
    const pool = (name: string) =>
      async function* (): AsyncGenerator<string, void> {
        steps.push(`${name} opens`);
        try {
          yield name;
        } finally {
          for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
          steps.push(`${name} is closed`);
        }
      };
    const fails = async (): Promise<string> => {
      steps.push('one fails');
      throw new TypeError('no server');
    };
    const app = new Svc({ logger: collectedLog().logger });
    app.get(
      '/',
      {
        a: Depends(pool('a'), { scope: 'app' }),
        b: Depends(pool('b'), { scope: 'app' }),
        c: Depends(fails, { scope: 'app' }),
      },
      ({ c }) => c,
    );
    await assert.rejects(
      start(app).finally(() => {
        steps.push('rejects');
      }),
      { message: 'no server' },
    );
    assert.deepEqual(steps, ['a opens', 'b opens', 'one fails', 'b is closed', 'a is closed', 'rejects']);
  });
}

test('if a start fails and a dependency of scope "app" cannot clean up, startup() rejects with the first error, and other clean-ups run', async () => {
  const steps: string[] = [];
  const first = function* (): Generator<number, void> {
    try {
      yield 1;
    } finally {
      steps.push('first is left');
    }
  };
  const stuck = function* pool(): Generator<number, void> {
    try {
      yield 2;
    } catch {
      throw new RangeError('still in use');
    }
  };
  const fails = async (): Promise<never> => {
    throw new TypeError('no server');
  };
  const app = new Svc({ logger: collectedLog().logger }).get(
    '/',
    {
      a: Depends(first, { scope: 'app' }),
      b: Depends(stuck, { scope: 'app' }),
      c: Depends(fails, { scope: 'app' }),
    },
    () => 'x',
  );
  await assert.rejects(app.startup(), { message: 'no server' });
  assert.deepEqual(steps, ['first is left']);
});

test('if the clean-up of a dependency of scope "app" fails, the error is logged and the shutdown continues', async () => {
  const { steps, dependency } = recorder();
  const fails = function* pool(): Generator<number, void> {
    yield 1;
    throw new Error('still in use');
  };
  const it = setUp((app) =>
    app.get(
      '/',
      { a: Depends(dependency('a'), { scope: 'app' }), b: Depends(fails, { scope: 'app' }) },
      () => 'x',
    ),
  );
  await it.client.get('/');
  await it.client.close();
  assert.deepEqual(steps, ['a opens', 'a got Error']);
  assert.deepEqual(
    logged(it.events, 'cleanup_failed').map((line) => line['dependency']),
    ['pool'],
  );
});

for (const part of ['req', 'signal', 'params'] as const) {
  test(`if a dependency of scope "app" reads "${part}" of its context, the start ${part === 'params' ? 'succeeds' : 'fails with E_REQUEST_ABSENT'}`, async () => {
    const app = new Svc({ logger: collectedLog().logger }).get(
      '/',
      {
        it: Depends((context: Context) => String((context as unknown as Record<string, unknown>)[part]), {
          scope: 'app',
        }),
      },
      ({ it }) => it,
    );
    if (part === 'params')
      await app.startup(); // the context of a dependency of scope app has no request
    else await assert.rejects(app.startup(), { code: 'E_REQUEST_ABSENT' });
    await app.shutdown();
  });
}

test('a dependency of scope "app" can read the state of the application', async () => {
  await using it = setUp((app) => {
    app.state.set(LABEL, 'from the state');
    app.get('/', { label: Depends(LABEL, { scope: 'app' }) }, ({ label }) => label);
  });
  assert.equal(await (await it.client.get('/')).text(), 'from the state');
});

// ── overrides ──

test('overrides of a test client replace functions, generators, dependencies of scope "app" and state keys, for this client only', async () => {
  const { steps, dependency } = recorder();
  const real = (): string => {
    steps.push('real');
    return 'real';
  };
  const pool = dependency('pool');
  const outer = provide({ real: Depends(real) }, ({ real: found }) => `outer ${found}`);
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  app.state.set(LABEL, 'label');
  app.get(
    '/',
    {
      real: Depends(real),
      outer: Depends(outer),
      pool: Depends(pool, { scope: 'app' }),
      label: Depends(LABEL),
    },
    ({ real: a, outer: b, pool: c, label: d }) => [a, b, c, d].join(),
  );
  const fake = new TestClient(app, {
    overrides: [
      [
        real,
        provide({ query: { x: Field('') } }, function* ({ query }) {
          steps.push('fake opens');
          yield `fake${query.x}`;
          steps.push('fake commits');
        }),
      ],
      [
        pool,
        async function* () {
          steps.push('fake pool opens');
          yield 'fake pool';
          steps.push('fake pool commits');
        },
      ],
      [LABEL, () => 'fake label'],
    ],
  });
  const plain = new TestClient(app);
  assert.equal(await (await fake.get('/?x=1')).text(), 'fake1,outer fake1,fake pool,fake label');
  assert.deepEqual(steps.splice(0), ['fake pool opens', 'fake opens', 'fake commits']);
  assert.equal(await (await plain.get('/')).text(), 'real,outer real,pool,label');
  assert.deepEqual(steps.splice(0), ['pool opens', 'real']);
  await fake.close();
  assert.deepEqual(steps.splice(0), ['fake pool commits']);
  await plain.close();
  assert.deepEqual(steps, ['pool commits']);
});

test('an override of a dependency with "security" is resolved as early as the dependency that it replaces', async () => {
  const guard = provide({ security: { scheme: 'bearer', scopes: [], roles: [] } }, () => 'me');
  const { logger } = collectedLog();
  const app = new Svc({ logger }).post('/', { body: list(int), me: Depends(guard) }, () => 1);
  await using client = new TestClient(app, {
    overrides: [
      [
        guard,
        () => {
          throw new Unauthorized();
        },
      ],
    ],
  });
  assert.equal((await client.post('/', { json: 'no list' })).status, 401);
});

test('a guard whose "security" has no lists of roles and scopes, as JavaScript may write it, requires none', () => {
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  for (const security of [
    { scheme: 'session' },
    { roles: ['admin'] },
    [{ scheme: 'bearer', scopes: ['notes'] }],
  ]) {
    const guard = provide({ security: security as never }, () => 'me');
    for (const method of ['GET', 'POST', 'DELETE'])
      app.route(`/${JSON.stringify(security).length}`, [method], { me: Depends(guard) }, () => 'x');
  }
  assert.deepEqual(
    app.check().findings.filter(({ message }) => message.includes('threw')),
    [],
  );
});
