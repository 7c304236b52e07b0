/** Type assertions for routes: compiled, never run. */
import {
  BackgroundTasks,
  Depends,
  Field,
  HttpResponse,
  JSONResponse,
  Router,
  Schema,
  Svc,
  ValidationError,
  any,
  bool,
  datetime,
  file,
  float,
  int,
  list,
  literal,
  nullable,
  provide,
  record,
  reply,
  stateKey,
  str,
  toolClient,
  union,
} from 'svc';
import { TestClient } from 'svc/testing';
import type {
  Context,
  Dependency,
  Elicited,
  FormPart,
  Host,
  HttpRequest,
  Infer,
  PathParams,
  Provided,
  ReplyOf,
  SchemaClass,
  StandardSchema,
  StateMap,
  UploadFile,
  Wire,
} from 'svc';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<_T extends true>(): void {
  /* for the compiler */
}

class Address extends Schema {
  city = Field(str, { minLength: 1 });
  zip = Field(str, { optional: true });
}
class User extends Schema {
  name = Field(str, { minLength: 2, maxLength: 40 });
  age = Field(int, { ge: 0, le: 150 });
  role = Field(literal('admin', 'user'), { default: 'user' });
  tags = Field(list(str), { default: () => [] });
  home = Field(Address);
  get first(): string {
    return this.name;
  }
}
function* connection(): Generator<{ query(sql: string): number }, void> {
  yield { query: () => 1 };
}
async function* later(): AsyncGenerator<Date, void> {
  yield new Date();
}
class Service {
  readonly ready = true;
  constructor(_context: Context) {
    /* nothing */
  }
}
const paging = provide(
  { query: { page: Field(1, { ge: 1 }), size: Field(int, { default: 20, le: 100 }) } },
  ({ query }) => ({ offset: (query.page - 1) * query.size, limit: query.size }),
);
const repository = provide({ db: Depends(connection), page: Depends(paging) }, async ({ db, page, req }) => {
  is<Equal<typeof page.limit, number>>();
  is<Equal<typeof req.method, string>>();
  return db.query('x');
});

const app = new Svc();
app.post(
  '/users/{id:int}/{slug}',
  {
    body: User,
    query: { dry: Field(false) },
    headers: { userAgent: Field('') },
    db: Depends(connection),
    at: Depends(later),
    service: Depends(Service),
    page: Depends(paging),
    count: Depends(repository),
    tasks: Depends(BackgroundTasks),
    response: Address,
    status: 201,
    summary: 'Create a user',
  },
  async ({ params, body, query, headers, db, at, service, page, count, tasks, req, signal, state }) => {
    is<Equal<typeof params.id, number>>();
    is<Equal<typeof params.slug, string>>();
    is<Equal<typeof body, User>>();
    is<Equal<typeof body.role, 'admin' | 'user'>>();
    is<Equal<typeof query.dry, boolean>>();
    is<Equal<typeof headers.userAgent, string>>();
    is<Equal<ReturnType<typeof db.query>, number>>();
    is<Equal<typeof at, Date>>();
    is<Equal<typeof service, Service>>();
    is<Equal<typeof page, { offset: number; limit: number }>>();
    is<Equal<typeof count, number>>();
    is<Equal<typeof signal, AbortSignal>>();
    tasks.add((id: number) => id, params.id);
    void [req, state];
    return { city: body.home.city };
  },
);

// requests of a tool to the client
app.tool('ask', { client: Depends(toolClient) }, async ({ client }) => {
  const answer = await client.elicit({ message: 'm', schema: { age: Field(int) } });
  is<Equal<typeof answer, Elicited<{ readonly age: number }>>>();
  if (answer.action === 'accept') is<Equal<typeof answer.content.age, number>>();
  // @ts-expect-error a declined form has no content
  void answer.content.age;
  const user = await client.elicit({ message: 'm', schema: User });
  is<Equal<typeof user, Elicited<User>>>();
  const page = await client.elicit({ message: 'm', url: 'https://a.example' });
  is<Equal<typeof page, Elicited<undefined>>>();
  // @ts-expect-error no such ability
  client.can('everything');
  // @ts-expect-error a sample needs its limit of tokens
  return client.sample({ messages: 'x' });
});

