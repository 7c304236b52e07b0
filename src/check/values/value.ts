/** Values of expressions: their texts, members, types and functions, and the tests that they stand for. */
import {
  derived,
  NO_FACTS,
  OWN,
  allFacts,
  blurred,
  concat,
  constantOf,
  hasClient,
  isChosen,
  inputMark,
  narrowed,
  numberPart,
  sharedFacts,
} from './text.ts';
import type { Call, ClassNode, Fn, Node } from '../reader/nodes.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { RouteCall } from './functions.ts';
import type { TypeNode } from '../../schema/schema.ts';
import type { ClientPart, Facts, Made, Origin, Part, Piece, Text } from './text.ts';

/** A function with the scope of its declaration. */
export interface Closure {
  readonly fn: Fn;
  readonly module: SourceModule;
  readonly scope: Scope;
  readonly self?: Value | undefined;
}

export interface ClassValue {
  readonly node: ClassNode;
  readonly module: SourceModule;
  readonly scope: Scope;
  /** For a class that `pick()` or `omit()` made: whether it has a field of the class. */
  readonly keeps?: ((field: string) => boolean) | undefined;
}

/** Type of a declared input: the characters of its texts, and the types of its members and items. */
export interface InputType {
  /** Undefined for a value of which every text is safe, such as a number. */
  readonly part: Pick<ClientPart, 'may' | 'notFirst' | 'isGuessable' | 'isSecret'> | undefined;
  /** For a text: the most characters. */
  readonly most?: number | undefined;
  /** For a number: its bounds. */
  readonly number?: { readonly isFloat: boolean; readonly hasLeast: boolean; readonly hasMost: boolean };
  member(key: string): InputType | undefined;
  /** Whether the type limits the keys of an object to declared fields. */
  readonly hasKnownKeys?: boolean;
  /** The compiled type. Undefined for a type that is only read from the sources. */
  readonly node?: TypeNode;
}

/** An input of a client whose members are inputs too: the request, `query`, a parsed body. */
export interface Source {
  readonly id: string;
  readonly origin: Origin;
  /** True for the request, whose members are known by name. */
  readonly isRequest?: boolean;
  /** Name of the input, such as `body`, if the value is the whole input. */
  readonly whole?: string | undefined;
  /** Members that code has taken out: `const { password, ...rest } = body`. */
  readonly lacks?: readonly string[];
  /** The call that declares the input: of a route, or of `provide()`. */
  readonly route?: RouteCall | undefined;
  readonly type?: InputType | undefined;
}

/** A regular expression: a literal, or one that `RegExp()` builds. */
export interface Pattern {
  readonly source: string;
  readonly flags: string;
  readonly isBuilt?: boolean;
}

/** The promise of a call, as long as no code awaits it. */
export interface Promised {
  /** The outermost call that returned the promise; undefined for the promise of a callback. */
  readonly call: Call | undefined;
  readonly module: SourceModule;
  /** Import of the called function; undefined for a function of the project. */
  readonly by: string | undefined;
  /** The asynchronous function of the project. */
  readonly fn: Fn | undefined;
  /** Whether it may reject without a handler of its own. */
  readonly mayFail: boolean;
}

/** A route with its options and the dependencies of its router. */
export interface Declaration {
  readonly route: RouteCall | undefined;
  readonly spec: Value | undefined;
  readonly deps: Value | undefined;
}

