/**
 * Static files: responses of a mount to the paths below it.
 *
 *   path -> names that may be looked up -> entry -> form by Accept-Encoding -> 304, 412, 206, 416, 200; else 301, 403, 404
 */
import { systemClock } from '../../base/clock.ts';
import { Forbidden, NotFound } from '../../base/errors.ts';
import { bool, given, int, oneOf, readOptions, text } from '../../base/options.ts';
import { negotiateEncoding } from '../content-codings.ts';
import { deliver, standsFor } from './files.ts';
import { fieldOf, judge, preconditionFailed } from './preconditions.ts';
import { HttpResponse, Prepared, RedirectResponse } from '../response.ts';
import { StaticFolder, hidesSeparator, readStaticPath } from './static-folder.ts';
import type { Clock } from '../../base/clock.ts';
import type { Awaitable, HttpRequest } from '../contracts.ts';
import type { Answered } from '../response.ts';
import type { DotfilePolicy, FileEntry, Representation, StaticEntry } from './static-folder.ts';

/** How a folder is served. */
export interface StaticOptions {
  /** Index files of a folder; the first that exists is used. Default `['index.html']`; `[]`: none. */
  readonly index?: readonly string[] | undefined;
  /**
   * Names that start with a dot: `ignore` (default) responds with 404, `deny` with 403, `allow` serves them. `.well-known` at the top is
   * always served (RFC 8615).
   */
  readonly dotfiles?: DotfilePolicy | undefined;
  /** `max-age` for clients, 0 ... 31,536,000. Default 0: they revalidate each time, and get a 304. */
  readonly maxAgeSeconds?: number | undefined;
  /** Adds `immutable`, so that clients do not revalidate even on reload: for names with a hash of the content. Default false. */
  readonly immutable?: boolean | undefined;
  /** Serves `app.js.br`, `.zst` and `.gz` for `app.js` to clients that accept them, unless they are older. Default true. */
  readonly precompressed?: boolean | undefined;
  /** Allows links out of the folder. Default false: such files are 404. */
  readonly followSymlinks?: boolean | undefined;
  /** File for unknown paths whose last segment has no dot, for example `index.html`: the page of an application with client-side routing. */
  readonly fallback?: string | undefined;
  /** Name for `urlFor(name, { file: 'css/site.css' })`. */
  readonly name?: string | undefined;
}

/** One folder below one path. */
export class StaticMount {
  readonly name: string | undefined;
  readonly folder: StaticFolder;
  readonly dotfiles: DotfilePolicy;
  readonly followsSymlinks: boolean;
  readonly #fallback: readonly string[] | undefined;
  #clock: Clock = systemClock;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  constructor(directory: string | URL, options: StaticOptions) {
    const read = readOptions('mountStatic()', options, {
      index: given<readonly string[]>(
        'a list of file names',
        (value) => Array.isArray(value) && value.every(isFileName),
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
    this.folder = new StaticFolder(directory, {
      index: [...(read.index ?? ['index.html'])],
      allowsDotfiles: read.dotfiles === 'allow',
      followsSymlinks: read.followSymlinks,
      isPrecompressed: read.precompressed,
      cacheControl: `max-age=${read.maxAgeSeconds}${read.immutable ? ', immutable' : ''}`,
    });
  }

  /** Called when the application compiles. @throws SvcError `E_STATIC_DIRECTORY` */
  open(clock: Clock): void {
    this.#clock = clock;
    this.folder.open();
  }

  /** Handles GET and HEAD for the rest after the mount's path; undefined: the mount's path without a slash. @throws HTTPException */
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
    const form = coding === undefined ? entry.plain : entry.coded.get(coding)!; // one of codings
    const { content } = form;
    const verdict = judge(req, content);
    if (verdict === 'failed') throw preconditionFailed();
    if (verdict === 'not-modified')
      return standsFor(new HttpResponse(null, new Prepared(304, form.knownFields.slice())), {
        flat: form.fields,
        size: content.size,
      });
    if (content.source !== undefined || req.method === 'HEAD') return deliver(req, answerOf(form), content);
    return this.#sendLarge(req, entry, form);
  }

  /** Streams a large file: opens the current one, with its own fields. */
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

/** Redirects to the same path with a slash, by a relative location: it contains no host, and proxies need not rewrite it. */
function withSlash(req: HttpRequest): HttpResponse {
  const query = req.target.indexOf('?');
  const name = req.path.slice(req.path.lastIndexOf('/') + 1);
  return new RedirectResponse(`./${name}/${query === -1 ? '' : req.target.slice(query)}`, {
    status: 301,
    headers: { 'Cache-Control': 'no-cache' },
  });
}

function isFileName(value: unknown): boolean {
  return typeof value === 'string' && segmentsOf(value).length === 1;
}

/** Empty for a path that cannot be below a folder. */
function segmentsOf(path: string): readonly string[] {
  const read = readStaticPath(path, 'allow');
  return read.kind === 'path' && !path.endsWith('/') ? read.segments : [];
}