// replies
app.get('/a', { response: Address }, () => ({ city: 'x' }));
app.get('/b', { response: Address }, () => ({ city: 'x', zip: 'y' }));
app.get('/c', { response: Address }, () => reply({ city: 'x' }, 201));
app.get('/d', { response: Address }, () => [{ city: 'x' }, 201] as const);
app.get('/e', { response: Address }, () => [{ city: 'x' }, 201]);
app.get('/f', { response: Address }, () => new HttpResponse(null));
app.get('/g', { response: Address }, () => reply({ error: 'no' }, 404));
app.get('/h', { response: list(Address) }, () => [{ city: 'x' }]);
app.get('/i', { response: { 200: Address, 404: User } }, () => ({ city: 'x' }));
app.get('/j', { response: User }, () => ({ name: 'a', age: 1, role: 'user', tags: [], home: { city: 'x' } }));
app.get('/k', { response: Address }, async () => ({ city: 'x' }));
app.get('/l', () => undefined);
// @ts-expect-error a member is missing
app.get('/m', { response: Address }, () => ({ zip: 'x' }));
// @ts-expect-error a member is of another type
app.get('/n', { response: Address }, () => ({ city: 1 }));
// @ts-expect-error a reply of another type
app.get('/o', { response: Address }, () => reply({ town: 'x' }, 200));
// @ts-expect-error a list is not one of its items
app.get('/p', { response: list(Address) }, () => ({ city: 'x' }));

// a segment that begins with ":" or "*" has a backslash before it
app.get('/\\:id/\\*', () => 1);
app.get('/things:batch', () => 1);

// mistakes are refused with a sentence
// @ts-expect-error Write "/users/{id}/notes/{note}": parameters stand in braces
app.get('/users/:id/notes/:note', () => 1);
// @ts-expect-error Write "/files/{path:path}": parameters stand in braces
app.get('/files/*', { summary: 'x' }, () => 1);
// @ts-expect-error Write "/files/{rest:path}": parameters stand in braces
app.websocket('/files/*rest');
// @ts-expect-error Unknown path converter "integer"
app.get('/users/{id:integer}', () => 1);
// @ts-expect-error Unknown path converter "integer"
app.get('/users/{id:integer}', { summary: 'x' }, () => 1);
// @ts-expect-error "bdoy" is neither a route option nor Depends(…)
app.post('/x', { bdoy: User }, () => 1);
// @ts-expect-error a function is no dependency
app.post('/x', { db: connection }, () => 1);
// @ts-expect-error "req" is reserved
app.post('/x', { req: Depends(connection) }, () => 1);
// @ts-expect-error timeoutMs is a number, or false
app.post('/x', { timeoutMs: Depends(connection) }, () => 1);
// @ts-expect-error status is a number
app.post('/x', { status: 'created' }, () => 1);
// @ts-expect-error there is no such parameter
app.get('/x/{id}', ({ params }) => params.name);
// @ts-expect-error a route without a query has none in its context
app.get('/x', ({ query }) => query);
// @ts-expect-error a body is a type, not a value
app.post('/x', { body: 5 }, () => 1);
// @ts-expect-error not a source
Depends(5);
// @ts-expect-error "lifetime" is no scope
Depends(connection, { scope: 'lifetime' });
// @ts-expect-error no such option of Svc
new Svc({ debgu: true });
// @ts-expect-error neither input nor dependency
provide({ db: connection }, () => 1);

// routers
const admin = new Router({ prefix: '/admin', deps: { me: Depends(() => ({ sub: 'x' })) } });
admin.get('/{id:uuid}', ({ me, params }) => {
  is<Equal<typeof me, { sub: string }>>();
  is<Equal<typeof params.id, string>>();
  return [null, 204];
});
admin.get('/x', { db: Depends(connection) }, ({ me, db }) => [me.sub, db.query('')]);
// @ts-expect-error no such dependency of the router
admin.get('/y', ({ you }) => you);
app.includeRouter(admin, '/v1');
const shop = new Router({ prefix: '/shops/{shop:int}' });
shop.get('/items/{item}', ({ params }) => {
  is<Equal<typeof params.shop, number>>();
  is<Equal<typeof params.item, string>>();
  // @ts-expect-error neither the prefix nor the path has it
  return params.order;
});
shop.websocket('/chat', (_socket, { params }) => {
  is<Equal<typeof params.shop, number>>();
});
const computed = new Router({ prefix: `/${String(1)}` as string });
computed.get('/{id}', ({ params }) => is<Equal<typeof params.id, string>>());
const declareOn = (router: Router): Router => router.get('/x', () => 'x');
declareOn(shop);
shop.use((_req, next) => next()).exceptionHandler(ValidationError, (error) => [error.issues, 422]);
is<
  Equal<
    PathParams<'/a/{b}/{c:float}/{d:path}'>,
    { readonly b: string; readonly c: number; readonly d: string }
  >
>();
is<Equal<keyof PathParams<'/a'>, never>>();

