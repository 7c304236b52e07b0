/**
 * The router: finds the endpoint for a method and a path. An endpoint is a value of any type `T`.
 *
 * Path templates without parameters are compared with the path one by one, or are looked up in a Map. All
 * other templates are in a radix tree.
 *
 * The router searches its tree of path templates depth first. It tries literal text first, then parameters in
 * the order uuid, int, float, str and path. It goes back if no child matches, or if the matching template has
 * no endpoint for the method.
 */
import { CONVERTERS, canonicalLiteral, decodeEscapes, parseTemplate, variantsOf } from './path.ts';
import type { Converter, ParsedTemplate, PathParameter } from './path.ts';

/**
 * Result of a search. `found`: the endpoint, and the parameters of the path as text. `wrong-method`: the path
 * has endpoints, but none for this method. `none`: no template matches the path. `malformed`: the path has a
 * malformed escape.
 */
export type Match<T> =
  | { readonly kind: 'found'; readonly endpoint: T; readonly captures: readonly string[] }
  | { readonly kind: 'wrong-method'; readonly allow: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'malformed' };

type WrongMethod = Extract<Match<never>, { kind: 'wrong-method' }>;
interface Methods {
  readonly methods: readonly string[];
  /** Search result for a method without an endpoint. */
  readonly missed: WrongMethod;
  /** Index of the endpoint for GET, which also serves HEAD; -1 if there is none. */
  readonly get: number;
}

/**
 * The endpoints of one path: `endpoints[i]` is for `methods[i]`. For a few entries, two lists are faster and
 * smaller than a Map.
 */
interface Leaf<T> {
  methods: readonly string[];
  endpoints: readonly T[];
  /** Search result for a method without an endpoint. freeze() sets this property. */
  missed: WrongMethod;
}
/** The endpoints of a path without parameters. `matches` has a complete search result for each method. */
interface StaticLeaf<T> extends Leaf<T> {
  readonly path: string;
  matches: readonly Match<T>[];
}

const EMPTY: readonly never[] = [];

/**
 * Returns a copy of the list with one more item. push() and spread would reserve memory for 16 more items.
 * Most lists have one or two items, and array literals create them faster than concat() (test/bench/parts.mjs
 * --only=router).
 */
function withLast<T>(list: readonly T[], item: T): readonly T[] {
  return list.length === 0 ? [item] : list.length === 1 ? [list[0]!, item] : list.concat([item]);
}

/**
 * A node of the radix tree. Most nodes have at most one child with literal text. This child is a property,
 * because a list would cause one more cache miss.
 */
class Node<T> {
  text: string;
  /** The child with literal text, if there is exactly one. */
  only: Node<T> | null = null;
  /**
   * First character of each child with literal text, in the order of `children`. Empty if there are fewer
   * than two.
   */
  codes: readonly number[] = EMPTY;
  children: readonly Node<T>[] = EMPTY;
  /** First child that matches a parameter. Its property `next` leads to the children for other converters. */
  parameter: Node<T> | null = null;
  /** Converter of a node that matches a parameter; null if the node matches `text`. */
  readonly converter: Converter | null;
  next: Node<T> | null;
  leaf: Leaf<T> | null = null;

  constructor(text: string, converter: Converter | null = null, next: Node<T> | null = null) {
    this.text = text;
    this.converter = converter;
    this.next = next;
  }
}

/**
 * Maximum number of templates of one length that are compared one by one. More templates are looked up in a
 * Map.
 */
const FEW = 4;
/** Texts up to this length are compared character by character. */
const SHORT = 12;
const SLASH = 47;
const NO_CAPTURES: readonly string[] = Object.freeze([]);
const NONE: Match<never> = Object.freeze({ kind: 'none' });
const MALFORMED: Match<never> = Object.freeze({ kind: 'malformed' });
const UNFINISHED: WrongMethod = Object.freeze({ kind: 'wrong-method', allow: '' });

/** State of one search in the tree. */
class Walk<T> {
  readonly path: string;
  readonly method: string;
  /** Number of parameters in the path to the found endpoint. */
  depth = 0;
  missed: Leaf<T> | null = null;
  missedMore: Leaf<T>[] | null = null;

  constructor(path: string, method: string) {
    this.path = path;
    this.method = method;
  }

  miss(leaf: Leaf<T>): void {
    if (this.missed === null) this.missed = leaf;
    else (this.missedMore ??= []).push(leaf);
  }
}

