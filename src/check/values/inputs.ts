/**
 * Declared inputs of handlers. Their types come from the compiled routes of the loaded application. Without a
 * loaded application, the calls in the declaration are read: `Field(int)`, `literal('a', 'b')`.
 */
import { fileOfPlace } from '../../base/findings.ts';
import { ALL } from '../../schema/pattern-parser.ts';
import { FORMATS } from '../../schema/formats.ts';
import type { FormatName } from '../../schema/types.ts';
import {
  charsOf,
  clientPart,
  derived,
  endlessMark,
  factsOfMatches,
  hasFewMatches,
  inputMark,
  patternOf,
} from './text.ts';
import { KNOWN, addressText, clientIn, innerOf, mapParts, oneOf, textValue } from './value.ts';
import { CLASS_ROW } from './marks.ts';
import { numberOf } from '../reader/constants.ts';
import { entryOf, methodOf } from '../reader/nodes.ts';
import type { RouteDetail } from '../../routing/compile.ts';
import type { ObjectPlan, TypeNode } from '../../schema/schema.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Call, Node } from '../reader/nodes.ts';
import type { RouteCall } from './functions.ts';
import type { Fact, Facts, Made, Part } from './text.ts';
import type { ClassValue, InputType, Source, Value } from './value.ts';

/** Compiled routes by the place of their declaration. */
export class DeclaredInputs {
  readonly #details = new Map<string, RouteDetail>();
  /** The type of `pathParams` in code of several routes: of the parameters that have one type in all routes. */
  readonly #parameters: InputType;

  constructor(details: readonly RouteDetail[] = []) {
    for (const detail of details) {
      const { place } = detail.declared.declared;
      this.#details.set(`${fileOfPlace(place)}:${place.line}`, detail);
    }
    const all = details.flatMap(({ declared }) => declared.template.parameters);
    const types = [...Map.groupBy(all, ({ name }) => name)].flatMap(([name, [first, ...more]]) =>
      first !== undefined && more.every(({ converter }) => converter === first.converter)
        ? [[name, first.converter.name] as const]
        : [],
    );
    this.#parameters = typeOfConverters(new Map(types));
  }

  /** Returns the type of an input of a route; undefined if no loaded route declares it. */
  typeOf(route: RouteCall | undefined, input: string): InputType | undefined {
    if (route === undefined) return input === 'params' ? this.#parameters : undefined;
    const detail = this.#details.get(lineOfRoute(route));
    if (detail === undefined) return undefined;
    const { texts, body, form } = detail.inputs;
    if (input === 'body') return body === undefined ? undefined : typeOfNode(body.node);
    if (input === 'form') return form === undefined ? undefined : typeOfPlan(form);
    const plan = texts.findLast(({ key }) => key === input)?.plan;
    if (plan !== undefined || input !== 'params') return plan && typeOfPlan(plan);
    const { parameters } = detail.declared.template;
    return typeOfConverters(new Map(parameters.map(({ name, converter }) => [name, converter.name])));
  }
}

/** Returns the file and line of a declaration. */
export function lineOfRoute({ call, module }: RouteCall): string {
  const { callee } = call;
  // a stack trace has the place of the method, which may follow others: `app.get(…).post(…)`
  const place = module.placeAt(
    callee.type === 'member' && callee.property !== undefined
      ? callee.end - callee.property.length
      : call.start,
  );
  return `${fileOfPlace(place)}:${place.line}`;
}

const SAFE: InputType = { part: undefined, member: () => SAFE };
const numberType = (isFloat: boolean, hasLeast = false, hasMost = false): InputType => ({
  ...SAFE,
  number: { isFloat, hasLeast, hasMost },
});
const FREE: InputType = { part: { may: ALL }, member: () => undefined };
/** Kinds of types whose values are texts of a client. The values of all other scalar kinds are safe. */
const TEXTS: ReadonlySet<string> = new Set(['str', 'any', 'standard', 'bytes']);

function typeOfPlan({ fields, extra }: ObjectPlan): InputType {
  const byName = new Map(fields.map((field) => [field.name, field]));
  return {
    part: { may: ALL },
    hasKnownKeys: extra !== 'allow',
    member: (key) => {
      const field = byName.get(key);
      return field === undefined ? undefined : secretly(typeOfNode(field.node), field.isSecret);
    },
  };
}

