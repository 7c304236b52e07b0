/**
 * Converts descriptions from Markdown to HTML: paragraphs, headings, lists, tables, quotes, code, emphasis
 * and links. The dialect is CommonMark with GitHub's tables. HTML in a description is shown as text.
 *
 * Blocks are nested to a depth of 6. The search for the end of an inline element stops after 2,000
 * characters, so hostile text takes linear time.
 *
 * All text is escaped. Only `http`, `https`, `mailto` and relative addresses become links. An image becomes a
 * link to the image.
 */
import { NOTHING, html } from './markup.ts';
import type { Content, Markup } from './markup.ts';

const MOST_CHARACTERS = 50_000;
const MOST_DEPTH = 6;
/** Maximum number of characters between the two ends of an emphasis, code span or link. */
const MOST_SPAN = 2_000;

const BLANK = /^\s*$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])[ \t]+(?=\S)/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** Converts a description to HTML blocks. Returns NOTHING for an empty text. */
export function prose(text: string | undefined): Markup {
  if (text === undefined || text.trim() === '') return NOTHING;
  const read = text.slice(0, MOST_CHARACTERS).trim();
  return blocks(read.split(/\r\n|\r|\n/), 0);
}

/** Converts a description to one line of HTML, with emphasis, code and links only. */
export function inline(text: string): Markup {
  return spans(text.slice(0, MOST_CHARACTERS), 0);
}

// ── blocks ──

function blocks(lines: readonly string[], depth: number): Markup {
  const found: Markup[] = [];
  for (let at = 0; at < lines.length;) {
    const [block, next] = blockAt(lines, at, depth);
    found.push(block);
    at = next;
  }
  return html`${found}`;
}

/** Returns the block that starts at a line, and the index of the line after it. */
function blockAt(lines: readonly string[], at: number, depth: number): readonly [Markup, next: number] {
  const line = lines[at]!;
  if (BLANK.test(line)) return [NOTHING, at + 1];
  const fence = FENCE.exec(line)?.[1];
  if (fence !== undefined) return fenced(lines, at, fence);
  const heading = HEADING.exec(line)?.[1];
  // headings become bold paragraphs, because the page has an outline of its own
  if (heading !== undefined) return [html`<p><b>${inline(heading)}</b></p>`, at + 1];
  if (RULE.test(line)) return [html`<hr>`, at + 1];
  if (isTable(lines, at)) return table(lines, at);
  if (depth < MOST_DEPTH && QUOTE.test(line)) {
    const end = endOf(lines, at, (each) => QUOTE.test(each));
    const inner = lines.slice(at, end).map((each) => each.replace(QUOTE, ''));
    return [html`<blockquote>${blocks(inner, depth + 1)}</blockquote>`, end];
  }
  if (depth < MOST_DEPTH && ITEM.test(line)) return listAt(lines, at, depth);
  const end = Math.max(
    at + 1,
    endOf(lines, at + 1, (each, index) => !startsBlock(lines, index, each)),
  );
  return [html`<p>${flow(lines.slice(at, end))}</p>`, end];
}

/** Joins the lines of a paragraph, and converts them to HTML. */
function flow(lines: readonly string[]): Markup {
  return inline(lines.map((line) => line.trimStart()).join('\n'));
}

function endOf(
  lines: readonly string[],
  from: number,
  isInside: (line: string, index: number) => boolean,
): number {
  let end = from;
  for (let line = lines[end]; line !== undefined && isInside(line, end); line = lines[end]) end++;
  return end;
}

/** Whether a line starts a new block, and so ends the paragraph before it. */
function startsBlock(lines: readonly string[], at: number, line: string): boolean {
  return (
    BLANK.test(line) ||
    FENCE.test(line) ||
    HEADING.test(line) ||
    RULE.test(line) ||
    QUOTE.test(line) ||
    ITEM.test(line) ||
    isTable(lines, at)
  );
}

