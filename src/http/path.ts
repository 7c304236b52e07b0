/**
 * Path templates, `"/u/{id:int}"`: read at registration, matched by router.ts, filled in by fillTemplate().
 *
 *   template = 1*( "/" segment )       segment = literal | "{" name [ ":" converter ] "}"
 *   converter = str (default) | int | float | uuid | path (the rest of the path; last segment only)
 *
 * Literals are written decoded (`/café`); paths are decoded once, segment by segment, before they are matched. A segment that begins
 * with ":" or "*" is refused, for other frameworks have parameters there; with a backslash before it (`/\\:id` in source) it is literal.
 */
import { SvcError } from '../base/errors.ts';
import { closest } from '../base/options.ts';

/** What each converter gives a handler. */
interface ConverterTypes {
  /** One segment, not empty. */
  str: string;
  /** `-?(0|[1-9]\d*)`, safe integers only: beyond ±(2^53-1) the path is another one (404). */
  int: number;
  /** `-?(0|[1-9]\d*)(\.\d+)?`, finite. */
  float: number;
  /** RFC 9562 text form, given in lower case. */
  uuid: string;
  /** The rest of the path, slashes included, not empty. */
  path: string;
}
/** The name of a converter. */
export type ConverterName = keyof ConverterTypes;

/** `"id:int" | "name"` of `"/u/{id:int}/{name}"`. */
type Placeholders<P extends string> = P extends `${string}{${infer Inner}}${infer Rest}`
  ? Inner | Placeholders<Rest>
  : never;
type NameOf<K> = K extends `${infer Name}:${string}` ? Name : K;
type ValueOf<K> = K extends `${string}:${infer C}`
  ? C extends ConverterName
    ? ConverterTypes[C]
    : never
  : string;
type Unreadable<K> = K extends `${string}:${infer C}`
  ? C extends ConverterName
    ? never
    : `Unknown path converter "${C}": use str, int, float, uuid or path`
  : never;

/** The typed parameters of a template; loose when the template is not a literal. */
export type PathParams<P extends string> = string extends P
  ? Readonly<Record<string, string | number>>
  : { readonly [K in Placeholders<P> as NameOf<K> & string]: ValueOf<K> };
/** A template of Express in our spelling. */
type Respelt<P extends string> = P extends `${infer Before}/:${infer Rest}`
  ? Rest extends `${infer Name}/${infer More}`
    ? `${Before}/{${Name}}${Respelt<`/${More}`>}`
    : `${Before}/{${Rest}}`
  : P extends `${infer Before}/*${infer Name}`
    ? `${Before}/{${Name extends '' ? 'path' : Name}:path}`
    : P;
/** `P` itself, or a sentence that says what is wrong with it: shown by the compiler in place of the expected type. */
export type PathTemplate<P extends string> = P extends `${string}/${':' | '*'}${string}`
  ? `Write "${Respelt<P>}": parameters stand in braces`
  : [Unreadable<Placeholders<P>>] extends [never]
    ? P
    : Unreadable<Placeholders<P>>;

/** How a converter reads a segment. `rank` orders by specificity: the lower is tried first. */
export interface Converter {
  readonly name: ConverterName;
  readonly rank: number;
  /** Whether `path[start, end)` is of this kind. Runs on the decoded path and allocates nothing. */
  test(path: string, start: number, end: number): boolean;
  /** The value of a segment that `test` has accepted. */
  read(segment: string): string | number;
}

const ZERO = 48,
  NINE = 57,
  MINUS = 45,
  DOT = 46;

/** The index behind the digits of a decimal integer without superfluous zeros, or -1. */
function endOfInteger(path: string, start: number, end: number): number {
  let at = start;
  if (path.charCodeAt(at) === MINUS) at++;
  const first = at;
  while (at < end && path.charCodeAt(at) >= ZERO && path.charCodeAt(at) <= NINE) at++;
  if (at === first || (path.charCodeAt(first) === ZERO && at > first + 1)) return -1;
  return at;
}

/** The digits of 2^53-1, and a sign: what is longer need not be read. */
const MAX_INT_LENGTH = 17;

function isInt(path: string, start: number, end: number): boolean {
  return (
    end - start <= MAX_INT_LENGTH &&
    endOfInteger(path, start, end) === end &&
    (end - start < 16 || Number.isSafeInteger(Number(path.slice(start, end))))
  );
}

