/**
 * Session middleware: provides `req.session`, kept in a signed cookie or in a store (keepers.ts). The methods
 * of the session are in values.ts.
 *
 * A session is saved before the header of the response is sent, even for an error. After that, changes throw
 * an error. A session in a cookie is parsed only if a handler uses it.
 *
 * A response that depends on the session has `Vary: Cookie`. A response that sets a cookie is not stored in
 * shared caches.
 */
import { Keyring, authSecrets } from '../../crypto/keys.ts';
import { bool, given, isObject, optionalInt, readOptions, outOfRange } from '../../base/options.ts';
import { MemoryRecordStore } from '../../cache/stores.ts';
import { isThenable, whenReady } from '../../base/promises.ts';
import { noteSecrets } from '../../base/used-secrets.ts';
import { OneApplication } from '../pipeline.ts';
import { isServedByMany } from '../../base/config.ts';
import { SecurityLog } from '../security-log.ts';
import { CookieDefinition, keepPrivate } from './cookie.ts';
import { CookieKeeper, StoreKeeper } from './keepers.ts';
import { SESSION, loginAuthority } from '../state.ts';
import type { Env } from '../../base/config.ts';
import type { Finding } from '../../base/findings.ts';
import type { Secrets } from '../../crypto/keys.ts';
import type { RecordStore } from '../../cache/stores.ts';
import type { Awaitable, CompiledView, HttpRequest, Middleware, Next } from '../contracts.ts';
import { fieldOf, type HttpResponse } from '../response.ts';
import type { LoginAuthority } from '../state.ts';
import type { SessionCookieOptions } from './cookie.ts';
import type { SessionDeps, SessionKeeper } from './keepers.ts';
import type { RequestSession } from './values.ts';

export { sessionKey } from './values.ts';
export type { SessionCookieOptions } from './cookie.ts';

/** Options of {@link SessionMiddleware}. An option that is `undefined` has its default. */
export interface SessionOptions {
  /**
   * Secret of at least 32 bytes that protects the sessions, or a list of secrets. The first secret protects
   * new sessions. Sessions that another secret protects stay valid. Default: the application's `authSecret`.
   */
  readonly secrets?: Secrets | undefined;
  /**
   * Idle time in seconds after which a session ends, 1 ... 31_536_000. Default 604_800 (seven days), or
   * `absoluteSeconds` if that is less.
   */
  readonly maxAgeSeconds?: number | undefined;
  /**
   * Maximum lifetime of a session in seconds, even if it is in use, 1 ... 31_536_000. Default 2_592_000,
   * thirty days. `regenerate()` starts a new lifetime.
   */
  readonly absoluteSeconds?: number | undefined;
  /** `name`, `secure`, `sameSite`, `path` and `domain` of the cookie. Scripts can never read it (`HttpOnly`). */
  readonly cookie?: SessionCookieOptions | undefined;
  /**
   * Store for the sessions; the cookie then contains only a random id. Default: the cookie contains the
   * session. A session in a cookie ends only when it expires: after `destroy()`, a copy of the cookie is
   * still valid.
   */
  readonly store?: RecordStore | undefined;
  /**
   * Encrypts the sessions (AES-256-GCM), in the cookie or in the records of the store. Default false: a
   * cookie is signed, but clients can read it.
   */
  readonly encrypt?: boolean | undefined;
}

const YEAR_SECONDS = 31_536_000;

/** Adds a session to every request, as `req.session`. */
export class SessionMiddleware implements Middleware {
  readonly kind = 'session';
  readonly secrets: readonly string[] | undefined;
  readonly #own: Keyring | undefined;
  readonly #cookie: CookieDefinition;
  readonly #store: RecordStore | undefined;
  readonly #options: Pick<SessionDeps, 'maxAgeSeconds' | 'absoluteSeconds' | 'isSealed'>;
  readonly #application = new OneApplication();
  #ring: Keyring | undefined;
  #keeper!: SessionKeeper;
  #audit!: SecurityLog;
  /** Null without a login plugin; undefined before the first request. */
  #authority: LoginAuthority | null | undefined;

