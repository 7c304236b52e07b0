/**
 * Contents of texts: literal parts, parts that no client chooses, and parts of a client with the
 * characters that they may hold. A test such as `/^\w+$/.test(name)` adds facts about a part.
 */
import { hash } from 'node:crypto';
import { ALL, parsePattern } from '../../schema/pattern-parser.ts';
import type { CharSet, Tree } from '../../schema/pattern-parser.ts';
import type { Spot } from '../reader/modules.ts';
import type { RouteCall } from './functions.ts';

/** The declared input from which a value comes, such as `query.sort`. */
export interface Origin {
  /** Name of the input in messages: `query.sort`, `headers.referer`, `the message`. */
  readonly what: string;
  /** Member of the context that holds the input: `query`, `params`, `headers`. */
  readonly input: string;
  readonly route?: RouteCall | undefined;
  /** For a column of a row: the call that read it. */
  readonly made?: Made | undefined;
}

/** Facts about a part of a client. Each fact narrows what the part may contain. */
export interface Fact {
  /** Characters that the part may contain. */
  readonly may?: CharSet | undefined;
  /** Texts that do not occur in the part: `..` after `if (name.includes('..')) throw …`. */
  readonly lacks?: readonly string[] | undefined;
  /** Texts with which the part does not begin. */
  readonly notFirst?: readonly string[] | undefined;
  /** Texts that the part does not equal. */
  readonly isNot?: readonly string[] | undefined;
  /** Text with which the part begins. */
  readonly begins?: string | undefined;
  /** Whether the part equals one of finitely many texts of the program, or is the key of a found record. */
  readonly isKnown?: boolean | undefined;
  /** Whether the part is an address whose host was compared with hosts of the program. */
  readonly hasKnownHost?: boolean | undefined;
  /** Whether the part is a path that was compared with its folder. */
  readonly isInside?: boolean | undefined;
}

/** The call or member that made a value: `crypto.randomBytes`, or `request.host`. */
export interface Made extends Spot {
  readonly by: string;
  /** Whether the value is the same as long as the process lives: a setting, or what code makes of settings or at import. */
  readonly isLasting?: boolean;
  /** For an input: whether code has made different texts equal; see {@link ClientPart}. */
  readonly isFolded?: boolean;
  /** For a number without a declared maximum: whether its text, or arithmetic, has one. */
  readonly isBounded?: boolean;
  /** For a member of a row without a declared class, as long as nothing changes its text: the column. */
  readonly column?: string;
  /** For a column: the expression that brought it into a longer text. */
  readonly entry?: Spot;
}

/** A part of a text that a client chooses. Parts with one `id` hold the same text. */
export interface ClientPart extends Fact {
  readonly kind: 'client';
  readonly id: string;
  readonly origin: Origin;
  readonly may: CharSet;
  /** The most characters of the part. */
  readonly most?: number | undefined;
  /** Function of a package with unknown effect through which the part went. */
  readonly unknown?: string | undefined;
  /** Whether the declared type has so few values that a client can try all of them. */
  readonly isGuessable?: boolean | undefined;
  /** Whether the declaration says that the input is a secret. */
  readonly isSecret?: boolean | undefined;
  /** Whether code has made different texts equal: by case, or by a normal form of Unicode. */
  readonly isFolded?: boolean | undefined;
  /** For the host of an address: the id of the address. */
  readonly hostOf?: string | undefined;
  /** For the scheme of an address: the id of the address. */
  readonly schemeOf?: string | undefined;
  /** For a path relative to a folder: the ids of the parts of the path. */
  readonly pathOf?: readonly string[] | undefined;
  /** Operations that made the part of its input, such as `split . 80` with a place, the first one first. */
  readonly operations?: readonly string[] | undefined;
  /** Expression that brought the part into a longer text, or into markup. */
  readonly entry?: Spot | undefined;
}

/** A piece of a literal text, with its place in the sources. */
export interface Piece extends Spot {
  readonly text: string;
  /** Text of the piece for MySQL and MariaDB, if it differs: a quoted name, or the end of an upsert. */
  readonly ofMySql?: string;
  /** Offset of the first character in the source of the module. */
  readonly start: number;
  /** For a piece `?` of an SQL template: the expression whose value is bound. Undefined in other pieces. */
  readonly bound?: Bound;
  /** Whether the text has one item of a list in place of a number of items that is not known. */
  readonly isPartial?: true;
}

