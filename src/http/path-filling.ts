/**
 * Path templates filled in: `"/u/{id:int}"` and `{ id: 7 }` → `/u/7`, which router.ts takes apart again.
 */
import { SvcError } from '../errors.ts';
import { CONVERTERS } from './path.ts';
import type { Converter, ConverterName, ParsedTemplate } from './path.ts';

type Written = { readonly segment: string } | { readonly problem: string };
type Writer = (value: unknown) => Written;

/**
 * The path of a template with its parameters filled in and percent-encoded.
 *
 * @throws SvcError `E_URL_PARAM`: one is missing, unknown, or not what its converter reads
 */
export function fillTemplate(name: string, parsed: ParsedTemplate, params: Readonly<Record<string, unknown>>): string {
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
  if (typeof value !== 'string' && typeof value !== 'number') return { problem: 'needs a string or a number' };
  const text = String(value);
  if (text === '') return { problem: 'is empty' };
  if (DOT_SEGMENT.test(text)) return { problem: 'has a segment "." or "..", which clients resolve, escaped or not' };
  return text.isWellFormed() ? { segment: encodeURIComponent(text) } : { problem: 'has a lone surrogate' };
}

function writeIf({ test }: Converter, needs: string): Writer {
  return (value) => {
    const text = typeof value === 'number' && Number.isFinite(value) ? plainDecimal(value) : value;
    return typeof text === 'string' && test(text, 0, text.length) ? { segment: text.toLowerCase() } : { problem: needs };
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