function secretly(type: InputType, isSecret: boolean): InputType {
  return isSecret && type.part !== undefined ? { ...type, part: { ...type.part, isSecret } } : type;
}

/** Types within types are read to this depth, because a type may contain itself. */
const MAX_TYPES = 12;

function typeOfNode(node: TypeNode, depth = 0): InputType {
  return { ...charactersOf(node, depth), node };
}

function charactersOf(node: TypeNode, depth: number): InputType {
  if (depth > MAX_TYPES) return FREE;
  switch (node.kind) {
    case 'nullable':
      return typeOfNode(node.inner, depth + 1);
    case 'lazy':
      return typeOfNode(node.resolve(), depth + 1);
    case 'object':
      return typeOfPlan(node.plan());
    case 'list':
    case 'record': {
      const item = typeOfNode(node.item, depth + 1);
      return { part: item.part, member: () => item };
    }
    case 'choice':
    case 'tuple':
      return node.members.every((member) => typeOfNode(member, depth + 1).part === undefined) ? SAFE : FREE;
    case 'union':
      return FREE;
    case 'int':
    case 'float':
      return numberOfNode(node);
    case 'file':
      return { ...typeOfFile(node.constraints.contentTypes), most: node.constraints.maxLength };
    default:
      return TEXTS.has(node.kind)
        ? { ...typeOfText(node.constraints), most: node.constraints.maxLength }
        : SAFE;
  }
}

function numberOfNode({ kind, constraints: { ge, gt, le, lt, multipleOf } }: TypeNode): InputType {
  const least = ge ?? gt;
  return numberType(
    kind === 'float' && multipleOf === undefined,
    least !== undefined && least >= 0,
    (le ?? lt) !== undefined,
  );
}

const SAFE_FORMATS: ReadonlySet<string> = new Set(['uuid', 'date', 'date-time', 'time', 'ipv4', 'ipv6']);

function typeOfText({ pattern, format }: { readonly pattern?: RegExp; readonly format?: string }): InputType {
  if (format !== undefined && SAFE_FORMATS.has(format)) return SAFE;
  const known = pattern ?? FORMATS[format as FormatName]?.pattern;
  if (known === undefined) return FREE;
  const isGuessable = hasFewMatches(known);
  return { part: { ...factsOfMatches(known), isGuessable }, member: () => undefined };
}

/** Media types that browsers run or show with scripts, and groups that contain one. */
const ACTIVE_TYPES = /(?:html|xml|xsl|script)$|^multipart\/|^(?!audio|video|font)\w+\/\*$/i;
/** A media type of which a client chooses only the parameters. */
const PASSIVE_TYPE: InputType = { part: { may: ALL & ~charsOf('/') }, member: () => undefined };

function typeOfFile(contentTypes: readonly string[] = []): InputType {
  const isPassive = contentTypes.length > 0 && !contentTypes.some((type) => ACTIVE_TYPES.test(type));
  return { ...FREE, member: (key) => (isPassive && key === 'contentType' ? PASSIVE_TYPE : undefined) };
}

/** Returns the type that an expression declares, such as `Field(str, { pattern: '^\\w+$' })`. */
export function typeOfDeclaration(
  node: Node | undefined,
  module: SourceModule,
  depth = 0,
): InputType | undefined {
  if (node === undefined || depth > MAX_TYPES) return undefined;
  const inner = (part: Node | undefined, at = module): InputType | undefined =>
    typeOfDeclaration(part, at, depth + 1);
  if (node.type === 'name') {
    const binding = module.lookup(node.name, node);
    if (binding?.kind === 'declared')
      return inner(binding.node.type === 'declarator' ? binding.node.value : binding.node, binding.module);
    return typeOfName(binding?.kind === 'external' ? binding.imported : node.name);
  }
  if (node.type === 'value') return /^\d/.test(node.raw) ? numberType(false) : SAFE;
  if (node.type === 'unary' && node.operator === '-') return numberType(false);
  if (node.type === 'object' || node.type === 'class') {
    const entries = (node.type === 'object' ? node.entries : node.members).filter(
      (each) => each.type === 'entry',
    );
    const extra = entries.find(({ key, isStatic }) => isStatic && key === 'extra')?.value;
    return {
      part: { may: ALL },
      hasKnownKeys: extra?.type !== 'text' || extra.value !== 'allow',
      member: (key) => inner(entries.find((entry) => entry.key === key)?.value),
    };
  }
  return node.type === 'call' ? typeOfCall(node, inner) : undefined;
}

