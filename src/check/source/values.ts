/**
 * Values of a request on their way through a function: where each comes from, which name holds it, and whether code has judged it.
 */
import { calledName, pathOf, walk } from './nodes.ts';
import type { Fn, Node } from './nodes.ts';
import type { RouteCall } from './routes.ts';

/** A value of a request, the request itself, or an object with such members. */
export interface Given {
  readonly kind: 'request' | 'outside' | 'members';
  /** Where it comes from: `query.name`. */
  readonly what: string;
  /** The input that it is the whole of: `query`, `body`. */
  readonly part?: string | undefined;
  readonly route?: RouteCall | undefined;
  /** Literal text before it. {@link OWN} where a value of the program stands there. */
  readonly lead: string;
  /** All literal text around it. */
  readonly text: string;
  /** Whether no schema has seen it. */
  readonly isRaw?: boolean | undefined;
  /** Members of an object that the program made, by name. */
  readonly members?: ReadonlyMap<string, Given> | undefined;
}

/** Stands for a value of the program at the beginning of a text. */
export const OWN = '\0';

/** The values that names hold, in one function; names of the functions around it shine through. */
export class Names {
  readonly #values = new Map<string, Given | undefined>();
  readonly #checked = new Set<string>();
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
  }

  check(path: string): void {
    this.#checked.add(path);
  }

  isChecked(path: string): boolean {
    return this.#checked.has(path) || (!this.#values.has(path) && this.#around?.isChecked(path) === true);
  }

  /** Does something while paths count as checked. */
  during(paths: readonly string[], work: () => void): void {
    const added = paths.filter((path) => !this.#checked.has(path));
    for (const path of added) this.#checked.add(path);
    work();
    for (const path of added) this.#checked.delete(path);
  }
}

/** Whether nothing behind a branch runs once it has run. */
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

/** The literal text that an expression begins with. */
export function leadOf(node: Node): string {
  if (node.type === 'text') return node.value;
  if (node.type === 'template') return node.texts[0]!;
  return node.type === 'binary' && node.operator === '+' ? leadOf(node.left) : '';
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
