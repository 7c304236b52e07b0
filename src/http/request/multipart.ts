/**
 * Parser of multipart/form-data (RFC 7578, RFC 2046 §5.1). It receives bytes, and calls a sink for each part.
 * It uses no streams, and stores no content.
 *
 * Grammar:
 *   body  = [preamble CRLF] "--" boundary padding CRLF part { delimiter padding CRLF part } delimiter "--" padding [CRLF epilogue]
 *   part  = head CRLF [CRLF content]            delimiter = CRLF "--" boundary            padding = *(SP / HTAB)
 *
 * The parser searches each chunk for the delimiter, and passes content on as slices of the chunk. If the
 * delimiter spans two chunks, the parser remembers how many of its bytes have matched.
 *
 * The parser accepts preamble, epilogue and padding, as RFC 2046 allows. It refuses a form with any deviation
 * from the grammar.
 *
 * The class DelimiterSearch implements Horspool's algorithm. At a byte that does not occur in the delimiter,
 * the search skips the length of the delimiter. In binary files, this is faster than Buffer.indexOf(): 6 ms
 * instead of 19 for 50 MiB (test/bench/parts.mjs --only=multipart). In text, which contains most bytes of the
 * delimiter, the search falls back to indexOf().
 */
import { asBuffer, utf8Text } from '../../base/bytes.ts';
import { parsePartHead } from './part-head.ts';
import type { PartHead } from './part-head.ts';

/** Receives the parts of a form. onData() gets the bytes from `start` up to, but not including, `end`. */
export interface MultipartSink {
  onPart(head: PartHead): void;
  onData(bytes: Buffer, start: number, end: number): void;
  onPartEnd(): void;
}

export interface MultipartLimits {
  readonly maxHeaderBytes: number;
  /** Maximum number of fields: parts without a file name. */
  readonly maxFields: number;
  readonly maxFiles: number;
  readonly maxFieldBytes: number;
  /** Maximum size of all fields and all heads together, in bytes. */
  readonly maxTextBytes: number;
  readonly maxFileBytes: number;
}

/** Status 400 if the form is malformed, 413 beyond a limit. The texts contain nothing from the body. */
export interface MultipartIssue {
  readonly status: 400 | 413;
  readonly code: string;
  readonly detail: string;
}

/** Maximum number of characters in the name of a field or file. All names are stored in memory. */
const MAX_NAME_LENGTH = 1_024;
const CR = 13,
  LF = 10,
  DASH = 45,
  SPACE = 32,
  TAB = 9;
const EMPTY_LINE = Buffer.from('\r\n\r\n');

/** Parses one multipart body, chunk by chunk. */
export class MultipartParser {
  readonly #sink: MultipartSink;
  readonly #limits: MultipartLimits;
  readonly #delimiter: Buffer;
  readonly #search: DelimiterSearch;
  #state: () => boolean;
  #chunk: Buffer = EMPTY_LINE;
  #at = 0;
  /** Number of bytes of the delimiter that have matched so far. */
  #matched = 2;
  /**
   * Number of matched bytes that are not content: 2 at the start of the body and after a head, because a
   * delimiter may lack its CRLF there. Otherwise 0.
   */
  #implied = 2;
  /** Head of a part that spans several chunks. `#headLength` is its size in bytes, or -1 if there is none. */
  #head: Buffer | undefined;
  #headLength = -1;
  #isInPart = false;
  #isClosing = false;
  #fields = 0;
  #files = 0;
  #textBytes = 0;
  /** Number of bytes that the current part may still contain. */
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

