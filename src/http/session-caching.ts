/**
 * What is meant for one visitor stays out of the caches that many share (RFC 9111 §3, §5.2.2).
 */
import type { HeaderList } from './headers.ts';

/**
 * Keeps a response out of shared caches: `fallback` where it says nothing of caching; `public` and `s-maxage` give way to
 * `private`; what says `private` or `no-store` stays as it is.
 */
export function keepPrivate(headers: HeaderList, fallback: 'private' | 'no-store'): void {
  const field = headers.get('cache-control');
  if (field === undefined) return headers.set('Cache-Control', fallback);
  const directives = field.split(',').map((directive) => directive.trim()).filter((directive) => directive !== '');
  if (directives.some((directive) => /^(?:private|no-store)$/i.test(directive)) && !directives.some(isShared)) return;
  headers.set('Cache-Control', ['private', ...directives.filter((directive) => !isShared(directive) && !/^private\b/i.test(directive))].join(', '));
}

/** `private="Set-Cookie"` keeps one field private, and the rest shared: it counts as neither. */
function isShared(directive: string): boolean {
  return /^(?:public|s-maxage\b.*)$/i.test(directive);
}
