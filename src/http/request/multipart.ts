/**
 * multipart/form-data (RFC 7578, in the frame of RFC 2046 §5.1): bytes in, parts out. Reads no stream, keeps no content.
 *
 *   body  = [preamble CRLF] "--" boundary padding CRLF part { delimiter padding CRLF part } delimiter "--" padding [CRLF epilogue]
 *   part  = head CRLF [CRLF content]            delimiter = CRLF "--" boundary            padding = *(SP / HTAB)
 *
 * A delimiter is looked for natively, once per chunk, and handed-out content is a part of that chunk. What is held back at
 * its end is a beginning of the delimiter: CR stands at its start and nowhere else in it, so a number remembers which, and
 * whatever does not go on as a delimiter is content as a whole. Time is linear in the bytes, whatever they are.
 *
 * Tolerated, because RFC 2046 says so: preamble, epilogue, padding. Everything else that does not fit is malformed.
 */
import { isUtf8 } from 'node:buffer';
import { DelimiterSearch } from './delimiter-search.ts';
import { parsePartHead } from './part-head.ts';
import type { PartHead } from './part-head.ts';

/** Told of parts as they come. What `onData` gets belongs to the chunk: `bytes` from `start` to before `end`. */
export interface MultipartSink {
  onPart(head: PartHead): void;
  onData(bytes: Buffer, start: number, end: number): void;
  onPartEnd(): void;
}

/** How much of everything there may be. */
export interface MultipartLimits {
  /** Bytes of one part's head. */
  readonly maxHeaderBytes: number;
  /** Parts without a file name, and parts with one. */
  readonly maxFields: number;
  readonly maxFiles: number;
  /** Bytes of one field, of all of them together with the names of all parts, and of one file. */
  readonly maxFieldBytes: number;
  readonly maxTextBytes: number;
  readonly maxFileBytes: number;
}

/** Why a body is refused: 400 for what is malformed, 413 for what is more than allowed. Never says what was sent. */
export interface MultipartIssue {
  readonly status: 400 | 413;
  readonly code: string;
  readonly detail: string;
}

/** Characters of a name, which is kept for every part. */
const MAX_NAME_LENGTH = 1_024;
const CR = 13,
  LF = 10,
  DASH = 45,
  SPACE = 32,
  TAB = 9;
const EMPTY_LINE = Buffer.from('\r\n\r\n');

/** Reads one body. */
export class MultipartParser {
  readonly #sink: MultipartSink;
  readonly #limits: MultipartLimits;
  readonly #delimiter: Buffer;
  readonly #search: DelimiterSearch;
  #state: () => boolean;
  #chunk: Buffer = EMPTY_LINE;
  #at = 0;
  /** How many bytes of the delimiter have been met; the first `#implied` of them are no content. CRLF stands before every body, its own or its head's. */
  #matched = 2;
  #implied = 2;
  /** The beginning of a head that did not end with its chunk: so many bytes, or -1 where none waits. */
  #head: Buffer | undefined;
  #headLength = -1;
  #isInPart = false;
  #isClosing = false;
  #fields = 0;
  #files = 0;
  #textBytes = 0;
  /** What the part may still have, and what it may have in all. */
  #room = 0;
  #isFile = false;
  #problem: MultipartIssue | undefined;

