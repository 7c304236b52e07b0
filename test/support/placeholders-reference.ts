/**
 * Reference implementation of placeholders, character by character. The lexer in src must agree with it.
 */

/** Returns the text with `$n` for each `?`, and their number. Does not look for mistakes. */
export function plainTranslation(
  source: string,
  isNumbered: boolean = false,
): { readonly text: string; readonly placeholders: number } {
  const isWordStart = (character: string): boolean => /[A-Za-z_]/.test(character) || character >= '\u0080';
  const isWord = (character: string): boolean => isWordStart(character) || /[0-9$]/.test(character);
  let text = '';
  let count = 0;
  let at = 0;
  let numbers = 0;
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
    } else if (character === '$' && /[0-9]/.test(source[at + 1] ?? '')) {
      numbers = Math.max(numbers, Number(/^\$([0-9]+)/.exec(source.slice(at))![1]));
      copy(at + /^\$[0-9]+/.exec(source.slice(at))![0].length);
    } else if (character === '$') {
      const tag = /^\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/.exec(source.slice(at))?.[0];
      const end = tag === undefined ? at + 1 : source.indexOf(tag, at + tag.length);
      copy(end === -1 ? source.length : tag === undefined ? end : end + tag.length);
    } else if (character === '?' && source[at + 1] === '?') {
      text += '?';
      at += 2;
    } else if (character === '?') {
      text += isNumbered ? '?' : `$${++count}`;
      at++;
    } else copy(at + 1);
  }
  return count > 0 && numbers > 0 ? plainTranslation(source, true) : { text, placeholders: count };
}

/** Returns the number of plain `?` in a text of MySQL or SQLite. Does not look for mistakes. */
export function plainCount(source: string, dialect: 'mysql' | 'sqlite'): number {
  const isMySql = dialect === 'mysql';
  let count = 0;
  let isExecutable = false;
  for (let at = 0; at < source.length;) {
    const character = source[at]!;
    const two = source.slice(at, at + 2);
    const isDashes =
      two === '--' && (!isMySql || at + 2 === source.length || /[\s\0-\x1f]/.test(source[at + 2]!));
    if (isDashes || (isMySql && character === '#')) {
      while (at < source.length && source[at] !== '\n') at++;
    } else if (isMySql && source.startsWith('/*!', at)) {
      isExecutable = true;
      at += 3;
    } else if (isExecutable && two === '*/') {
      isExecutable = false;
      at += 2;
    } else if (two === '/*') {
      const end = source.indexOf('*/', at + 2);
      at = end === -1 ? source.length : end + 2;
    } else if (`'"\``.includes(character) || (!isMySql && character === '[')) {
      const close = character === '[' ? ']' : character;
      for (at++; at < source.length; at++) {
        if (isMySql && character !== '`' && source[at] === '\\') at++;
        else if (source[at] === close && source[at + 1] === close && close !== ']') at++;
        else if (source[at] === close) break;
      }
      at++;
    } else if (character === '?' && (isMySql || !/\d/.test(source[at + 1] ?? ''))) {
      count++;
      at++;
    } else at++;
  }
  return count;
}