/** The knowledge about the value of an expression. */
export interface Value {
  /** Texts that the value may be, or become as a text. */
  readonly texts: readonly Text[];
  /** Import that made the value: `svc/db.db`, `URL`. */
  readonly type?: string | undefined;
  /** Members of an object. Shared by all values of one object, so that assignments are seen everywhere. */
  readonly members?: Map<string, Value> | undefined;
  /** Items of a list, and members whose key is not known. */
  items?: Value | undefined;
  readonly fn?: Closure | undefined;
  /** The functions that the value may be, if there are several. */
  readonly fns?: readonly Closure[] | undefined;
  readonly of?: ClassValue | undefined;
  readonly isInstance?: boolean | undefined;
  readonly source?: Source | undefined;
  /** Declared type of an input of a client, also of one of which every text is safe. */
  readonly declared?: InputType | undefined;
  /** Import to which the value refers: `node:fs.readFile` as `fs.readFile`. */
  readonly meaning?: string | undefined;
  readonly module?: SourceModule | undefined;
  /** Facts that hold where the value is true, and where it is false. */
  readonly yes?: Facts | undefined;
  readonly no?: Facts | undefined;
  readonly constant?: boolean | undefined;
  /** The promise that the value is, as long as no code awaits it. */
  readonly promise?: Promised | undefined;
  /** Result of a dependency: the value that a handler receives for `Depends(…)`. */
  readonly gives?: Value | undefined;
  /** The value that takes the place of a computed one after an error: a result of a function, or a value that a variable keeps. */
  readonly fallback?: Value | undefined;
  /** For the result of `requireIf(predicate)`: the function that tests the claims. */
  readonly predicate?: Closure | undefined;
  /** For the result of `provide(spec, fn)`: the spec. */
  readonly spec?: Value | undefined;
  /** For the result of `provide(spec, fn)`: the call. */
  readonly providedBy?: RouteCall | undefined;
  /** For the result of `Depends(source)`: the source, a function or class with its spec. */
  readonly depends?: Value | undefined;
  /** For a transaction, or an object that sends statements in one: its isolation level; '' for that of the database, '?' for an unknown one. */
  readonly isolation?: string | undefined;
  /** The call or member that made the whole object: a row of a query, or all environment variables. */
  readonly whole?: Made | undefined;
  /** Members that code has taken out of the whole object. */
  readonly lacks?: readonly string[] | undefined;
  readonly pattern?: Pattern | undefined;
  /** The expression that made an object which lives as long as the process. */
  readonly lasting?: Node | undefined;
  /** For a member that a key of a client chose: the key. */
  readonly byKey?: ClientPart | undefined;
  /** For the result of `app.websocket(path)`: the route. */
  readonly declares?: Declaration | undefined;
  /** Whether the absence of the value is a sign that a key is unknown: the result of a search. */
  readonly keys?: readonly string[] | undefined;
}

export const KNOWN: Value = { texts: [[OWN]] };
export const ABSENT: Value = { texts: [], constant: false };

export function textValue(...parts: Part[]): Value {
  return { texts: [parts] };
}

/** Returns the value of a literal. `from` has its place in the sources. */
export function literal(text: string, from?: Piece): Value {
  const part: Part = { kind: 'literal', text, from: from && [from] };
  return { texts: [[part]], constant: text !== '' };
}

/** Returns a value whose texts an operation changed in a way that is not followed exactly. */
export function inexact(value: Value): Value {
  const texts = value.texts.map(blurred);
  return texts.every((text, index) => text === value.texts[index]) ? value : { ...value, texts };
}

/** More alternatives of one value are dropped, those of clients last. */
const MAX_TEXTS = 12;

export function textsOf(values: readonly Value[]): readonly Text[] {
  const all = new Set<Text>();
  for (const { texts } of values) for (const text of texts) all.add(text);
  return first([...all], hasClient);
}

/** Returns as many alternatives as one value may have, those of clients first if there are more. */
function first<T>(all: readonly T[], isOfClient: (one: T) => boolean): readonly T[] {
  if (all.length <= MAX_TEXTS) return all;
  return [...all.filter(isOfClient), ...all.filter((one) => !isOfClient(one))].slice(0, MAX_TEXTS);
}

/** Members within members are merged to this depth, because an object may hold itself. */
const MAX_MERGED = 4;

