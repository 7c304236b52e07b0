/**
 * Responses with the content of a file. The file is opened before middleware gets the response. Preconditions
 * may lead to 304 or 412, and ranges to 206 or 416. A small file is read whole; a larger one is read while it
 * is sent.
 */
import { fileURLToPath } from 'node:url';
import { extname } from 'node:path';
import { systemClock } from '../../base/clock.ts';
import { HTTPException, NotFound } from '../../base/errors.ts';
import { contentDisposition, httpDate } from '../headers.ts';
import { contentRange, FileBody, layOut, openFile, readRanges } from './body.ts';
import { isChunks } from '../chunks.ts';
import { clientHas, isSameForRange } from './preconditions.ts';
import { BYTES_TYPE, HttpResponse, fieldOf, lengthOf } from '../response.ts';
import type { FileState, OpenFile, Slice } from './body.ts';
import type { Validators } from './preconditions.ts';
import type { Answered, ResponseOptions } from '../response.ts';

/** Options of {@link FileResponse}. */
export interface FileOptions extends ResponseOptions {
  /** File name under which browsers offer to save the file (`Content-Disposition: attachment`, RFC 6266). */
  readonly filename?: string | undefined;
}

/** Maximum size in bytes of a file that is read whole, which is faster than sending blocks. */
export const SMALL_BYTES = 65_536;
/**
 * Two writes within this number of milliseconds may give a file the same modification time, because some file
 * systems store times in steps of 2 s.
 */
const YOUNG_MS = 2_000;

/** Content of a file, with its validators `ETag` and `Last-Modified`. */
export interface Content extends Validators {
  readonly size: number;
  /**
   * The bytes of the file, or the open file from which to read them. Undefined if only header fields are
   * sent, as for HEAD.
   */
  readonly source: Buffer | OpenFile | undefined;
  /** Whether the validators are strong: every change of the file also changes `ETag` and `Last-Modified`. */
  readonly isStrong: boolean;
}

/**
 * Returns `ETag` and `Last-Modified` of a file. The entity tag consists of size and modification time, and is
 * weak if the file was written recently. `Last-Modified` is never in the future. `coding` becomes part of the
 * tag, because a precompressed file has different bytes (RFC 9110 §8.8.3.3).
 */
export function validatorsOf(
  state: FileState,
  nowMs: number,
  coding?: string,
): { readonly etag: string; readonly lastModified: string; readonly isStrong: boolean } {
  const isStrong = nowMs - state.mtimeMs >= YOUNG_MS;
  const opaque = `"${state.size.toString(36)}-${Math.round(state.mtimeMs * 1_000).toString(36)}${coding === undefined ? '' : `-${coding}`}"`;
  return {
    etag: isStrong ? opaque : `W/${opaque}`,
    lastModified: httpDate(Math.min(state.mtimeMs, nowMs)),
    isStrong,
  };
}

/**
 * Sends the content of the file with this path or `file:` URL. Sends 404 if there is no readable regular
 * file. Do not build the path from a request; `mountStatic` does that safely.
 *
 * A 200 response to GET or HEAD has `ETag` and `Last-Modified`. The preconditions and ranges of the request
 * are applied (RFC 9110 §13, §14).
 */
export class FileResponse extends HttpResponse {
  readonly #path: string;

  constructor(file: string | URL, options: FileOptions = {}) {
    const { filename, ...rest } = options;
    const path = file instanceof URL ? fileURLToPath(file) : file;
    super(null, { ...rest, mediaType: options.mediaType ?? mediaTypeOf(filename ?? path) });
    this.#path = path;
    if (filename !== undefined) this.headers.set('Content-Disposition', contentDisposition(filename));
  }

