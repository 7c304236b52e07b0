/**
 * HTML escaping of text.
 */

/**
 * Escapes text for HTML content and quoted attribute values. It does not make text safe in scripts, styles,
 * names of tags or attributes, or URLs, which may begin with `javascript:`.
 *
 * Example:
 *   new HTMLResponse(`<p title="${escapeHtml(title)}">${escapeHtml(name)}</p>`)
 */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
