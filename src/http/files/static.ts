/**
 * Static files: sends the files of a folder for requests below a path. `Accept-Encoding` selects the
 * uncompressed or a precompressed form of a file. Preconditions and ranges apply to the selected form.
 */
import { systemClock } from '../../base/clock.ts';
import { Forbidden, NotFound } from '../../base/errors.ts';
import { bool, given, int, oneOf, readOptions, text } from '../../base/options.ts';
import { negotiateEncoding } from '../content-codings.ts';
import { deliver, standsFor } from './files.ts';
import { clientHas } from './preconditions.ts';
import { HttpResponse, Prepared, RedirectResponse, fieldOf } from '../response.ts';
import { StaticFolder, TRUSTED_MS, hidesSeparator, readStaticPath } from './static-folder.ts';
import type { Clock } from '../../base/clock.ts';
import type { Awaitable, HttpRequest } from '../contracts.ts';
import type { Answered } from '../response.ts';
import type { DotfilePolicy, FileEntry, Representation, StaticEntry } from './static-folder.ts';

/** Options of `mountStatic()`: how the files of a folder are served. */
export interface StaticOptions {
  /**
   * Names of index files of a folder. The first that exists is sent. Default `['index.html']`; with `[]`,
   * folders get 404.
   */
  readonly index?: readonly string[] | undefined;
  /**
   * Response to requests for names that start with a dot: `ignore` (default) sends 404, `deny` sends 403,
   * `allow` sends the file. `.well-known` directly below the folder is always served (RFC 8615).
   */
  readonly dotfiles?: DotfilePolicy | undefined;
  /**
   * `max-age` of `Cache-Control` in seconds, 0 ... 31_536_000. Default 0: clients revalidate the file each
   * time, and usually get a 304.
   */
  readonly maxAgeSeconds?: number | undefined;
  /**
   * Whether to send `immutable`, so that clients do not revalidate even on reload. Use it for files whose
   * names contain a hash of the content. Index files and the fallback get `max-age=0` then, so that clients
   * revalidate them. Default false.
   */
  readonly immutable?: boolean | undefined;
  /**
   * Whether to send `app.js.br`, `app.js.zst` or `app.js.gz` instead of `app.js` to clients that accept this
   * coding. A file that is older than `app.js` is not used. Default true.
   */
  readonly precompressed?: boolean | undefined;
  /** Whether to serve symbolic links that lead out of the folder. Default false: such links get 404. */
  readonly followSymlinks?: boolean | undefined;
  /**
   * File to send for unknown paths whose last segment has no dot, for example `index.html`. Use it for
   * applications with client-side routing. Default: send 404.
   */
  readonly fallback?: string | undefined;
  /** Name of the mounted folder, for `urlFor(name, { file: 'css/site.css' })`. */
  readonly name?: string | undefined;
}

/** A folder whose files are served below one path. */
export class StaticMount {
  readonly name: string | undefined;
  readonly folder: StaticFolder;
  readonly dotfiles: DotfilePolicy;
  readonly followsSymlinks: boolean;
  readonly #fallback: readonly string[] | undefined;
  #clock: Clock = systemClock;

  constructor(directory: string | URL, options: StaticOptions) {
    const read = readOptions('mountStatic()', options, {
      index: given<readonly string[]>(
        'a list of file names',
        (value) =>
          Array.isArray(value) &&
          value.every((name) => typeof name === 'string' && segmentsOf(name).length === 1),
      ),
      dotfiles: oneOf(['ignore', 'deny', 'allow'], 'ignore'),
      maxAgeSeconds: int(0, 0, 31_536_000),
      immutable: bool(false),
      precompressed: bool(true),
      followSymlinks: bool(false),
      name: text(),
      fallback: given<string>(
        'the path of a file below the directory',
        (value) => typeof value === 'string' && segmentsOf(value).length > 0,
      ),
    });
    this.name = read.name;
    this.dotfiles = read.dotfiles;
    this.followsSymlinks = read.followSymlinks;
    this.#fallback = read.fallback === undefined ? undefined : segmentsOf(read.fallback);
    const index = [...(read.index ?? ['index.html'])];
    const fallback = this.#fallback?.join('/');
    const maxAge = `max-age=${read.maxAgeSeconds}`;
    this.folder = new StaticFolder(directory, {
      index,
      allowsDotfiles: read.dotfiles === 'allow',
      followsSymlinks: read.followSymlinks,
      isPrecompressed: read.precompressed,
      cacheControl(file) {
        if (!read.immutable) return maxAge;
        const isDocument = file === fallback || index.includes(file.slice(file.lastIndexOf('/') + 1));
        return isDocument ? 'max-age=0' : `${maxAge}, immutable`; // the URL of a document does not name its content
      },
    });
  }

