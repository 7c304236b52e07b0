/**
 * Finds and caches the files of a folder that is served. In production, a file is checked on disk at most once a
 * second; otherwise for each request, so that a saved file is sent at once.
 *
 * A file is served only if its real path lies within the folder, and is spelled as in the request.
 *
 * For each path in the folder, the cache has the header fields of the file and of its precompressed forms
 * (.br, .zst, .gz). It also has the bytes of small files. A file is read again if it was changed, or was
 * written so recently that its modification time may not show another write.
 */
import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SvcError, errorCode } from '../../base/errors.ts';
import { mediaTypeOf, SMALL_BYTES, validatorsOf } from './files.ts';
import { isAbsence, isSameState, openFile } from './body.ts';
import { LruIndex } from '../../cache/lru.ts';
import type { Clock } from '../../base/clock.ts';
import type { FileState, OpenFile } from './body.ts';
import type { Content } from './files.ts';

interface FolderOptions {
  readonly index: readonly string[];
  readonly allowsDotfiles: boolean;
  readonly followsSymlinks: boolean;
  readonly isPrecompressed: boolean;
  /** Returns `Cache-Control` of a file, which is given by its path below the folder. */
  readonly cacheControl: (file: string) => string;
}

/** A file or folder on disk: its path without symbolic links, and its state. */
interface Located {
  readonly path: string;
  readonly isFolder: boolean;
  readonly state: FileState;
}
/** Time at which a path is looked up: by the wall clock, and by the monotonic clock. */
interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}
/** One form of a file: uncompressed, or precompressed with a coding. */
interface Form {
  /**
   * Path of the uncompressed file below the folder. It determines `Cache-Control`, and its extension the media
   * type.
   */
  readonly file: string;
  readonly coding: string | undefined;
  /** Whether the file has several forms, so that the response depends on `Accept-Encoding`. */
  readonly varies: boolean;
}

const CODINGS: readonly (readonly [ending: string, coding: string])[] = [
  ['.br', 'br'],
  ['.zst', 'zstd'],
  ['.gz', 'gzip'],
];
/**
 * A precompressed file may be older than the uncompressed file by this number of milliseconds, because file
 * systems round modification times.
 */
const SKEW_MS = 2_000;

type FolderFault = 'E_STATIC_DIRECTORY' | 'E_UPLOAD_DIRECTORY';

/** How the process uses a folder, by the code of the error for a folder that does not allow it. */
const USES: Readonly<Record<FolderFault, { readonly access: number; readonly denied: string }>> = {
  E_STATIC_DIRECTORY: { access: constants.X_OK, denied: 'the directory cannot be read' },
  E_UPLOAD_DIRECTORY: {
    access: constants.W_OK | constants.X_OK,
    denied: 'the process may not write to the directory',
  },
};

/**
 * Returns the real path of a folder, without symbolic links.
 * @throws SvcError with the given code when there is no such folder, or the process may not use it
 */
export function realFolder(code: FolderFault, directory: string): string {
  const { access, denied } = USES[code];
  try {
    const root = realpathSync.native(directory);
    if (statSync(root).isDirectory()) {
      accessSync(root, access);
      return root;
    }
  } catch (error) {
    const cause = errorCode(error) ?? 'no code';
    const problem = cause === 'ENOENT' ? 'the directory does not exist' : `${denied} (${cause})`;
    throw new SvcError(code, [directory, problem], { cause: error });
  }
  throw new SvcError(code, [directory, 'the path is not a directory']);
}

/** Finds the files of a folder, and caches them. */
export class StaticFolder {
  readonly directory: string;
  readonly #options: FolderOptions;
  readonly #cache = new StaticCache();
  readonly #looking = new Map<string, Promise<StaticEntry | undefined>>();
  #root = '';
  #trustedMs = TRUSTED_MS;