const SAFE_NAMES: ReadonlySet<string> = new Set(['bool', 'uuid', 'date', 'datetime', 'literal', 'decimal']);

function typeOfName(name: string): InputType | undefined {
  if (name === 'int' || name === 'float') return numberType(name === 'float');
  return SAFE_NAMES.has(name) ? SAFE : undefined;
}

function typeOfCall(
  { callee, args }: Call,
  inner: (node: Node | undefined) => InputType | undefined,
): InputType | undefined {
  const [type, options] = args;
  const secret = entryOf(options, 'secret');
  const read = typeOfField(callee, type, options, inner);
  return read && secretly(read, secret?.type === 'value' && secret.raw === 'true');
}

function typeOfField(
  callee: Node,
  type: Node | undefined,
  options: Node | undefined,
  inner: (node: Node | undefined) => InputType | undefined,
): InputType | undefined {
  const made = callee.type === 'name' ? inner(callee) : undefined;
  if (made !== undefined && made.part === undefined) return made;
  const pattern = entryOf(options, 'pattern');
  const source =
    pattern?.type === 'text' ? pattern.value : pattern?.type === 'pattern' ? pattern.source : undefined;
  if (source !== undefined) {
    const regex = patternOf(source, '');
    return regex === undefined ? undefined : typeOfText({ pattern: regex });
  }
  const format = entryOf(options, 'format');
  if (format?.type === 'text') return typeOfText({ format: format.value });
  if (entryOf(options, 'email') !== undefined) return typeOfText({ format: 'email' });
  const types = entryOf(options, 'contentTypes');
  if (types?.type === 'list')
    return typeOfFile(types.items.map((item) => (item.type === 'text' ? item.value : '*/*')));
  const most = numberOf(entryOf(options, 'maxLength'));
  const isText = most !== undefined || entryOf(options, 'secret') !== undefined;
  const own = inner(type) ?? (isText ? { ...FREE, most } : undefined);
  if (own?.number === undefined) return own;
  const has = (...keys: readonly string[]): boolean =>
    keys.some((key) => entryOf(options, key) !== undefined);
  return numberType(own.number.isFloat && !has('multipleOf'), has('ge', 'gt'), has('le', 'lt'));
}

/** Members of the context that hold inputs of a client. */
const INPUTS: ReadonlySet<string> = new Set([
  ...['params', 'query', 'body', 'form', 'headers', 'cookies', 'args', 'message'],
  ...['files', 'rawBody'],
]);
/** Methods of the request that return an input. */
const READERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    json: 'body',
    form: 'body',
    formData: 'body',
    text: 'text',
    body: 'body',
    bytes: 'body',
    parts: 'parts',
    stream: 'stream',
  }),
);
/** Header fields that Node.js or the router compares, or that no response repeats. */
const SAFE_HEADERS: ReadonlySet<string> = new Set([
  'host',
  'accept',
  'accept-encoding',
  'content-type',
  'content-length',
]);

/** The canonical path: it keeps `..`, and separators and controls stay percent-encoded. */
const PATH: Fact = { may: ALL & ~charsOf('\n\r\t #?\\'), begins: '/' };

/** Returns the value of an input that is not narrowed by a declared type. */
export function inputValue(source: Source): Value {
  const { id, origin, type } = source;
  const part = type === undefined ? { may: ALL } : type.part;
  if (part === undefined) {
    const made = inputMark(origin);
    const value: Value = made === undefined ? KNOWN : { texts: [[{ kind: 'own', made }]] };
    const isDeclared = type?.node !== undefined || type?.number !== undefined || origin.input === 'row';
    return isDeclared ? { ...value, declared: type } : value;
  }
  return { texts: [[clientPart(id, origin, { ...part, most: type?.most })]], source, declared: type };
}

