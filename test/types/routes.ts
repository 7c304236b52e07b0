/** Type assertions for routes: compiled, never run. */
import { BackgroundTasks, Depends, Field, HttpResponse, Router, Schema, Svc, int, list, literal, provide, reply, str } from 'svc';
import type { Context, PathParams } from 'svc';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
function is<_T extends true>(): void { /* for the compiler */ }

class Address extends Schema { city = Field(str, { minLength: 1 }); zip = Field(str, { optional: true }); }
class User extends Schema {
  name = Field(str, { minLength: 2, maxLength: 40 });
  age = Field(int, { ge: 0, le: 150 });
  role = Field(literal('admin', 'user'), { default: 'user' });
  tags = Field(list(str), { default: () => [] });
  home = Field(Address);
  get first(): string { return this.name; }
}
function* connection(): Generator<{ query(sql: string): number }, void> { yield { query: () => 1 }; }
async function* later(): AsyncGenerator<Date, void> { yield new Date(); }
class Service { readonly ready = true; constructor(_context: Context) { /* nothing */ } }
const paging = provide({ query: { page: Field(1, { ge: 1 }), size: Field(int, { default: 20, le: 100 }) } },
  ({ query }) => ({ offset: (query.page - 1) * query.size, limit: query.size }));
const repository = provide({ db: Depends(connection), page: Depends(paging) }, async ({ db, page, req }) => {
  is<Equal<typeof page.limit, number>>();
  is<Equal<typeof req.method, string>>();
  return db.query('x');
});

const app = new Svc();
app.post('/users/{id:int}/{slug}', {
  body: User, query: { dry: Field(false) }, headers: { userAgent: Field('') }, db: Depends(connection), at: Depends(later), service: Depends(Service),
  page: Depends(paging), count: Depends(repository), tasks: Depends(BackgroundTasks), response: Address, status: 201, summary: 'Create a user',
}, async ({ params, body, query, headers, db, at, service, page, count, tasks, req, signal, state }) => {
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

// what is refused, with a sentence
// @ts-expect-error Unknown path converter "integer"
app.get('/users/{id:integer}', () => 1);
// @ts-expect-error Unknown path converter "integer"
app.get('/users/{id:integer}', { summary: 'x' }, () => 1);
// @ts-expect-error "bdoy" is no route option, and no Depends(…)
app.post('/x', { bdoy: User }, () => 1);
// @ts-expect-error a function is no dependency
app.post('/x', { db: connection }, () => 1);
// @ts-expect-error "params" is reserved
app.post('/x', { params: Depends(connection) }, () => 1);
// @ts-expect-error "timeoutMs" is reserved
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
is<Equal<PathParams<'/a/{b}/{c:float}/{d:path}'>, { readonly b: string; readonly c: number; readonly d: string }>>();
is<Equal<keyof PathParams<'/a'>, never>>();
