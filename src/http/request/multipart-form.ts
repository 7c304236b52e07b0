/**
 * Reads multipart forms: completely, part by part, or only the fields before the first file. multipart.ts
 * parses the bytes; uploads.ts stores the files.
 *
 * The body is parsed chunk by chunk, so the limits for fields and files also limit the memory of a form. If
 * the user chooses no file, browsers send an empty file without a name. Such a file is skipped.
 */
import { ByteQueue, asBuffer, utf8Text } from '../../base/bytes.ts';
import { HTTPException, SvcError } from '../../base/errors.ts';
import { holdBytes } from './budget.ts';
import { ReceivedForm } from './form.ts';
import { HandledSteps, handled } from '../../base/promises.ts';
import { MultipartParser } from './multipart.ts';
import { parseParameters } from '../headers.ts';
import { Pairs } from './query.ts';
import { UploadStore } from './uploads.ts';
import type { FormFields, FormPart } from '../contracts.ts';
import type { Holder } from './budget.ts';
import type { FileKeeper, ResolvedFormOptions } from './form.ts';
import type { MultipartLimits, MultipartIssue, MultipartSink } from './multipart.ts';
import type { PartHead } from './part-head.ts';
import type { ReceivedFile } from './uploads.ts';

/** When this many bytes wait to be written to disk, the body is not read further until they are written. */
const PENDING_BYTES = 262_144;
const KEEP_ALL: FileKeeper = () => Infinity;

/** Creates the store for the files of one form. */
export function uploadStore({ directory, memoryBytes }: ResolvedFormOptions): UploadStore {
  return new UploadStore(directory, memoryBytes);
}

/** Limits of a form, the store of its files, and the holder of its fields and of its files in memory. */
interface FormDeps {
  readonly resolved: ResolvedFormOptions;
  readonly store: UploadStore;
  readonly keeper?: FileKeeper | undefined;
  readonly holder: Holder;
}