/** Returns a value that is one of several. */
export function oneOf(values: readonly Value[], depth = 0): Value {
  const present = values.filter((value) => value !== ABSENT);
  const [first, ...more] = present;
  if (first === undefined) return values[0] ?? KNOWN;
  if (more.every((value) => value === first) && present.length === values.length) return first;
  const find = <K extends keyof Value>(key: K): Value[K] | undefined =>
    present.find((value) => value[key] !== undefined)?.[key];
  const items = present.flatMap((value) => value.items ?? []);
  return {
    texts: textsOf(present),
    type: find('type'),
    members: membersOf(present, depth),
    items: items.length === 0 || depth > MAX_MERGED ? items[0] : oneOf(items, depth + 1),
    fn: find('fn'),
    fns: functionsIn(present),
    of: find('of'),
    isInstance: find('isInstance'),
    source: find('source'),
    meaning: find('meaning'),
    gives: find('gives'),
    depends: find('depends'),
    isolation: find('isolation'),
    whole: find('whole'),
    lacks: lacksOf(present),
    byKey: find('byKey'),
    lasting: find('lasting'),
    fallback: find('fallback'),
    // a value that may be absent, or no promise, is not certainly one
    promise: values.every(({ promise }) => promise !== undefined) ? first.promise : undefined,
  };
}

/** Returns the value of `first || other`. An input keeps its type if it can only be left out: `body.note || null`. */
export function either(first: Value, other: Value): Value {
  const value = oneOf([first, other]);
  return other === ABSENT && first.declared !== undefined ? { ...value, declared: first.declared } : value;
}

/** Returns the members that each of the whole objects lacks. */
function lacksOf(values: readonly Value[]): readonly string[] | undefined {
  const [first, ...more] = values.filter(({ whole }) => whole !== undefined);
  return first?.lacks?.filter((key) => more.every(({ lacks }) => lacks?.includes(key) === true));
}

/** A value is one of at most so many functions. More are dropped. */
const MAX_FUNCTIONS = 24;

function functionsIn(values: readonly Value[]): readonly Closure[] | undefined {
  const all = new Map(values.flatMap(closuresOf).map((closure) => [closure.fn, closure]));
  return all.size < 2 ? undefined : [...all.values()].slice(0, MAX_FUNCTIONS);
}

/** Returns the functions that a value may be. */
export function closuresOf({ fn, fns }: Value): readonly Closure[] {
  return fns ?? (fn === undefined ? [] : [fn]);
}

function membersOf(values: readonly Value[], depth: number): Map<string, Value> | undefined {
  const all = [...new Set(values.flatMap(({ members }) => members ?? []))];
  if (all.length < 2 || depth > MAX_MERGED) return all[0];
  const keys = new Set(all.flatMap((members) => [...members.keys()]));
  return new Map(
    [...keys].map((key) => [
      key,
      oneOf(
        all.flatMap((members) => members.get(key) ?? []),
        depth + 1,
      ),
    ]),
  );
}

/** Whether nothing is known of a value but its text, which no client sent. */
export function isBare(value: Value): boolean {
  const { type, members, items, fn, of, source, meaning, module, promise, gives } = value;
  const known = [type, members, items, fn, of, source, meaning, module, promise, gives];
  return value !== ABSENT && known.every((each) => each === undefined) && !value.texts.some(hasClient);
}

/** Returns an address as a text, with the values of the parameters that code has added to it. */
export function addressText(value: Value): Value {
  const added = value.type === 'URL' ? [...(value.members?.values() ?? [])] : [];
  const marks = added.flatMap((member) => madeIn(member));
  if (marks.length === 0) return value;
  const parts = marks.map((made): Part => ({ kind: 'own', made }));
  return { texts: value.texts.map((text) => [...text, { kind: 'literal', text: '?' }, ...parts]) };
}

/** Returns the concatenation of values as texts. */
export function joined(values: readonly Value[]): Value {
  let texts: readonly Text[] = [[]];
  for (const value of values.map(addressText)) {
    const alternatives = value.texts.length === 0 ? [[OWN]] : value.texts;
    const pairs = texts.flatMap((before) => alternatives.map((text): readonly Text[] => [before, text]));
    texts = first(pairs, (pair) => pair.some(hasClient)).map((pair) => concat(...pair));
  }
  return { texts };
}

/** Returns the value with the facts that hold at a place. */
export function withFacts(value: Value, facts: Facts): Value {
  if (facts.size === 0 || !value.texts.some(isChosen)) return value;
  const texts = value.texts.map((text) => text.map((part) => narrowed(part, facts)));
  const isKnown = value.source !== undefined && facts.get(value.source.id)?.isKnown === true;
  return { ...value, texts, ...(isKnown && { source: undefined }) };
}

