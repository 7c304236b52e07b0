/**
 * Where sessions are kept between requests: in a signed or sealed cookie, or in a store whose records a cookie names.
 *
 *   cookie   svc_session = protected { i: id, b: born, v: values, f: flashes }
 *   store    svc_session = signed id         session:SHA-256(id) → { b: born, v: values, f: flashes }, sealed if wanted
 *
 * Both cookies say when they were issued and when they end. The store knows no id, so that who reads it can use no session.
 */
import { createHash } from 'node:crypto';
import { HTTPException, SvcError } from '../errors.ts';
import { NO_DATA, RequestSession } from './session-values.ts';
import { ProtectedValues } from './signed-values.ts';
import type { Keyring } from '../keys.ts';
import type { Logger } from '../log.ts';
import type { RecordStore } from '../stores.ts';
import type { Awaitable, HttpRequest, Services } from './contracts.ts';
import type { HttpResponse } from './response.ts';
import type { KeptCookie } from './session-cookie.ts';
import type { OpenedSession, SessionData } from './session-values.ts';
import type { ReadValue, ValueRefusal, ValueTimes } from './signed-values.ts';

/** Opens the session of a request, and keeps it once there is an answer. */
export interface SessionKeeper {
  open(req: HttpRequest): Awaitable<RequestSession>;
  /** Only for a session that has been read, and is closed. */
  keep(session: RequestSession, req: HttpRequest, response: HttpResponse): Awaitable<void>;
}

/** What sessions are kept by. Lifetimes in seconds. */
export interface SessionTerms {
  readonly services: Services;
  readonly ring: Keyring;
  readonly cookie: KeptCookie;
  readonly maxAgeSeconds: number;
  readonly absoluteSeconds: number;
  readonly isSealed: boolean;
}

/** A session as its text says, before anybody has looked at its times. */
type StoredSession = Omit<OpenedSession, 'isDue'>;

/** A name and value beyond this are dropped by browsers without a word (RFC 6265bis §5.6). */
const MAX_COOKIE_BYTES = 4_096;
const MAX_RECORD_BYTES = 1_000_000;
/** Base64url of the sealed bytes, and the head before it. */
const MAX_RECORD_CHARACTERS = 1_500_000;
/** Each one lost means that another request has won; so many at once belong to no browser. */
const MAX_ATTEMPTS = 100;
/** The idle time is renewed when a tenth of it is over: not with every answer, and without ending anybody early. */
const RENEWED_AFTER = 10;

/** What both kinds of keeper do with their cookie. */
class SessionCookie {
  readonly #terms: SessionTerms;
  readonly #values: ProtectedValues;
  readonly #audit: Logger;
  #hasWarned = false;

  constructor(terms: SessionTerms, values: ProtectedValues) {
    this.#terms = terms;
    this.#values = values;
    this.#audit = terms.services.log.child('svc_security');
  }

