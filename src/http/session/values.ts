/**
 * The session of one request. It is read when it is first used. Its changes are recorded, and saved when the
 * handler has returned.
 *
 * The stored value is {@link SessionData}. The changes of this request can be applied to a newer version of
 * it. So if concurrent requests change different keys of a session, all changes are kept.
 */
import { randomBytes } from 'node:crypto';
import { BadRequest, SvcError } from '../../base/errors.ts';
import type { Flash, Session, SessionKey } from '../contracts.ts';

/** Stored values and messages of a session. */
export interface SessionData {
  readonly values: ReadonlyMap<string, unknown>;
  /** Unread messages, the oldest first. */
  readonly flashes: readonly Flash[];
}

/** A valid session that the client has sent. */
export interface OpenedSession {
  readonly id: string;
  /** Start of its absolute lifetime, in seconds since the epoch. */
  readonly bornSeconds: number;
  readonly data: SessionData;
  /**
   * Text of the record from which the session was read. A store replaces the record only if it still has this
   * text.
   */
  readonly text: string;
  /**
   * Whether the session must be saved even without changes, because a part of its idle time has passed or its
   * key is old.
   */
  readonly isDue: boolean;
}

/** A decoded session whose lifetimes are not checked yet. */
export type StoredSession = Omit<OpenedSession, 'isDue'>;

/** The data of an empty session. */
export const NO_DATA: SessionData = Object.freeze({
  values: new Map<string, unknown>(),
  flashes: Object.freeze([]),
});

/** A random id of 256 bits, as 43 characters. */
export function randomId(): string {
  return randomBytes(32).toString('base64url');
}

/**
 * Names a value of the session and its type: `const cart = sessionKey<string[]>('cart')`. Two keys with one
 * name are the same key.
 */
export function sessionKey<T>(name: string): SessionKey<T> {
  return Object.freeze({ name });
}

/** Maximum number of unread messages; beyond it the oldest are dropped. */
const MAX_FLASHES = 50;
/**
 * Maximum length of a message in characters. It is limited, because messages often contain input of the
 * client.
 */
const MAX_FLASH_CHARACTERS = 500;
/** Maximum nesting of values. Real data has much less; a nesting that overflows the stack is much deeper. */
const MAX_DEPTH = 100;

/** The session of one request. */
export class RequestSession implements Session {
  readonly #open: () => OpenedSession | undefined;
  readonly #onUnkept: (mistake: SvcError) => void;
  #isRead = false;
  #opened: OpenedSession | undefined;
  /** Whether the client keeps its session after this request, under the same id or a new one. */
  #continues = false;
  #id: string | undefined;
  #endedId: string | undefined;
  #isDestroyed = false;
  /** Data of the session at the start of the request. regenerate() and destroy() remove data from it. */
  #base: SessionData = NO_DATA;
  #values = new Map<string, unknown>();
  /** Names of values that this request has set or deleted. */
  readonly #changed = new Set<string>();
  /**
   * JSON text of each object that get() has returned. It is compared at the end, to find objects that the
   * caller has changed.
   */
  readonly #handedOut = new Map<string, string>();
  #hasTaken = false;
  #flashed: Flash[] = [];
  #isClosed = false;

  /**
   * `open` is called once, when the session is first used. `onUnkept` is called if a value that may come from
   * the client cannot be saved.
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
    // callers get the types from the overloads in the interface Session
    this.#read();
    const name = nameOf(key);
    const value = this.#values.get(name);
    if (typeof value === 'object' && value !== null && !this.#handedOut.has(name))
      this.#handedOut.set(name, JSON.stringify(value));
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
          `is ${typeof part}, but the kind and the text of a flash message must be texts`,
        ]);
    this.#flashed.push({ kind: cut(kind), text: cut(text) });
  }

  takeFlashes(): readonly Flash[] {
    this.#change();
    if (this.#hasTaken) return [];
    this.#hasTaken = true;
    return this.#base.flashes;
  }

  // -- methods for the storage --

  /** Whether the session was used. If so, the response may depend on it. @internal */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** Whether the client will have a session after this response, if nothing else is changed. @internal */
  get isKept(): boolean {
    this.#read();
    return this.#continues || this.#values.size > 0 || this.#flashed.length > 0;
  }

