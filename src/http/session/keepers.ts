/**
 * Keeps sessions in a signed or encrypted cookie, or in a store. With a store, a signed cookie contains only
 * the session id.
 *
 * Without a store:
 *   the cookie contains { i: id, b: start of lifetime, v: values, f: flash messages }, signed or encrypted
 * With a store:
 *   the cookie contains the signed id
 *   the store contains { b, v, f } under the key session:SHA-256(id), encrypted with the option `encrypt`
 *
 * Each session cookie contains its times of issue and expiry. The store contains only hashes of session ids,
 * so a person who can read the store cannot create a session cookie.
 */
import { createHash } from 'node:crypto';
import { HTTPException, PayloadTooLarge, SvcError, throwMistake } from '../../base/errors.ts';
import { SecurityLog } from '../security-log.ts';
import { MissingTls } from './cookie.ts';
import { ProtectedValues } from '../../crypto/protected-values.ts';
import { NO_DATA, RequestSession } from './values.ts';
import type { Keyring } from '../../crypto/keys.ts';
import { recordMembers } from '../../cache/stores.ts';
import type { RecordStore } from '../../cache/stores.ts';
import type { Awaitable, HttpRequest, Services } from '../contracts.ts';
import type { HostCookie } from '../cookies.ts';
import type { HttpResponse } from '../response.ts';
import type { CookieDefinition } from './cookie.ts';
import type { ReadValue, ValueIssue, ValueTimes } from '../../crypto/protected-values.ts';
import type { OpenedSession, SessionData, StoredSession } from './values.ts';

/** Opens the session of a request, and saves it before the response is sent. */
export interface SessionKeeper {
  open(req: HttpRequest): Awaitable<RequestSession>;
  /** Called after `session.close()`, and only if the session was used, or its login has ended. */
  keep(session: RequestSession, req: HttpRequest, response: HttpResponse): Awaitable<void>;
}

/** Dependencies and options of a {@link SessionKeeper}. */
export interface SessionDeps {
  readonly services: Services;
  readonly ring: Keyring;
  readonly cookie: CookieDefinition;
  readonly maxAgeSeconds: number;
  readonly absoluteSeconds: number;
  readonly isSealed: boolean;
}

/**
 * Maximum size of a cookie (name and value) in bytes. Browsers ignore larger cookies without an error (RFC
 * 6265bis §5.6).
 */
const MAX_COOKIE_BYTES = 4_096;
const MAX_RECORD_BYTES = 1_000_000;
/**
 * Maximum length of an encrypted record in characters. It is enough for MAX_RECORD_BYTES in base64url, and
 * for the other parts of the record.
 */
const MAX_RECORD_CHARACTERS = 1_500_000;
/**
 * Maximum number of attempts to update the record of a session. An attempt fails if another request has
 * changed the record in the meantime. The limit is higher than the number of requests that a browser sends at
 * once.
 */
const MAX_ATTEMPTS = 100;
/** Time in milliseconds between two reports of a store that fails. */
const REPORT_MS = 60_000;
/**
 * A session is renewed when a tenth of its idle time has passed. So a session in use does not expire, and
 * most responses need no new cookie.
 */
const RENEWED_AFTER = 10;

/** Reads and writes the session cookie. It contains the session itself, or its id in the store. */
class SessionCookie {
  readonly #deps: SessionDeps;
  readonly #values: ProtectedValues;
  readonly #audit: SecurityLog;
  readonly #missingTls: MissingTls;

  constructor(deps: SessionDeps, values: ProtectedValues) {
    this.#deps = deps;
    this.#values = values;
    this.#audit = SecurityLog.of(deps.services);
    this.#missingTls = new MissingTls(this.#audit);
  }

