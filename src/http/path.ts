/**
 * Path templates such as `"/u/{id:int}"`: parsed at registration, matched by router.ts, filled in by
 * fillTemplate().
 *
 * Grammar:
 *   template = 1*( "/" segment )       segment = literal | "{" name [ ":" converter ] "}"
 *   converter = str (default) | int | float | uuid | path (the rest of the path; last segment only)
 *
 * Literals are written without escapes (`/café`), because paths are decoded before they are matched, once and
 * segment by segment. A segment that starts with ":" or "*" is refused, because it is a parameter in other
 * frameworks. With a backslash before it (`/\\:id` in source) it is literal.
 */
import { SvcError } from '../base/errors.ts';
import { closest } from '../base/options.ts';

interface ConverterTypes {
  /** One segment, not empty. */
  str: string;
  /** Syntax `-?(0|[1-9]\d*)`, safe integers only: a number beyond ±(2^53-1) does not match (404). */
  int: number;
  /** Syntax `-?(0|[1-9]\d*)(\.\d+)?`; the number must be finite. */
  float: number;
  /** UUID in text form (RFC 9562), converted to lower case. */
  uuid: string;
  /** The rest of the path, including slashes; not empty. */
  path: string;
}
/** The name of a converter. */
export type ConverterName = keyof ConverterTypes;

/** Extracts `"id:int" | "name"` from `"/u/{id:int}/{name}"`. */
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

/** The typed parameters of a template; a general record if the template is not a literal type. */
export type PathParams<P extends string> = string extends P
  ? Readonly<Record<string, string | number>>
  : { readonly [K in Placeholders<P> as NameOf<K> & string]: ValueOf<K> };
/** Converts a template of Express (`/:id`) to the syntax of this framework (`/{id}`). */
type Respelt<P extends string> = P extends `${infer Before}/:${infer Rest}`
  ? Rest extends `${infer Name}/${infer More}`
    ? `${Before}/{${Name}}${Respelt<`/${More}`>}`
    : `${Before}/{${Rest}}`
  : P extends `${infer Before}/*${infer Name}`
    ? `${Before}/{${Name extends '' ? 'path' : Name}:path}`
    : P;
/**
 * `P` itself; if it has a mistake, a text about the mistake, which the compiler shows as the expected type.
 */
export type PathTemplate<P extends string> = P extends `${string}/${':' | '*'}${string}`
  ? `Write "${Respelt<P>}": parameters stand in braces`
  : Unreadable<Placeholders<P>> extends never
    ? P
    : Unreadable<Placeholders<P>>;

/**
 * How a converter matches and parses a segment. The more specific a converter is, the lower its `rank`; lower
 * ranks are tried first.
 */
export interface Converter {
  readonly name: ConverterName;
  readonly rank: number;
  /** Whether the characters `start` to before `end` of the decoded path match. */
  test(path: string, start: number, end: number): boolean;
  /** Converts a segment that `test` has accepted to the value of the parameter. */
  read(segment: string): string | number;
}

/**
 * Creates a test for segments: they must match the pattern, and the number must be one that JavaScript can
 * represent.
 */
function matching(
  pattern: RegExp,
  isHeld: (value: number) => boolean = () => true,
): (path: string, start: number, end: number) => boolean {
  return (path, start, end) => {
    const segment = path.slice(start, end);
    return pattern.test(segment) && isHeld(Number(segment));
  };
}

const isInt = matching(/^-?(?:0|[1-9]\d*)$/, Number.isSafeInteger);
const isFloat = matching(/^-?(?:0|[1-9]\d*)(?:\.\d+)?$/, Number.isFinite);
const isUuid = matching(/^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i);

const same = (segment: string): string => segment;
// "-0" gives -0, and adding 0 makes it 0
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
/** A parsed template: literals and parameters alternate, `literals.length === parameters.length + 1`. */
export interface ParsedTemplate {
  readonly template: string;
  /** The text before each parameter, and the text after the last one; only the last may be empty. */
  readonly literals: readonly string[];
  readonly parameters: readonly PathParameter[];
}

/** Parameters as Express writes them: `/:id` or `/*`. */
const FOREIGN = /\/[:*]/;

/** Throws an error that shows how to write this template of Express in the syntax of this framework. */
function refuseForeign(template: string): never {
  const respelt = template
    .replace(/\/:(\w+)[^/]*/g, '/{$1}')
    .replace(/\/\*(\w*)$/, (_rest, name: string) => `/{${name === '' ? 'path' : name}:path}`)
    .replace(/\/\*(\w+)/g, '/{$1}');
  const proposal = FOREIGN.test(respelt) ? 'parameters stand in braces' : `write "${respelt}"`;
  return refuse(
    template,
    `${proposal}; to begin a segment with ":" or "*" as text, write a backslash before it`,
  );
}

