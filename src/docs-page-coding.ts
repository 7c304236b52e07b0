/**
 * The page on the wire: the same bytes around a nonce that is another one each time, compressed for each answer.
 *
 * Kept bytes cannot be shared, then; they need not be. Of 500 operations the page has 1.3 MB, of which br makes 37 kB in 5 ms,
 * in another thread, and a page of the common size takes 1 ms (test/bench/docs-page.ts). Hashes in place of the nonce would
 * save that, and a policy that names the page's content would have to be made anew by whoever adds to it.
 */
import { negotiateEncoding } from './http/accept.ts';
import { codersOf } from './http/content-codings.ts';
import type { ContentCoding } from './http/content-codings.ts';
import type { HttpResponse } from './http/response.ts';

const CODERS = codersOf({ zstd: 3, br: 5, gzip: 9 });
/** The best first: of this page zstd makes more bytes in more time. */
const CODINGS = ['br', 'gzip'] as const;
/** Answers that are compressed at a time; further ones go out as they are. */
const MOST_AT_A_TIME = 32;

/** A page with places for a nonce. */
export class CodedPage {
  readonly #parts: readonly Buffer[];
  #underWay = 0;

  /** The nonce stands between the parts. */
  constructor(parts: readonly string[]) { this.#parts = parts.map((part) => Buffer.from(part)); }

  /** Gives an answer its body, in the coding that its client likes best. */
  async write(response: HttpResponse, accepted: string | undefined, nonce: string): Promise<HttpResponse> {
    const bytes = this.#with(nonce);
    const coding = negotiateEncoding(accepted, CODINGS);
    response.headers.vary('Accept-Encoding');
    response.body = bytes;
    if (coding === undefined || this.#underWay >= MOST_AT_A_TIME) return response;
    response.body = await this.#coded(bytes, coding);
    response.headers.set('Content-Encoding', coding);
    return response;
  }

  #with(nonce: string): Buffer {
    const between = Buffer.from(nonce);
    return Buffer.concat(this.#parts.flatMap((part, index) => index === 0 ? [part] : [between, part]));
  }

  #coded(bytes: Buffer, coding: ContentCoding): Promise<Buffer> {
    this.#underWay++;
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    CODERS[coding].later(bytes, (error, coded) => {
      this.#underWay--;
      if (error === null) resolve(coded);
      else reject(error);
    });
    return promise;
  }
}