// values of each source
is<Equal<Provided<() => number>, number>>();
is<Equal<Provided<() => Promise<string>>, string>>();
is<Equal<Provided<() => Generator<Date, void, unknown>>, Date>>();
is<Equal<Provided<() => AsyncGenerator<Date, void, unknown>>, Date>>();
is<Equal<Provided<typeof Service>, Service>>();
is<Equal<Provided<typeof BackgroundTasks>, BackgroundTasks>>();
is<Equal<Provided<() => number | undefined>, number | undefined>>();
const label = stateKey<'a' | 'b'>('label');
const depends = {
  service: Depends(Service),
  label: Depends(label),
  tasks: Depends(BackgroundTasks, { cache: false }),
  shared: Depends(async () => 1n, { scope: 'app' }),
};
is<
  Equal<
    typeof depends,
    {
      service: Dependency<Service>;
      label: Dependency<'a' | 'b'>;
      tasks: Dependency<BackgroundTasks>;
      shared: Dependency<bigint>;
    }
  >
>();
// @ts-expect-error a source takes the context, and nothing else
Depends((_a: Context, _b: number) => 1);
// @ts-expect-error a source takes a context, not a number
Depends((_a: number) => 1);
// @ts-expect-error no such option
Depends(connection, { cached: false });
// @ts-expect-error made by Depends() only
const lookAlike: Dependency<number> = { value: 1 };

// provided functions
class Filter extends Schema {
  from = Field(datetime, { optional: true });
  ids = Field(list(int), { default: () => [] });
}
const filtered = provide(
  {
    query: Filter,
    headers: { ifMatch: Field(list(str)) },
    cookies: { theme: Field('light'), n: Field(int, { optional: true }) },
    security: { scheme: 'bearer', scopes: [], roles: [] },
  },
  (context) => {
    is<Equal<typeof context.query, Filter>>();
    is<Equal<typeof context.query.from, Date | undefined>>();
    is<Equal<typeof context.headers, { readonly ifMatch: string[] }>>();
    is<Equal<typeof context.cookies, { readonly theme: string; readonly n: number | undefined }>>();
    is<Equal<typeof context.req, HttpRequest>>();
    is<Equal<typeof context.state, StateMap>>();
    // @ts-expect-error security is for documents, not for the function
    void context.security;
    // @ts-expect-error the body belongs to the route
    void context.body;
    return context.query;
  },
);
is<Equal<ReturnType<typeof filtered>, Filter>>();
const nested = provide(
  { filter: Depends(filtered), service: Depends(Service) },
  async function* ({ filter, service }) {
    is<Equal<typeof filter, Filter>>();
    is<Equal<typeof service, Service>>();
    yield { filter, at: 1 };
  },
);
is<Equal<Provided<typeof nested>, { filter: Filter; at: number }>>();
// @ts-expect-error "req" is reserved: give the dependency another name
provide({ req: Depends(connection) }, () => 1);
// @ts-expect-error "params" is reserved: give the dependency another name
provide({ params: Depends(connection) }, () => 1);
// @ts-expect-error a route's option is none of a provided function
provide({ body: User }, () => 1);
// @ts-expect-error no such input
provide({ query: { a: Field(1) } }, ({ cookies }) => cookies);