function isFloat(path: string, start: number, end: number): boolean {
  let at = endOfInteger(path, start, end);
  if (at === -1) return false;
  if (at < end) {
    if (path.charCodeAt(at) !== DOT || at + 1 === end) return false;
    for (at++; at < end; at++) if (path.charCodeAt(at) < ZERO || path.charCodeAt(at) > NINE) return false;
  }
  return end - start < 300 || Number.isFinite(Number(path.slice(start, end)));
}

function isUuid(path: string, start: number, end: number): boolean {
  if (end - start !== 36) return false;
  for (let at = 0; at < 36; at++) {
    const code = path.charCodeAt(start + at);
    if (at === 8 || at === 13 || at === 18 || at === 23) {
      if (code !== MINUS) return false;
    } else if (!(code >= ZERO && code <= NINE) && !((code | 32) >= 97 && (code | 32) <= 102)) return false;
  }
  return true;
}

const same = (segment: string): string => segment;
// + 0 turns -0, which "-0" reads as, into 0
const toNumber = (segment: string): number => Number(segment) + 0;

/** Each converter by name. */
export const CONVERTERS: Readonly<Record<ConverterName, Converter>> = {
  uuid: { name: 'uuid', rank: 0, test: isUuid, read: (segment) => segment.toLowerCase() },
  int: { name: 'int', rank: 1, test: isInt, read: toNumber },
  float: { name: 'float', rank: 2, test: isFloat, read: toNumber },
  str: { name: 'str', rank: 3, test: (_path, start, end) => end > start, read: same },
  path: { name: 'path', rank: 4, test: (_path, start, end) => end > start, read: same },
};

/** A parameter of a template. */
export interface PathParameter {
  readonly name: string;
  readonly converter: Converter;
}
/** A template, as it is written and read: literals and parameters in turn, `literals.length === parameters.length + 1`. */
export interface ParsedTemplate {
  readonly template: string;
  /** The text before each parameter, and the text after the last one; empty only at the end. */
  readonly literals: readonly string[];
  readonly parameters: readonly PathParameter[];
}

/** Whether it has what may make a literal unreadable, braces apart. By hand, as all that every template goes through: an expression is compiled twice, for more than most tables take. */
function isUnclear(template: string): boolean {
  return (
    template.includes('%') ||
    template.includes('?') ||
    template.includes('#') ||
    template.includes('/:') ||
    template.includes('/*') ||
    template.includes('/\\')
  );
}

/** Parameters as Express writes them, each a segment of its own. */
const FOREIGN = /\/[:*]/;

/** Shows how a template of Express is written here. */
function refuseForeign(template: string): never {
  const respelt = template
    .replace(/\/:(\w+)[^/]*/g, '/{$1}')
    .replace(/\/\*(\w*)$/, (_rest, name: string) => `/{${name === '' ? 'path' : name}:path}`)
    .replace(/\/\*(\w+)/g, '/{$1}');
  const proposal = FOREIGN.test(respelt) ? 'parameters stand in braces' : `write "${respelt}"`;
  return refuse(
    template,
    `${proposal}; a segment that begins with ":" or "*" itself has a backslash before it`,
  );
}

/** Literal text without the backslashes that keep ":" and "*" literal. */
function unescaped(literal: string): string {
  return literal.replace(/\/\\(?=[:*])/g, '/');
}

