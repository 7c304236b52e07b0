/**
 * The body of a request. It is received once, and can be read as bytes, text, JSON, form or stream. The
 * object is created when the body is first used, because most requests have no body.
 *
 * Reading takes these steps. They return a value, or a promise if bytes are missing, and fail with:
 *   1. the media type and the content coding: 415
 *   2. the declared length: 413 if it is over the limit, before a byte is read
 *   3. the bytes (body-stream.ts): 413 at the first byte over the limit, 503 beyond the budget of held bytes
 *      (budget.ts), ClientDisconnected if the client leaves. If they take too long, the server sends 408
 *      and closes the connection (http/server/server.ts)
 *   4. decoding of the content coding (body-codings.ts): 400, or 413 if the result is over the limit
 *   5. parsing of UTF-8, JSON or the form: 400, or 413 for a form over its limits
 *
 * A declared body is then validated by routing/call.ts: 400.
 */
// imported, because reading the global `Buffer` calls a getter, which takes longer
import { Buffer, isUtf8 } from 'node:buffer';
import { BadRequest, HTTPException, SvcError } from '../../base/errors.ts';
import { isObject, shown, outOfRange } from '../../base/options.ts';
import { bodyCodingOf, decodeWhole, decodedChunks } from './body-codings.ts';
import { chunksOf, joined, limited, readAhead, receive, tooLarge } from './body-stream.ts';
import { clientOf } from './proxy.ts';
import { Pairs } from './query.ts';
import { formTypeOf, multipartBoundaryOf, parseUrlencoded, readFormOptions } from './form.ts';
import { holdBytes } from './budget.ts';
import { isNamed, parseParameters } from '../headers.ts';
import { HandledSteps, LazyModule, handled, promised } from '../../base/promises.ts';
import type { BodyCoding } from './body-codings.ts';
import type { ByteBudget, Holder } from './budget.ts';
import type { BodySource } from './body-stream.ts';
import type { Awaitable, BodyOptions, FormFields, FormOptions, FormPart } from '../contracts.ts';
import type { FileKeeper, ResolvedFormOptions } from './form.ts';
import type { MultiMap } from './query.ts';

/** Code for multipart forms, which most applications do not need. */
export const multipartForms: LazyModule<typeof import('./multipart-form.ts')> = new LazyModule(
  () => import('./multipart-form.ts'),
);

/** Options of a route for the bodies of its requests. If one is undefined, that of the application applies. */
export interface BodyRules {
  readonly maxBodyBytes?: number | undefined;
  readonly strictContentType?: boolean | undefined;
  /** Schema of the route's form; undefined if the route reads none. */
  readonly form?: unknown;
}

/** Settings of the application for the bodies of requests. */
export interface BodyDefaults extends BodyRules {
  /**
   * Maximum size of a body in bytes, unless the route sets another one. The option `maxBytes` of a reading
   * method cannot raise it.
   */
  readonly maxBodyBytes: number;
  /**
   * Whether JSON without a Content-Type is refused with 415, unless the route decides otherwise. A page of
   * another origin can send it with the user's cookies, and without a CORS preflight.
   */
  readonly strictContentType?: boolean | undefined;
  /** Whether bodies with a Content-Encoding are decoded. If false, they are refused with 415. */
  readonly decompressBodies?: boolean | undefined;
  /** Folder for the temporary files of forms. Default: the system's temporary folder. */
  readonly uploadDirectory?: string | undefined;
  /** Counts the bytes that bodies hold; undefined to count none. */
  readonly budget?: ByteBudget | undefined;
}

/** Members of a request that the class RequestBody uses. */
interface BodyOwner {
  /** Options of the matched route. */
  readonly bodyRules: BodyRules;
  /** Address of the client. */
  readonly ip: string;
  /** Calls `fn` after the response was sent, or the request ended without one. */
  afterwards(fn: () => Awaitable<void>): void;
}

/** Uses a JSON body: its value, and the text from which it was parsed. */
export type JsonUse<T> = (value: unknown, text: string) => T | Promise<T>;

/**
 * Maximum nesting of a JSON body that has no schema. Real data has far fewer levels, and JSON.stringify can
 * process far more.
 */
const MAX_DEPTH = 1_000;
const DEFAULT_MAX_BYTES = 10_000_000;
const DEFAULT_FORM_BYTES = 10_000_000;
/** Decoders replace bytes that are not UTF-8 by this character. */
const REPLACEMENT = '\ufffd';

