/**
 * Who is logged in, as the session knows it.
 */
import { sessionKey } from '../http/sessions.ts';
import type { SessionKey } from '../http/contracts.ts';

/** The application's subject of whoever has logged in; set by the callback where the session middleware is in use. */
export const currentUser: SessionKey<string> = sessionKey('svc_user');