/**
 * Returns a row of a declared class, whose columns hold texts of clients as far as their types allow it. Inherited
 * columns follow those of the class itself.
 */
export function rowValue(line: readonly [of: ClassValue, ...bases: ClassValue[]], by: Made): Value {
  const [of] = line;
  const members = new Map<string, Value>();
  let isKept = (_field: string): boolean => true;
  for (const { node, module, keeps } of line) {
    const type = typeOfDeclaration(node, module);
    const before = isKept;
    if (keeps !== undefined) isKept = (field) => before(field) && keeps(field);
    for (const { key, value } of node.members.filter((each) => each.type === 'entry'))
      if (key !== undefined && value?.type === 'call' && !members.has(key) && isKept(key))
        members.set(
          key,
          inputValue({
            id: `${of.module.file}:${of.node.start}.${key}`,
            origin: { what: `the column ${key}`, input: 'row', made: by },
            type: type?.member(key),
          }),
        );
  }
  return { texts: KNOWN.texts, members, of, isInstance: true, whole: { ...by, by: CLASS_ROW } };
}

/** Returns the key that a client sends to `APIKeyAuth({ verify })`. */
export function keyValue(): Value {
  const type: InputType = { part: { may: ALL, isSecret: true }, member: () => undefined };
  return inputValue({ id: 'API key', origin: { what: 'the API key', input: 'headers' }, type });
}

/** Whether a method of a class reads a value as its schema. */
export function isParser(receiver: Value | undefined, method: string | undefined): boolean {
  return receiver?.of !== undefined && /^(?:parse|safeParse)$/.test(method ?? '');
}

/** Returns a value that a schema of the project has parsed: `Note.parse(value)`; undefined if no client has sent a part of it. */
export function parsedBy(receiver: Value | undefined, method: string, value: Value): Value | undefined {
  const of = isParser(receiver, method) ? receiver?.of : undefined;
  if (of === undefined) return undefined;
  const parsed = fieldsOf(asType(value, typeOfDeclaration(of.node, of.module)), of);
  if (parsed === value || method === 'parse') return parsed === value ? undefined : parsed;
  const members = new Map([
    ['ok', KNOWN],
    ['value', parsed],
  ]);
  return { texts: KNOWN.texts, members };
}

/** Returns a parsed object without the members that its class leaves out. */
function fieldsOf(value: Value, { keeps }: ClassValue): Value {
  const { members } = value;
  if (keeps === undefined || members === undefined) return value;
  return { ...value, members: new Map([...members].filter(([key]) => keeps(key))) };
}

/** Returns an instance with the members that the constructor of a schema copies: `new Note({ text })`. */
export function filledBy(instance: Value, data: Value): Value {
  const { of, type } = instance;
  if (of === undefined || type !== 'svc.Schema') return instance;
  const { texts, members, source } = asType(data, typeOfDeclaration(of.node, of.module));
  return {
    ...instance,
    texts,
    source,
    members: source === undefined ? new Map([...(instance.members ?? []), ...(members ?? [])]) : undefined,
  };
}

/** Returns what a type admits of a value. The members of an object that the program makes stay apart. */
function asType(value: Value, type: InputType | undefined): Value {
  const part = clientIn(value);
  if (part === undefined) return value;
  if (value.source === undefined && value.members !== undefined) {
    const members = [...value.members].map(
      ([key, member]) => [key, asType(member, type?.member(key))] as const,
    );
    return { texts: KNOWN.texts, members: new Map(members) };
  }
  const origin = value.source?.origin ?? part.origin;
  return inputValue({ id: `${part.id} parsed`, origin, route: origin.route, type });
}

/** Returns the request that a function receives: of its own, or, with `isShared`, that of the route that needs a dependency. */
export function requestValue(route?: RouteCall, isShared: boolean = route === undefined): Value {
  const id = isShared ? 'request' : `request of ${route!.module.file}:${route!.call.start}`;
  const origin = { what: 'request', input: 'request' };
  return { texts: [], source: { id, origin, isRequest: true, route } };
}

