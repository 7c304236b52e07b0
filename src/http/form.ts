/**
 * Forms: a body in either encoding → fields and files.
 *
 *   application/x-www-form-urlencoded   query.ts      fields, read as the URL Standard has it
 *   multipart/form-data                 multipart.ts  fields, and files that uploads.ts keeps
 *
 * No body is ever in memory as a whole: what a form may take there is the bound of its fields and that of its files. An empty
 * file without a name is what browsers send for an input that nobody has used: it is left out.
 */
import { BadRequest, HTTPException, PayloadTooLarge } from '../errors.ts';
import { given, int, readOptions, text } from '../options.ts';
import { NO_TEXT, TextPart, isOtherText, mustBeSound } from './form-text.ts';
import { parseParameters } from './parameters.ts';
import { MultipartParser, boundaryOf } from './multipart.ts';
import { Pairs, parsePairs } from './query.ts';
import { UploadStore } from './uploads.ts';
import type { UploadFile } from '../schema-types.ts';
import type { FormData_, FormOptions } from './contracts.ts';
import type { MultipartLimits, MultipartProblem, MultipartSink } from './multipart.ts';
import type { PartHead } from './part-head.ts';
import type { ReceivedFile } from './uploads.ts';

/** So much may wait to be written before reading waits, too. */
const PENDING_BYTES = 262_144;

/** Options as they are read, defaults filled in. */
export interface FormTerms extends MultipartLimits {
  readonly memoryBytes: number;
  readonly directory: string | undefined;
}

/** How much of the file of a field is kept, in bytes; undefined: the form has no such file, it is read over. */
export type FileKeeper = (field: string) => number | undefined;
const KEEP_ALL: FileKeeper = () => Infinity;

const MOST = Number.MAX_SAFE_INTEGER;
const OPTIONS = {
  maxBytes: given<number>(), // read with those of all bodies
  maxFields: int(1_000, 0, 1_000_000), maxFiles: int(100, 0, 1_000_000),
  maxFieldBytes: int(1_000_000, 0, MOST), maxTextBytes: int(10_000_000, 0, MOST), maxFileBytes: int(MOST, 0, MOST),
  maxHeaderBytes: int(16_384, 64, 1_048_576), memoryBytes: int(1_048_576, 0, MOST), directory: text(),
};
const USUAL: FormTerms = readOptions('form()', {}, OPTIONS);

/** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
export function readFormOptions(owner: string, options: FormOptions, directory: string | undefined): FormTerms {
  const isUsual = Object.keys(options).every((name) => name === 'maxBytes'); // nearly always
  const terms = isUsual ? USUAL : readOptions(owner, options, OPTIONS);
  return directory === undefined || terms.directory !== undefined ? terms : { ...terms, directory };
}

/** Of which of the two types a body is. @throws HTTPException 415 for neither, 400 for a multipart body without a boundary */
export function formTypeOf(contentType: string | undefined): { readonly boundary: string | undefined } {
  const { value } = parseParameters(contentType ?? '');
  if (value === 'application/x-www-form-urlencoded') return { boundary: undefined };
  if (value !== 'multipart/form-data') throw new HTTPException(415, 'The request body must be application/x-www-form-urlencoded or multipart/form-data');
  const boundary = boundaryOf(contentType!);
  if (boundary === undefined) throw new BadRequest('The form has no valid boundary in its Content-Type', { code: 'multipart' });
  return { boundary };
}

/** Fields, and files. */
class ReceivedForm implements FormData_ {
  readonly #pairs: Pairs;
  readonly #files: readonly UploadFile[];
  /** Names of files that nobody has asked for. */
  readonly #others: readonly string[];

  constructor(pairs: Pairs, files: readonly UploadFile[] = [], others: readonly string[] = []) {
    this.#pairs = pairs;
    this.#files = files;
    this.#others = others;
  }

  get(name: string): string | undefined { return this.#pairs.get(name); }
  getAll(name: string): readonly string[] { return this.#pairs.getAll(name); }
  file(name: string): UploadFile | undefined { return this.#files.find((file) => file.name === name); }
  files(name: string): readonly UploadFile[] { return this.#files.filter((file) => file.name === name); }
  has(name: string): boolean { return this.#pairs.has(name) || this.file(name) !== undefined || this.#others.includes(name); }
  keys(): Iterable<string> { return new Set([...this.#pairs.keys(), ...this.#files.map(({ name }) => name), ...this.#others]); }
}

/** @throws HTTPException 413, 400 for what is no UTF-8 */
export function parseUrlencoded(body: string, { maxFields, maxFieldBytes }: FormTerms): FormData_ {
  const pairs = parsePairs(body, maxFields);
  if (pairs === undefined) throw new PayloadTooLarge(`The form is too large: there are more than ${maxFields} fields`, { code: 'max_fields' });
  if (3 * body.length > maxFieldBytes) { // else none of them can be: three bytes a character
    for (const [, value] of pairs) {
      if (Buffer.byteLength(value) <= maxFieldBytes) continue;
      throw new PayloadTooLarge(`The form is too large: a field is larger than ${maxFieldBytes} bytes`, { code: 'max_field_bytes' });
    }
  }
  return new ReceivedForm(pairs);
}

/** Reads a multipart form whole. The caller closes the `store` when nobody needs its files any more. */
export async function readMultipart(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, boundary: string, terms: FormTerms, store: UploadStore, keeper: FileKeeper = KEEP_ALL,
): Promise<FormData_> {
  const collected = new CollectedParts(store, keeper);
  const parser = new MultipartParser(boundary, collected, terms);
  try {
    for await (const chunk of chunks) {
      mustBeSound(parser.push(chunk) ?? collected.problem);
      if (store.pending >= PENDING_BYTES) await store.flush(false);
    }
    mustBeSound(parser.end());
    if (store.pending > 0) await store.flush(true);
    return collected.form();
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Parts, kept. */
class CollectedParts implements MultipartSink {
  readonly #store: UploadStore;
  readonly #keeper: FileKeeper;
  readonly #names: string[] = [];
  readonly #values: string[] = [];
  readonly #files: ReceivedFile[] = [];
  readonly #others = new Set<string>();
  readonly #text = new TextPart();
  #head!: PartHead; // onPart() comes first
  #file: ReceivedFile | undefined;
  problem: MultipartProblem | undefined;

  constructor(store: UploadStore, keeper: FileKeeper) {
    this.#store = store;
    this.#keeper = keeper;
  }

  onPart(head: PartHead): void {
    this.#head = head;
    if (head.filename === undefined) return;
    const keepBytes = this.#keeper(head.name);
    if (keepBytes === undefined) this.#others.add(head.name);
    else this.#file = this.#store.begin(head, keepBytes);
  }

  onData(bytes: Buffer, start: number, end: number): void {
    if (this.#head.filename === undefined) this.#text.add(bytes, start, end);
    else if (this.#file !== undefined) this.#store.add(bytes, start, end);
  }

  onPartEnd(): void {
    const file = this.#file;
    if (file !== undefined) {
      this.#file = undefined;
      this.#store.end();
      if (file.size > 0 || file.filename !== '') this.#files.push(file);
    } else if (this.#head.filename === undefined) this.#onField(this.#text.take());
  }

  form(): FormData_ { return new ReceivedForm(new Pairs(this.#names, this.#values), this.#files, [...this.#others]); }

  #onField(value: string | undefined): void {
    if (value === undefined || isOtherText(this.#head, value)) this.problem ??= NO_TEXT;
    this.#names.push(this.#head.name);
    this.#values.push(value ?? '');
  }
}
