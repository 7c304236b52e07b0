/**
 * Stores the files of one form until its request has ended. All files together may use a limited amount of
 * memory. Further files are stored one after another in a single temporary file, so that a form needs only
 * one file descriptor.
 *
 * For each uploaded file, the parser of the form calls begin(), add() for each chunk, and end(). When many
 * bytes are pending, flush() writes them to the temporary file; until then, the body is not read further.
 */
import { tmpdir } from 'node:os';
import { randomBytes } from 'node:crypto';
import { link, open, readdir, rename, rm, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { unlinkSync } from 'node:fs';
import { ByteQueue } from '../../base/bytes.ts';
import { HTTPException, SvcError, errorCode } from '../../base/errors.ts';
import { bool, readOptions } from '../../base/options.ts';
import { ignore } from '../../base/promises.ts';
import { lacksDescriptors } from '../../observability/descriptors.ts';
import { inspectAsJson } from '../../observability/redact.ts';
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import type { SaveOptions, UploadFile } from '../../schema/types.ts';
import type { PartHead } from './part-head.ts';

/** Maximum number of bytes in one read from the temporary file. */
const BLOCK_BYTES = 262_144;
/**
 * A file in memory is a slice of a received chunk. If the chunk is larger than the file by this factor, the
 * file is copied, so that the chunk can be freed.
 */
const WASTE = 2;

/** Stores the files of one form, in memory or in a temporary file. */
export class UploadStore {
  readonly #directory: string | undefined;
  readonly #memoryBytes: number;
  #memoryLeft: number;
  #spool: Spool | undefined;
  #file: ReceivedFile | undefined;
  #flushing: Promise<void> | undefined;
  #isClosed = false;

  /**
   * `directory` is the application's folder for the temporary file. Without it, the file is in the system's
   * temporary folder, and has no name.
   */
  constructor(directory: string | undefined, memoryBytes: number) {
    this.#directory = directory;
    this.#memoryBytes = this.#memoryLeft = memoryBytes;
  }

  get memoryBytes(): number {
    return this.#memoryBytes - this.#memoryLeft + (this.#file?.queue.length ?? 0);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Number of bytes that wait to be written to the temporary file. */
  get pending(): number {
    return this.#spool?.pending ?? 0;
  }

  /**
   * Begins the next file. If the file is larger than `keepBytes`, only its size is stored, and its content is
   * discarded.
   */
  begin(head: PartHead, keepBytes: number): ReceivedFile {
    return (this.#file = new ReceivedFile(this, head, keepBytes));
  }

  add(bytes: Buffer, start: number, end: number): void {
    const file = this.#file!; // defined, because add() is called only between begin() and end()
    file.size += end - start;
    if (file.size > file.keepBytes) return file.drop();
    const chunk = bytes.subarray(start, end);
    if (file.place !== undefined) return this.#spool!.push(chunk);
    file.queue.push(chunk);
    if (file.size <= this.#memoryLeft) return;
    const spool = (this.#spool ??= new Spool(this.#directory));
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

  /** Writes pending bytes to the temporary file: only whole blocks, unless `isAll` is true. */
  async flush(isAll: boolean): Promise<void> {
    if (this.#isClosed) throw new SvcError('E_UPLOAD_GONE', ['a form']);
    await (this.#flushing = this.#spool?.flush(isAll));
  }

  read(position: number, length: number): Promise<Uint8Array> {
    return this.#spool!.read(position, length);
  }

  /** Moves the temporary file to `path` if it contains only `file`. Returns whether it was moved. */
  async move(file: ReceivedFile, path: string, stats: Stats): Promise<boolean> {
    return file.place !== undefined && file.size === this.#spool!.length && this.#spool!.move(path, stats);
  }

  /** Frees the memory, and closes the temporary file. Further calls do nothing. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    // A running flush() may still open the file, which must then be closed. The caller of flush() gets its
    // errors, so they are ignored here.
    await this.#flushing?.catch(() => undefined);
    await this.#spool?.close();
  }
}

export class ReceivedFile implements UploadFile {
  readonly name: string;
  readonly filename: string;
  readonly contentType: string;
  size = 0;
  /** @internal */
  readonly keepBytes: number;
  /** Content received so far, while the file may still fit into memory. @internal */
  readonly queue: ByteQueue = new ByteQueue();
  /** Offset of the content in the temporary file; undefined if the file is in memory. @internal */
  place: number | undefined;
  /** Content of a file in memory; undefined if the content is in the temporary file. @internal */
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
    this.#assertPresent();
    if (this.content !== undefined) {
      if (this.size > 0) yield this.content;
      return;
    }
    for (let at = 0; at < this.size; at += BLOCK_BYTES) {
      this.#assertPresent();
      yield await this.#store.read(this.place! + at, Math.min(BLOCK_BYTES, this.size - at));
    }
  }

  async bytes(): Promise<Uint8Array> {
    this.#assertPresent();
    return this.content === undefined
      ? this.#store.read(this.place!, this.size)
      : Uint8Array.from(this.content);
  }

  async save(path: string, options: SaveOptions = {}): Promise<void> {
    const { overwrite } = readOptions('UploadFile.save()', options, { overwrite: bool(false) });
    this.#assertPresent();
    try {
      await this.#saveTo(path, overwrite);
    } catch (error) {
      throw fullDisk(error) ?? error;
    }
  }

  /** Moves or copies the file to one beside the destination, which is renamed when it is complete. */
  async #saveTo(path: string, overwrite: boolean): Promise<void> {
    const beside = join(dirname(path), `.svc-${randomBytes(12).toString('hex')}.part`);
    const handle = await open(beside, 'wx');
    try {
      try {
        if (!(await this.#store.move(this, beside, await handle.stat()))) {
          await handle.writeFile(this.stream());
          await handle.datasync(); // without this call, the file could be empty after a crash of the machine
        }
      } finally {
        await handle.close();
      }
      if (overwrite) await rename(beside, path);
      else await publish(beside, path);
    } catch (error) {
      await rm(beside, { force: true });
      throw errorCode(error) === 'EEXIST' ? new SvcError('E_UPLOAD_EXISTS', [], { cause: error }) : error;
    }
  }

  /** Discards the content received so far, because the file is larger than `keepBytes`. @internal */
  drop(): void {
    this.queue.take(this.queue.length);
  }

  /** Returns the members of the file that may be logged, without its content. */
  toJSON(): Readonly<Record<string, unknown>> {
    const { name, filename, contentType, size } = this;
    return { name, filename, contentType, size };
  }

  static {
    inspectAsJson(ReceivedFile, 'UploadFile');
  }

  #assertPresent(): void {
    if (this.#store.isClosed || this.size > this.keepBytes)
      throw new SvcError('E_UPLOAD_GONE', [`the file "${this.name}"`]);
  }
}

/**
 * Renames a complete file to its final path, unless that path exists. Uses link(), because rename() would
 * replace an existing file. On file systems without links, first creates an empty file at that path, and then
 * replaces the empty file.
 */
async function publish(beside: string, path: string): Promise<void> {
  try {
    await link(beside, path);
    await unlink(beside);
  } catch (error) {
    const code = errorCode(error);
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP' && code !== 'ENOSYS') throw error;
    await open(path, 'wx').then((reserved) => reserved.close());
    await rename(beside, path);
  }
}

/** Number of bytes that are written at once. Only the last write may have fewer. */
const SPOOL_BLOCK_BYTES = 262_144;
/** Maximum number of chunks in one write; below the limit IOV_MAX of every system. */
const MAX_CHUNKS = 256;
/**
 * Start of the names of this process's temporary files. The random part is needed in a container, where a killed
 * process and the next one often have the same id.
 */
const OWN_FILES = `svc-upload-${process.pid}-${randomBytes(8).toString('hex')}`;

/**
 * A temporary file, which the first flush() creates. Only the user of the process can open it.
 *
 * In the system's temporary folder, it is unlinked before the first byte is written, so that no content
 * remains if the process is killed. In a folder of the application, it has a name, so that it can be moved;
 * close() removes it. If the process is killed, the next process that uses the folder removes it.
 */
class Spool {
  readonly #directory: string;
  readonly #isNamed: boolean;
  readonly #pending = new ByteQueue();
  #handle: FileHandle | undefined;
  /** Path of the file; undefined if it was unlinked or moved. */
  #path: string | undefined;
  #written = 0;
  /** Number of appended bytes, including bytes that are not written yet. */
  length = 0;

  constructor(directory: string | undefined) {
    this.#directory = directory ?? tmpdir();
    this.#isNamed = directory !== undefined;
  }

  get pending(): number {
    return this.#pending.length;
  }

  push(chunk: Uint8Array): void {
    this.#pending.push(chunk);
    this.length += chunk.length;
  }

  async flush(isAll: boolean): Promise<void> {
    try {
      const handle = (this.#handle ??= await this.#open());
      while (this.#pending.length >= SPOOL_BLOCK_BYTES || (isAll && this.#pending.length > 0))
        await this.#writeBlock(handle);
    } catch (error) {
      throw this.#failure(error as NodeJS.ErrnoException);
    }
  }

  /** Writes one block of pending chunks. They are not joined, because that would double the memory. */
  async #writeBlock(handle: FileHandle): Promise<void> {
    let chunks: Uint8Array[] = [];
    let length = 0;
    while (length < SPOOL_BLOCK_BYTES && chunks.length < MAX_CHUNKS && this.#pending.length > 0) {
      const chunk = this.#pending.takeChunk()!;
      chunks.push(chunk);
      length += chunk.length;
    }
    while (chunks.length > 0) {
      const { bytesWritten } = await handle.writev(chunks, this.#written);
      this.#written += bytesWritten;
      chunks = behind(chunks, bytesWritten);
    }
  }

  async read(position: number, length: number): Promise<Uint8Array> {
    const bytes = Buffer.allocUnsafeSlow(length);
    for (let at = 0; at < length;) {
      const { bytesRead } = await this.#handle!.read(bytes, at, length - at, position + at);
      if (bytesRead === 0) throw new Error('The temporary file with the uploads of a form was truncated');
      at += bytesRead;
    }
    return bytes;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    if (this.#path !== undefined) await rm(this.#path, { force: true });
  }

  /**
   * Moves the file to `path`, and gives it the permissions in `stats`. Returns false if it cannot be moved: it
   * has no name, or `path` is on another file system or belongs to another group. It stays readable.
   */
  async move(path: string, { dev, uid, gid, mode }: Stats): Promise<boolean> {
    const [handle, from] = [this.#handle!, this.#path];
    if (from === undefined) return false;
    const own = await handle.stat();
    if (own.dev !== dev || own.uid !== uid || own.gid !== gid) return false;
    await handle.datasync();
    try {
      await rename(from, path);
    } catch {
      return false;
    }
    this.#path = undefined;
    if (own.mode !== mode) await handle.chmod(mode);
    return true;
  }

  async #open(): Promise<FileHandle> {
    const name = OWN_FILES + randomBytes(8).toString('hex');
    const path = join(this.#directory, name);
    const handle = await open(path, 'wx+', 0o600);
    if (this.#isNamed) {
      this.#path = path;
      await removeAbandoned(this.#directory);
      return handle;
    }
    try {
      // Synchronous, so that no byte is written before the file is unlinked. If the process is killed
      // earlier, only an empty file remains.
      unlinkSync(path);
    } catch {
      this.#path = path;
    }
    return handle;
  }

  #failure(error: NodeJS.ErrnoException): unknown {
    const full = fullDisk(error);
    if (full !== undefined || this.#handle !== undefined || lacksDescriptors(error)) return full ?? error;
    return new SvcError('E_UPLOAD_DIRECTORY', [this.#directory, error.code ?? error.message], {
      cause: error,
    });
  }
}

function fullDisk(error: unknown): HTTPException | undefined {
  const code = errorCode(error);
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new HTTPException(507, 'There is not enough storage for the files of this form', { cause: error });
  return undefined;
}

const MAX_CLEANED = 100;
/** Folders whose abandoned files this process has removed. */
const cleaned = new Set<string>();

/**
 * Removes the temporary files of killed processes from a folder. If a file is still in use by a process of
 * another container, its content stays readable there.
 */
async function removeAbandoned(directory: string): Promise<void> {
  if (cleaned.has(directory) || cleaned.size >= MAX_CLEANED) return;
  cleaned.add(directory);
  const names = await readdir(directory).catch(() => []);
  for (const name of names) {
    const pid = /^svc-upload-(\d+)-[0-9a-f]{32}$/.exec(name)?.[1];
    if (pid === undefined || name.startsWith(OWN_FILES)) continue;
    if (Number(pid) === process.pid || !isRunning(Number(pid)))
      await rm(join(directory, name), { force: true }).catch(ignore);
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errorCode(error) !== 'ESRCH';
  }
}

/** Removes the first `written` bytes, which are already written, from a list of chunks. */
function behind(chunks: readonly Uint8Array[], written: number): Uint8Array[] {
  let left = written;
  return chunks.flatMap((chunk) => {
    const skipped = Math.min(left, chunk.length);
    left -= skipped;
    return skipped === chunk.length ? [] : [chunk.subarray(skipped)];
  });
}