/** What no literal has. */
const UNREADABLE = /[{}?#]|%[0-9a-f]{2}/i;

/**
 * Reads a template.
 *
 * @throws SvcError `E_PATH_TEMPLATE`: no leading slash, a parameter that shares its segment, an unknown converter, a
 * name that is no identifier or is used twice, `path` before the end, `?`, `#` or an escape in a literal, a segment that begins with
 * `:` or `*`
 */
export function parseTemplate(template: string): ParsedTemplate {
  if (typeof template !== 'string' || template[0] !== '/')
    return refuse(template, 'it does not begin with "/"');
  if (!template.isWellFormed()) return refuse(template, 'it has a lone surrogate');
  const isPlain = !isUnclear(template);
  if (!isPlain && FOREIGN.test(template)) return refuseForeign(template);
  if (isPlain && !template.includes('{') && !template.includes('}'))
    return { template, literals: [template], parameters: NO_PARAMETERS };
  let texts = '';
  let from = 0;
  let count = 0;
  for (let open = template.indexOf('{'); open !== -1; open = template.indexOf('{', from)) {
    // by hand: split() by an expression makes the table of 200 routes take an eighth longer
    const close = template.indexOf('}', from);
    if (!isParameter(template, open, close)) return refuseUnreadable(template);
    const text = template.slice(open + 1, close);
    texts = count === 0 ? text : `${texts}/${text}`;
    OPENED[count] = open;
    CLOSED[count++] = close;
    from = close + 1;
  }
  const literals = literalsOf(template, count);
  if (template.includes('}', from) || (!isPlain && literals.some((literal) => UNREADABLE.test(literal))))
    return refuseUnreadable(template);
  const parameters = count === 0 ? NO_PARAMETERS : readParameters(texts, template);
  if (from < template.length && parameters.at(-1)?.converter === CONVERTERS.path)
    return refuse(template, NOT_LAST);
  return { template, literals: isPlain ? literals : literals.map(unescaped), parameters };
}

function refuse(template: string, problem: string): never {
  throw new SvcError('E_PATH_TEMPLATE', [String(template), problem]);
}

/** Where the braces of the template that is being read are. One pair of lists serves all, as long as the longest that a program has declared. */
const OPENED: number[] = [];
const CLOSED: number[] = [];

/** The text around `count` parameters, in a list as long as it is: one that is pushed to has room for 16 more, and there may be thousands of templates. */
function literalsOf(template: string, count: number): readonly string[] {
  if (count === 1) return [template.slice(0, OPENED[0]), template.slice(CLOSED[0]! + 1)];
  const literals: string[] = new Array(count + 1);
  for (let at = 0; at <= count; at++)
    literals[at] = template.slice(
      at === 0 ? 0 : CLOSED[at - 1]! + 1,
      at === count ? template.length : OPENED[at],
    );
  return literals;
}

/** Whether these braces make up a whole segment, and have no others within. */
function isParameter(template: string, open: number, close: number): boolean {
  if (
    close < open ||
    template[open - 1] !== '/' ||
    (close + 1 < template.length && template[close + 1] !== '/')
  )
    return false;
  for (let at = open + 1; at < close; at++) if (template[at] === '{' || template[at] === '/') return false;
  return true;
}

/** Names the first segment that is not. */
function refuseUnreadable(template: string): never {
  const segment = template
    .slice(1)
    .split('/')
    .find((part) => UNREADABLE.test(part) && !/^\{[^{}]*\}$/.test(part))!; // a literal has it
  if (/[{}]/.test(segment))
    refuse(template, `the segment "${segment}" mixes a parameter with text, or lacks a brace`);
  return refuse(template, `the segment "${segment}" has "?", "#" or an escape: write it decoded`);
}

/** One list for all templates without any: paramsReader() keeps what it makes by the list. */
const NO_PARAMETERS: readonly PathParameter[] = Object.freeze([]);
const NOT_LAST = 'a path parameter takes the rest of the path, so it must be last';
/** By what stands between the braces, with slashes between them. There may be thousands of routes, and few names for their parameters: equal lists are one. */
const PARAMETERS = new Map<string, readonly PathParameter[]>();

function readParameters(texts: string, template: string): readonly PathParameter[] {
  const known = PARAMETERS.get(texts);
  if (known !== undefined) return known;
  const parameters: PathParameter[] = [];
  for (const text of texts.split('/')) {
    if (parameters.at(-1)?.converter === CONVERTERS.path) return refuse(template, NOT_LAST);
    parameters.push(readParameter(text, template));
  }
  const names = parameters.map((parameter) => parameter.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) return refuse(template, `the parameter "${twice}" is there twice`);
  PARAMETERS.set(texts, parameters);
  return parameters;
}

function readParameter(text: string, template: string): PathParameter {
  const colon = text.indexOf(':');
  const name = colon === -1 ? text : text.slice(0, colon);
  const converter = colon === -1 ? 'str' : text.slice(colon + 1);
  if (!isIdentifier(name) || name === '__proto__')
    return refuse(template, `"${name}" cannot name a parameter: use a JavaScript identifier`);
  if (!Object.hasOwn(CONVERTERS, converter)) {
    const near = closest(converter, Object.keys(CONVERTERS));
    return refuse(
      template,
      `unknown converter "${converter}"` + (near === undefined ? '' : `: did you mean "${near}"?`),
    );
  }
  return { name, converter: CONVERTERS[converter as ConverterName] };
}

/** ASCII letters, digits, `_` and `$`, no digit first. */
function isIdentifier(name: string): boolean {
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    const isLetter = ((code | 32) >= 97 && (code | 32) <= 122) || code === 95 || code === 36;
    if (!isLetter && (at === 0 || code < ZERO || code > NINE)) return false;
  }
  return name !== '';
}

