/**
 * What requireSession() of auth-session.ts throws. A file of its own: exception handlers name the class before anybody is refused.
 */
import { Unauthorized } from './errors.ts';

/** The challenge of a session: RFC 9110 §11.6.1 asks for one, and nobody has registered any. */
export const SESSION_SCHEME = 'Session';

/** 401: the session does not say who this is. A class of its own, so that an exception handler can lead to the login page. */
export class LoginRequired extends Unauthorized {
  constructor() { super('Log in first', { code: 'login_required', headers: { 'WWW-Authenticate': SESSION_SCHEME } }); }
}