// inputs of a route
class Cat extends Schema {
  kind = Field(literal('cat'));
  lives = Field(9);
}
class Dog extends Schema {
  kind = Field(literal('dog'));
}
app.route(
  '/files/{path:path}/{n:float}',
  ['GET', 'POST'],
  {
    body: nullable(list(union('kind', Cat, Dog))),
    query: Filter,
    cookies: { sid: Field(str) },
    headers: { xIds: Field(list(int), { optional: true }) },
  },
  ({ params, body, query, cookies, headers }) => {
    is<Equal<typeof params, { readonly path: string; readonly n: number }>>();
    is<Equal<typeof body, (Cat | Dog)[] | null>>();
    is<Equal<typeof query, Filter>>();
    is<Equal<typeof cookies, { readonly sid: string }>>();
    is<Equal<typeof headers.xIds, number[] | undefined>>();
  },
);
app.post(
  '/form',
  {
    form: {
      name: Field(str),
      on: Field(bool),
      score: Field(float),
      role: Field(literal('a', 'b'), { default: 'a' }),
    },
  },
  ({ form }) => {
    is<
      Equal<
        typeof form,
        { readonly name: string; readonly on: boolean; readonly score: number; readonly role: 'a' | 'b' }
      >
    >();
  },
);
app.post(
  '/upload',
  {
    form: {
      title: Field(str),
      photo: Field(file, { maxLength: 5, contentTypes: ['image/*'] }),
      papers: Field(list(file)),
      more: Field(file, { optional: true }),
    },
  },
  async ({ form, req }) => {
    is<
      Equal<
        typeof form,
        {
          readonly title: string;
          readonly photo: UploadFile;
          readonly papers: UploadFile[];
          readonly more: UploadFile | undefined;
        }
      >
    >();
    await form.photo.save('/tmp/x', { overwrite: true });
    for await (const part of req.parts({ maxBytes: 5 })) is<Equal<typeof part, FormPart>>();
    // @ts-expect-error the option is called maxFiles
    await req.form({ maxFile: 1 });
  },
);
// @ts-expect-error files have no pattern
app.post('/upload', { form: { photo: Field(file, { pattern: 'a' }) } }, () => 1);
app.post(
  '/record',
  { body: record(int), meta: { owner: 'me' }, tags: ['x'], use: [async (_req, next) => next()] },
  ({ body }) => {
    is<Equal<typeof body, Record<string, number>>>();
  },
);
app.post(
  '/raw',
  {
    maxBodyBytes: 10,
    tuple: false,
    public: 'a reason',
    security: [{ scheme: 'session', scopes: [], roles: ['admin'] }],
  },
  async ({ req }) => {
    const upload = (await req.form()).file('a');
    is<Equal<typeof upload, UploadFile | undefined>>();
    is<Equal<Awaited<ReturnType<typeof req.json>>, unknown>>();
    return [1, 2, 3];
  },
);
app.get('/ro', { query: { a: Field(1) } }, ({ query }) => {
  // @ts-expect-error inputs are read-only
  query.a = 2;
});
// @ts-expect-error the dependency gives no such member
app.get('/no', { it: Depends(Service) }, ({ it }) => it.missing);
// @ts-expect-error a class is no dependency by itself
app.get('/no', { it: Service }, () => 1);
// @ts-expect-error a field of a shape is made by Field(), and not the type alone
app.get('/no', { query: 5 }, () => 1);
// @ts-expect-error neither option nor dependency
app.route('/no', ['GET'], { sumary: 'x' }, () => 1);

// replies
is<Equal<Wire<Address>, { city: string } & { zip?: string | undefined }>>();
is<Equal<Infer<typeof Address>, Address>>();
app.delete('/204', { response: Address }, () => [null, 204]);
app.delete('/204', { response: { 200: Address } }, () => reply(null, 204));
app.get('/web', { response: Address }, () => new Response('x'));
app.get('/json', { response: Address }, async () => new JSONResponse({ anything: 1 }));
app.get('/null', { response: nullable(Address) }, () => null);
app.get('/any', { response: any }, () => ({ a: [new Date()] }));
app.get('/text', { response: str }, () => 'x');
app.get('/named', { response: { 200: list(Address), 404: Address } }, ({ req }) =>
  req.path === '' ? reply({ city: 'none' }, 404) : [{ city: 'x' }],
);
app.get('/several', { response: Address }, ({ req }) => {
  if (req.path === 'a') return reply({ error: 'gone' }, 410);
  return req.path === 'b' ? new HttpResponse() : { city: 'x' };
});
is<HttpResponse extends ReplyOf<typeof Address> ? true : false>();
is<Address extends ReplyOf<typeof Address> ? true : false>();
is<number extends ReplyOf<typeof Address> ? false : true>();
class Pet extends Schema {
  kind = Field(literal('cat', 'dog'));
  lives = Field(int);
}
app.get('/pet', { response: Pet }, () => reply({ kind: 'cat', lives: 9 }));
app.get('/pet', { response: { 200: Pet } }, () => reply({ kind: 'cat', lives: 9 }, 200));
// @ts-expect-error "bird" is no kind
app.get('/pet', { response: Pet }, () => reply({ kind: 'bird', lives: 9 }));
// @ts-expect-error a request with GET has no body
app.get('/pet', { body: Pet }, () => 1);
// @ts-expect-error a type is no field
app.get('/pet', { query: { page: int } }, () => 1);
declare const Foreign: StandardSchema<{ count: string }, { count: number }>;
app.post(
  '/foreign/{count}',
  { body: Foreign, query: Foreign, headers: Foreign, cookies: Foreign, params: Foreign, response: Foreign },
  ({ body, query, headers, cookies, params }) => {
    is<Equal<typeof body, { count: number }>>();
    is<Equal<typeof query, { count: number }>>();
    is<Equal<typeof headers, { count: number }>>();
    is<Equal<typeof cookies, { count: number }>>();
    is<Equal<typeof params, { count: number }>>();
    return { count: '1' };
  },
);
app.put(
  '/foreign/{id}/{name}',
  { params: { id: Field(int), name: Field(str) }, body: list(Foreign), response: { 201: Foreign } },
  ({ body, params }) => {
    is<Equal<typeof body, { count: number }[]>>();
    is<Equal<typeof params.id, number>>();
    return reply({ count: params.name }, 201);
  },
);
// @ts-expect-error the schema validates text
app.get('/foreign', { response: Foreign }, () => ({ count: 1 }));
// @ts-expect-error the schema of the status 201 validates text
app.get('/foreign', { response: { 201: Foreign } }, () => reply({ count: 1 }, 201));
// @ts-expect-error nothing is no Address
app.get('/q', { response: Address }, () => undefined);
// @ts-expect-error text is no Address
app.get('/r', { response: Address }, async () => 'x');
// @ts-expect-error 201 is not declared
app.get('/s', { response: { 200: Address } }, () => reply({ city: 'x' }, 201));
// @ts-expect-error 404 is declared as something else
app.get('/t', { response: { 200: Address, 404: list(Address) } }, () => [{ town: 'x' }, 200]);
app.get('/declared', { response: { 200: Address, 404: Address } }, () => [{ city: 'x' }, 404]);
app.get('/declared', { response: { 200: Address, 404: Address } }, () => [{ reason: 'x' }, 410]);
// @ts-expect-error the body of a declared error status is of its type
app.get('/declared', { response: { 200: Address, 404: Address } }, () => [{ town: 'x' }, 404]);
// @ts-expect-error in a list an array is the body, and no body with a status
app.get('/listed', { response: list(Address) }, () => [[{ city: 'x' }], 201]);
app.get('/declared', { response: { 200: Address, 404: Address } }, () => reply({ city: 'x' }, 404));
// @ts-expect-error a reply() with a declared error status has its type as well
app.get('/declared', { response: { 200: Address, 404: Address } }, () => reply({ town: 'x' }, 404));
app.get('/optional', {} as { response?: typeof Address }, () => 'x');
// a function that declares routes for any schema
const echo = <T extends object>(schema: SchemaClass<T>): Router =>
  new Router().post('/', { body: schema, response: { 200: schema } }, ({ body }) => {
    is<Equal<typeof body, T>>();
    return new HttpResponse();
  });
