/** Converts the users of different providers to one format. */
import { isRecord } from '../../base/options.ts';
import { parseObject } from '../../crypto/jwt-json.ts';
import { ProviderFault } from '../../auth/provider/failure.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';

/** Identity of a user at a provider, passed to `onUser(provider, info)`. */
export interface UserInfo {
  /**
   * Id of the user at this provider, 1 ... 255 characters. It never changes. At another provider, the same id
   * may belong to another user.
   */
  readonly subject: string;
  /** Null if the provider sends no address, or one that cannot be an e-mail address. */
  readonly email: string | null;
  /**
   * Whether the provider has verified `email`. Find users by provider and subject. Never match them by e-mail,
   * verified or not.
   */
  readonly emailVerified: boolean;
  /** A text without control characters. */
  readonly name: string | null;
  /** http or https URL of a picture. The plugin does not fetch it. */
  readonly picture: string | null;
  /**
   * Claims of the verified id_token, merged with the user info, which takes precedence. Nothing in it is
   * checked: it also contains a refused e-mail address.
   */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** Result of `mapUser(raw)`. An absent member becomes null; an absent `emailVerified` becomes false. */
export interface MappedUser {
  /** Id of the user at the provider. */
  readonly subject: string | undefined;
  /** Email address. */
  readonly email?: string | null | undefined;
  /** Whether the provider has verified the email address. */
  readonly emailVerified?: boolean | undefined;
  /** Name to show. */
  readonly name?: string | null | undefined;
  /** URL of a picture. */
  readonly picture?: string | null | undefined;
}

const MAX_SUBJECT_CHARACTERS = 255; // limit of OpenID Connect Core §2
const MAX_EMAIL_CHARACTERS = 254; // limit of RFC 5321 §4.5.3.1.3, without the angle brackets
/**
 * Form of an e-mail address (RFC 5321 §4.1.2, RFC 6531 §3.3): a local part without quotes, and a domain name.
 * Control and format characters, spaces, and characters that separate addresses are refused, because mail
 * headers and comparisons would read them differently.
 */
const EMAIL = /^[^\p{C}\p{Z}@()<>[\]:;,\\"]{1,64}@[\p{L}\p{M}\p{N}-]+(?:\.[\p{L}\p{M}\p{N}-]+)*$/u;
/** Characters that no one-line text contains: control characters, and line and paragraph separators. */
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const MAX_POSTED_CHARACTERS = 4_096;
const MAX_POSTED_NAME_CHARACTERS = 255;

/**
 * Converts the standard claims to a user (OpenID Connect Core §5.1). The claim `email_verified` must be
 * `true`. With `acceptsText`, the text "true" is accepted, too.
 */
export function standardUser(raw: JsonObject, acceptsText: boolean = false): MappedUser {
  return {
    subject: textOr(raw['sub'], undefined),
    email: textOr(raw['email'], null),
    emailVerified: raw['email_verified'] === true || (acceptsText && raw['email_verified'] === 'true'),
    name: textOr(raw['name'], null),
    picture: textOr(raw['picture'], null),
  };
}

/**
 * Merges the claims of the id_token with the user info. `email` and `email_verified` always come from the
 * same source, so one source cannot verify the address of the other.
 */
export function joinClaims(claims: JsonObject, userinfo: JsonObject): Record<string, unknown> {
  const below = { ...claims };
  if ('email' in userinfo || 'email_verified' in userinfo) {
    delete below['email'];
    delete below['email_verified'];
  }
  return { ...below, ...userinfo };
}

/** Name of a member of {@link UserInfo} that is null if its form is wrong. */
export type CheckedClaim = 'email' | 'name' | 'picture';

const FORMS: Readonly<Record<CheckedClaim, (text: string) => boolean>> = {
  email: (text) => text.length <= MAX_EMAIL_CHARACTERS && EMAIL.test(text),
  name: isOneLine,
  picture: (text) => /^https?:\/\/[^\s\\]+$/i.test(text) && isOneLine(text) && URL.canParse(text),
};

/**
 * Checks the user that `mapUser` returned. `refused` is called with the name of each member whose form is
 * wrong; this member is then null.
 */
export function userInfoOf(
  mapped: MappedUser | undefined,
  raw: JsonObject,
  refused: (claim: CheckedClaim) => void = () => undefined,
): UserInfo {
  const subject: unknown = mapped?.subject;
  if (!isSubject(subject)) throw new ProviderFault('provider_error', 'user_subject');
  const checked = (claim: CheckedClaim): string | null => {
    const text = textOr(mapped?.[claim], null);
    if (text === null || FORMS[claim](text)) return text;
    refused(claim);
    return null;
  };
  const email = checked('email');
  return Object.freeze({
    subject,
    email,
    emailVerified: email !== null && mapped?.emailVerified === true,
    name: checked('name'),
    picture: checked('picture'),
    raw: Object.freeze({ ...raw }),
  });
}

/** Returns whether a value can be the id of a user at a provider: 1 to 255 characters, no control characters. */
export function isSubject(value: unknown): value is string {
  return (
    typeof value === 'string' && value !== '' && value.length <= MAX_SUBJECT_CHARACTERS && isOneLine(value)
  );
}

function isOneLine(text: string): boolean {
  return !CONTROL.test(text) && text.isWellFormed();
}

/**
 * Returns the name in the form field `user`, or null. At a user's first login, Sign in with Apple posts
 * `{"name":{"firstName":"Ada","lastName":"Lovelace"},"email":"..."}` in this field. The name is not verified.
 */
export function postedName(text: string | undefined): string | null {
  const name =
    text === undefined || text.length > MAX_POSTED_CHARACTERS ? undefined : parseObject(text)?.['name'];
  if (!isRecord(name)) return null;
  const whole = ['firstName', 'lastName']
    .map((part) => textOr(name[part], '').trim())
    .filter((part) => part !== '')
    .join(' ');
  return whole.length > MAX_POSTED_NAME_CHARACTERS || !isOneLine(whole) ? null : textOr(whole, null);
}

export function textOr<T>(value: unknown, none: T): string | T {
  return typeof value === 'string' && value !== '' ? value : none;
}