  constructor(boundary: string, sink: MultipartSink, limits: MultipartLimits) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
    this.#search = new DelimiterSearch(this.#delimiter);
    this.#sink = sink;
    this.#limits = limits;
    this.#state = this.#content;
  }

  /** Reads a chunk. Answers what is wrong with the body, as soon as it is known; what comes behind is not read. */
  push(chunk: Uint8Array): MultipartIssue | undefined {
    this.#chunk = Buffer.isBuffer(chunk)
      ? chunk
      : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    this.#at = 0;
    while (this.#at < this.#chunk.length && this.#state()); // a state reads its bytes and names the next one, or wants more
    return this.#problem;
  }

  /** There are no more chunks. */
  end(): MultipartIssue | undefined {
    if (this.#problem === undefined && this.#state !== this.#epilogue && !this.#isClosing)
      this.#malformed('it ends before its last boundary');
    return this.#problem;
  }

  /** Content of a part, or the preamble. */
  #content(): boolean {
    const chunk = this.#chunk,
      delimiter = this.#delimiter,
      start = this.#at;
    let at = start;
    if (this.#matched > 0) {
      let matched = this.#matched;
      while (matched < delimiter.length && at < chunk.length && chunk[at] === delimiter[matched]) {
        matched++;
        at++;
      }
      if (matched === delimiter.length) return this.#onDelimiter(at);
      if (at === chunk.length) {
        this.#matched = matched;
        return false;
      }
      if (this.#matched > this.#implied && !this.#emit(Buffer.from(delimiter), this.#implied, this.#matched))
        return false;
      this.#matched = this.#implied = 0;
    }
    const found = this.#search.indexIn(chunk, at);
    if (found !== -1) return this.#emit(chunk, start, found) && this.#onDelimiter(found + delimiter.length);
    const kept = this.#beginning(at);
    this.#matched = chunk.length - kept;
    return this.#emit(chunk, start, kept) && false;
  }

  /** Where the chunk ends in a beginning of the delimiter; its length where it does not. */
  #beginning(from: number): number {
    const chunk = this.#chunk,
      delimiter = this.#delimiter,
      { length } = chunk;
    const at = chunk.lastIndexOf(CR);
    if (at < from || length - at >= delimiter.length) return length;
    for (let index = at + 1; index < length; index++)
      if (chunk[index] !== delimiter[index - at]) return length;
    return at;
  }

  #emit(bytes: Buffer, start: number, end: number): boolean {
    if (start === end || !this.#isInPart) return true;
    this.#room -= end - start;
    if (this.#room < 0) return this.#tooLong();
    this.#sink.onData(bytes, start, end);
    return true;
  }

  #onDelimiter(next: number): boolean {
    this.#at = next;
    this.#matched = this.#implied = 0;
    if (this.#isInPart) {
      if (!this.#isFile) this.#textBytes += this.#limits.maxFieldBytes - this.#room;
      this.#isInPart = false;
      this.#sink.onPartEnd();
      const { maxTextBytes } = this.#limits;
      if (this.#textBytes > maxTextBytes)
        return this.#tooMuch('max_text_bytes', `all fields together are larger than ${maxTextBytes} bytes`);
    }
    this.#state = this.#boundaryEnd;
    return true;
  }

  /** "--" for the last one, else padding and CRLF. */
  #boundaryEnd(): boolean {
    const byte = this.#chunk[this.#at++];
    if (byte === CR) this.#state = this.#lineEnd;
    else if (byte === DASH) this.#state = this.#closing;
    else if (byte === SPACE || byte === TAB) this.#state = this.#padding;
    else return this.#malformed('there is something else than a new line behind a boundary');
    return true;
  }

  #padding(): boolean {
    const byte = this.#chunk[this.#at++];
    if (byte === CR) this.#state = this.#lineEnd;
    else if (byte !== SPACE && byte !== TAB)
      return this.#malformed('there is something else than a new line behind a boundary');
    return true;
  }

  #lineEnd(): boolean {
    if (this.#chunk[this.#at++] !== LF) return this.#malformed('a new line is CR alone');
    this.#state = this.#isClosing ? this.#epilogue : this.#partHead;
    return true;
  }

  #closing(): boolean {
    if (this.#chunk[this.#at++] !== DASH)
      return this.#malformed('there is something else than a new line behind a boundary');
    this.#isClosing = true;
    this.#state = this.#padding;
    return true;
  }

  #epilogue(): boolean {
    this.#at = this.#chunk.length;
    return false;
  }

  #partHead(): boolean {
    if (this.#headLength >= 0) return this.#longHead();
    const chunk = this.#chunk,
      start = this.#at;
    const end = chunk.indexOf(EMPTY_LINE, start);
    if (end === -1) {
      this.#head ??= Buffer.allocUnsafe(this.#limits.maxHeaderBytes + EMPTY_LINE.length);
      this.#headLength = 0;
      return this.#longHead();
    }
    if (end - start > this.#limits.maxHeaderBytes) return this.#headTooLong();
    this.#at = end + EMPTY_LINE.length;
    return this.#onHead(chunk, start, end);
  }

  /** A head in several chunks is gathered, at most as much as it may have. */
  #longHead(): boolean {
    const head = this.#head!,
      before = this.#headLength;
    const copied = this.#chunk.copy(head, before, this.#at);
    const length = before + copied;
    const end = head.subarray(0, length).indexOf(EMPTY_LINE, Math.max(0, before - EMPTY_LINE.length + 1));
    if (end === -1) {
      if (length === head.length) return this.#headTooLong();
      this.#headLength = length;
      return false;
    }
    this.#at += end + EMPTY_LINE.length - before;
    this.#headLength = -1;
    return this.#onHead(head, 0, end);
  }

  #onHead(bytes: Buffer, start: number, end: number): boolean {
    const text = bytes.toString('utf8', start, end);
    if (text.includes('\ufffd') && !isUtf8(bytes.subarray(start, end)))
      return this.#malformed('a part has a head that is not UTF-8');
    const head = parsePartHead(text);
    if (typeof head === 'string') return this.#malformed(head);
    const { maxFields, maxFiles, maxFieldBytes, maxFileBytes } = this.#limits;
    this.#isFile = head.filename !== undefined;
    if (head.name.length > MAX_NAME_LENGTH || (head.filename?.length ?? 0) > MAX_NAME_LENGTH) {
      return this.#tooMuch('max_name_length', `a name has more than ${MAX_NAME_LENGTH} characters`);
    }
    if (this.#isFile && ++this.#files > maxFiles)
      return this.#tooMuch('max_files', `there are more than ${maxFiles} files`);
    if (!this.#isFile && ++this.#fields > maxFields)
      return this.#tooMuch('max_fields', `there are more than ${maxFields} fields`);
    this.#textBytes += end - start;
    this.#room = this.#isFile ? maxFileBytes : maxFieldBytes;
    this.#isInPart = true;
    this.#matched = this.#implied = 2; // the empty line is a new line before a boundary, too: a part without content
    this.#state = this.#content;
    this.#sink.onPart(head);
    return true;
  }

  #tooLong(): boolean {
    const { maxFileBytes, maxFieldBytes } = this.#limits;
    if (this.#isFile) return this.#tooMuch('max_file_bytes', `a file is larger than ${maxFileBytes} bytes`);
    return this.#tooMuch('max_field_bytes', `a field is larger than ${maxFieldBytes} bytes`);
  }

  #headTooLong(): boolean {
    return this.#tooMuch(
      'max_header_bytes',
      `a part has a head of more than ${this.#limits.maxHeaderBytes} bytes`,
    );
  }

  #tooMuch(code: string, what: string): boolean {
    return this.#fail({ status: 413, code, detail: `The form is too large: ${what}` });
  }

  #malformed(what: string): boolean {
    return this.#fail({
      status: 400,
      code: 'multipart',
      detail: `The form is not valid multipart/form-data: ${what}`,
    });
  }

  #fail(problem: MultipartIssue): boolean {
    this.#problem = problem;
    this.#state = this.#epilogue; // whatever comes is read over
    return false;
  }
}
