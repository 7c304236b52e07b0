/**
 * The body of a request: read once, in whatever form somebody asks for, under the least of the limits. Made for those who ask:
 * most requests have none, and fields that nobody needs cost each of them.
 */
import { isUtf8 } from 'node:buffer';
import { BadRequest, HTTPException, SvcError } from '../errors.ts';
import { shown } from '../options.ts';
import { bodyCodingOf, decodeWhole, decodedChunks } from './body-codings.ts';
import { chunksOf, collect, joined, readAhead, tooLarge } from './body.ts';
import { formTypeOf, parseUrlencoded, readFormOptions, readMultipart } from './form.ts';
import { partsOf } from './form-parts.ts';
import { findField, parseParameters } from './headers.ts';
import { LeadingFields } from './leading-fields.ts';
import { UploadStore } from './uploads.ts';
import type { BodyCoding } from './body-codings.ts';
import type { BodyReader, BodySource } from './body.ts';
import type { Awaitable, BodyOptions, FormData_, FormOptions, FormPart } from './contracts.ts';
import type { FileKeeper, FormTerms } from './form.ts';
import type { MultiMap } from './query.ts';

/** What bodies have from their application. */
export interface BodyDefaults {
  /** The cap of every body, whatever a call asks for. */
  readonly maxBodyBytes: number;
  /** Whether content codings of bodies are taken off; if not, they are refused. */
  readonly decompressBodies?: boolean | undefined;
  /** Where the temporary files of forms go. Default: the system's folder. */
  readonly uploadDirectory?: string | undefined;
}

/** The request that it belongs to. */
export interface BodyOwner {
  /** The cap below the application's. */
  readonly maxBodyBytes: number;
  field(name: string): string | undefined;
  /** Runs `fn` when the request is over. */
  afterwards(fn: () => Awaitable<void>): void;
}

const DEFAULT_MAX_BYTES = 10_000_000;
/** The most bytes of a form that does not say otherwise. */
const DEFAULT_FORM_BYTES = 10_000_000;
/** What decoders put in place of what is no UTF-8. */
const REPLACEMENT = '\ufffd';

/** The body of one request. */
export class RequestBody {
  readonly #owner: BodyOwner;
  readonly #incoming: BodySource;
  readonly #defaults: BodyDefaults;
  /** Who waits for the body; undefined until somebody does. */
  #readers: BodyReader[] | undefined;
  #outcome: { readonly bytes: Uint8Array | undefined; readonly error: unknown } | undefined;
  #isStreamed = false;
  /** Whether a layer has read it, which is not to be noticed. */
  #isWhole = false;
  #form: Promise<FormData_> | undefined;
  #leading: Promise<MultiMap> | undefined;
  /** What has been read of the body to look at its beginning. */
  #ahead: readonly Uint8Array[] | undefined;

  constructor(owner: BodyOwner, incoming: BodySource, defaults: BodyDefaults) {
    this.#owner = owner;
    this.#incoming = incoming;
    this.#defaults = defaults;
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
    return this.#chunks('stream()', this.#limit(options, Infinity));
  }

  #chunks(what: string, maxBytes: number): AsyncIterable<Uint8Array> {
    if (this.#isStreamed || (this.#readers !== undefined && !this.#isWhole)) throw new SvcError('E_BODY_CONSUMED', [what]);
    const coding = this.#isWhole ? undefined : this.#coding(); // what a layer has read is decoded
    this.#isStreamed = true;
    const chunks = chunksOf(this.#incoming, this.#declaredLength(), maxBytes, this.#ahead);
    return coding === undefined ? chunks : decodedChunks(chunks, coding, maxBytes);
  }

  /** @throws HTTPException 415 for a coding that is not taken off */
  #coding(): BodyCoding | undefined {
    const field = this.#owner.field('content-encoding');
    return field === undefined ? undefined : bodyCodingOf(field, this.#defaults.decompressBodies === true);
  }

  text(options: BodyOptions): Promise<string> {
    return this.#read('text()', options, DEFAULT_MAX_BYTES, decodeUtf8);
  }

  /** What `use` makes of the value. `isPlainJson`: without escapes in the text no string can have a lone surrogate. */
  json<T>(options: BodyOptions, use: (value: unknown, isPlainJson: boolean) => T | PromiseLike<T>): Promise<T> {
    const declared = findField(this.#incoming.rawHeaders, 'content-type');
    if (declared !== undefined && declared !== 'application/json' && !isJsonType(declared)) return Promise.reject(new HTTPException(415, 'The request body must be application/json'));
    return this.#read('json()', options, DEFAULT_MAX_BYTES, (bytes) => {
      const text = jsonText(bytes);
      return use(parseJson(text), !text.includes('\\u'));
    });
  }