/** A value that an SQL template binds. */
export interface Bound {
  /** False if the value may be a part of the statement itself, because nothing is known about it. */
  readonly isCertain: boolean;
}

export type Part =
  | {
      readonly kind: 'literal';
      readonly text: string;
      /** Pieces of the text. Undefined for a text that an operation changed in a way that is not followed. */
      readonly from?: readonly Piece[] | undefined;
    }
  /** Text that the program or its operator chooses. */
  | { readonly kind: 'own'; readonly made?: Made }
  | ClientPart;
/** The parts of a text in their order. */
export type Text = readonly Part[];
/** Facts by the ids of parts. */
export type Facts = ReadonlyMap<string, Fact>;

export const NO_FACTS: Facts = new Map();
export const OWN: Part = { kind: 'own' };
const ASCII: readonly string[] = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code));
/** Characters that `encodeURIComponent()` leaves, and `%`. */
export const URI_COMPONENT: CharSet = charsOf("-_.!~*'()%", /\w/);
export const WORD: CharSet = charsOf('_', /\w/);
const DIGITS: CharSet = charsOf('0123456789');

/** Returns the set of the characters of a text, and of all ASCII characters that a pattern matches. */
export function charsOf(text: string, pattern?: RegExp): CharSet {
  const all = pattern === undefined ? text : text + ASCII.filter((char) => pattern.test(char)).join('');
  let set = 0n;
  for (const char of all) set |= 1n << BigInt(Math.min(char.codePointAt(0)!, 128));
  return set;
}

/** Whether a set contains one of the characters of a text. */
export function hasAny(set: CharSet, chars: string): boolean {
  return (set & charsOf(chars)) !== 0n;
}

export function clientPart(
  id: string,
  origin: Origin,
  fact: Fact & Pick<ClientPart, 'isGuessable' | 'isSecret' | 'most'> = {},
): ClientPart {
  return { ...fact, kind: 'client', id, origin, may: fact.may ?? ALL };
}

/** Returns a part that an operation made of another one. The facts of `part` that `fact` names are replaced. */
export function derived(
  part: ClientPart,
  operation: string,
  fact: Fact & { most?: number } = {},
): ClientPart {
  const {
    most: _most,
    begins: _begins,
    notFirst: _first,
    isNot: _not,
    hostOf: _host,
    schemeOf: _scheme,
    pathOf: _path,
    ...kept
  } = part;
  const { id } = part;
  const before = id.length > MAX_ID ? digestOf(id) + id.slice(-KEPT_OF_ID) : id;
  const operations = [...(part.operations ?? []), operation];
  return { ...kept, ...fact, may: fact.may ?? part.may, id: `${before} ${operation}`, operations };
}

/** The beginning of a longer id, in characters, becomes a digest, because each operation in a chain makes the id longer. */
const MAX_ID = 80;
/** The last operations stay readable, because rules ask for them. */
const KEPT_OF_ID = 40;

/** Returns a short text that differs for each text. */
export function digestOf(text: string): string {
  return hash('sha1', text, 'base64');
}

/** Whether the program writes a piece of markup in a text. */
export function hasMarkup(text: Text): boolean {
  return literalOf(text).includes('<');
}

/** Joins texts, and merges adjacent literals. */
export function concat(...texts: readonly Text[]): Text {
  const parts: Part[] = [];
  for (const text of texts)
    for (const part of text) {
      const last = parts.at(-1);
      if (part.kind === 'literal' && last?.kind === 'literal')
        parts[parts.length - 1] = {
          kind: 'literal',
          text: last.text + part.text,
          from: last.from && part.from && [...last.from, ...part.from],
        };
      else if (part.kind !== 'own' || part.made !== undefined || last?.kind !== 'own') parts.push(part);
    }
  return parts;
}

/** Returns a text as an operation leaves it that is not followed exactly. */
export function blurred(text: Text): Text {
  return text.some((part) => part.kind === 'literal' && part.from !== undefined)
    ? text.map((part) => (part.kind === 'literal' ? { kind: 'literal', text: part.text } : part))
    : text;
}

/** Returns the literal text of parts, with `hole` for every other part. */
export function literalOf(text: Text, hole = '\0'): string {
  return text.map((part) => (part.kind === 'literal' ? part.text : hole)).join('');
}

