/**
 * The source text of functions as checks read it: what V8 gives for `String(fn)`, without comments and the inside of strings.
 *
 * Reading text finds what a call would only show when it is too late. It is a hint, never a proof: whatever rests on it is a
 * warning at most.
 */

/** Where a text literal, comment or regular expression may begin, and where an expression cannot end. */
const BEFORE_REGEXP =
  /(?:^|[=([{,;:!&|?+\-*%<>~^]|\b(?:return|typeof|case|in|of|void|delete|do|else|yield|await))\s*$/;
const codes = new WeakMap<(...args: never[]) => unknown, string>();

/** The code of a function: comments are gone, strings are empty, what stands in `${...}` stays. Of a native function: nothing. */
export function codeOf(fn: (...args: never[]) => unknown): string {
  let code = codes.get(fn);
  if (code === undefined)
    codes.set(fn, (code = isNative(fn) ? '' : withoutText(Function.prototype.toString.call(fn))));
  return code;
}

function isNative(fn: (...args: never[]) => unknown): boolean {
  return /\{\s*\[native code\]\s*\}\s*$/.test(Function.prototype.toString.call(fn));
}

/** JavaScript without comments and with empty literals. */
export function withoutText(source: string): string {
  let code = '';
  for (let index = 0; index < source.length;) {
    const char = source[index]!;
    const next = source[index + 1];
    if (char === '/' && next === '/') index = endOf(source, '\n', index + 2);
    else if (char === '/' && next === '*') index = endOf(source, '*/', index + 2);
    else if (char === '"' || char === "'") {
      code += char + char;
      index = afterQuoted(source, index);
    } else if (char === '`') {
      const template = readTemplate(source, index);
      code += template.code;
      index = template.end;
    } else if (char === '/' && BEFORE_REGEXP.test(code.slice(-40))) {
      code += '/ /';
      index = afterRegExp(source, index);
    } else {
      code += char;
      index++;
    }
  }
  return code;
}

function endOf(source: string, mark: string, from: number): number {
  const found = source.indexOf(mark, from);
  return found === -1 ? source.length : found + (mark === '\n' ? 0 : mark.length);
}

function afterQuoted(source: string, from: number): number {
  let index = from + 1;
  while (index < source.length && source[index] !== source[from]) index += source[index] === '\\' ? 2 : 1;
  return index + 1;
}

function afterRegExp(source: string, from: number): number {
  let isInClass = false;
  let index = from + 1;
  for (; index < source.length && source[index] !== '\n'; index++) {
    const char = source[index];
    if (char === '\\') index++;
    else if (char === '[') isInClass = true;
    else if (char === ']') isInClass = false;
    else if (char === '/' && !isInClass) break;
  }
  return index + 1;
}

/** A template becomes its expressions, in parentheses. */
function readTemplate(source: string, from: number): { readonly code: string; readonly end: number } {
  let code = '``';
  let index = from + 1;
  while (index < source.length && source[index] !== '`') {
    if (source[index] === '\\') index += 2;
    else if (source[index] === '$' && source[index + 1] === '{') {
      const end = afterBraces(source, index + 1);
      code += ` (${withoutText(source.slice(index + 2, end - 1))})`;
      index = end;
    } else index++;
  }
  return { code, end: index + 1 };
}

/** The position after the brace that closes the one at `from`; strings and templates inside are passed over. */
function afterBraces(source: string, from: number): number {
  let depth = 0;
  for (let index = from; index < source.length;) {
    const char = source[index]!;
    if (char === '"' || char === "'") index = afterQuoted(source, index);
    else if (char === '`') index = readTemplate(source, index).end;
    else {
      if (char === '{') depth++;
      if (char === '}' && --depth === 0) return index + 1;
      index++;
    }
  }
  return source.length;
}
