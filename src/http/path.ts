/**
 * Path templates such as `"/u/{id:int}"`. They are parsed when a route is added. router.ts matches paths with
 * them, and fillTemplate() builds URLs from them.
 *
 * Grammar:
 *   template = 1*( "/" segment )       segment = literal | "{" name [ ":" converter ] "}"
 *   converter = str (default) | int | float | uuid | path (the rest of the path; last segment only)
 *             | path? (the rest of the path, which may be missing; last segment only)
 *
 * Literal segments of a template are written without percent-escapes (`/café`). They are compared with the
 * canonical form of a path. A segment that begins with ":" or "*" is refused, because it would be a parameter in
 * other frameworks. To match it literally, write a backslash before it (`/\\:id` in source).
 */
import { SvcError } from '../base/errors.ts';
import { didYouMean, shown } from '../base/options.ts';

interface ConverterTypes {
  /** Matches one segment, which must not be empty. Parameters without a converter use `str`. */
  str: string;
  /** Syntax `-?(0|[1-9]\d*)`. A number beyond ±(2^53-1) does not match, which leads to 404. */
  int: number;
  /** Syntax `-?(0|[1-9]\d*)(\.\d+)?`; the number must be finite. */
  float: number;
  /** UUID in text form (RFC 9562), converted to lower case. */
  uuid: string;
  /** The rest of the path, including slashes; not empty. */
  path: string;
  /**
   * The rest of the path, including slashes; it may be empty. `/dav/{rest:path?}` matches `/dav` and `/dav/`, too,
   * both with an empty `rest`.
   */
  'path?': string;
}
/** Name of a converter, which determines the segments that a parameter matches. */
export type ConverterName = keyof ConverterTypes;

/** Extracts the parameters `"id:int" | "name"` from a template such as `"/u/{id:int}/{name}"`. */
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
    : `Unknown path converter "${C}": use str, int, float, uuid, path or path?`
  : never;

/**
 * Parameters of a path template, each with the type of its converter. If `P` is just `string`, any parameter
 * name is possible.
 */
export type PathParams<P extends string> = string extends P
  ? Readonly<Record<string, string | number>>
  : { readonly [K in Placeholders<P> as NameOf<K> & string]: ValueOf<K> };
/** Converts a path of Express (`/:id`) to a template of this framework (`/{id}`). */
type Respelt<P extends string> = P extends `${infer Before}/:${infer Rest}`
  ? Rest extends `${infer Name}/${infer More}`
    ? `${Before}/{${Name}}${Respelt<`/${More}`>}`
    : `${Before}/{${Rest}}`
  : P extends `${infer Before}/*${infer Name}`
    ? `${Before}/{${Name extends '' ? 'path' : Name}:path}`
    : P;
/**
 * `P` itself if it is a valid template; otherwise a text that names the mistake, which the compiler shows in
 * its error.
 */
export type PathTemplate<P extends string> = P extends `${string}/${':' | '*'}${string}`
  ? `Write "${Respelt<P>}": parameters stand in braces`
  : Unreadable<Placeholders<P>> extends never
    ? P
    : Unreadable<Placeholders<P>>;

/**
 * Matches and parses the value of a path parameter such as `{id:int}`. Converters with a lower `rank` match
 * fewer segments, so they are tried first.
 */
export interface Converter {
  readonly name: ConverterName;
  readonly rank: number;
  /** Whether the decoded path matches from `start` (inclusive) to `end` (exclusive). */
  test(path: string, start: number, end: number): boolean;
  /** Converts a segment that `test` accepted into the value of the parameter. */
  read(segment: string): string | number;
}

function matching(
  pattern: RegExp,
  isInRange: (value: number) => boolean = () => true,
): (path: string, start: number, end: number) => boolean {
  return (path, start, end) => {
    const segment = path.slice(start, end);
    return pattern.test(segment) && isInRange(Number(segment));
  };
}

const isInt = matching(/^-?(?:0|[1-9]\d*)$/, Number.isSafeInteger);
const isFloat = matching(/^-?(?:0|[1-9]\d*)(?:\.\d+)?$/, Number.isFinite);
const isUuid = matching(/^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i);

const same = (segment: string): string => segment;
// adding 0 turns -0 into 0
const toNumber = (segment: string): number => Number(segment) + 0;

export const CONVERTERS: Readonly<Record<ConverterName, Converter>> = {
  uuid: { name: 'uuid', rank: 0, test: isUuid, read: (segment) => segment.toLowerCase() },
  int: { name: 'int', rank: 1, test: isInt, read: toNumber },
  float: { name: 'float', rank: 2, test: isFloat, read: toNumber },
  str: { name: 'str', rank: 3, test: (_path, start, end) => end > start, read: same },
  path: { name: 'path', rank: 4, test: (_path, start, end) => end > start, read: same },
  'path?': { name: 'path?', rank: 4, test: () => true, read: same },
};

