/**
 * Options of DevProvider.
 */
import { SvcError } from '../../base/errors.ts';
import { given, int, oneOf, readOptions, text } from '../../base/options.ts';
import { localPath } from '../../http/path.ts';
import { hasUnusablePort } from '../../auth/provider/addresses.ts';
import type { Clock } from '../../base/clock.ts';
import { ENVS, type Env } from '../../base/config.ts';
import type { DevAlgorithm } from './keys.ts';
import type { DevUser } from './protocol.ts';

/** Options of a `DevProvider`. An option that is `undefined` has its default. */
export interface DevProviderOptions {
  /** Users that a developer can choose on the login page. Default: Ada Lovelace and Alan Turing. */
  readonly users?: readonly DevUser[] | undefined;
  /** Id of the client. Default `dev-client`. */
  readonly clientId?: string | undefined;
  /** Secret of the client. Default `dev-secret`. */
  readonly clientSecret?: string | undefined;
  /**
   * Allowed redirect URIs, compared byte for byte. A path is relative to the origin of the application that
   * serves the provider.
   */
  readonly redirectUris: readonly string[];
  /**
   * Allowed URLs for the redirect after a logout, compared byte for byte. A path is relative to the origin of
   * the application. Default: none.
   */
  readonly postLogoutRedirectUris?: readonly string[] | undefined;
  /** Name of the provider in `OAuthPlugin`, for applications with several providers. Default `dev`. */
  readonly name?: string | undefined;
  /** Port that start() listens on. Default 0: any free port. */
  readonly port?: number | undefined;
  /**
   * Issuer: a URL without a slash at its end. Default: the URL at which start() or mount() serves the
   * provider.
   */
  readonly issuer?: string | undefined;
  /** Signature algorithm of id_tokens. Default `RS256`. */
  readonly idTokenAlgorithm?: DevAlgorithm | undefined;
  /**
   * Environment, which must not be `production`. Default: the environment variable SVC_ENV, or `production`
   * if it is not set.
   */
  readonly env?: Env | undefined;
  /** Source of the time. Default: the clock of the application of mount(), otherwise the clock of the system. */
  readonly clock?: Clock | undefined;
}

export type ReadDevOptions = {
  readonly [Name in Exclude<keyof DevProviderOptions, 'env' | 'issuer' | 'clock'>]-?: NonNullable<
    DevProviderOptions[Name]
  >;
} & Required<Pick<DevProviderOptions, 'issuer' | 'clock'>>;

const USERS: readonly DevUser[] = [
  { sub: 'ada', name: 'Ada Lovelace', email: 'ada@example.test' },
  { sub: 'alan', name: 'Alan Turing', email: 'alan@example.test' },
];

const URLS = given<readonly string[]>('a list of URLs, or of paths', (value) =>
  isListOf(
    value,
    (url: string) => (URL.canParse(url) && !hasUnusablePort(url)) || localPath(url) !== undefined,
  ),
);

export function readDevOptions(options: DevProviderOptions): ReadDevOptions {
  const { users, redirectUris, postLogoutRedirectUris, env, ...read } = readOptions('DevProvider', options, {
    name: text('dev'),
    users: given<readonly DevUser[]>('a list of users, each with a sub', (value) =>
      isListOf(value, (user: DevUser | undefined) => typeof user?.sub === 'string' && user.sub !== ''),
    ),
    clientId: text('dev-client'),
    clientSecret: text('dev-secret'),
    redirectUris: URLS,
    postLogoutRedirectUris: URLS,
    port: int(0, 0, 65_535),
    issuer: text(),
    idTokenAlgorithm: oneOf(['RS256', 'ES256'], 'RS256'),
    env: given<Env>('production, development or test', (value) => ENVS.some((each) => each === value)),
    clock: given<Clock>(),
  });
  const named = env ?? process.env['SVC_ENV'];
  if (named !== 'development' && named !== 'test')
    throw new SvcError('E_DEV_PROVIDER', [
      named === undefined
        ? 'the environment is production, because neither the option "env" nor SVC_ENV is set'
        : 'the environment is production',
    ]);
  if (redirectUris === undefined)
    throw new SvcError('E_DEV_PROVIDER', ['the option "redirectUris" is missing']);
  return {
    ...read,
    redirectUris,
    users: users ?? USERS,
    postLogoutRedirectUris: postLogoutRedirectUris ?? [],
  };
}

function isListOf<T>(value: unknown, accepts: (each: T) => boolean): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(accepts);
}