/** Whether texts are the same for each request: of constants, settings, and what a module makes of them. */
export function isLasting(texts: readonly Text[]): boolean {
  return (
    texts.some((text) => constantOf(text) !== '') &&
    texts
      .flat()
      .every((part) => part.kind === 'literal' || (part.kind === 'own' && part.made?.isLasting === true))
  );
}

/** Returns the text if it is known completely. */
export function constantOf(text: Text): string | undefined {
  return text.every((part) => part.kind === 'literal') ? literalOf(text) : undefined;
}

/** Whether a part is a piece of its input: a slice, or an item of a split text. With `by`, split by this text. */
export function isPiece({ operations = [] }: ClientPart, by?: string): boolean {
  return operations.some((each) =>
    by === undefined ? /^(?:slice|split) /.test(each) : each.startsWith(`split ${by} `),
  );
}

/** Whether a part comes from a column of a row, where a client may have stored it earlier. */
export function isStored({ origin }: ClientPart): boolean {
  return origin.input === 'row';
}

/** Whether a part may be the key `__proto__`, under which every object has an object that it shares with others. */
export function mayNameAll({ may, lacks = [], isNot = [], begins = '' }: ClientPart): boolean {
  const key = '__proto__';
  const isExcluded = isNot.includes(key) || lacks.some((text) => key.includes(text));
  return hasAny(may, '_') && !isExcluded && key.startsWith(begins);
}

export function hasClient(text: Text): boolean {
  return text.some(({ kind }) => kind === 'client');
}

/** Whether a client chooses a part of a text, or a number without a maximum in its place. */
export function isChosen(text: Text): boolean {
  return text.some((part) => part.kind === 'client' || endlessIn(part) !== undefined);
}

/** Returns the mark of a number of a client in a part, if the number has no maximum. */
export function endlessIn(part: Part): Made | undefined {
  return part.kind === 'own' && part.made !== undefined && hasNoMaximum(part.made) ? part.made : undefined;
}

/** Whether a mark says that a number of a client has no maximum. */
export function hasNoMaximum({ by, isBounded }: Made): boolean {
  return by.startsWith('endless ') && isBounded !== true;
}

export function narrowed(part: Part, facts: Facts): Part {
  const endless = endlessIn(part);
  if (endless !== undefined && facts.get(endless.by)?.isKnown === true)
    return { kind: 'own', made: { ...endless, by: `input ${endless.by.split(' ').at(-1)}` } };
  const fact = part.kind === 'client' ? facts.get(part.id) : undefined;
  if (part.kind !== 'client' || fact === undefined) return part;
  if (fact.isKnown !== true) return { ...part, ...bothOf(part, fact) };
  const made = inputMark(part.origin);
  const { isFolded } = part;
  return made === undefined ? OWN : { kind: 'own', made: isFolded === true ? { ...made, isFolded } : made };
}

/** Returns the mark of an input whose texts are safe; undefined for an input that belongs to no route. */
export function inputMark({ input, what, route }: Origin): Made | undefined {
  return route && input !== 'row'
    ? { by: `input ${what}`, node: route.call, module: route.module }
    : undefined;
}

/** Returns the mark of a number of a client without a maximum. Its last word is the name of the input. */
export function endlessMark(id: string, what: string): string {
  return `endless ${id} ${what}`;
}

/**
 * Returns the number that code reads from a part: a text of any characters names a number without a maximum, unless it
 * has at most `most` characters.
 */
export function numberPart(part: ClientPart, most: number): Part {
  const made = part.may === ALL ? inputMark(part.origin) : undefined;
  const isBounded = part.most !== undefined && part.most <= most;
  return made === undefined
    ? part
    : { kind: 'own', made: { ...made, by: endlessMark(part.id, part.origin.what), isBounded } };
}

/** Returns the facts that hold where both given facts hold. */
function bothOf(left: Fact, right: Fact): Fact & { readonly may: CharSet } {
  return {
    may: (left.may ?? ALL) & (right.may ?? ALL),
    lacks: [...(left.lacks ?? []), ...(right.lacks ?? [])],
    notFirst: [...(left.notFirst ?? []), ...(right.notFirst ?? [])],
    isNot: [...(left.isNot ?? []), ...(right.isNot ?? [])],
    begins: left.begins ?? right.begins,
    isKnown: left.isKnown === true || right.isKnown === true,
    hasKnownHost: left.hasKnownHost === true || right.hasKnownHost === true,
    isInside: left.isInside === true || right.isInside === true,
  };
}