  constructor(directory: string | URL, options: FolderOptions) {
    this.directory = directory instanceof URL ? fileURLToPath(directory) : resolve(directory);
    this.#options = options;
  }

  /**
   * Determines the real path of the served folder, without symbolic links, and checks that it leads to a
   * folder. `trustedMs` is the time in milliseconds for which a cached entry is used without checking the file.
   */
  open(trustedMs: number): void {
    this.#trustedMs = trustedMs;
    this.#root = realFolder('E_STATIC_DIRECTORY', this.directory);
  }

  /** Returns the cached entry of a path, if the path was looked up recently. */
  recent(key: string, clock: Clock): StaticEntry | undefined {
    return this.#cache.recent(key, clock.monotonicMs() - this.#trustedMs);
  }

  /**
   * Looks up a path on disk. Concurrent requests for one path share a look-up. `key` is the path below the
   * served folder. If it is empty or ends with a slash, it names a folder.
   */
  look(key: string, segments: readonly string[], clock: Clock): Promise<StaticEntry | undefined> {
    let looking = this.#looking.get(key);
    if (looking === undefined) {
      looking = this.#look(key, segments, {
        wallMs: clock.nowMs(),
        monotonicMs: clock.monotonicMs(),
      }).finally(() => this.#looking.delete(key));
      this.#looking.set(key, looking);
    }
    return looking;
  }

  /** Returns `before` if the file has not changed since that look-up; else its current size and fields. */
  reopened(before: Representation, entry: FileEntry, file: OpenFile, clock: Clock): Representation {
    if (isSameState(before.state, file)) return before;
    const coding = entry.codings.find((known) => entry.coded.get(known) === before);
    return this.#fields(
      before.path,
      file,
      undefined,
      { file: entry.file, coding, varies: entry.codings.length > 0 },
      clock.nowMs(),
    );
  }

  /** Returns undefined if the path now leads to no file, or through a symbolic link. */
  async openFile(path: string): Promise<OpenFile | undefined> {
    let file: OpenFile | undefined;
    try {
      file = await openFile(path, false);
      if (file === undefined || this.#options.followsSymlinks || (await isAt(path, file))) return file;
    } catch (error) {
      if (!isAbsence(error) && !isDenial(error)) {
        await file?.close();
        throw error;
      }
    }
    await file?.close();
    return undefined;
  }

  async #look(key: string, segments: readonly string[], now: Moment): Promise<StaticEntry | undefined> {
    const entry = await this.#entryOf(key, segments, this.#cache.known(key), now);
    if (entry === undefined) this.#cache.delete(key);
    else this.#cache.set(key, entry);
    return entry;
  }

  async #entryOf(
    key: string,
    segments: readonly string[],
    known: StaticEntry | undefined,
    now: Moment,
  ): Promise<StaticEntry | undefined> {
    if (key === '' || key.endsWith('/')) {
      const index = await this.#indexOf(segments);
      return index === undefined ? undefined : this.#fileEntry(index.segments, index.located, known, now);
    }
    const located = await this.#locate(segments);
    if (located === undefined) return undefined;
    if (!located.isFolder) return this.#fileEntry(segments, located, known, now);
    return (await this.#indexOf(segments)) === undefined
      ? undefined
      : { kind: 'folder', checkedMs: now.monotonicMs };
  }

  async #indexOf(
    folder: readonly string[],
  ): Promise<{ readonly segments: readonly string[]; readonly located: Located } | undefined> {
    for (const name of this.#options.index) {
      const segments = [...folder, name];
      const located = await this.#locate(segments);
      if (located?.isFolder === false) return { segments, located };
    }
    return undefined;
  }

  /** Returns the real path of a file or folder, and its state. Returns undefined if it must not be served. */
  async #locate(segments: readonly string[]): Promise<Located | undefined> {
    try {
      const asked = join(this.#root, ...segments);
      const path = await realpath(asked);
      if (!isServed(path, asked, this.#root, this.#options)) return undefined;
      const state = await stat(path);
      return state.isFile() || state.isDirectory()
        ? { path, isFolder: state.isDirectory(), state }
        : undefined;
    } catch (error) {
      if (isAbsence(error) || isDenial(error)) return undefined;
      throw error;
    }
  }

  async #fileEntry(
    segments: readonly string[],
    located: Located,
    before: StaticEntry | undefined,
    now: Moment,
  ): Promise<FileEntry | undefined> {
    const known = before?.kind === 'file' ? before : undefined;
    const file = segments.join('/');
    const forms = await this.#formsOf(segments, located);
    const varies = forms.length > 0;
    const plain = await this.#represent(located, { file, varies, coding: undefined }, known?.plain, now);
    if (plain === undefined) return undefined;
    const coded = new Map<string, Representation>();
    for (const { coding, located: form } of forms) {
      const representation = await this.#represent(
        form,
        { file, varies, coding },
        known?.coded.get(coding),
        now,
      );
      if (representation !== undefined) coded.set(coding, representation);
    }
    return { kind: 'file', file, plain, coded, codings: [...coded.keys()], checkedMs: now.monotonicMs };
  }

  /** Returns the precompressed forms of a file, the smallest first, without forms older than the file. */
  async #formsOf(
    segments: readonly string[],
    plain: Located,
  ): Promise<{ readonly coding: string; readonly located: Located }[]> {
    const name = segments.at(-1)!; // defined: the path of a file has at least one segment
    if (!this.#options.isPrecompressed || CODINGS.some(([ending]) => name.endsWith(ending))) return [];
    const found = await Promise.all(
      CODINGS.map(async ([ending, coding]) => {
        const located = await this.#locate([...segments.slice(0, -1), name + ending]);
        return located === undefined ||
          located.isFolder ||
          located.state.mtimeMs < plain.state.mtimeMs - SKEW_MS
          ? []
          : [{ coding, located }];
      }),
    );
    return found.flat().sort((left, right) => left.located.state.size - right.located.state.size);
  }

  /** Returns one form of a file; `known`, an earlier result, if the file cannot have changed since then. */
  async #represent(
    { path, state }: Located,
    form: Form,
    known: Representation | undefined,
    now: Moment,
  ): Promise<Representation | undefined> {
    const isKnown =
      known !== undefined &&
      known.content.isStrong &&
      known.path === path &&
      isSameState(known.state, state) &&
      known.fields.includes('Vary') === form.varies;
    if (isKnown) return known;
    if (state.size > SMALL_BYTES) return this.#fields(path, state, undefined, form, now.wallMs);
    const file = await this.openFile(path);
    if (file === undefined) return undefined;
    try {
      const source = file.size <= SMALL_BYTES ? await file.readAll() : undefined;
      return this.#fields(
        path,
        { size: source?.length ?? file.size, mtimeMs: file.mtimeMs, ino: file.ino },
        source,
        form,
        now.wallMs,
      );
    } finally {
      await file.close();
    }
  }

  #fields(
    path: string,
    { size, mtimeMs, ino }: FileState,
    source: Buffer | undefined,
    { file, coding, varies }: Form,
    nowMs: number,
  ): Representation {
    const state = { size, mtimeMs, ino };
    const { etag, lastModified, isStrong } = validatorsOf(state, nowMs, coding);
    const knownFields = ['ETag', etag, 'Cache-Control', this.#options.cacheControl(file)];
    if (varies) knownFields.push('Vary', 'Accept-Encoding');
    const fields = [
      'Content-Type',
      mediaTypeOf(file),
      ...knownFields,
      'Last-Modified',
      lastModified,
      'Accept-Ranges',
      'bytes',
    ];
    if (coding !== undefined) fields.push('Content-Encoding', coding);
    return { path, state, fields, knownFields, content: { size, source, etag, lastModified, isStrong } };
  }
}

