/**
 * Effects of functions and methods on the contents of their arguments: one table by import, one by method of
 * texts, lists and addresses. A function of a package that is in neither keeps its input, with "unknown effect".
 */
import { ALL } from '../../schema/pattern-parser.ts';
import { itemOf, itemsOf, keyOf } from './inputs.ts';
import { awaited } from './promises.ts';
import {
  among,
  argumentsOf,
  constantIn,
  factFrom,
  isFolderOf,
  lastIndexIn,
  matchIn,
  matchOf,
  matched,
  only,
  tested,
} from './tests.ts';
import * as texts from './text.ts';
import * as values from './value.ts';
import { COMPUTED, ROW, changedColumn } from './marks.ts';
import type { Fact, Made, Text } from './text.ts';
import type { Source, Value } from './value.ts';

/** A call with the values of its arguments. `run` calls a callback. */
interface Operation {
  readonly args: readonly Value[];
  readonly receiver: Value;
  readonly at: number;
  /** The error that the callback of catch() receives. */
  readonly error: Value;
  run(callback: Value, args: readonly Value[]): Value;
}

type Effect = (operation: Operation) => Value;

const { KNOWN } = values;
/** Greatest number of items for each of which the function of map() is called. */
const MOST_MAPPED = 16;
/** Type of the value of an SQL template. */
export const SQL = 'svc/db.sql';
const { charsOf } = texts;
const first: Effect = ({ args: [value = KNOWN] }) => value;
const known: Effect = () => KNOWN;
const number: Effect = ({ args: [value = KNOWN] }) => values.numberFrom(value);
/** A whole number knows no exponent, so each character is one digit. */
const whole: Effect = ({ args: [value = KNOWN] }) => values.numberFrom(value, 4);
/** Returns a number of which the call that made it stays known. */
const counted: Effect = ({ args: [value = KNOWN] }) => ({
  texts: value.texts.some(texts.hasClient) ? KNOWN.texts : value.texts,
});
const self: Effect = ({ receiver }) => receiver;
/** Returns a value as a text, which has neither a type nor members of an input. */
const textOf = (value: Value): Value => ({
  ...values.addressText(value),
  type: undefined,
  source: undefined,
  whole: undefined,
});
const asBoolean = (value: Value): Value =>
  values.judged(values.factsIf(value, true), values.factsIf(value, false));

/** Returns the effect of a function that limits the characters of its first argument. */
const limited =
  (name: string, fact: Fact): Effect =>
  ({ args: [value = KNOWN] }) =>
    values.mapParts(value, (part) =>
      texts.derived(part, name, { ...fact, may: part.may & (fact.may ?? ALL), lacks: fact.lacks ?? [] }),
    );

/** Returns the effect of an escape: characters disappear, and those of the escapes are added. */
const without = (name: string, chars: string, added = ''): Effect =>
  limited(name, { may: (ALL & ~charsOf(chars)) | charsOf(added) });