function eitherOf(left: Fact, right: Fact): Fact {
  if (left.isKnown === true) return right;
  if (right.isKnown === true) return left;
  const shared = (a: readonly string[] = [], b: readonly string[] = []): string[] =>
    a.filter((text) => b.includes(text));
  return {
    may: (left.may ?? ALL) | (right.may ?? ALL),
    lacks: shared(left.lacks, right.lacks),
    notFirst: shared(left.notFirst, right.notFirst),
    isNot: shared(left.isNot, right.isNot),
    begins: left.begins === right.begins ? left.begins : undefined,
    hasKnownHost: left.hasKnownHost === true && right.hasKnownHost === true,
    isInside: left.isInside === true && right.isInside === true,
  };
}

/** Returns the facts of both maps. */
export function allFacts(left: Facts, right: Facts): Facts {
  if (left.size === 0) return right;
  const facts = new Map(left);
  for (const [id, fact] of right) facts.set(id, bothOf(facts.get(id) ?? {}, fact));
  return facts;
}

/** Returns the facts that hold in both cases. */
export function sharedFacts(left: Facts, right: Facts): Facts {
  const facts = new Map<string, Fact>();
  for (const [id, fact] of left) {
    const other = right.get(id);
    if (other !== undefined) facts.set(id, eitherOf(fact, other));
  }
  return facts;
}

/** Returns the pattern of a regular expression literal; undefined for flags or syntax that Node.js refuses. */
export function patternOf(source: string, flags: string): RegExp | undefined {
  try {
    return new RegExp(source, flags.replace(/[gy]/g, ''));
  } catch {
    return undefined;
  }
}

function treeOf(pattern: RegExp): Tree | undefined {
  try {
    return parsePattern(new RegExp(withoutProperties(pattern), pattern.flags)).tree;
  } catch {
    return undefined; // the parser does not know the syntax
  }
}

/**
 * Returns the source of a pattern with sets of characters in place of properties such as `\p{L}`. The parser
 * takes a property for every character.
 */
function withoutProperties({ source, unicode, unicodeSets }: RegExp): string {
  if (!unicode && !unicodeSets) return source;
  let isInClass = false;
  return source.replace(/\\[pP]\{[^}]*\}|\\[^]|[[\]]/g, (found) => {
    if (found === '[') isInClass = true;
    if (found === ']') isInClass = false;
    if (!/^\\p/i.test(found)) return found;
    const property = new RegExp(`^${found}$`, 'u');
    const codes = ASCII.filter((char) => property.test(char)).map((char) => char.charCodeAt(0));
    const set = `${codes.map((code) => `\\x${code.toString(16).padStart(2, '0')}`).join('')}\\u0080-\\uffff`;
    return isInClass ? set : `[${set}]`;
  });
}

/** Returns the characters of texts that match a pattern; ALL unless the pattern is anchored at both ends. */
function charsOfMatches(pattern: RegExp): CharSet {
  const tree = pattern.multiline ? undefined : treeOf(pattern);
  if (tree === undefined) return ALL;
  const branches = tree.kind === 'choice' ? tree.parts : [tree];
  return branches.every(isAnchored) ? usedIn(tree) : ALL;
}

/** Returns the characters of which a match consists; undefined for a pattern that the parser does not know. */
export function charsUsedIn(pattern: RegExp): CharSet | undefined {
  const tree = treeOf(pattern);
  return tree && usedIn(tree);
}

/** Returns the parts of clients in texts. */
export function clientPartsOf(texts: readonly Text[]): readonly ClientPart[] {
  return texts.flat().filter((part) => part.kind === 'client');
}

function isAnchored(tree: Tree): boolean {
  return tree.kind === 'sequence' && tree.parts[0]?.kind === 'start' && tree.parts.at(-1)?.kind === 'end';
}

function usedIn(tree: Tree): CharSet {
  if (tree.kind === 'chars') return tree.set;
  if (tree.kind === 'repeat') return usedIn(tree.part);
  return tree.kind === 'sequence' || tree.kind === 'choice'
    ? tree.parts.reduce((set, part) => set | usedIn(part), 0n)
    : 0n;
}

/**
 * Returns the characters that `replace()` with this pattern removes wherever they occur. Empty for a pattern
 * that matches longer texts.
 */
