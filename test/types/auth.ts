/** Type assertions for ways in: compiled, never run. */
import {
  APIKeyAuth,
  BearerAuth,
  Depends,
  Field,
  Schema,
  SessionMiddleware,
  Svc,
  list,
  provide,
  requireIf,
  requireRoles,
  requireScopes,
  requireSession,
  sessionKey,
  str,
} from 'svc';
import type { AuthSource, Claims, Provided } from 'svc';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<_T extends true>(): void {
  /* for the compiler */
}

class Tenant extends Schema {
  tenant = Field(str);
  tags = Field(list(str));
}
interface User {
  readonly id: number;
  readonly roles: readonly string[];
}
const USER = sessionKey<User>('user');
const VISITS = sessionKey<number>('visits');
const account = provide({ headers: { xUser: Field('') } }, ({ headers }) =>
  headers.xUser === '' ? undefined : { sub: headers.xUser, roles: ['x'], plan: 'free' as const },
);

const app = new Svc().use(new SessionMiddleware());
app.get(
  '/users/{id}',
  {
    me: Depends(BearerAuth()),
    own: Depends(BearerAuth('secret', { audience: 'api' })),
    typed: Depends(BearerAuth<{ tenant: string }>()),
    checked: Depends(BearerAuth(undefined, { schema: Tenant })),
    maybe: Depends(BearerAuth(undefined, { optional: true })),
    admin: Depends(requireRoles('admin', 'owner')),
    scoped: Depends(requireScopes('a', 'b')),
    self: Depends(
      requireIf((claims, { req }) => claims.sub === req.pathParams['id'], { detail: 'Only your own' }),
    ),
    user: Depends(requireSession(USER)),
    admins: Depends(requireRoles({ roles: ['admin'], auth: requireSession(USER) })),
    tenant: Depends(requireScopes({ scopes: ['a'], auth: BearerAuth(undefined, { schema: Tenant }) })),
    free: Depends(requireIf(async (who) => who.plan === 'free', { auth: account })),
    client: Depends(APIKeyAuth({ keys: { billing: 'x', reports: ['y', 'z'] } })),
    found: Depends(
      APIKeyAuth({ header: 'X-Key', verify: async (key) => (key === 'x' ? { name: key } : undefined) }),
    ),
    perhaps: Depends(APIKeyAuth({ cookie: 'key', keys: { a: 'x' }, optional: true })),
  },
  ({
    me,
    own,
    typed,
    checked,
    maybe,
    admin,
    scoped,
    self,
    user,
    admins,
    tenant,
    free,
    client,
    found,
    perhaps,
  }) => {
    is<Equal<typeof me.sub, string>>();
    is<Equal<typeof me.exp, number | undefined>>();
    is<Equal<(typeof me)['other'], unknown>>();
    is<Equal<typeof own.sub, string>>();
    is<Equal<typeof typed.tenant, string>>();
    is<Equal<typeof checked.tags, string[]>>();
    is<Equal<typeof maybe extends Claims ? true : false, false>>();
    is<Equal<typeof admin, Claims>>();
    is<Equal<typeof scoped, Claims>>();
    is<Equal<typeof self.sub, string>>();
    is<Equal<typeof user, User>>();
    is<Equal<typeof admins, User>>();
    is<Equal<typeof tenant.tenant, string>>();
    is<Equal<typeof free.plan, 'free'>>();
    is<Equal<typeof client, 'billing' | 'reports'>>();
    is<Equal<typeof found, { name: string }>>();
    is<Equal<typeof perhaps, 'a' | undefined>>();
    return maybe?.sub ?? 'nobody';
  },
);
is<Equal<Provided<AuthSource<Claims>>, Claims>>();
BearerAuth(undefined, { verify: async (claims, { req }) => claims.sub === req.ip });
BearerAuth<{ tenant: string }>(undefined, { verify: ({ tenant }) => tenant !== '' });

// @ts-expect-error a role at least
requireRoles();
// @ts-expect-error roles are text
requireRoles(5);
// @ts-expect-error a scope at least
requireScopes();
// @ts-expect-error "a scope has no spaces: pass each as an argument of its own"
requireScopes('read write');
// @ts-expect-error "a scope is not empty"
requireScopes('');
// @ts-expect-error another source
requireScopes({ scopes: ['read write'], auth: BearerAuth() });
// @ts-expect-error "auth must give claims: an object such as BearerAuth() gives, or undefined without authentication"
requireRoles({ roles: ['admin'], auth: requireSession(VISITS) });
// @ts-expect-error "auth must be the source of a dependency, such as BearerAuth(), without Depends( )"
requireRoles({ roles: ['admin'], auth: Depends(BearerAuth()) });
// @ts-expect-error a role at least, with another way in, too
requireRoles({ roles: [], auth: BearerAuth() });
// @ts-expect-error the predicate answers true or false
requireIf((claims) => claims.sub);
// @ts-expect-error whether it is optional must be known to the compiler
BearerAuth(undefined, { optional: true as boolean });
// @ts-expect-error the secret is text, or a list of texts
BearerAuth({ audience: 'api' });
// @ts-expect-error keys or verify, not both
APIKeyAuth({ keys: { a: 'x' }, verify: () => 'x' });
// @ts-expect-error keys or verify
APIKeyAuth({ header: 'X-Key' });
// @ts-expect-error a key of the session, not its name
requireSession('user');