  /** Of its files only what `keeper` says is kept. */
  form(options: FormOptions, keeper?: FileKeeper): Promise<FormData_> {
    if (this.#form !== undefined) return this.#form;
    const reading = this.#startForm(options, keeper);
    reading.catch(() => undefined); // told to whoever waits for it; a handler that has left does not
    return reading;
  }

  async #startForm(options: FormOptions, keeper: FileKeeper | undefined): Promise<FormData_> {
    const terms = readFormOptions('form()', options, this.#defaults.uploadDirectory);
    const { boundary } = formTypeOf(this.#owner.field('content-type'));
    if (boundary === undefined) return this.#read('form()', options, this.#formBytes(), (bytes) => parseUrlencoded(decodeUtf8(bytes), terms));
    return this.#form = this.#collectForm(boundary, options, terms, keeper);
  }

  async #collectForm(boundary: string, options: FormOptions, terms: FormTerms, keeper: FileKeeper | undefined): Promise<FormData_> {
    const fallback = this.#formBytes();
    const chunks = this.#readers === undefined ? this.#chunks('form()', this.#limit(options, fallback)) : [await this.#read('form()', options, fallback, same)];
    const store = new UploadStore(terms.directory, terms.memoryBytes);
    this.#owner.afterwards(() => store.close());
    return readMultipart(chunks, boundary, terms, store, keeper);
  }

  async *parts(options: FormOptions): AsyncGenerator<FormPart, void, undefined> {
    const terms = readFormOptions('parts()', options, this.#defaults.uploadDirectory);
    const { boundary } = formTypeOf(this.#owner.field('content-type'));
    if (boundary === undefined) throw new HTTPException(415, 'The request body must be multipart/form-data');
    yield* partsOf(this.#chunks('parts()', this.#limit(options, this.#formBytes())), boundary, terms);
  }

  leadingFields(): Promise<MultiMap> { return this.#leading ??= this.#readLeading(); }

  async #readLeading(): Promise<MultiMap> {
    if (this.#form !== undefined) return this.#form;
    const { boundary } = formTypeOf(this.#owner.field('content-type'));
    const leading = new LeadingFields(boundary ?? '-');
    if (boundary === undefined || this.#isStreamed || this.#coding() !== undefined) return leading.fields;
    const maxBytes = this.#limit({}, Infinity);
    if (this.#declaredLength() > maxBytes) throw tooLarge(maxBytes);
    if (this.#readers !== undefined) leading.push(await this.bytes({}));
    else this.#ahead = await readAhead(this.#incoming, (chunk) => leading.push(chunk));
    return leading.fields;
  }

  /** What a form may have that does not say: as much as its route reads, or else not much. */
  #formBytes(): number {
    const { maxBodyBytes } = this.#owner;
    return maxBodyBytes === Infinity ? DEFAULT_FORM_BYTES : maxBodyBytes;
  }

  #limit(options: BodyOptions, fallback: number): number {
    const { maxBytes = fallback } = options;
    if (typeof maxBytes !== 'number' || !(maxBytes >= 0)) throw new SvcError('E_OPTION_RANGE', ['a body reader', 'maxBytes', 'a number of bytes, 0 or more', shown(maxBytes)]);
    return Math.min(maxBytes, this.#defaults.maxBodyBytes, this.#owner.maxBodyBytes);
  }

  /** The body, read once for all that ask for it, and what `use` makes of it. */
  #read<T>(what: string, options: BodyOptions, fallback: number, use: (bytes: Uint8Array) => T | PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#isStreamed) throw new SvcError('E_BODY_CONSUMED', [what]);
      const maxBytes = this.#limit(options, fallback);
      const reader: BodyReader = (bytes, error) => {
        if (bytes === undefined) return reject(error);
        if (bytes.length > maxBytes) return reject(tooLarge(maxBytes)); // read with a higher limit
        try {
          resolve(use(bytes));
        } catch (failure) {
          reject(failure);
        }
      };
      if (this.#outcome !== undefined) reader(this.#outcome.bytes, this.#outcome.error);
      else if (this.#readers !== undefined) this.#readers.push(reader);
      else {
        const coding = this.#coding();
        this.#readers = [reader];
        const tell: BodyReader = (bytes, error) => {
          this.#outcome = { bytes, error };
          for (const waiting of this.#readers!) waiting(bytes, error);
        };
        const done: BodyReader = coding === undefined ? tell : (bytes, error) => bytes === undefined ? tell(bytes, error) : decodeWhole(bytes, coding, maxBytes, tell);
        if (this.#ahead === undefined) collect(this.#incoming, this.#declaredLength(), maxBytes, done);
        else joined(chunksOf(this.#incoming, this.#declaredLength(), maxBytes, this.#ahead)).then((bytes) => done(bytes, undefined), (error: unknown) => done(undefined, error));
      }
    });
  }

  #declaredLength(): number {
    const length = findField(this.#incoming.rawHeaders, 'content-length');
    return length === undefined ? -1 : Number(length);
  }
}

function same<T>(value: T): T { return value; }

/** @throws BadRequest for an empty body, and for bytes that are no UTF-8 */
function jsonText(bytes: Uint8Array): string {
  if (bytes.length === 0) throw new BadRequest('The request body is empty, JSON is expected', { code: 'json' });
  return decodeUtf8(bytes);
}

/** @throws BadRequest for what is no JSON */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new BadRequest('The request body is not valid JSON', { code: 'json' });
  }
}

function isJsonType(declared: string): boolean {
  const { value } = parseParameters(declared);
  return value === 'application/json' || /^application\/[\w!#$&^.+-]+\+json$/.test(value);
}

/** Text of UTF-8 bytes, a byte order mark left out. @throws BadRequest for other bytes */
function decodeUtf8(bytes: Uint8Array): string {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8', hasMark ? 3 : 0);
  // what is no UTF-8 leaves this character behind; V8 does not look for it in text of single bytes, which most is
  if (text.includes(REPLACEMENT) && !isUtf8(bytes)) throw new BadRequest('The request body is not valid UTF-8', { code: 'utf8' });
  return text;
}
