/**
 * The files of one form, kept while its request lasts: in memory up to a bound for all of them together, what does not fit
 * in one temporary file, each file a stretch of it. So a form takes one descriptor, however many files it has.
 *
 *   part → begin() → add() … → end()        when much is pending: flush(), and nothing more is read until it is done
 */
import { tmpdir } from 'node:os';
import { ByteQueue } from '../bytes.ts';
import { SvcError } from '../errors.ts';
import { bool, readOptions } from '../options.ts';
import { inspectAsJson } from '../redact.ts';
import { saveTo } from './save-file.ts';
import { Spool } from './spool.ts';
import type { SaveOptions, UploadFile } from '../schema-types.ts';
import type { PartHead } from './part-head.ts';

/** What is read at once. */
const BLOCK_BYTES = 262_144;
/** A stretch of a chunk that is this much smaller than the chunk is copied, for it would keep all of it. */
const WASTE = 2;

/** The files of one form. */
export class UploadStore {
  readonly #directory: string;
  #memoryLeft: number;
  #spool: Spool | undefined;
  #file: ReceivedFile | undefined;
  #flushing: Promise<void> | undefined;
  #isClosed = false;

  /** `directory` undefined: that of the system. */
  constructor(directory: string | undefined, memoryBytes: number) {
    this.#directory = directory ?? tmpdir();
    this.#memoryLeft = memoryBytes;
  }

  get isClosed(): boolean { return this.#isClosed; }

  /** How many bytes wait to be written. */
  get pending(): number { return this.#spool?.pending ?? 0; }

  /** The next file. Beyond `keepBytes` its bytes are counted, and kept no more. */
  begin(head: PartHead, keepBytes: number): ReceivedFile {
    return this.#file = new ReceivedFile(this, head, keepBytes);
  }

  add(bytes: Buffer, start: number, end: number): void {
    const file = this.#file!; // between begin() and end()
    file.size += end - start;
    if (file.size > file.keepBytes) return file.drop();
    const piece = bytes.subarray(start, end);
    if (file.place !== undefined) return this.#spool!.push(piece);
    file.queue.push(piece);
    if (file.size <= this.#memoryLeft) return;
    const spool = this.#spool ??= new Spool(this.#directory);
    file.place = spool.length;
    spool.push(file.queue.take(file.size)!);
  }

  end(): void {
    const file = this.#file!;
    if (file.place !== undefined || file.size > file.keepBytes) return;
    this.#memoryLeft -= file.size;
    const content = file.queue.take(file.size)!;
    file.content = content.buffer.byteLength > WASTE * content.length ? Buffer.from(content) : content;
  }

  /** Writes whole blocks that are pending, or `all` there is. */
  async flush(isAll: boolean): Promise<void> {
    if (this.#isClosed) throw new SvcError('E_UPLOAD_GONE', ['a form']);
    await (this.#flushing = this.#spool?.flush(isAll));
  }

  read(position: number, length: number): Promise<Uint8Array> { return this.#spool!.read(position, length); }

  /** Lets go of everything. Again changes nothing. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#flushing?.catch(() => undefined); // told to whoever flushes; a file that is being opened has to be closed, too
    await this.#spool?.close();
  }
}

/** One file of a form. */
export class ReceivedFile implements UploadFile {
  readonly name: string;
  readonly filename: string;
  readonly contentType: string;
  size = 0;
  /** @internal */
  readonly keepBytes: number;
  /** Its beginning, as long as it is not known where it goes. @internal */
  readonly queue: ByteQueue = new ByteQueue();
  /** Where it begins in the temporary file. @internal */
  place: number | undefined;
  /** All of it, where it is in memory. @internal */
  content: Uint8Array | undefined;
  readonly #store: UploadStore;

  constructor(store: UploadStore, head: PartHead, keepBytes: number) {
    this.#store = store;
    this.name = head.name;
    this.filename = head.filename ?? '';
    this.contentType = head.contentType;
    this.keepBytes = keepBytes;
  }

  async *stream(): AsyncGenerator<Uint8Array, void, undefined> {
    this.#mustBeThere();
    if (this.content !== undefined) {
      if (this.size > 0) yield this.content;
      return;
    }
    for (let at = 0; at < this.size; at += BLOCK_BYTES) {
      this.#mustBeThere();
      yield await this.#store.read(this.place! + at, Math.min(BLOCK_BYTES, this.size - at));
    }
  }

  async bytes(): Promise<Uint8Array> {
    this.#mustBeThere();
    return this.content === undefined ? this.#store.read(this.place!, this.size) : Uint8Array.from(this.content);
  }

  async save(path: string, options: SaveOptions = {}): Promise<void> {
    const { overwrite } = readOptions('UploadFile.save()', options, { overwrite: bool(false) });
    this.#mustBeThere();
    await saveTo(path, this.stream(), overwrite);
  }

  /** Its content does not count any more. @internal */
  drop(): void { this.queue.take(this.queue.length); }

  /** For logs: no content. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { name, filename, contentType, size } = this;
    return { name, filename, contentType, size };
  }

  static { inspectAsJson(ReceivedFile, 'UploadFile'); }

  #mustBeThere(): void {
    if (this.#store.isClosed || this.size > this.keepBytes) throw new SvcError('E_UPLOAD_GONE', [`the file "${this.name}"`]);
  }
}
