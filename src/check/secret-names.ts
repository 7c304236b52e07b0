/**
 * Names that declare a secret, where a name is the only declaration: a column, an environment variable, a member of a reply or of a log, a
 * cookie, a parameter of an address. The table is that of the logger, so what a log masks is what the rules take for a secret.
 */
import { isSecret } from '../observability/redact.ts';

/** Whether a column, member, cookie or parameter of this name holds a secret. */
export function namesSecret(name: string): boolean {
  return isSecret(name, 'text');
}

/** Whether an environment variable of this name holds a secret: also `MAIL_KEY` and `DB_PASS`, but no public key. */
export function isSecretVariable(name: string): boolean {
  return !/PUBLIC|_KEY_ID$/i.test(name) && (namesSecret(name) || /(?:^|_)(?:KEY|PASS)$/i.test(name));
}
