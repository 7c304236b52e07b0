/**
 * What a provider says of a user, in one form for all of them.
 */
import { isRecord } from '../../base/options.ts';
import { parseObject } from '../../crypto/jwt-json.ts';
import { ProviderFault } from './failure.ts';

/** What `onUser(provider, info)` is given. */
export interface UserInfo {
  /** The user's id at this provider, 1 ... 255 characters: never changes, and means nothing at another provider. */
  readonly subject: string;
  readonly email: string | null;
  /** Whether the provider vouches for `email`. Never match accounts by an e-mail for which this is false. */
  readonly emailVerified: boolean;
  readonly name: string | null;
  /** Where a picture is. Not fetched, not checked. */
  readonly picture: string | null;
  /** Claims of the verified id_token, with the members of the user-info answer over them. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** What a `mapUser(raw)` returns; what is absent is null, and `emailVerified` false. */
export interface MappedUser {
  readonly subject: string | undefined;
  readonly email?: string | null | undefined;
  readonly emailVerified?: boolean | undefined;
  readonly name?: string | null | undefined;
  readonly picture?: string | null | undefined;
}

const MAX_SUBJECT_CHARACTERS = 255; // OpenID Connect Core §2
const MAX_POSTED_CHARACTERS = 4_096;
const MAX_POSTED_NAME_CHARACTERS = 255;

/** The standard claims (OpenID Connect Core §5.1). `email_verified` is strictly `true`, or with `acceptsText` the text "true". */
export function standardUser(
  raw: Readonly<Record<string, unknown>>,
  acceptsText: boolean = false,
): MappedUser {
  return {
    subject: textOr(raw['sub'], undefined),
    email: textOr(raw['email'], null),
    emailVerified: raw['email_verified'] === true || (acceptsText && raw['email_verified'] === 'true'),
    name: textOr(raw['name'], null),
    picture: textOr(raw['picture'], null),
  };
}

/**
 * Claims and user info in one object. The e-mail and its mark come from one of the two, never one from each: else the address
 * of one could wear the mark of the other.
 */
export function joinClaims(
  claims: Readonly<Record<string, unknown>>,
  userinfo: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const below = { ...claims };
  if ('email' in userinfo || 'email_verified' in userinfo) {
    delete below['email'];
    delete below['email_verified'];
  }
  return { ...below, ...userinfo };
}

/** A mapped user, checked member by member. @throws ProviderFault `provider_error` for one without a usable subject */
export function userInfoOf(mapped: MappedUser | undefined, raw: Readonly<Record<string, unknown>>): UserInfo {
  const subject: unknown = mapped?.subject;
  if (
    typeof subject !== 'string' ||
    subject === '' ||
    subject.length > MAX_SUBJECT_CHARACTERS ||
    /[\0-\x1f\x7f]/.test(subject) ||
    !subject.isWellFormed()
  )
    throw new ProviderFault('provider_error', 'user_subject');
  const email = textOr(mapped?.email, null);
  return Object.freeze({
    subject,
    email,
    emailVerified: email !== null && mapped?.emailVerified === true,
    name: textOr(mapped?.name, null),
    picture: textOr(mapped?.picture, null),
    raw: Object.freeze({ ...raw }),
  });
}

/**
 * The name in the field `user` that Sign in with Apple has browsers post with a first login, as
 * `{"name":{"firstName":"Ada","lastName":"Lovelace"},"email":"..."}`; null for anything else. Nobody vouches for it, and the e-mail
 * beside it, which the id_token has as well, is not looked at.
 */
export function postedName(text: string | undefined): string | null {
  const name =
    text === undefined || text.length > MAX_POSTED_CHARACTERS ? undefined : parseObject(text)?.['name'];
  if (!isRecord(name)) return null;
  const whole = ['firstName', 'lastName']
    .map((part) => textOr(name[part], '').trim())
    .filter((part) => part !== '')
    .join(' ');
  return whole.length > MAX_POSTED_NAME_CHARACTERS || /[\0-\x1f\x7f]/.test(whole) || !whole.isWellFormed()
    ? null
    : textOr(whole, null);
}

/** A non-empty string, or what stands for none. */
export function textOr<T>(value: unknown, none: T): string | T {
  return typeof value === 'string' && value !== '' ? value : none;
}
