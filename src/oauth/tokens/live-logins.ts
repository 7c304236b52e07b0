/**
 * Knows which logins live. Sessions, WebSockets and event streams that name a login end with it.
 *
 * A login is looked up at most once in five seconds, and look-ups of one moment are one statement. While
 * connections are open, their logins are looked up again every five seconds.
 *
 * Each store method that ends logins is called through {@link ReportedEnds}. So this process knows the
 * end of a login at once, and other processes know it within five seconds.
 */
import { whenReady } from '../../base/promises.ts';
import { isRecord, remember } from '../../base/options.ts';
import { Heartbeat } from '../../http/streaming/heartbeat.ts';
import { currentLogin, currentUser } from '../login-state.ts';
import { RECHECK_MS } from './access.ts';
import type { Clock } from '../../base/clock.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { Awaitable, HttpRequest } from '../../http/contracts.ts';
import type { LoginAuthority } from '../../http/state.ts';
import type { Beating } from '../../http/streaming/heartbeat.ts';
import type { Logger } from '../../observability/log.ts';
import type { ValidAfterGate } from './access.ts';
import type { LoginEnds, LoginRow, LoginStore, ProviderIdentity, RevokeReason } from './store.ts';

interface LiveLoginsDeps {
  readonly store: LoginStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** Undefined without the option `enforceValidAfter`. */
  readonly gate: ValidAfterGate | undefined;
}

/** Result of a look-up. `sub` is the user of the login; undefined if the login has ended. */
interface Known {
  readonly sub: string | undefined;
  /** Monotonic time in milliseconds after which the login is looked up again. */
  readonly deadlineMs: number;
}

interface Batch {
  readonly ids: Set<string>;
  /** Users of those logins that live, by the ids of the logins. */
  readonly users: Promise<ReadonlyMap<string, string>>;
}

/** Credentials that have authenticated a request. */
interface Credentials {
  session?: { readonly id: string; readonly sub: string };
  token?: Claims;
}

/** An open connection, and the credentials of the request that opened it. */
interface Connection {
  readonly credentials: Credentials;
  readonly end: (reason: string) => void;
}

const MAX_LOGINS = 10_000;
const ENDED = 'the login has ended';
const EXPIRED = 'the access token has expired';

export class LiveLogins implements LoginAuthority, Beating {
  readonly #deps: LiveLoginsDeps;
  /** Results by the id of the login, in the order in which they were stored. */
  readonly #known = new Map<string, Known>();
  readonly #asking = new Map<string, Promise<string | undefined>>();
  #batch: Batch | undefined;
  readonly #credentials = new WeakMap<object, Credentials>();
  readonly #connections = new Set<Connection>();
  #stopBeats: (() => void) | undefined;

  constructor(deps: LiveLoginsDeps) {
    this.#deps = deps;
  }

