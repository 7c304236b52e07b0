/**
 * Request values inside a function: where they come from, which variables hold them, and whether code has
 * validated them.
 */
import { calledName, pathOf, walk } from '../reader/nodes.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import { validatesRequest } from './routes.ts';
import type { Role, RouteCall } from './routes.ts';

/** A value from a request, the request itself, or an object whose members are such values. */
export interface Given {
  readonly kind: 'request' | 'outside' | 'members';
  /** Origin of the value, such as `query.name`. */
  readonly what: string;
  /**
   * Name of the input, such as `query` or `body`, if the value is the whole input. Undefined for a part of an
   * input.
   */
  readonly part?: string | undefined;
  readonly route?: RouteCall | undefined;
  /** Names of path parameters that a middleware validates. */
  readonly checked?: ReadonlySet<string> | undefined;
  /**
   * Literal text before the value in its expression: `/notes/` in `'/notes/' + id`. Begins with {@link OWN}
   * if the expression begins with a value that no client sets.
   */
  readonly lead: string;
  /**
   * All literal texts of the expression that contains the value, joined by spaces or slashes. Ends with a
   * space or slash if the value is at the end of the expression.
   */
  readonly text: string;
  /** True for a path that `normalize('/' + name)` returns. Such a path contains no `..`. */
  readonly isRooted?: boolean;
  /** Members of an object that the program created, by name. */
  readonly members?: ReadonlyMap<string, Given> | undefined;
}

/** Placeholder, in the literal text of an expression, for a value that no client sets. */
export const OWN = '\0';

/** Request values in the variables of a function and of its enclosing functions. */
export class Names {
  readonly #values = new Map<string, Given | undefined>();
  readonly #checked = new Set<string>();
  /**
   * Request values with which code looked up a variable. After `const user = await find(params.id)`, the
   * entry of `user` is `params.id`, and a test of `user` also validates `params.id`.
   */
  readonly #keys = new Map<string, readonly string[]>();
  readonly #around: Names | undefined;

  constructor(around?: Names) {
    this.#around = around;
  }

  get(path: string): Given | undefined {
    return this.#values.has(path) ? this.#values.get(path) : this.#around?.get(path);
  }

  set(path: string, value: Given | undefined): void {
    this.#values.set(path, value);
    this.#checked.delete(path);
    this.#keys.delete(path);
  }

  /** Sets the request values with which code looked up a variable, such as `params.id` for `user`. */
  setKeys(name: string, keys: readonly string[]): void {
    this.#keys.set(name, keys);
  }

  /**
   * Returns the request values with which code looked up a variable, such as `params.id` for `user` and
   * `user.name`.
   */
  keysOf(node: Node): readonly string[] {
    if (node.type === 'member') return this.keysOf(node.object);
    if (node.type !== 'name') return [];
    return (
      this.#keys.get(node.name) ?? (this.#values.has(node.name) ? [] : (this.#around?.keysOf(node) ?? []))
    );
  }

  check(path: string): void {
    this.#checked.add(path);
  }

  isChecked(path: string): boolean {
    return this.#checked.has(path) || (!this.#values.has(path) && this.#around?.isChecked(path) === true);
  }

