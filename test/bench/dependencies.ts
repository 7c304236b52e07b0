/**
 * Cost of a dependency: a route with six of one kind against a route with one, through the compiled
 * application without a transport. CPU ns for each of the other five, what its source does included; medians
 * of fresh processes.
 *
 *   node --conditions=svc-source test/bench/dependencies.ts [--rounds=5]      exits 1 when one is above its bound
 */
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { Depends, Svc, createLogger, provide } from '../../src/index.ts';
import { TransportRequest } from '../../src/http/request/request.ts';
import { alternate, argumentsOf, childResult, cpuMicros, median, printHead, printRow } from './harness.ts';
import type { Context, DependencySource } from '../../src/index.ts';
import type { Incoming, Outgoing } from '../../src/http/request/request.ts';

const values = argumentsOf('rounds', 'kind');
const COUNT = 5;
/**
 * A kind of dependency. Each dependency of a route has a source of its own, because a shared source would be
 * resolved once.
 */
interface Kind {
  readonly make: (index: number) => DependencySource;
  /** Maximum cost of each dependency in nanoseconds. */
  readonly bound: number;
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
  'async generator': { make: asyncGenerator, bound: Infinity },
  'generator, handler': { make: generator, bound: 200, options: { scope: 'handler' } },
  class: { make: classOf, bound: Infinity },
  'provide, one need': { make: provided, bound: Infinity },
  app: { make: (index) => () => index, bound: 30, options: { scope: 'app' } },
};

async function parent(): Promise<void> {
  const rounds = Number(values.rounds ?? 5);
  const samples = await alternate(Object.keys(KINDS), rounds, (kind) =>
    childResult(import.meta.filename, [`--kind=${kind}`]),
  );
  printHead(`ns per dependency, median of ${rounds} fresh processes each`, 'ns each', 'bound');
  for (const [kind, found] of Object.entries(samples)) {
    const { bound } = KINDS[kind]!;
    if (median(found) > bound) process.exitCode = 1;
    printRow(kind, median(found).toFixed(0), bound === Infinity ? '' : String(bound));
  }
}

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
const SLICES = 9;
const PER_SLICE = 40_000;

async function child(name: string): Promise<void> {
  const { make, options } = KINDS[name]!;
  const app = new Svc({ logger: createLogger({ level: 'silent' }) });
  const spec = Object.fromEntries(
    Array.from({ length: COUNT }, (_, index) => [`d${index}`, Depends(make(index), options)]),
  );
  const handler = (context: Context): string => context.req.method;
  app
    .get('/one', { d: Depends(make(9), options) }, handler)
    .get('/six', { d: Depends(make(9), options), ...spec }, handler);
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
  let [one, six] = [Infinity, Infinity];
  for (let slice = 0; slice < SLICES; slice++) {
    one = Math.min(one, await run('/one', PER_SLICE));
    six = Math.min(six, await run('/six', PER_SLICE));
  }
  console.log(`RESULT ${((six - one) / COUNT).toFixed(1)}`);
}

if (values.kind !== undefined) await child(values.kind);
else await parent();
