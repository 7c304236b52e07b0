/**
 * Source text for tests that search it with regular expressions.
 */

/** Returns the text with calls, lists, conditions and chains of several lines on one line each, as a formatter may break them. */
export function unwrapped(source: string): string {
  return source
    .replace(/([([])\n\s+/g, '$1')
    .replace(/,?\n\s+(?=[)\]])/g, '')
    .replace(/\n\s+(?=[?:] )/g, ' ')
    .replace(/\n\s+(?=\??\.\w)/g, '')
    .replace(/(?<=['\w]),\n\s+(?=')/g, ', ');
}
