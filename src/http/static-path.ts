/**
 * The path of a request as the path of a file below a folder, or the reason why there can be none. No file is touched here.
 *
 * Refused is whatever leads somewhere else than it says: `.` and `..`, empty segments, backslashes and control characters,
 * escaped slashes; on Windows also streams (`a.txt::$DATA`), devices (`nul`), short names (`GIT~1`) and what it strips.
 */

/** What becomes of names that begin with a dot: 404, 403, or served like any other. */
export type DotfilePolicy = 'ignore' | 'deny' | 'allow';

/** A path that may be looked up; or `none` (404), `denied` (403). */
export type StaticPath = { readonly kind: 'path'; readonly segments: readonly string[] } | { readonly kind: 'none' | 'denied' };

const NONE: StaticPath = Object.freeze({ kind: 'none' });
const DENIED: StaticPath = Object.freeze({ kind: 'denied' });
/** Longer than any file system takes. */
const MAX_LENGTH = 4_096;

/** Whether a path has an escape that no name of a file can stand for: of a slash, a backslash, or NUL. It is still encoded. */
export function hidesSeparator(encoded: string): boolean {
  return encoded.includes('%') && /%(?:2f|5c|00)/i.test(encoded);
}

/** Reads what follows the mount's own path, decoded once: `css/site.css`; with a slash at the end, or nothing, it is a folder. */
export function readStaticPath(rest: string, dotfiles: DotfilePolicy, isWindows: boolean = process.platform === 'win32'): StaticPath {
  if (rest.length > MAX_LENGTH || /[\\\p{Cc}]/u.test(rest) || !rest.isWellFormed()) return NONE;
  const segments = rest.split('/');
  if (segments.at(-1) === '') segments.pop();
  if (!segments.every((segment) => isName(segment, isWindows))) return NONE;
  return dotfiles === 'allow' || !hasDotfile(segments) ? { kind: 'path', segments } : dotfiles === 'deny' ? DENIED : NONE;
}

/** Whether a name begins with a dot. `.well-known` at the top is meant for everybody (RFC 8615). */
export function hasDotfile(segments: readonly string[]): boolean {
  return segments.some((segment, index) => segment.startsWith('.') && !(index === 0 && segment === '.well-known'));
}

/** `aux.txt` is the device, too. */
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?:[. ]|$)/i;

function isName(segment: string, isWindows: boolean): boolean {
  if (segment === '' || segment === '.' || segment === '..') return false;
  return !isWindows || !(/[<>:"|?*]|[. ]$|~\d/.test(segment) || DEVICE.test(segment));
}
