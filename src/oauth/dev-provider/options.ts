/**
 * Options of DevProvider.
 */
import type { Clock } from '../../base/clock.ts';
import type { Env } from '../../base/config.ts';
import type { DevAlgorithm } from './keys.ts';
import type { DevUser } from './protocol.ts';

/** Options of a `DevProvider`. `undefined` means not given. */
export interface DevProviderOptions {
  /** Default: Ada Lovelace and Alan Turing. */
  readonly users?: readonly DevUser[] | undefined;
  /** Default `dev-client`. */
  readonly clientId?: string | undefined;
  /** Default `dev-secret`. */
  readonly clientSecret?: string | undefined;
  /** Where logins may return to, byte for byte; paths are of the application that it is mounted on. */
  readonly redirectUris: readonly string[];
  /** Port that start() listens on. Default 0: a free one. */
  readonly port?: number | undefined;
  /** The URL it is reached by when an application answers for it, without a slash at the end. Default: where start() listens. */
  readonly issuer?: string | undefined;
  /** Default `RS256`. */
  readonly idTokenAlgorithm?: DevAlgorithm | undefined;
  /** Where the application believes it runs; `production` is refused. Default: the variable SVC_ENV, else `production`, as applications do. */
  readonly env?: Env | undefined;
  readonly clock?: Clock | undefined;
}

/** Users of a provider whose options name none. */
export const USERS: readonly DevUser[] = [
  { sub: 'ada', name: 'Ada Lovelace', email: 'ada@example.test' },
  { sub: 'alan', name: 'Alan Turing', email: 'alan@example.test' },
];