/** Routing table with endpoints of type `T`. Fill it with add(), and call freeze() before match(). */
export class RoutingTable<T> {
  readonly #static = new Map<string, StaticLeaf<T>>();
  /**
   * Paths without parameters, by their length. Comparing a path with one of them takes 4 ns. A Map look-up
   * takes 16 to 58 ns, because V8 must first hash the received path.
   */
  #byLength: (readonly StaticLeaf<T>[])[] = [];
  readonly #root = new Node<T>('');
  /** All leaves of the tree. freeze() completes them, and then empties this list. */
  #leaves: Leaf<T>[] = [];
  /**
   * Shared lists of methods: `#longer.get(list).get(method)` is `list` with `method` added. Paths with equal
   * methods share one list, so that it stays in the cache of the processor.
   */
  readonly #longer = new Map<readonly string[], Map<string, readonly string[]>>();

  /**
   * Adds an endpoint. If this method and path already have an endpoint, the existing one stays, and is
   * returned. For a template with an optional parameter, this applies to each of its paths.
   */
  add(method: string, template: string | ParsedTemplate, endpoint: T): T | undefined {
    const parsed = typeof template === 'string' ? parseTemplate(template) : template;
    let existing: T | undefined;
    for (const variant of variantsOf(parsed)) existing = this.#add(method, variant, endpoint) ?? existing;
    return existing;
  }

  #add(method: string, parsed: ParsedTemplate, endpoint: T): T | undefined {
    const literals = parsed.literals.map(canonicalLiteral);
    const leaf =
      parsed.parameters.length === 0
        ? this.#staticLeaf(literals.join(''))
        : this.#treeLeaf(literals, parsed.parameters);
    const index = indexOfMethod(leaf, method);
    if (index !== -1) return leaf.endpoints[index];
    leaf.methods = this.#listWith(leaf.methods, method);
    leaf.endpoints = withLast(leaf.endpoints, endpoint);
    return undefined;
  }

  /**
   * Completes the table. HEAD uses the endpoint for GET (RFC 9110 §9.3.2), and `Allow` is determined for each
   * path.
   */
  freeze(): void {
    const final = new Map<readonly string[], Methods>();
    const byLength: (readonly StaticLeaf<T>[])[] = (this.#byLength = []);
    for (const leaf of this.#static.values()) {
      finish(leaf, final);
      while (byLength.length <= leaf.path.length) byLength.push(EMPTY);
      const alike = byLength[leaf.path.length]!;
      if (alike.length <= FEW) byLength[leaf.path.length] = withLast(alike, leaf);
      leaf.matches = leaf.endpoints.map((endpoint) => ({ kind: 'found', endpoint, captures: NO_CAPTURES }));
    }
    for (const leaf of this.#leaves) finish(leaf, final);
    this.#leaves = [];
  }

  /** Finds the endpoint for a canonical path (see canonicalPath()). Parameters are percent-decoded. */
  match(method: string, path: string): Match<T> {
    const leaf = this.#staticAt(path);
    if (leaf !== undefined) {
      const index = indexOfMethod(leaf, method);
      if (index !== -1) return leaf.matches[index]!;
    }
    const walk = new Walk<T>(path, method);
    const endpoint = descend(this.#root, walk, 0, 0);
    if (!path.includes('%'))
      return endpoint === undefined
        ? missed(walk, leaf)
        : { kind: 'found', endpoint, captures: capturesOf(walk) };
    if (decodeEscapes(path) === undefined) return MALFORMED;
    return endpoint === undefined
      ? missed(walk, leaf)
      : { kind: 'found', endpoint, captures: capturesOf(walk).map(decodeURIComponent) };
  }

  #staticAt(path: string): StaticLeaf<T> | undefined {
    if (path.length >= this.#byLength.length) return undefined;
    const alike = this.#byLength[path.length]!;
    if (alike.length > FEW) return this.#static.get(path);
    for (let index = 0; index < alike.length; index++) if (alike[index]!.path === path) return alike[index];
    return undefined;
  }

  #listWith(methods: readonly string[], method: string): readonly string[] {
    let longer = this.#longer.get(methods);
    if (longer === undefined) this.#longer.set(methods, (longer = new Map()));
    let list = longer.get(method);
    if (list === undefined) longer.set(method, (list = withLast(methods, method)));
    return list;
  }

  #staticLeaf(path: string): StaticLeaf<T> {
    let leaf = this.#static.get(path);
    if (leaf === undefined)
      this.#static.set(
        path,
        (leaf = { path, methods: EMPTY, endpoints: EMPTY, missed: UNFINISHED, matches: EMPTY }),
      );
    return leaf;
  }

  #treeLeaf(literals: readonly string[], parameters: readonly PathParameter[]): Leaf<T> {
    let node = literalOf(this.#root, literals[0]!);
    for (let index = 0; index < parameters.length; index++)
      node = literalOf(parameterOf(node, parameters[index]!.converter), literals[index + 1]!);
    if (node.leaf === null)
      this.#leaves.push((node.leaf = { methods: EMPTY, endpoints: EMPTY, missed: UNFINISHED }));
    return node.leaf;
  }
}

