/**
 * The body of a request: read once, in whatever form somebody asks for, under the least of the limits. Made for those who ask:
 * most requests have none, and fields that nobody needs cost each of them.
 */
import { Buffer, isUtf8 } from 'node:buffer'; // the global of that name is a getter
import { BadRequest, HTTPException, SvcError } from '../../base/errors.ts';
import { isObject, shown } from '../../base/options.ts';
import { bodyCodingOf, decodeWhole, decodedChunks } from './body-codings.ts';
import { chunksOf, collect, joined, readAhead, tooLarge } from './body-stream.ts';
import { Pairs } from './query.ts';
import { formTypeOf, parseUrlencoded, readFormOptions } from './form.ts';
import { isNamed, parseParameters } from '../headers.ts';
import { HandledSteps, handled } from '../../base/promises.ts';
import type { BodyCoding } from './body-codings.ts';
import type { BodyReader, BodySource } from './body-stream.ts';
import type { Awaitable, BodyOptions, FormFields, FormOptions, FormPart } from '../contracts.ts';
import type { FileKeeper, ResolvedFormOptions } from './form.ts';
import type { MultiMap } from './query.ts';

/** What bodies have from their application. */
export interface BodyDefaults {
  /** The cap of every body whose route has none, whatever a call asks for. */
  readonly maxBodyBytes: number;
  /** Whether content codings of bodies are taken off; if not, they are refused. */
  readonly decompressBodies?: boolean | undefined;
  /** Where the temporary files of forms go. Default: the system's folder. */
  readonly uploadDirectory?: string | undefined;
}

/** The request that it belongs to. */
interface BodyOwner {
  /** The cap of its route, in place of the application's. */
  readonly maxBodyBytes: number | undefined;
  field(name: string): string | undefined;
  /** Runs `fn` when the request is over. */
  afterwards(fn: () => Awaitable<void>): void;
}

/** How a JSON body is read. */
export interface JsonBodyOptions extends BodyOptions {
  /** Whether content without a Content-Type is 415. */
  readonly needsType?: boolean | undefined;
}

/** Who gets the value of a JSON body, or why there is none. Neither may throw. */
export interface JsonTaker {
  /** `isPlainJson`: without escapes in the text no string can have a lone surrogate, which saves the validator the search. */
  received(value: unknown, isPlainJson: boolean): void;
  failed(error: unknown): void;
}

/** Levels of lists and objects in a JSON body that no schema looks at: far beyond any data, and far from where JSON.stringify and other recursions run out of stack. */
const MAX_DEPTH = 1_000;
const DEFAULT_MAX_BYTES = 10_000_000;
/** The most bytes of a form that does not say otherwise. */
const DEFAULT_FORM_BYTES = 10_000_000;
/** What decoders put in place of what is no UTF-8. */
const REPLACEMENT = '\ufffd';

/** The body of one request. */
export class RequestBody implements BodyReader {
  readonly #owner: BodyOwner;
  readonly #incoming: BodySource;
  /** The fields of the request's head that describe the body. */
  readonly #fields: BodyHead;
  readonly #defaults: BodyDefaults;
  /** Who waits for it; undefined until somebody does. */
  #first: LimitedReader | undefined;
  #others: LimitedReader[] | undefined;
  /** Whether it has been read, and what came of that. */
  #isRead = false;
  #bytes: Uint8Array | undefined;
  #error: unknown;
  #isStreamed = false;
  /** Whether a layer has read it, which is not to be noticed. */
  #isWhole = false;
  #form: Promise<FormFields> | undefined;
  #leading: Promise<MultiMap> | undefined;
  /** What has been read of the body to look at its beginning. */
  #ahead: readonly Uint8Array[] | undefined;

  constructor(owner: BodyOwner, incoming: BodySource, defaults: BodyDefaults) {
    this.#owner = owner;
    this.#incoming = incoming;
    this.#defaults = defaults;
    this.#fields = bodyHeadOf(incoming.rawHeaders);
  }

  bytes(options: BodyOptions): Promise<Uint8Array> {
    return this.#read('body()', options, Infinity, same);
  }

  /** For a layer that looks at it: the handler reads it in whatever way it likes, as its stream too. */
  async whole(options: BodyOptions): Promise<Uint8Array> {
    const bytes = await this.bytes(options);
    this.#isWhole = true;
    this.#ahead = [bytes];
    return bytes;
  }

