/**
 * The router: finds the endpoint of a method and a path.
 *
 * A template without parameters is found by comparison, if only a few have the length of the path, or in a
 * Map. All other templates are in a radix tree over characters. A node has literal text, children by their
 * first character, and, where a segment starts, one child for each converter in order of specificity.
 * Matching is depth first, in the order literal, uuid, int, float, str, path. The search goes back if no
 * child matches, and if a template has no endpoint for the method. The methods of such templates become
 * `Allow`.
 */
import { CONVERTERS, decodePath, parseTemplate, restoreSlashes } from './path.ts';
import type { Converter, ParsedTemplate } from './path.ts';

/**
 * Result of a match: the endpoint with the captured segments; the methods of the path, if it has other
 * methods only; no match; or a malformed escape.
 */
export type Match<T> =
  | { readonly kind: 'found'; readonly endpoint: T; readonly captures: readonly string[] }
  | { readonly kind: 'wrong-method'; readonly allow: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'malformed' };

type WrongMethod = Extract<Match<never>, { kind: 'wrong-method' }>;
/** The methods of a path, complete after freeze(). */
interface Methods {
  readonly methods: readonly string[];
  readonly missed: WrongMethod;
  /** Index of the GET endpoint, which also serves HEAD, or -1. */
  readonly get: number;
}

/**
 * Methods of one path with their endpoints, as lists: for a few entries they are faster and smaller than a
 * Map.
 */
interface Leaf<T> {
  methods: readonly string[];
  endpoints: readonly T[];
  /** Prepared result for all other methods. Its list of methods is empty before freeze(). */
  missed: WrongMethod;
}
/** A leaf of the static table, with one prepared match for each method. */
interface StaticLeaf<T> extends Leaf<T> {
  readonly path: string;
  matches: readonly Match<T>[];
}

const EMPTY: readonly never[] = [];

/**
 * Returns the list with one more item. A list that grows by push or spread reserves memory for 16 more items;
 * in a large table that was two thirds of the memory. Lists of one or two items are the most frequent ones.
 * They are made by literals, because concat() takes three times as long until V8 has compiled it
 * (test/bench/parts.mjs --only=router).
 */
function withLast<T>(list: readonly T[], item: T): readonly T[] {
  return list.length === 0 ? [item] : list.length === 1 ? [list[0]!, item] : list.concat([item]);
}

/**
 * A node of the tree. Most nodes have at most one literal child, so it is a property of the node. In a large
 * table, reading it from a list would cause one more cache miss.
 */
class Node<T> {
  text: string;
  /** The literal child, if there is only one. */
  only: Node<T> | null = null;
  /**
   * If there are several literal children: the code of the first character of each, in the order of
   * `children`.
   */
  codes: readonly number[] = EMPTY;
  children: readonly Node<T>[] = EMPTY;
  /** Child of the most specific converter. The children of the others follow by `next`. */
  parameter: Node<T> | null = null;
  /** Converter of the segment before `text`; null if the node has no parameter before `text`. */
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
 * If at most this many static paths have one length, they are compared one by one; otherwise the Map is used.
 */
const FEW = 4;
/** Up to this length, texts are compared character by character. */
const SHORT = 12;
const SLASH = 47,
  PERCENT = 37;
const NO_CAPTURES: readonly string[] = Object.freeze([]);
const NONE: Match<never> = Object.freeze({ kind: 'none' });
const MALFORMED: Match<never> = Object.freeze({ kind: 'malformed' });
const UNFINISHED: WrongMethod = Object.freeze({ kind: 'wrong-method', allow: '' });

/** State of one match. It is not in the tree, so nothing needs to be reset after the match. */
class Walk<T> {
  readonly path: string;
  readonly method: string;
  /** Number of captured segments on the way to the endpoint. */
  depth = 0;
  /**
   * Whether a tested segment contains an escape. If so, the path must be matched again after decoding,
   * because another template may match.
   */
  isEscaped = false;
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

/**
 * A routing table of endpoints `T`. Fill it with `add()`, then call `freeze()`; `match()` works after that.
 */
export class RoutingTable<T> {
  readonly #static = new Map<string, StaticLeaf<T>>();
  /**
   * Static paths by length. A path is compared with the few of its length, because a Map look-up takes
   * longer. V8 must first hash a path that was just received, and Node 26 also internalizes it. A comparison
   * takes 4 ns. A look-up that finds the path takes 16 ns on Node 24 and 37 on Node 26; one that finds
   * nothing takes up to 58.
   */
  #byLength: (readonly StaticLeaf<T>[])[] = [];
  readonly #root = new Node<T>('');
  /** Leaves of the tree; emptied by freeze(). */
  #leaves: Leaf<T>[] = [];
  /**
   * Lists of methods by a shorter list and the method to append. All leaves with equal methods share one
   * list, so it stays in the processor's cache.
   */
  readonly #longer = new Map<readonly string[], Map<string, readonly string[]>>();
  /** Whether a template contains an escape character. */
  #hasPercent = false;

