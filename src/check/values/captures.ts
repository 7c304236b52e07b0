/** Parts of a text that a pattern finds: the match, and its groups with the characters that each may hold. */
import { charsUsedIn, clientsIn, derived, patternOf } from './text.ts';
import * as values from './value.ts';
import type { Pattern, Value } from './value.ts';

/** Returns the match of a pattern in a text of a client, with its groups; undefined for a text without a part of a client. */
export function matchIn({ source, flags }: Pattern, value: Value, at: number): Value | undefined {
  if (values.clientIn({ texts: value.texts }) === undefined) return undefined;
  const found = [{ name: undefined, source }, ...groupsOf(source)].map(({ name, source: own }, index) => {
    const regex = patternOf(own, flags);
    const used = regex === undefined ? undefined : charsUsedIn(regex);
    const texts = clientsIn(value.texts).map((part) => [
      derived(part, `match ${at} ${index}`, used === undefined ? {} : { may: part.may & used }),
    ]);
    return { name, value: { texts } };
  });
  const named = found.flatMap(({ name, value: group }) =>
    name === undefined ? [] : [[name, group] as const],
  );
  const members = new Map<string, Value>([
    ...found.map((each, index) => [String(index), each.value] as const),
    ['groups', { texts: values.KNOWN.texts, members: new Map(named) }],
    ...['index', 'length', 'input'].map((key) => [key, key === 'input' ? value : values.KNOWN] as const),
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
