/**
 * HTML escaping of text.
 */

/**
 * Escapes text for HTML content and quoted attributes. Not for scripts, styles, names of tags or attributes.
 * Not for URLs either, which may begin with `javascript:`.
 *
 * Example:
 *   new HTMLResponse(`<p title="${escapeHtml(title)}">${escapeHtml(name)}</p>`)
 */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
