/**
 * HTML templates: every value in a template is escaped, except results of other templates. Values are text,
 * numbers, lists and markup. The values undefined and false become empty text.
 *
 * Example:
 *   html`<p title="${title}">${text}</p>`
 *
 * Attribute values must be in double quotes. For unquoted attributes, the escaping is not sufficient.
 */

export type Content = string | number | Markup | false | undefined | readonly Content[];

/** HTML in which all values are escaped already. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export const NOTHING: Markup = new Markup('');

/** Returns HTML with its values escaped. */
export function html(parts: TemplateStringsArray, ...values: readonly Content[]): Markup {
  let text = parts[0]!;
  for (let index = 0; index < values.length; index++) text += textOf(values[index]) + parts[index + 1]!;
  return new Markup(text);
}

/** Returns the parts, or what `write` makes of them, with `between` in between. */
export function joined(parts: readonly Content[], between: string): Markup;
export function joined<T>(parts: readonly T[], between: string, write: (part: T) => Content): Markup;
export function joined(
  parts: readonly Content[],
  between: string,
  write: (part: never) => Content = (part) => part,
): Markup {
  return new Markup(parts.map((part) => textOf(write(part as never))).join(textOf(between)));
}

/** Escapes a text for element content and quoted attributes. */
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
