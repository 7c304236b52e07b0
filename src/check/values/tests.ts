/**
 * Facts that tests prove: a comparison with texts of the program, membership in a list, and a match of a pattern with the
 * parts that it finds. Each result says what holds where the test succeeds, and where it fails.
 */
import { ALL } from '../../schema/pattern-parser.ts';
import * as texts from './text.ts';
import * as values from './value.ts';
import type { CharSet } from '../../schema/pattern-parser.ts';
import type { ClientPart, Fact, Facts, Part } from './text.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import type { Pattern, Value } from './value.ts';

const { ABSENT, KNOWN } = values;

/** Returns the result of matching a text against a pattern. */
export function matchOf({ source, flags }: Pattern, value: Value): Value {
  const regex = texts.patternOf(source, flags);
  if (regex === undefined) return KNOWN;
  const yes = texts.factsOfMatches(regex);
  const isSafe = /^\^\\?\/\(\?!\[?\\?\//.test(source) ? { ...yes, notFirst: ['//'] } : yes;
  return tested(value, isSafe, { may: ALL & ~texts.charsReplaced(regex), notFirst: texts.firstOnly(regex) });
}

/** Returns the match of a pattern, with the facts that hold if there is one. */
export function matched({ pattern }: Value, value: Value, at: number): Value {
  return pattern === undefined ? KNOWN : { ...matchOf(pattern, value), ...matchIn(pattern, value, at) };
}

/** Returns the match of a pattern in a text of a client, with its groups; undefined for a text without a part of a client. */
export function matchIn({ source, flags }: Pattern, value: Value, at: number): Value | undefined {
  if (values.clientIn(values.withoutMembers(value)) === undefined) return undefined;
  const found = [{ name: undefined, source }, ...groupsOf(source)].map(({ name, source: own }, index) => {
    const regex = texts.patternOf(own, flags);
    const used = regex === undefined ? undefined : texts.charsUsedIn(regex);
    const parts = texts
      .clientPartsOf(value.texts)
      .map((part) => [
        texts.derived(part, `match ${at} ${index}`, used === undefined ? {} : { may: part.may & used }),
      ]);
    return { name, value: { texts: parts } };
  });
  const named = found.flatMap(({ name, value: group }) =>
    name === undefined ? [] : [[name, group] as const],
  );
  const members = new Map<string, Value>([
    ...found.map((each, index) => [String(index), each.value] as const),
    ['groups', { texts: KNOWN.texts, members: new Map(named) }],
    ...['index', 'length', 'input'].map((key) => [key, key === 'input' ? value : KNOWN] as const),
  ]);
  return { texts: found[0]!.value.texts, members }; // the first one is the whole match
}

/** Returns the arguments that `replace()` passes to its callback: the match, and its groups. */
export function argumentsOf(pattern: Pattern | undefined, value: Value, at: number): readonly Value[] {
  const match = pattern && matchIn(pattern, value, at);
  return [...(match?.members ?? [])].flatMap(([key, member]) => (/^\d+$/.test(key) ? [member] : []));
}

interface Group {
  readonly name: string | undefined;
  readonly source: string;
}

/** Returns the groups of a pattern in the order of their numbers. */
function groupsOf(source: string): readonly Group[] {
  const groups: { start: number; name: string | undefined; end: number }[] = [];
  const open: ((typeof groups)[number] | undefined)[] = [];
  let isInClass = false;
  for (let at = 0; at < source.length; at++) {
    const char = source[at];
    if (char === '\\') at++;
    else if (char === '[') isInClass = true;
    else if (char === ']') isInClass = false;
    else if (isInClass) continue;
    else if (char === '(') {
      const head = /^\((?:\?<(\w+)>|(?!\?))/.exec(source.slice(at));
      const group =
        head === null ? undefined : { start: at + head[0].length, name: head[1], end: source.length };
      if (group !== undefined) groups.push(group);
      open.push(group);
    } else if (char === ')') {
      const group = open.pop();
      if (group !== undefined) group.end = at;
    }
  }
  return groups.map(({ name, start, end }) => ({ name, source: source.slice(start, end) }));
}

/** Returns the result of a test of one text: the facts where the test succeeds, and where it fails. */
export function tested(value: Value, yes: Fact | undefined, no: Fact | undefined): Value {
  const of = (fact: Fact | undefined): Facts => {
    const part = only(value);
    return part === undefined || fact === undefined ? texts.NO_FACTS : factsOf(part, fact);
  };
  return values.judged(of(yes), of(no));
}

/**
 * Returns the result of a comparison with texts of the program: where it is true, the value is one of them, and
 * elsewhere it is none of the known ones.
 */
export function among(value: Value = KNOWN, known?: Value): Value {
  const isNot = constantsIn(known);
  const { no } = tested(value, undefined, isNot.length === 0 ? undefined : { isNot });
  return values.judged(knownIn(value), no);
}

/** Returns the facts of a text that the program knows: it knows each part of a client in it, and each number of one. */
function knownIn({ texts: all }: Value): Facts {
  const [text = [], ...more] = all.filter(texts.isChosen);
  const facts = (more.length > 0 ? [] : text).map((part): Facts => {
    if (part.kind === 'client') return factsOf(part, { isKnown: true });
    const endless = texts.endlessIn(part);
    return endless === undefined ? texts.NO_FACTS : new Map([[endless.by, { isKnown: true }]]);
  });
  return facts.reduce(texts.allFacts, texts.NO_FACTS);
}

/** Returns the texts of a value, or of the items of a list. */
function constantsIn(value: Value | undefined): string[] {
  const items = value === undefined ? [] : [value, ...(value.members?.values() ?? []), value.items ?? KNOWN];
  return items.flatMap(({ texts: all }) => all.flatMap((text) => texts.constantOf(text) || []));
}

/** Returns the part of a client in a value with only one. */
export function only({ texts: all }: Value): ClientPart | undefined {
  const parts = all.filter(texts.hasClient).flat();
  const [part] = parts;
  return parts.length === 1 && part!.kind === 'client' ? part : undefined;
}

function factsOf(part: ClientPart, fact: Fact): Facts {
  const facts = new Map<string, Fact>([[part.id, fact]]);
  if (part.hostOf !== undefined && fact.isKnown === true) facts.set(part.hostOf, { hasKnownHost: true });
  const script = 'javascript:';
  if (part.schemeOf !== undefined && (fact.isKnown === true || fact.isNot?.includes(script) === true))
    facts.set(part.schemeOf, { notFirst: [script] });
  if (fact.notFirst?.some((text) => text.startsWith('..')) === true)
    for (const id of part.pathOf ?? []) facts.set(id, { isInside: true });
  return facts;
}

/** Returns the only text of a value, if the program knows it wholly. */
export function constantIn(value: Value | undefined): string | undefined {
  const [text, ...more] = value?.texts ?? [];
  return text === undefined || more.length > 0 ? undefined : texts.constantOf(text);
}

/** Whether a text ends with a separator, or is the setting of a folder with unknown text. */
export function isFolderOf({ texts: all, type }: Value): boolean {
  return all.every((text) => {
    const last = text.at(-1);
    if (last?.kind === 'literal')
      return /[/\\]$/.test(last.text) && (text.length > 1 || last.text.length > 1);
    return last !== undefined && type !== 'path.resolve';
  });
}

/** Returns a comparison of two values: where it is true, a part of a client equals a text of the program. */
export function equality(left: Value, right: Value): Value {
  for (const [one, other] of [
    [left, right],
    [right, left],
  ] as const) {
    const constant = constantIn(other);
    if (other === ABSENT || constant === '' || constant === '0') {
      const keys = new Map((one.keys ?? []).map((id) => [id, { isKnown: true }]));
      return values.judged(one.no ?? texts.NO_FACTS, texts.allFacts(one.yes ?? texts.NO_FACTS, keys));
    }
    // a member of a found record: if it equals a text, the record exists
    if (constant !== undefined && one.keys !== undefined && !one.texts.some(texts.hasClient))
      return values.judged(new Map(one.keys.map((id) => [id, { isKnown: true }])));
    if (constant === 'true' || constant === 'false') return constant === 'true' ? one : values.negation(one);
    if (one.texts.some(texts.hasClient) && !other.texts.some(texts.hasClient)) return among(one, other);
  }
  const [first, second] = [wholeOf(left), wholeOf(right)];
  if (first === undefined || second === undefined) return KNOWN;
  // equal texts share their facts, as in `name === basename(name)`
  return values.judged(texts.allFacts(factsOf(first, second), factsOf(second, first)));
}

/** Returns whether a comparison of a parameter with a text holds, if the caller passes a text; undefined for any other test. */
export function decidedBy(
  test: Node,
  module: SourceModule,
  seen: ReadonlyMap<Node, Value>,
): boolean | undefined {
  if (test.type !== 'binary' || !/^[!=]==?$/.test(test.operator) || test.left.type !== 'name')
    return undefined;
  if (module.lookup(test.left.name, test.left)?.kind !== 'parameter') return undefined;
  const [left, right] = [test.left, test.right].map((side) => constantIn(seen.get(side)));
  return left === undefined || right === undefined
    ? undefined
    : (left === right) === test.operator.startsWith('=');
}

/** Returns the part of a client that is the whole value. */
function wholeOf({ texts: [text, ...more] }: Value): ClientPart | undefined {
  const [part, ...others] = text ?? [];
  return more.length + others.length === 0 && part?.kind === 'client' ? part : undefined;
}

/** Returns the value with the members that an input can name, if its type has finitely many values. */
export function chosenOf(value: Value, index: Value | undefined): Value {
  const node = index?.declared?.node;
  if (node?.kind !== 'literal' || value.members === undefined || value.items !== undefined) return value;
  const members = node.values.flatMap((choice) => value.members?.get(String(choice)) ?? []);
  return members.length === 0
    ? value
    : { ...value, members: new Map(members.map((member, at) => [String(at), member])) };
}

/** Returns the part of a client in a key, if it may name a member that all objects share. */
export function freeKeyIn(key: Value | undefined): ClientPart | undefined {
  const part = key?.texts.find((text) => text.length === 1 && text[0]?.kind === 'client')?.[0];
  return part?.kind === 'client' && texts.mayNameAll(part) ? part : undefined;
}

/** Returns a text that tells whole texts apart, whatever tests have proved of their parts. */
function wholeIn({ texts: all }: Value): string {
  const named = (part: Part): string => {
    if (part.kind === 'client') return part.id + String(part.isFolded ?? '');
    return part.kind === 'literal' ? JSON.stringify(part.text) : (part.made?.by ?? '~');
  };
  return texts.digestOf(all.map((text) => text.map(named).join('+')).join('|'));
}

/** Returns the type of the index of the last place where a text has a character. */
export function lastIndexIn(text: Value, character: string): string {
  return `last ${character} of ${wholeIn(text)}`;
}

/** Returns the length of a text of a client. */
export function lengthOf(text: Value): Value {
  return { ...KNOWN, type: `length of ${wholeIn(text)}` };
}

/** Returns the sum of one and the index of the last place where a text has a character: the place after it. */
export function placeAfter(sides: readonly Value[]): Value | undefined {
  const place = sides.find(({ type }) => type?.startsWith('last ') === true);
  const isNext = sides.some((side) => constantIn(side) === '1');
  return place === undefined || !isNext ? undefined : { ...KNOWN, type: `after ${place.type}` };
}

/** Returns what is known of a text from a place on: it has the last one of a character, or none. */
export function factFrom(place: string | undefined, text: Value): Fact & { readonly without?: CharSet } {
  const character = /^(?:after )?last ([^]) of /.exec(place ?? '')?.[1];
  if (character === undefined) return {};
  const type = lastIndexIn(text, character);
  if (place === type) return { lacks: [character.repeat(2)] };
  const isOne = character < '\u0080' && place === `after ${type}`;
  return isOne ? { without: texts.charsOf(character) } : {};
}

/** Whether a difference is an index less the length of the same text: it counts from the end. */
export function isFromEnd(operator: string, [index, length]: readonly Value[]): boolean {
  const text = /^length of (.+)$/.exec(length?.type ?? '')?.[1];
  return operator === '-' && text !== undefined && index?.type?.endsWith(` of ${text}`) === true;
}

/** Whether a type says only that a value is a place in a text. */
export function isPlaceInText(type: string): boolean {
  return /^(?:(?:after )?last [^]|length) of /.test(type);
}

/** Whether a request makes an object: that it has a member says nothing about the key, unlike for a table of the program. */
export function isMadeHere({ members, lasting, type }: Value): boolean {
  return members !== undefined && lasting === undefined && type === undefined;
}
