/**
 * The text of form fields: UTF-8, whatever a part says (RFC 7578 §5.1). Anything else is refused, never read wrongly.
 */
import { isUtf8 } from 'node:buffer';
import { ByteQueue } from '../bytes.ts';
import { HTTPException } from '../errors.ts';
import { parseParameters } from './parameters.ts';
import type { MultipartProblem } from './multipart.ts';
import type { PartHead } from './part-head.ts';

/** @throws HTTPException with the status of the problem, if there is one */
export function mustBeSound(problem: MultipartProblem | undefined): void {
  if (problem !== undefined) throw new HTTPException(problem.status, problem.detail, { code: problem.code });
}

/** The text of one part, which may come in pieces. */
export class TextPart {
  #bytes: Buffer | undefined;
  #start = 0;
  #end = 0;
  #queue: ByteQueue | undefined;

  add(bytes: Buffer, start: number, end: number): void {
    if (this.#queue !== undefined) this.#queue.push(bytes.subarray(start, end));
    else if (this.#bytes === undefined) {
      this.#bytes = bytes;
      this.#start = start;
      this.#end = end;
    } else {
      this.#queue = new ByteQueue();
      this.#queue.push(this.#bytes.subarray(this.#start, this.#end));
      this.#queue.push(bytes.subarray(start, end));
    }
  }

  /** Its text, and it is as new; undefined for bytes that are no UTF-8. */
  take(): string | undefined {
    if (this.#queue !== undefined) this.#set(this.#queue.take(this.#queue.length)!);
    const bytes = this.#bytes, start = this.#start, end = this.#end;
    this.#bytes = this.#queue = undefined;
    if (bytes === undefined) return '';
    const decoded = bytes.toString('utf8', start, end);
    return decoded.includes('\ufffd') && !isUtf8(bytes.subarray(start, end)) ? undefined : decoded;
  }

  #set(bytes: Uint8Array): void {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#start = 0;
    this.#end = bytes.length;
  }
}

/** 400: bytes, or an encoding, that are not those of text here. */
export const NO_TEXT: MultipartProblem = { status: 400, code: 'utf8', detail: 'A field of the form is not UTF-8 text' };

/** Whether a field says that it is in an encoding that nobody uses any more (RFC 7578 §4.5, §4.6). */
export function isOtherText({ name, contentType }: PartHead, value: string): boolean {
  const declared = name === '_charset_' ? value : contentType === 'text/plain' ? undefined : parseParameters(contentType).parameters.get('charset');
  return declared !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(declared);
}