/** Returns `wrong-method` if other methods have endpoints for the path, else `none`. */
function missed<T>(walk: Walk<T>, staticLeaf: StaticLeaf<T> | undefined): Match<T> {
  if (staticLeaf !== undefined) walk.miss(staticLeaf);
  if (walk.missed === null) return NONE;
  if (walk.missedMore === null) return walk.missed.missed;
  return {
    kind: 'wrong-method',
    allow: allowOf([walk.missed, ...walk.missedMore].flatMap((leaf) => leaf.methods)),
  };
}

/**
 * Start and end index of each matched parameter in the path. All searches share the two arrays, because a
 * search is synchronous. They grow only for paths with more than eight parameters.
 */
const STARTS = [0, 0, 0, 0, 0, 0, 0, 0];
const STOPS = [0, 0, 0, 0, 0, 0, 0, 0];

/**
 * Finds the endpoint below `node`. The path has matched up to the index `at`, with `depth` parameters so far.
 * While only one child can match, the function loops instead of calling itself.
 */
function descend<T>(node: Node<T>, walk: Walk<T>, at: number, depth: number): T | undefined {
  const { path } = walk;
  while (at < path.length) {
    const { parameter } = node;
    const literal = literalAt(node, path, at);
    if (literal === null) {
      if (parameter === null) return undefined;
      if (parameter.next !== null || parameter.converter === CONVERTERS.path)
        return follow(parameter, walk, at, depth);
      const end = endOfSegment(path, at);
      // not null: all nodes in `parameter` have a converter
      if (!parameter.converter!.test(path, at, end)) return undefined;
      STARTS[depth] = at;
      STOPS[depth++] = at = end;
      node = parameter;
    } else if (parameter === null) {
      node = literal;
      at += literal.text.length;
    } else {
      const endpoint = descend(literal, walk, at + literal.text.length, depth);
      return endpoint === undefined ? follow(parameter, walk, at, depth) : endpoint;
    }
  }
  return endpointOf(node.leaf, walk, depth);
}

/** Returns the child whose text begins with this character. A single child is returned unchecked. */
function childOf<T>({ only, codes, children }: Node<T>, code: number): Node<T> | undefined {
  if (only !== null) return only;
  for (let index = 0; index < codes.length; index++) if (codes[index] === code) return children[index];
  return undefined;
}

/** Returns the child whose text is in the path at index `at`; null if there is none. */
function literalAt<T>({ only, codes, children }: Node<T>, path: string, at: number): Node<T> | null {
  if (only !== null) return hasAt(path, only.text, at, 0) ? only : null;
  if (codes.length === 0) return null;
  const code = path.charCodeAt(at);
  for (let index = 0; index < codes.length; index++) {
    if (codes[index] === code) return hasAt(path, children[index]!.text, at, 1) ? children[index]! : null;
  }
  return null;
}

/**
 * Like `path.startsWith(text, at)`, but takes two thirds of its time for short texts. The first `from`
 * characters are known to match.
 */
function hasAt(path: string, text: string, at: number, from: number): boolean {
  if (text.length > SHORT || path.length < at + text.length) return path.startsWith(text, at);
  for (let index = from; index < text.length; index++)
    if (path.charCodeAt(at + index) !== text.charCodeAt(index)) return false;
  return true;
}

/** Tries the child `first` and its siblings, one for each converter, on the segment at index `at`. */
function follow<T>(first: Node<T>, walk: Walk<T>, at: number, depth: number): T | undefined {
  const { path } = walk;
  const end = endOfSegment(path, at);
  for (let node: Node<T> | null = first; node !== null; node = node.next) {
    const converter = node.converter!; // not null: all nodes in `parameter` have a converter
    const takesRest = converter === CONVERTERS.path;
    const stop = takesRest ? path.length : end;
    if (!converter.test(path, at, stop)) continue;
    STARTS[depth] = at;
    STOPS[depth] = stop;
    const endpoint = descend(node, walk, stop, depth + 1);
    if (endpoint !== undefined) return endpoint;
  }
  return undefined;
}