  /** Parses a chunk. Returns the first error of the body, after which further bytes are ignored. */
  push(chunk: Uint8Array): MultipartIssue | undefined {
    this.#chunk = asBuffer(chunk);
    this.#at = 0;
    // a state function reads bytes and may set the next state; it returns false when it needs the next chunk
    while (this.#at < this.#chunk.length && this.#state());
    return this.#problem;
  }

  /** Called at the end of the body. Returns an error if the last boundary is missing. */
  end(): MultipartIssue | undefined {
    if (this.#problem === undefined && this.#state !== this.#epilogue && !this.#isClosing)
      this.#malformed('it ends before its last boundary');
    return this.#problem;
  }

  /** Parser state: reads the content of a part, or the preamble. */
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

  /**
   * Returns the index of a delimiter that begins in this chunk, and may continue in the next one. Returns the
   * length of the chunk if there is none.
   */
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

  /** After the last boundary comes "--", after any other one padding and CRLF. */
  #boundaryEnd(): boolean {
    const byte = this.#chunk[this.#at++];
    if (byte === CR) this.#state = this.#lineEnd;
    else if (byte === DASH) this.#state = this.#closing;
    else if (byte === SPACE || byte === TAB) this.#state = this.#padding;
    else return this.#malformed('a boundary is followed by other text than a line end');
    return true;
  }

  #padding(): boolean {
    const byte = this.#chunk[this.#at++];
    if (byte === CR) this.#state = this.#lineEnd;
    else if (byte !== SPACE && byte !== TAB)
      return this.#malformed('a boundary is followed by other text than a line end');
    return true;
  }

  #lineEnd(): boolean {
    if (this.#chunk[this.#at++] !== LF) return this.#malformed('a line ends with CR without LF');
    this.#state = this.#isClosing ? this.#epilogue : this.#partHead;
    return true;
  }

  #closing(): boolean {
    if (this.#chunk[this.#at++] !== DASH)
      return this.#malformed('a boundary is followed by other text than a line end');
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

  /** Parser state: collects the head of a part that arrives in several chunks, up to its maximum size. */
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
    const text = utf8Text(bytes, start, end);
    if (text === undefined) return this.#malformed('a part has a head that is not UTF-8');
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
    // The CRLF of the empty line after a head also counts as the start of a delimiter. So a part is empty if
    // a boundary follows its head at once.
    this.#matched = this.#implied = 2;
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
    this.#state = this.#epilogue; // this state ignores all further bytes
    return false;
  }
}

/** Minimum number of bytes for which Horspool's algorithm is used; indexOf() is faster for fewer. */
const LEAST_BYTES = 1_024;
/**
 * After this many steps that skip less than the length of the delimiter, the search falls back to indexOf().
 */
const PATIENCE = 64;

export class DelimiterSearch {
  readonly #delimiter: Buffer;
  /** Table of skipsOf(), created when it is first needed: most bodies are too short to need it. */
  #skips: Uint8Array | undefined;

  constructor(delimiter: Buffer) {
    this.#delimiter = delimiter;
  }

  /** Returns the index of the delimiter in `bytes`, searching from `from`, or -1. */
  indexIn(bytes: Buffer, from: number): number {
    if (bytes.length - from < LEAST_BYTES) return bytes.indexOf(this.#delimiter, from);
    return leap(bytes, from, this.#delimiter, (this.#skips ??= skipsOf(this.#delimiter)));
  }
}

/**
 * Returns the table of Horspool's algorithm: for each byte value, the number of bytes that the search may
 * skip at such a byte. 0 means the length of the delimiter, because the byte does not occur in it.
 */
function skipsOf(delimiter: Buffer): Uint8Array {
  const skips = new Uint8Array(256);
  const last = delimiter.length - 1;
  skips[delimiter[last]!] = delimiter.length;
  for (let index = 0; index < last; index++) skips[delimiter[index]!] = last - index;
  return skips;
}

function leap(bytes: Buffer, from: number, delimiter: Buffer, skips: Uint8Array): number {
  const { length } = delimiter;
  const before = length - 1,
    end = bytes.length;
  let at = from + before; // index of the last byte of a delimiter that begins at `from`
  let patience = PATIENCE;
  while (at < end) {
    while (
      at + 3 * length < end &&
      (skips[bytes[at]!]! |
        skips[bytes[at + length]!]! |
        skips[bytes[at + 2 * length]!]! |
        skips[bytes[at + 3 * length]!]!) ===
        0
    ) {
      at += 4 * length;
      // each skip of four delimiter lengths allows one more step before the fallback to indexOf()
      if (patience < PATIENCE) patience++;
    }
    if (at >= end) return -1;
    const skip = skips[bytes[at]!]!;
    if (skip === 0) {
      at += length;
      continue;
    }
    if (patience-- === 0) return bytes.indexOf(delimiter, at - before);
    let index = before;
    while (index >= 0 && bytes[at - before + index] === delimiter[index]) index--;
    if (index < 0) return at - before;
    at += skip;
  }
  return -1;
}
