// env: SVC_AUTH_SECRET={secret} PARTNER_KEY={secret2}
/** An application of several routers, each with a prefix, tags and guards. */
import {
  APIKeyAuth,
  BearerAuth,
  Depends,
  Field,
  NotFound,
  Router,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  int,
  list,
  provide,
  reply,
  requireIf,
  requireRoles,
  str,
} from 'svc';

class Article extends Schema {
  id = Field(int, { ge: 1 });
  title = Field(str, { minLength: 1, maxLength: 120 });
}
class Draft extends Schema {
  title = Field(str, { minLength: 1, maxLength: 120 });
}
class Problem extends Schema {
  detail = Field(str, { maxLength: 200 });
}
class Person extends Schema {
  name = Field(str, { minLength: 1, maxLength: 80 });
}

class Store {
  readonly articles = new Map<number, string>([[1, 'Lamp']]);
  title(id: number): string {
    const title = this.articles.get(id);
    if (title === undefined) throw new NotFound('the article does not exist');
    return title;
  }
}
const open = new Store();
const store = (): Store => open;
const paging = provide(
  { query: { size: Field(int, { default: 20, ge: 1, le: 100 }) } },
  ({ query }) => query.size,
);

const shop = new Router({ prefix: '/articles', tags: ['shop'], deps: { store: Depends(store) } });
shop.get('/', { name: 'articles', size: Depends(paging), response: list(Article) }, ({ store, size }) =>
  [...store.articles].slice(0, size).map(([id, title]) => ({ id, title })),
);
shop.get('/{id:int}', { name: 'article', response: { 200: Article, 404: Problem } }, ({ store, params }) =>
  store.articles.has(params.id)
    ? { id: params.id, title: store.title(params.id) }
    : reply({ detail: 'the article does not exist' }, 404),
);

const admin = new Router({
  tags: ['admin'],
  deps: { me: Depends(requireRoles('admin', 'editor')), store: Depends(store) },
});
admin.post(
  '/articles',
  { body: Draft, response: Article, status: 201, description: 'Adds an article.' },
  ({ me, store, body }) => {
    const id = store.articles.size + 1;
    store.articles.set(id, `${body.title} (${me.sub})`.slice(0, 120));
    return { id, title: store.title(id) };
  },
);
admin.put(
  '/articles/{id:int}',
  { body: Draft, response: Article, description: 'Renames an article.' },
  ({ store, params, body }) => {
    store.articles.set(params.id, body.title);
    return { id: params.id, title: body.title };
  },
);
admin.delete(
  '/articles/{id:int}',
  { status: 204, description: 'Removes an article.' },
  ({ store, params }) => {
    store.articles.delete(params.id);
  },
);

const people = new Router({ prefix: '/people', tags: ['people'] });
people.get('/me', { me: Depends(BearerAuth()), response: Person }, ({ me }) => ({ name: me.sub }));
people.put(
  '/{name}',
  {
    me: Depends(requireIf((claims, { req }) => claims.sub === req.pathParams['name'])),
    body: Person,
    response: Person,
    description: 'Changes the name of the logged-in user.',
  },
  ({ body }) => body,
);

const partners = new Router({
  prefix: '/partners',
  tags: ['partners'],
  deps: { partner: Depends(APIKeyAuth({ keys: { acme: process.env['PARTNER_KEY'] ?? '' } })) },
});
partners.post(
  '/stock',
  { body: Article, status: 204, description: 'Marks an article as available again.' },
  ({ partner, body }) => {
    partner.concat(body.title);
  },
);

export const app: Svc = new Svc({ title: 'Shop', version: '4.2.0', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app
  .includeRouter(shop, '/v1')
  .includeRouter(admin, '/v1/admin')
  .includeRouter(people, '/v1')
  .includeRouter(partners, '/v1');
