/**
 * The reading of placeholders once more, character by character: what the lexer in src must agree with.
 */

/** The text with `$n` for each `?`, and how many there were. Nothing is said about mistakes. */
export function plainTranslation(source: string): { readonly text: string; readonly placeholders: number } {
  const isWordStart = (character: string): boolean => /[A-Za-z_]/.test(character) || character >= '\u0080';
  const isWord = (character: string): boolean => isWordStart(character) || /[0-9$]/.test(character);
  let text = '';
  let count = 0;
  let at = 0;
  const copy = (until: number): void => {
    text += source.slice(at, until);
    at = until;
  };
  const quoted = (quote: string, hasEscapes: boolean): void => {
    let end = at + 1;
    for (; end < source.length; end++) {
      if (hasEscapes && source[end] === '\\') end++;
      else if (source[end] === quote && source[end + 1] === quote) end++;
      else if (source[end] === quote) break;
    }
    copy(Math.min(end + 1, source.length));
  };
  while (at < source.length) {
    const character = source[at]!;
    if (character === '-' && source[at + 1] === '-') {
      let end = at;
      while (end < source.length && source[end] !== '\n' && source[end] !== '\r') end++;
      copy(end);
    } else if (character === '/' && source[at + 1] === '*') {
      let depth = 0;
      let end = at;
      do {
        const two = source.slice(end, end + 2);
        if (two === '/*') [depth, end] = [depth + 1, end + 2];
        else if (two === '*/') [depth, end] = [depth - 1, end + 2];
        else end++;
      } while (depth > 0 && end < source.length);
      copy(Math.min(end, source.length));
    } else if (character === "'" || character === '"') quoted(character, false);
    else if (isWordStart(character)) {
      let end = at;
      while (end < source.length && isWord(source[end]!)) end++;
      const word = source.slice(at, end);
      copy(end);
      if (word.toLowerCase() === 'e' && source[at] === "'") quoted("'", true);
    } else if (/[0-9]/.test(character)) {
      let end = at;
      while (end < source.length && /[\w.]/.test(source[end]!)) end++;
      copy(end);
    } else if (character === '$' && /[0-9]/.test(source[at + 1] ?? ''))
      copy(at + /^\$[0-9]+/.exec(source.slice(at))![0].length);
    else if (character === '$') {
      const tag = /^\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/.exec(source.slice(at))?.[0];
      const end = tag === undefined ? at + 1 : source.indexOf(tag, at + tag.length);
      copy(end === -1 ? source.length : tag === undefined ? end : end + tag.length);
    } else if (character === '?' && source[at + 1] === '?') {
      text += '?';
      at += 2;
    } else if (character === '?') {
      text += `$${++count}`;
      at++;
    } else copy(at + 1);
  }
  return { text, placeholders: count };
}