/**
 * Whether an open file is still at this path, and the path contains no symbolic link. The path is resolved
 * before and after stat(), because its folders may be replaced in between.
 */
async function isAt(path: string, { dev, ino }: OpenFile): Promise<boolean> {
  if ((await realpath(path)) !== path) return false;
  const found = await stat(path);
  return found.dev === dev && found.ino === ino && (await realpath(path)) === path;
}

/** Whether an error means that the process may not read a file. Requests for such files get 404. */
function isDenial(error: unknown): boolean {
  const code = errorCode(error);
  return code === 'EACCES' || code === 'EPERM';
}

/**
 * Whether a file may be served. `real` is the resolved path of `asked`. If both paths differ only in case or
 * in the encoding of accents, the file is refused, because another spelling could bypass rules for paths. By
 * default, a symbolic link must not lead out of the folder, or to a name that starts with a dot.
 */
export function isServed(
  real: string,
  asked: string,
  root: string,
  { followsSymlinks, allowsDotfiles }: Pick<FolderOptions, 'followsSymlinks' | 'allowsDotfiles'>,
): boolean {
  if (real === asked) return true;
  if (fold(real) === fold(asked)) return false;
  const inside = root.endsWith(sep) ? root : root + sep;
  if (real !== root && !real.startsWith(inside)) return followsSymlinks;
  return allowsDotfiles || !hasDotfile(real.slice(inside.length).split(sep));
}