/** Escapes no character of a scheme, so the text begins as before. */
const HTML: Effect = ({ args: [value = KNOWN] }) =>
  values.mapParts(value, (part) =>
    texts.derived(part, 'escaped', {
      may: part.may & ~charsOf('<>"\''),
      begins: /^[^<>"'&]+/.exec(part.begins ?? '')?.[0],
      notFirst: part.notFirst,
    }),
  );
const NAME = limited('named', { may: charsOf('_-.', /\w/) });

/** Returns the path that join() or resolve() makes. A path that begins with `/` keeps no `..`. */
const path: Effect = ({ args }) => {
  const parts = args.flatMap((arg, index) => (index === 0 ? [arg] : [values.literal('/'), arg]));
  return rooted(values.joined(parts.length === 0 ? [KNOWN] : parts));
};
const resolved: Effect = (operation) => ({
  texts: path(operation).texts.map((text) =>
    texts.literalOf(text).startsWith('/') ? text : texts.concat([texts.OWN], text),
  ),
  type: 'path.resolve',
});

function rooted(value: Value): Value {
  return {
    texts: value.texts.map((text) =>
      text[0]?.kind === 'literal' && text[0].text.startsWith('/')
        ? text.map((part, index) =>
            part.kind === 'client' && /^\/+$/.test(texts.literalOf(text.slice(0, index)))
              ? texts.derived(part, 'rooted', { lacks: [...(part.lacks ?? []), '..'] })
              : part,
          )
        : text,
    ),
  };
}

const base: Effect = (operation) =>
  limited('basename', { may: ALL & ~charsOf('/\\') })({ ...operation, args: operation.args.map(lastName) });

/** Removes the folders before the last part of a path. */
function lastName(value: Value): Value {
  return {
    texts: value.texts.map((text) => {
      const index = text.findLastIndex(({ kind }) => kind === 'client');
      return index === -1 ? text : text.slice(index);
    }),
  };
}

/** Type of the parameters of an address. */
const SEARCH = 'URLSearchParams';

/** Returns the parts of the site in the base of an address. */
function siteOf(base: Value): Text {
  const parts = base.texts.flat().filter((part) => part.kind === 'own' && part.made !== undefined);
  return parts.length === 0 ? [texts.OWN] : parts;
}

const address: Effect = ({ args: [value = KNOWN, on] }) => {
  const found =
    on === undefined
      ? value
      : { texts: value.texts.map((text) => (texts.namesHost(text) ? text : texts.concat(siteOf(on), text))) };
  const isOwn = values.clientIn(found) === undefined;
  // an address of a client keeps its own parameters
  const members = isOwn
    ? new Map([['searchParams', { texts: [], type: SEARCH, members: new Map() }]])
    : undefined;
  return { texts: found.texts, type: 'URL', members };
};

/** Returns the mark of a value of a document: a column with a document is written as a whole. */
const changed = (made: Made): Made => (made.by === ROW ? { ...made, by: COMPUTED } : made);

const localPath = limited('local', { begins: '/', lacks: ['//', '\\'], hasKnownHost: true });

const decoded: Effect = ({ args: [value = KNOWN] }) =>
  values.mapParts(value, (part) => texts.derived(part, 'decoded', { may: ALL, lacks: [] }));

/** Returns one effect for several functions. */
function alike(effect: Effect, names: string): Readonly<Record<string, Effect>> {
  return Object.fromEntries(names.split(' ').map((name) => [name, effect]));
}

/** Effects of functions by their import. A name of Node.js has no `node:`. Globals have their own name. */
const FUNCTIONS: Readonly<Record<string, Effect | undefined>> = {
  ...alike(known, 'Date Array.isArray sqlstring.escape sqlstring.escapeId pg-format'),
  ...alike(decoded, 'decodeURIComponent atob'),
  ...alike(
    first,
    'decodeURI Object.freeze Promise.all Promise.resolve Buffer.from Uint8Array TextDecoder.decode String.raw url.fileURLToPath url.pathToFileURL path.dirname',
  ),
  structuredClone: ({ args: [{ members, ...value } = KNOWN] }) => ({
    ...value,
    members: members && new Map(members),
    lasting: undefined,
  }),
  ...alike(address, 'URL URL.parse'),
  ...alike(counted, 'Math.abs Math.ceil Math.floor Math.round Math.trunc'),
  ...alike(path, 'path.join path.posix.join'),
  ...alike(resolved, 'path.resolve path.posix.resolve'),
  ...alike(base, 'path.basename path.posix.basename path.extname sanitize-filename'),
  ...alike(
    HTML,
    'svc.escapeHtml escape-html he.encode he.escape html-escaper.escape entities.encodeHTML entities.escapeUTF8 lodash.escape lodash-es.escape validator.escape sanitize-html xss dompurify.sanitize isomorphic-dompurify.sanitize',
  ),
  ...alike(NAME, 'slugify @sindresorhus/slugify lodash.kebabCase'),
  ...alike(number, 'Number parseFloat Number.parseFloat'),
  ...alike(whole, 'BigInt parseInt Number.parseInt'),
  String: ({ args: [value = KNOWN] }) => textOf(value),
  Boolean: ({ args: [value = KNOWN] }) => asBoolean(value),
  encodeURIComponent: limited('encoded', { may: texts.URI_COMPONENT }),
  encodeURI: without('encoded', '<>"\\` {}|^', '%'),
  RegExp: ({ args: [source, flags] }) => {
    const text = constantIn(source);
    const pattern =
      text === undefined ? undefined : { source: text, flags: constantIn(flags) ?? '', isBuilt: true };
    return { texts: KNOWN.texts, type: 'RegExp', pattern };
  },
  Request: ({ args: [value = KNOWN] }) => ({ texts: value.texts, type: 'Request' }),
  'JSON.parse': ({ args: [value = KNOWN] }) => {
    const part = values.clientIn(value);
    if (value.source !== undefined) return value;
    if (part === undefined) return values.computedFrom([value], changed);
    const source: Source = { id: `${part.id} parsed`, origin: part.origin };
    return { texts: [[texts.derived(part, 'parsed')]], source };
  },
  'JSON.stringify': ({ args: [value = KNOWN] }) => {
    const part = values.clientIn(value);
    // no link on another site can set all headers or cookies
    const isSent = /^(?:headers|cookies)$/.test(value.source?.whole ?? '');
    const all = values.madeIn(value).map((made) => values.textValue({ kind: 'own', made }));
    const marks = values.computedFrom(all, changed);
    if (part === undefined || isSent) return marks;
    const json = texts.derived(part, 'json', { may: part.may & ~charsOf('\n\r') });
    return values.textValue(texts.OWN, json, ...marks.texts.flat());
  },
  'Object.assign': ({ args }) => values.oneOf(args),
  'Object.create': ({ args: [of] }) => (of === values.ABSENT ? { ...KNOWN, members: new Map() } : KNOWN),
  'Object.keys': ({ args: [value = KNOWN] }) => {
    const key = keyOf(value);
    return { texts: key.texts, items: key, lasting: value.lasting };
  },
  'Object.values': ({ args: [value = KNOWN] }) => itemsOf(value),
  'Object.entries': ({ args: [of = KNOWN] }) => values.entriesOf(of, keyOf(of), itemOf(itemsOf(of))),
  'Object.fromEntries': ({ args: [list = KNOWN] }) => values.fromPairs(list, itemOf(list)) ?? itemsOf(list),
  'Object.hasOwn': ({ args: [, key] }) => among(key),
  'Array.from': ({ args: [list = KNOWN, callback], run }) => {
    if (callback?.fn === undefined) return list;
    const items = run(callback, [itemOf(list), KNOWN]);
    return { texts: items.texts, items };
  },
  'Buffer.concat': ({ args: [list = KNOWN] }) => itemOf(list),
  'RegExp.escape': limited('escaped', { may: charsOf('', /[\w\\-]/) | charsOf('\u0080') }),
  'util.format': ({ args }) => values.joined(args),
  ...alike(({ args: [value = KNOWN] }) => rooted(value), 'path.normalize path.posix.normalize'),
  'path.relative': ({ args: [, value = KNOWN] }) => {
    const ids = values.idsIn(value);
    const part = values.clientIn(value);
    return part === undefined
      ? KNOWN
      : values.textValue({ ...texts.derived(part, 'relative'), may: ALL, pathOf: ids });
  },
  'path.isAbsolute': ({ args: [value = KNOWN] }) => tested(value, undefined, { notFirst: ['/'] }),
  'svc.localPath': (operation) =>
    operation.args[0]?.texts.some(texts.hasClient) === true ? localPath(operation) : KNOWN,
  'shell-quote.quote': without('quoted', '\'"`\\;'),
};

const LETTERS = charsOf('', /[A-Za-z]/);

/** Returns the value with parts whose letters may differ in case and at the ends. */
const cased: Effect = ({ receiver }) =>
  values.mapParts(receiver, (part) => ({
    ...part,
    may: (part.may & LETTERS) === 0n ? part.may : part.may | LETTERS,
    isFolded: true,
  }));

/** Returns the most characters of a slice between two constants. */
function spanOf(from: Value | undefined, to: Value | undefined): number {
  const ends = [from, to].map((each) => Number(constantIn(each) ?? NaN));
  return ends.every((end) => end >= 0) ? Math.max(...ends) : Infinity;
}

const sliced: Effect = ({ receiver, args: [from, to], at }) => {
  const isStart = constantIn(from) === '0';
  if (isStart && constantIn(to) === '1') return KNOWN;
  const { lacks = [], without = 0n } = factFrom(from?.type, receiver);
  const kept = receiver.texts.map((text) => text.filter(({ kind }) => isStart || kind !== 'literal'));
  const slices = values.mapParts({ texts: kept }, (part) => ({
    ...texts.derived(part, `slice ${at}`, {
      most: Math.min(part.most ?? Infinity, spanOf(from, to)),
      may: part.may & ~without,
      lacks: [...(part.lacks ?? []), ...lacks],
    }),
    ...(isStart && { begins: part.begins }),
  }));
  return { ...slices, items: receiver.items, source: receiver.source };
};

/** replace() changes the first match only, unless the pattern has the flag `g`. */
const replaced =
  (isOfAll: boolean): Effect =>
  ({ receiver, args: [search, by = KNOWN], at, run }) => {
    const pattern = search?.pattern;
    const isAll = isOfAll || pattern?.flags.includes('g') === true;
    const text = constantIn(search);
    const regex = pattern === undefined ? undefined : texts.patternOf(pattern.source, pattern.flags);
    const one = regex !== undefined ? texts.charsReplaced(regex) : text?.length === 1 ? charsOf(text) : 0n;
    const gone = isAll ? one : 0n;
    const [match = KNOWN, ...groups] = argumentsOf(pattern, receiver, at);
    const new_ = by.fn === undefined ? by : run(by, [match, ...groups]);
    // whole elements, such as <br> and <b>…</b>, stay markup of the program
    const isMarkup = new_.texts.every((each) => /^(?:<[^<>]+>[^<>]*)+$/.test(texts.literalOf(each, '…')));
    const added = isMarkup
      ? 0n
      : new_.texts.reduce((set, each) => set | charsOf(texts.literalOf(each, '')), 0n);
    const written = constantIn(new_) ?? '';
    const marks = values
      .computedFrom([new_])
      .texts.flat()
      .filter((part) => part.kind === 'own' && part.made);
    const kept = values.mapParts(receiver, (part) => {
      // where a text takes the place of each match, the beginning is this text, or what it was before
      const notFirst =
        written === '' ? [] : part.notFirst?.filter((lead) => !written.startsWith(lead[0] ?? ''));
      const may = (part.may & ~gone) | added;
      const fact = gone === 0n ? { may, lacks: [] } : { may, notFirst };
      return texts.derived(part, `replace ${at}`, fact);
    });
    const found = regex ?? text;
    const filled =
      found === undefined || !new_.texts.some(texts.hasClient)
        ? kept.texts
        : values.textsOf(
            kept.texts.map((each) => ({
              texts: new_.texts.map((part) => filledWith(each, found, isAll, part)),
            })),
          );
    return { texts: filled.map((each) => [...each, ...marks]) };
  };

/** Returns a text with another one where a search finds something in the texts of the program. */
function filledWith(text: Text, search: string | RegExp, isAll: boolean, by: Text): Text {
  const parts = text.flatMap((part): Text => {
    if (part.kind !== 'literal') return [part];
    const marked = isAll ? part.text.replaceAll(globally(search), '\0') : part.text.replace(search, '\0');
    return marked
      .split('\0')
      .flatMap((piece, index) => [...(index === 0 ? [] : by), { kind: 'literal', text: piece } as const]);
  });
  return parts.length > MAX_PARTS ? [...text, ...by] : texts.concat(parts);
}

/** A text that a search would cut into more parts is one text, with the other one behind it. */
const MAX_PARTS = 200;

function globally(search: string | RegExp): string | RegExp {
  return typeof search === 'string' || search.global ? search : new RegExp(search.source, `${search.flags}g`);
}

/** Returns the result of the function that a method of lists calls for each item. */
const called = ({ receiver, args: [callback = KNOWN], run }: Operation, item = itemOf(receiver)): Value =>
  run(callback, [item, KNOWN, receiver]);

const mapped: Effect = (operation) => {
  const items = called(operation);
  return { texts: items.texts, items };
};

const added: Effect = ({ receiver, args }) => {
  if (receiver === KNOWN) return KNOWN;
  if (
    values.clientIn({ texts: [], items: values.oneOf([...args, KNOWN]) }) !== undefined ||
    receiver.members?.size === 0 ||
    args.some(({ type }) => type === SQL)
  )
    receiver.items =
      receiver.items === undefined ? values.oneOf(args) : values.oneOf([receiver.items, ...args]);
  // a list that grows has further texts; templates are joined by functions that know this
  if (args.some(({ type }) => type !== SQL))
    for (const [key, member] of receiver.members ?? []) receiver.members?.set(key, values.inexact(member));
  return KNOWN;
};

/** Returns the item at an index of a list of which every item is known; an index below zero counts from the end. */
function memberAt({ members, items }: Value, index: string | undefined): Value | undefined {
  return items !== undefined || index === undefined ? undefined : [...(members?.values() ?? [])].at(+index);
}

/** Returns a character of the program that a computed index chooses: it is as predictable as the index. */
export function characterAt(of: Value, index: Value): Value | undefined {
  const isList = of.items !== undefined || of.members !== undefined;
  const isOfProgram = isList
    ? itemOf(of).texts.every((text) => texts.constantOf(text)?.length === 1)
    : constantIn(of) !== undefined;
  const chosen = values.computedFrom([index]);
  return isOfProgram && chosen !== KNOWN && values.clientIn(index) === undefined ? chosen : undefined;
}

/** Functions whose result has exactly the texts of their argument. */
const EXACT =
  /^(?:String|structuredClone|Object\.(?:freeze|assign|values)|Promise\.(?:all|resolve)|Array\.from)$/;
const CHANGING =
  /^(?:normalize|to(?:Locale)?(?:Lower|Upper)Case|slice|substring|substr|pad(?:Start|End)|repeat|replace(?:All)?|split|reduce)$/;

/** Returns the result of a function; undefined for a function without an effect here. */
export function resultOfFunction(meaning: string, operation: Operation): Value | undefined {
  const effect = Object.hasOwn(FUNCTIONS, meaning) ? FUNCTIONS[meaning] : undefined;
  const result = effect?.(operation);
  return result === undefined || EXACT.test(meaning) ? result : changedColumn(values.inexact(result));
}

/** Returns the result of a method; undefined for a method without an effect here. */
export function resultOfMethod(method: string, operation: Operation): Value | undefined {
  const effect = Object.hasOwn(METHODS, method) ? METHODS[method] : undefined;
  const result = effect?.(operation);
  const isExact = method === 'join' ? operation.receiver.items === undefined : !CHANGING.test(method);
  if (result === undefined || isExact) return result;
  return /^(?:replace|split)/.test(method) ? changedColumn(values.inexact(result)) : values.inexact(result);
}

/** Effects of methods of texts, lists, addresses and patterns. Other methods of known values return known values. */
const METHODS: Readonly<Record<string, Effect | undefined>> = {
  forEach: (operation) => {
    called(operation);
    return KNOWN;
  },
  every: (operation) => values.judged(values.factsIf(called(operation), true)),
  /** The result of the callback takes the place of a result that cannot be computed. */
  catch: ({ receiver, args: [callback = KNOWN], error, run }) => ({
    ...receiver,
    fallback: run(callback, [error]),
  }),
  finally: ({ receiver, args: [callback = KNOWN], run }) => {
    run(callback, [KNOWN]);
    return receiver;
  },
  ...alike(cased, 'toLowerCase toUpperCase toLocaleLowerCase toLocaleUpperCase'),
  ...alike(sliced, 'slice substring substr subarray'),
  ...alike(added, 'push unshift add append'),
  ...alike(
    self,
    'valueOf getTime toISOString toJSON trim trimStart trimEnd padStart padEnd repeat sort toSorted bind setMaxListeners reverse toReversed values',
  ),
  toString: ({ receiver }: Operation) => textOf(receiver),
  normalize: ({ receiver }) => values.mapParts(receiver, (part) => ({ ...part, isFolded: true })),
  replace: replaced(false),
  replaceAll: replaced(true),
  concat: ({ receiver, args }) =>
    receiver.items === undefined && receiver.members === undefined
      ? values.joined([receiver, ...args])
      : { texts: receiver.texts, items: values.oneOf([receiver, ...args].map(itemOf)) },
  split: ({ receiver, args: [by], at }) => {
    const text = constantIn(by);
    const items = values.mapParts(receiver, (part) =>
      texts.derived(
        part,
        `split ${text ?? ''} ${at}`,
        text?.length === 1 ? { may: part.may & ~charsOf(text) } : {},
      ),
    );
    return {
      texts: items.texts,
      items: { texts: items.texts.flatMap((each) => each.map((part) => [part])) },
    };
  },
  match: ({ receiver, args: [arg = KNOWN], at }) => matched(arg, receiver, at),
  matchAll: ({ receiver, args: [{ pattern } = KNOWN], at }) => {
    const match = pattern && matchIn(pattern, receiver, at);
    return match === undefined ? KNOWN : { texts: match.texts, items: match };
  },
  includes: ({ receiver, args: [arg = KNOWN] }) => {
    if (values.clientIn(receiver) === undefined || receiver.items !== undefined) return among(arg, receiver);
    const text = constantIn(arg);
    if (text === undefined) return KNOWN;
    return tested(receiver, undefined, text.length === 1 ? { may: ALL & ~charsOf(text) } : { lacks: [text] });
  },
  startsWith: ({ receiver, args: [arg = KNOWN] }) => {
    const text = constantIn(arg);
    const isFolder =
      isFolderOf(arg) && receiver.texts.some((each) => each[0]?.kind !== 'client' || text === undefined);
    if (isFolder) {
      const ids = values.idsIn(receiver);
      return values.judged(new Map(ids.map((id) => [id, { isInside: true, hasKnownHost: true }])));
    }
    return text === undefined ? KNOWN : tested(receiver, { begins: text }, { notFirst: [text] });
  },
  /** The end of a host, or origin, says who owns it if it begins with a dot: `host.endsWith('.example.org')`. */
  endsWith: ({ receiver, args: [arg = KNOWN] }) =>
    (only(receiver)?.hostOf !== undefined || only(receiver)?.origin.what === 'headers.origin') &&
    arg.texts.every(([lead]) => lead?.kind === 'literal' && lead.text.startsWith('.'))
      ? among(receiver)
      : KNOWN,
  has: ({ receiver, args: [key] }) => (receiver.source === undefined ? among(key, receiver) : KNOWN),
  test: ({ receiver, args: [arg = KNOWN] }) =>
    receiver.pattern === undefined ? KNOWN : matchOf(receiver.pattern, arg),
  exec: ({ receiver, args: [arg = KNOWN], at }) => matched(receiver, arg, at),
  /** map() calls its function for each item of a short list that the program writes. */
  map: (operation) => {
    const { members, items } = operation.receiver;
    if (items !== undefined || members === undefined || members.size === 0 || members.size > MOST_MAPPED)
      return mapped(operation);
    const results = [...members].map(([key, item]) => [key, called(operation, item)] as const);
    return { texts: values.oneOf(results.map(([, result]) => result)).texts, members: new Map(results) };
  },
  flatMap: mapped,
  filter: (operation) => {
    const { receiver } = operation;
    const facts = values.factsIf(called(operation), true);
    const items = values.withFacts(itemOf(receiver), facts);
    // a test that proves something of the items leaves some out
    return { texts: items.texts, items, source: facts.size === 0 ? receiver.source : undefined };
  },
  some: (operation) => asBoolean(called(operation)),
  /** find() with a key of a client: the item exists only for a known key, and where its test holds. */
  find: (operation) => {
    const facts = values.factsIf(called(operation), true);
    const own = values.idsIn(operation.receiver);
    return {
      ...itemOf(operation.receiver),
      yes: new Map([...facts].filter(([id]) => !own.includes(id))),
      keys: [...facts].flatMap(([id, { isKnown }]) => (isKnown === true ? [id] : [])),
    };
  },
  reduce: ({ receiver, args: [callback = KNOWN, start = KNOWN], run }) =>
    run(callback, [start, itemOf(receiver), KNOWN]),
  join: ({ receiver, args: [by = values.literal(',')] }) => {
    const list = [...(receiver.members?.values() ?? [])];
    const items =
      receiver.items === undefined && list.length > 0 ? list : [...list, itemOf(receiver), itemOf(receiver)];
    return values.joined(items.flatMap((item, index) => (index === 0 ? [item] : [by, item])));
  },
  /** set() of a map. Afterwards the values of its keys are no longer known one by one. */
  set: ({ receiver, args: [, value = KNOWN] }) => {
    if (receiver.type === 'Map') receiver.members?.clear();
    if (receiver.type === SEARCH && receiver.items === undefined) receiver.items = value;
    else if (receiver !== KNOWN && receiver.items !== undefined)
      receiver.items = values.oneOf([receiver.items, value]);
    return receiver;
  },
  flat: ({ receiver }) => ({ texts: receiver.texts, items: itemOf(itemOf(receiver)) }),
  ...alike(({ receiver }) => itemOf(receiver), 'pop shift'),
  lastIndexOf: ({ receiver, args: [text] }) => {
    const character = constantIn(text);
    return character?.length === 1 ? { ...KNOWN, type: lastIndexIn(receiver, character) } : KNOWN;
  },
  charAt: ({ receiver, args: [index = KNOWN] }) => characterAt(receiver, index) ?? KNOWN,
  at: ({ receiver, args: [index] }) =>
    receiver.items === undefined && receiver.members === undefined && receiver.source === undefined
      ? KNOWN
      : (memberAt(receiver, constantIn(index)) ?? itemOf(receiver)),
  then: ({ receiver, args: [callback = KNOWN, failed = KNOWN], error, run }) => {
    run(failed, [error]);
    return run(callback, [awaited(receiver)]);
  },
};