/** Returns a member of an input; undefined for a member of the request that is not an input. */
export function memberOfInput(source: Source, key: string, typeOf: TypeOfInput): Value | undefined {
  if (source.isRequest === true) {
    if (key === 'req' || key === 'request') return { texts: [], source };
    if (key === 'url')
      return {
        texts: [],
        source: { ...source, isRequest: false, origin: { what: 'url', input: 'url' } },
        type: 'URL',
      };
    if (key === 'path')
      return textValue(
        clientPart(`${source.id} path`, { what: 'the path', input: 'path', route: source.route }, PATH),
      );
    if (key === 'pathParams') return memberOfInput(source, 'params', typeOf);
    if (key === 'session') return { texts: KNOWN.texts, type: 'svc.Session' };
    if (!INPUTS.has(key) || (key === 'args' && !isTool(source.route))) return undefined;
    return inputValue({
      id: `${source.id} ${key}`,
      origin: { what: key, input: key, route: source.route },
      whole: key,
      route: source.route,
      type: typeOf(source.route, key),
    });
  }
  // parameters of an address have names of a client: ?size=10
  const isNamed = /^(?:query|params)$/.test(source.whole ?? '') && /^(?:length|size)$/.test(key);
  if (/^(?:length|size|byteLength|constructor)$/.test(key) && !isNamed) return KNOWN;
  if (source.origin.input === 'headers' && SAFE_HEADERS.has(key.toLowerCase())) return KNOWN;
  return memberOfSource(source, key);
}

/** Returns the member of an input that is an object. */
export function memberOfSource({ id, origin, route, type }: Source, key: string): Value {
  return inputValue({
    id: `${id}.${key}`,
    origin: { ...origin, what: `${origin.what}.${key}` },
    route,
    type: type?.member(key),
  });
}

/** Whether a client may send a member of an input: a schema drops what it does not declare. */
export function mayHave({ isRequest, type }: Source, key: string): boolean {
  return isRequest !== true && (type?.hasKnownKeys !== true || type.member(key) !== undefined);
}

/** Returns a member of an address. Its host is a part of its own, so that a comparison of it says so. */
export function memberOfAddress(value: Value, key: string): Value {
  if (key === 'searchParams') {
    const part = clientIn(value);
    return part === undefined
      ? KNOWN
      : { texts: [], source: { id: `${part.id} searchParams`, origin: part.origin } };
  }
  if (key === 'href') return addressText(value);
  if (/^(?:host|hostname|origin)$/.test(key))
    return mapParts(value, (part): Part => ({ ...derived(part, key), hostOf: part.id }));
  if (key === 'protocol')
    return mapParts(value, (part): Part => ({ ...derived(part, key), schemeOf: part.id }));
  return key === 'pathname' || key === 'search' || key === 'hash'
    ? mapParts(value, (part) => derived(part, key, { begins: '/', lacks: ['..', '//'] }))
    : KNOWN;
}

/** Finds the declared type of an input of a route. */
export type TypeOfInput = (route: RouteCall | undefined, input: string) => InputType | undefined;

function isTool(route: RouteCall | undefined): boolean {
  return /^(?:tool|prompt|resource)$/.test(methodOf(route?.call));
}

/** Returns the result of a method of the request, such as `req.json()` or `req.query.get('sort')`. */
export function readInput(
  source: Source,
  method: string,
  key: string | undefined,
  typeOf: TypeOfInput,
  hasOptions = false,
): Value | undefined {
  if (source.isRequest !== true) {
    if (/^(?:get|getAll|header|first|last)$/.test(method) && key !== undefined)
      return memberOfInput(source, key, typeOf);
    return /^(?:json|text|bytes|entries|values|keys|get)$/.test(method)
      ? inputValue({ ...source, whole: undefined })
      : undefined;
  }
  if (method === 'header' || method === 'get' || method === 'query' || method === 'param') {
    const input = method === 'query' ? 'query' : method === 'param' ? 'params' : 'headers';
    const whole = memberOfInput(source, input, typeOf);
    return whole?.source === undefined || key === undefined
      ? whole
      : memberOfInput(whole.source, key, typeOf);
  }
  const read = READERS.get(method);
  const input = read === 'stream' && hasOptions ? 'limited stream' : read;
  if (input === undefined) return undefined;
  return inputValue({
    id: `${source.id} ${input}`,
    origin: { what: input, input, route: source.route },
    whole: input === 'body' ? 'body' : undefined,
    route: source.route,
  });
}

