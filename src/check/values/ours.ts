/** Types of this package, as far as the evaluation needs them: results, members, parameters of handlers, and users of providers. */
import { charsOf, clientPart } from './text.ts';
import { KNOWN, judged } from './value.ts';
import type { Spot } from '../reader/modules.ts';
import type { Fact, Origin } from './text.ts';
import type { Value } from './value.ts';

/** The kind of value that a parameter of a handler receives: a context, a socket, a message of a client, or another value. */
export type Parameter = 'request' | 'socket' | 'message' | 'error' | 'own';

const DECLARES = /^(?:get|post|put|patch|delete|route|tool|prompt|resource)$/;
const ROUTER: Readonly<Record<string, readonly Parameter[]>> = {
  websocket: ['socket', 'request'],
  use: ['request', 'own'],
  exceptionHandler: ['error', 'request'],
};
const SOCKET: Readonly<Record<string, readonly Parameter[]>> = {
  onOpen: ['socket', 'request'],
  onMessage: ['socket', 'message', 'request'],
  onClose: ['socket', 'own', 'request'],
  onError: ['socket', 'error', 'request'],
};

/** Type of the value of `app.websocket(path)`, which takes the handlers of events. */
export const SOCKET_ROUTER = 'svc.WebSocketRouter';

export function isRouter(type: string | undefined): boolean {
  return type === 'svc.Svc' || type === 'svc.Router';
}

/** Returns the parameters of the handler that a method of this package receives as its last argument. */
export function parametersOf(type: string | undefined, method: string): readonly Parameter[] | undefined {
  if (isRouter(type) && DECLARES.test(method)) return ['request'];
  const table = isRouter(type) ? ROUTER : type === SOCKET_ROUTER ? SOCKET : undefined;
  return table !== undefined && Object.hasOwn(table, method) ? table[method] : undefined;
}

/** Whether a method returns its object: `app.get(…).post(…)`. */
export function returnsItself(type: string | undefined, method: string): boolean {
  return (
    parametersOf(type, method) !== undefined ||
    (isRouter(type) &&
      /^(?:register|includeRouter|mount|mountMcp|onStartup|onShutdown|addCheck)$/.test(method))
  );
}

const MEMBERS: Readonly<Record<string, string>> = {
  'svc.Svc.state': 'svc.AppState',
  'svc.Svc.config': 'svc.Config',
  'svc.Svc.log': 'svc.Logger',
  'svc.Svc.clock': 'svc.Clock',
  'svc.Svc.rooms': 'svc.rooms',
  'svc.Context.log': 'svc.Logger',
  'svc.services.log': 'svc.Logger',
  'svc.Services.log': 'svc.Logger',
  'svc.Context.state': 'svc.AppState',
  'svc.AppState.db': 'svc/db.db',
  'svc/db.DatabasePlugin.database': 'svc/db.db',
  'svc.AppState.redis': 'svc/db.redis',
};

/** Returns the type of a member of an object of this package. */
export function typeOfMember(type: string | undefined, key: string): string | undefined {
  const name = `${type ?? ''}.${key}`;
  return Object.hasOwn(MEMBERS, name) ? MEMBERS[name] : undefined;
}

/** Types whose values are the request of a client, or hold it as the context of a handler does. */
export function isOfRequest(type: string): boolean {
  return /^svc\.(?:Context|HandlerContext|ProviderContext|HttpRequest)$/.test(type);
}

/** Id of the e-mail address that a login provider sends. */
export const PROVIDER_MAIL = 'e-mail of the provider';
/** Mark of the id of a person at a login provider. */
export const SUBJECT = 'subject of the provider';
const MAIL: Fact = { may: charsOf('@.+-_', /\w/) };

/** Returns the user whom a login provider has authenticated. The e-mail address is known where it is verified. */
export function userValue(at: Spot): Value {
  const origin: Origin = { what: 'info.email', input: 'row' };
  const isVerified = new Map([[PROVIDER_MAIL, { isKnown: true }]]);
  return {
    texts: KNOWN.texts,
    type: 'svc/oauth.UserInfo',
    members: new Map([
      ['email', { texts: [[clientPart(PROVIDER_MAIL, origin, MAIL)]] }],
      ['emailVerified', judged(isVerified)],
      ['subject', { texts: [[{ kind: 'own', made: { by: SUBJECT, ...at } }]] }],
      ['name', KNOWN],
      ['picture', KNOWN],
      ['raw', KNOWN],
    ]),
  };
}

/** Id of an e-mail address in a response of another service. */
export const CLAIMED_MAIL: string = `${PROVIDER_MAIL} in a response`;

/** Returns a claim about a person in a response of another service: its address, and whether the service has verified it. */
export function claimOf({ type }: Value, key: string): Value | undefined {
  if (type !== 'fetch.json') return undefined;
  if (/^e_?mail(?:_?address)?$/i.test(key))
    return { texts: [[clientPart(CLAIMED_MAIL, { what: key, input: 'row' }, MAIL)]] };
  return /^(?:e?mail_?(?:is_?)?verified|(?:is_?)?verified_?e?mail)$/i.test(key)
    ? judged(new Map([[CLAIMED_MAIL, { isKnown: true }]]))
    : undefined;
}
