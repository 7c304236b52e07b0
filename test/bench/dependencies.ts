/**
 * Cost of a dependency or a middleware function: a route with six of one kind against a route with one,
 * through the compiled application without a transport. CPU ns for each of the other five, what its source
 * does included.
 */
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { Depends, Svc, createLogger, provide } from '../../src/index.ts';
import { TransportRequest } from '../../src/http/request/request.ts';
import { answering, argumentsOf, cpuMicros, worker } from './harness.ts';
import type { Bench, Row } from './harness.ts';
import type { Context, DependencySource, MiddlewareFunction } from '../../src/index.ts';
import type { Incoming, Outgoing } from '../../src/http/request/request.ts';

const values = argumentsOf('kind');
const COUNT = 5;
/**
 * A kind of dependency. Each dependency of a route has a source of its own, because a shared source would be
 * resolved once.
 */
interface Kind {
  readonly make: (index: number) => DependencySource;
  /** Maximum cost of each dependency in nanoseconds. */
  readonly bound?: number;
  readonly options?: Parameters<typeof Depends>[1];
}
const shared = Depends(() => 1);
const plain = (index: number) => (context: Context) => context.req.method.length + index;
const generator = (index: number) =>
  function* ({ req }: Context): Generator<number> {
    yield req.method.length + index;
  };
const asyncGenerator = (index: number) =>
  async function* ({ req }: Context): AsyncGenerator<number> {
    yield req.method.length + index;
  };
const classOf = (index: number): DependencySource =>
  class {
    readonly it: number;
    constructor({ req }: Context) {
      this.it = req.method.length + index;
    }
  };
const provided = (index: number): DependencySource =>
  provide({ shared }, ({ shared: one, req }) => req.method.length + one + index);
const KINDS: Readonly<Record<string, Kind>> = {
  sync: { make: plain, bound: 30 },
  async: {
    make:
      (index) =>
      async ({ req }: Context) =>
        req.method.length + index,
    bound: 80,
  },
  generator: { make: generator, bound: 200 },
  'async generator': { make: asyncGenerator },
  'generator, handler': { make: generator, bound: 200, options: { scope: 'handler' } },
  class: { make: classOf },
  'provide, one need': { make: provided },
  app: { make: (index) => () => index, bound: 30, options: { scope: 'app' } },
};

/** Middleware functions, with the maximum cost of each in nanoseconds. */
const LAYERS: Readonly<Record<string, readonly [MiddlewareFunction, number?]>> = {
  'middleware function': [(_req, next) => next(), 15],
  'async middleware function': [async (_req, next) => await next()],
};

class NoIncoming extends Readable implements Incoming {
  readonly method = 'GET';
  readonly url: string;
  readonly rawHeaders: readonly string[] = ['x-request-id', 'bench'];
  readonly socket = { remoteAddress: '127.0.0.1' };
  readonly complete = true;

  constructor(url: string) {
    super();
    this.url = url;
  }
}

class NoOutgoing extends EventEmitter implements Outgoing {
  readonly writableFinished = true;
  readonly destroyed = true;
}

const WARM = 60_000;
const PER_SLICE = 40_000;

async function child(name: string): Promise<void> {
  const app = new Svc({ logger: createLogger({ level: 'silent' }) });
  const handler = (context: Context): string => context.req.method;
  const layer = LAYERS[name]?.[0];
  if (layer !== undefined)
    app.get('/one', { use: [layer] }, handler).get('/six', { use: Array.from({ length: COUNT + 1 }, () => layer) }, handler); // prettier-ignore
  else {
    const { make, options } = KINDS[name]!;
    const spec = Object.fromEntries(
      Array.from({ length: COUNT }, (_, index) => [`d${index}`, Depends(make(index), options)]),
    );
    app
      .get('/one', { d: Depends(make(9), options) }, handler)
      .get('/six', { d: Depends(make(9), options), ...spec }, handler);
  }
  await app.startup();
  const served = app.application();
  const run = async (path: string, times: number): Promise<number> => {
    const incoming = new NoIncoming(path);
    const outgoing = new NoOutgoing();
    const before = process.cpuUsage();
    for (let index = 0; index < times; index++) {
      const req = new TransportRequest(incoming, outgoing, app.defaults);
      const response = served.handle(req);
      if (response instanceof Promise) await response;
      const finishing = served.finish(req, undefined);
      if (finishing !== undefined) await finishing;
    }
    return (cpuMicros(before) * 1_000) / times;
  };
  for (const path of ['/one', '/six', '/one', '/six']) await run(path, WARM);
  answering(0, async () => (-(await run('/one', PER_SLICE)) + (await run('/six', PER_SLICE))) / COUNT);
}

const rows = (): readonly Row[] =>
  [
    ...Object.entries(KINDS),
    ...Object.entries(LAYERS).map(([kind, [, bound]]) => [kind, { bound }] as const),
  ].map(([kind, { bound }]) => ({
    name: kind in LAYERS ? kind : `dependency: ${kind}`,
    ...{ unit: 'ns', bound, slices: 9 },
    start: (_side, root) =>
      worker(root, 'dependencies.ts', { kind }, { execArgv: ['--conditions=svc-source'] }),
  }));

export const bench: Bench = { packages: {}, rows };

if (import.meta.main) await child(values.kind!);
