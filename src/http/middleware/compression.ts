/**
 * Compresses responses with zstd, br or gzip, as the client's `Accept-Encoding` allows (RFC 9110 §12.5.3). A
 * short body is compressed synchronously, a longer one in another thread, and a stream while it is sent.
 *
 * A response is sent uncompressed if its body is shorter than `thresholdBytes`, if its media type is already
 * compressed, or if its status is 204, 206 or 304. Responses with `Content-Encoding`, a digest of
 * their content or `Cache-Control: no-transform` are sent uncompressed, too.
 *
 * Responses that set a cookie are sent uncompressed, because they often contain a secret. If an attacker can
 * place text in such a page, its compressed size reveals the secret (the BREACH attack).
 *
 * A route with `meta: { compress: true }` compresses its responses even if they set cookies. With `compress:
 * false`, a route never compresses.
 */
import { ignore, whenReady } from '../../base/promises.ts';
import { given, int, oneOf, readOptions } from '../../base/options.ts';
import { codersOf, negotiateEncoding } from '../content-codings.ts';
import { checkedChunk, discard, gather, isChunks, isPending, iterate, PassedChunks } from '../chunks.ts';
import { selectedBy } from '../files/files.ts';
import { TransportRequest } from '../request/request.ts';
import { hasNoContent } from '../response.ts';
import type { Coder, ContentCoding } from '../content-codings.ts';
import type { ChunkIterator, Chunks, ChunkStep } from '../chunks.ts';
import type { HeaderList } from '../headers.ts';
import type { HttpResponse } from '../response.ts';
import type { Finding } from '../../base/findings.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, MiddlewareKind, Next } from '../contracts.ts';
import type { Transform } from 'node:stream';

/** Options of {@link CompressionMiddleware}. An option that is `undefined` has its default. */
export interface CompressionOptions {
  /**
   * Minimum size of a response in bytes, 0 ... 1_073_741_824. Default 1_024; shorter responses are not
   * compressed.
   */
  readonly thresholdBytes?: number | undefined;
  /** Codings to use, the preferred one first. Default zstd, br, gzip. */
  readonly encodings?: readonly ContentCoding[] | undefined;
  /** Compression level of zstd, 1 ... 19. Default 3. */
  readonly zstdLevel?: number | undefined;
  /** Quality of brotli, 0 ... 11. Default 4. Levels from 10 on are too slow to compress each response. */
  readonly brotliQuality?: number | undefined;
  /** Compression level of gzip, 1 ... 9. Default 6. */
  readonly gzipLevel?: number | undefined;
  /**
   * Maximum number of responses that are compressed at the same time in other threads or as streams, 1 ...
   * 100_000. Default 256; further responses are sent uncompressed.
   */
  readonly maxConcurrent?: number | undefined;
}

const CODINGS: readonly ContentCoding[] = ['zstd', 'br', 'gzip'];
/** Most images, videos, archives and web fonts are compressed already. */
const COMPRESSIBLE =
  /^(?:text\/[^;]+|application\/(?:[^;]+\+)?(?:json|xml|yaml)|application\/(?:x-ndjson|jsonl|javascript|x-javascript|graphql|wasm|sql|rtf|x-tar|x-sh|vnd\.ms-fontobject)|[^;/]+\/[^;]+\+(?:json|xml|text)|image\/(?:bmp|x-icon|vnd\.microsoft\.icon)|font\/(?:ttf|otf|collection))[ \t]*(?:;|$)/i;
/** Streams of messages, such as server-sent events. Each message is flushed at once. */
const MESSAGES = /^(?:text\/event-stream|application\/(?:x-ndjson|jsonl))\b/i;
/** A stream of at most this many bytes is read completely, and then compressed in one call. */
const WHOLE_BYTES = 65_536;
/**
 * Kinds of middleware that must be registered after CompressionMiddleware, because they set cookies, or need
 * uncompressed responses.
 */