/** Whether a parameter takes the rest of the path, as in `/files/{name:path}` and `/dav/{rest:path?}`. */
export function takesRest(parameter: PathParameter | undefined): boolean {
  return parameter?.converter === CONVERTERS.path || isOptional(parameter);
}

function isOptional(parameter: PathParameter | undefined): boolean {
  return parameter?.converter === CONVERTERS['path?'];
}

/** One parameter of a path template, such as `{id:int}`. */
export interface PathParameter {
  readonly name: string;
  readonly converter: Converter;
}
/** A parsed path template. Literals and parameters alternate: `literals.length === parameters.length + 1`. */
export interface ParsedTemplate {
  readonly template: string;
  /** The text before each parameter, then the text after the last one. Only this last text may be empty. */
  readonly literals: readonly string[];
  readonly parameters: readonly PathParameter[];
}

/** Start of a parameter in the syntax of Express: `/:id` or `/*`. */
const FOREIGN = /\/[:*]/;

/** Throws an error that shows this Express path in the syntax of this framework. */
function refuseForeign(template: string): never {
  const respelt = template
    .replace(/\/:(\w+)[^/]*/g, '/{$1}')
    .replace(/\/\*(\w*)$/, (_rest, name: string) => `/{${name === '' ? 'path' : name}:path}`)
    .replace(/\/\*(\w+)/g, '/{$1}');
  const proposal = FOREIGN.test(respelt) ? 'parameters stand in braces' : `write "${respelt}"`;
  return refuse(template, `${proposal}; for a literal ":" or "*", write a backslash before the character`);
}