function fenced(lines: readonly string[], at: number, fence: string): readonly [Markup, number] {
  const closes = (line: string): boolean => line.trim().startsWith(fence) && /^ {0,3}(`+|~+)\s*$/.test(line);
  const end = endOf(lines, at + 1, (line) => !closes(line));
  return [html`<pre tabindex="0">${lines.slice(at + 1, end).join('\n')}</pre>`, end + 1];
}

function listAt(lines: readonly string[], at: number, depth: number): readonly [Markup, number] {
  const kindOf = (line: string): string | undefined => ITEM.exec(line)?.[2]?.slice(-1).replace(/[*+]/, '-');
  const kind = kindOf(lines[at]!)!;
  const items: Markup[] = [];
  let next = at;
  while (next < lines.length && kindOf(lines[next]!) === kind && !RULE.test(lines[next]!)) {
    const indent = ITEM.exec(lines[next]!)![0].length;
    const end = endOf(lines, next + 1, (line, index) => isWithin(lines, index, line, indent));
    const inner = [
      lines[next]!.slice(indent),
      ...lines.slice(next + 1, end).map((line) => outdented(line, indent)),
    ];
    items.push(html`<li>${itemOf(inner, depth + 1)}`);
    next = end;
  }
  const first = Number.parseInt(lines[at]!.trimStart(), 10);
  if (kind !== '.' && kind !== ')') return [html`<ul>${items}</ul>`, next];
  return [first === 1 ? html`<ol>${items}</ol>` : html`<ol start="${first}">${items}</ol>`, next];
}

/** Whether a line belongs to the list item above, for example because the line is indented. */
function isWithin(lines: readonly string[], at: number, line: string, indent: number): boolean {
  if (BLANK.test(line)) {
    const after = lines.slice(at, at + 3).find((each) => !BLANK.test(each)) ?? '';
    return indentOf(after) >= indent || ITEM.test(after);
  }
  return indentOf(line) >= Math.min(indent, 2) || !startsBlock(lines, at, line);
}

/** Returns the content of a list item. Its first paragraph gets no `<p>` element. */
function itemOf(lines: readonly string[], depth: number): Markup {
  const end = endOf(lines, 0, (line, index) => index === 0 || !startsBlock(lines, index, line));
  return html`${flow(lines.slice(0, end))}${blocks(lines.slice(end), depth)}`;
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

function outdented(line: string, indent: number): string {
  return line.slice(Math.min(indentOf(line), indent));
}

function isTable(lines: readonly string[], at: number): boolean {
  const rule = lines[at + 1];
  return (
    rule !== undefined &&
    rule.includes('|') &&
    lines[at]!.includes('|') &&
    TABLE_RULE.test(rule.slice(0, MOST_SPAN))
  );
}

function table(lines: readonly string[], at: number): readonly [Markup, number] {
  const end = endOf(lines, at + 2, (line) => line.includes('|') && !BLANK.test(line));
  const head = cellsOf(lines[at]!);
  const classes = cellsOf(lines[at + 1]!).map(classOf);
  const rows = lines.slice(at + 2, end).map((line) => {
    const cells = cellsOf(line);
    return html`<tr>${head.map((_, index) => html`<td${classes[index]}>${inline(cells[index] ?? '')}`)}`;
  });
  const names = head.map((cell, index) =>
    cell === '' ? html`<td>` : html`<th scope="col"${classes[index]}>${inline(cell)}`,
  );
  return [html`<div class="g" tabindex="0"><table><thead><tr>${names}<tbody>${rows}</table></div>`, end];
}

/** Returns the alignment of a table column as an HTML attribute. */
function classOf(rule: string): Markup | undefined {
  if (!rule.endsWith(':')) return undefined;
  return rule.startsWith(':') ? html` class="ac"` : html` class="ar"`;
}

/** Splits a table row into cells. A `|` after a backslash belongs to a cell. */
function cellsOf(line: string): string[] {
  const inner = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  return inner.split(/(?<!\\)\|/, 50).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

// ── inline text ──

const SPECIAL = /[\\`*_~[!<\n]|https?:\/\//g;
const ESCAPED = /^\\[!-/:-@[-`{-~]/;
const ADDRESS = /https?:\/\/[^\s<>"`]*[^\s<>"`.,:;!?)\]'*_]/y;
const EMPHASES = [
  ['**', 'b'],
  ['__', 'b'],
  ['~~', 's'],
  ['*', 'i'],
  ['_', 'i'],
] as const;

function spans(text: string, depth: number): Markup {
  const found: Content[] = [];
  let plain = 0;
  for (let at = next(text, 0); at < text.length; at = next(text, Math.max(at + 1, plain))) {
    const span = spanAt(text, at, depth);
    if (span === undefined) continue;
    found.push(text.slice(plain, at), span[0]);
    plain = span[1];
  }
  return html`${found}${text.slice(plain)}`;
}

/** Returns the position of the next character that may start an inline element. */
function next(text: string, from: number): number {
  SPECIAL.lastIndex = from;
  return SPECIAL.exec(text)?.index ?? text.length;
}

/**
 * Returns the inline element that starts at a character, and the position after it. Returns undefined if the
 * character is plain text.
 */
function spanAt(text: string, at: number, depth: number): readonly [Content, end: number] | undefined {
  switch (text[at]) {
    case '\\':
      if (text[at + 1] === '\n') return [html`<br>`, at + 2];
      return ESCAPED.test(text.slice(at, at + 2)) ? [text.charAt(at + 1), at + 2] : undefined;
    case '\n':
      return text.slice(at - 2, at) === '  ' ? [html`<br>`, at + 1] : undefined;
    case '`':
      return codeAt(text, at);
    case '!':
      return text[at + 1] === '[' ? linkAt(text, at + 1, depth) : undefined;
    case '[':
      return linkAt(text, at, depth);
    case '<':
      return autolinkAt(text, at);
    case 'h':
      return addressAt(text, at);
    default:
      return depth < MOST_DEPTH ? emphasisAt(text, at, depth) : undefined;
  }
}

function codeAt(text: string, at: number): readonly [Content, number] | undefined {
  const ticks = /^`+/.exec(text.slice(at, at + MOST_SPAN))![0];
  const inner = text.slice(at + ticks.length, at + ticks.length + MOST_SPAN);
  for (let end = inner.indexOf(ticks); end !== -1; end = inner.indexOf(ticks, end)) {
    const run = /^`+/.exec(inner.slice(end))![0].length;
    if (run === ticks.length) {
      const code = inner.slice(0, end);
      return [html`<code>${/^ .*\S.* $/s.test(code) ? code.slice(1, -1) : code}</code>`, at + end + 2 * run];
    }
    end += run;
  }
  return [ticks, at + ticks.length];
}

function linkAt(text: string, at: number, depth: number): readonly [Content, number] | undefined {
  const window = text.slice(at, at + MOST_SPAN);
  const close = closingBracket(window);
  if (close === undefined || window[close + 1] !== '(') return undefined;
  const target =
    /^\(\s*(?:<([^<>\n]*)>|([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)?))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(
      window.slice(close + 1),
    );
  const url = target === null ? undefined : safeAddress(target[1] ?? target[2] ?? '');
  if (target === null || url === undefined || depth >= MOST_DEPTH) return undefined;
  const label = window.slice(1, close);
  return [anchor(url, label === '' ? url : spans(label, MOST_DEPTH)), at + close + 1 + target[0].length];
}

function closingBracket(text: string): number | undefined {
  let open = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '[') open++;
    else if (text[at] === ']' && --open === 0) return at;
  }
  return undefined;
}

function autolinkAt(text: string, at: number): readonly [Content, number] | undefined {
  const inner = /^<((?:https?:|mailto:)?[^\s<>]+)>/.exec(text.slice(at, at + MOST_SPAN))?.[1];
  const given = inner !== undefined && /^[^\s@:]+@[^\s@:]+$/.test(inner) ? `mailto:${inner}` : inner;
  if (given === undefined || !/^(?:https?|mailto):/i.test(given)) return undefined;
  const url = safeAddress(given);
  return url === undefined ? undefined : [anchor(url, inner), at + inner!.length + 2];
}

function addressAt(text: string, at: number): readonly [Content, number] | undefined {
  ADDRESS.lastIndex = 0;
  const url = ADDRESS.exec(text.slice(at, at + MOST_SPAN))?.[0];
  return url === undefined || /\w/.test(text[at - 1] ?? '') ? undefined : [anchor(url, url), at + url.length];
}

function emphasisAt(text: string, at: number, depth: number): readonly [Content, number] | undefined {
  const [sign, tag] = EMPHASES.find(([each]) => text.startsWith(each, at)) ?? [];
  if (sign === undefined || /^\s?$/.test(text[at + sign.length] ?? '')) return undefined;
  if (sign.startsWith('_') && /\w/.test(text[at - 1] ?? '')) return undefined;
  const window = text.slice(at + sign.length, at + MOST_SPAN);
  for (let end = window.indexOf(sign, 1); end !== -1; end = window.indexOf(sign, end + 1)) {
    const after: string = window[end + sign.length] ?? '';
    const isInner =
      /[\s\\]/.test(window.charAt(end - 1)) ||
      (sign.length === 1 && (after === sign || window[end - 1] === sign));
    if (isInner || (sign.startsWith('_') && /\w/.test(after))) continue;
    const inner = spans(window.slice(0, end), depth + 1);
    const marked =
      tag === 'b' ? html`<b>${inner}</b>` : tag === 'i' ? html`<i>${inner}</i>` : html`<del>${inner}</del>`;
    return [marked, at + end + 2 * sign.length];
  }
  return undefined;
}

function anchor(url: string, label: Content): Markup {
  return html`<a href="${url}" rel="noopener noreferrer">${label}</a>`;
}

/**
 * Returns the address of a link. Returns undefined for schemes such as `javascript:`, and for addresses with
 * characters that browsers remove from URLs.
 */
function safeAddress(given: string): string | undefined {
  const url = given.replace(/\\([!-/:-@[-`{-~])/g, '$1');
  if (url === '' || /[\s\\\p{Cc}]/u.test(url)) return undefined;
  return /^(?:https?|mailto):/i.test(url) || !/^[^/?#]*:/.test(url) ? url : undefined;
}
