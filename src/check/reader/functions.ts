/**
 * Parses the text of `String(fn)`: parameters, body and returned values. Nested callbacks are shortened to
 * `=>`. Also knows the names of functions that block the event loop.
 *
 * The parser may misread code, so findings that depend on its results are warnings at most.
 */
import * as childProcess from 'node:child_process';
import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as zlib from 'node:zlib';
import { tokensOf } from './tokens.ts';

/** Synchronous functions that finish within microseconds and so may run in a handler. */
const QUICK: ReadonlySet<string> = new Set(['randomFillSync', 'hkdfSync', 'generateKeySync']);
const NAMES: ReadonlySet<string> = new Set([
  ...[fs, crypto, zlib, childProcess]
    .flatMap((module) => Object.keys(module))
    .filter((name) => name.endsWith('Sync') && !QUICK.has(name)),
  'hashSync',
  'compareSync',
  'genSaltSync',
]);

const codes = new WeakMap<(...args: never[]) => unknown, string>();

/**
 * Returns the code of a function without comments and with empty strings. Keeps the code in `${...}` of
 * templates. Returns an empty string for a native function.
 */
export function codeOf(fn: (...args: never[]) => unknown): string {
  let code = codes.get(fn);
  if (code === undefined)
    codes.set(fn, (code = isNative(fn) ? '' : withoutText(Function.prototype.toString.call(fn))));
  return code;
}

function isNative(fn: (...args: never[]) => unknown): boolean {
  return /\{\s*\[native code\]\s*\}\s*$/.test(Function.prototype.toString.call(fn));
}

/**
 * Returns JavaScript without comments and with empty string literals. A template becomes its expressions in
 * parentheses.
 */
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

/** Returns the code that replaces a delimiter of a template: its first or last backtick, `${` or `}`. */
function templateMark(mark: string, isBefore: boolean): string {
  if (mark === '`') return isBefore ? '``' : '';
  return mark === '}' ? ')' : ' (';
}

type AnyFunction = (...args: never[]) => unknown;

interface FunctionSource {
  /** The parameters as written, without the parentheses around them. */
  readonly parameters: string;
  /** The statements of the body, or the expression of an arrow function without braces. */
  readonly body: string;
  readonly isExpression: boolean;
}

/** Marks the place of a removed callback that returns an object. */
const GIVES_OBJECT = '\u0002';
const OPENING = '([{';
const CLOSING = ')]}';

/**
 * Splits the text of a function into its parts. Undefined when there is no code to read, as for native
 * functions.
 */
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

/**
 * Returns the text between the braces of the first parameter, such as `req, db` of `({ req, db }) => …`.
 * Returns '' without parameters, and undefined if the first parameter is not destructured.
 */
export function takenBy(handler: AnyFunction): string | undefined {
  const parameters = partsOf(handler)?.parameters;
  if (parameters === undefined || parameters === '') return parameters;
  return parameters.startsWith('{') ? parameters.slice(1, afterPair(parameters, 0) - 1) : undefined;
}

/**
 * Whether a handler calls a method of its request: `req.json(` or `ctx.req.json(`. Also recognizes a variable
 * to which the handler assigns `req`.
 */
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

/**
 * Whether a handler returns an object literal, a list of object literals, or `reply()` of an object literal.
 */
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

/**
 * Whether an expression is only an object literal, or a list that begins with one. False if an operation
 * follows.
 */
function isObject(expression: string): boolean {
  const start = /^\s*(?:await\s+)?(?:\(\s*)*/.exec(expression)![0].length;
  const isList = /^\[\s*(?:\(\s*)*\{/.test(expression.slice(start));
  return (
    (isList || expression[start] === '{') && /^[\s)]*$/.test(expression.slice(afterPair(expression, start)))
  );
}

/** Whether an expression is an error response, such as `[{ ... }, 404]` or `reply({ ... }, 404)`. */
function isRefusal(expression: string): boolean {
  const before = /^\s*(?:await\s+)?(?:\(\s*)*(?:\[|reply\s*\()\s*(?=[{[])/.exec(expression)?.[0];
  return (
    before !== undefined &&
    /^\s*,\s*[45]\d\d(?!\d)/.test(expression.slice(afterPair(expression, before.length)))
  );
}

/**
 * Returns the branches `b` and `c` of `a ? b : c`, also within parentheses. Returns any other expression
 * unchanged.
 */
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

function withoutParentheses(expression: string): string {
  const text = expression.trim();
  return text.startsWith('(') && afterPair(text, 0) === text.length
    ? withoutParentheses(text.slice(1, -1))
    : expression;
}

/**
 * Returns code without the statements that run only while a variable has no value: `text ??= ...`, `if (text
 * === undefined) text = ...`, `if (!text) { ... text = ...; }`.
 */
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

/**
 * Returns the end of an `if` statement that sets a variable only while it has no value, else undefined. Local
 * variables do not count, because they have no value at the start of every call.
 */
function endOfFirstTime(code: string, from: number): number | undefined {
  if (!code.startsWith('if', from) || /[\w$.]/.test(code[from - 1] ?? '')) return undefined;
  const { 0: { length = 0 } = '', groups } = ABSENT.exec(code.slice(from)) ?? {};
  const name = (groups?.['negated'] ?? groups?.['compared'])?.replaceAll(/[$.]/g, '\\$&');
  if (name === undefined || isOwn(code, name.split('\\.')[0]!)) return undefined;
  const start = from + length;
  const end = code[start] === '{' ? afterPair(code, start) : endOfExpression(code, start);
  return new RegExp(`(?<![\\w$.])${name}\\s*=(?![=>])`).test(code.slice(start, end)) ? end : undefined;
}

/** Whether the code of a function declares a name as a variable or parameter. */
function isOwn(code: string, name: string): boolean {
  const word = `(?<![\\w$.#])${name}(?![\\w$])`;
  return (
    new RegExp(`(?:let|var|const)\\s[^;=]*${word}`).test(code) ||
    new RegExp(word).test(split(code)?.parameters ?? '')
  );
}

/** Keywords that may stand before parentheses and a brace. They are not names of methods. */
const STATEMENTS = /(?<![\w$.])(?:if|for|await|while|switch|catch|with)\s*$/;

/** Returns code without the bodies of the functions and methods that it contains. */
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

/**
 * Whether a brace after this code opens the body of a method: the code ends with `name(...)`, and `name` is
 * not a keyword such as `if`.
 */
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

/**
 * Returns the end of the callback whose `=>` or `function` is at `from`. Undefined if there is no callback at
 * `from`.
 */
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

/**
 * Returns the end of an expression. It ends before a comma, a semicolon or an unmatched closing bracket, or
 * at a line end before a new statement.
 */
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

/** Returns the position after the bracket that closes the bracket at `from`. */
function afterPair(code: string, from: number): number {
  let depth = 0;
  for (let index = from; index < code.length; index++) {
    if (OPENING.includes(code[index]!)) depth++;
    else if (CLOSING.includes(code[index]!) && --depth === 0) return index + 1;
  }
  return code.length;
}

/** Whether a function of this name blocks the event loop. */
export function isBlockingName(name: string): boolean {
  return NAMES.has(name);
}

/** Whether code declares a local function of this name. */
export function isDefinedIn(code: string, name: string): boolean {
  return new RegExp(
    `\\b(?:const|let|var|function)\\s+${name}\\b|(?<![\\w$.])${name}\\s*\\([^()]*\\)\\s*\\{`,
  ).test(code);
}