  /**
   * @throws SvcError `E_COOKIE` for an invalid `cookie`, `E_SECRET_WEAK` or `E_SECRET_FORM` for an unusable
   *   secret; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for other invalid options
   */
  constructor(options: SessionOptions = {}) {
    const owner = 'SessionMiddleware';
    const read = readOptions(owner, options, {
      secrets: given<Secrets>('a string or a list of strings', (value) =>
        [value].flat().every((secret) => typeof secret === 'string'),
      ),
      maxAgeSeconds: optionalInt(1, YEAR_SECONDS),
      absoluteSeconds: optionalInt(1, YEAR_SECONDS),
      cookie: given<SessionCookieOptions>('an object', isObject),
      store: given<RecordStore>('a record store', isRecordStore),
      encrypt: bool(false),
    });
    const { absoluteSeconds = 2_592_000 } = read;
    const { maxAgeSeconds = Math.min(604_800, absoluteSeconds) } = read;
    if (maxAgeSeconds > absoluteSeconds)
      throw outOfRange(
        owner,
        'maxAgeSeconds',
        `must not exceed the option absoluteSeconds, which is ${absoluteSeconds}`,
        String(maxAgeSeconds),
      );
    noteSecrets('SessionMiddleware', read.secrets);
    this.#own = read.secrets === undefined ? undefined : Keyring.of(read.secrets);
    this.secrets = this.#own === undefined ? ['authSecret'] : undefined;
    this.#cookie = new CookieDefinition(`${owner} cookie`, 'svc_session', read.cookie);
    this.#store = read.store;
    this.#options = { maxAgeSeconds, absoluteSeconds, isSealed: read.encrypt };
  }

  /**
   * The secrets of this middleware. The keys that protect sessions and CSRF tokens are derived from them.
   * Undefined if no secret is set. @internal
   */
  get ring(): Keyring | undefined {
    return this.#ring;
  }

  /** Returns the name of the session cookie in this environment. @internal */
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
          'two session middlewares are registered, and the second would replace the session that the first has made',
        remedy:
          'Register only one session middleware for each route: for the whole application, or for a router',
      };
    }
    yield* this.#cookie.findings(subject, view.env);
    if (this.#store instanceof MemoryRecordStore && isServedByMany(view)) {
      yield {
        rule: 'SVC403',
        severity: 'warning',
        subject,
        message:
          'the sessions are in the memory of one process: the next request of a visitor may reach another process, which does not know the session',
        remedy:
          'Remove the option "store" to keep sessions in signed cookies, or use a store that all processes share: new DatabaseRecordStore(plugin), where plugin is the DatabasePlugin',
      };
    }
    if (this.#own !== undefined && this.#own.sharesWith(ringOf(view))) {
      yield {
        rule: 'SVC205',
        severity: 'warning',
        subject,
        message:
          'the option "secrets" contains the authSecret of the application, so one leaked secret endangers both the sessions and everything else that authSecret protects',
        remedy:
          'Remove the option "secrets", so that separate keys are derived from authSecret, or use a different secret',
      };
    }
    const ring = (this.#ring = this.#own ?? ringOf(view));
    if (ring === undefined) return; // no secret is set, which `svc check` reports by rule SVC205
    this.#audit = SecurityLog.of(view.services);
    const deps = { services: view.services, ring, cookie: this.#cookie, ...this.#options };
    this.#keeper = this.#store === undefined ? new CookieKeeper(deps) : new StoreKeeper(deps, this.#store);
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    return whenReady(this.#keeper.open(req), (session) => this.#admit(session, req, next));
  }

  /** Ends the session if it names a login that has ended. `session.get()` cannot wait, so this happens first. */
  #admit(session: RequestSession, req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    if (this.#authority === undefined)
      this.#authority = req.state.has(loginAuthority) ? req.state.get(loginAuthority) : null;
    const authority = this.#authority;
    if (authority === null || fieldOf(req, 'cookie') === undefined) return this.#pass(session, req, next);
    const values = session.peek();
    const isAdmitted = values === undefined || authority.admits(values, req);
    const decide = (isLive: boolean): Awaitable<HttpResponse> => {
      if (!isLive) {
        session.refuse();
        this.#audit.refused('session_rejected', req, { reason: 'login_ended' });
      }
      return this.#pass(session, req, next);
    };
    if (!isThenable(isAdmitted)) return decide(isAdmitted);
    return isAdmitted.then(decide, (error: unknown) => {
      session.fail(error);
      return this.#pass(session, req, next);
    });
  }

  #pass(session: RequestSession, req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    req.state.set(SESSION, session);
    return whenReady(next(), (response) => this.#keep(session, req, response));
  }

  #keep(session: RequestSession, req: HttpRequest, response: HttpResponse): Awaitable<HttpResponse> {
    session.close();
    const kept = session.isRead || session.isRefused ? this.#keeper.keep(session, req, response) : undefined;
    return whenReady(kept, () => {
      if (session.isUsed) response.headers.vary('Cookie');
      if (response.headers.has('Set-Cookie')) keepPrivate(response.headers, 'private');
      return response;
    });
  }
}

/** Returns the secrets in the application's `authSecret`; undefined if it is not set. @internal */
export function ringOf(view: CompiledView): Keyring | undefined {
  const secret = view.config('authSecret');
  return secret === undefined || secret === null || secret === ''
    ? undefined
    : Keyring.of(authSecrets(view.services.config));
}

function isRecordStore(value: unknown): boolean {
  return (
    isObject(value) &&
    ['get', 'set', 'add', 'replace', 'delete'].every(
      (name) => typeof (value as Record<string, unknown>)[name] === 'function',
    )
  );
}