function fold(path: string): string {
  return path.normalize('NFC').toLowerCase();
}

/**
 * One form of a file, uncompressed or precompressed. Header fields are lists of alternating names and values.
 */
export interface Representation {
  /** Path on disk, without symbolic links. */
  readonly path: string;
  readonly state: FileState;
  /** Size and validators of the file. Contains the bytes only if the file is small. */
  readonly content: Content;
  /** Header fields of a 200 response. */
  readonly fields: readonly string[];
  /** Header fields of a 304 response. */
  readonly knownFields: readonly string[];
}

/** A file with its uncompressed form (`plain`), and its precompressed forms by coding (`coded`). */
export interface FileEntry {
  readonly kind: 'file';
  /** Path below the served folder. */
  readonly file: string;
  readonly plain: Representation;
  readonly coded: ReadonlyMap<string, Representation>;
  /** Codings of the precompressed forms, ordered by size, the smallest first. */
  readonly codings: readonly string[];
  readonly checkedMs: number;
}
/** A folder with an index file, requested without the slash that a redirect adds. */
interface FolderEntry {
  readonly kind: 'folder';
  readonly checkedMs: number;
}
/** Result of looking up a path: a file or a folder. */
export type StaticEntry = FileEntry | FolderEntry;

/** Time in milliseconds for which a cached entry is used in production without checking the file. */
export const TRUSTED_MS = 1_000;
const MAX_ENTRIES = 4_096;
const MAX_BYTES = 33_554_432;
/** Estimated memory in bytes of a cache entry, and of each form of a file, without content. */
const OVERHEAD_BYTES = 1_024;

/**
 * Cache of looked-up paths, with at most 4,096 entries and 32 MiB. The least recently used entries are
 * removed first.
 */
class StaticCache {
  readonly #index = new LruIndex(MAX_ENTRIES);
  readonly #entries: (StaticEntry | undefined)[] = [];
  #bytes = 0;

  /** Returns the entry of a path, if it was looked up after this time. */
  recent(key: string, sinceMs: number): StaticEntry | undefined {
    const slot = this.#index.find(key);
    if (slot === 0) return undefined;
    const entry = this.#entries[slot]!; // defined: find() returns only slots that have an entry
    if (entry.checkedMs <= sinceMs) return undefined;
    this.#index.use(slot);
    return entry;
  }

  /** Returns the entry of a path, however old it is. */
  known(key: string): StaticEntry | undefined {
    return this.#entries[this.#index.find(key)];
  }