/** The body of one request. */
export class RequestBody implements Holder {
  budget: ByteBudget | undefined;
  heldBytes = 0;
  holderIndex = 0;
  #client: string | undefined;
  readonly #owner: BodyOwner;
  readonly #incoming: BodySource;
  readonly #fields: BodyHead;
  readonly #defaults: BodyDefaults;
  /** The whole body, or a promise of it; undefined until a caller asks for it. All callers share it. */
  #received: Awaitable<Uint8Array> | undefined;
  #isStreamed = false;
  /** Whether a middleware has read the whole body. The handler can then still read it with any method. */
  #isWhole = false;
  #form: Promise<FormFields> | undefined;
  #leading: Promise<MultiMap> | undefined;
  /** Chunks from the start of the body that leadingFields() or a middleware has already read. */
  #ahead: readonly Uint8Array[] | undefined;

  constructor(owner: BodyOwner, incoming: BodySource, defaults: BodyDefaults) {
    this.#owner = owner;
    this.#incoming = incoming;
    this.#defaults = defaults;
    this.budget = defaults.budget;
    this.#fields = bodyHeadOf(incoming.rawHeaders);
  }

  /** Stored, because a closed socket has no address any more. */
  get client(): string {
    return (this.#client ??= clientOf(this.#owner.ip));
  }

  bytes(options: BodyOptions): Promise<Uint8Array> {
    return promised(() => this.#read('body()', options, Infinity, same));
  }

  /**
   * Returns the whole body to a middleware. Afterwards, the handler can still read it with any method,
   * including stream().
   */
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
    if (this.#isStreamed || (this.#received !== undefined && !this.#isWhole))
      throw new SvcError('E_BODY_CONSUMED', [what]);
    // if a middleware has called wholeBody(), the chunks are already decoded
    const coding = this.#isWhole ? undefined : this.#coding();
    this.#isStreamed = true;
    const chunks = chunksOf(this.#incoming, this.#fields.length, maxBytes, this.#ahead);
    return coding === undefined ? chunks : decodedChunks(chunks, coding, maxBytes);
  }

  /** Returns the content coding of the body; undefined if it has none. */
  #coding(): BodyCoding | undefined {
    const { coding } = this.#fields;
    return coding === undefined ? undefined : bodyCodingOf(coding, this.#defaults.decompressBodies === true);
  }

  text(options: BodyOptions): Promise<string> {
    return promised(() => this.#read('text()', options, DEFAULT_MAX_BYTES, decodeUtf8));
  }

  /**
   * Parses the body as JSON for callers without a schema. A body that is nested too deeply is refused,
   * because no schema limits its nesting.
   */
  json(options: BodyOptions): Promise<unknown> {
    return promised(() =>
      this.readJson(options, (value, text) => {
        if (text.length > 2 * MAX_DEPTH && isObject(value) && isDeeper(value, MAX_DEPTH))
          throw new BadRequest(`The request body is nested deeper than ${MAX_DEPTH} levels`, {
            code: 'depth',
          });
        return value;
      }),
    );
  }

  /**
   * Parses the body as JSON, and calls `use` with the value. Returns the result of `use`, or a promise of it if
   * the body has not arrived completely.
   */
  readJson<T>(options: BodyOptions, use: JsonUse<T>): Awaitable<T> {
    const { type, length } = this.#fields;
    const lacksType =
      type === undefined &&
      (this.#owner.bodyRules.strictContentType ?? this.#defaults.strictContentType) === true;
    if (lacksType ? length > 0 : type !== undefined && type !== 'application/json' && !isJsonType(type))
      throw notJson();
    return this.#read('json()', options, DEFAULT_MAX_BYTES, (bytes) => {
      if (lacksType && bytes.length > 0) throw notJson();
      const text = decodeUtf8(bytes);
      return use(parseJson(text), text);
    });
  }

  form(options: FormOptions): Promise<FormFields> {
    return promised(() => this.readForm(options));
  }

  /**
   * Reads a form. `keeper` decides for each form field whether its files are stored, and up to which size.
   */
  readForm(options: FormOptions, keeper?: FileKeeper): Awaitable<FormFields> {
    if (this.#form !== undefined) return this.#form;
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
      this.#received === undefined
        ? this.#chunks('form()', this.#limit(options, DEFAULT_FORM_BYTES))
        : [await this.#read('form()', options, DEFAULT_FORM_BYTES, same)];
    const { readMultipart, uploadStore } = await multipartForms.load();
    const store = uploadStore(resolved);
    this.#owner.afterwards(() => store.close());
    return readMultipart(chunks, boundary, { resolved, store, keeper, holder: this });
  }

  parts(options: FormOptions): AsyncGenerator<FormPart, void, undefined> {
    return new HandledSteps(this.#parts(options));
  }

  async *#parts(options: FormOptions): AsyncGenerator<FormPart, void, undefined> {
    const resolved = readFormOptions('parts()', options, this.#defaults.uploadDirectory);
    const boundary = multipartBoundaryOf(this.#fields.type);
    const chunks = this.#chunks('parts()', this.#limit(options, DEFAULT_FORM_BYTES));
    const { partsOf } = await multipartForms.load();
    yield* partsOf(chunks, boundary, resolved, this);
  }

  leadingFields(): Promise<MultiMap> {
    return (this.#leading ??= handled(this.#readLeading()));
  }

  async #readLeading(): Promise<MultiMap> {
    if (this.#form !== undefined) return this.#form;
    const { boundary } = formTypeOf(this.#fields.type);
    if (boundary === undefined) return new Pairs([], []);
    const { LeadingFields } = await multipartForms.load();
    if (this.#form !== undefined) return this.#form;
    if (this.#isStreamed || this.#coding() !== undefined) return new Pairs([], []);
    const leading = new LeadingFields(boundary);
    const maxBytes = this.#limit({}, Infinity);
    if (this.#fields.length > maxBytes) throw tooLarge(maxBytes);
    if (this.#received !== undefined) leading.push(await this.bytes({}));
    else this.#ahead = await readAhead(this.#incoming, (chunk) => leading.push(chunk), this);
    return leading.fields;
  }

  /**
   * Returns the size limit in bytes for a method such as json(). It is the option `maxBytes`, else the limit
   * of the route, else `fallback`. It never exceeds the limit of the route or application.
   */
  #limit(options: BodyOptions, fallback: number): number {
    const { maxBodyBytes: ofRoute } = this.#owner.bodyRules;
    const { maxBytes = ofRoute ?? fallback } = options;
    if (typeof maxBytes !== 'number' || !(maxBytes >= 0))
      throw outOfRange('body readers', 'maxBytes', 'must be a number of bytes, 0 or more', shown(maxBytes));
    return Math.min(maxBytes, ofRoute ?? this.#defaults.maxBodyBytes);
  }

  /** The body may exceed this limit, if another caller with a higher limit has begun to receive it. */
  #read<T>(
    what: string,
    options: BodyOptions,
    fallback: number,
    use: (bytes: Uint8Array) => T | Promise<T>,
  ): Awaitable<T> {
    if (this.#isStreamed) throw new SvcError('E_BODY_CONSUMED', [what]);
    const maxBytes = this.#limit(options, fallback);
    const whole = (bytes: Uint8Array): T | Promise<T> => {
      this.#received = bytes;
      return use(limited(bytes, maxBytes));
    };
    const received = (this.#received ??= this.#receive(maxBytes));
    return received instanceof Uint8Array ? whole(received) : received.then(whole);
  }

  /** Receives the body, and decodes it if it has a content coding. */
  #receive(maxBytes: number): Awaitable<Uint8Array> {
    const coding = this.#fields.coding === undefined ? undefined : this.#coding();
    const bytes =
      this.#ahead === undefined
        ? receive(this.#incoming, this.#fields.length, maxBytes, this)
        : joined(chunksOf(this.#incoming, this.#fields.length, maxBytes, this.#ahead), this);
    if (coding === undefined) return bytes;
    return Promise.resolve(bytes)
      .then((coded) =>
        decodeWhole(limited(coded, maxBytes), coding, maxBytes, (more) =>
          holdBytes(this, this.heldBytes + more),
        ),
      )
      .then((decoded) => {
        holdBytes(this, decoded.length); // the coded bytes are free
        return decoded;
      });
  }
}

/** Header fields of a request that describe its body. One pass over all fields finds them. */
interface BodyHead {
  readonly type: string | undefined;
  readonly coding: string | undefined;
  /** The value of Content-Length; -1 if the field is absent. */
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
      name.length // only names of these lengths need a comparison
    ) {
      case 12:
        // nearly all clients write `Content-Type`, so this spelling is compared first
        if (type === undefined && (name === 'Content-Type' || isNamed(name, 'content-type'))) type = value;
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

function same<T>(value: T): T {
  return value;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new BadRequest(
      text === '' ? 'The request body is empty, but JSON is expected' : 'The request body is not valid JSON',
      { code: 'json' },
    );
  }
}

/** Whether arrays and objects are nested deeper than `levels`. Takes a tenth of the time of parsing. */
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
  return new HTTPException(415, 'The request body must be JSON, with Content-Type: application/json');
}

function isJsonType(declared: string): boolean {
  const { value } = parseParameters(declared);
  return value === 'application/json' || /^application\/[\w!#$&^.+-]+\+json$/.test(value);
}

/** Decodes UTF-8 without its byte order mark. */
function decodeUtf8(bytes: Uint8Array): string {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  const buffer = Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString('utf8', hasMark ? 3 : 0);
  // toString() decodes invalid bytes to U+FFFD. So only a text with this character needs the check by
  // isUtf8().
  if (text.includes(REPLACEMENT) && !isUtf8(bytes))
    throw new BadRequest('The request body is not valid UTF-8', { code: 'utf8' });
  return text;
}
