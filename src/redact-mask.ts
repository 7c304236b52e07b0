/**
 * Redaction by form: a text without the secrets that it is told by. redact-values.ts looks whether there may be any, which there are
 * in few texts, so that these expressions are made when one has come.
 */

/** A text without the secrets that their form tells. */
export function mask(text: string): string {
  return text.replace(COOKIES, '$1 [redacted]').replace(REFRESH_TOKEN, '[refresh token]').replace(SIGNED_VALUE, '[signed value]').replace(JWT, '$1[jwt]').replace(CREDENTIALS, '$1 [redacted]').replace(URL_PASSWORD, '$1:[redacted]@').replace(URL_PARAMETER, '$1[redacted]');
}

/** Begins where a run of its characters begins, and only before a dot: text made of `-eyJ` costs no more than other text. */
const JWT = /(?<![\w-])(?=[\w-]+\.)([\w-]*?)\beyJ[\w-]{8,}(?:\.[\w-]*){1,4}/g;
const CREDENTIALS = /\b(Bearer|Basic)[ \t]+[\w.~+/=-]{4,}/gi;
/** The cookies of a request, and that of an answer with its attributes. */
const COOKIES = /\b((?:set-)?cookie:)[^\r\n"]+/gi;
const REFRESH_TOKEN = /\bsvcrt_[\w.-]{4,}/g;
/** What http/signed-values.ts makes: sessions and the like. */
const SIGNED_VALUE = /\b[es]1\.[\w-]{1,64}\.\d{1,12}\.\d{1,12}\.[\w.-]+/g;
/** The scheme is bounded, so that text made of dots and dashes costs no more than other text. */
const URL_PASSWORD = /\b([a-z][a-z0-9+.-]{0,20}:\/\/[^\s/?#:@]*):[^\s/?#]*@/gi;
const URL_PARAMETER = /([?&#](?:access_token|refresh_token|id_token|token|code|state|nonce|client_secret|code_verifier|password|secret|api_?key|signature)=)[^&#\s"]+/gi;
