/**
 * Markdown in blocks: prose, headings, table rows, fenced code and HTML comments, also inside lists and quotes.
 *
 *   text ─ blocksOf ─→ { kind, text, offset }
 *
 * A list item is a block of its own. A paragraph of several lines is one block.
 */

/** A block of a manual. Its text is a slice of the manual that starts at `offset`. */
export interface Block {
  readonly kind: 'prose' | 'heading' | 'row' | 'code' | 'html comment';
  readonly text: string;
  readonly offset: number;
  /** First word behind the opening fence, such as `ts`; '' for other kinds. */
  readonly language: string;
}

interface Line {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Marks of lists and quotes, with white space, before the text of a line. */
const CONTAINERS = /^(?:[ \t>]|[-*+][ \t]|\d+[.)][ \t])*/;
const ITEM = /^[ \t>]*(?:[-*+]|\d+[.)])[ \t]/;
const FENCE = /^(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$/;

/** Returns the blocks of a manual in their order. Blank lines and fences are left out. */
export function blocksOf(text: string): readonly Block[] {
  const lines = [...text.matchAll(/[^\n]*\n|[^\n]+$/g)].map(({ index, 0: line }): Line => {
    return { text: line, start: index, end: index + line.length };
  });
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length;) {
    const { kind, first, next, language } = readBlock(lines, at);
    if (kind !== 'blank' && first < next)
      blocks.push({
        kind,
        text: textOf(text, lines, kind, first, next),
        offset: lines[first]!.start,
        language,
      });
    at = kind === 'code' ? next + 1 : next;
  }
  return blocks;
}

function textOf(text: string, lines: readonly Line[], kind: string, first: number, next: number): string {
  const slice = text.slice(lines[first]!.start, lines[next - 1]!.end);
  return kind === 'code' ? slice : slice.trimEnd();
}

interface Extent {
  readonly kind: Block['kind'] | 'blank';
  /** Index of its first line; for code, of the line behind the opening fence. */
  readonly first: number;
  /** Index behind its last line; for code, of the closing fence. */
  readonly next: number;
  readonly language: string;
}

function readBlock(lines: readonly Line[], at: number): Extent {
  const content = contentOf(lines[at]!.text);
  const kind = kindOf(content);
  if (kind === 'code') {
    const [, fence, language] = FENCE.exec(content)!;
    const next = endOf(lines, at + 1, (line) => closes(line, fence!));
    return { kind, first: at + 1, next, language: language! };
  }
  if (kind === 'html comment') {
    const last = endOf(lines, at, (line) => line.includes('-->'));
    return { kind, first: at, next: Math.min(last + 1, lines.length), language: '' };
  }
  const isEnd = (line: string): boolean => ITEM.test(line) || kindOf(contentOf(line)) !== 'prose';
  return { kind, first: at, next: kind === 'prose' ? endOf(lines, at + 1, isEnd) : at + 1, language: '' };
}

/** Returns a line without the marks of lists and quotes before it, and without white space at its end. */
function contentOf(line: string): string {
  return line.replace(CONTAINERS, '').trimEnd();
}

function kindOf(content: string): Extent['kind'] {
  if (content === '') return 'blank';
  if (content.startsWith('<!--')) return 'html comment';
  if (content.startsWith('|')) return 'row';
  if (/^#{1,6}[ \t]/.test(content)) return 'heading';
  return FENCE.test(content) ? 'code' : 'prose';
}

/** Returns whether a line closes a fence: the same sign, at least as often, and nothing else. */
function closes(line: string, fence: string): boolean {
  const mark = line.replace(/^[ \t>]*/, '').trimEnd();
  return mark.length >= fence.length && mark === fence[0]!.repeat(mark.length);
}

function endOf(lines: readonly Line[], from: number, isEnd: (line: string) => boolean): number {
  const found = lines.slice(from).findIndex(({ text }) => isEnd(text));
  return found === -1 ? lines.length : from + found;
}

/** Returns the code of a block without the indentation of the list around it. */
export function dedented(code: string): string {
  const indents = [...code.matchAll(/^( *)\S/gm)].map(([, indent]) => indent!.length);
  return code.replaceAll(new RegExp(`^ {${Math.min(...indents)}}`, 'gm'), '');
}

/** Returns the anchor of a heading, as GitHub makes it. */
export function anchorOf(heading: string): string {
  return heading
    .replace(/^#+ /, '')
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
