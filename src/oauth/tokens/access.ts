/**
 * Access tokens, and what the application's hooks say goes into them: checked before anything is stored or rotated, so that
 * a mistake there costs nobody their login.
 */
import { ACCESS_TOKEN_TYPE } from '../../auth/auth.ts';
import { createToken } from '../../crypto/jwt.ts';
import { HTTPException, SvcError } from '../../base/errors.ts';
import { OAuthError } from '../errors.ts';
import { EXACT_TIME } from './valid-after.ts';
import type { Clock } from '../../base/clock.ts';
import type { Secrets } from '../../crypto/keys.ts';
import type { Logger } from '../../observability/log.ts';
import type { RefreshVerdict } from './refresh.ts';

/** What an application answers about somebody who has logged in at a provider: its own subject, or nothing for "not here". */
export type UserAnswer =
  | string
  | null
  | undefined
  | {
      readonly sub: string;
      /** In place of the scopes of the plugin. */
      readonly scopes?: readonly string[] | undefined;
      /** Further claims of the access tokens, for example `roles`. */
      readonly claims?: Readonly<Record<string, unknown>> | undefined;
    };

/** A user as the tokens will have it. */
export interface TokenUser {
  readonly sub: string;
  readonly scopes: readonly string[];
  readonly claims: Readonly<Record<string, unknown>>;
}

/** What access tokens are made with. */
interface AccessPolicy {
  readonly secrets: Secrets;
  readonly ttlSeconds: number;
  readonly issuer: string | undefined;
  readonly audience: string | undefined;
  /** Of users whose hook says none. */
  readonly scopes: readonly string[];
  /** Whether they have to fit into a cookie. */
  readonly isForCookies: boolean;
  /** Whether they say to the microsecond when they were made. */
  readonly isExact: boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

const MAX_SUB = 255;
/** What browsers keep of a cookie is 4,096 bytes, its name and attributes aside. */
const MAX_COOKIE_TOKEN = 4_000;
/** What BearerAuth() reads, unless its `maxLength` says more. */
const USUAL_TOKEN = 8_192;
/** Scopes as RFC 6749 §3.3 writes them. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
/** As long as the id of a login. */
const ANY_ID = 'x'.repeat(22);

/** Whether a value is a list of scopes. */
export function isScopes(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((scope) => typeof scope === 'string' && SCOPE.test(scope));
}

/** Makes access tokens. */
export class AccessTokens {
  readonly #policy: AccessPolicy;
  #hasWarned = false;

  constructor(policy: AccessPolicy) {
    this.#policy = policy;
  }

  get ttlSeconds(): number {
    return this.#policy.ttlSeconds;
  }

  /**
   * The token of a login, whose id is its claim `sid`; bound to a key, if there is one (RFC 9449 §6.1). `issuedAt` in
   * microseconds: from before the login was last seen alive.
   */
  make(user: TokenUser, loginId: string, issuedAt: number, keyThumbprint: string | null = null): string {
    const bound = keyThumbprint === null ? {} : { cnf: { jkt: keyThumbprint } };
    const { secrets, ttlSeconds, issuer, audience, isExact, clock } = this.#policy;
    const exact = isExact ? { [EXACT_TIME]: issuedAt } : {};
    const issuing = { ...clock, nowMs: () => issuedAt / 1_000 };
    return createToken(user.sub, secrets, {
      expiresInSeconds: ttlSeconds,
      issuer,
      audience,
      id: true,
      type: ACCESS_TOKEN_TYPE,
      clock: issuing,
      claims: { ...user.claims, scopes: [...user.scopes], sid: loginId, ...exact, ...bound },
    });
  }

  /** What `onUser` has answered about somebody who may log in. @throws SvcError `E_OAUTH_USER` */
  userOf(answer: NonNullable<UserAnswer>): TokenUser {
    const {
      sub,
      scopes = this.#policy.scopes,
      claims = {},
    } = typeof answer === 'string' ? { sub: answer } : answer;
    if (typeof sub !== 'string' || !sub.isWellFormed() || /^$|\p{Cc}/u.test(sub) || sub.length > MAX_SUB) {
      throw new SvcError('E_OAUTH_USER', [
        'onUser',
        `the subject is no text of 1 … ${MAX_SUB} characters without control characters`,
      ]);
    }
    this.#assertFits('onUser', { sub, scopes, claims });
    return { sub, scopes, claims };
  }

  /** `onRefresh` with its answers checked. */
  checked<T>(
    onRefresh: ((login: T) => RefreshVerdict | PromiseLike<RefreshVerdict>) | undefined,
  ): ((login: T) => Promise<RefreshVerdict>) | undefined {
    if (onRefresh === undefined) return undefined;
    return async (login) => {
      const verdict = await answerOf(onRefresh, login);
      if (verdict === undefined || typeof verdict === 'boolean') return verdict;
      if (typeof verdict !== 'object' || (verdict as unknown) === null)
        throw new SvcError('E_OAUTH_USER', [
          'onRefresh',
          'it is neither a boolean, nor an object, nor undefined',
        ]);
      this.#assertFits('onRefresh', {
        sub: ANY_ID,
        scopes: verdict.scopes ?? [],
        claims: verdict.claims ?? {},
      });
      return verdict;
    };
  }

  #assertFits(hook: string, user: TokenUser): void {
    if (!isScopes(user.scopes)) throw new SvcError('E_OAUTH_USER', [hook, 'the scopes are no list of words']);
    if (typeof user.claims !== 'object' || (user.claims as unknown) === null || Array.isArray(user.claims))
      throw new SvcError('E_OAUTH_USER', [hook, 'the claims are no object']);
    const { isForCookies, clock, log } = this.#policy;
    const { length } = this.make(user, ANY_ID, clock.nowMicros());
    if (isForCookies && length > MAX_COOKIE_TOKEN)
      throw new SvcError('E_OAUTH_USER', [
        hook,
        `the claims make a token of ${length} characters, and a cookie holds ${MAX_COOKIE_TOKEN}`,
      ]);
    if (length <= USUAL_TOKEN || this.#hasWarned) return;
    this.#hasWarned = true;
    log.warn('access_token_long', {
      hook,
      characters: length,
      remedy: `BearerAuth() refuses tokens of more than ${USUAL_TOKEN} characters: answer fewer claims, or give it a maxLength`,
    });
  }
}

/** What a hook answers. A 4xx that it throws refuses this refresh and ends nothing; its words are not for the client. */
async function answerOf<T>(
  onRefresh: (login: T) => RefreshVerdict | PromiseLike<RefreshVerdict>,
  login: T,
): Promise<RefreshVerdict> {
  try {
    return await onRefresh(login);
  } catch (error) {
    if (error instanceof HTTPException && error.status < 500)
      throw new OAuthError('invalid_grant', { reason: 'on_refresh', cause: error });
    throw error;
  }
}
