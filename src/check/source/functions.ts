/**
 * Functions parsed from the text of `String(fn)`: parameters, body and returned values. Nested callbacks are cut to `=>`.
 *
 *   text -> code without comments and the inside of strings -> parameters, body -> returns
 *
 * Reading text finds mistakes before a request shows them. It is a hint and not a proof: a finding that rests on it is a
 * warning at most.
 */
import { tokensOf } from './tokens.ts';

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

/** JavaScript without comments and with empty literals; a template becomes its expressions, in parentheses. */
export function withoutText(source: string): string {
  let code = '';
  let at = 0;
  let open = 0;
  const tokens = tokensOf(source);
  tokens.forEach((token, index) => {
    const { kind, text, start, end } = token;
    code += source.slice(at, start);
    at = end;
    if (text === '${') open++;
    if (kind === 'string') code += text[0]! + text[0]!;
    else if (kind === 'pattern') code += '/ /';
    else if (kind === 'punctuator') {
      const isBefore = tokens[index + 1]?.kind === 'template';
      const isAfter = tokens[index - 1]?.kind === 'template';
      if (text === '}' && isBefore) open--;
      code += isBefore || isAfter ? templateMark(text, isBefore) : text;
    } else if (kind !== 'comment' && kind !== 'template') code += text;
  });
  return code + ')'.repeat(open);
}

/** Returns the code for the marks of a template: `` ` `` at its start, `${`, `}`, and `` ` `` at its end. */
function templateMark(mark: string, isBefore: boolean): string {
  if (mark === '`') return isBefore ? '``' : '';
  return mark === '}' ? ')' : ' (';
}

type AnyFunction = (...args: never[]) => unknown;

interface FunctionSource {
  /** Between the parentheses. */
  readonly parameters: string;
  /** The statements of a block, or an expression. */
  readonly body: string;
  readonly isExpression: boolean;
}

/** Stands for the body of a callback that gives an object. */
const GIVES_OBJECT = '\u0002';
const OPENING = '([{';
const CLOSING = ')]}';

/** The parts of a function's text; undefined when there is no code to read, as of native functions. */
function partsOf(fn: AnyFunction): FunctionSource | undefined {
  return split(codeOf(fn));
}

function split(code: string): FunctionSource | undefined {
  const single = /^(?:async\s+)?([\w$]+)\s*(?==>)/.exec(code);
  const open = code.indexOf('(');
  if ((single === null && open === -1) || code.startsWith('class')) return undefined;
  const end = single === null ? afterPair(code, open) : single[0].length;
  const parameters = single === null ? code.slice(open + 1, end - 1).trim() : single[1]!;
  const rest = code.slice(end).trimStart();
  const body = rest.startsWith('=>') ? rest.slice(2).trim() : rest;
  const isExpression = !body.startsWith('{');
  return { parameters, isExpression, body: isExpression ? body : body.slice(1, afterPair(body, 0) - 1) };
}

/** The destructuring pattern of the first parameter without its braces; '' without a parameter; undefined when it cannot be read. */
export function takenBy(handler: AnyFunction): string | undefined {
  const parameters = partsOf(handler)?.parameters;
  if (parameters === undefined || parameters === '') return parameters;
  return parameters.startsWith('{') ? parameters.slice(1, afterPair(parameters, 0) - 1) : undefined;
}

/** Whether it calls one of the methods of its request: `req.json(`, `ctx.req.json(`, and by the name that it gives to `req`. */
export function callsOfRequest(handler: AnyFunction, call: string): boolean {
  const alias = /(?<![\w$])req\s*:\s*([\w$]+)/
    .exec(partsOf(handler)?.parameters ?? '')?.[1]
    ?.replaceAll('$', '\\$');
  const names = ['req', 'request', ...(alias === undefined ? [] : [alias])];
  return new RegExp(`(?<![\\w$])(?:${names.join('|')})\\s*\\.\\s*${call}`).test(codeOf(handler));
}

