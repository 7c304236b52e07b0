/**
 * Generates applications with any number of routes from a seed: every kind of input and reply, credentials
 * and dependencies. Handlers return a valid reply.
 */
import {
  BadRequest,
  BearerAuth,
  Conflict,
  Depends,
  Field,
  Forbidden,
  HTTPException,
  IdempotencyMiddleware,
  InternalError,
  InvalidToken,
  LoginRequired,
  NotFound,
  PayloadTooLarge,
  RateLimitMiddleware,
  RequestTimeout,
  Router,
  Schema,
  SessionMiddleware,
  Svc,
  TextResponse,
  TimeoutMiddleware,
  TooManyRequests,
  Unauthorized,
  UnprocessableContent,
  ValidationError,
  bool,
  bytes,
  createLogger,
  date,
  datetime,
  file,
  float,
  int,
  list,
  literal,
  nullable,
  provide,
  reply,
  requireScopes,
  requireSession,
  sessionKey,
  str,
  uuid,
} from '../../src/index.ts';
import { compileType } from '../../src/schema/schema.ts';
import { Random, describe, invent, isWrapped, realise } from './schema-reference.ts';
import type { Described } from './schema-reference.ts';
import type { Dependency, ErrorClass, SentRequest, SvcOptions } from '../../src/index.ts';
import type { TypeSource } from '../../src/schema/schema.ts';

/** Secret that signs tokens. */
export const SECRET = 'kT9-vb2Lq8RzW4hXn6Yd0PmJcE3gUsAf';
/** Scopes of guarded routes. */
export const SCOPE = 'write';

const TAGS = ['books', 'people', 'places'] as const;
const CONVERTERS = ['', ':int', ':float', ':uuid', ':path'] as const;

