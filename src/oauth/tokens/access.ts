/**
 * Creates access tokens, and checks the results of hooks such as `onUser`. A result is checked before
 * anything is stored or rotated, so an invalid result ends no login.
 *
 * With the option `enforceValidAfter`, ValidAfterGate refuses access tokens that were issued before
 * `revokeAll()` was called for their user (OWASP ASVS 7.4.1). It caches the time of the revocation for a few
 * seconds.
 */
import { ACCESS_TOKEN_TYPE } from '../../auth/auth.ts';
import { createToken } from '../../crypto/jwt.ts';
import { HTTPException, SvcError } from '../../base/errors.ts';
import { OAuthError } from '../errors.ts';
import { remember } from '../../base/options.ts';
import { isScopes } from '../plugin-options.ts';
import type { Clock } from '../../base/clock.ts';
import type { Secrets } from '../../crypto/keys.ts';
import type { Logger } from '../../observability/log.ts';
import type { ReadOptions, UserAnswer } from '../plugin-options.ts';
import type { RefreshVerdict } from './refresh.ts';
import type { Awaitable } from '../../http/contracts.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { LoginRow, LoginStore } from './store.ts';

export type TokenUser = Pick<LoginRow, 'sub' | 'scopes' | 'claims'>;

interface AccessTokensDeps {
  readonly options: ReadOptions;
  readonly secrets: Secrets;
  readonly clock: Clock;
  readonly log: Logger;
}

const MAX_SUB = 255;
/** Maximum characters of an access token in a cookie: browsers keep 4,096 bytes with its name. */
const MAX_COOKIE_TOKEN = 4_000;
/** Default of the option `maxLength` of BearerAuth(), in characters. */
const USUAL_TOKEN = 8_192;
/** A text as long as the id of a login, used to compute the length of a token. */
const ANY_ID = 'x'.repeat(22);

export class AccessTokens {
  readonly #deps: AccessTokensDeps;
  #hasWarned = false;

  constructor(deps: AccessTokensDeps) {
    this.#deps = deps;
  }

  /**
   * Returns an access token for a login. The id of the login is the claim `sid`. If the login has a DPoP key,
   * the token is bound to this key (RFC 9449 §6.1).
   *
   * `issuedAt` is in microseconds since the epoch, and must be a time before the login was read from the
   * store. So a revocation that this read has missed is later than `issuedAt`, and makes the token invalid.
   */
  make(user: TokenUser, loginId: string, issuedAt: number, keyThumbprint: string | null = null): string {
    const bound = keyThumbprint === null ? {} : { cnf: { jkt: keyThumbprint } };
    const { secrets, clock, options } = this.#deps;
    const exact = options.enforceValidAfter ? { [EXACT_TIME]: issuedAt } : {};
    const issuing = { ...clock, nowMs: () => issuedAt / 1_000 };
    return createToken(user.sub, secrets, {
      expiresInSeconds: options.accessTtlSeconds,
      issuer: options.issuer,
      audience: options.audience,
      id: true,
      type: ACCESS_TOKEN_TYPE,
      clock: issuing,
      claims: { ...user.claims, scopes: [...user.scopes], sid: loginId, ...exact, ...bound },
    });
  }