  /** The session that the client has sent; undefined without a valid one. @internal */
  get opened(): OpenedSession | undefined {
    return this.#opened;
  }

  /** The id that this request has invalidated; undefined if there is none. @internal */
  get endedId(): string | undefined {
    return this.#endedId;
  }

  /** Whether the client's cookie must be removed. @internal */
  get isDestroyed(): boolean {
    return this.#isDestroyed;
  }

  /** Whether this request has changed the session; known after close(). @internal */
  get isChanged(): boolean {
    return (
      this.#changed.size > 0 ||
      this.#endedId !== undefined ||
      this.#flashed.length > 0 ||
      (this.#hasTaken && this.#base.flashes.length > 0)
    );
  }

  /** Data of the session before the changes of this request. @internal */
  get base(): SessionData {
    return this.#base;
  }

  /**
   * From now on refuses changes. Finds the objects that callers of get() have changed.
   * @throws SvcError `E_SESSION_VALUE`, or BadRequest for a value that a client may have sent @internal
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
        // the message is absent if a concurrent request has taken it, too
        if (at !== -1) flashes.splice(at, 1);
      }
    }
    return { values, flashes: [...flashes, ...this.#flashed].slice(-MAX_FLASHES) };
  }

  #read(): void {
    if (this.#isRead) return;
    this.#isRead = true;
    this.#opened = this.#open();
    if (this.#opened === undefined) return;
    this.#continues = true;
    this.#id = this.#opened.id;
    this.#base = this.#opened.data;
    this.#values = new Map(this.#base.values);
  }

  #change(): void {
    if (this.#isClosed) throw new SvcError('E_SESSION_SENT', ['the session']);
    this.#read();
  }

  /**
   * Checks and returns a value.
   * @throws SvcError `E_SESSION_VALUE` if JSON would change or drop it; BadRequest if a request body may
   * contain it
   */
  #checked(name: string, value: unknown): unknown {
    const problem = issueOf(value, []);
    if (problem === undefined) return value;
    const mistake = new SvcError('E_SESSION_VALUE', [name, problem.text]);
    if (!problem.isOfInput) throw mistake;
    this.#onUnkept(mistake);
    throw new BadRequest('The request contains a number or a nesting depth that a session cannot store', {
      code: 'session_value',
      cause: mistake,
    });
  }

  /** Removes the id. The next change creates a new one. */
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

/** Cuts a text to the maximum length, without splitting a surrogate pair. */
function cut(text: string): string {
  if (text.length <= MAX_FLASH_CHARACTERS) return text;
  return `${text.slice(0, MAX_FLASH_CHARACTERS - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

interface ContentIssue {
  readonly text: string;
  /**
   * Whether the body of a request can contain such a value, as `1e999` or a thousand nested lists. If so, the
   * client has made the mistake.
   */
  readonly isOfInput: boolean;
}

/**
 * Returns why a value cannot be stored; undefined if it can. `around`: the enclosing values, to find cycles.
 */
function issueOf(value: unknown, around: object[]): ContentIssue | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined;
  if (typeof value === 'number')
    return Number.isFinite(value) ? undefined : { text: `is or holds ${value}`, isOfInput: true };
  if (typeof value !== 'object')
    return {
      text: `is or holds ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}`,
      isOfInput: false,
    };
  if (around.length === MAX_DEPTH) {
    return around.includes(value)
      ? { text: 'holds itself', isOfInput: false }
      : { text: `is nested more than ${MAX_DEPTH} levels deep`, isOfInput: true };
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = Array.isArray(value) || prototype === Object.prototype || prototype === null;
  if (!isPlain) return { text: `is or holds an object of the class ${classOf(value)}`, isOfInput: false };
  around.push(value);
  for (const member of Array.isArray(value) ? (value as readonly unknown[]) : Object.values(value)) {
    // an element that an array lacks counts as undefined
    const problem = issueOf(member, around);
    if (problem !== undefined) return problem;
  }
  around.pop();
  return undefined;
}

function classOf(value: object): string {
  return value.constructor?.name ?? '(anonymous)';
}
