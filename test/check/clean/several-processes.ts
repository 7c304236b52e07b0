// env: SVC_WORKERS=4 SVC_AUTH_SECRET={secret} SVC_DATABASE_URL=postgres://bank@db.internal.example/bank?sslmode=verify-full
/** Accounts in a database server, for four processes that share all state. */
import {
  BearerAuth,
  CSRFMiddleware,
  Depends,
  Field,
  Forbidden,
  HTMLResponse,
  RedirectResponse,
  Schema,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  Svc,
  TimeoutMiddleware,
  csrfField,
  datetime,
  int,
  list,
  provide,
  requireScopes,
  requireSession,
  sessionKey,
  str,
} from 'svc';
import { DatabasePlugin, db, sql } from 'svc/db';

class Account extends Schema {
  id = Field(int, { ge: 1 });
  owner = Field(str);
  cents = Field(int);
}
class Transfer extends Schema {
  to = Field(int, { ge: 1 });
  cents = Field(int, { ge: 1, le: 100_000_000 });
  purpose = Field('', { maxLength: 140 });
}
class Receipt extends Schema {
  cents = Field(int, { ge: 1 });
  at = Field(datetime);
}

const customer = sessionKey<string>('customer');

export const app: Svc = new Svc({
  title: 'Bank',
  version: '7.1.0',
  trustProxy: ['10.1.0.0/16'],
  maxBodyBytes: 5_000,
  config: { databaseUrl: 'postgres://localhost/bank' },
});
const workers = app.config.get('workers', 1);
app.use(new SecurityHeadersMiddleware());
app.use(new TimeoutMiddleware({ seconds: 15 }));
app.use(
  new SessionMiddleware({
    maxAgeSeconds: 900,
    absoluteSeconds: 28_800,
    encrypt: true,
    cookie: { sameSite: 'strict' },
  }),
);
app.use(new CSRFMiddleware({ exempt: ['/api/{rest:path}'] }));
app.register(
  new DatabasePlugin(app.config.get('databaseUrl', ''), { pool: { max: 8 }, statementTimeoutMs: 5_000 }),
);

const account = provide({ me: Depends(BearerAuth()), db: Depends(db) }, async ({ me, db, req }) => {
  const row = await db.fetchOne(
    sql`select id, owner, cents from accounts where id = ${Number(req.pathParams['id'])}`,
    { as: Account },
  );
  if (row === undefined || row.owner !== me.sub)
    throw new Forbidden('the account belongs to another customer');
  return row;
});

app.get(
  '/api/accounts',
  { me: Depends(requireScopes('accounts')), db: Depends(db), response: list(Account) },
  async ({ me, db }) =>
    await db.fetchAll('select id, owner, cents from accounts where owner = ? limit 100', [me.sub], {
      as: Account,
    }),
);
app.get('/api/accounts/{id:int}', { account: Depends(account), response: Account }, ({ account }) => account);
app.post(
  '/api/accounts/{id:int}/transfers',
  {
    account: Depends(account),
    db: Depends(db),
    body: Transfer,
    response: Receipt,
    status: 201,
    description: 'Transfers an amount.',
  },
  async ({ account, db, body }) => {
    await db.transaction(
      async (tx) => {
        await tx.execute('update accounts set cents = cents - ? where id = ?', [body.cents, account.id]);
        await tx.execute('update accounts set cents = cents + ? where id = ?', [body.cents, body.to]);
      },
      { isolation: 'serializable', retries: 3 },
    );
    return { cents: body.cents, at: new Date() };
  },
);
app.get(
  '/',
  { me: Depends(requireSession(customer)) },
  ({ req, me }) =>
    new HTMLResponse(
      `<h1>${encodeURIComponent(me)}</h1><form method="post" action="/nickname">${csrfField(req)}<input name="nickname"></form>`,
    ),
);
app.post(
  '/nickname',
  {
    me: Depends(requireSession(customer)),
    db: Depends(db),
    form: { nickname: Field(str, { minLength: 1, maxLength: 40 }) },
    description: 'Changes the name of the customer.',
  },
  async ({ me, db, form }) => {
    await db.execute('update customers set nickname = ? where id = ?', [form.nickname, me]);
    return new RedirectResponse('/', { status: 303 });
  },
);

if (import.meta.main) await app.run({ workers });
