/**
 * Names on which the rules rely, because nothing else in a program declares what a column, a variable or a path is for. A
 * name that is missing here makes a rule silent.
 */
import { isSecret } from '../observability/redact.ts';

/** Columns of amounts. */
export const AMOUNT: RegExp =
  /(?:^|_)(?:cents|amount|price|cost|total|balance|credits?|points|fee|paid|value|quantity)(?:_|$)/;
/** Members of payments with an amount. */
export const PAID: RegExp = /cents|amount|price|total|balance|credits?$/i;
/** Members by which the receiver of a payment recognises a repeated one. */
export const REPEAT_KEY: RegExp =
  /idempot|^x?-?request-?id$|^(?:id|key|nonce|reference)$|(?:request|payment|charge|transaction|transfer|order|invoice)_?(?:id|key|reference)$/i;
/** Tables with one row for each change of another table. */
export const LEDGER: RegExp =
  /(?:^|_)(?:audits?|outbox|ledger|journal|audit_?\w+|(?:event|activity|change)_?logs?)(?:_|$)|^history$/;
/** Columns that hold a tenant. */
export const TENANT: RegExp = /^(?:tenant|org|organi[sz]ation|company|workspace|customer)(?:_?id)?$/;
/** Columns that say what a client may do, or what it owns. */
export const RIGHT: RegExp =
  /^(?:(?:\w+_|user)?roles?|(?:is_?)?(?:admin|administrator|superuser|staff|moderator)|permissions?|privileges?|scopes?|(?:is_?|email_?)?verified|balance(?:_?cents)?|credits?)$/;
/** Inputs that say what a client may do, without `_` and in lower case. */
export const ROLE: RegExp =
  /^x?(?:(?:my|user|as)?roles?|(?:is|as)?(?:admin|administrator|superuser|staff|moderator|root)|permissions?|privileges?)$/;
/** Columns with the e-mail address of an account. */
export const MAIL: RegExp = /^e_?mail(?:_address)?$/;
/** Columns that say whether an address is verified. */
export const PROOF: RegExp = /verified|confirmed/;
/** Columns that switch a row off. */
export const OFF: RegExp =
  /^(?:is_?)?(?:disabled|deactivated|suspended|blocked|banned|locked|active|enabled|deleted|revoked|removed)(?:_(?:at|on|ms|by))?$/;
/** Columns that say until when a row is valid. */
export const END: RegExp =
  /(?:^|_)(?:expir(?:es?|y|ation)|valid_(?:until|to|before)|until|deadline|ends?)(?:_(?:at|on|time))?$/;
/** Columns with a time. */
export const TIME: RegExp =
  /(?:_(?:at|on|ms)|time|date|expir\w*|since|until|created|made|issued|sent|ends?|deadline|valid\w*|age|ttl)$/;
/** Columns that hold a secret. */
export const SECRET_COLUMN: RegExp =
  /^(?!.*(?:csrf|(?:file|content|block|commit)_?hash))\w*(?:(?:password|passwd)(?:_?hash)?|secret|api_?key|private_?key|_hash)$/i;
/** Members of responses that hold a secret, without `_` and in lower case. */
export const SECRET_MEMBER: RegExp =
  /^(?:password|passwd|pwd|passwordhash|hashedpassword|passwordsalt|clientsecret|privatekey|apisecret|totpsecret|mfasecret)$/;
/** Columns and inputs with a password, without `_` and in lower case. */
export const PASSWORD: RegExp = /(?:password|passwd|pwd|passphrase|passcode)$/;
/** Members with data of cards and identities, without `_` and in lower case. */
export const PERSON: RegExp =
  /^(?:card(?:number|no)|pan|cvc2?|cvv2?|cardcode|iban|ssn|socialsecurity(?:number)?|passport(?:number|no))$/;
/** Objects with settings. Only administrators change settings, and they may usually change all members. */
export const SETTINGS: RegExp = /(?:settings?|config\w*|conf|preferences|prefs)(?:\.|$)/i;
/** Parameters that do not affect the result of a function. */
export const TOOL: RegExp = /^(?:_|signal|db|tx|database|log|logger|clock|cache|app|fetch)/i;
/** Paths to which other services send messages. */
export const HOOK: RegExp = /(?:^|[/-])(?:web)?hooks?(?:[/-]|$)|\/ipn\b/i;
/** Paths of links in mails. */
export const LINK: RegExp =
  /(?:^|\/)(?:verify|confirm|activate|unsubscribe|callback|invitations?|magic)(?:[/-]|$)/i;
/** Paths of logins. */
export const LOGIN: RegExp = /(?:^|\/)(?:log-?in|sign-?in|session|auth)s?(?:\/|$)/i;

/**
 * Whether a column, member, cookie or parameter of this name holds a secret. The table is that of the logger: what a log
 * leaves out is what the rules take for a secret.
 */
export function namesSecret(name: string): boolean {
  return isSecret(name, 'text');
}

/** Whether a column of this name holds a code, such as a PIN. */
export function namesCode(column: string | undefined): boolean {
  return column !== undefined && (namesSecret(column) || /^(?:\w+_)?(?:code|pin|otp)$/i.test(column));
}

/** Whether a cookie of this name identifies a client. */
export function namesClient(name: string): boolean {
  return (namesSecret(name) || bare(name).endsWith('session')) && !/csrf|xsrf/i.test(name);
}

const SECRET_WORD = /SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|SIGNING_?KEY|PRIVATE_?KEY|(?:^|_)(?:KEY|PASS)$/i;
/** Names of variables that describe a secret but do not contain one: `SECRETS_REGION`, `TOKEN_TTL`, `PUBLIC_KEY`. */
const BESIDE_SECRET =
  /PUBLIC|(?:CACHE|PARTITION|SORT|PRIMARY|ROUTING)_KEY$|_(?:REGION|NAMES?|PREFIX|SUFFIX|ROUNDS|TTL|EXPIR\w*|LIFETIME|DURATION|MINUTES|SECONDS|HOURS|DAYS|MAX_AGE|AGE|LENGTH|SIZE|TYPE|ALG|ALGORITHM|URL|URI|ENDPOINT|PATH|FILE|DIR|ISSUER|AUDIENCE|HEADER|FIELD|PARAM|COOKIE|HOST|PORT|ENABLED|LIMIT|COUNT|ID)$/i;

/** Whether an environment variable of this name holds a secret. */
export function namesSecretVariable(name: string): boolean {
  return !BESIDE_SECRET.test(name) && (SECRET_WORD.test(name) || namesSecret(name));
}

/** Returns a name without signs and in lower case: `api_key` and `apiKey` are one. */
export function bare(name: string): string {
  return name.replace(/[^A-Za-z\d]/g, '').toLowerCase();
}
