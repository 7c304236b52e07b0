/**
 * What has been looked up of a folder: files in their forms, small ones with their bytes. Bounded; the least used goes first.
 */
import { LruIndex } from '../lru.ts';
import type { Content } from './files.ts';
import type { FileState } from './open-file.ts';

/** One form of a file: as it is, or coded. Its fields are ready to be sent, name and value in turn. */
export interface Representation {
  /** The real one: no part of it is a link. */
  readonly path: string;
  readonly state: FileState;
  /** Its source is there for small files only. */
  readonly content: Content;
  /** Of a 200. */
  readonly fields: readonly string[];
  /** Of a 304. */
  readonly knownFields: readonly string[];
}

/** A file in the forms that there are of it. */
export interface FileEntry {
  readonly kind: 'file';
  readonly name: string;
  readonly plain: Representation;
  readonly coded: ReadonlyMap<string, Representation>;
  /** The keys of `coded`, the smallest form first. */
  readonly codings: readonly string[];
  readonly checkedMs: number;
}
/** A folder with an index, asked for without the slash at its end. */
export interface FolderEntry {
  readonly kind: 'folder';
  readonly checkedMs: number;
}
/** What a path leads to. */
export type StaticEntry = FileEntry | FolderEntry;

/** For how long nobody looks whether it is still so. */
const TRUSTED_MS = 1_000;
const MAX_ENTRIES = 4_096;
const MAX_BYTES = 33_554_432;
/** What an entry, or a form, costs without its bytes. */
const OVERHEAD_BYTES = 1_024;

/** Entries by path, 4,096 or 32 MiB of them. */
export class StaticCache {
  readonly #index = new LruIndex(MAX_ENTRIES);
  readonly #entries: (StaticEntry | undefined)[] = [];
  #bytes = 0;

  /** What the entries weigh. */
  get bytes(): number { return this.#bytes; }

  get size(): number { return this.#index.size; }

  /** What was looked up within the last second. */
  recent(key: string, nowMs: number): StaticEntry | undefined {
    const slot = this.#index.find(key);
    if (slot === 0) return undefined;
    const entry = this.#entries[slot]!; // a slot that is found has one
    if (nowMs - entry.checkedMs >= TRUSTED_MS) return undefined;
    this.#index.use(slot);
    return entry;
  }

  /** What was looked up at any time. */
  known(key: string): StaticEntry | undefined {
    return this.#entries[this.#index.find(key)];
  }

  set(key: string, entry: StaticEntry): void {
    this.delete(key);
    const bytes = bytesOf(entry);
    while (this.#index.size > 0 && (this.#index.isFull || this.#bytes + bytes > MAX_BYTES)) this.#remove(this.#index.oldest);
    this.#entries[this.#index.add(key)] = entry;
    this.#bytes += bytes;
  }

  delete(key: string): void {
    const slot = this.#index.find(key);
    if (slot !== 0) this.#remove(slot);
  }

  #remove(slot: number): void {
    this.#bytes -= bytesOf(this.#entries[slot]!); // a slot in use has an entry
    this.#entries[slot] = undefined;
    this.#index.remove(slot);
  }
}

function bytesOf(entry: StaticEntry): number {
  if (entry.kind === 'folder') return OVERHEAD_BYTES;
  let bytes = OVERHEAD_BYTES;
  for (const { content } of [entry.plain, ...entry.coded.values()]) bytes += OVERHEAD_BYTES + (content.source instanceof Uint8Array ? content.source.length : 0);
  return bytes;
}