/** Returns the first part of a client in a value, also in the members of an object. */
export function clientIn(value: Value | undefined, depth = 0): ClientPart | undefined {
  if (value === undefined || depth > 3) return undefined;
  for (const text of value.texts) for (const part of text) if (part.kind === 'client') return part;
  for (const inner of innerOf(value)) {
    const found = clientIn(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A value of a client, for rules that ask for its origin only. */
export interface Given {
  readonly what: string;
  /** Name of the input, such as `body`, if the value is the whole input. */
  readonly part: string | undefined;
  readonly route: RouteCall | undefined;
  /** Whether the declared type of the input lets members through that it does not name. */
  readonly isOpen?: boolean;
}

/** Returns the origin of a value; undefined if no client sent a part of it. */
export function givenOf(value: Value | undefined): Given | undefined {
  const source = value?.source?.isRequest === true ? undefined : value?.source;
  const origin = source?.origin ?? clientIn(withoutMembers(value))?.origin;
  return origin?.input === 'row'
    ? undefined
    : origin && {
        what: origin.what,
        part: source?.whole,
        route: origin.route,
        isOpen: source?.type?.hasKnownKeys === false,
      };
}

/** Returns an object without the members that a pattern names: it no longer counts as the whole input. */
export function restOf(value: Value, named: readonly Node[]): Value {
  const keys = named.flatMap((each) => (each.type === 'entry' && each.key !== undefined ? [each.key] : []));
  const { members, source, ...rest } = value;
  return {
    ...rest,
    lacks: value.whole && [...(value.lacks ?? []), ...keys],
    members: members && new Map([...members].filter(([key]) => !keys.includes(key))),
    source: source && { ...source, whole: undefined, lacks: [...(source.lacks ?? []), ...keys] },
  };
}

/** Returns the values in an object or list. */
export function innerOf({ members, items }: Value): readonly Value[] {
  if (members === undefined) return items === undefined ? [] : [items];
  return items === undefined ? [...members.values()] : [...members.values(), items];
}

/**
 * Returns the pairs of `Object.entries()`, which are still all of an input. `key` and `item` stand for those of
 * members that are not known.
 */
export function entriesOf({ members, items, source, texts }: Value, key: Value, item: Value): Value {
  const pair = (name: Value, value: Value): Value => ({ ...listOf([name, value]), texts: value.texts });
  if (members === undefined || items !== undefined || source !== undefined || members.size === 0)
    return { texts, items: pair(key, item), source };
  return { ...listOf([...members].map(([name, value]) => pair(literal(name), value))), texts };
}

/** Returns the object of `Object.fromEntries()`, whose list has this pair. */
export function fromPairs({ source }: Value, pair: Value): Value | undefined {
  const value = pair.members?.get('1');
  return value && { texts: value.texts, items: value, source };
}

/** Returns the entries of a list of pairs whose keys are all constants. */
export function entriesIn({ members, items }: Value): Map<string, Value> | undefined {
  const pairs = items === undefined ? [...(members?.values() ?? [])] : [];
  const entries = pairs.flatMap(({ members: pair }) => {
    const [keys = [], value] = [pair?.get('0')?.texts, pair?.get('1')];
    const key = keys.length === 1 ? constantOf(keys[0]!) : undefined;
    return key === undefined || value === undefined ? [] : [[key, value] as const];
  });
  return pairs.length === 0 || entries.length < pairs.length ? undefined : new Map(entries);
}

/** Returns the parts of a value, also of its members, down to a depth. */
function partsIn(value: Value, depth: number, found: Part[] = []): readonly Part[] {
  for (const text of value.texts) found.push(...text);
  if (depth > 0) for (const inner of innerOf(value)) partsIn(inner, depth - 1, found);
  return found;
}

/** Returns the calls and members that made parts of a value, also of its members. */
export function madeIn(value: Value | undefined): readonly Made[] {
  const parts = value === undefined ? [] : partsIn(value, 4);
  return parts.flatMap((part) => (part.kind === 'own' ? (part.made ?? []) : []));
}

/** Whether a part of a value, also of its members, has this mark, or one that a pattern matches. */
export function hasMark(value: Value | undefined, mark: string | RegExp): boolean {
  return madeIn(value).some(({ by }) => (typeof mark === 'string' ? by === mark : mark.test(by)));
}

/** Returns a value without its members, for questions about its own text. */
export function withoutMembers(value: Value | undefined): Value | undefined {
  return value && { texts: value.texts };
}

/**
 * Returns a value that an operation computed, with the marks of its parts: the calls that made them, and the inputs of
 * clients.
 */
export function computedFrom(sources: readonly Value[], rename = (made: Made): Made => made): Value {
  const marks = new Map<string, Part>();
  for (const part of sources.flatMap(({ texts }) => texts.flat())) {
    const made =
      part.kind === 'own' ? part.made : part.kind === 'client' ? inputMark(part.origin) : undefined;
    if (made !== undefined) marks.set(signatureOfMade(made), { kind: 'own', made: rename(made) });
  }
  return marks.size === 0 ? KNOWN : { texts: [[...marks.values()]] };
}

/** Returns a value with a mark on each part that the program made, also on those of its members. */
export function marked(value: Value, made: Made, depth = 0): Value {
  const part: Part = { kind: 'own', made };
  const mark = (text: Text): Text => (text.every(({ kind }) => kind === 'own') ? [...text, part] : text);
  const inner = (member: Value): Value => (depth > 2 ? member : marked(member, made, depth + 1));
  return {
    ...value,
    texts: value.texts.length === 0 ? value.texts : value.texts.map(mark),
    members: value.members && new Map([...value.members].map(([key, member]) => [key, inner(member)])),
    items: value.items && inner(value.items),
  };
}

/** Returns the value with the members and items of its written type, which keep the marks of the value. */
export function ofType(value: Value, typed: Value): Value {
  return { ...value, ...withTexts(typed, value.texts), texts: value.texts };
}

/** Returns a value of which only the type is known with other texts, also in its members. */
function withTexts(value: Value, texts: readonly Text[]): Value {
  const { members, items, type, of } = value;
  if (type !== undefined || of !== undefined || texts.length === 0) return value;
  return {
    ...value,
    texts: value.texts === KNOWN.texts ? texts : value.texts,
    members: members && new Map([...members].map(([key, member]) => [key, withTexts(member, texts)])),
    items: items && withTexts(items, texts),
  };
}

/** Returns the client parts of a value, also of its members. */
export function clientsIn(value: Value | undefined): readonly ClientPart[] {
  return value === undefined ? [] : partsIn(value, 3).filter((part) => part.kind === 'client');
}

/** Returns the ids of the client parts of a value, also of its members. */
export function idsIn(value: Value | undefined): readonly string[] {
  return clientsIn(value).map(({ id }) => id);
}

/** Returns the number that code reads from a text: one of `most` characters is small, and `9e9` has three. */
export function numberFrom(value: Value, most = 2): Value {
  const limit = value.texts.every(({ length }) => length === 1) ? most : 0;
  return computedFrom([value, mapParts(value, (part) => numberPart(part, limit))]);
}

/** Changes each text of a value. Literal texts and those of the program stay as they are. */
export function mapParts(value: Value, change: (part: ClientPart) => Part): Value {
  return {
    texts: value.texts.map((text) => text.map((part) => (part.kind === 'client' ? change(part) : part))),
  };
}

/** Returns the piece of a split text at an index: what is known of one piece says nothing of another one. */
export function pieceAt(item: Value, index: number | string): Value {
  return clientsIn(item).some(({ operations = [] }) => operations.some((each) => each.startsWith('split ')))
    ? { ...item, ...mapParts(item, (part) => derived(part, `piece ${index}`)) }
    : item;
}

/** Returns a list of which every item is known. */
export function listOf(items: readonly Value[]): Value {
  return {
    texts: textsOf(items),
    members: new Map(items.map((item, index) => [String(index), item])),
  };
}

/** Returns a boolean with the facts that hold where it is true and where it is false. */
export function judged(yes: Facts, no: Facts = NO_FACTS): Value {
  return { texts: [[OWN]], yes, no };
}

export function negation(value: Value): Value {
  const { constant } = value;
  return {
    ...judged(factsIf(value, false), factsIf(value, true)),
    ...(constant !== undefined && { constant: !constant }),
  };
}

/** Returns the facts that hold if a value is true, or if it is false. */
export function factsIf(value: Value, isTrue: boolean): Facts {
  const facts = (isTrue ? value.yes : value.no) ?? NO_FACTS;
  if (!isTrue || value.keys === undefined) return facts;
  return allFacts(facts, new Map(value.keys.map((id) => [id, { isKnown: true }])));
}

/** Whether an operator is true only for a value that exists, or for an error of one class. */
export function isProof(operator: string, { meaning }: Value): boolean {
  return operator === '>' || (operator === 'instanceof' && meaning !== 'Error');
}

/** Returns the facts of the results of a function: what holds if its result is true, and if it is false. */
export function judgedResults(
  results: readonly { readonly value: Value; readonly facts: Facts }[],
): Pick<Value, 'yes' | 'no'> {
  const of = (isTrue: boolean): Facts | undefined => {
    const [first, ...more] = results
      .filter(({ value }) => value.constant !== !isTrue)
      .map(({ value, facts }) => allFacts(facts, factsIf(value, isTrue)));
    return first && more.reduce(sharedFacts, first);
  };
  return { yes: of(true), no: of(false) };
}

/**
 * A variable. Its value depends on the path through the code, so a {@link Path} holds it. `last` serves closures
 * that outlive the path.
 */
export interface Variable {
  readonly name: string;
  last?: Value;
}

/** The variables of a block or function, by name. */
export class Scope {
  readonly #variables = new Map<string, Variable>();
  readonly #around: Scope | undefined;
  readonly self: Value | undefined;

  constructor(around?: Scope, self?: Value) {
    this.#around = around;
    this.self = self ?? around?.self;
  }

  find(name: string): Variable | undefined {
    return this.#variables.get(name) ?? this.#around?.find(name);
  }

  declare(name: string): Variable {
    let variable = this.#variables.get(name);
    if (variable === undefined) this.#variables.set(name, (variable = { name }));
    return variable;
  }
}

const ids = new WeakMap<Fn, number>();
let count = 0;

/** Returns a number that differs for each function. */
export function idOfFunction(fn: Fn | undefined): number {
  if (fn === undefined) return 0;
  let id = ids.get(fn);
  if (id === undefined) ids.set(fn, (id = ++count));
  return id;
}

/** Returns a text that is equal for values with the same contents. */
export function signatureOf(value: Value, depth = 0): string {
  if (depth > 3) return '';
  let text = '';
  for (const each of value.texts) {
    for (const part of each) text += `${signatureOfPart(part)}+`;
    text += '|';
  }
  for (const [key, member] of value.members ?? []) text += `${key}:${signatureOf(member, depth + 1)},`;
  const items = value.items === undefined ? '' : signatureOf(value.items, depth + 1);
  return `${text}[${items}]f${idOfFunction(value.fn?.fn)}${value.type ?? ''}${value.type === 'Error' ? String(value.keys) : ''}${value.isolation ?? ' -'}${value.meaning ?? ''}${value.source?.id ?? ''}${signatureOfMade(value.whole)}${value.lacks?.join() ?? ''}${value.byKey?.id ?? ''}${value.lasting?.start ?? ''}`;
}

function signatureOfPart(part: Part): string {
  if (part.kind === 'own') return `~${signatureOfMade(part.made)}`;
  if (part.kind === 'literal') return JSON.stringify(part.text);
  const { id, may, lacks, begins, unknown, isInside, hasKnownHost, isFolded } = part;
  return [id, may.toString(32), lacks, begins, unknown, isInside, hasKnownHost, isFolded].join(' ');
}

function signatureOfMade(made: Made | undefined): string {
  return made === undefined
    ? ''
    : `${made.by} ${made.module.file}:${made.node.start}${made.column ?? ''}${made.isBounded ?? ''}`;
}
