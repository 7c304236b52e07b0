// env: SVC_AUTH_SECRET={secret} GITHUB_SECRET={secret2} GOOGLE_SECRET={secret3}
/** Login through two providers, users in a database, and tokens with scopes. */
import {
  CORSMiddleware,
  Depends,
  Field,
  NotFound,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  datetime,
  list,
  nullable,
  requireScopes,
  str,
} from 'svc';
import { DatabasePlugin, db, sql } from 'svc/db';
import { OAuthPlugin, githubProvider, googleProvider } from 'svc/oauth';

class Profile extends Schema {
  id = Field(str, { maxLength: 200 });
  name = Field(nullable(str));
}
class Rename extends Schema {
  name = Field(str, { minLength: 1, maxLength: 80 });
}
class Login extends Schema {
  id = Field(str);
  provider = Field(str);
  createdAt = Field(datetime);
}

export const app: Svc = new Svc({ title: 'Gallery', version: '1.0.0', trustProxy: 2, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: ['https://gallery.example'] }));

const database = new DatabasePlugin('sqlite:./gallery.db', { statementTimeoutMs: 2_000 });
app.register(database);
const oauth = new OAuthPlugin({
  providers: [
    githubProvider('gallery', process.env['GITHUB_SECRET'] ?? ''),
    googleProvider('gallery', process.env['GOOGLE_SECRET'] ?? ''),
  ],
  allowedRedirectUris: [
    'https://gallery.example/oauth/callback',
    'https://gallery.example/oauth/google/callback',
  ],
  scopes: ['profile'],
  issuer: 'https://gallery.example',
  onUser: async (provider, info) => {
    const sub = `${provider}:${info.subject}`;
    await app.state.db.execute(
      sql`insert into users (id, name) values (${sub}, ${info.name}) on conflict (id) do nothing`,
    );
    return { sub, scopes: ['profile'] };
  },
});
app.register(oauth);

app.get(
  '/me',
  {
    me: Depends(requireScopes('profile')),
    db: Depends(db),
    response: Profile,
    summary: 'Profile of the logged-in user',
  },
  async ({ me, db }) => {
    const row = await db.fetchOne('select id, name from users where id = ?', [me.sub], { as: Profile });
    if (row === undefined) throw new NotFound();
    return row;
  },
);
app.put(
  '/me',
  {
    me: Depends(requireScopes('profile')),
    db: Depends(db),
    body: Rename,
    response: Profile,
    description: 'Changes the name of the logged-in user.',
  },
  async ({ me, db, body }) => {
    await db.execute('update users set name = ? where id = ?', [body.name, me.sub]);
    return { id: me.sub, name: body.name };
  },
);
app.get('/me/logins', { me: Depends(requireScopes('profile')), response: list(Login) }, async ({ me }) => {
  const logins = await oauth.listSessions(me.sub);
  return logins.map(({ id, provider, createdAt }) => ({ id, provider, createdAt }));
});
app.delete(
  '/me/logins',
  { me: Depends(requireScopes('profile')), status: 204, description: 'Ends every session of the user.' },
  async ({ me }) => {
    await oauth.revokeAll(me.sub);
  },
);