  stream(options: BodyOptions): AsyncIterable<Uint8Array> {
    return new HandledSteps(this.#chunks('stream()', this.#limit(options, Infinity)));
  }

  #chunks(what: string, maxBytes: number): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#isStreamed || (this.#first !== undefined && !this.#isWhole))
      throw new SvcError('E_BODY_CONSUMED', [what]);
    const coding = this.#isWhole ? undefined : this.#coding(); // what a layer has read is decoded
    this.#isStreamed = true;
    const chunks = chunksOf(this.#incoming, this.#fields.length, maxBytes, this.#ahead);
    return coding === undefined ? chunks : decodedChunks(chunks, coding, maxBytes);
  }

  /** @throws HTTPException 415 for a coding that is not taken off */
  #coding(): BodyCoding | undefined {
    const { coding } = this.#fields;
    return coding === undefined ? undefined : bodyCodingOf(coding, this.#defaults.decompressBodies === true);
  }

  text(options: BodyOptions): Promise<string> {
    return this.#read('text()', options, DEFAULT_MAX_BYTES, decodeUtf8);
  }

  /** The value for whoever has no schema, which would have seen how deep it is. */
  value(options: BodyOptions): Promise<unknown> {
    return this.json(options, (value) => {
      if (this.#bytes!.length > 2 * MAX_DEPTH && isObject(value) && isDeeper(value, MAX_DEPTH))
        throw new BadRequest(`The request body is nested deeper than ${MAX_DEPTH} levels`, { code: 'depth' });
      return value;
    });
  }

  /** What `use` makes of the value. */
  json<T>(
    options: JsonBodyOptions,
    use: (value: unknown, isPlainJson: boolean) => T | PromiseLike<T>,
  ): Promise<T> {
    return handled(
      new Promise((resolve, reject) => {
        this.takeJson(options, {
          received(value, isPlainJson) {
            try {
              resolve(use(value, isPlainJson));
            } catch (failure) {
              reject(failure);
            }
          },
          failed: reject,
        });
      }),
    );
  }

  takeJson(options: JsonBodyOptions, taker: JsonTaker): void {
    const { type, length } = this.#fields;
    const lacksType = type === undefined && options.needsType === true;
    if (lacksType ? length > 0 : type !== undefined && type !== 'application/json' && !isJsonType(type))
      return taker.failed(notJson());
    this.#readFor(new JsonReader(taker, lacksType), 'json()', options, DEFAULT_MAX_BYTES);
  }

  /** Of its files only what `keeper` says is kept. */
  form(options: FormOptions, keeper?: FileKeeper): Promise<FormFields> {
    if (this.#form !== undefined) return this.#form;
    return handled(this.#startForm(options, keeper));
  }

  async #startForm(options: FormOptions, keeper: FileKeeper | undefined): Promise<FormFields> {
    const resolved = readFormOptions('form()', options, this.#defaults.uploadDirectory);
    const { boundary } = formTypeOf(this.#fields.type);
    if (boundary === undefined)
      return this.#read('form()', options, DEFAULT_FORM_BYTES, (bytes) =>
        parseUrlencoded(decodeUtf8(bytes), resolved),
      );
    return (this.#form = this.#collectForm(boundary, options, resolved, keeper));
  }

  async #collectForm(
    boundary: string,
    options: FormOptions,
    resolved: ResolvedFormOptions,
    keeper: FileKeeper | undefined,
  ): Promise<FormFields> {
    const chunks =
      this.#first === undefined
        ? this.#chunks('form()', this.#limit(options, DEFAULT_FORM_BYTES))
        : [await this.#read('form()', options, DEFAULT_FORM_BYTES, same)];
    const { readMultipart, uploadStore } = await import('./multipart-form.ts');
    const store = uploadStore(resolved);
    this.#owner.afterwards(() => store.close());
    return readMultipart(chunks, boundary, resolved, store, keeper);
  }

  parts(options: FormOptions): AsyncGenerator<FormPart, void, undefined> {
    return new HandledSteps(this.#parts(options));
  }

  async *#parts(options: FormOptions): AsyncGenerator<FormPart, void, undefined> {
    const resolved = readFormOptions('parts()', options, this.#defaults.uploadDirectory);
    const { boundary } = formTypeOf(this.#fields.type);
    if (boundary === undefined) throw new HTTPException(415, 'The request body must be multipart/form-data');
    const chunks = this.#chunks('parts()', this.#limit(options, DEFAULT_FORM_BYTES));
    const { partsOf } = await import('./multipart-form.ts');
    yield* partsOf(chunks, boundary, resolved);
  }

  leadingFields(): Promise<MultiMap> {
    return (this.#leading ??= handled(this.#readLeading()));
  }

  async #readLeading(): Promise<MultiMap> {
    if (this.#form !== undefined) return this.#form;
    const { boundary } = formTypeOf(this.#fields.type);
    if (boundary === undefined) return new Pairs([], []);
    const { LeadingFields } = await import('./multipart-form.ts');
    if (this.#form !== undefined) return this.#form;
    if (this.#isStreamed || this.#coding() !== undefined) return new Pairs([], []);
    const leading = new LeadingFields(boundary);
    const maxBytes = this.#limit({}, Infinity);
    if (this.#fields.length > maxBytes) throw tooLarge(maxBytes);
    if (this.#first !== undefined) leading.push(await this.bytes({}));
    else this.#ahead = await readAhead(this.#incoming, (chunk) => leading.push(chunk));
    return leading.fields;
  }

  /** The limit of a call that names none: that of its route, else `fallback`. */
  #limit(options: BodyOptions, fallback: number): number {
    const { maxBodyBytes: ofRoute } = this.#owner;
    const { maxBytes = ofRoute ?? fallback } = options;
    if (typeof maxBytes !== 'number' || !(maxBytes >= 0))
      throw new SvcError('E_OPTION_RANGE', [
        'a body reader',
        'maxBytes',
        'a number of bytes, 0 or more',
        shown(maxBytes),
      ]);
    return Math.min(maxBytes, ofRoute ?? this.#defaults.maxBodyBytes);
  }

  /** What `use` makes of the body. */
  #read<T>(what: string, options: BodyOptions, fallback: number, use: (bytes: Uint8Array) => T): Promise<T> {
    return handled(
      new Promise((resolve, reject) =>
        this.#readFor(new PromiseReader(use, resolve, reject), what, options, fallback),
      ),
    );
  }

  /** The body, read once for all that ask for it. */
  #readFor(reader: LimitedReader, what: string, options: BodyOptions, fallback: number): void {
    try {
      if (this.#isStreamed) throw new SvcError('E_BODY_CONSUMED', [what]);
      const maxBytes = (reader.maxBytes = this.#limit(options, fallback));
      if (this.#isRead) reader.onBody(this.#bytes, this.#error);
      else if (this.#first !== undefined) (this.#others ??= []).push(reader);
      else this.#start(reader, maxBytes);
    } catch (error) {
      reader.onBody(undefined, error);
    }
  }

  /** @throws HTTPException 415 */
  #start(first: LimitedReader, maxBytes: number): void {
    const coding = this.#fields.coding === undefined ? undefined : this.#coding();
    this.#first = first;
    const reader: BodyReader =
      coding === undefined
        ? this
        : {
            onBody: (bytes, error) =>
              bytes === undefined ? this.onBody(bytes, error) : decodeWhole(bytes, coding, maxBytes, this),
          };
    if (this.#ahead === undefined) collect(this.#incoming, this.#fields.length, maxBytes, reader);
    else
      joined(chunksOf(this.#incoming, this.#fields.length, maxBytes, this.#ahead)).then(
        (bytes) => reader.onBody(bytes, undefined),
        (error: unknown) => reader.onBody(undefined, error),
      );
  }

  /** It is here, or will never be. */
  onBody(bytes: Uint8Array | undefined, error: unknown): void {
    this.#isRead = true;
    this.#bytes = bytes;
    this.#error = error;
    this.#first!.onBody(bytes, error); // for whom it was read
    if (this.#others !== undefined) for (const reader of this.#others) reader.onBody(bytes, error);
  }
}

/** What the head of a request says of its body, found in one pass. */
interface BodyHead {
  readonly type: string | undefined;
  readonly coding: string | undefined;
  /** Content-Length, or -1. */
  readonly length: number;
}

function bodyHeadOf(rawHeaders: readonly string[]): BodyHead {
  let type: string | undefined;
  let coding: string | undefined;
  let length = -1;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    const value = rawHeaders[index + 1]!;
    switch (
      name.length // few other fields have one of these lengths
    ) {
      case 12:
        if (type === undefined && (name === 'Content-Type' || isNamed(name, 'content-type'))) type = value; // as nearly all write it
        break;
      case 14:
        if (length === -1 && (name === 'Content-Length' || isNamed(name, 'content-length')))
          length = Number(value);
        break;
      case 16:
        if (isNamed(name, 'content-encoding')) coding = coding === undefined ? value : `${coding}, ${value}`;
    }
  }
  return { type, coding, length };
}

/** Who waits for a body. */
abstract class LimitedReader implements BodyReader {
  /** The most bytes that it takes, set before it waits. The body may have been read with a higher limit. */
  declare maxBytes: number;

  onBody(bytes: Uint8Array | undefined, error: unknown): void {
    if (bytes === undefined) this.failed(error);
    else if (bytes.length > this.maxBytes) this.failed(tooLarge(this.maxBytes));
    else this.received(bytes);
  }

  /** Must not throw. */
  protected abstract received(bytes: Uint8Array): void;
  protected abstract failed(error: unknown): void;
}

/** For a promise of what is made of it. */
class PromiseReader<T> extends LimitedReader {
  readonly #use: (bytes: Uint8Array) => T;
  readonly #resolve: (result: T) => void;
  readonly #reject: (error: unknown) => void;

  constructor(use: (bytes: Uint8Array) => T, resolve: (result: T) => void, reject: (error: unknown) => void) {
    super();
    this.#use = use;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  protected received(bytes: Uint8Array): void {
    try {
      this.#resolve(this.#use(bytes));
    } catch (failure) {
      this.#reject(failure);
    }
  }

  protected failed(error: unknown): void {
    this.#reject(error);
  }
}

/** For the value of its JSON. */
class JsonReader extends LimitedReader {
  readonly #taker: JsonTaker;
  /** Whether any content is 415. Its length is not always known before it is read. */
  readonly #lacksType: boolean;

  constructor(taker: JsonTaker, lacksType: boolean) {
    super();
    this.#taker = taker;
    this.#lacksType = lacksType;
  }

  protected received(bytes: Uint8Array): void {
    if (this.#lacksType && bytes.length > 0) return this.#taker.failed(notJson());
    let text: string;
    let value: unknown;
    try {
      text = decodeUtf8(bytes);
      value = parseJson(text);
    } catch (failure) {
      return this.#taker.failed(failure);
    }
    this.#taker.received(value, !text.includes('\\u'));
  }

  protected failed(error: unknown): void {
    this.#taker.failed(error);
  }
}

function same<T>(value: T): T {
  return value;
}

/** @throws BadRequest for what is no JSON */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    const problem = text === '' ? 'is empty, JSON is expected' : 'is not valid JSON';
    throw new BadRequest(`The request body ${problem}`, { code: 'json' });
  }
}

/** Whether its lists and objects lie within each other on more levels. Plain loops, and a call only where there is a level more: a tenth of what parsing takes. */
function isDeeper(value: object, levels: number): boolean {
  if (levels === 0) return true;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++)
      if (isObject(value[index]) && isDeeper(value[index], levels - 1)) return true;
    return false;
  }
  for (const key in value) {
    const member: unknown = (value as Readonly<Record<string, unknown>>)[key];
    if (isObject(member) && isDeeper(member, levels - 1)) return true;
  }
  return false;
}

function notJson(): HTTPException {
  return new HTTPException(415, 'The request body must be application/json, and say so in Content-Type');
}

function isJsonType(declared: string): boolean {
  const { value } = parseParameters(declared);
  return value === 'application/json' || /^application\/[\w!#$&^.+-]+\+json$/.test(value);
}

/** Text of UTF-8 bytes, a byte order mark left out. @throws BadRequest for other bytes */
function decodeUtf8(bytes: Uint8Array): string {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  const buffer = Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8', hasMark ? 3 : 0);
  // what is no UTF-8 leaves this character behind; V8 does not look for it in text of single bytes, which most is
  if (text.includes(REPLACEMENT) && !isUtf8(bytes))
    throw new BadRequest('The request body is not valid UTF-8', { code: 'utf8' });
  return text;
}
