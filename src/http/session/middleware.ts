/**
 * Session middleware: `req.session`, kept in a signed cookie or in a store (keepers.ts). values.ts has the
 * methods for handlers.
 *
 * A session is saved before the head of the response is sent, even if the response is an error. Later changes
 * are refused. If sessions are in cookies, a session that no code uses is not even parsed.
 *
 * A response that depends on the session has `Vary: Cookie`, and a response with a cookie stays out of shared
 * caches.
 */
import { SvcError } from '../../base/errors.ts';
import { Keyring, authSecrets } from '../../crypto/keys.ts';
import { bool, given, isObject, readOptions } from '../../base/options.ts';
import { MemoryRecordStore } from '../../cache/stores.ts';
import { isThenable } from '../../base/promises.ts';
import { noteSecrets } from '../../base/used-secrets.ts';
import { OneApplication } from '../pipeline.ts';
import { isServedByMany } from '../middleware/exemptions.ts';
import { KeptCookie, keepPrivate } from './cookie.ts';
import { CookieKeeper, StoreKeeper } from './keepers.ts';
import { SESSION } from '../state.ts';
import type { Env } from '../../base/config.ts';
import type { Finding } from '../../base/findings.ts';
import type { Secrets } from '../../crypto/keys.ts';
import type { RecordStore } from '../../cache/stores.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, Next } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { SessionCookieOptions } from './cookie.ts';
import type { SessionDeps, SessionKeeper } from './keepers.ts';
import type { RequestSession } from './values.ts';

export { sessionKey } from './values.ts';
export type { SessionCookieOptions } from './cookie.ts';

/** How sessions are kept. An option that is `undefined` has its default. */
export interface SessionOptions {
  /**
   * Signing secret of at least 32 bytes, or a list of secrets: the first signs, all are accepted. Default:
   * the application's `authSecret`.
   */
  readonly secrets?: Secrets | undefined;
  /**
   * Idle time in seconds after which a session ends, 1 ... 31_536_000. Default 604_800 (seven days), or
   * `absoluteSeconds` if that is less.
   */
  readonly maxAgeSeconds?: number | undefined;
  /**
   * Maximum lifetime of a session in seconds, even if it is used, 1 ... 31_536_000; `regenerate()` starts it
   * anew. Default 2_592_000, thirty days.
   */
  readonly absoluteSeconds?: number | undefined;
  /** Name and attributes of the cookie. */
  readonly cookie?: SessionCookieOptions | undefined;
  /**
   * Store of sessions; then the cookie contains only a random id. Default: sessions are in the cookie. A
   * session in the cookie ends only when it expires: after `destroy()`, a copy of the cookie is still valid.
   */
  readonly store?: RecordStore | undefined;
  /**
   * Encrypts the cookie, or with a store its records (AES-256-GCM). Default false: the cookie is signed, but
   * clients can read it.
   */
  readonly encrypt?: boolean | undefined;
}

const YEAR_SECONDS = 31_536_000;

/** Adds a session to every request. */
export class SessionMiddleware implements Middleware {
  readonly kind = 'session';
  readonly secrets: readonly string[] | undefined;
  readonly #own: Keyring | undefined;
  readonly #cookie: KeptCookie;
  readonly #store: RecordStore | undefined;
  readonly #options: Pick<SessionDeps, 'maxAgeSeconds' | 'absoluteSeconds' | 'isSealed'>;
  readonly #application = new OneApplication();
  #ring: Keyring | undefined;
  /** Set when the application is compiled. */
  #keeper!: SessionKeeper;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_COOKIE`, `E_SECRET_WEAK`, `E_SECRET_FORM` */
  constructor(options: SessionOptions = {}) {
    const owner = 'SessionMiddleware';
    const read = readOptions(owner, options, {
      secrets: given<Secrets>('a string or a list of strings', (value) =>
        [value].flat().every((secret) => typeof secret === 'string'),
      ),
      maxAgeSeconds: given<number>(`an integer 1 … ${YEAR_SECONDS}`, isLifetime),
      absoluteSeconds: given<number>(`an integer 1 … ${YEAR_SECONDS}`, isLifetime),
      cookie: given<SessionCookieOptions>('an object', isObject),
      store: given<RecordStore>('a record store', isRecordStore),
      encrypt: bool(false),
    });
    const { absoluteSeconds = 2_592_000 } = read;
    const { maxAgeSeconds = Math.min(604_800, absoluteSeconds) } = read;
    if (maxAgeSeconds > absoluteSeconds)
      throw new SvcError('E_OPTION_RANGE', [
        owner,
        'maxAgeSeconds',
        `must be at most absoluteSeconds, which is ${absoluteSeconds}`,
        String(maxAgeSeconds),
      ]);
    noteSecrets('SessionMiddleware', read.secrets);
    this.#own = read.secrets === undefined ? undefined : Keyring.of(read.secrets);
    this.secrets = this.#own === undefined ? ['authSecret'] : undefined;
    this.#cookie = new KeptCookie(`${owner} cookie`, 'svc_session', read.cookie);
    this.#store = read.store;
    this.#options = { maxAgeSeconds, absoluteSeconds, isSealed: read.encrypt };
  }

