/**
 * The router: method and path -> found, wrong method, or none.
 *
 * A path without parameters is compared with the few of its length, or looked up in a Map. The others are in a radix tree over
 * characters: a node holds literal text, children by first character, and, where a segment starts, one child per converter in
 * order of specificity. Matching is depth first, literal before uuid, int, float, str, path. It backtracks from a dead end, and
 * from a template without the method. The methods it met become `Allow`.
 */
import { CONVERTERS, decodePath, parseTemplate, restoreSlashes } from './path.ts';
import type { Converter, ParsedTemplate } from './path.ts';

/** Result of a match: the endpoint with raw captures, the existing methods, nothing, or a malformed escape. */
export type Match<T> =
  | { readonly kind: 'found'; readonly endpoint: T; readonly captures: readonly string[] }
  | { readonly kind: 'wrong-method'; readonly allow: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'malformed' };

type WrongMethod = Extract<Match<never>, { kind: 'wrong-method' }>;
/** Methods of a path, in final form. */
interface Methods {
  readonly methods: readonly string[];
  readonly missed: WrongMethod;
  /** Index of the endpoint that also answers HEAD, or -1. */
  readonly get: number;
}

/** Methods of one path with their endpoints. A list of the few is faster and smaller than a Map. */
interface Leaf<T> {
  methods: readonly string[];
  endpoints: readonly T[];
  /** Prepared result for other methods; before freeze() without a method. */
  missed: WrongMethod;
}
/** A leaf of the static table, with its matches ready made, beside the methods. */
interface StaticLeaf<T> extends Leaf<T> {
  readonly path: string;
  matches: readonly Match<T>[];
}

/** Shared empty list. */
const EMPTY: readonly never[] = [];

/**
 * Returns the list with one more item. A list that grows by push or spread reserves room for 16 more, which was two thirds of a large
 * table. Most lists have one or two items: written out they take a third of the time of concat() before that is compiled, which is
 * the case while a table of some hundred routes is filled (topic `router` of test/bench/table.ts).
 */
function withLast<T>(list: readonly T[], item: T): readonly T[] {
  return list.length === 0 ? [item] : list.length === 1 ? [list[0]!, item] : list.concat([item]);
}

/** Most nodes have at most one child, which hangs on the node itself: in a large table each list is one more cache miss. */
class Node<T> {
  text: string;
  /** The literal child where there is one alone. */
  only: Node<T> | null = null;
  /** Where there are several: the first character code of each, beside `children`. */
  codes: readonly number[] = EMPTY;
  children: readonly Node<T>[] = EMPTY;
  /** Child of the most specific converter; `next` links the others. */
  parameter: Node<T> | null = null;
  /** Converter of the preceding segment; null for literal text. */
  readonly converter: Converter | null;
  next: Node<T> | null;
  leaf: Leaf<T> | null = null;

  constructor(text: string, converter: Converter | null = null, next: Node<T> | null = null) {
    this.text = text;
    this.converter = converter;
    this.next = next;
  }
}

/** Up to so many paths of one length are compared in turn. */
const FEW = 4;
/** Up to this length texts are compared character by character. */
const SHORT = 12;
const SLASH = 47,
  PERCENT = 37;
const NO_CAPTURES: readonly string[] = Object.freeze([]);
const NONE: Match<never> = Object.freeze({ kind: 'none' });
const MALFORMED: Match<never> = Object.freeze({ kind: 'malformed' });
const UNFINISHED: WrongMethod = Object.freeze({ kind: 'wrong-method', allow: '' });

/** One walk's state: kept apart from the tree, so that a walk that is left again costs nothing to undo. */
class Walk<T> {
  readonly path: string;
  readonly method: string;
  /** How many segments have been captured where the endpoint was found. */
  depth = 0;
  /** Set if a tested segment has an escape: then the decoded path may match something else. */
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

/** A routing table of endpoints `T`. Fill it with `add()`, then `freeze()`; `match()` works from then on. */
export class RoutingTable<T> {
  readonly #static = new Map<string, StaticLeaf<T>>();
  /**
   * Static paths by length, after the last one was added. Few have equal lengths, and comparing a path that was just received is
   * cheaper than a Map look-up: V8 hashes it, and Node 26 internalizes it first (`!==` 4 ns, a hit 16 and 37 ns, a miss up to 58).
   */
  #byLength: (readonly StaticLeaf<T>[])[] = [];
  readonly #root = new Node<T>('');
  /** Leaves of the tree, until freeze(). */
  #leaves: Leaf<T>[] = [];
  /** Leaves with equal methods share one list: one list stays in the processor's cache, thousands do not. Keyed by the list and the next method. */
  readonly #longer = new Map<readonly string[], Map<string, readonly string[]>>();
  /** Text before the first parameter of the last template, with its node: templates of one resource follow each other. */
  #begun = '';
  #begunAt: Node<T> = this.#root;
  /** Whether a template contains an escape character. */
  #hasPercent = false;