/**
 * A lone surrogate stands for a slash that came encoded: percent-decoding never yields one, so `%2F` stays inside its
 * segment and is told apart from a real slash.
 */
const INNER_SLASH = '\uD800';

/** The path decoded once, segment by segment, or undefined when an escape is malformed (400). */
export function decodePath(path: string): string | undefined {
  try {
    if (!/%2f/i.test(path)) return decodeURIComponent(path);
    return path.split(/%2f/i).map(decodeURIComponent).join(INNER_SLASH);
  } catch {
    return undefined;
  }
}

/** A captured segment with its encoded slashes as slashes again. */
export function restoreSlashes(segment: string): string {
  return segment.includes(INNER_SLASH) ? segment.replaceAll(INNER_SLASH, '/') : segment;
}

/** A URL as `Location` may carry it: spaces, non-ASCII characters and the like percent-encoded, escapes left as they are. */
export function encodeLocation(location: string): string {
  return location
    .toWellFormed()
    .replace(/[^\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+/g, encodeURIComponent);
}

type Written = { readonly segment: string } | { readonly problem: string };
type Writer = (value: unknown) => Written;

/**
 * The path of a template with its parameters filled in and percent-encoded.
 *
 * @throws SvcError `E_URL_PARAM`: one is missing, unknown, or not what its converter reads
 */
export function fillTemplate(
  name: string,
  parsed: ParsedTemplate,
  params: Readonly<Record<string, unknown>>,
): string {
  const known = parsed.parameters.map((parameter) => parameter.name);
  for (const given of Object.keys(params)) {
    if (!known.includes(given)) throw new SvcError('E_URL_PARAM', [name, given, 'is not in its template']);
  }
  let path = encodeLiteral(parsed.literals[0]!);
  parsed.parameters.forEach((parameter, index) => {
    const value = Object.hasOwn(params, parameter.name) ? params[parameter.name] : undefined;
    if (value === undefined) throw new SvcError('E_URL_PARAM', [name, parameter.name, 'is missing']);
    const written = writeSegment(parameter.converter, value);
    if ('problem' in written) throw new SvcError('E_URL_PARAM', [name, parameter.name, written.problem]);
    path += written.segment + encodeLiteral(parsed.literals[index + 1]!);
  });
  return path;
}

/** Literal text of a template as it stands in a path. */
export function encodeLiteral(literal: string): string {
  return encodeURI(literal).replaceAll('?', '%3F').replaceAll('#', '%23');
}

/** The segment that a converter reads as `value`, or what is wrong with it. */
export function writeSegment({ name }: Converter, value: unknown): Written {
  return WRITERS[name](value);
}

const WRITERS: Readonly<Record<ConverterName, Writer>> = {
  uuid: writeIf(CONVERTERS.uuid, 'needs a UUID'),
  int: writeIf(CONVERTERS.int, 'needs a safe integer'),
  float: writeIf(CONVERTERS.float, 'needs a finite number'),
  str: writeText,
  path(value) {
    const written = writeText(value);
    // a leading slash stays escaped: "//evil.example" would be a host and no path (RFC 3986 §4.2)
    return 'segment' in written ? { segment: written.segment.replace(/(?!^)%2F/g, '/') } : written;
  },
};

/** Either would lead somewhere else once a client has parsed the URL (RFC 3986 §5.2.4; the URL Standard takes `%2e` for it, too). */
const DOT_SEGMENT = /(?:^|\/)\.\.?(?:\/|$)/;

function writeText(value: unknown): Written {
  if (typeof value !== 'string' && typeof value !== 'number')
    return { problem: 'needs a string or a number' };
  const text = String(value);
  if (text === '') return { problem: 'is empty' };
  if (DOT_SEGMENT.test(text))
    return { problem: 'has a segment "." or "..", which clients resolve, escaped or not' };
  return text.isWellFormed() ? { segment: encodeURIComponent(text) } : { problem: 'has a lone surrogate' };
}

function writeIf({ test }: Converter, needs: string): Writer {
  return (value) => {
    const text = typeof value === 'number' && Number.isFinite(value) ? plainDecimal(value) : value;
    return typeof text === 'string' && test(text, 0, text.length)
      ? { segment: text.toLowerCase() }
      : { problem: needs };
  };
}

/** A number without exponent: `1e-7` as `0.0000001`. */
function plainDecimal(value: number): string {
  const [mantissa, exponent] = String(value).split('e') as [string, string?];
  if (exponent === undefined) return mantissa;
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(mantissa)!; // the form that String() gives
  const shift = Number(exponent);
  if (shift > 0) return sign + whole! + fraction.padEnd(shift, '0'); // 1e21 and beyond: more places than digits
  return `${sign}0.${'0'.repeat(-shift - 1)}${whole}${fraction}`;
}

/*
 * Captures -> parameters of a path: plain objects, each made by a constructor that V8 knows.
 */

/** Reads the raw captures of a path, in their order. */
type ParamsReader = (captures: readonly string[]) => Readonly<Record<string, unknown>>;

const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});
/** By names and converters: as many as the templates of the program differ in. */
const READERS = new Map<string, ParamsReader>();
/** By the very list, which templates share. */
const READERS_OF = new WeakMap<readonly PathParameter[], ParamsReader>();