  /** A session that names a user without a login of this user was not made by this plugin, and has ended. */
  admits(values: ReadonlyMap<string, unknown>, req: HttpRequest): Awaitable<boolean> {
    const user = values.get(currentUser.name);
    const login = values.get(currentLogin.name);
    if (user === undefined && login === undefined) return true;
    const id = isRecord(login) ? login['id'] : undefined;
    if (typeof user !== 'string' || typeof id !== 'string') return false;
    return whenReady(this.#userOf(id), (sub) => {
      if (sub === user) this.#of(req).session = { id, sub };
      return sub === user;
    });
  }

  noteToken(claims: Claims, req: HttpRequest): void {
    this.#of(req).token = claims;
  }

  watch(req: object, end: (reason: string) => void): (() => void) | undefined {
    const credentials = this.#credentials.get(req);
    if (credentials === undefined) return undefined;
    const connection = { credentials, end };
    this.#connections.add(connection);
    this.#stopBeats ??= Heartbeat.join(this.#deps.clock, RECHECK_MS, this);
    // the login may have ended while the request was handled
    this.#check([connection], false);
    return () => this.#leave(connection);
  }

  /** Looks up the logins of all connections again. */
  beat(): void {
    this.#check([...this.#connections], true);
  }

  ended(id: string): void {
    this.#asking.delete(id);
    this.#keep(id, undefined);
    this.#checkWhere(({ session, token }) => session?.id === id || token?.['sid'] === id);
  }

  /** Called when all logins of a user have ended, at the time `now` in microseconds since the epoch. */
  endedAll(sub: string, now: number): void {
    this.#deps.gate?.remember(sub, now);
    this.#asking.clear();
    for (const [id, known] of [...this.#known]) if (known.sub === sub) this.#keep(id, undefined);
    this.#checkWhere(({ session, token }) => session?.sub === sub || token?.sub === sub);
  }

  /** Forgets all results. Called when the store has failed, so that logins may have ended or not. */
  forget(): void {
    this.#asking.clear();
    this.#known.clear();
  }

  #of(req: object): Credentials {
    let credentials = this.#credentials.get(req);
    if (credentials === undefined) this.#credentials.set(req, (credentials = {}));
    return credentials;
  }

  /** Returns the user of a login; undefined if the login has ended. `isNew` ignores an earlier result. */
  #userOf(id: string, isNew = false): Awaitable<string | undefined> {
    const known = this.#known.get(id);
    if (!isNew && known !== undefined && known.deadlineMs > this.#deps.clock.monotonicMs()) return known.sub;
    return this.#asking.get(id) ?? this.#ask(id);
  }

  #ask(id: string): Promise<string | undefined> {
    const batch = (this.#batch ??= this.#begin());
    batch.ids.add(id);
    const asked = batch.users
      .then((users) => {
        const sub = users.get(id);
        // if the login has ended meanwhile, the result is out of date
        if (this.#asking.get(id) === asked) this.#keep(id, sub);
        return sub;
      })
      .finally(() => {
        if (this.#asking.get(id) === asked) this.#asking.delete(id);
      });
    this.#asking.set(id, asked);
    return asked;
  }

  #begin(): Batch {
    const ids = new Set<string>();
    const { store, clock } = this.#deps;
    const users = Promise.resolve().then(async () => {
      this.#batch = undefined;
      const rows = await store.liveLogins([...ids], clock.nowMicros());
      return new Map(rows.map(({ id, sub }) => [id, sub]));
    });
    return { ids, users };
  }

  #keep(id: string, sub: string | undefined): void {
    const deadlineMs = this.#deps.clock.monotonicMs() + RECHECK_MS;
    remember(this.#known, MAX_LOGINS, id, { sub, deadlineMs });
  }

  #checkWhere(isMeant: (credentials: Credentials) => boolean): void {
    this.#check(
      [...this.#connections].filter(({ credentials }) => isMeant(credentials)),
      false,
    );
  }

  /** Ends those of the connections whose login has ended. While the store fails, they stay open. */
  #check(connections: readonly Connection[], isNew: boolean): void {
    if (connections.length === 0) return;
    const checks = connections.map(async (connection) => {
      const reason = await this.#reasonToEnd(connection.credentials, isNew);
      if (reason !== undefined && this.#leave(connection)) connection.end(reason);
    });
    Promise.all(checks).catch((error: unknown) => this.#deps.log.error('token_store_failed', error));
  }

  async #reasonToEnd({ session, token }: Credentials, isNew: boolean): Promise<string | undefined> {
    if (session !== undefined && (await this.#userOf(session.id, isNew)) !== session.sub) return ENDED;
    if (token === undefined) return undefined;
    if (token.exp !== undefined && token.exp * 1_000 <= this.#deps.clock.nowMs()) return EXPIRED;
    const id = token['sid'];
    const lives =
      typeof id === 'string'
        ? (await this.#userOf(id, isNew && id !== session?.id)) === token.sub
        : ((await this.#deps.gate?.allows(token)) ?? true);
    return lives ? undefined : ENDED;
  }

  /** Removes a connection. Returns false if it was removed before. */
  #leave(connection: Connection): boolean {
    const isFirst = this.#connections.delete(connection);
    if (this.#connections.size === 0) {
      this.#stopBeats?.();
      this.#stopBeats = undefined;
    }
    return isFirst;
  }
}

/** Ends logins in a store, and reports each end to {@link LiveLogins}. */
export class ReportedEnds implements LoginEnds {
  readonly #store: LoginEnds;
  readonly #live: LiveLogins;

  constructor(store: LoginEnds, live: LiveLogins) {
    this.#store = store;
    this.#live = live;
  }

  async revoke(id: string, reason: RevokeReason, now: number): Promise<boolean> {
    const isEnded = await this.#ending(() => this.#store.revoke(id, reason, now));
    this.#live.ended(id);
    return isEnded;
  }

  async revokeOf(sub: string, id: string, now: number): Promise<boolean> {
    const isEnded = await this.#ending(() => this.#store.revokeOf(sub, id, now));
    if (isEnded) this.#live.ended(id);
    return isEnded;
  }

  async revokeIdentity(identity: ProviderIdentity, now: number): Promise<readonly LoginRow[]> {
    const rows = await this.#ending(() => this.#store.revokeIdentity(identity, now));
    for (const { id } of rows) this.#live.ended(id);
    return rows;
  }

  async revokeAll(sub: string, now: number): Promise<number> {
    const count = await this.#ending(() => this.#store.revokeAll(sub, now));
    this.#live.endedAll(sub, now);
    return count;
  }

  /** Runs a method that ends logins. If it fails, some of the logins may have ended. */
  async #ending<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      this.#live.forget();
      throw error;
    }
  }
}
