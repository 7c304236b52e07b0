/**
 * Options of forms, and the parser of urlencoded forms. multipart-form.ts parses multipart forms; it is
 * imported when the first one arrives.
 */
import { BadRequest, HTTPException, PayloadTooLarge } from '../../base/errors.ts';
import { given, int, readOptions, text } from '../../base/options.ts';
import { parseParameters } from '../headers.ts';
import { Pairs, parsePairs } from './query.ts';
import type { UploadFile } from '../../schema/types.ts';
import type { FormFields, FormOptions } from '../contracts.ts';
import type { MultipartLimits } from './multipart.ts';

export interface ResolvedFormOptions extends MultipartLimits {
  readonly memoryBytes: number;
  readonly directory: string | undefined;
}

/** Returns the maximum size in bytes of a file in this form field; undefined if the file is skipped. */
export type FileKeeper = (field: string) => number | undefined;

const MOST = Number.MAX_SAFE_INTEGER;
const OPTIONS = {
  maxBytes: given<number>(), // RequestBody checks this option, for all kinds of bodies
  maxFields: int(1_000, 0, 1_000_000),
  maxFiles: int(100, 0, 1_000_000),
  maxFieldBytes: int(1_000_000, 0, MOST),
  maxTextBytes: int(10_000_000, 0, MOST),
  maxFileBytes: int(MOST, 0, MOST),
  maxHeaderBytes: int(16_384, 64, 1_048_576),
  memoryBytes: int(1_048_576, 0, MOST),
  directory: text(),
};
const USUAL: ResolvedFormOptions = readOptions('form()', {}, OPTIONS);

/** `directory` is the application's folder for temporary files. */
export function readFormOptions(
  owner: string,
  options: FormOptions,
  directory: string | undefined,
): ResolvedFormOptions {
  // most calls set no option, or only `maxBytes`
  const isUsual = Object.keys(options).every((name) => name === 'maxBytes');
  const resolved = isUsual ? USUAL : readOptions(owner, options, OPTIONS);
  return directory === undefined || resolved.directory !== undefined ? resolved : { ...resolved, directory };
}

/** Reads the Content-Type of a form. Returns no boundary for an urlencoded form. */
export function formTypeOf(contentType: string | undefined): { readonly boundary: string | undefined } {
  const { value } = parseParameters(contentType ?? '');
  if (value === 'application/x-www-form-urlencoded') return { boundary: undefined };
  if (value !== MULTIPART) throw notForm(`application/x-www-form-urlencoded or ${MULTIPART}`);
  const boundary = boundaryOf(contentType!);
  if (boundary === undefined)
    throw new BadRequest('The Content-Type of the form has no valid parameter "boundary"', {
      code: 'multipart',
    });
  return { boundary };
}

/** Reads the boundary of a reader that accepts multipart forms only. */
export function multipartBoundaryOf(contentType: string | undefined): string {
  if (parseParameters(contentType ?? '').value !== MULTIPART) throw notForm(MULTIPART);
  return formTypeOf(contentType).boundary!;
}

const MULTIPART = 'multipart/form-data';

function notForm(accepted: string): HTTPException {
  return new HTTPException(415, `The request body must be ${accepted}`);
}

/**
 * Syntax of a multipart boundary (RFC 2046 §5.1.1): 1 ... 70 of these characters, the last one not a space.
 */
const BOUNDARY = /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/;

/**
 * Returns the boundary in a `Content-Type: multipart/form-data` field. Returns undefined if the boundary is
 * missing, repeated or invalid (RFC 2046), because a firewall could then find other parts than this parser.
 */
export function boundaryOf(contentType: string): string | undefined {
  const pattern = /[ \t]*;[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:[^"\\]|\\[^])*)"|([^\s";]+))[ \t]*/y;
  let boundary: string | undefined;
  let at = contentType.indexOf(';');
  while (at !== -1 && at < contentType.length) {
    pattern.lastIndex = at;
    const match = pattern.exec(contentType);
    if (match === null) return undefined;
    at = pattern.lastIndex;
    if (match[1]!.toLowerCase() !== 'boundary') continue;
    if (boundary !== undefined) return undefined;
    boundary = match[3] ?? match[2]!.replace(/\\([^])/g, '$1');
  }
  return boundary !== undefined && BOUNDARY.test(boundary) ? boundary : undefined;
}

/** The fields and files of a form that was read completely. */
export class ReceivedForm implements FormFields {
  readonly #pairs: Pairs;
  readonly #files: readonly UploadFile[];
  /** Names of form fields whose files were skipped, because the schema does not declare them. */
  readonly #others: readonly string[];

  constructor(pairs: Pairs, files: readonly UploadFile[] = [], others: readonly string[] = []) {
    this.#pairs = pairs;
    this.#files = files;
    this.#others = others;
  }

  get(name: string): string | undefined {
    return this.#pairs.get(name);
  }
  getAll(name: string): readonly string[] {
    return this.#pairs.getAll(name);
  }
  file(name: string): UploadFile | undefined {
    return this.#files.find((file) => file.name === name);
  }
  files(name: string): readonly UploadFile[] {
    return this.#files.filter((file) => file.name === name);
  }
  has(name: string): boolean {
    return this.#pairs.has(name) || this.file(name) !== undefined || this.#others.includes(name);
  }
  keys(): Iterable<string> {
    return new Set([...this.#pairs.keys(), ...this.#files.map(({ name }) => name), ...this.#others]);
  }
}

export function parseUrlencoded(body: string, { maxFields, maxFieldBytes }: ResolvedFormOptions): FormFields {
  const pairs = parsePairs(body, maxFields, true);
  if (pairs === undefined)
    throw new PayloadTooLarge(`The form is too large: there are more than ${maxFields} fields`, {
      code: 'max_fields',
    });
  if (3 * body.length > maxFieldBytes) {
    // only a long body can have a value that is too large, because each UTF-16 unit takes at most three bytes
    for (const [, value] of pairs) {
      if (Buffer.byteLength(value) <= maxFieldBytes) continue;
      throw new PayloadTooLarge(`The form is too large: a field is larger than ${maxFieldBytes} bytes`, {
        code: 'max_field_bytes',
      });
    }
  }
  return new ReceivedForm(pairs);
}
