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

function textOf(content: Content): string {
  if (typeof content === 'string') return escape(content);
  if (content instanceof Markup) return content.text;
  if (content === undefined || content === false) return '';
  return typeof content === 'number' ? String(content) : content.map(textOf).join('');
}
