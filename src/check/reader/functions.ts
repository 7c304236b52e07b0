/**
 * Parses the text of `String(fn)`: parameters, body and returned values. Also knows the names of functions that
 * block the event loop.
 */
import * as childProcess from 'node:child_process';
import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as zlib from 'node:zlib';
import { methodOf, partsOf, pathOf, returnsOf } from './nodes.ts';
import { parse } from './syntax.ts';
import { tokensOf } from './tokens.ts';
import type { Fn, Node } from './nodes.ts';

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

type AnyFunction = (...args: never[]) => unknown;

const codes = new WeakMap<AnyFunction, string>();

/**
 * Returns the code of a function without comments and with empty strings. Keeps the code in `${...}` of
 * templates. Returns an empty string for a native function.
 */
export function codeOf(fn: AnyFunction): string {
  let code = codes.get(fn);
  if (code !== undefined) return code;
  const written = Function.prototype.toString.call(fn);
  code = /\{\s*\[native code\]\s*\}\s*$/.test(written) ? '' : withoutText(written);
  codes.set(fn, code);
  return code;
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

/** Matches the start of a function or class that is an expression: the text of a method is none. */
const EXPRESSION = /^(?:(?:async\s*)?(?:function\b|\(|[\w$]+\s*=>)|class\b)/;

/**
 * Returns the syntax tree of a function or class, with the text that was parsed. Undefined for a native function, and for
 * syntax that the parser does not know.
 */
export function parsed(fn: AnyFunction): { readonly node: Node; readonly source: string } | undefined {
  const written = Function.prototype.toString.call(fn);
  const source = EXPRESSION.test(written) ? `(${written})` : `({${written}})`;
  try {
    const [statement] = parse(source).body.body;
    const node = statement?.type === 'statement' ? statement.value : undefined;
    const inner = node?.type === 'object' ? node.entries[0]?.value : node;
    return inner && { node: inner, source };
  } catch {
    return undefined;
  }
}

function treeOf(fn: AnyFunction): Fn | undefined {
  const node = parsed(fn)?.node;
  return node?.type === 'function' ? node : undefined;
}

/**
 * Returns the text between the braces of the first parameter, such as `req, db` of `({ req, db }) => …`.
 * Returns '' without parameters, and undefined if the first parameter is not destructured.
 */
export function takenBy(handler: AnyFunction): string | undefined {
  const { node, source = '' } = parsed(handler) ?? {};
  if (node?.type !== 'function') return undefined;
  const [first] = node.params;
  if (first === undefined) return '';
  const pattern = first.type === 'assign' ? first.target : first;
  return pattern.type === 'object'
    ? withoutText(source.slice(pattern.start + 1, pattern.end - 1))
    : undefined;
}

/**
 * Whether a handler calls a method of its request: `req.json(` or `ctx.req.json(`. Also recognizes a variable
 * to which the handler assigns `req`.
 */
export function callsOfRequest(handler: AnyFunction, call: string): boolean {
  const alias = /(?<![\w$])req\s*:\s*([\w$]+)/.exec(takenBy(handler) ?? '')?.[1]?.replaceAll('$', '\\$');
  const names = ['req', 'request', ...(alias === undefined ? [] : [alias])];
  return new RegExp(`(?<![\\w$])(?:${names.join('|')})\\s*\\.\\s*${call}`).test(codeOf(handler));
}

/** Whether a function returns no value. */
export function givesNothing(fn: AnyFunction): boolean {
  const tree = treeOf(fn);
  if (tree === undefined || tree.isExpression) return false;
  return !partsOf(tree).some(
    (part) =>
      ((part.type === 'leave' && part.how === 'return') ||
        (part.type === 'unary' && part.operator === 'yield')) &&
      part.value !== undefined,
  );
}

/**
 * Whether a handler returns an object literal, a list of object literals, or `reply()` of an object literal.
 */
export function repliesWithObject(handler: AnyFunction): boolean {
  const tree = treeOf(handler);
  return tree !== undefined && returnsOf(tree).some(isObject);
}

/** Whether a result is an object, a list that begins with one, a reply of one, or what map() makes of them. */
function isObject(node: Node): boolean {
  if (node.type === 'choice') return isObject(node.yes) || isObject(node.no);
  if (node.type === 'object') return true;
  if (node.type === 'list') return node.items[0]?.type === 'object' && !isRefusal(node.items);
  if (node.type === 'call' && pathOf(node.callee) === 'reply')
    return /^(?:object|list)$/.test(node.args[0]?.type ?? '') && !isRefusal(node.args);
  const last = node.type === 'await' ? node.value : node.type === 'binary' ? node.right : node;
  const callback = last.type === 'call' && methodOf(last) === 'map' ? last.args.at(-1) : undefined;
  return callback?.type === 'function' && returnsOf(callback).some(isObject);
}

/** Whether the values of a response are those of an error: `[{ … }, 404]`, `reply({ … }, 404)`. */
function isRefusal([, status]: readonly Node[]): boolean {
  return status?.type === 'value' && /^[45]\d\d$/.test(status.raw);
}

/** Whether a function of this name blocks the event loop. */
export function isBlockingName(name: string): boolean {
  return NAMES.has(name);
}