export function charsReplaced(pattern: RegExp): CharSet {
  const tree = treeOf(pattern);
  const branches = tree === undefined ? [] : tree.kind === 'choice' ? tree.parts : [tree];
  return branches.reduce((set, branch) => {
    const [only, ...more] = branch.kind === 'sequence' ? branch.parts : [branch];
    const one = only?.kind === 'repeat' && only.least <= 1 ? only.part : only;
    return more.length === 0 && one?.kind === 'chars' ? set | one.set : set;
  }, 0n);
}

/** Returns what follows `^` in a pattern; undefined for a pattern that does not begin with it. */
function afterStart(pattern: RegExp): readonly Tree[] | undefined {
  const tree = pattern.multiline ? undefined : treeOf(pattern);
  const [start, ...parts] = tree?.kind === 'sequence' ? tree.parts : [];
  return start?.kind === 'start' ? parts : undefined;
}

/** Returns the literal text with which every match of these parts begins: `/` for `\/(?!\/)`. */
function beginningOf(parts: readonly Tree[]): string {
  let text = '';
  for (const part of parts) {
    const code = part.kind === 'chars' ? singleIn(part.set) : undefined;
    if (code === undefined) break;
    text += String.fromCharCode(code);
  }
  return text;
}

/** Returns the characters with which no text begins that a pattern such as `^[=+]` does not match. */
export function firstOnly(pattern: RegExp): readonly string[] {
  const [lead, ...more] = afterStart(pattern) ?? [];
  return lead?.kind === 'chars' && more.length === 0 ? ASCII.filter((char) => hasAny(lead.set, char)) : [];
}

function firstIn([lead, ...more]: readonly Tree[]): CharSet {
  if (lead?.kind === 'chars') return lead.set;
  if (lead?.kind === 'sequence') return firstIn([...lead.parts, ...more]);
  if (lead?.kind === 'choice') return lead.parts.reduce((set, part) => set | firstIn([part, ...more]), 0n);
  if (lead?.kind === 'repeat') return firstIn([lead.part]) | (lead.least > 0 ? 0n : firstIn(more));
  return lead?.kind === 'end' ? 0n : ALL;
}

/** Whether few texts match a pattern: up to eight digits. */
export function hasFewMatches(pattern: RegExp): boolean {
  const all = afterStart(pattern) ?? [];
  const parts = all.at(-1)?.kind === 'end' ? all.slice(0, -1) : [];
  const digits = parts.map((part) => {
    const inner = part.kind === 'repeat' ? part.part : part;
    const isDigit = inner.kind === 'chars' && (inner.set & ~DIGITS) === 0n;
    return isDigit ? (part.kind === 'repeat' ? part.most : 1) : Infinity;
  });
  return parts.length > 0 && digits.reduce((sum, count) => sum + count, 0) <= 8;
}

/** Returns the facts about texts that match a pattern: their characters, and how they begin. */
export function factsOfMatches(pattern: RegExp): Fact & { readonly may: CharSet } {
  const parts = afterStart(pattern);
  const begins = beginningOf(parts ?? []);
  const first = parts === undefined ? ALL : firstIn(parts);
  return {
    may: charsOfMatches(pattern),
    notFirst: ['-', '/'].filter((char) => !hasAny(first, char)),
    ...(begins !== '' && { begins }),
  };
}

function singleIn(set: CharSet): number | undefined {
  const code = set.toString(2).length - 1;
  return set === 1n << BigInt(code) && code < 128 ? code : undefined;
}

/** Whether the text of a relative address may name another host: it begins with a part of a client, or `//`. */
export function namesHost([lead]: Text): boolean {
  if (lead?.kind === 'client')
    return hasAny(lead.may, '/\\:') && !(lead.begins !== undefined && isLocal(lead));
  return lead?.kind === 'literal' && /^(?:\/\/|\w+:|\/$)/.test(lead.text);
}

/** Whether a part begins with one slash, so that it is a path of this site. */
export function isLocal({ begins = '', lacks = [], notFirst = [] }: ClientPart): boolean {
  if (/^\/[^/\\]/.test(begins) || /^[a-z][a-z\d+.-]*:\/\/[^/]+\//i.test(begins)) return true;
  return begins === '/' && [...lacks, ...notFirst].some((text) => text === '//');
}