  get nowSeconds(): number {
    return Math.floor(this.#deps.services.clock.nowMs() / 1_000);
  }

  textOf(req: HttpRequest): string | undefined {
    return req.cookies[this.on(req).name];
  }

  /**
   * Returns the verified value of the request's session cookie. Undefined if the cookie is missing or
   * invalid.
   */
  read(req: HttpRequest): Extract<ReadValue, { kind: 'valid' }> | undefined {
    const on = this.on(req);
    const text = req.cookies[on.name];
    if (text === undefined) return undefined;
    const value = this.#values.read(this.#deps.cookie.boundName(on), text, this.nowSeconds);
    if (value.kind === 'valid') return value;
    if (value.reason !== 'expired') this.reject(req, value.reason);
    return undefined;
  }

  /** The lifetimes in the options apply, even if they were longer when the session was saved. */
  opened(value: Extract<ReadValue, { kind: 'valid' }>, record: StoredSession): OpenedSession | undefined {
    const { maxAgeSeconds } = this.#deps;
    const { issuedSeconds, expiresSeconds } = value.times;
    const { nowSeconds } = this;
    const now = this.timesOf(record.bornSeconds);
    if (now.expiresSeconds <= nowSeconds || nowSeconds >= issuedSeconds + maxAgeSeconds) return undefined;
    const isIdle =
      (nowSeconds - issuedSeconds) * RENEWED_AFTER > maxAgeSeconds && now.expiresSeconds > expiresSeconds;
    return { ...record, isDue: isIdle || !value.isCurrentKey };
  }

  /** A session expires when its idle time or its absolute lifetime ends, whichever is earlier. */
  timesOf(bornSeconds: number): ValueTimes {
    const { maxAgeSeconds, absoluteSeconds } = this.#deps;
    const issuedSeconds = this.nowSeconds;
    return {
      issuedSeconds,
      expiresSeconds: Math.min(issuedSeconds + maxAgeSeconds, bornSeconds + absoluteSeconds),
    };
  }

  written(on: HostCookie, payload: string, times: ValueTimes): Written {
    const text = this.#values.write(this.#deps.cookie.boundName(on), payload, times);
    return { text, bytes: on.name.length + text.length };
  }

  on(req: HttpRequest): HostCookie {
    return this.#deps.cookie.on(req, this.#deps.services.env);
  }

  set(req: HttpRequest, response: HttpResponse, on: HostCookie, text: string, times: ValueTimes): void {
    this.#deps.cookie.set(response, on, text, times.expiresSeconds - times.issuedSeconds);
    this.#missingTls.notice(req, on);
  }

  /** Makes the browser delete the cookie, if the request has sent one. */
  clear(req: HttpRequest, response: HttpResponse): void {
    if (this.textOf(req) !== undefined) this.#deps.cookie.set(response, this.on(req), '', 0);
  }

  /** Logs that the session cookie of a request was refused. Does not log the value of the cookie. */
  reject(req: HttpRequest, reason: ValueIssue | 'unknown_session'): void {
    this.#audit.refused('session_rejected', req, { reason });
  }

  /** This is a security event, because input of the client may be the cause. */
  unkept(req: HttpRequest, mistake: SvcError): void {
    this.#audit.refused('session_not_kept', req, { error: mistake });
  }

  /** Returns the text of a session. If the session is too large, omits the oldest flash messages. */
  fitted(
    req: HttpRequest,
    data: SessionData,
    mostBytes: number,
    write: (data: SessionData) => Written,
  ): string {
    const { text, bytes } = fitted(data, mostBytes, write);
    if (bytes <= mostBytes) return text;
    const cause = new SvcError('E_SESSION_SIZE', [bytes, mostBytes]);
    this.unkept(req, cause);
    throw new PayloadTooLarge('The request would make the session too large to be stored', {
      code: 'session_too_large',
      cause,
    });
  }
}

/**
 * Keeps sessions in cookies. If concurrent requests change a session, the browser keeps only the cookie of
 * the last response.
 */
export class CookieKeeper implements SessionKeeper {
  readonly #cookie: SessionCookie;

  constructor(deps: SessionDeps) {
    this.#cookie = new SessionCookie(
      deps,
      new ProtectedValues(deps.ring, 'svc session', deps.isSealed ? 'sealed' : 'signed'),
    );
  }

  /** Returns the session. Its cookie is parsed only when the session is first used. */
  open(req: HttpRequest): RequestSession {
    return new RequestSession(
      () => {
        const value = this.#cookie.read(req);
        if (value === undefined) return undefined;
        const record = decoded(value.payload);
        if (record !== undefined) return this.#cookie.opened(value, record);
        this.#cookie.reject(req, 'malformed');
        return undefined;
      },
      (mistake) => this.#cookie.unkept(req, mistake),
    );
  }

  /**
   * Sets the cookie if the session was changed, or must be renewed. Only requests for pages renew a session.
   * A background request may get its response after a logout, and a cookie in it would restore the session.
   */
  keep(session: RequestSession, req: HttpRequest, response: HttpResponse): void {
    const { opened } = session;
    if (!session.isKept) {
      if (mayClear(session, req)) this.#cookie.clear(req, response);
    } else if (session.isChanged || (opened?.isDue === true && isPage(req))) {
      const bornSeconds = bornOf(session) ?? this.#cookie.nowSeconds;
      const times = this.#cookie.timesOf(bornSeconds);
      const on = this.#cookie.on(req);
      const text = this.#cookie.fitted(req, session.over(session.base), MAX_COOKIE_BYTES, (data) =>
        this.#cookie.written(on, encoded(data, bornSeconds, session.id), times),
      );
      this.#cookie.set(req, response, on, text, times);
    }
  }
}

