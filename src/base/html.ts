/**
 * Text in HTML.
 */

/**
 * Returns text as it stands in HTML: in content, and in attributes between quotes. Not for scripts, styles, names of tags or
 * attributes, nor for addresses, which may begin with `javascript:`.
 *
 *   new HTMLResponse(`<p title="${escapeHtml(title)}">${escapeHtml(name)}</p>`)
 */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