const INSIDE: ReadonlySet<MiddlewareKind | undefined> = new Set([
  'session',
  'csrf',
  'idempotency',
  'compression',
]);

/** Compresses responses. */
export class CompressionMiddleware implements Middleware {
  readonly kind = 'compression';
  readonly #thresholdBytes: number;
  readonly #encodings: readonly ContentCoding[];
  readonly #coders: Readonly<Record<ContentCoding, Coder>>;
  readonly #maxConcurrent: number;
  #underWay = 0;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: CompressionOptions = {}) {
    const { thresholdBytes, encodings, zstdLevel, brotliQuality, gzipLevel, maxConcurrent } = readOptions(
      'CompressionMiddleware',
      options,
      {
        thresholdBytes: int(1_024, 0, 1_073_741_824),
        zstdLevel: int(3, 1, 19),
        brotliQuality: int(4, 0, 11),
        gzipLevel: int(6, 1, 9),
        maxConcurrent: int(256, 1, 100_000),
        encodings: given<readonly ContentCoding[]>(
          'a list of "zstd", "br" and "gzip", each once',
          (value) =>
            Array.isArray(value) &&
            value.length > 0 &&
            new Set(value).size === value.length &&
            value.every(oneOf(CODINGS, 'gzip').accepts),
        ),
      },
    );
    this.#thresholdBytes = thresholdBytes;
    this.#encodings = [...(encodings ?? CODINGS)];
    this.#coders = codersOf({ zstd: zstdLevel, br: brotliQuality, gzip: gzipLevel });
    this.#maxConcurrent = maxConcurrent;
  }

  *compile({ middleware }: CompiledView): Iterable<Omit<Finding, 'place'>> {
    const around = middleware.slice(0, middleware.indexOf(this));
    const wrong = around.find(({ kind }) => INSIDE.has(kind));
    if (wrong !== undefined) yield misplaced(wrong, 'error');
    const tags = around.find(({ kind }) => kind === 'etag');
    if (tags !== undefined) yield misplaced(tags, 'warning');
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    return whenReady(next(), (response) => this.#finish(req, response));
  }

  #finish(req: HttpRequest, response: HttpResponse): Awaitable<HttpResponse> {
    if (response.status === 304) return this.#revalidated(req, response);
    const { body, status } = response;
    if (hasNoContent(status) || req.route?.meta['compress'] === false) return response;
    if (status === 206) return partOf(response);
    // a response without a body is not compressed, but a HEAD response with a length needs the header fields
    // of the compressed GET response
    if (body === null && (req.method !== 'HEAD' || response.contentLength === -1)) return response;
    if (!this.#isLongEnough(response) || !isFit(response.headers.flat, req.route?.meta['compress'] === true))
      return response;
    response.headers.vary('Accept-Encoding');
    const coding = negotiateEncoding(req.headers['accept-encoding'], this.#encodings);
    if (coding === undefined) return response;
    // coded() also removes Content-Length, which counts the uncompressed bytes (RFC 9110 §8.6)
    if (body === null) return coded(response, [], coding);
    if (isChunks(body)) {
      const isSmall =
        response.contentLength !== -1 && response.contentLength <= WHOLE_BYTES && req.method !== 'HEAD';
      return isSmall
        ? this.#compressWhole(req, response, body, coding)
        : this.#compressChunks(req, response, body, coding);
    }
    return this.#compress(req, response, typeof body === 'string' ? Buffer.from(body) : body, coding);
  }

  /**
   * Makes a 304 response match the 200 response that it replaces: adds `Vary`, and makes the `ETag` weak if
   * the 200 response would be compressed (RFC 9110 §15.4.5).
   */
  #revalidated(req: HttpRequest, response: HttpResponse): HttpResponse {
    const whole = selectedBy(response);
    if (whole === undefined) return revalidated(req, response);
    const { headers } = response;
    const says = req.route?.meta['compress'];
    const isCoded =
      says !== false &&
      (whole.size === -1 || whole.size >= this.#thresholdBytes) &&
      isFit(whole.flat, says === true) &&
      (says === true || !headers.has('set-cookie'));
    if (!isCoded) return response;
    headers.vary('Accept-Encoding');
    if (negotiateEncoding(req.headers['accept-encoding'], this.#encodings) !== undefined) weaken(headers);
    return response;
  }

  #isLongEnough({ body, contentLength }: HttpResponse): boolean {
    if (typeof body === 'string')
      return body.length >= this.#thresholdBytes || Buffer.byteLength(body) >= this.#thresholdBytes;
    return body instanceof Uint8Array
      ? body.length >= this.#thresholdBytes
      : contentLength === -1 || contentLength >= this.#thresholdBytes;
  }

  #compress(
    req: HttpRequest,
    response: HttpResponse,
    bytes: Uint8Array,
    coding: ContentCoding,
  ): Awaitable<HttpResponse> {
    const coder = this.#coders[coding];
    if (req.method !== 'HEAD' && bytes.length <= coder.syncBytes)
      return withContent(response, bytes, coder.now(bytes), coding);
    if (req.method === 'HEAD' || this.#underWay >= this.#maxConcurrent)
      // a HEAD response gets no Content-Length, because the compressed length is not known
      return req.method === 'HEAD' ? coded(response, [], coding) : response;
    this.#underWay++;
    return new Promise((resolve) => {
      coder.later(bytes, (error, content) => {
        this.#underWay--;
        // if compression fails, the response is sent uncompressed
        resolve(error === null ? withContent(response, bytes, content, coding) : response);
      });
    });
  }

  /** Compresses a short stream in one call, because an encoder stream would take longer. */
  async #compressWhole(
    req: HttpRequest,
    response: HttpResponse,
    body: Chunks,
    coding: ContentCoding,
  ): Promise<HttpResponse> {
    const bytes = await gather(body, response.contentLength);
    response.body = bytes;
    return this.#compress(req, response, bytes, coding);
  }

  #compressChunks(
    req: HttpRequest,
    response: HttpResponse,
    body: Chunks,
    coding: ContentCoding,
  ): HttpResponse {
    if (this.#underWay >= this.#maxConcurrent) return response;
    this.#underWay++;
    // the content type is defined: isFit() has checked it
    const isEager = MESSAGES.test(response.headers.get('content-type')!);
    const chunks = new CompressedChunks(body, {
      coder: this.#coders[coding],
      isEager,
      onEnd: () => {
        this.#underWay--;
      },
    });
    // ends the source of the body if middleware sends another response instead
    if (req instanceof TransportRequest) req.afterwards(() => chunks.drop());
    return coded(response, chunks, coding);
  }
}

function misplaced({ kind, constructor }: Middleware, severity: Finding['severity']): Omit<Finding, 'place'> {
  const message =
    kind === 'compression'
      ? 'CompressionMiddleware is registered twice, so the first instance receives only responses that are already compressed'
      : kind === 'idempotency'
        ? 'the middleware "idempotency" runs before CompressionMiddleware, so stored responses are compressed, although clients that repeat a request may not accept the compression'
        : kind === 'etag'
          ? 'the middleware "etag" runs before CompressionMiddleware, so entity tags are made from compressed responses, and differ for each compression method'
          : `the middleware "${kind}" runs before CompressionMiddleware, and so adds cookies to compressed responses, but responses with cookies must not be compressed`;
  const remedy =
    kind === 'compression'
      ? 'Register CompressionMiddleware only once'
      : `Register CompressionMiddleware before ${constructor.name}`;
  return { rule: 'SVC121', severity, subject: 'middleware compression', message, remedy };
}

/** Whether the header fields of a response allow compression. */
function isFit(flat: readonly string[], mayHaveCookies: boolean): boolean {
  let isCompressible = false;
  for (let index = 0; index < flat.length; index += 2) {
    const value = flat[index + 1]!;
    switch (flat[index]!.toLowerCase()) {
      case 'content-type':
        isCompressible = COMPRESSIBLE.test(value);
        break;
      case 'set-cookie':
        if (!mayHaveCookies) return false;
        break;
      case 'cache-control':
        if (/\bno-transform\b/i.test(value)) return false;
        break;
      case 'content-encoding':
      case 'content-range':
      case 'content-digest':
      case 'repr-digest':
      case 'digest':
      case 'content-md5':
        return false;
    }
  }
  return isCompressible;
}

/** Replaces the body by its compressed content if that is shorter. */
function withContent(
  response: HttpResponse,
  bytes: Uint8Array,
  content: Buffer,
  coding: ContentCoding,
): HttpResponse {
  return content.length < bytes.length ? coded(response, content, coding) : response;
}

function coded(response: HttpResponse, body: Uint8Array | Chunks, coding: ContentCoding): HttpResponse {
  const { headers } = response;
  response.body = body;
  response.contentLength = -1;
  headers.set('Content-Encoding', coding);
  headers.delete('Accept-Ranges'); // a range would refer to the uncompressed content
  weaken(headers);
  return response;
}

/** Makes a strong `ETag` weak, because the compressed content has different bytes (RFC 9110 §8.8.3). */
function weaken(headers: HeaderList): void {
  const tag = headers.get('etag');
  if (tag?.startsWith('"') === true) headers.set('ETag', `W/${tag}`);
}

/**
 * Adds `Vary` to a 206 response if the 200 response would have it (RFC 9110 §15.3.7). The 206 response itself
 * is not compressed, because its ranges refer to the uncompressed content.
 */
function partOf(response: HttpResponse): HttpResponse {
  const type = response.headers.get('content-type') ?? '';
  if (
    response.headers.has('content-range') ? COMPRESSIBLE.test(type) : type.startsWith('multipart/byteranges')
  )
    response.headers.vary('Accept-Encoding');
  return response;
}

/**
 * Adds `Vary` to a 304 response of a handler, because the 200 response that the client has stored may be
 * compressed. If `If-None-Match` contains the weak form of the `ETag`, the client has stored the compressed
 * response. The `ETag` of the 304 then becomes weak, too.
 */
function revalidated(req: HttpRequest, response: HttpResponse): HttpResponse {
  response.headers.vary('Accept-Encoding');
  if (req.headers['if-none-match']?.includes(`W/${response.headers.get('etag')}`) === true)
    weaken(response.headers);
  return response;
}

const DONE: ChunkStep = Object.freeze({ done: true, value: undefined });

/**
 * Compresses a body while it is sent. Whenever the body has no further chunk ready, the encoder is flushed,
 * so that the client gets all chunks so far.
 */
export class CompressedChunks extends PassedChunks {
  readonly #coder: Coder;
  readonly #isEager: boolean;
  readonly #onEnd: () => void;
  #source: ChunkIterator | undefined;
  #encoder: Encoder | undefined;
  /** The promise of a chunk that the source has not yielded yet. The following call of next() awaits it. */
  #asked: PromiseLike<ChunkStep> | undefined;
  /** Whether the encoder may contain output that was not flushed. */
  #isDirty = false;
  #isOver = false;

  /**
   * `isEager`: each chunk is a message that is flushed at once. `onEnd` is called once, when the body has
   * ended.
   */
  constructor(
    chunks: Chunks,
    {
      coder,
      isEager,
      onEnd,
    }: { readonly coder: Coder; readonly isEager: boolean; readonly onEnd: () => void },
  ) {
    super(chunks);
    this.#coder = coder;
    this.#isEager = isEager;
    this.#onEnd = onEnd;
  }

  async next(): Promise<ChunkStep> {
    const source = (this.#source ??= iterate(this.chunks));
    const encoder = (this.#encoder ??= new Encoder(this.#coder));
    while (!this.#isOver) {
      let step = this.#asked ?? source.next();
      if (isPending(step)) {
        const early = await this.#flushBefore(step, encoder);
        if (early !== undefined) return { done: false, value: early };
        step = await step;
        this.#asked = undefined;
      }
      const coded =
        step.done === true ? await this.#finish(encoder) : await encoder.write(checkedChunk(step.value));
      this.#isDirty = true;
      if (coded.length > 0) return { done: false, value: coded };
    }
    return DONE;
  }

  return(): unknown {
    if (this.#source === undefined) return this.#end() ? discard(this.chunks) : undefined;
    return this.#end() ? this.#source.return?.() : undefined;
  }

  /**
   * Flushes the encoder and returns its output, unless the next chunk arrives within one turn of the event
   * loop. With `#isEager`, flushes without waiting for the next chunk.
   */
  async #flushBefore(step: PromiseLike<ChunkStep>, encoder: Encoder): Promise<Buffer | undefined> {
    if (!this.#isDirty) return undefined;
    this.#asked = step;
    step.then(undefined, ignore); // avoids an unhandled rejection; the next call of next() reports the error
    if (!this.#isEager && (await isReady(step))) return undefined;
    this.#isDirty = false;
    const coded = await encoder.flush();
    return coded.length === 0 ? undefined : coded;
  }

  async #finish(encoder: Encoder): Promise<Buffer> {
    const coded = await encoder.finish();
    this.#end();
    return coded;
  }

  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#encoder?.close();
    this.#onEnd();
    return true;
  }
}

/** Whether a promise settles within one turn of the event loop. */
function isReady(step: PromiseLike<ChunkStep>): Promise<boolean> {
  return new Promise((resolve) => {
    step.then(
      () => resolve(true),
      () => resolve(true),
    );
    setImmediate(() => resolve(false));
  });
}

/** A stream of node:zlib. Its methods return promises of the compressed output. */
class Encoder {
  readonly #stream: Transform & { flush?(kind: number, done: () => void): void };
  readonly #flush: number;
  #chunks: Buffer[] = [];

  constructor({ stream, flush }: Coder) {
    this.#stream = stream();
    this.#flush = flush;
    // an error is ignored here, because the promise of write(), flush() or finish() rejects with it
    this.#stream.on('data', (chunk: Buffer) => this.#chunks.push(chunk)).on('error', ignore);
  }

  write(chunk: string | Uint8Array): Promise<Buffer> {
    return this.#ask((done) => this.#stream.write(chunk, done));
  }

  /** Returns all output that the encoder has not returned yet. */
  flush(): Promise<Buffer> {
    return this.#ask((done) => this.#stream.flush!(this.#flush, done));
  }

  /** Ends the encoder, and returns the rest of its output. */
  finish(): Promise<Buffer> {
    return this.#ask((done) => {
      this.#stream.once('end', done).end();
    });
  }

  close(): void {
    this.#stream.destroy();
  }

  #ask(how: (done: (error?: Error | null) => void) => void): Promise<Buffer> {
    // close() may have destroyed the stream while the body waited for a chunk; this is not an error
    if (this.#stream.destroyed) return Promise.resolve(EMPTY);
    return new Promise((resolve, reject) => {
      // if the stream closes early, it does not call `done`, and the promise would stay pending without this
      // listener
      const lose = (): void => resolve(EMPTY);
      this.#stream.once('close', lose);
      how((error) => {
        this.#stream.off('close', lose);
        if (error !== undefined && error !== null) reject(error);
        else resolve(this.#take());
      });
    });
  }

  #take(): Buffer {
    while (this.#stream.read() !== null); // each read() emits output as a "data" event
    const chunks = this.#chunks;
    this.#chunks = [];
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  }
}

const EMPTY = Buffer.alloc(0);