/** Keeps sessions in a store. Concurrent requests overwrite only the values that they have changed. */
export class StoreKeeper implements SessionKeeper {
  readonly #store: RecordStore;
  readonly #deps: SessionDeps;
  readonly #cookie: SessionCookie;
  /** Time on the monotonic clock from which a failure of the store is logged again. */
  #reportsAtMs = 0;
  /** Encrypts and decrypts records. Undefined if records are not encrypted. */
  readonly #seal: ProtectedValues | undefined;

  constructor(deps: SessionDeps, store: RecordStore) {
    this.#deps = deps;
    this.#store = store;
    this.#cookie = new SessionCookie(deps, new ProtectedValues(deps.ring, 'svc session id', 'signed'));
    this.#seal = deps.isSealed
      ? new ProtectedValues(deps.ring, 'svc session record', 'sealed', MAX_RECORD_CHARACTERS)
      : undefined;
  }

  /**
   * Returns the session. With a valid cookie, reads the store before the handler runs, because
   * `session.get()` is synchronous.
   */
  async open(req: HttpRequest): Promise<RequestSession> {
    const unkept = (mistake: SvcError): void => this.#cookie.unkept(req, mistake);
    let opened: OpenedSession | undefined;
    const session = new RequestSession(() => opened, unkept);
    const value = this.#cookie.read(req);
    if (value === undefined) return session;
    try {
      const stored = await this.#find(value.payload);
      // without a valid record, the session was ended, or has expired
      if (stored === undefined) this.#cookie.reject(req, 'unknown_session');
      else opened = this.#cookie.opened(value, stored);
    } catch (cause) {
      throwMistake(cause);
      this.#report(cause);
      // a request that does not use the session is answered as usual
      session.fail(
        new HTTPException(503, 'Sessions are not available at the moment; try again later', {
          headers: { 'Retry-After': '1' },
          cause,
        }),
      );
    }
    return session;
  }

  async keep(session: RequestSession, req: HttpRequest, response: HttpResponse): Promise<void> {
    const { endedId, opened } = session;
    // the old record is deleted before the new one is added, so that they are never valid at the same time
    const wasAlive = endedId === undefined || (await this.#store.delete(keyOf(endedId)));
    if (!session.isKept) return mayClear(session, req) ? this.#cookie.clear(req, response) : undefined;
    if (opened === undefined || endedId !== undefined) {
      // if another request has ended the session, the old values are not stored again
      const data = session.over(wasAlive ? session.base : NO_DATA);
      if (!wasAlive && data.values.size === 0 && data.flashes.length === 0) return;
      const times = this.#cookie.timesOf(this.#cookie.nowSeconds);
      const text = this.#encoded(req, session.id, data, times.issuedSeconds);
      await this.#store.add(keyOf(session.id), text, ttlMs(times));
      this.#name(req, response, session.id, times);
    } else if (session.isChanged || opened.isDue) {
      const times = this.#cookie.timesOf(opened.bornSeconds);
      if (await this.#merge(req, session, opened, ttlMs(times))) this.#name(req, response, session.id, times);
    }
  }

  #name(req: HttpRequest, response: HttpResponse, id: string, times: ValueTimes): void {
    const on = this.#cookie.on(req);
    // the size needs no check, because an id has only 43 characters
    this.#cookie.set(req, response, on, this.#cookie.written(on, id, times).text, times);
  }

  /** Returns false if another request has ended the session. */
  async #merge(
    req: HttpRequest,
    session: RequestSession,
    read: StoredSession,
    ttl: number,
  ): Promise<boolean> {
    const key = keyOf(session.id);
    let before: StoredSession | undefined = read;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const text: string = session.isChanged
        ? this.#encoded(req, session.id, session.over(before.data), before.bornSeconds)
        : before.text;
      if (await this.#store.replace(key, before.text, text, ttl)) return true;
      before = await this.#find(session.id);
      if (before === undefined) return false;
    }
    throw new HTTPException(
      503,
      'Too many requests change this session at the same time; repeat the request',
      { headers: { 'Retry-After': '1' } },
    );
  }