  get nowSeconds(): number { return Math.floor(this.#terms.services.clock.nowMs() / 1_000); }

  textOf(req: HttpRequest): string | undefined {
    return req.cookies[this.#terms.cookie.on(req, this.#terms.services.env).name];
  }

  /** What the cookie of a request says; undefined when there is none, or none that counts. */
  read(req: HttpRequest): Extract<ReadValue, { kind: 'valid' }> | undefined {
    const { name } = this.#terms.cookie.on(req, this.#terms.services.env);
    const text = req.cookies[name];
    if (text === undefined) return undefined;
    const value = this.#values.read(name, text, this.nowSeconds);
    if (value.kind === 'valid') return value;
    if (value.reason !== 'expired') this.reject(req, value.reason);
    return undefined;
  }

  /** The session that `record` is, if its time is not over: its embedded one may be longer than today's settings allow. */
  opened(value: Extract<ReadValue, { kind: 'valid' }>, record: StoredSession): OpenedSession | undefined {
    const { maxAgeSeconds } = this.#terms;
    const { issuedSeconds, expiresSeconds } = value.times;
    const { nowSeconds } = this;
    const now = this.timesOf(record.bornSeconds);
    if (now.expiresSeconds <= nowSeconds || nowSeconds >= issuedSeconds + maxAgeSeconds) return undefined;
    const isIdle = (nowSeconds - issuedSeconds) * RENEWED_AFTER > maxAgeSeconds && now.expiresSeconds > expiresSeconds;
    return { ...record, isDue: isIdle || !value.isCurrentKey };
  }

  /** From now to the end of the idle time, or of the absolute one if that comes first. */
  timesOf(bornSeconds: number): ValueTimes {
    const { maxAgeSeconds, absoluteSeconds } = this.#terms;
    const issuedSeconds = this.nowSeconds;
    return { issuedSeconds, expiresSeconds: Math.min(issuedSeconds + maxAgeSeconds, bornSeconds + absoluteSeconds) };
  }

  /** @throws SvcError `E_SESSION_SIZE` */
  set(req: HttpRequest, response: HttpResponse, payload: string, times: ValueTimes): void {
    const { cookie, services } = this.#terms;
    const on = cookie.on(req, services.env);
    const text = this.#values.write(on.name, payload, times);
    const bytes = on.name.length + text.length;
    if (bytes > MAX_COOKIE_BYTES) throw new SvcError('E_SESSION_SIZE', [bytes, MAX_COOKIE_BYTES]);
    cookie.set(response, on, text, times.expiresSeconds - times.issuedSeconds);
    if (on.secure && req.scheme === 'http') this.#warnWithoutTls(req);
  }

  /** Lets the client forget the cookie, if it has one. */
  clear(req: HttpRequest, response: HttpResponse): void {
    const { cookie, services } = this.#terms;
    if (this.textOf(req) !== undefined) cookie.set(response, cookie.on(req, services.env), '', 0);
  }

  /** One line for those who watch. The value is not in it. */
  reject(req: HttpRequest, reason: ValueRefusal | 'unknown_session'): void {
    this.#audit.warn('session_rejected', { reason, request_id: req.id, address: req.ip, method: req.method, route: req.route?.template });
  }

  /** A proxy that speaks TLS says so; without one, browsers drop what is `Secure`, and nobody stays logged in. Once. */
  #warnWithoutTls(req: HttpRequest): void {
    if (this.#hasWarned || req.headers['x-forwarded-proto'] !== undefined || req.headers['forwarded'] !== undefined) return;
    this.#hasWarned = true;
    this.#audit.warn('session_cookie_without_tls', { message: 'The session cookie is Secure, and this request came without TLS: browsers keep the cookie only behind a proxy that speaks TLS' });
  }
}

// ── in the cookie ──

/** Sessions in cookies. Of requests that run at the same time, the answer that arrives last decides. */
export class CookieKeeper implements SessionKeeper {
  readonly #cookie: SessionCookie;

  constructor(terms: SessionTerms) {
    this.#cookie = new SessionCookie(terms, new ProtectedValues(terms.ring, 'svc session', terms.isSealed ? 'sealed' : 'signed'));
  }

  /** Nothing is read before somebody asks. */
  open(req: HttpRequest): RequestSession {
    return new RequestSession(() => {
      const value = this.#cookie.read(req);
      if (value === undefined) return undefined;
      const record = decoded(value.payload);
      if (record !== undefined) return this.#cookie.opened(value, record);
      this.#cookie.reject(req, 'malformed');
      return undefined;
    });
  }

  keep(session: RequestSession, req: HttpRequest, response: HttpResponse): void {
    const { opened } = session;
    if (!session.isKept) {
      if (session.isDestroyed) this.#cookie.clear(req, response);
    } else if (session.isChanged || opened?.isDue === true) {
      const bornSeconds = bornOf(session) ?? this.#cookie.nowSeconds;
      this.#cookie.set(req, response, encoded(session.over(session.base), bornSeconds, session.id), this.#cookie.timesOf(bornSeconds));
    }
  }
}

// ── in a store ──

/** Sessions in a store. Requests that run at the same time each change their own keys. */
export class StoreKeeper implements SessionKeeper {
  readonly #store: RecordStore;
  readonly #terms: SessionTerms;
  readonly #cookie: SessionCookie;
  /** Undefined: records are kept as they are. */
  readonly #seal: ProtectedValues | undefined;

  constructor(terms: SessionTerms, store: RecordStore) {
    this.#terms = terms;
    this.#store = store;
    this.#cookie = new SessionCookie(terms, new ProtectedValues(terms.ring, 'svc session id', 'signed'));
    this.#seal = terms.isSealed ? new ProtectedValues(terms.ring, 'svc session record', 'sealed', MAX_RECORD_CHARACTERS) : undefined;
  }

  /** A cookie that counts costs one look into the store before the handler runs, for `session.get()` does not wait. */
  async open(req: HttpRequest): Promise<RequestSession> {
    const value = this.#cookie.read(req);
    const stored = value === undefined ? undefined : await this.#find(value.payload);
    if (value === undefined || stored === undefined) {
      if (value !== undefined) this.#cookie.reject(req, 'unknown_session'); // logged out, or an id that is worth nothing any more
      return new RequestSession(() => undefined);
    }
    const opened = this.#cookie.opened(value, stored);
    return new RequestSession(() => opened);
  }

  async keep(session: RequestSession, req: HttpRequest, response: HttpResponse): Promise<void> {
    const { endedId, opened } = session;
    const wasAlive = endedId === undefined || await this.#store.delete(keyOf(endedId)); // first: nobody shall have both
    if (!session.isKept) return session.isDestroyed ? this.#cookie.clear(req, response) : undefined;
    if (opened === undefined || endedId !== undefined) {
      // another request has ended it: what it held must not come back, what this one has set may stay
      const data = session.over(wasAlive ? session.base : NO_DATA);
      if (!wasAlive && data.values.size === 0 && data.flashes.length === 0) return;
      const times = this.#cookie.timesOf(this.#cookie.nowSeconds);
      await this.#store.add(keyOf(session.id), this.#encoded(session.id, data, times.issuedSeconds), ttlMs(times));
      this.#cookie.set(req, response, session.id, times);
    } else if (session.isChanged || opened.isDue) {
      const times = this.#cookie.timesOf(opened.bornSeconds);
      if (await this.#merge(session, opened, ttlMs(times))) this.#cookie.set(req, response, session.id, times);
    }
  }

  /** Writes what the request has changed over whatever is there now. False when the session has been ended meanwhile. */
  async #merge(session: RequestSession, read: StoredSession, ttl: number): Promise<boolean> {
    const key = keyOf(session.id);
    let before: StoredSession | undefined = read;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const text: string = session.isChanged ? this.#encoded(session.id, session.over(before.data), before.bornSeconds) : before.text;
      if (await this.#store.replace(key, before.text, text, ttl)) return true;
      before = await this.#find(session.id);
      if (before === undefined) return false;
    }
    throw new HTTPException(503, 'Too many requests change this session at once', { headers: { 'Retry-After': '1' } });
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

  /** @throws SvcError `E_SESSION_SIZE` */
  #encoded(id: string, data: SessionData, bornSeconds: number): string {
    const text = encoded(data, bornSeconds);
    const bytes = Buffer.byteLength(text);
    if (bytes > MAX_RECORD_BYTES) throw new SvcError('E_SESSION_SIZE', [bytes, MAX_RECORD_BYTES]);
    if (this.#seal === undefined) return text;
    return this.#seal.write(keyOf(id), text, { issuedSeconds: this.#cookie.nowSeconds, expiresSeconds: bornSeconds + this.#terms.absoluteSeconds });
  }
}

function keyOf(id: string): string {
  return `session:${createHash('sha256').update(id).digest('base64url')}`;
}

function ttlMs({ issuedSeconds, expiresSeconds }: ValueTimes): number {
  return (expiresSeconds - issuedSeconds) * 1_000;
}

/** When the absolute lifetime began; undefined: it begins now. */
function bornOf({ opened, endedId }: RequestSession): number | undefined {
  return endedId === undefined ? opened?.bornSeconds : undefined;
}

// ── text ──

function encoded({ values, flashes }: SessionData, bornSeconds: number, id?: string): string {
  return JSON.stringify({
    i: id, b: bornSeconds, v: Object.fromEntries(values), f: flashes.length === 0 ? undefined : flashes.map(({ kind, text }) => [kind, text]),
  });
}

/** What {@link encoded} wrote; undefined for anything else, which only another version of the program can have written. */
function decoded(text: string): StoredSession | undefined {
  const { i: id = '', b: bornSeconds, v: values, f: flashes = [] } = jsonObject(text);
  if (typeof id !== 'string' || typeof bornSeconds !== 'number' || typeof values !== 'object' || values === null || !Array.isArray(flashes)) return undefined;
  const pairs = flashes.filter((flash) => Array.isArray(flash)) as readonly (readonly unknown[])[];
  return {
    id, bornSeconds, text, data: {
      values: new Map(Object.entries(values)), // members named __proto__ are entries like any other
      flashes: pairs.map(([kind, message]) => ({ kind: String(kind), text: String(message) })),
    },
  };
}

function jsonObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value as Readonly<Record<string, unknown>> : {};
  } catch {
    return {};
  }
}
