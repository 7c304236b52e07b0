/**
 * The session of one request. It is read when the handler first uses it. Its changes are collected, and saved
 * when the handler has returned.
 *
 * The changes of a request can be applied to newer {@link SessionData} than the request has read. So if
 * concurrent requests change different values of a session, no change is lost.
 */
import { randomBytes } from 'node:crypto';
import { BadRequest, SvcError } from '../../base/errors.ts';
import type { Flash, Session, SessionKey } from '../contracts.ts';

/** Values and flash messages of a session, as they are stored. */
export interface SessionData {
  readonly values: ReadonlyMap<string, unknown>;
  /** Flash messages that no handler has taken, the oldest first. */
  readonly flashes: readonly Flash[];
}

/** A valid session that the client has sent, as it was read from the cookie or the store. */
export interface OpenedSession {
  readonly id: string;
  /** Start of the session's absolute lifetime, in seconds since the epoch. */
  readonly bornSeconds: number;
  readonly data: SessionData;
  /**
   * Text of the record from which the session was read. When the session is saved, the store replaces the
   * record only if it still has this text. So no change of another request is lost.
   */
  readonly text: string;
  /**
   * Whether the session must be saved even without changes: to renew its idle time, or to protect it with the
   * current key instead of an older one.
   */
  readonly isDue: boolean;
}

/** A decoded session whose idle time and absolute lifetime were not checked. */
export type StoredSession = Omit<OpenedSession, 'isDue'>;

export const NO_DATA: SessionData = Object.freeze({
  values: new Map<string, unknown>(),
  flashes: Object.freeze([]),
});