  /** While `work` runs, the values at `paths` count as validated. */
  during(paths: readonly string[], work: () => void): void {
    const added = paths.filter((path) => !this.#checked.has(path));
    for (const path of added) this.#checked.add(path);
    work();
    for (const path of added) this.#checked.delete(path);
  }
}

/** Whether a branch ends the function: it returns, throws, or calls a function such as fail(). */
export function endsFunction(node: Node): boolean {
  if (node.type === 'leave') return true;
  if (node.type === 'statement')
    return (
      node.value.type === 'call' &&
      /^(?:fail|missing|refuse|abort|notFound)/i.test(calledName(node.value) ?? '')
    );
  return node.type === 'block' && node.body.some(endsFunction);
}

export function assigns(node: Node, path: string): boolean {
  let found = false;
  walk(node, (part) => {
    if (part.type === 'assign' && pathOf(part.target) === path) found = true;
    return part.type !== 'function';
  });
  return found;
}

export function returnsOf(fn: Fn): Node[] {
  const values: Node[] = [];
  for (const statement of fn.body)
    walk(statement, (node) => {
      if (node.type === 'leave' && node.how === 'return' && node.value !== undefined) values.push(node.value);
      return node.type !== 'function';
    });
  return values;
}

/** Returns the literal text of an expression. {@link OWN} replaces every other value in it. */
export function leadOf(node: Node): string {
  if (node.type === 'text') return node.value;
  if (node.type === 'template') return node.texts.join(OWN);
  return node.type === 'binary' && node.operator === '+' ? leadOf(node.left) + leadOf(node.right) : OWN;
}

export function isPresence(node: Node): boolean {
  return (
    (node.type === 'name' && node.name === 'undefined') ||
    (node.type === 'value' && node.raw === 'null') ||
    (node.type === 'text' && node.value === '') ||
    isTypeTest(node)
  );
}

function isTypeTest(node: Node): boolean {
  return node.type === 'unary' && node.operator === 'typeof';
}

/** Returns the value itself. For an object, returns its first member that is a request value. */
export function outsideOf(value: Given | undefined): Given | undefined {
  if (value?.kind !== 'members') return value;
  // an object of the kind "members" always has `members`
  return value.members!.values().find(({ kind }) => kind === 'outside');
}

/** Returns the value of a variable after code appends a request value to it: `address += '?page=' + page`. */
export function appended(before: Given | undefined, value: Given): Given {
  return before?.kind === 'outside'
    ? { ...before, part: undefined, text: `${before.text} ${value.text}` }
    : { ...value, part: undefined, lead: OWN + value.lead };
}

/** Functions that remove `..` from a path that begins with a slash. */
const JOINS = /(?:^|\.)(?:join|resolve|normalize)$/;

/**
 * Returns the request value in the result of a function such as `join(root, name)`. `values` and `texts` are
 * the request values and the literal texts of its arguments.
 */
export function passedBy(
  path: string,
  values: readonly (Given | undefined)[],
  texts: readonly string[],
): Given | undefined {
  const value = values.find((each) => each !== undefined);
  if (value?.kind !== 'outside' || (value !== values[0] && value.isRooted === true)) return undefined;
  const isRooted = value.isRooted ?? (JOINS.test(path) && texts[0]!.startsWith('/'));
  return { ...value, part: path === 'JSON.parse' ? value.part : undefined, text: texts.join('/'), isRooted };
}

/** Whether a call returns only one character of a text: `name.charAt(0)`, `name.slice(0, 1)`. */
export function isOneCharacter({ callee, args }: Call): boolean {
  if (callee.type !== 'member') return false;
  if (callee.property === 'charAt') return true;
  const [from, to] = args;
  return (
    /^(?:slice|substring|substr)$/.test(callee.property ?? '') &&
    from?.type === 'value' &&
    to?.type === 'value' &&
    from.raw === '0' &&
    to.raw === '1'
  );
}

/**
 * Whether a call tests for forbidden text: `next.startsWith('//')`, `name.includes('..')`. A value counts as
 * validated where this call returns false.
 */
export function isDenial({ callee, args }: Call): boolean {
  return (
    callee.type === 'member' &&
    /^(?:startsWith|includes|endsWith)$/.test(callee.property ?? '') &&
    args[0]?.type === 'text'
  );
}

/** Returns the literal text in an expression. Includes the text of constants that the expression names. */
export function literalTextOf(node: Node | undefined, module: SourceModule, depth = 0): string {
  if (node === undefined || depth > 4) return '';
  if (node.type === 'text') return node.value;
  if (node.type === 'template') return node.texts.join(' ? ');
  if (node.type === 'binary')
    return `${literalTextOf(node.left, module, depth + 1)} ${literalTextOf(node.right, module, depth + 1)}`;
  if (node.type !== 'name') return '';
  const binding = module.lookup(node.name, node);
  return binding?.kind === 'declared' && binding.node.type === 'declarator' && binding.module === module
    ? literalTextOf(binding.node.value, module, depth + 1)
    : '';
}

/** Whether a node is the number 0, as in `rows.length === 0`. */
export function isZero(node: Node): boolean {
  return node.type === 'value' && node.raw === '0';
}

export function first<T extends Node>(
  nodes: readonly T[],
  find: (node: T) => Given | undefined,
): Given | undefined {
  for (const node of nodes) {
    const found = find(node);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether code uses the result of a call: in a declaration, in an assignment, or after `return`. */
export function isUsed({ parent }: Call): boolean {
  return parent?.type === 'declarator' || parent?.type === 'assign' || parent?.type === 'leave';
}

/** Beginnings of the names of variables that hold a condition, such as `isAllowed`. */
const JUDGES = /^(?:is|has|can|may|should|was|are|does|valid|allowed|ok|known|safe)/i;

/**
 * Returns the condition that a variable holds: `HOSTS.has(url.host)` for `isOurs` after `const isOurs =
 * HOSTS.has(url.host);`.
 */
export function conditionOf(name: Extract<Node, { type: 'name' }>, module: SourceModule): Node | undefined {
  const binding = module.lookup(name.name, name);
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return undefined;
  const { target, value } = binding.node;
  const isCondition =
    value?.type === 'unary' ||
    (value?.type === 'call' && !value.isNew) ||
    (value?.type === 'binary' && /^(?:&&|\|\||[!=]==?|in)$/.test(value.operator));
  return target.type === 'name' && isCondition && JUDGES.test(name.name) ? value : undefined;
}

/** Returns the value of a handler's parameter at the start of the analysis: the request or a message. */
export function givenBy({ kind, route }: Role, checked: ReadonlySet<string>): Given {
  return { kind, what: kind === 'request' ? 'request' : 'the message', route, checked, lead: '', text: '' };
}

/** Members of the context of Koa. Other programs use the name `ctx` for other objects. */
const OF_KOA =
  /\bctx\.(?:body|req|request|res|response|status|redirect|query|cookies|session|throw|type|set|get|headers?|state|ip)\b/;

/**
 * Returns the request that a parameter contains, to judge by its name: `req`, `ctx`, or an object with the
 * member `req`.
 */
export function requestByName(
  param: Node,
  fn: Fn,
  source: string,
  checked: ReadonlySet<string>,
): Given | undefined {
  const target = param.type === 'assign' ? param.target : param;
  const isContext = target.type === 'name' && target.name === 'ctx';
  if (isContext && !OF_KOA.test(source.slice(fn.start, fn.end))) return undefined;
  if (target.type === 'name' && /^(?:req|request|ctx)$/.test(target.name))
    return { kind: 'request', what: target.name, checked, lead: '', text: '' };
  if (target.type !== 'object') return undefined;
  const hasRequest = target.entries.some((entry) => entry.type === 'entry' && entry.key === 'req');
  return hasRequest ? { kind: 'request', what: 'request', checked, lead: '', text: '' } : undefined;
}

/**
 * Whether a route validates the request before this handler runs: `router.post('/notes', validate(schema),
 * handler)`. The values of the request then count as validated.
 */
export function isBehindSchema(fn: Fn): boolean {
  const around =
    fn.parent?.type === 'call' ? fn.parent.args : fn.parent?.type === 'list' ? fn.parent.items : [];
  return around.slice(0, around.indexOf(fn)).some(validatesRequest);
}