/** Characters and escapes that are not allowed in a literal segment. */
const UNREADABLE = /[{}?#]|%[0-9a-f]{2}/i;
const PARAMETER = /^\{([^{}]*)\}$/;

export function parseTemplate(template: string): ParsedTemplate {
  if (typeof template !== 'string')
    return refuse(shown(template), `the path must be text, found ${shown(template)}`);
  if (template[0] !== '/') return refuse(template, 'the template does not begin with "/"');
  if (!template.isWellFormed())
    return refuse(template, 'the template is not valid Unicode, because it has a lone surrogate');
  if (FOREIGN.test(template)) return refuseForeign(template);
  const literals: string[] = [];
  const parameters: PathParameter[] = [];
  let literal = '';
  for (const segment of template.slice(1).split('/')) {
    literal += '/';
    const parameter = PARAMETER.exec(segment)?.[1];
    if (parameter === undefined) {
      if (UNREADABLE.test(segment)) return refuseUnreadable(template, segment);
      literal += segment.replace(/^\\(?=[:*])/, ''); // the backslash before a literal ":" or "*" is removed
      continue;
    }
    if (takesRest(parameters.at(-1))) return refuse(template, NOT_LAST);
    parameters.push(readParameter(parameter, template, parameters));
    literals.push(literal);
    literal = '';
  }
  literals.push(literal);
  if (literal !== '' && takesRest(parameters.at(-1))) return refuse(template, NOT_LAST);
  return { template, literals, parameters };
}

/**
 * Returns the templates without optional parameters that together match the same paths, shortest first:
 * `/dav/{rest:path?}` leads to `/dav`, `/dav/` and `/dav/{rest:path}`. Any other template is returned unchanged.
 */
export function variantsOf(parsed: ParsedTemplate): readonly ParsedTemplate[] {
  if (!isOptional(parsed.parameters.at(-1))) return [parsed];
  const { template } = parsed;
  const folder = template.slice(0, template.lastIndexOf('{'));
  const full = `${template.slice(0, -'?}'.length)}}`;
  return [...(folder === '/' ? [] : [folder.slice(0, -1)]), folder, full].map(parseTemplate);
}

function refuse(template: string, problem: string): never {
  throw new SvcError('E_PATH_TEMPLATE', [template, problem]);
}

function refuseUnreadable(template: string, segment: string): never {
  if (/[{}]/.test(segment))
    refuse(
      template,
      `the segment "${segment}" must be either text without braces or one parameter in braces, such as {id}`,
    );
  return refuse(
    template,
    `the segment "${segment}" contains "?", "#" or a percent-escape: ` +
      'remove "?" and "#", and replace each escape by the character that it encodes',
  );
}

const NOT_LAST =
  'a parameter with the converter "path" or "path?" takes the rest of the path, so it must be last';
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

function readParameter(text: string, template: string, before: readonly PathParameter[]): PathParameter {
  const colon = text.indexOf(':');
  const name = colon === -1 ? text : text.slice(0, colon);
  const converter = colon === -1 ? 'str' : text.slice(colon + 1);
  if (!IDENTIFIER.test(name) || name === '__proto__')
    return refuse(template, `"${name}" is not a parameter name: use a JavaScript identifier`);
  if (before.some((other) => other.name === name))
    return refuse(template, `the parameter "${name}" occurs twice`);
  if (!Object.hasOwn(CONVERTERS, converter))
    return refuse(
      template,
      `unknown converter "${converter}"${didYouMean(converter, Object.keys(CONVERTERS))}`,
    );
  return { name, converter: CONVERTERS[converter as ConverterName] };
}

/** Characters that stay percent-encoded in a canonical path: separators, controls and invisible characters. */
const ESCAPED = /[\p{C}\p{Z}%/?#\\]/u;
/** Paths that are in canonical form, because they have no escape, and only visible ASCII characters. */
export const PLAIN_PATH: RegExp = /^[\x21\x22\x24\x26-\x5b\x5d-\x7e]*$/;
/** One percent-encoded character in UTF-8, or else a single escape. */
const ESCAPES =
  /%[cd][\da-f]%[89ab][\da-f]|%e[\da-f](?:%[89ab][\da-f]){2}|%f[0-7](?:%[89ab][\da-f]){3}|%[\da-f]{2}/gi;

/**
 * Returns the canonical form of a path, so that paths that mean the same are equal texts. Visible characters
 * are decoded. `%25`, `%2F`, `%3F`, `%23`, `%5C`, spaces, controls and bytes that are not UTF-8 stay encoded,
 * in upper case. A path with a malformed escape is returned unchanged.
 */
export function canonicalPath(path: string): string {
  if (/%(?![\da-f]{2})/i.test(path)) return path;
  return path
    .toWellFormed()
    .replace(/[\p{C}\p{Z}#\\]/gu, encodeURIComponent)
    .replace(ESCAPES, readEscapes);
}

function readEscapes(escapes: string): string {
  const character = decodeEscapes(escapes);
  return character === undefined || ESCAPED.test(character) ? escapes.toUpperCase() : character;
}

/** Percent-decodes text. Returns undefined for a malformed escape, and for bytes that are not UTF-8. */
export function decodeEscapes(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Converts the literal text of a template to the form that it has in a canonical path. */
export function canonicalLiteral(literal: string): string {
  // the pattern with the classes of Unicode takes most of the time in which a router is built
  return PLAIN_PATH.test(literal) ? literal : literal.replace(/[\p{C}\p{Z}%?#\\]/gu, encodeURIComponent);
}

/**
 * Encodes a URL for `Location`. Spaces, non-ASCII and other unsafe characters are percent-encoded; existing
 * escapes stay unchanged.
 */
export function encodeLocation(location: string): string {
  return location
    .toWellFormed()
    .replace(/[^\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+/g, encodeURIComponent);
}

type Written = { readonly segment: string } | { readonly problem: string };
type Writer = (value: unknown) => Written;

/**
 * Builds a path from a template and its parameters. Parameters are percent-encoded. Without its optional parameter,
 * `/dav/{rest:path?}` becomes `/dav`.
 */
export function fillTemplate(
  name: string,
  parsed: ParsedTemplate,
  params: Readonly<Record<string, unknown>>,
): string {
  const known = parsed.parameters.map((parameter) => parameter.name);
  for (const given of Object.keys(params)) {
    if (!known.includes(given))
      throw new SvcError('E_URL_PARAM', [name, given, 'is not a parameter of the path template']);
  }
  let path = encodeLiteral(parsed.literals[0]!);
  parsed.parameters.forEach((parameter, index) => {
    const value = Object.hasOwn(params, parameter.name) ? params[parameter.name] : undefined;
    if (value === undefined && isOptional(parameter)) {
      if (path !== '/') path = path.slice(0, -1);
      return;
    }
    if (value === undefined) throw new SvcError('E_URL_PARAM', [name, parameter.name, 'is missing']);
    const written = writeSegment(parameter.converter, value);
    if ('problem' in written) throw new SvcError('E_URL_PARAM', [name, parameter.name, written.problem]);
    path += written.segment + encodeLiteral(parsed.literals[index + 1]!);
  });
  return path;
}

/** Splits a URL or a request target at its first `?`. Its query may contain further ones (RFC 3986 §3.4). */
export function splitQuery(target: string): readonly [address: string, query: string] {
  const at = target.indexOf('?');
  return at === -1 ? [target, ''] : [target.slice(0, at), target.slice(at + 1)];
}

/** Percent-encodes the literal text of a template for use in a path. */
export function encodeLiteral(literal: string): string {
  return encodeURI(literal).replaceAll('?', '%3F').replaceAll('#', '%23');
}

/** Returns `value` as a path segment, or a problem if the converter does not accept it. */
export function writeSegment({ name }: Converter, value: unknown): Written {
  return WRITERS[name](value);
}

const WRITERS: Readonly<Record<ConverterName, Writer>> = {
  uuid: writeIf(CONVERTERS.uuid, 'needs a UUID'),
  int: writeIf(CONVERTERS.int, 'needs a safe integer'),
  float: writeIf(CONVERTERS.float, 'needs a finite number'),
  str: writeText,
  path: writeRest,
  'path?': (value) => (value === '' ? { segment: '' } : writeRest(value)),
};

function writeRest(value: unknown): Written {
  const written = writeText(value);
  // a slash at the start stays encoded, because a path that begins with "//" would name a host (RFC 3986 §4.2)
  return 'segment' in written ? { segment: written.segment.replace(/(?!^)%2F/g, '/') } : written;
}

/**
 * The segments `.` and `..`. Clients remove them from a URL, even if the dots are written as `%2e`, and so
 * request another path (RFC 3986 §5.2.4, URL Standard).
 */
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

/** Formats a number without an exponent: `1e-7` as `0.0000001`. */
function plainDecimal(value: number): string {
  const [mantissa, exponent] = String(value).split('e') as [string, string?];
  if (exponent === undefined) return mantissa;
  // the match is not null: String() only yields mantissas that match
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(mantissa)!;
  const shift = Number(exponent);
  // for example, 1.5e21 becomes "15" and 20 zeros
  if (shift > 0) return sign + whole! + fraction.padEnd(shift, '0');
  return `${sign}0.${'0'.repeat(-shift - 1)}${whole}${fraction}`;
}

type ParamsReader = (captures: readonly string[]) => Readonly<Record<string, unknown>>;

const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});
const noParams: ParamsReader = () => NO_PARAMS;
const READERS = new Map<string, ParamsReader>();
/**
 * Returns a function that converts matched segments into an object of parameters. Routes with the same
 * parameters share the function, so that their objects have one hidden class in V8. Otherwise look-ups among
 * 200 routes are slower (test/bench/parts.mjs --only=router).
 */
export function paramsReader(parameters: readonly PathParameter[]): ParamsReader {
  if (parameters.length === 0) return noParams;
  // the key is unambiguous, because names are identifiers and so contain neither "/" nor ":"
  const key = parameters.map(({ name, converter }) => `${name}:${converter.name}`).join('/');
  let reader = READERS.get(key);
  if (reader === undefined) READERS.set(key, (reader = readerOf(parameters)));
  return reader;
}

/**
 * Returns a function that creates the parameter objects with a constructor, so that they have one hidden
 * class in V8. That takes 23 ns, and an object literal with computed keys 93 ns (routes `param` of
 * test/bench/http.ts). The prototype is `Object.prototype`, so the results are plain objects.
 */
function readerOf(parameters: readonly PathParameter[]): ParamsReader {
  const names = parameters.map((parameter) => parameter.name);
  const reads = parameters.map((parameter) => parameter.converter.read);
  function Values(this: Record<string, unknown>, captures: readonly string[]): void {
    // an optional parameter at the end has no capture if the path ends before it
    for (let index = 0; index < names.length; index++)
      this[names[index]!] = reads[index]!(captures[index] ?? '');
  }
  // the cast is needed: TypeScript has no type for a function that is a constructor
  const Params = Values as unknown as new (captures: readonly string[]) => Record<string, unknown>;
  Params.prototype = Object.prototype;
  return (captures) => new Params(captures);
}

/** Base URL for parsing a path. A local path must stay on this origin. */
const HERE = 'http://local.invalid';

/**
 * Returns `value` if it is a path of this site, such as `/path?query#fragment`; otherwise undefined. Use it
 * for redirect targets from a request, such as `localPath(req.query.get('next')) ?? '/'`.
 *
 * Refuses everything that a browser, or a proxy that decodes twice, could take for another host or for a
 * script: `//evil.example`, `/\evil.example`, `https:evil.example`, `javascript:...`. Also refuses tabs and
 * line ends, and their escapes in the path.
 */
export function localPath(value: unknown): string | undefined {
  if (typeof value !== 'string' || !value.isWellFormed()) return undefined;
  if (!/^\/(?![/\\])[^\s\\\p{Cc}]*$/u.test(value)) return undefined;
  const path = /^[^?#]*/.exec(value)![0];
  if (/%(?:0|1|5c|7f)/i.test(path) || /^\/%2f/i.test(path)) return undefined;
  const { origin, pathname } = new URL(value, HERE);
  return origin === HERE && !pathname.startsWith('//') ? value : undefined;
}