  /** @internal */
  override copy(): FileResponse {
    return this.fill(new FileResponse(this.#path));
  }

  override async settle(request: Answered): Promise<HttpResponse> {
    const file = await openFile(this.#path);
    if (file === undefined) throw new NotFound();
    let body: HttpResponse['body'] = null;
    try {
      const answer = await this.#answer(file, request);
      body = answer.body;
      return answer;
    } finally {
      if (body instanceof FileBody)
        request.afterwards?.(() => file.close()); // closes the file even if the response is never sent
      else await file.close();
    }
  }

  async #answer(file: OpenFile, request: Answered): Promise<HttpResponse> {
    const answer = super.copy();
    const source = file.size <= SMALL_BYTES ? await file.readAll() : file;
    const isSelected = this.status === 200 && (request.method === 'GET' || request.method === 'HEAD');
    if (!isSelected)
      return whole(request, answer, {
        size: sizeOf(source),
        source,
        etag: undefined,
        lastModified: undefined,
        isStrong: false,
      });
    const { isStrong, ...own } = validatorsOf(file, systemClock.nowMs());
    for (const [name, value] of [
      ['ETag', own.etag],
      ['Last-Modified', own.lastModified],
      ['Accept-Ranges', 'bytes'],
    ] as const) {
      if (!answer.headers.has(name)) answer.headers.set(name, value);
    }
    return select(request, answer, {
      size: sizeOf(source),
      source,
      isStrong,
      etag: answer.headers.get('etag'),
      lastModified: answer.headers.get('last-modified'),
    });
  }
}

function sizeOf(source: Buffer | OpenFile): number {
  return source instanceof Uint8Array ? source.length : source.size;
}

/** `answer` is the response with the whole content; preconditions and ranges may replace it. */
function select(request: Answered, answer: HttpResponse, content: Content): HttpResponse {
  return clientHas(request, content) ? notModified(answer, content.size) : deliver(request, answer, content);
}

export function deliver(request: Answered, answer: HttpResponse, content: Content): HttpResponse {
  // `Range` is defined for GET only (RFC 9110 §14.2)
  const field = request.method === 'GET' ? fieldOf(request, 'range') : undefined;
  if (field === undefined || !isSameForRange(request, content, content.isStrong))
    return whole(request, answer, content);
  const ranges = readRanges(field, content.size);
  if (ranges === 'whole') return whole(request, answer, content);
  if (ranges === 'unsatisfiable')
    throw new HTTPException(416, 'The requested byte range is beyond the end of the file', {
      headers: { 'Content-Range': contentRange(undefined, content.size) },
    });
  return partial(answer, content, ranges);
}

function whole(request: Answered, answer: HttpResponse, { size, source }: Content): HttpResponse {
  answer.contentLength = size;
  if (request.method !== 'HEAD' && size > 0)
    // `source` is defined, because the request is not HEAD
    answer.body = source instanceof Uint8Array ? source : new FileBody(source!, [{ start: 0, end: size }]);
  return answer;
}

/** A single range is sent unchanged, several ranges as multipart/byteranges (RFC 9110 §15.3.7). */
function partial(answer: HttpResponse, { size, source }: Content, ranges: readonly Slice[]): HttpResponse {
  answer.status = 206;
  let parts: readonly (Uint8Array | Slice)[] = ranges;
  if (ranges.length === 1) answer.headers.set('Content-Range', contentRange(ranges[0], size));
  else {
    const multipart = layOut(ranges, size, answer.headers.get('content-type'));
    answer.headers.set('Content-Type', multipart.mediaType);
    parts = multipart.parts;
  }
  if (source instanceof Uint8Array) {
    const chunks = parts.map((part) =>
      part instanceof Uint8Array ? part : source.subarray(part.start, part.end),
    );
    answer.body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  } else {
    // `source` is defined, because ranges are sent only for GET
    const body = (answer.body = new FileBody(source!, parts));
    answer.contentLength = body.length;
  }
  return answer;
}

/** Header fields that a 304 response omits, because the client has stored their values (RFC 9110 §15.4.5). */
const OF_CONTENT: ReadonlySet<string> = new Set([
  'content-type',
  'content-encoding',
  'content-language',
  'content-disposition',
  'content-range',
  'accept-ranges',
]);

/** Header fields and size of the 200 response that a 304 response replaces. */
interface Selected {
  readonly flat: readonly string[];
  /** Size of the body in bytes, or -1 if it is unknown. */
  readonly size: number;
}

const selected = new WeakMap<HttpResponse, Selected>();

/**
 * Records which 200 response a 304 response replaces. CompressionMiddleware needs this, because some header
 * fields must be equal in both responses (RFC 9110 §15.4.5).
 */
export function standsFor(answer: HttpResponse, whole: Selected): HttpResponse {
  selected.set(answer, whole);
  return answer;
}

/** Returns the 200 response that a 304 response replaces, if this module created the 304. */
export function selectedBy(answer: HttpResponse): Selected | undefined {
  return selected.get(answer);
}

/**
 * Turns a response into a 304 without header fields about content. A body that is a stream is kept, so that
 * the server can end the stream. `size` is the length of the content, or -1 if unknown.
 */
export function notModified(answer: HttpResponse, size: number = lengthOf(answer)): HttpResponse {
  standsFor(answer, { flat: [...answer.headers.flat], size });
  answer.status = 304;
  if (!isChunks(answer.body)) answer.body = null;
  answer.contentLength = -1;
  for (const [name] of [...answer.headers])
    if (OF_CONTENT.has(name.toLowerCase())) answer.headers.delete(name);
  if (answer.headers.has('etag')) answer.headers.delete('last-modified');
  return answer;
}

const UTF8 = '; charset=utf-8';

/**
 * Media types by the extension of the file name. Text types have the charset UTF-8, because some clients
 * guess the charset otherwise. XML and JSON need none, because they define their encoding themselves.
 */
const TYPES: Readonly<Record<string, string>> = {
  '.html': `text/html${UTF8}`,
  '.htm': `text/html${UTF8}`,
  '.txt': `text/plain${UTF8}`,
  '.log': `text/plain${UTF8}`,
  '.md': `text/markdown${UTF8}`,
  '.css': `text/css${UTF8}`,
  '.csv': `text/csv${UTF8}`,
  '.ics': `text/calendar${UTF8}`,
  '.vcf': `text/vcard${UTF8}`,
  '.vtt': `text/vtt${UTF8}`,
  '.js': `text/javascript${UTF8}`,
  '.mjs': `text/javascript${UTF8}`,
  '.cjs': `text/javascript${UTF8}`,
  '.json': 'application/json',
  '.map': 'application/json',
  '.jsonld': 'application/ld+json',
  '.geojson': 'application/geo+json',
  '.ndjson': 'application/x-ndjson',
  '.webmanifest': 'application/manifest+json',
  '.yaml': 'application/yaml',
  '.yml': 'application/yaml',
  '.xml': 'application/xml',
  '.xhtml': 'application/xhtml+xml',
  '.rss': 'application/rss+xml',
  '.atom': 'application/atom+xml',
  '.svg': 'image/svg+xml',
  '.wasm': 'application/wasm',
  '.pdf': 'application/pdf',
  '.rtf': 'application/rtf',
  '.epub': 'application/epub+zip',
  '.zip': 'application/zip',
  '.gz': 'application/gzip',
  '.br': BYTES_TYPE,
  '.zst': 'application/zstd',
  '.tar': 'application/x-tar',
  '.7z': 'application/x-7z-compressed',
  '.docx': 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  '.odt': 'application/vnd.oasis.opendocument.text',
  '.xlsx': 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  '.ods': 'application/vnd.oasis.opendocument.spreadsheet',
  '.pptx': 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  '.odp': 'application/vnd.oasis.opendocument.presentation',
  '.png': 'image/png',
  '.apng': 'image/apng',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.avif': 'image/avif',
  '.ico': 'image/vnd.microsoft.icon',
  '.bmp': 'image/bmp',
  '.tif': 'image/tiff',
  '.tiff': 'image/tiff',
  '.heic': 'image/heic',
  '.jxl': 'image/jxl',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
  '.ttf': 'font/ttf',
  '.otf': 'font/otf',
  '.mp3': 'audio/mpeg',
  '.ogg': 'audio/ogg',
  '.oga': 'audio/ogg',
  '.opus': 'audio/ogg',
  '.wav': 'audio/wav',
  '.flac': 'audio/flac',
  '.aac': 'audio/aac',
  '.m4a': 'audio/mp4',
  '.weba': 'audio/webm',
  '.mp4': 'video/mp4',
  '.m4v': 'video/mp4',
  '.webm': 'video/webm',
  '.ogv': 'video/ogg',
  '.mov': 'video/quicktime',
  '.mpeg': 'video/mpeg',
  '.m3u8': 'application/vnd.apple.mpegurl',
  '.ts': 'video/mp2t',
  '.mpd': 'application/dash+xml',
};

/** Ignores the case of the extension. Returns `application/octet-stream` if it is unknown. */
export function mediaTypeOf(path: string): string {
  const extension = extname(path).toLowerCase();
  return Object.hasOwn(TYPES, extension) ? TYPES[extension]! : BYTES_TYPE;
}