/**
 * Returns the index of the next slash, or the length of the path. Most segments are short, so comparing their
 * characters is faster than indexOf().
 */
function endOfSegment(path: string, at: number): number {
  for (const near = Math.min(at + SHORT, path.length); at < near; at++)
    if (path.charCodeAt(at) === SLASH) return at;
  const slash = path.indexOf('/', at);
  return slash === -1 ? path.length : slash;
}

function endpointOf<T>(leaf: Leaf<T> | null, walk: Walk<T>, depth: number): T | undefined {
  if (leaf === null) return undefined;
  const index = indexOfMethod(leaf, walk.method);
  if (index === -1) {
    walk.miss(leaf);
    return undefined;
  }
  walk.depth = depth;
  return leaf.endpoints[index];
}

/** Array literals create the list in its final size, so that it need not grow. */
function capturesOf<T>({ path, depth }: Walk<T>): string[] {
  if (depth === 1) return [captureAt(path, 0)];
  if (depth === 2) return [captureAt(path, 0), captureAt(path, 1)];
  if (depth === 3) return [captureAt(path, 0), captureAt(path, 1), captureAt(path, 2)];
  return Array.from({ length: depth }, (_, index) => captureAt(path, index));
}

function captureAt(path: string, index: number): string {
  return path.slice(STARTS[index], STOPS[index]);
}

function indexOfMethod({ methods }: Leaf<unknown>, method: string): number {
  for (let index = 0; index < methods.length; index++) if (methods[index] === method) return index;
  return -1;
}

/**
 * Returns the node below `from` for the text from index `at` on, and creates it if necessary. If an existing
 * node shares only the start of the text, the node is split.
 */
function literalOf<T>(from: Node<T>, text: string, at = 0): Node<T> {
  if (at === text.length) return from;
  const child = childOf(from, text.charCodeAt(at));
  let shared = 0;
  while (
    child !== undefined &&
    at + shared < text.length &&
    shared < child.text.length &&
    text.charCodeAt(at + shared) === child.text.charCodeAt(shared)
  )
    shared++;
  if (child === undefined || shared === 0) return adopt(from, new Node<T>(text.slice(at)));
  if (shared === child.text.length) return literalOf(child, text, at + shared);
  const upper = new Node<T>(child.text.slice(0, shared));
  if (from.only === child) from.only = upper;
  else from.children = from.children.with(from.children.indexOf(child), upper);
  child.text = child.text.slice(shared);
  upper.only = child;
  return literalOf(upper, text, at + shared);
}

function adopt<T>(node: Node<T>, child: Node<T>): Node<T> {
  if (node.only === null && node.children.length === 0) {
    node.only = child;
    return child;
  }
  if (node.only !== null) {
    node.codes = [node.only.text.charCodeAt(0)];
    node.children = [node.only];
    node.only = null;
  }
  node.codes = withLast(node.codes, child.text.charCodeAt(0));
  node.children = withLast(node.children, child);
  return child;
}

function parameterOf<T>(node: Node<T>, converter: Converter): Node<T> {
  let before: Node<T> | null = null;
  let after = node.parameter;
  while (after !== null && after.converter!.rank < converter.rank) [before, after] = [after, after.next];
  if (after?.converter === converter) return after;
  const child = new Node<T>('', converter, after);
  if (before === null) node.parameter = child;
  else before.next = child;
  return child;
}

function finish<T>(leaf: Leaf<T>, final: Map<readonly string[], Methods>): void {
  let methods = final.get(leaf.methods);
  if (methods === undefined) final.set(leaf.methods, (methods = finalOf(leaf.methods)));
  leaf.methods = methods.methods;
  leaf.missed = methods.missed;
  if (methods.get !== -1) leaf.endpoints = withLast(leaf.endpoints, leaf.endpoints[methods.get]!);
}

function finalOf(given: readonly string[]): Methods {
  const get = given.includes('HEAD') ? -1 : given.indexOf('GET');
  const methods = get === -1 ? given : given.concat('HEAD');
  return { methods, get, missed: { kind: 'wrong-method', allow: allowOf(methods) } };
}

const ORDER = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/**
 * Returns the value of `Allow`: each method once, and common methods first. It always contains OPTIONS,
 * because the application responds to it on every path.
 */
export function allowOf(methods: Iterable<string>): string {
  const rank = (method: string): number => (ORDER.indexOf(method) + ORDER.length + 1) % (ORDER.length + 1);
  return [...new Set([...methods, 'OPTIONS'])]
    .sort((left, right) => rank(left) - rank(right) || (left < right ? -1 : 1))
    .join(', ');
}
