/**
 * The router: method and path → found | wrong method | none.
 *
 * A path without parameters is one look-up in a Map, at any table size. The others live in a radix tree over characters:
 * a node holds literal text, its children by first character, and, where a segment begins, one edge per converter in
 * order of specificity. Matching goes depth first, literal before uuid, int, float, str, path; a branch that dead-ends is
 * left again, and so is one whose template lacks the method. What was passed by makes up `Allow`.
 */
import { CONVERTERS, decodePath, parseTemplate, restoreSlashes } from './path.ts';
import type { Converter, ParsedTemplate } from './path.ts';

/** What a match is: the endpoint and its raw captures, the methods that exist instead, nothing, or a malformed escape. */
export type Match<T> =
  | { readonly kind: 'found'; readonly endpoint: T; readonly captures: readonly string[] }
  | { readonly kind: 'wrong-method'; readonly allow: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'malformed' };

type WrongMethod = Extract<Match<never>, { kind: 'wrong-method' }>;
/** What leaves with the same methods share: one list of them stays in the processor's cache, thousands do not. */
interface Methods {
  readonly methods: string[];
  readonly missed: WrongMethod;
}

/** What one path has: its methods, and beside each its endpoint. They are few: a list is faster than a Map, and smaller. */
interface Leaf<T> {
  methods: string[];
  readonly endpoints: T[];
  /** What it answers to other methods, ready made; before freeze() without a method. */
  missed: WrongMethod;
}
/** A leaf of the static table, with its matches ready made, beside the methods. */
interface StaticLeaf<T> extends Leaf<T> {
  matches: readonly Match<T>[];
}
interface Edge<T> {
  readonly converter: Converter;
  readonly node: Node<T>;
}

class Node<T> {
  text: string;
  /** The first character code of each child, beside `children`. */
  codes: number[] = [];
  children: Node<T>[] = [];
  edges: Edge<T>[] | null = null;
  leaf: Leaf<T> | null = null;

  constructor(text: string) { this.text = text; }
}

/** Up to this length texts are compared character by character. */
const SHORT = 12;
const SLASH = 47, PERCENT = 37;
const NO_CAPTURES: readonly string[] = Object.freeze([]);
const NONE: Match<never> = Object.freeze({ kind: 'none' });
const MALFORMED: Match<never> = Object.freeze({ kind: 'malformed' });
const UNFINISHED: WrongMethod = Object.freeze({ kind: 'wrong-method', allow: '' });

/** One walk's state: kept apart from the tree, so that a walk that is left again costs nothing to undo. */
class Walk<T> {
  readonly path: string;
  readonly method: string;
  captures: string[] = NO_CAPTURES as string[]; // not written to: a walk that finds something has its own
  /** A segment that was looked at has an escape: what was found may not be what the decoded path leads to. */
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
  readonly #root = new Node<T>('');
  /** Whether a template has the character that begins an escape. */
  #hasPercent = false;

  /** Enters an endpoint. Answers the one that has the same method and path already: a duplicate, which is not replaced. */
  add(method: string, template: string | ParsedTemplate, endpoint: T): T | undefined {
    const parsed = typeof template === 'string' ? parseTemplate(template) : template;
    // the Map is asked with the path as it came, so a text with "%", which always comes as an escape, belongs in the tree
    const hasPercent = parsed.template.includes('%');
    this.#hasPercent ||= hasPercent;
    const isStatic = parsed.parameters.length === 0 && !hasPercent;
    const leaf = isStatic ? this.#staticLeaf(parsed.template) : this.#treeLeaf(parsed);
    const index = leaf.methods.indexOf(method);
    if (index !== -1) return leaf.endpoints[index];
    leaf.methods.push(method);
    leaf.endpoints.push(endpoint);
    return undefined;
  }