/** Characters that a literal must not contain. */
const UNREADABLE = /[{}?#]|%[0-9a-f]{2}/i;
const PARAMETER = /^\{([^{}]*)\}$/;

/**
 * Parses a template.
 *
 * @throws SvcError `E_PATH_TEMPLATE` for a missing leading slash, a parameter that shares its segment, an
 * unknown converter, a name that is not an identifier or is used twice, `path` before the end, `?`, `#` or an
 * escape in a literal, a segment that starts with `:` or `*`
 */
export function parseTemplate(template: string): ParsedTemplate {
  if (typeof template !== 'string' || template[0] !== '/')
    return refuse(template, 'the template does not begin with "/"');
  if (!template.isWellFormed()) return refuse(template, 'the template has a lone surrogate');
  if (FOREIGN.test(template)) return refuseForeign(template);
  const literals: string[] = [];
  const parameters: PathParameter[] = [];
  let literal = '';
  for (const segment of template.slice(1).split('/')) {
    literal += '/';
    const parameter = PARAMETER.exec(segment)?.[1];
    if (parameter === undefined) {
      if (UNREADABLE.test(segment)) return refuseUnreadable(template, segment);
      literal += segment.replace(/^\\(?=[:*])/, ''); // a backslash keeps ":" and "*" literal
      continue;
    }
    if (parameters.at(-1)?.converter === CONVERTERS.path) return refuse(template, NOT_LAST);
    parameters.push(readParameter(parameter, template, parameters));
    literals.push(literal);
    literal = '';
  }
  literals.push(literal);
  if (literal !== '' && parameters.at(-1)?.converter === CONVERTERS.path) return refuse(template, NOT_LAST);
  return { template, literals, parameters };
}

function refuse(template: string, problem: string): never {
  throw new SvcError('E_PATH_TEMPLATE', [String(template), problem]);
}

function refuseUnreadable(template: string, segment: string): never {
  if (/[{}]/.test(segment))
    refuse(template, `the segment "${segment}" mixes a parameter with text, or lacks a brace`);
  return refuse(template, `the segment "${segment}" has "?", "#" or an escape: write it decoded`);
}

const NOT_LAST = 'a path parameter takes the rest of the path, so it must be last';
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

function readParameter(text: string, template: string, before: readonly PathParameter[]): PathParameter {
  const colon = text.indexOf(':');
  const name = colon === -1 ? text : text.slice(0, colon);
  const converter = colon === -1 ? 'str' : text.slice(colon + 1);
  if (!IDENTIFIER.test(name) || name === '__proto__')
    return refuse(template, `"${name}" cannot name a parameter: use a JavaScript identifier`);
  if (before.some((other) => other.name === name))
    return refuse(template, `the parameter "${name}" occurs twice`);
  if (!Object.hasOwn(CONVERTERS, converter)) {
    const near = closest(converter, Object.keys(CONVERTERS));
    return refuse(
      template,
      `unknown converter "${converter}"` + (near === undefined ? '' : `: did you mean "${near}"?`),
    );
  }
  return { name, converter: CONVERTERS[converter as ConverterName] };
}

/**
 * Stands for an encoded slash (`%2F`) while routes are matched, so that `%2F` does not end a segment. It is a
 * lone surrogate, which percent-decoding never yields.
 */
const INNER_SLASH = '\uD800';

/** Decodes a path once, segment by segment; undefined if an escape is malformed (400). */
export function decodePath(path: string): string | undefined {
  try {
    if (!/%2f/i.test(path)) return decodeURIComponent(path);
    return path.split(/%2f/i).map(decodeURIComponent).join(INNER_SLASH);
  } catch {
    return undefined;
  }
}

/** Returns a captured segment with its encoded slashes as slashes. */
export function restoreSlashes(segment: string): string {
  return segment.includes(INNER_SLASH) ? segment.replaceAll(INNER_SLASH, '/') : segment;
}

/**
 * Encodes a URL for `Location`: spaces, non-ASCII and other unsafe characters are percent-encoded, existing
 * escapes stay.
 */
export function encodeLocation(location: string): string {
  return location
    .toWellFormed()
    .replace(/[^\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+/g, encodeURIComponent);
}

type Written = { readonly segment: string } | { readonly problem: string };
type Writer = (value: unknown) => Written;

/**
 * Builds the path of a template from parameters, percent-encoded.
 *
 * @throws SvcError `E_URL_PARAM` for a missing, unknown or invalid parameter
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
    if (value === undefined) throw new SvcError('E_URL_PARAM', [name, parameter.name, 'is missing']);
    const written = writeSegment(parameter.converter, value);
    if ('problem' in written) throw new SvcError('E_URL_PARAM', [name, parameter.name, written.problem]);
    path += written.segment + encodeLiteral(parsed.literals[index + 1]!);
  });
  return path;
}

/** Literal text of a template, encoded for a path. */
export function encodeLiteral(literal: string): string {
  return encodeURI(literal).replaceAll('?', '%3F').replaceAll('#', '%23');
}

/** Returns the segment that the converter parses as `value`, or the problem if there is none. */
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
    // a slash at the start stays escaped: the path would begin with "//", and what follows would be a host
    // (RFC 3986 §4.2)
    return 'segment' in written ? { segment: written.segment.replace(/(?!^)%2F/g, '/') } : written;
  },
};