/** Returns a random id of 256 bits, as 43 characters. */
export function randomId(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * Defines the name and type of a session value: `const cart = sessionKey<string[]>('cart')`. Keys with the
 * same name refer to the same value.
 */
export function sessionKey<T>(name: string): SessionKey<T> {
  return Object.freeze({ name });
}

/** Maximum number of flash messages in a session. If there are more, the oldest are dropped. */
const MAX_FLASHES = 50;
/** Maximum length of a flash message in characters, because messages often contain input of the client. */
const MAX_FLASH_CHARACTERS = 500;
/** Maximum nesting depth of a value. Real data has much less; this limit prevents a stack overflow. */
const MAX_DEPTH = 100;

export class RequestSession implements Session {
  /** Reads the session that the client has sent. Undefined after the first call. */
  #open: (() => OpenedSession | undefined) | undefined;
  /** Error of the store or of the login authority. Every use of the session throws it. */
  #failure: { readonly error: unknown } | undefined;
  readonly #onUnkept: (mistake: SvcError) => void;
  #isUsed = false;
  #isRead = false;
  #opened: OpenedSession | undefined;
  /** Whether the client keeps a session after this request, with the same id or a new one. */
  #continues = false;
  #id: string | undefined;
  #endedId: string | undefined;
  #isDestroyed = false;
  #isRefused = false;
  /** Data of the session when it was opened, without the data that regenerate() and destroy() removed. */
  #base: SessionData = NO_DATA;
  #values = new Map<string, unknown>();
  /** Names of the values that this request has set or deleted. */
  readonly #changed = new Set<string>();
  /** JSON text of each object that get() has returned. close() compares it with the object, to find changes. */
  readonly #handedOut = new Map<string, string>();
  #hasTaken = false;
  #flashed: Flash[] = [];
  #isClosed = false;

  /**
   * `open` is called when the session is first used. `onUnkept` is called if a value that may come from the
   * client cannot be saved.
   */
  constructor(open: () => OpenedSession | undefined, onUnkept: (mistake: SvcError) => void) {
    this.#open = open;
    this.#onUnkept = onUnkept;
  }

  get id(): string {
    this.#read();
    return (this.#id ??= randomId());
  }

  get isNew(): boolean {
    this.#read();
    return this.#opened === undefined;
  }

  get(key: string | SessionKey<unknown>): never {
    this.#read();
    const name = nameOf(key);
    const value = this.#values.get(name);
    if (typeof value === 'object' && value !== null && !this.#handedOut.has(name))
      this.#handedOut.set(name, JSON.stringify(value));
    // the cast is needed: `never` is compatible with the return types of all overloads in the interface
    // Session
    return value as never;
  }

  set(key: string | SessionKey<unknown>, value: unknown): void {
    this.#change();
    const name = nameOf(key);
    // stores a copy, because the caller may change the object later
    this.#values.set(name, JSON.parse(JSON.stringify(this.#checked(name, value))));
    this.#changed.add(name);
    this.#handedOut.delete(name);
  }

  delete(key: string | SessionKey<unknown>): void {
    this.#change();
    const name = nameOf(key);
    this.#handedOut.delete(name);
    if (this.#values.delete(name)) this.#changed.add(name);
  }

  regenerate(options: { readonly keep?: readonly (string | SessionKey<unknown>)[] | undefined } = {}): void {
    this.#change();
    this.#end();
    if (options.keep === undefined) return;
    const kept = new Set(options.keep.map(nameOf));
    this.#base = {
      values: new Map([...this.#base.values].filter(([name]) => kept.has(name))),
      flashes: this.#base.flashes,
    };
    for (const name of new Set([...this.#values.keys(), ...this.#changed]))
      if (!kept.has(name)) this.#forget(name);
  }

  destroy(): void {
    this.#change();
    this.#end();
    this.#isDestroyed = true;
    this.#continues = false;
    this.#base = NO_DATA;
    this.#flashed = [];
    for (const name of new Set([...this.#values.keys(), ...this.#changed])) this.#forget(name);
  }

  flash(kind: string, text: string): void {
    this.#change();
    for (const part of [kind, text])
      if (typeof part !== 'string')
        throw new SvcError('E_SESSION_VALUE', [
          'a message',
          `has the type ${typeof part}, but the kind and the text of a flash message must be strings`,
        ]);
    this.#flashed.push({ kind: cut(kind), text: cut(text) });
  }

  takeFlashes(): readonly Flash[] {
    this.#change();
    if (this.#hasTaken) return [];
    this.#hasTaken = true;
    return this.#base.flashes;
  }

  /** Values of the session that the client has sent, without using the session. @internal */
  peek(): ReadonlyMap<string, unknown> | undefined {
    return this.#sent()?.data.values;
  }

  /** Ends the session that the client has sent, because its login has ended. @internal */
  refuse(): void {
    this.#endedId = this.#sent()?.id;
    this.#opened = undefined;
    this.#isDestroyed = this.#isRefused = true;
  }

  /** Makes every use of the session throw `error`. @internal */
  fail(error: unknown): void {
    this.#failure = { error };
  }

  /** Whether the session has ended because of its login. @internal */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Whether the request has used the session, also in vain, so that the response may depend on it. @internal */
  get isUsed(): boolean {
    return this.#isUsed;
  }

  /** Whether the request has read the session, so that it may have to be saved. @internal */
  get isRead(): boolean {
    return this.#isRead;
  }

  /**
   * Whether the client will have a session after the response. Later changes of the same request can change
   * this result. @internal
   */
  get isKept(): boolean {
    this.#read();
    return this.#continues || this.#values.size > 0 || this.#flashed.length > 0;
  }

  /** The session that the client has sent. Undefined if it has sent no valid session. @internal */
  get opened(): OpenedSession | undefined {
    return this.#opened;
  }

  /** Session id that regenerate() or destroy() has invalidated. Undefined if there is none. @internal */
  get endedId(): string | undefined {
    return this.#endedId;
  }

  /** Whether destroy() was called, so that the client's cookie must be deleted. @internal */
  get isDestroyed(): boolean {
    return this.#isDestroyed;
  }

  /**
   * Whether this request has changed the session. Complete only after close(), which finds changed objects.
   * @internal
   */
  get isChanged(): boolean {
    return (
      this.#changed.size > 0 ||
      this.#endedId !== undefined ||
      this.#flashed.length > 0 ||
      (this.#hasTaken && this.#base.flashes.length > 0)
    );
  }

  /** Data of the session without the changes of this request. @internal */
  get base(): SessionData {
    return this.#base;
  }

  /**
   * Ends the use of the session: later changes throw `E_SESSION_SENT`. Finds the objects from get() that the
   * handler has changed.
   * @throws SvcError `E_SESSION_VALUE` for a changed object that cannot be stored; BadRequest if its content
   *   may come from the client @internal
   */
  close(): void {
    this.#isClosed = true;
    for (const [name, before] of this.#handedOut) {
      if (JSON.stringify(this.#checked(name, this.#values.get(name))) !== before) this.#changed.add(name);
    }
  }

  /** Returns `data` with the changes of this request. @internal */
  over(data: SessionData): SessionData {
    const values = new Map(data.values);
    for (const name of this.#changed) {
      if (this.#values.has(name)) values.set(name, this.#values.get(name));
      else values.delete(name);
    }
    const flashes = [...data.flashes];
    if (this.#hasTaken) {
      for (const { kind, text } of this.#base.flashes) {
        const at = flashes.findIndex((flash) => flash.kind === kind && flash.text === text);
        // a concurrent request may have taken this message, too; then the list no longer contains it
        if (at !== -1) flashes.splice(at, 1);
      }
    }
    return { values, flashes: [...flashes, ...this.#flashed].slice(-MAX_FLASHES) };
  }

  #read(): void {
    if (this.#isRead) return;
    this.#isUsed = true;
    if (this.#failure !== undefined) throw this.#failure.error;
    this.#isRead = true;
    const opened = this.#sent();
    if (opened === undefined) return;
    this.#continues = true;
    this.#id = opened.id;
    this.#base = opened.data;
    this.#values = new Map(this.#base.values);
  }

  #sent(): OpenedSession | undefined {
    if (this.#open !== undefined) this.#opened = this.#open();
    this.#open = undefined;
    return this.#opened;
  }

  #change(): void {
    if (this.#isClosed) throw new SvcError('E_SESSION_SENT', ['the session']);
    this.#read();
  }

  /** Returns a value if it can be stored. */
  #checked(name: string, value: unknown): unknown {
    const problem = issueOf(value, []);
    if (problem === undefined) return value;
    const mistake = new SvcError('E_SESSION_VALUE', [name, problem.text]);
    if (!problem.isOfInput) throw mistake;
    this.#onUnkept(mistake);
    throw new BadRequest(
      'A value of the request cannot be stored in the session: a number is too large, or the nesting is too deep',
      { code: 'session_value', cause: mistake },
    );
  }

  /** Removes the session id. A new id is created when it is needed. */
  #end(): void {
    this.#endedId ??= this.#opened?.id;
    this.#id = undefined;
  }

  #forget(name: string): void {
    this.#values.delete(name);
    this.#changed.delete(name);
    this.#handedOut.delete(name);
  }
}

function nameOf(key: string | SessionKey<unknown>): string {
  return typeof key === 'string' ? key : key.name;
}

/** Shortens a text to the maximum length, without splitting a surrogate pair. */
function cut(text: string): string {
  if (text.length <= MAX_FLASH_CHARACTERS) return text;
  return `${text.slice(0, MAX_FLASH_CHARACTERS - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

interface ContentIssue {
  readonly text: string;
  /**
   * Whether JSON in a request body can cause this issue, for example `1e999` or a thousand nested lists. If
   * so, the request is refused with 400.
   */
  readonly isOfInput: boolean;
}

/** `around` contains the objects that contain the value, to find cycles. */
function issueOf(value: unknown, around: object[]): ContentIssue | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined;
  if (typeof value === 'number')
    return Number.isFinite(value) ? undefined : { text: `is or contains ${value}`, isOfInput: true };
  if (typeof value !== 'object')
    return {
      text: `is or contains ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}`,
      isOfInput: false,
    };
  if (around.length === MAX_DEPTH) {
    return around.includes(value)
      ? { text: 'contains itself', isOfInput: false }
      : { text: `is nested more than ${MAX_DEPTH} levels deep`, isOfInput: true };
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = Array.isArray(value) || prototype === Object.prototype || prototype === null;
  if (!isPlain) return { text: `is or contains an object of the class ${classOf(value)}`, isOfInput: false };
  around.push(value);
  for (const member of Array.isArray(value) ? (value as readonly unknown[]) : Object.values(value)) {
    // a gap in a sparse array is read as undefined, which cannot be stored
    const problem = issueOf(member, around);
    if (problem !== undefined) return problem;
  }
  around.pop();
  return undefined;
}

function classOf(value: object): string {
  return value.constructor?.name ?? '(anonymous)';
}