  set(key: string, entry: StaticEntry): void {
    this.delete(key);
    const bytes = bytesOf(entry);
    // never removes more than it has, because one entry is far smaller than MAX_BYTES
    while (this.#index.isFull || this.#bytes + bytes > MAX_BYTES) this.#remove(this.#index.oldest);
    this.#entries[this.#index.add(key)] = entry;
    this.#bytes += bytes;
  }

  delete(key: string): void {
    const slot = this.#index.find(key);
    if (slot !== 0) this.#remove(slot);
  }

  #remove(slot: number): void {
    this.#bytes -= bytesOf(this.#entries[slot]!); // defined: every slot in the index has an entry
    this.#entries[slot] = undefined;
    this.#index.remove(slot);
  }
}

function bytesOf(entry: StaticEntry): number {
  if (entry.kind === 'folder') return OVERHEAD_BYTES;
  let bytes = OVERHEAD_BYTES;
  for (const { content } of [entry.plain, ...entry.coded.values()])
    bytes += OVERHEAD_BYTES + (content.source instanceof Uint8Array ? content.source.length : 0);
  return bytes;
}

/**
 * Response to requests for names that start with a dot: `ignore` sends 404, `deny` sends 403, `allow` sends
 * the file.
 */
export type DotfilePolicy = 'ignore' | 'deny' | 'allow';

/** `path` has the segments of an allowed path; `none` leads to 404, `denied` to 403. */
type StaticPath =
  { readonly kind: 'path'; readonly segments: readonly string[] } | { readonly kind: 'none' | 'denied' };

const NONE: StaticPath = Object.freeze({ kind: 'none' });
const DENIED: StaticPath = Object.freeze({ kind: 'denied' });
/** Maximum length of a path in characters. Linux does not accept longer paths (PATH_MAX). */
const MAX_LENGTH = 4_096;

/**
 * Whether a percent-encoded path contains an escaped slash, backslash or NUL. After decoding, slash and
 * backslash would be separators, and NUL would end the path.
 */
export function hidesSeparator(encoded: string): boolean {
  return encoded.includes('%') && /%(?:2f|5c|00)/i.test(encoded);
}

/**
 * Parses a path below the served folder, such as `css/site.css`. `rest` must be percent-decoded exactly once.
 * An empty path, or a path with a slash at its end, names a folder.
 *
 * Refuses paths that may lead out of the folder: with `.` or `..`, empty segments, backslashes, control
 * characters or escaped slashes. On Windows, data streams (`a.txt::$DATA`), devices (`nul`), short names
 * (`GIT~1`) and characters that Windows removes are refused, too.
 */
export function readStaticPath(
  rest: string,
  dotfiles: DotfilePolicy,
  isWindows: boolean = process.platform === 'win32',
): StaticPath {
  if (rest.length > MAX_LENGTH || /[\\\p{Cc}]/u.test(rest) || !rest.isWellFormed()) return NONE;
  const segments = rest.split('/');
  if (segments.at(-1) === '') segments.pop();
  if (!segments.every((segment) => isName(segment, isWindows))) return NONE;
  return dotfiles === 'allow' || !hasDotfile(segments)
    ? { kind: 'path', segments }
    : dotfiles === 'deny'
      ? DENIED
      : NONE;
}

/** Whether a segment starts with a dot. `.well-known` as the first segment does not count (RFC 8615). */
function hasDotfile(segments: readonly string[]): boolean {
  return segments.some(
    (segment, index) => segment.startsWith('.') && !(index === 0 && segment === '.well-known'),
  );
}

/** Names of devices on Windows. An extension does not matter: `aux.txt` is the device `aux`. */
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])(?:[. ]|$)/i;

function isName(segment: string, isWindows: boolean): boolean {
  if (segment === '' || segment === '.' || segment === '..') return false;
  return !isWindows || !(/[<>:"|?*]|[. ]$|~\d/.test(segment) || DEVICE.test(segment));
}