  /** Adds an endpoint. If there is one with equal method and path, it stays, and is returned. */
  add(method: string, template: string | ParsedTemplate, endpoint: T): T | undefined {
    const parsed = typeof template === 'string' ? parseTemplate(template) : template;
    // templates with "%" are put into the tree, because look-ups in the Map use the raw path, in which "%" is
    // escaped
    const [literal] = parsed.literals as readonly [string];
    const hasPercent = parsed.template.includes('%');
    this.#hasPercent ||= hasPercent;
    const isStatic = parsed.parameters.length === 0 && !hasPercent;
    const leaf = isStatic ? this.#staticLeaf(literal) : this.#treeLeaf(parsed);
    const index = indexOfMethod(leaf, method);
    if (index !== -1) return leaf.endpoints[index];
    leaf.methods = this.#listWith(leaf.methods, method);
    leaf.endpoints = withLast(leaf.endpoints, endpoint);
    return undefined;
  }

  /**
   * Completes the table: lets HEAD use the GET endpoint (RFC 9110 §9.3.2), and stores the allowed methods of
   * each leaf.
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

  match(method: string, path: string): Match<T> {
    const leaf = this.#staticAt(path);
    if (leaf !== undefined) {
      const index = indexOfMethod(leaf, method);
      if (index !== -1) return leaf.matches[index]!;
    }
    if (this.#hasPercent && path.includes('%')) return this.#matchEncoded(method, path);
    const walk = new Walk<T>(path, method);
    const endpoint = descend(this.#root, walk, 0, 0);
    // the raw path has been tested completely and contains no "%", so decoding would change nothing
    const isClear = (endpoint !== undefined || walk.missed !== null) && !walk.isEscaped;
    if (!isClear && path.includes('%')) return this.#matchEncoded(method, path);
    return endpoint === undefined
      ? missed(walk, leaf)
      : { kind: 'found', endpoint, captures: capturesOf(walk) };
  }

  #staticAt(path: string): StaticLeaf<T> | undefined {
    if (path.length >= this.#byLength.length) return undefined;
    const alike = this.#byLength[path.length]!;
    if (alike.length > FEW) return this.#static.get(path);
    for (let index = 0; index < alike.length; index++) if (alike[index]!.path === path) return alike[index];
    return undefined;
  }

  #matchEncoded(method: string, path: string): Match<T> {
    const decoded = decodePath(path);
    if (decoded === undefined) return MALFORMED;
    const leaf = this.#static.get(decoded);
    const index = leaf === undefined ? -1 : indexOfMethod(leaf, method);
    if (index !== -1) return leaf!.matches[index]!;
    const walk = new Walk<T>(decoded, method);
    const endpoint = descend(this.#root, walk, 0, 0);
    return endpoint === undefined
      ? missed(walk, leaf)
      : { kind: 'found', endpoint, captures: capturesOf(walk).map(restoreSlashes) };
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

  #treeLeaf(parsed: ParsedTemplate): Leaf<T> {
    const { literals, parameters } = parsed;
    let node = literalOf(this.#root, literals[0]!);
    for (let index = 0; index < parameters.length; index++)
      node = literalOf(parameterOf(node, parameters[index]!.converter), literals[index + 1]!);
    if (node.leaf === null)
      this.#leaves.push((node.leaf = { methods: EMPTY, endpoints: EMPTY, missed: UNFINISHED }));
    return node.leaf;
  }
}

/** Result if no endpoint was found: the path has other methods only, or it has no route. */
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
 * Start and end of each captured segment, by depth. They are written again on each way down the tree, so they
 * need no reset. All matches share these two arrays, because a match is synchronous. Their initial length
 * avoids growing them for up to eight captures.
 */
const STARTS = [0, 0, 0, 0, 0, 0, 0, 0];
const STOPS = [0, 0, 0, 0, 0, 0, 0, 0];

/**
 * Finds the endpoint below `node`, whose own text has matched up to `at`; `depth` segments are captured. As
 * long as only one child can match, it loops, and does not call itself.
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
      const end = endOfSegment(walk, at);
      // the converter is not null: nodes in `parameter` have one
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

/** The child that begins with this character, or the only child. */
function childOf<T>({ only, codes, children }: Node<T>, code: number): Node<T> | undefined {
  if (only !== null) return only;
  for (let index = 0; index < codes.length; index++) if (codes[index] === code) return children[index];
  return undefined;
}

/** The literal child whose text follows at `at`, or null. */
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
 * Whether `text` follows in the path at `at`; its characters before `from` are known to be equal. For short
 * texts, which most are, it takes two thirds of the time of startsWith().
 */
function hasAt(path: string, text: string, at: number, from: number): boolean {
  if (text.length > SHORT || path.length < at + text.length) return path.startsWith(text, at);
  for (let index = from; index < text.length; index++)
    if (path.charCodeAt(at + index) !== text.charCodeAt(index)) return false;
  return true;
}

/** Tries the converters of a segment that begins at `at`, the most specific first. */
function follow<T>(first: Node<T>, walk: Walk<T>, at: number, depth: number): T | undefined {
  const { path } = walk;
  const end = endOfSegment(walk, at);
  for (let node: Node<T> | null = first; node !== null; node = node.next) {
    const converter = node.converter!; // the converter is not null: nodes in `parameter` have one
    const takesRest = converter === CONVERTERS.path;
    const stop = takesRest ? path.length : end;
    if (!converter.test(path, at, stop)) continue;
    if (takesRest && path.includes('%', end)) walk.isEscaped = true;
    STARTS[depth] = at;
    STOPS[depth] = stop;
    const endpoint = descend(node, walk, stop, depth + 1);
    if (endpoint !== undefined) return endpoint;
  }
  return undefined;
}

/**
 * Index of the next slash, or the end of the path. Compares a dozen characters before it calls indexOf(): the
 * call takes as long as these comparisons, and most segments are shorter.
 */
function endOfSegment<T>(walk: Walk<T>, at: number): number {
  const { path } = walk;
  for (const near = Math.min(at + SHORT, path.length); at < near; at++) {
    const code = path.charCodeAt(at);
    if (code === SLASH) return at;
    if (code === PERCENT) walk.isEscaped = true;
  }
  if (at === path.length) return at;
  if (path.includes('%', at)) walk.isEscaped = true;
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

/**
 * The captured segments of a match. Made by array literals, which have their final size at once, so no array
 * has to grow.
 */
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
 * Returns the node below `from` for the part of `text` from `at` on. Creates it if necessary. If an existing
 * node has only the start in common with the text, that node is split.
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

/** Returns the child for segments of this converter, and creates it if necessary. */
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
 * The value of `Allow`: each method once, the common ones first. OPTIONS is always included, because the
 * application responds to it.
 */
export function allowOf(methods: Iterable<string>): string {
  const rank = (method: string): number => (ORDER.indexOf(method) + ORDER.length + 1) % (ORDER.length + 1);
  return [...new Set([...methods, 'OPTIONS'])]
    .sort((left, right) => rank(left) - rank(right) || (left < right ? -1 : 1))
    .join(', ');
}
