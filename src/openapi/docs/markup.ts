/**
 * HTML out of templates: whatever is put into one is escaped, unless a template has made it.
 *
 *   html`<p title="${title}">${text}</p>`      text, numbers, lists, markup; nothing for undefined and false
 *
 * Attributes stand between double quotes, always: then five characters are all that can end a text or an attribute.
 */

/** What may stand in a template. */
export type Content = string | number | Markup | false | undefined | readonly Content[];

/** HTML that is safe as it is. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Nothing. */
export const NOTHING: Markup = new Markup('');

/** HTML with its values escaped. */
export function html(parts: TemplateStringsArray, ...values: readonly Content[]): Markup {
  let text = parts[0]!;
  for (let index = 0; index < values.length; index++) text += textOf(values[index]) + parts[index + 1]!;
  return new Markup(text);
}

/** Markup of several parts, something between them. */
export function joined(parts: readonly Content[], between: Content): Markup {
  return new Markup(parts.map(textOf).join(textOf(between)));
}

/** Text as it stands in content, and in attributes between quotes. */
export function escape(text: string): string {
  return SPECIAL.test(text) ? text.replace(EACH_SPECIAL, (character) => ESCAPES[character]!) : text;
}

/**
 * Prose somebody has written: empty lines part paragraphs, lines that begin with `-` or `*` are a list, and what stands
 * between backticks is code. All else is text: neither markup nor links.
 */
export function prose(text: string | undefined): Markup {
  if (text === undefined || text.trim() === '') return NOTHING;
  return joined(
    text
      .trim()
      .split(/\n[ \t]*\n/, MOST_PARAGRAPHS)
      .map(paragraph),
    '',
  );
}

const SPECIAL = /[&<>"'\0]/;
const EACH_SPECIAL = /[&<>"'\0]/g;
const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
  '\0': '\ufffd',
};
/** A book is no description. */
const MOST_PARAGRAPHS = 500;
const BULLET = /^[ \t]*[-*][ \t]+/;

function textOf(content: Content): string {
  if (typeof content === 'string') return escape(content);
  if (content instanceof Markup) return content.text;
  if (content === undefined || content === false) return '';
  return typeof content === 'number' ? String(content) : content.map(textOf).join('');
}

function paragraph(text: string): Markup {
  const lines = text.split('\n');
  if (lines.length > 0 && lines.every((line) => BULLET.test(line)))
    return html`<ul>${lines.map((line) => html`<li>${inline(line.replace(BULLET, ''))}`)}</ul>`;
  return html`<p>${inline(text)}</p>`;
}

/** One line of it: every second part stood between backticks; an odd one is a backtick. */
export function inline(text: string): Markup {
  const parts = text.split('`');
  if (parts.length % 2 === 0) parts.push(`${parts.splice(-2, 1)[0]!}\`${parts.pop()!}`);
  return joined(
    parts.map((part, index) => (index % 2 === 0 ? part : html`<code>${part}</code>`)),
    '',
  );
}