  /** Keys for sessions, and for values that belong to a session. Undefined without a secret. @internal */
  get ring(): Keyring | undefined {
    return this.#ring;
  }

  /** Name of the cookie in this environment. @internal */
  cookieNameIn(env: Env): string {
    return env === 'production' ? this.#cookie.secureName : this.#cookie.plainName;
  }

  *compile(view: CompiledView): Generator<Omit<Finding, 'place'>> {
    const subject = 'middleware session';
    const stranger = this.#application.claim(subject, view);
    if (stranger !== undefined) return yield stranger;
    const first = view.middleware.find((layer) => layer.kind === 'session');
    if (first !== this) {
      yield {
        rule: 'SVC121',
        severity: 'error',
        subject,
        message:
          'another session middleware is registered before this one, which would hide the sessions of the other',
        remedy: 'Use one session middleware for a route: for the whole application, or for its router',
      };
    }
    yield* this.#cookie.findings(subject, view.env);
    if (this.#store instanceof MemoryRecordStore && isServedByMany(view)) {
      yield {
        rule: 'SVC403',
        severity: 'warning',
        subject,
        message:
          'the sessions are in the memory of one process: the next request of a visitor may reach another process, which does not have them',
        remedy:
          'Remove the store to keep sessions in signed cookies, or use one that all processes share: new DatabaseRecordStore(db)',
      };
    }
    if (this.#own !== undefined && this.#own.sharesWith(ringOf(view))) {
      yield {
        rule: 'SVC205',
        severity: 'warning',
        subject,
        message:
          'the session secret is the authSecret of the application, so a leak of one is a leak of both',
        remedy: 'Remove secrets to derive the keys from authSecret, or set a different secret',
      };
    }
    const ring = (this.#ring = this.#own ?? ringOf(view));
    if (ring === undefined) return; // the secret is missing, which rule SVC205 reports
    const deps = { services: view.services, ring, cookie: this.#cookie, ...this.#options };
    this.#keeper = this.#store === undefined ? new CookieKeeper(deps) : new StoreKeeper(deps, this.#store);
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const session = this.#keeper.open(req);
    return isThenable(session)
      ? session.then((opened) => this.#pass(opened, req, next))
      : this.#pass(session, req, next);
  }

  #pass(session: RequestSession, req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    req.state.set(SESSION, session);
    const response = next();
    return isThenable(response)
      ? response.then((answer) => this.#keep(session, req, answer))
      : this.#keep(session, req, response);
  }

  #keep(session: RequestSession, req: HttpRequest, response: HttpResponse): Awaitable<HttpResponse> {
    session.close();
    const kept = session.isRead ? this.#keeper.keep(session, req, response) : undefined;
    return isThenable(kept) ? kept.then(() => seen(session, response)) : seen(session, response);
  }
}

/** Sets `Vary` and `Cache-Control` of a response that depends on the session. */
function seen(session: RequestSession, response: HttpResponse): HttpResponse {
  if (session.isRead) response.headers.vary('Cookie');
  if (response.headers.has('Set-Cookie')) keepPrivate(response.headers, 'private');
  return response;
}

/** Keys made of the application's secret; undefined without a secret. @internal */
export function ringOf(view: CompiledView): Keyring | undefined {
  const secret = view.config('authSecret');
  return secret === undefined || secret === null || secret === ''
    ? undefined
    : Keyring.of(authSecrets(view.services.config));
}

function isLifetime(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= YEAR_SECONDS;
}

function isRecordStore(value: unknown): boolean {
  return (
    isObject(value) &&
    ['get', 'set', 'add', 'replace', 'delete'].every(
      (name) => typeof (value as Record<string, unknown>)[name] === 'function',
    )
  );
}