/** Returns an application with this number of routes; equal seeds give equal applications. */
export function generatedApp(seed: number, count: number, options: SvcOptions = {}): Svc {
  const random = new Random(seed);
  const app = new Svc({
    logger: createLogger({ sink: () => undefined }),
    env: 'test',
    title: 'Generated',
    version: '1.0.0',
    authSecret: SECRET,
    openapi: {
      description: 'Generates specs from a seed.',
      contact: { name: 'Nobody', email: 'nobody@example.com' },
      license: { name: 'MIT', identifier: 'MIT' },
      servers: [{ url: 'http://127.0.0.1', description: 'this machine' }],
      tags: { books: 'Books', people: 'People', places: 'Places' },
      webhooks: { shelved: { ...sentRequest(random), method: 'PUT', deprecated: true }, lost: {} },
    },
    ...options,
  });
  app.use(new RateLimitMiddleware({ perMinute: 1_000_000 }));
  const guard = {
    bearer: Depends(BearerAuth()),
    scoped: Depends(requireScopes(SCOPE)),
    optional: Depends(BearerAuth(undefined, { optional: true })),
  };
  for (let i = 0; i < count; i++) {
    const router = new Router({
      tags: [TAGS[i % TAGS.length]!],
      deps: random.chance(0.3) ? dependency(random, 'outer') : {},
    });
    const method = random.pick(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']);
    const parameters = Array.from(
      { length: random.below(3) },
      (_, index) => `p${index}${random.pick(CONVERTERS)}`,
    ).map((parameter, index, all) => (index < all.length - 1 ? parameter.replace(':path', '') : parameter));
    const path = `/route${i}${parameters.map((parameter) => `/{${parameter}}`).join('')}`;
    const spec: Record<string, unknown> = {
      summary: `Route number ${i}`,
      description: `Result of seed ${seed}: ${i}.`,
      ...(random.chance(0.3) ? { name: `route_${i}` } : {}),
      ...(random.chance(0.1) ? { deprecated: true } : {}),
      ...(random.chance(0.7) ? { query: textShape(random, 'q', 4) } : {}),
      ...(random.chance(0.3) ? { headers: textShape(random, 'xHead', 2) } : {}),
      ...(random.chance(0.2) ? { cookies: textShape(random, 'c', 2) } : {}),
      ...(random.chance(0.3) ? { guard: random.pick(Object.values(guard)) } : {}),
      ...(random.chance(0.3) ? dependency(random, 'own') : {}),
      ...(i % 10 === 0
        ? { callbacks: { done: { ...sentRequest(random), url: '{$request.query.q0}' } } }
        : {}),
    };
    if (method !== 'GET' && method !== 'DELETE') {
      if (random.chance(0.6)) spec['body'] = realise(describe(random, 3, true));
      else if (random.chance(0.7))
        spec['form'] = {
          ...textShape(random, 'f', 4),
          ...(random.chance(0.4)
            ? {
                file: Field(
                  file,
                  random.chance(0.5) ? { optional: true } : { contentTypes: ['image/png', 'text/*'] },
                ),
              }
            : {}),
        };
    }
    const [usual, other] = [fitting(random), fitting(random)];
    const status = random.pick([200, 201, 202]);
    const isByStatus = random.chance(0.3);
    Object.assign(
      spec,
      isByStatus
        ? { response: { [status]: usual.source, 409: other.source } }
        : { response: usual.source, status },
    );
    let calls = 0;
    router.route(
      path,
      [method],
      spec as never,
      (() =>
        isByStatus && calls++ % 2 === 1
          ? reply(other.value as never, 409)
          : reply(usual.value as never, status)) as never,
    ); // generated specs have no static type
    app.includeRouter(router);
  }
  return app;
}

/** Returns a request that the application sends, as a generated client would. */
function sentRequest(random: Random): SentRequest {
  return {
    summary: 'It is done',
    description: 'Sent once.',
    headers: { signature: Field(str, { description: 'HMAC of the body' }) },
    body: realise(describe(random, 3, true)),
    response: { 202: realise(describe(random, 3, true)), 204: realise(describe(random, 1, true)) },
  };
}

/** Returns a random type, and a value of it. */
function fitting(random: Random): { readonly source: TypeSource; readonly value: unknown } {
  for (;;) {
    const described: Described = describe(random, 3, true);
    const source = realise(described);
    const type = compileType(source);
    for (let attempt = 0; attempt < 20; attempt++) {
      const invented = JSON.parse(JSON.stringify(invent(random, described, true)) ?? 'null') as unknown;
      const result = type.parseJson(isWrapped(described) ? { value: invented } : invented);
      if (result.ok && result.value !== null) return { source, value: result.value };
    }
  }
}

/**
 * Each reader has its own names. Two readers that interpret one text differently could not be described by a
 * document.
 */
function dependency(random: Random, name: string): Record<string, Dependency<unknown>> {
  const inner = provide({ query: textShape(random, `${name}Q`, 2) }, ({ query }) => query);
  return {
    [name]: Depends(
      random.chance(0.5)
        ? inner
        : provide(
            { headers: textShape(random, `x-${name}`, 2), inner: Depends(inner) },
            ({ headers }) => headers,
          ),
    ),
  };
}

/** Fields that text can represent. */
function textShape(random: Random, prefix: string, most: number): object {
  return Object.fromEntries(
    Array.from(
      { length: random.below(most + 1) },
      (_, index) => [`${prefix}${String.fromCharCode(65 + index)}`, textField(random)] as const,
    ),
  );
}

function textField(random: Random): unknown {
  const least = random.below(3);
  const presence = random.chance(0.5) ? { optional: true } : {};
  const counts = { minLength: least, maxLength: least + random.below(4) };
  switch (random.below(14)) {
    case 0:
      return Field(str, presence);
    case 1:
      return Field(str, {
        ...counts,
        description: 'A text of some length',
        example: 'x'.repeat(counts.maxLength),
        ...presence,
      });
    case 2:
      return Field(str, { pattern: random.pick(['^a', 'b$', '^.{1,2}$', '^[a-z]+$']), ...presence });
    case 3:
      return Field(str, {
        format: random.pick(['email', 'uuid', 'date', 'date-time', 'ipv4'] as const),
        ...presence,
      });
    case 4:
      return Field(int, { ge: least, le: 100, title: 'A number', example: 42, ...presence });
    case 5:
      return Field(int, { multipleOf: 2, ...presence });
    case 6:
      return Field(float, { gt: -1, lt: 50, ...presence });
    case 7:
      return Field(bool, presence);
    case 8:
      return Field(literal('a', 'b', 1, true), presence);
    case 9:
      return Field(random.pick([date, uuid, datetime, bytes] as const) as typeof uuid, presence);
    case 10:
      return Field(list(int), { ...counts, ...presence });
    case 11:
      return Field(list(str, { minLength: 1, example: 'item' }), { example: ['one', 'two'], ...presence });
    case 12:
      return Field(nullable(int), { le: 9, ...presence });
    default:
      return Field(7, { ge: 1 });
  }
}

/** A small application with all features that a generated client should handle. */
export function shop(): Svc {
  class Item extends Schema {
    id = Field(int, { readOnly: true });
    title = Field(str, { minLength: 1 });
    tags = Field(list(str), { optional: true });
    sold = Field(nullable(datetime), { optional: true });
  }
  class Page extends Schema {
    items = Field(list(Item));
    next = Field(int, { optional: true });
  }
  const app = new Svc({
    logger: createLogger({ sink: () => undefined }),
    env: 'test',
    title: 'Shop',
    authSecret: SECRET,
  });
  app.get(
    '/items',
    {
      query: { page: Field(1, { ge: 1 }), tag: Field(list(str), { optional: true }) },
      response: Page,
      name: 'list_items',
    },
    ({ query }) => ({
      items: [{ id: query.page, title: (query.tag ?? []).join('+') || 'none' }],
      next: query.page + 1,
    }),
  );
  app.post(
    '/items',
    { body: Item, me: Depends(requireScopes(SCOPE)), response: Item, status: 201, name: 'add_item' },
    ({ body, me }) => ({ id: 7, title: `${body.title} by ${me.sub}`, tags: body.tags, sold: body.sold }),
  );
  app.get(
    '/items/{id:int}',
    {
      response: { 200: Item, 410: Item },
      headers: { xTrace: Field(str, { optional: true }) },
      name: 'read_item',
    },
    ({ params, headers }) => {
      const item = { id: params.id, title: headers.xTrace ?? 'untraced' };
      return params.id > 100 ? reply(item, 410) : item;
    },
  );
  app.post(
    '/upload',
    { form: { note: Field(str), file: Field(file) }, response: Page, name: 'upload' },
    ({ form }) => ({ items: [{ id: form.file.size, title: form.note }] }),
  );
  return app;
}

class Refusal extends Schema {
  reason = Field(str);
}
class Sold extends Schema {
  left = Field(int);
}
class OutOfStock extends Error {}
class Stale extends NotFound {}
class Upstream extends HTTPException {
  constructor() {
    super(502, 'The other server does not answer');
  }
}

/** Classes of errors, and how a route throws one. Middleware and guards throw the others. */
const ERRORS: readonly (readonly [ErrorClass<Error>, () => Error])[] = [
  [HTTPException, () => new HTTPException(418)],
  [BadRequest, () => new BadRequest()],
  [ValidationError, () => new ValidationError([])],
  [Unauthorized, () => new Unauthorized()],
  [InvalidToken, () => new InvalidToken('expired')],
  [LoginRequired, () => new LoginRequired()],
  [Forbidden, () => new Forbidden()],
  [NotFound, () => new NotFound()],
  [Stale, () => new Stale()],
  [Conflict, () => new Conflict()],
  [PayloadTooLarge, () => new PayloadTooLarge()],
  [UnprocessableContent, () => new UnprocessableContent()],
  [TooManyRequests, () => new TooManyRequests()],
  [RequestTimeout, () => new RequestTimeout()],
  [InternalError, () => new InternalError()],
  [Upstream, () => new Upstream()],
  [OutOfStock, () => new OutOfStock()],
  [Error, () => new Error('broken')],
];

const OF_APPLICATION: ReadonlySet<unknown> = new Set([Stale, Upstream, OutOfStock]);

function errorOf5xx(error: Error): boolean {
  return error instanceof HTTPException && error.status >= 500;
}

/** Adds an exception handler in one of its forms: without a declared response, or with one. */
function addHandler(random: Random, to: Svc, errorClass: ErrorClass<Error>): string {
  const usual = ERRORS.find(([each]) => each === errorClass)?.[1]();
  const status =
    usual instanceof HTTPException && !OF_APPLICATION.has(errorClass)
      ? random.pick([usual.status, 410, 423]) // no other class of the framework has these
      : random.pick([400, 404, 409, 410, 422, 500, 503]);
  const refusal = { reason: 'generated' };
  const form = random.below(5);
  // a handler without a declared status has one that no other declaration promises
  const other = errorClass === ValidationError || errorClass === BadRequest ? 422 : 417;
  const isUsual = random.chance(0.5);
  const silent = (error: Error): number =>
    isUsual && error instanceof HTTPException ? error.status : errorOf5xx(error) ? 504 : other;
  if (form === 0) to.exceptionHandler(errorClass, (error) => [{ own: true }, silent(error)]);
  else if (form === 1)
    to.exceptionHandler(errorClass, (error) => new TextResponse('refused', { status: silent(error) }));
  else if (form === 2)
    to.exceptionHandler(errorClass, { response: Refusal }, (error) => [
      refusal,
      error instanceof HTTPException ? error.status : other,
    ]);
  else if (form === 3) to.exceptionHandler(errorClass, { response: Refusal, status }, () => refusal);
  else
    to.exceptionHandler(errorClass, { response: { [status]: Refusal, 451: Sold } }, () =>
      random.chance(0.5) ? [refusal, status] : [{ left: 0 }, 451],
    );
  return `${errorClass.name}: form ${form}, ${status}`;
}

/**
 * Adds exception handlers, layers, and routes that throw to an application. Returns its exception handlers in
 * words.
 */
export function addRefusals(seed: number, app: Svc): readonly string[] {
  const random = new Random(seed);
  const chosen = (share: number): readonly ErrorClass<Error>[] =>
    ERRORS.map(([errorClass]) => errorClass).filter(() => random.chance(share));
  const said = chosen(0.2).map((errorClass) => addHandler(random, app, errorClass));
  const router = new Router({ prefix: '/thrown' });
  for (const errorClass of chosen(0.1))
    said.push(
      `router: ${addHandler(random, router as unknown as Svc, errorClass)}`,
    ); /* exceptionHandler() is the same */
  if (random.chance(0.5)) app.use(new TimeoutMiddleware({ seconds: 60 }));
  const hasSession = random.chance(0.3);
  if (hasSession) app.use(new SessionMiddleware());
  if (random.chance(0.5)) app.use(new IdempotencyMiddleware({ required: random.chance(0.5) }));
  for (const [index, [, make]] of ERRORS.entries()) {
    const declared = random.chance(0.5) ? Refusal : { 200: Refusal, [random.pick([410, 423])]: Refusal };
    router.get(
      `/${index}${random.chance(0.5) ? '/{id:int}' : ''}`,
      {
        response: declared,
        ...(random.chance(0.3) ? { query: { page: Field(int) } } : {}),
        ...(hasSession && random.chance(0.3)
          ? { login: Depends(requireSession(sessionKey<string>('user'))) }
          : {}),
      } as never, // generated specs have no static type
      () => {
        throw make();
      },
    );
  }
  app.includeRouter(router);
  return said;
}
