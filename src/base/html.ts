/**
 * Text in HTML.
 */

/**
 * Escapes text for HTML: for content, and for quoted attributes. Not for scripts, styles, names of tags or attributes, nor for URLs,
 * which may begin with `javascript:`.
 *
 *   new HTMLResponse(`<p title="${escapeHtml(title)}">${escapeHtml(name)}</p>`)
 */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