  /** Called when the application is compiled. In production, a file is checked on disk once a second. */
  open(clock: Clock, isProduction: boolean): void {
    this.#clock = clock;
    this.folder.open(isProduction ? TRUSTED_MS : 0);
  }

  /**
   * Returns the response to GET or HEAD. `rest` is the path below the folder; undefined for the folder
   * without a slash at the end.
   */
  answer(req: HttpRequest, rest: string | undefined): Awaitable<HttpResponse> {
    if (hidesSeparator(req.path)) throw new NotFound();
    const recent = this.folder.recent(rest ?? '', this.#clock);
    if (recent !== undefined) return this.#reply(req, rest, recent);
    const path = readStaticPath(rest ?? '', this.dotfiles);
    if (path.kind === 'path') return this.#look(req, rest, path.segments);
    throw path.kind === 'denied' ? new Forbidden() : new NotFound();
  }

  async #look(
    req: HttpRequest,
    rest: string | undefined,
    segments: readonly string[],
  ): Promise<HttpResponse> {
    const entry =
      (await this.folder.look(rest ?? '', segments, this.#clock)) ?? (await this.#lookFallback(segments));
    if (entry === undefined) throw new NotFound();
    return this.#reply(req, rest, entry);
  }

  async #lookFallback(segments: readonly string[]): Promise<StaticEntry | undefined> {
    const fallback = this.#fallback;
    if (fallback === undefined || segments.at(-1)?.includes('.') === true) return undefined;
    const key = fallback.join('/');
    return this.folder.recent(key, this.#clock) ?? this.folder.look(key, fallback, this.#clock);
  }

  #reply(req: HttpRequest, rest: string | undefined, entry: StaticEntry): Awaitable<HttpResponse> {
    return entry.kind === 'folder' || rest === undefined ? withSlash(req) : this.#send(req, entry);
  }

  #send(req: HttpRequest, entry: FileEntry): Awaitable<HttpResponse> {
    const coding =
      entry.codings.length === 0
        ? undefined
        : negotiateEncoding(fieldOf(req, 'accept-encoding'), entry.codings);
    // defined: `coding` was chosen from the keys of `coded`
    const form = coding === undefined ? entry.plain : entry.coded.get(coding)!;
    const { content } = form;
    if (clientHas(req, content))
      return standsFor(new HttpResponse(null, new Prepared(304, form.knownFields.slice())), {
        flat: form.fields,
        size: content.size,
      });
    if (content.source !== undefined || req.method === 'HEAD') return deliver(req, answerOf(form), content);
    return this.#sendLarge(req, entry, form);
  }

  /** Opens a large file, and sends it while it is read. Updates the header fields if the file has changed. */
  async #sendLarge(req: Answered, entry: FileEntry, known: Representation): Promise<HttpResponse> {
    const file = await this.folder.openFile(known.path);
    if (file === undefined) throw new NotFound();
    req.afterwards?.(() => file.close());
    const form = this.folder.reopened(known, entry, file, this.#clock);
    return deliver(req, answerOf(form), { ...form.content, source: file });
  }
}

function answerOf(form: Representation): HttpResponse {
  return new HttpResponse(null, new Prepared(200, form.fields.slice()));
}

/** The location is relative, so proxies need not rewrite it. */
function withSlash(req: HttpRequest): HttpResponse {
  const [path = '', ...query] = req.target.split(/(?=\?)/);
  const name = path.slice(path.lastIndexOf('/') + 1);
  return new RedirectResponse(`./${name}/${query.join('')}`, {
    status: 301,
    headers: { 'Cache-Control': 'no-cache' },
  });
}

/** Returns an empty list if the path is invalid or ends with a slash. */
function segmentsOf(path: string): readonly string[] {
  const read = readStaticPath(path, 'allow');
  return read.kind === 'path' && !path.endsWith('/') ? read.segments : [];
}