/** Reads a multipart form completely. The caller must close `store` when the files are no longer needed. */
export async function readMultipart(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  boundary: string,
  { resolved, store, keeper = KEEP_ALL, holder }: FormDeps,
): Promise<FormFields> {
  const collected = new CollectedParts(store, keeper);
  const parser = new MultipartParser(boundary, collected, resolved);
  const { heldBytes } = holder;
  try {
    for await (const chunk of chunks) {
      assertSound(parser.push(chunk) ?? collected.problem);
      holdBytes(holder, heldBytes + collected.textBytes + store.memoryBytes);
      if (store.pending >= PENDING_BYTES) await store.flush(false);
    }
    assertSound(parser.end());
    if (store.pending > 0) await store.flush(true);
    return collected.form();
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Collects the parts of a form: fields in memory, files in an upload store. */
class CollectedParts implements MultipartSink {
  readonly #store: UploadStore;
  readonly #keeper: FileKeeper;
  readonly #names: string[] = [];
  readonly #values: string[] = [];
  readonly #files: ReceivedFile[] = [];
  readonly #others = new Set<string>();
  readonly #text = new TextPart();
  #head!: PartHead; // set before its first use: the parser calls onPart() before the other methods
  #file: ReceivedFile | undefined;
  problem: MultipartIssue | undefined;
  /** Number of bytes of all fields and all names so far. */
  textBytes = 0;

  constructor(store: UploadStore, keeper: FileKeeper) {
    this.#store = store;
    this.#keeper = keeper;
  }

  onPart(head: PartHead): void {
    this.#head = head;
    this.textBytes += Buffer.byteLength(head.name) + Buffer.byteLength(head.filename ?? '');
    if (head.filename === undefined) return;
    const keepBytes = this.#keeper(head.name);
    if (keepBytes === undefined) this.#others.add(head.name);
    else this.#file = this.#store.begin(head, keepBytes);
  }

  onData(bytes: Buffer, start: number, end: number): void {
    if (this.#head.filename === undefined) {
      this.textBytes += end - start;
      this.#text.add(bytes, start, end);
    } else if (this.#file !== undefined) this.#store.add(bytes, start, end);
  }

  onPartEnd(): void {
    const file = this.#file;
    if (file !== undefined) {
      this.#file = undefined;
      this.#store.end();
      if (file.size > 0 || file.filename !== '') this.#files.push(file);
    } else if (this.#head.filename === undefined) this.#onField(this.#text.take());
  }

  form(): FormFields {
    return new ReceivedForm(new Pairs(this.#names, this.#values), this.#files, [...this.#others]);
  }

  #onField(value: string | undefined): void {
    if (value === undefined || isOtherText(this.#head, value)) this.problem ??= NO_TEXT;
    this.#names.push(this.#head.name);
    this.#values.push(value ?? '');
  }
}

type PartEvent =
  | { readonly kind: 'part'; readonly head: PartHead }
  | { readonly kind: 'data'; readonly bytes: Buffer }
  | { readonly kind: 'end' };

/** Each part must be read before the next one is requested. Content that was not read is skipped. */
export async function* partsOf(
  chunks: AsyncIterable<Uint8Array>,
  boundary: string,
  limits: MultipartLimits,
  holder: Holder,
): AsyncGenerator<FormPart, void, undefined> {
  const iterator = chunks[Symbol.asyncIterator]();
  const events = new PartEvents(iterator, boundary, limits, holder);
  try {
    for (let event = await events.next(); event !== undefined; event = await events.next()) {
      if (event.kind === 'part') yield new StreamedPart(event.head, events);
    }
  } finally {
    events.isOver = true;
    await iterator.return?.();
  }
}

/** Collects the calls of the parser for one chunk as events, which next() returns one by one. */
class PartEvents implements MultipartSink {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #parser: MultipartParser;
  #waiting: PartEvent[] = [];
  #taken = 0;
  #problem: MultipartIssue | undefined;
  #isRead = false;
  isOver = false;
  /** Number of parts that were returned so far. Only the last one can be read. */
  count = 0;
  /** Holds the parts that are read as text. */
  readonly holder: Holder;

  constructor(chunks: AsyncIterator<Uint8Array>, boundary: string, limits: MultipartLimits, holder: Holder) {
    this.#chunks = chunks;
    this.holder = holder;
    this.#parser = new MultipartParser(boundary, this, limits);
  }

  onPart(head: PartHead): void {
    this.#waiting.push({ kind: 'part', head });
  }
  onData(bytes: Buffer, start: number, end: number): void {
    this.#waiting.push({ kind: 'data', bytes: bytes.subarray(start, end) });
  }
  onPartEnd(): void {
    this.#waiting.push({ kind: 'end' });
  }

  /** If the body is malformed, the events before the error come first. Returns undefined after the last one. */
  async next(): Promise<PartEvent | undefined> {
    while (this.#taken === this.#waiting.length) {
      assertSound(this.#problem);
      if (this.#isRead) return undefined;
      this.#waiting = [];
      this.#taken = 0;
      const { done, value } = await this.#chunks.next();
      this.#isRead = done === true;
      this.#problem = done === true ? this.#parser.end() : this.#parser.push(value);
    }
    const event = this.#waiting[this.#taken++]!;
    if (event.kind === 'part') this.count++;
    return event;
  }
}

/** A part of a form whose content is read from the body only when the program asks for it. */
class StreamedPart implements FormPart {
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string;
  readonly #head: PartHead;
  readonly #events: PartEvents;
  readonly #number: number;
  #isRead = false;

  constructor(head: PartHead, events: PartEvents) {
    this.name = head.name;
    this.filename = head.filename;
    this.contentType = head.contentType;
    this.#head = head;
    this.#events = events;
    this.#number = events.count;
  }

  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    return new HandledSteps(this.#content());
  }

  text(): Promise<string> {
    return handled(this.#text());
  }

  async *#content(): AsyncGenerator<Uint8Array, void, undefined> {
    while (!this.#isRead) {
      if (this.#events.isOver || this.#events.count !== this.#number)
        throw new SvcError('E_UPLOAD_GONE', [`the part "${this.name}"`]);
      const event = await this.#events.next();
      if (event?.kind === 'data') yield event.bytes;
      else this.#isRead = true;
    }
  }

  async #text(): Promise<string> {
    const received = new TextPart();
    const { holder } = this.#events;
    for await (const bytes of this.#content()) {
      holdBytes(holder, holder.heldBytes + bytes.length);
      received.add(bytes as Buffer, 0, bytes.length);
    }
    const value = received.take();
    if (value === undefined || isOtherText(this.#head, value)) assertSound(NO_TEXT);
    return value!;
  }
}

/** Only this many bytes at the start of a body are searched for fields. */
const LEADING_BYTES = 65_536;
/** Only the head of a part is limited here, because {@link LEADING_BYTES} limits everything else. */
const LEADING_LIMITS: MultipartLimits = {
  maxHeaderBytes: 16_384,
  maxFields: Infinity,
  maxFiles: Infinity,
  maxFieldBytes: Infinity,
  maxTextBytes: Infinity,
  maxFileBytes: Infinity,
};

/**
 * Collects the fields before the first file, for code that needs a field before it accepts a large upload.
 * CSRF protection reads its token that way.
 */
export class LeadingFields implements MultipartSink {
  readonly #parser: MultipartParser;
  readonly #names: string[] = [];
  readonly #values: string[] = [];
  readonly #text = new TextPart();
  #name: string | undefined;
  #left = LEADING_BYTES;
  #hasEnded = false;

  constructor(boundary: string) {
    this.#parser = new MultipartParser(boundary, this, LEADING_LIMITS);
  }

  /**
   * Parses one chunk. Returns true when no further chunk is needed.
   * @throws HTTPException 400 when the form is malformed before its first file
   */
  push(chunk: Uint8Array): boolean {
    const problem = this.#parser.push(chunk.length > this.#left ? chunk.subarray(0, this.#left) : chunk);
    if (!this.#hasEnded) assertSound(problem);
    this.#left -= chunk.length;
    return this.#hasEnded || this.#left <= 0;
  }

  get fields(): Pairs {
    return new Pairs(this.#names, this.#values);
  }

  onPart({ name, filename }: PartHead): void {
    if (filename !== undefined) this.#hasEnded = true;
    this.#name = name;
  }

  onData(bytes: Buffer, start: number, end: number): void {
    if (!this.#hasEnded) this.#text.add(bytes, start, end);
  }

  onPartEnd(): void {
    if (this.#hasEnded) return;
    this.#names.push(this.#name!);
    this.#values.push(this.#text.take() ?? '');
  }
}

function assertSound(problem: MultipartIssue | undefined): void {
  if (problem !== undefined) throw new HTTPException(problem.status, problem.detail, { code: problem.code });
}

class TextPart {
  readonly #queue = new ByteQueue();

  add(bytes: Buffer, start: number, end: number): void {
    this.#queue.push(bytes.subarray(start, end));
  }

  /** Returns the collected text, and clears it. Returns undefined if it is not valid UTF-8. */
  take(): string | undefined {
    // `take()` returns bytes here, because the queue contains this number of bytes
    return utf8Text(asBuffer(this.#queue.take(this.#queue.length)!));
  }
}

/** Error for a field whose text is not UTF-8, or that declares another encoding. */
const NO_TEXT: MultipartIssue = {
  status: 400,
  code: 'utf8',
  detail: 'A field of the form is not UTF-8 text',
};

/**
 * Returns whether a field declares an encoding other than UTF-8 or ASCII. The declaration is the parameter
 * `charset`, or the text of the field `_charset_` (RFC 7578 §4.5, §4.6).
 */
function isOtherText({ name, contentType }: PartHead, value: string): boolean {
  const declared =
    name === '_charset_'
      ? value
      : contentType === 'text/plain'
        ? undefined
        : parseParameters(contentType).parameters.get('charset');
  return declared !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(declared);
}
