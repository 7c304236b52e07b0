/** Type assertions for time limits, load, hosts, ids and repeats: compiled, never run. */
import {
  ConcurrencyLimitMiddleware,
  HTTPException,
  IdempotencyMiddleware,
  MemoryRecordStore,
  RequestIDMiddleware,
  RequestTimeout,
  Svc,
  TimeoutMiddleware,
  TrustedHostMiddleware,
} from 'svc';
import type { CompiledRoute, Middleware, MiddlewareKind } from 'svc';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<_T extends true>(): void {
  /* for the compiler */
}

const app = new Svc();
const layers: readonly Middleware[] = [
  new TimeoutMiddleware(),
  new TimeoutMiddleware({ seconds: undefined }),
  new ConcurrencyLimitMiddleware({ max: 5, queue: 0, maxEventLoopDelayMs: false }),
  new TrustedHostMiddleware({ hosts: ['a.example'] }),
  new RequestIDMiddleware({ generate: () => 'x' }),
  new IdempotencyMiddleware({
    store: new MemoryRecordStore(),
    principal: async (req) => req.headers['x-user'],
    methods: ['POST'],
  }),
];
for (const layer of layers) app.use(layer);
app.get('/a/{id:int}', { timeoutMs: 5 }, ({ params, signal }) => {
  is<Equal<typeof params.id, number>>();
  is<Equal<typeof signal, AbortSignal>>();
});
app.get('/b', { timeoutMs: false, use: [new ConcurrencyLimitMiddleware({ max: 1 })] }, () => 1);
app.get('/c', { timeoutMs: undefined }, () => 1);
app.exceptionHandler(RequestTimeout, (error) => {
  is<Equal<typeof error, RequestTimeout>>();
  return error.status;
});
{
  is<Equal<CompiledRoute['timeoutMs'], number | false | undefined>>();
}
{
  is<Equal<'concurrency-limit' extends MiddlewareKind ? true : false, true>>();
}
{
  is<Equal<RequestTimeout extends HTTPException ? true : false, true>>();
}

// @ts-expect-error true is no time
app.get('/d', { timeoutMs: true }, () => 1);
// @ts-expect-error a time is a number
app.get('/e', { timeoutMs: '5s' }, () => 1);
// @ts-expect-error Unknown option: seconds is meant
new TimeoutMiddleware({ ms: 5 });
// @ts-expect-error hosts must be named
new TrustedHostMiddleware({});
// @ts-expect-error hosts are a list
new TrustedHostMiddleware({ hosts: 'a.example' });
// @ts-expect-error only false takes the limit away
new ConcurrencyLimitMiddleware({ maxEventLoopDelayMs: true });
// @ts-expect-error a principal is text
new IdempotencyMiddleware({ principal: () => 5 });
// @ts-expect-error a cache may forget, so it is no store
new IdempotencyMiddleware({ store: new Map<string, string>() });
// @ts-expect-error an id is made at once
new RequestIDMiddleware({ generate: async () => 'x' });