  /** Checks the user that `onUser` has returned, and adds defaults. */
  userOf(answer: NonNullable<UserAnswer>): TokenUser {
    const user = typeof answer === 'string' ? { sub: answer } : answer;
    const { sub, scopes = this.#deps.options.scopes, claims = {} } = user;
    if (typeof sub !== 'string' || !sub.isWellFormed() || /^$|\p{Cc}/u.test(sub) || sub.length > MAX_SUB) {
      throw new SvcError('E_OAUTH_USER', [
        'onUser',
        `the subject must be a text of 1 to ${MAX_SUB} characters without control characters`,
      ]);
    }
    this.#assertFits('onUser', { sub, scopes, claims });
    return { sub, scopes, claims };
  }

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
          'the result must be a boolean, an object or undefined',
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
    if (!isScopes(user.scopes))
      throw new SvcError('E_OAUTH_USER', [hook, 'the scopes must be a list of texts, each without spaces']);
    if (typeof user.claims !== 'object' || (user.claims as unknown) === null || Array.isArray(user.claims))
      throw new SvcError('E_OAUTH_USER', [hook, 'the claims must be an object']);
    const { options, clock, log } = this.#deps;
    const { length } = this.make(user, ANY_ID, clock.nowMicros());
    if (options.mode === 'cookie' && length > MAX_COOKIE_TOKEN)
      throw new SvcError('E_OAUTH_USER', [
        hook,
        `the claims make a token of ${length} characters, but a cookie holds only ${MAX_COOKIE_TOKEN}`,
      ]);
    if (length <= USUAL_TOKEN || this.#hasWarned) return;
    this.#hasWarned = true;
    log.warn('access_token_long', {
      hook,
      characters: length,
      remedy: `BearerAuth() refuses tokens of more than ${USUAL_TOKEN} characters: return fewer claims, or raise the option maxLength of BearerAuth()`,
    });
  }
}

/** Calls `onRefresh`. An exception with a 4xx status refuses the refresh, but keeps the login. */
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

/** Time in milliseconds for which the result of a look-up is used. */
export const RECHECK_MS = 5_000;
const MAX_SUBJECTS = 10_000;
/** Maximum difference between the clocks of two processes on one machine, in microseconds. */
const DRIFT = 10_000;

/** Claim with the issue time in microseconds. The claim `iat` has only whole seconds. */
const EXACT_TIME = 'iat_us';

/**
 * Returns the minimum time in microseconds between a revocation and the issue of a valid token. Both times
 * may come from different clocks.
 */
export function marginOf(clockSkew: number): number {
  return clockSkew + DRIFT;
}

interface Revocation {
  readonly moment: number;
  /** Monotonic time in milliseconds after which the store is read again. */
  readonly deadlineMs: number;
}

/** Refuses tokens older than the user's last revocation, read at most every five seconds. */
export class ValidAfterGate {
  readonly #store: LoginStore;
  readonly #clock: Clock;
  /** The last revocation of each user, in the order in which the revocations were read from the store. */
  readonly #revocations = new Map<string, Revocation>();
  readonly #margin: number;

  /** `clockSkew` is the maximum difference between the clocks of several hosts, in microseconds. */
  constructor(store: LoginStore, clock: Clock, clockSkew: number) {
    this.#store = store;
    this.#clock = clock;
    this.#margin = marginOf(clockSkew);
  }

  /**
   * Returns whether a token is later than the last revocation of its user. Tokens of other issuers have their
   * issue time only in whole seconds. So they are also refused if they were issued in the second of the
   * revocation.
   */
  allows(claims: Claims): Awaitable<boolean> {
    const { sub } = claims;
    const made = this.#madeAt(claims);
    const known = this.#revocations.get(sub);
    if (known !== undefined && known.deadlineMs > this.#clock.monotonicMs()) return made > known.moment;
    return this.#store.validAfter(sub).then((moment) => made > this.remember(sub, moment));
  }

  /** Caches the time of a user's revocation. Returns the latest known time. */
  remember(sub: string, given: number): number {
    // two look-ups may finish in reverse order, so the latest time is kept
    const moment = Math.max(given, this.#revocations.get(sub)?.moment ?? 0);
    const deadlineMs = this.#clock.monotonicMs() + RECHECK_MS;
    return remember(this.#revocations, MAX_SUBJECTS, sub, { moment, deadlineMs }).moment;
  }

  /** Returns the earliest possible issue time of a token, in microseconds since the epoch. */
  #madeAt(claims: Claims): number {
    const exact = (claims as Readonly<Record<string, unknown>>)[EXACT_TIME];
    const { iat } = claims;
    return typeof exact === 'number' ? exact - this.#margin : typeof iat === 'number' ? iat * 1_000_000 : 0;
  }
}