  /** Adds an endpoint. Returns an existing one with equal method and path, which stays: a duplicate. */
  add(method: string, template: string | ParsedTemplate, endpoint: T): T | undefined {
    const parsed = typeof template === 'string' ? parseTemplate(template) : template;
    // the Map is asked with the raw path; a text with "%" always arrives escaped, so it belongs into the tree
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

  /** Lets HEAD follow GET (RFC 9110 §9.3.2), and stores the allowed methods of each leaf. */
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
    const isClear = (endpoint !== undefined || walk.missed !== null) && !walk.isEscaped; // every character was tested, and none is "%"
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
    let node = this.#beginning(literals[0]!);
    for (let index = 0; index < parameters.length; index++)
      node = literalOf(parameterOf(node, parameters[index]!.converter), literals[index + 1]!);
    if (node.leaf === null)
      this.#leaves.push((node.leaf = { methods: EMPTY, endpoints: EMPTY, missed: UNFINISHED }));
    return node.leaf;
  }

  #beginning(text: string): Node<T> {
    if (text !== this.#begun) {
      this.#begunAt = literalOf(this.#root, text);
      this.#begun = text;
    }
    return this.#begunAt; // it ends with this text for good: a node that is split stays the lower half
  }
}

/** Result when there is no endpoint. */
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
 * Where each captured segment begins and ends, by depth: written on the way down, so a branch that is left again needs no undoing.
 * One pair of lists serves every walk, for none begins before another has ended. Up to eight captures a store finds room.
 */
const STARTS = [0, 0, 0, 0, 0, 0, 0, 0];
const STOPS = [0, 0, 0, 0, 0, 0, 0, 0];

/** The endpoint below `node`, whose own text is matched up to `at`; `depth` segments are captured. Loops while there is one child to try. */
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
      if (!parameter.converter!.test(path, at, end)) return undefined; // it has been entered for one
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

/** The only child that can match next. */
function childOf<T>({ only, codes, children }: Node<T>, code: number): Node<T> | undefined {
  if (only !== null) return only;
  for (let index = 0; index < codes.length; index++) if (codes[index] === code) return children[index];
  return undefined;
}

/** The literal child that can match next. */
function literalAt<T>({ only, codes, children }: Node<T>, path: string, at: number): Node<T> | null {
  if (only !== null) return hasAt(path, only.text, at, 0) ? only : null;
  if (codes.length === 0) return null;
  const code = path.charCodeAt(at);
  for (let index = 0; index < codes.length; index++) {
    if (codes[index] === code) return hasAt(path, children[index]!.text, at, 1) ? children[index]! : null;
  }
  return null;
}

/** `path.startsWith(text, at)`, where the characters before `from` are known to: two thirds of the time for texts as short as most are. */
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
    const converter = node.converter!; // it has been entered for one
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

/** Where the next slash is, or the end. A call of indexOf() costs as much as a dozen characters, and most segments are shorter. */
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

/** Captured segments of a walk. Literal lists are allocated at once, in their final size. */
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

/** The node below `from` for `text` from `at` on; splits a node that shares only the start. */
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

/** The child that a segment of this converter leads to. */
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

/** The value of `Allow`: each method once, the usual ones first; OPTIONS is always answered. */
export function allowOf(methods: Iterable<string>): string {
  const rank = (method: string): number => (ORDER.indexOf(method) + ORDER.length + 1) % (ORDER.length + 1);
  return [...new Set([...methods, 'OPTIONS'])]
    .sort((left, right) => rank(left) - rank(right) || (left < right ? -1 : 1))
    .join(', ');
}
