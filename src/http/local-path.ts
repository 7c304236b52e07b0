/**
 * Local paths: what a redirect may take from a request, for it cannot lead to another site.
 */

/** Only the origin matters, so any will do. */
const HERE = 'http://local.invalid';

/**
 * `value` if it is a path of this site, `/path?query#fragment`; else undefined. For addresses that come from outside:
 *
 *   new RedirectResponse(localPath(req.query.get('next')) ?? '/')
 *
 * Refused is whatever a browser, or a proxy that decodes once too often, could take for another host or for a program:
 * `//evil.example`, `/\evil.example`, `https:evil.example`, `javascript:...`, tabs and line ends, escaped ones in the path too.
 */
export function localPath(value: unknown): string | undefined {
  if (typeof value !== 'string' || !value.isWellFormed()) return undefined;
  if (!/^\/(?![/\\])[^\s\\\p{Cc}]*$/u.test(value)) return undefined;
  const path = /^[^?#]*/.exec(value)![0];
  if (/%(?:0|1|5c|7f)/i.test(path) || /^\/%2f/i.test(path)) return undefined;
  const { origin, pathname } = new URL(value, HERE);
  return origin === HERE && !pathname.startsWith('//') ? value : undefined;
}
