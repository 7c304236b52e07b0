/**
 * Logged in by session: a dependency that gives a value of the session, which a login has put there.
 *
 *   const USER = sessionKey<{ id: number }>('user');
 *   app.get('/account', { user: Depends(requireSession(USER)) }, ({ user }) => ...)
 *
 *   after login:   req.session.regenerate(); req.session.set(USER, { id })
 *   instead of 401, for pages:   app.exceptionHandler(LoginRequired, () => new RedirectResponse('/login', { status: 303 }))
 */
import { LoginRequired } from '../base/errors.ts';
import { SCHEMES, mistaken, named, wayIn } from './source.ts';
import type { AuthSource } from './source.ts';
import type { Context, SessionKey } from '../http/contracts.ts';

/**
 * A source of the value that the session has under a key. Without one, LoginRequired: 401 with `WWW-Authenticate: Session`.
 * Needs the session middleware. Its value may be the `auth` of requireRoles() and the others, if it is an object.
 *
 * @throws SvcError `E_AUTH` for what is no key
 */
export function requireSession<T>(key: SessionKey<T>): AuthSource<NonNullable<T>> {
  if (typeof key?.name !== 'string') mistaken('requireSession()', 'its key is not made by sessionKey()');
  const bare = named('requireSession', ({ req }: Context) => {
    const value = req.session.get(key);
    if (value === undefined || value === null) throw new LoginRequired();
    return value;
  });
  return wayIn('requireSession', {
    bare,
    requirement: { scheme: 'session', scopes: [], roles: [] },
    scheme: SCHEMES.session,
    realm: undefined,
  });
}