  async #find(id: string): Promise<StoredSession | undefined> {
    const key = keyOf(id);
    const text = await this.#store.get(key);
    if (text === undefined) return undefined;
    const value = this.#seal?.read(key, text, this.#cookie.nowSeconds);
    if (value?.kind === 'refused') return undefined;
    const record = decoded(value === undefined ? text : value.payload);
    return record === undefined ? undefined : { ...record, id, text };
  }

  /** Logs the failure of the store, at most once a minute: requests that do not use the session hide it. */
  #report(error: unknown): void {
    const { clock, log } = this.#deps.services;
    const nowMs = clock.monotonicMs();
    if (nowMs < this.#reportsAtMs) return;
    this.#reportsAtMs = nowMs + REPORT_MS;
    log.error('session_store_failed', error);
  }

  #encoded(req: HttpRequest, id: string, data: SessionData, bornSeconds: number): string {
    const text = this.#cookie.fitted(req, data, MAX_RECORD_BYTES, (fitting) => {
      const record = encoded(fitting, bornSeconds);
      return { text: record, bytes: Buffer.byteLength(record) };
    });
    if (this.#seal === undefined) return text;
    return this.#seal.write(keyOf(id), text, {
      issuedSeconds: this.#cookie.nowSeconds,
      expiresSeconds: bornSeconds + this.#deps.absoluteSeconds,
    });
  }
}

function keyOf(id: string): string {
  return `session:${createHash('sha256').update(id).digest('base64url')}`;
}

function ttlMs({ issuedSeconds, expiresSeconds }: ValueTimes): number {
  return (expiresSeconds - issuedSeconds) * 1_000;
}

/** Seconds since the epoch; undefined if the absolute lifetime starts now. */
function bornOf({ opened, endedId }: RequestSession): number | undefined {
  return endedId === undefined ? opened?.bornSeconds : undefined;
}

/**
 * Whether the client's cookie is deleted. If the login of the session has ended, only the response to a page
 * deletes it: a background request may get its response after the next login has set a new cookie.
 */
function mayClear({ isDestroyed, isRefused }: RequestSession, req: HttpRequest): boolean {
  return isRefused ? isPage(req) : isDestroyed;
}

/**
 * Whether the browser requests a page. Browsers show this in `Sec-Fetch-Mode`; without this field, the result
 * is true.
 */
function isPage(req: HttpRequest): boolean {
  const mode = req.headers['sec-fetch-mode'];
  return mode === undefined || mode === 'navigate';
}

/** Pass `id` only for a cookie; in a store, the key of the record identifies the session. */
function encoded({ values, flashes }: SessionData, bornSeconds: number, id?: string): string {
  return JSON.stringify({
    i: id,
    b: bornSeconds,
    v: Object.fromEntries(values),
    f: flashes.length === 0 ? undefined : flashes.map(({ kind, text }) => [kind, text]),
  });
}

/** Returns undefined for other text, such as a session of another version of the framework. */
function decoded(text: string): StoredSession | undefined {
  const { i: id = '', b: bornSeconds, v: values, f: flashes = [] } = recordMembers(text);
  if (
    typeof id !== 'string' ||
    typeof bornSeconds !== 'number' ||
    typeof values !== 'object' ||
    values === null ||
    !Array.isArray(flashes)
  )
    return undefined;
  const pairs = flashes.filter((flash) => Array.isArray(flash)) as readonly (readonly unknown[])[];
  return {
    id,
    bornSeconds,
    text,
    data: {
      values: new Map(Object.entries(values)), // unlike in an object, `__proto__` is an ordinary key in a Map
      flashes: pairs.map(([kind, message]) => ({ kind: String(kind), text: String(message) })),
    },
  };
}

/** Encoded session, and its size. */
interface Written {
  readonly text: string;
  readonly bytes: number;
}

/**
 * Encodes the session with as many of its newest flash messages as fit in `mostBytes`. Values are never
 * omitted. If they alone do not fit, the result is too large.
 */
function fitted(data: SessionData, mostBytes: number, write: (data: SessionData) => Written): Written {
  let written = write(data);
  if (written.bytes <= mostBytes || data.flashes.length === 0) return written;
  const bare = write({ ...data, flashes: [] });
  if (bare.bytes > mostBytes) return bare;
  for (let dropped = 1; dropped < data.flashes.length; dropped++) {
    written = write({ ...data, flashes: data.flashes.slice(dropped) });
    if (written.bytes <= mostBytes) return written;
  }
  return bare;
}