/** Whether a function returns no value. */
export function givesNothing(fn: AnyFunction): boolean {
  const parts = partsOf(fn);
  return (
    parts !== undefined &&
    !parts.isExpression &&
    !/\b(?:return|yield)\b[ \t]*[^\s;})]/.test(withoutCallbacks(parts.body))
  );
}

/** Whether an object, a list of objects, or a reply of one is written down where it returns. */
export function repliesWithObject(handler: AnyFunction): boolean {
  const parts = partsOf(handler);
  return parts !== undefined && givesObject(parts);
}

function givesObject({ body, isExpression }: FunctionSource): boolean {
  const code = withoutCallbacks(body);
  const returned = isExpression
    ? [code]
    : [...code.matchAll(/(?<![\w$.])return\b(?!\s*:)/g)].map(({ index }) =>
        code.slice(index + 6, endOfExpression(code, index + 6)),
      );
  return returned
    .flatMap(branchesOf)
    .filter((expression) => !isRefusal(expression))
    .some(
      (expression) =>
        isObject(expression) ||
        /^\s*reply\s*\(\s*[{[]/.test(expression) ||
        /\.\s*map\s*\(.*\u0002\s*\)\s*$/s.test(expression),
    );
}

/** Whether it is an object as it is written down, or a list or pair that begins with one, and not what is made of it. */
function isObject(expression: string): boolean {
  const start = /^\s*(?:await\s+)?(?:\(\s*)*/.exec(expression)![0].length;
  const isList = /^\[\s*(?:\(\s*)*\{/.test(expression.slice(start));
  return (
    (isList || expression[start] === '{') && /^[\s)]*$/.test(expression.slice(afterPair(expression, start)))
  );
}

/** Whether it is `[{ ... }, 404]` or `reply({ ... }, 404)`: that says why there is no reply. */
function isRefusal(expression: string): boolean {
  const before = /^\s*(?:await\s+)?(?:\(\s*)*(?:\[|reply\s*\()\s*(?=[{[])/.exec(expression)?.[0];
  return (
    before !== undefined &&
    /^\s*,\s*[45]\d\d(?!\d)/.test(expression.slice(afterPair(expression, before.length)))
  );
}

/** Returns `b` and `c` of `a ? b : c`, also within parentheses; any other expression as it is. */
function branchesOf(parenthesized: string): string[] {
  const expression = withoutParentheses(parenthesized);
  const marks: number[] = [];
  for (let index = 0; index < expression.length; index++) {
    if (OPENING.includes(expression[index]!)) index = afterPair(expression, index) - 1;
    else if (/^(?:\?(?![.?])|:)/.test(expression.slice(index, index + 2)) && expression[index - 1] !== '?')
      marks.push(index);
  }
  return marks.length === 0
    ? [expression]
    : [...marks.keys()].flatMap((at) => branchesOf(expression.slice(marks[at]! + 1, marks[at + 1])));
}

/** An expression without the parentheses around all of it, which formatters write around conditions. */
function withoutParentheses(expression: string): string {
  const text = expression.trim();
  return text.startsWith('(') && afterPair(text, 0) === text.length
    ? withoutParentheses(text.slice(1, -1))
    : expression;
}

/** Code without what is done the first time only: `text ??= ...`, `if (text === undefined) text = ...`, `if (!text) { ... text = ...; }`. */
export function withoutOnce(code: string): string {
  let kept = '';
  for (let index = 0; index < code.length;) {
    const isOnce = /^(?:\?\?|\|\|)=/.test(code.slice(index, index + 3));
    const end = isOnce ? endOfExpression(code, index + 3) : endOfFirstTime(code, index);
    kept += end === undefined ? code[index] : ';';
    index = end ?? index + 1;
  }
  return kept;
}

const ABSENT =
  /^if\s*\(\s*(?:!\s*(?<negated>[\w$.#]+)|(?<compared>[\w$.#]+)\s*===?\s*(?:undefined|null|void 0))\s*\)\s*/;

/** The end of what is done where a name is without value yet, and gets it; a name of the function itself is so at each call. */
function endOfFirstTime(code: string, from: number): number | undefined {
  if (!code.startsWith('if', from) || /[\w$.]/.test(code[from - 1] ?? '')) return undefined;
  const { 0: { length = 0 } = '', groups } = ABSENT.exec(code.slice(from)) ?? {};
  const name = (groups?.['negated'] ?? groups?.['compared'])?.replaceAll(/[$.]/g, '\\$&');
  if (name === undefined || isOwn(code, name.split('\\.')[0]!)) return undefined;
  const start = from + length;
  const end = code[start] === '{' ? afterPair(code, start) : endOfExpression(code, start);
  return new RegExp(`(?<![\\w$.])${name}\\s*=(?![=>])`).test(code.slice(start, end)) ? end : undefined;
}

/** Whether a function declares a name, or has it as a parameter. */
function isOwn(code: string, name: string): boolean {
  const word = `(?<![\\w$.#])${name}(?![\\w$])`;
  return (
    new RegExp(`(?:let|var|const)\\s[^;=]*${word}`).test(code) ||
    new RegExp(word).test(split(code)?.parameters ?? '')
  );
}

/** Words before parentheses and a brace that do not make a method of them. */
const STATEMENTS = /(?<![\w$.])(?:if|for|await|while|switch|catch|with)\s*$/;

/** Code without the bodies of functions and methods in it. */
function withoutCallbacks(code: string): string {
  let kept = '';
  for (let index = 0; index < code.length;) {
    const end = endOfCallback(code, index);
    if (code[index] === '{' && isMethod(kept)) {
      kept += '{}';
      index = afterPair(code, index);
    } else if (end === undefined) kept += code[index++];
    else {
      const inner = split(
        code.startsWith('=>', index) ? `()${code.slice(index, end)}` : code.slice(index, end),
      );
      kept += inner !== undefined && givesObject(inner) ? `=>${GIVES_OBJECT}` : '=>';
      index = end;
    }
  }
  return kept;
}

/** Whether what comes next is the body of a method: behind `name(...)`, which is no statement. */
function isMethod(before: string): boolean {
  const code = before.trimEnd();
  if (!code.endsWith(')')) return false;
  let depth = 0;
  for (let index = code.length - 1; index >= 0; index--) {
    if (CLOSING.includes(code[index]!)) depth++;
    else if (OPENING.includes(code[index]!) && --depth === 0)
      return /[\w$\]]\s*$/.test(code.slice(0, index)) && !STATEMENTS.test(code.slice(0, index));
  }
  return false;
}

/** The end of the function whose arrow, or whose word `function`, stands there. */
function endOfCallback(code: string, from: number): number | undefined {
  if (code.startsWith('=>', from)) {
    const start = from + 2 + /^\s*/.exec(code.slice(from + 2))![0].length;
    return code[start] === '{' ? afterPair(code, start) : endOfExpression(code, start);
  }
  if (
    !code.startsWith('function', from) ||
    /[\w$.]/.test(code[from - 1] ?? '') ||
    !/^function\s*\*?\s*[\w$]*\s*\(/.test(code.slice(from))
  )
    return undefined;
  const body = code.indexOf('{', afterPair(code, code.indexOf('(', from)));
  return body === -1 ? undefined : afterPair(code, body);
}

/** Where an expression ends: at a comma, a semicolon or a bracket that is not its own, or where the next line begins a statement. */
function endOfExpression(code: string, from: number): number {
  for (let index = from; index < code.length; index++) {
    const char = code[index]!;
    if (OPENING.includes(char)) index = afterPair(code, index) - 1;
    else if (CLOSING.includes(char) || char === ',' || char === ';') return index;
    else if (
      char === '\n' &&
      /[\w$)\]}'"`]\s*$/.test(code.slice(from, index)) &&
      /^\s*[\w$]/.test(code.slice(index))
    )
      return index;
  }
  return code.length;
}

/** The position after the bracket that closes the one at `from`. */
function afterPair(code: string, from: number): number {
  let depth = 0;
  for (let index = from; index < code.length; index++) {
    if (OPENING.includes(code[index]!)) depth++;
    else if (CLOSING.includes(code[index]!) && --depth === 0) return index + 1;
  }
  return code.length;
}