/**
 * The segments `.` and `..`. Clients remove them when they parse a URL, and so request a different path (RFC
 * 3986 §5.2.4; the URL Standard treats `%2e` as a dot).
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

/** Formats a number without exponent: `1e-7` as `0.0000001`. */
function plainDecimal(value: number): string {
  const [mantissa, exponent] = String(value).split('e') as [string, string?];
  if (exponent === undefined) return mantissa;
  // the result is not null: the pattern matches every mantissa that String() yields
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(mantissa)!;
  const shift = Number(exponent);
  // an exponent is used from 1e21 on, so there are fewer digits than places
  if (shift > 0) return sign + whole! + fraction.padEnd(shift, '0');
  return `${sign}0.${'0'.repeat(-shift - 1)}${whole}${fraction}`;
}

type ParamsReader = (captures: readonly string[]) => Readonly<Record<string, unknown>>;

const NO_PARAMS: Readonly<Record<string, unknown>> = Object.freeze({});
const noParams: ParamsReader = () => NO_PARAMS;
/** Readers by the names and converters of their parameters. */
const READERS = new Map<string, ParamsReader>();
/**
 * Returns the reader for these parameters. Routes whose parameters have equal names and converters share a
 * reader, so their results have the same hidden class. With a constructor for each route, look-ups among 200
 * routes are slower (test/bench/parts.mjs --only=router).
 */
export function paramsReader(parameters: readonly PathParameter[]): ParamsReader {
  if (parameters.length === 0) return noParams;
  // names are identifiers, which contain neither "/" nor ":", so the key is unambiguous
  const key = parameters.map(({ name, converter }) => `${name}:${converter.name}`).join('/');
  let reader = READERS.get(key);
  if (reader === undefined) READERS.set(key, (reader = readerOf(parameters)));
  return reader;
}

/**
 * Uses a constructor, because all objects that it makes have one hidden class. That takes 23 ns, and an
 * object literal with computed keys 93 (routes `param` of test/bench/http.ts). Its prototype is that of
 * Object, so the results are plain objects.
 */
function readerOf(parameters: readonly PathParameter[]): ParamsReader {
  const names = parameters.map((parameter) => parameter.name);
  const reads = parameters.map((parameter) => parameter.converter.read);
  function Values(this: Record<string, unknown>, captures: readonly string[]): void {
    for (let index = 0; index < names.length; index++) this[names[index]!] = reads[index]!(captures[index]!);
  }
  const Params = Values as unknown as new (captures: readonly string[]) => Record<string, unknown>; // TypeScript has no type for a function used as a constructor
  Params.prototype = Object.prototype;
  return (captures) => new Params(captures);
}

/* Local paths: redirect targets that cannot lead to another site, so a request may name them. */

/**
 * Base address for parsing. Any origin would do: the check is only whether the parsed address has the same
 * origin.
 */
const HERE = 'http://local.invalid';

/**
 * Returns `value` if it is a path of this site, `/path?query#fragment`; else undefined. Use it for addresses
 * that clients send:
 *   new RedirectResponse(localPath(req.query.get('next')) ?? '/')
 *
 * Refuses everything that a browser, or a proxy that decodes twice, could take for another host or a program:
 * `//evil.example`, `/\evil.example`, `https:evil.example`, `javascript:...`, tabs and line ends, also
 * escaped ones in the path.
 */
export function localPath(value: unknown): string | undefined {
  if (typeof value !== 'string' || !value.isWellFormed()) return undefined;
  if (!/^\/(?![/\\])[^\s\\\p{Cc}]*$/u.test(value)) return undefined;
  const path = /^[^?#]*/.exec(value)![0];
  if (/%(?:0|1|5c|7f)/i.test(path) || /^\/%2f/i.test(path)) return undefined;
  const { origin, pathname } = new URL(value, HERE);
  return origin === HERE && !pathname.startsWith('//') ? value : undefined;
}
