/**
 * Source text for tests that search it with regular expressions.
 */

/**
 * Returns the text with each call, list, condition and chain on one line, however a formatter has broken it.
 */
export function unwrapped(source: string): string {
  return source
    .replace(/([([])\n\s+/g, '$1')
    .replace(/,?\n\s+(?=[)\]])/g, '')
    .replace(/\n\s+(?=[?:] )/g, ' ')
    .replace(/\n\s+(?=\??\.\w)/g, '')
    .replace(/(?<=['\w]),\n\s+(?=')/g, ', ');
}