void echo(Address);
class Unrelated {
  id = 1;
}
// @ts-expect-error the class does not extend Schema
app.post('/unrelated', { body: Unrelated }, () => 1);
// @ts-expect-error the class does not extend Schema
app.get('/unrelated', { response: Unrelated }, () => 1);
// @ts-expect-error a response is a type
app.get('/u', { response: 'Address' }, () => 1);

// routers, handlers of errors, clients
const outer = new Router({ deps: { me: Depends(() => 'outer'), db: Depends(connection) } });
outer.get('/', { me: Depends(() => 7) }, ({ me, db }) => {
  is<Equal<typeof me, number>>(); // the route's own
  return db.query(String(me));
});
outer.route('/x/{id:int}', ['PUT'], ({ me, params }) => {
  is<Equal<typeof me, string>>();
  is<Equal<typeof params.id, number>>();
  return me;
});
// @ts-expect-error a router takes dependencies, not functions
new Router({ deps: { me: () => 1 } });
// @ts-expect-error no such option
new Router({ dependencies: {} });
// routes of a plugin have the types of other routes
app.register({
  name: 'users',
  register(host) {
    is<Equal<typeof host, Host>>();
    host.routes
      .put('/users/{id:int}', { body: User, query: { dry: Field(false) }, response: Address }, (context) => {
        is<Equal<typeof context.params.id, number>>();
        is<Equal<typeof context.body, User>>();
        is<Equal<typeof context.query.dry, boolean>>();
        return context.body.home;
      })
      .route('/users/{slug}', ['GET', 'DELETE'], ({ params }) => {
        is<Equal<typeof params.slug, string>>();
      });
    // @ts-expect-error no such option
    host.routes.get('/users', { bodies: User }, () => 1);
    // @ts-expect-error a member is missing
    host.routes.get('/home', { response: Address }, () => ({ zip: 'x' }));
  },
});
app.exceptionHandler(ValidationError, (error, req) => {
  is<Equal<typeof error, ValidationError>>();
  is<Equal<typeof req, HttpRequest>>();
  return reply(
    error.issues.map((issue) => issue.loc),
    422,
  );
});
void new TestClient(app, {
  overrides: [
    [connection, () => ({ query: () => 2 })],
    [label, () => 'a'],
  ],
});
void lookAlike;