/** Returns the type that the path of a route declares for a parameter: `{id:int}`. */
export function typeOfParameters({ call }: RouteCall): InputType | undefined {
  const [path] = call.args;
  if (path?.type !== 'text' && path?.type !== 'template') return undefined;
  const text = path.type === 'text' ? path.value : path.texts.join('{}');
  const types = new Map([...text.matchAll(/\{(\w+):(\w+)\}/g)].map(([, name, type]) => [name!, type!]));
  return typeOfConverters(types);
}

function typeOfConverters(types: ReadonlyMap<string, string>): InputType {
  return { part: { may: ALL }, hasKnownKeys: true, member: (key) => typeOfName(types.get(key) ?? '') };
}

/** Returns the id of the errors that a block or call handles. */
export function errorId({ node, module }: Spot): string {
  return `error ${module.file}:${node.start}`;
}

/** Returns an error of any class. A test of its class, or of a member, tells which one it is. */
export function anyError(handler: Spot): Value {
  return { texts: KNOWN.texts, type: 'Error', keys: [errorId(handler)] };
}

/** Returns the name of a member that rules ask for: a host or number that a client chooses, or a text of an error. */
export function makerOf(
  { source, type, keys: [error] = [] }: Value,
  key: string,
  facts: Facts,
): string | undefined {
  if (key === 'stack' && type === 'Error') return 'Error.stack';
  if (key === 'message' && type === 'Error' && error !== undefined)
    return facts.get(error)?.isKnown === true ? undefined : `Error.message of ${error}`;
  if (key === 'target' && source?.isRequest === true) return 'request.target';
  const isHost =
    source?.isRequest === true
      ? key === 'host'
      : source?.origin.input === 'url'
        ? /^(?:host|hostname|origin|href)$/.test(key)
        : source?.whole === 'headers' && /^(?:x-forwarded-)?host$/i.test(key);
  if (source?.type?.member(key)?.number?.hasMost === false)
    return endlessMark(source.id, `${source.origin.what}.${key}`);
  return isHost ? 'request.host' : undefined;
}

/** Returns an item of a list, or a character of a text. */
export function itemOf(value: Value): Value {
  const isList = value.items !== undefined || value.members !== undefined;
  return isList ? oneOf(innerOf(value)) : (itemOfInput(value) ?? value);
}

/** Returns an item of an input whose declared type is a list; undefined for any other value. */
function itemOfInput({ source, declared }: Value): Value | undefined {
  const type = source?.type ?? declared;
  const node = type?.node?.kind === 'nullable' ? type.node.inner : type?.node;
  if (source === undefined || source.isRequest === true || node?.kind !== 'list') return undefined;
  const { id, origin, route } = source;
  return inputValue({ id: `${id}.*`, origin, route, type: type?.member('') });
}

/** Returns the list of the values in a list or object. */
export function itemsOf(value: Value): Value {
  const all = innerOf(value);
  if (all.length === 0 && value.source === undefined) return value;
  const items = all.length === 0 ? anyOf(value) : oneOf(all);
  return { texts: items.texts, items };
}

/** Returns any member of an input: an input of its own, unless a type names the members. */
function anyOf({ texts: own, source }: Value): Value {
  if (source === undefined || source.isRequest === true || source.type?.hasKnownKeys === true)
    return { texts: own };
  const { id, origin, route, type } = source;
  return inputValue({ id: `${id}.*`, origin, route, type: type?.member('') });
}

/** Returns a key of an object. A declared type limits the keys of an input to its fields. */
export function keyOf(value: Value): Value {
  const { source } = value;
  if (source === undefined || source.type?.hasKnownKeys === true) return KNOWN;
  const item = itemOf(value);
  // a copy such as { ...body } has no text of its own, but all keys of the input
  const isCopy = source.isRequest !== true && clientIn(item) === undefined;
  const named = isCopy ? textValue(clientPart(source.id, source.origin, { may: ALL })) : item;
  return mapParts(named, (part) => derived(part, 'key'));
}