  /** Lets HEAD follow GET (RFC 9110 §9.3.2), and writes down what each leaf allows. */
  freeze(): void {
    const shared = new Map<string, Methods>();
    for (const leaf of this.#static.values()) {
      finish(leaf, shared);
      leaf.matches = leaf.endpoints.map((endpoint) => ({ kind: 'found', endpoint, captures: NO_CAPTURES }));
    }
    const finishBelow = (node: Node<T>): void => {
      if (node.leaf !== null) finish(node.leaf, shared);
      node.children.forEach(finishBelow);
      node.edges?.forEach((edge) => finishBelow(edge.node));
    };
    finishBelow(this.#root);
  }

  match(method: string, path: string): Match<T> {
    const leaf = this.#static.get(path);
    if (leaf !== undefined) {
      const index = indexOfMethod(leaf, method);
      if (index !== -1) return leaf.matches[index]!;
    }
    if (this.#hasPercent && path.includes('%')) return this.#matchEncoded(method, path);
    const walk = new Walk<T>(path, method);
    const endpoint = descend(this.#root, walk, 0, 0);
    if (endpoint !== undefined && !walk.isEscaped) return { kind: 'found', endpoint, captures: walk.captures }; // so every character has been seen, and none is "%"
    return path.includes('%') ? this.#matchEncoded(method, path) : missed(walk, leaf);
  }

  #matchEncoded(method: string, path: string): Match<T> {
    const decoded = decodePath(path);
    if (decoded === undefined) return MALFORMED;
    const leaf = this.#static.get(decoded);
    const index = leaf === undefined ? -1 : indexOfMethod(leaf, method);
    if (index !== -1) return leaf!.matches[index]!;
    const walk = new Walk<T>(decoded, method);
    const endpoint = descend(this.#root, walk, 0, 0);
    return endpoint === undefined ? missed(walk, leaf) : { kind: 'found', endpoint, captures: walk.captures.map(restoreSlashes) };
  }

  #staticLeaf(path: string): StaticLeaf<T> {
    let leaf = this.#static.get(path);
    if (leaf === undefined) this.#static.set(path, leaf = { methods: [], endpoints: [], missed: UNFINISHED, matches: [] });
    return leaf;
  }

  #treeLeaf(parsed: ParsedTemplate): Leaf<T> {
    let node = this.#root;
    parsed.parameters.forEach((parameter, index) => {
      node = edgeOf(literalOf(node, parsed.literals[index]!), parameter.converter);
    });
    node = literalOf(node, parsed.literals.at(-1)!);
    return node.leaf ??= { methods: [], endpoints: [], missed: UNFINISHED };
  }
}

/** What is answered when no endpoint is found. */
function missed<T>(walk: Walk<T>, staticLeaf: StaticLeaf<T> | undefined): Match<T> {
  if (staticLeaf !== undefined) walk.miss(staticLeaf);
  if (walk.missed === null) return NONE;
  if (walk.missedMore === null) return walk.missed.missed;
  return { kind: 'wrong-method', allow: allowOf([walk.missed, ...walk.missedMore].flatMap((leaf) => leaf.methods)) };
}

/** The endpoint below `node`, whose own text has been matched up to `at`; `depth` captures have been taken. */
function descend<T>(node: Node<T>, walk: Walk<T>, at: number, depth: number): T | undefined {
  const { path } = walk;
  if (at === path.length) return endpointOf(node.leaf, walk, depth);
  const next = childOf(node, path.charCodeAt(at));
  if (next !== undefined && hasAt(path, next.text, at)) {
    const endpoint = descend(next, walk, at + next.text.length, depth);
    if (endpoint !== undefined) return endpoint;
  }
  return node.edges === null ? undefined : follow(node.edges, walk, at, depth);
}

function childOf<T>({ codes, children }: Node<T>, code: number): Node<T> | undefined {
  for (let index = 0; index < codes.length; index++) if (codes[index] === code) return children[index];
  return undefined;
}

/** `path.startsWith(text, at)`, whose first character has been compared: two thirds of the time for texts as short as most are. */
function hasAt(path: string, text: string, at: number): boolean {
  if (text.length > SHORT || path.length < at + text.length) return path.startsWith(text, at);
  for (let index = 1; index < text.length; index++) if (path.charCodeAt(at + index) !== text.charCodeAt(index)) return false;
  return true;
}

/** Tries the converters of a segment that begins at `at`, the most specific first. */
function follow<T>(edges: readonly Edge<T>[], walk: Walk<T>, at: number, depth: number): T | undefined {
  const { path } = walk;
  const end = endOfSegment(walk, at);
  for (let index = 0; index < edges.length; index++) {
    const edge = edges[index]!;
    const takesRest = edge.converter === CONVERTERS.path;
    const stop = takesRest ? path.length : end;
    if (!edge.converter.test(path, at, stop)) continue;
    const endpoint = takesRest ? endpointOf(edge.node.leaf, walk, depth + 1) : descend(edge.node, walk, end, depth + 1);
    if (endpoint === undefined) continue;
    if (takesRest && path.includes('%', end)) walk.isEscaped = true;
    walk.captures[depth] = path.slice(at, stop);
    return endpoint;
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

/** Makes room for the captures of an endpoint that is found: at once, for they are filled in from the last. */
function endpointOf<T>(leaf: Leaf<T> | null, walk: Walk<T>, depth: number): T | undefined {
  if (leaf === null) return undefined;
  const index = indexOfMethod(leaf, walk.method);
  if (index === -1) {
    walk.miss(leaf);
    return undefined;
  }
  walk.captures = depth === 1 ? [''] : depth === 2 ? ['', ''] : depth === 3 ? ['', '', ''] : new Array<string>(depth).fill('');
  return leaf.endpoints[index];
}

function indexOfMethod({ methods }: Leaf<unknown>, method: string): number {
  for (let index = 0; index < methods.length; index++) if (methods[index] === method) return index;
  return -1;
}

/** The node that ends with `text` below `from`, made by splitting where another text shares only its beginning. */
function literalOf<T>(from: Node<T>, text: string): Node<T> {
  if (text === '') return from;
  const index = from.codes.indexOf(text.charCodeAt(0));
  if (index === -1) {
    const node = new Node<T>(text);
    from.codes.push(text.charCodeAt(0));
    from.children.push(node);
    return node;
  }
  const child = from.children[index]!;
  let shared = 1;
  while (shared < text.length && shared < child.text.length && text.charCodeAt(shared) === child.text.charCodeAt(shared)) shared++;
  if (shared < child.text.length) {
    const upper = new Node<T>(child.text.slice(0, shared));
    child.text = child.text.slice(shared);
    upper.codes = [child.text.charCodeAt(0)];
    upper.children = [child];
    from.children[index] = upper;
    return literalOf(upper, text.slice(shared));
  }
  return literalOf(child, text.slice(shared));
}

function edgeOf<T>(node: Node<T>, converter: Converter): Node<T> {
  const edges = node.edges ??= [];
  const existing = edges.find((edge) => edge.converter === converter);
  if (existing !== undefined) return existing.node;
  const edge = { converter, node: new Node<T>('') };
  edges.push(edge);
  edges.sort((left, right) => left.converter.rank - right.converter.rank);
  return edge.node;
}

function finish<T>(leaf: Leaf<T>, shared: Map<string, Methods>): void {
  const get = leaf.methods.indexOf('GET');
  if (get !== -1 && !leaf.methods.includes('HEAD')) {
    leaf.methods.push('HEAD');
    leaf.endpoints.push(leaf.endpoints[get]!);
  }
  const key = leaf.methods.join(' ');
  let same = shared.get(key);
  if (same === undefined) shared.set(key, same = { methods: leaf.methods, missed: { kind: 'wrong-method', allow: allowOf(leaf.methods) } });
  leaf.methods = same.methods;
  leaf.missed = same.missed;
}

const ORDER = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** The value of `Allow`: each method once, the usual ones first; OPTIONS is always answered. */
export function allowOf(methods: Iterable<string>): string {
  const rank = (method: string): number => (ORDER.indexOf(method) + ORDER.length + 1) % (ORDER.length + 1);
  return [...new Set([...methods, 'OPTIONS'])].sort((left, right) => rank(left) - rank(right) || (left < right ? -1 : 1)).join(', ');
}
