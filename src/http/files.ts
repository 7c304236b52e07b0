/**
 * Files as responses: looked up before the answer passes back through the middleware, read while it is sent.
 */
import { constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { NotFound } from '../errors.ts';
import { BYTES_TYPE, HTML_TYPE, HttpResponse, JSON_TYPE, TEXT_TYPE } from './response.ts';
import type { Answered, ResponseOptions } from './response.ts';

/** What may accompany a {@link FileResponse}. */
export interface FileOptions extends ResponseOptions {
  /** Offers the file for saving under this name (`Content-Disposition: attachment`, RFC 6266). */
  readonly filename?: string | undefined;
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.html': HTML_TYPE, '.htm': HTML_TYPE, '.txt': TEXT_TYPE, '.md': 'text/markdown; charset=utf-8', '.css': 'text/css; charset=utf-8',
  '.csv': 'text/csv; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.mjs': 'text/javascript; charset=utf-8', '.json': JSON_TYPE,
  '.map': JSON_TYPE, '.webmanifest': 'application/manifest+json', '.xml': 'application/xml', '.pdf': 'application/pdf', '.zip': 'application/zip',
  '.gz': 'application/gzip', '.tar': 'application/x-tar', '.wasm': 'application/wasm', '.svg': 'image/svg+xml', '.png': 'image/png',
  '.jpg': 'image/jpeg', '.jpeg': 'image/jpeg', '.gif': 'image/gif', '.webp': 'image/webp', '.avif': 'image/avif', '.ico': 'image/vnd.microsoft.icon',
  '.woff': 'font/woff', '.woff2': 'font/woff2', '.ttf': 'font/ttf', '.otf': 'font/otf', '.mp3': 'audio/mpeg', '.ogg': 'audio/ogg', '.wav': 'audio/wav',
  '.mp4': 'video/mp4', '.webm': 'video/webm',
};

/** The media type that a file name suggests; `application/octet-stream` for an unknown one. */
export function mediaTypeOf(path: string): string {
  return MEDIA_TYPES[extname(path).toLowerCase()] ?? BYTES_TYPE;
}

/** `attachment` with the name in the two forms that clients read (RFC 6266 §4.3, RFC 8187). */
export function attachment(filename: string): string {
  const plain = filename.toWellFormed().replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(filename.toWellFormed()).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return plain === filename ? `attachment; filename="${plain}"` : `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/**
 * The content of a file of yours. The path is trusted: never build it from a request (a static mount does that safely).
 * 404 when there is no such regular file.
 */
export class FileResponse extends HttpResponse {
  readonly #path: string;

  constructor(path: string, options: FileOptions = {}) {
    const { filename, ...rest } = options;
    super(null, { ...rest, mediaType: options.mediaType ?? mediaTypeOf(filename ?? path) });
    this.#path = path;
    if (filename !== undefined) this.headers.set('Content-Disposition', attachment(basename(filename)));
  }

  /** @internal */
  override copy(): FileResponse { return this.fill(new FileResponse(this.#path, { status: this.status })); }

  override async settle(_request: Answered): Promise<HttpResponse> {
    const size = await sizeOf(this.#path);
    const answer = super.copy();
    answer.contentLength = size;
    answer.body = size === 0 ? null : { [Symbol.asyncIterator]: () => blocksOf(this.#path, size) };
    return answer;
  }
}

/** The size of a regular file. @throws NotFound for anything else */
async function sizeOf(path: string): Promise<number> {
  try {
    const found = await stat(path);
    if (found.isFile()) return found.size;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'ENAMETOOLONG') throw error;
  }
  throw new NotFound();
}

const BLOCK_BYTES = 262_144;

/**
 * The first `size` bytes, block by block. Opened when the first is asked for: an answer that is never sent holds nothing.
 * A file that became shorter ends the connection, so that the client sees it.
 */
async function* blocksOf(path: string, size: number): AsyncGenerator<Uint8Array, void, undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK); // a pipe put in its place blocks nobody
  try {
    for (let at = 0; at < size;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(BLOCK_BYTES, size - at)), 0, undefined, at);
      if (bytesRead === 0) throw new Error(`The file ended after ${at} of ${size} bytes`);
      at += bytesRead;
      yield bytesRead === buffer.length ? buffer : buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
