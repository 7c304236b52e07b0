/**
 * `Content-Disposition`: whether content is shown or saved, and under which name (RFC 6266, RFC 8187).
 */

/** Shown by the browser where it can, or offered for saving. */
export type DispositionType = 'attachment' | 'inline';

/** Names of file systems end there, in bytes. */
const MAX_NAME_LENGTH = 255;

/**
 * The field's value: `attachment; filename="report.pdf"`. Folders before the name are left out, whichever slash they have.
 *
 * A name that is more than plain ASCII has both forms (RFC 6266 §4.3): `filename` for old clients with `_` for what they
 * cannot read, among it quotes, backslashes and `%`, which some decode; `filename*` for all others. Cut to 255 characters.
 */
export function contentDisposition(filename: string, type: DispositionType = 'attachment'): string {
  const name = /[^/\\]*$/.exec(filename)![0].slice(0, MAX_NAME_LENGTH).toWellFormed();
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/gu, '_');
  if (plain === name) return `${type}; filename="${plain}"`;
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return `${type}; filename="${plain}"; filename*=UTF-8''${encoded}`;
}