/**
 * The reader of these parameters. Routes whose parameters are called the same have one reader: with a constructor of its own
 * for each route, every look-up of 200 routes meets another hidden class (topic `router` of test/bench/table.ts).
 */
export function paramsReader(parameters: readonly PathParameter[]): ParamsReader {
  let reader = READERS_OF.get(parameters);
  if (reader === undefined) READERS_OF.set(parameters, (reader = readerByKey(parameters)));
  return reader;
}

function readerByKey(parameters: readonly PathParameter[]): ParamsReader {
  const key = parameters.map(({ name, converter }) => `${name}:${converter.name}`).join('/'); // names are identifiers
  let reader = READERS.get(key);
  if (reader === undefined) READERS.set(key, (reader = readerOf(parameters)));
  return reader;
}

/**
 * The name as V8 keeps the keys of objects. Cut out of a template it is another string of the same text, with which each store
 * takes the slow way, a tenth of a look-up with three parameters.
 */
function asKey(name: string): string {
  return Object.keys({ [name]: null })[0]!; // the one key
}

/**
 * A constructor gives its objects one hidden class; an object literal with a computed key cost four times as much, 93 ns
 * against 23 (routes `param` of test/bench/http.ts). Its prototype is Object's: these are plain objects to everybody.
 */
function readerOf(parameters: readonly PathParameter[]): ParamsReader {
  if (parameters.length === 0) return () => NO_PARAMS;
  const names = parameters.map((parameter) => asKey(parameter.name));
  const reads = parameters.map((parameter) => parameter.converter.read);
  const [name0, name1, name2] = names as [string, string, string];
  const [read0, read1, read2] = reads as [
    PathParameter['converter']['read'],
    PathParameter['converter']['read'],
    PathParameter['converter']['read'],
  ];
  function One(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
  }
  function Two(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
    this[name1] = read1(captures[1]!);
  }
  function Three(this: Record<string, unknown>, captures: readonly string[]): void {
    this[name0] = read0(captures[0]!);
    this[name1] = read1(captures[1]!);
    this[name2] = read2(captures[2]!);
  }
  function More(this: Record<string, unknown>, captures: readonly string[]): void {
    for (let index = 0; index < names.length; index++) this[names[index]!] = reads[index]!(captures[index]!);
  }
  const Params = ([One, Two, Three][names.length - 1] ?? More) as unknown as new (
    captures: readonly string[],
  ) => Record<string, unknown>; // functions used as constructors have no type of their own
  Params.prototype = Object.prototype;
  return (captures) => new Params(captures);
}

/*
 * Local paths: what a redirect may take from a request, for it cannot lead to another site.
 */

/** Only the origin matters, so any will do. */
const HERE = 'http://local.invalid';

/**
 * `value` if it is a path of this site, `/path?query#fragment`; else undefined. For addresses that come from outside:
 *
 *   new RedirectResponse(localPath(req.query.get('next')) ?? '/')
 *
 * Refused is whatever a browser, or a proxy that decodes once too often, could take for another host or for a program:
 * `//evil.example`, `/\evil.example`, `https:evil.example`, `javascript:...`, tabs and line ends, escaped ones in the path too.
 */
export function localPath(value: unknown): string | undefined {
  if (typeof value !== 'string' || !value.isWellFormed()) return undefined;
  if (!/^\/(?![/\\])[^\s\\\p{Cc}]*$/u.test(value)) return undefined;
  const path = /^[^?#]*/.exec(value)![0];
  if (/%(?:0|1|5c|7f)/i.test(path) || /^\/%2f/i.test(path)) return undefined;
  const { origin, pathname } = new URL(value, HERE);
  return origin === HERE && !pathname.startsWith('//') ? value : undefined;
}
