/**
 * LISTEN and NOTIFY on a separate connection. The connection is checked twice a minute, and replaced when the
 * server does not answer.
 *
 * LISTEN is sent for the first listener of each channel. After a lost connection, the next connection sends
 * LISTEN for all channels. Then `onReconnect` of each listener is called, because notifications may have been
 * lost.
 */
import { Turns } from '../../base/promises.ts';
import { Backoff } from '../wire/backoff.ts';
import { quotedName } from '../dialects.ts';
import { ConnectionLost } from '../errors.ts';
import { limitIn } from '../limits.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit, ListenOptions, Notified } from '../driver.ts';
import type { Connect } from '../wire/pool-settings.ts';
import type { PostgresSession } from './url.ts';

const KEEPALIVE_MS = 30_000;
const ANSWER_MS = 10_000;

interface ListenerDeps {
  readonly connect: Connect<PostgresSession>;
  readonly connectTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger | undefined;
}

interface Subscription {
  readonly channel: string;
  readonly notified: Notified;
  readonly onReconnect: (() => unknown) | undefined;
}

export class PostgresListener {
  readonly #deps: ListenerDeps;
  readonly #channels = new Map<string, Set<Subscription>>();
  readonly #abort = new AbortController();
  #session: PostgresSession | undefined;
  /** Connecting, LISTEN and UNLISTEN run one after another. */
  readonly #turns = new Turns();
  #keepalive: Disposable | undefined;
  #isReconnecting = false;

  constructor(deps: ListenerDeps) {
    this.#deps = deps;
  }

  /**
   * Adds a listener to a channel. Resolves when the server has confirmed LISTEN. Disposing of the result
   * removes the listener.
   */
  async listen(
    channel: string,
    notified: Notified,
    { onReconnect }: ListenOptions,
  ): Promise<AsyncDisposable> {
    quotedName('postgres', channel); // throws for an invalid name before anything is sent
    const subscription: Subscription = { channel, notified, onReconnect };
    await this.#turns.take(() => this.#add(subscription));
    return { [Symbol.asyncDispose]: () => this.#remove(subscription) };
  }

  async close(): Promise<void> {
    this.#abort.abort(new ConnectionLost('The database is closed'));
    this.#channels.clear();
    await this.#turns.settled();
    await this.#end();
  }

  async #add(subscription: Subscription): Promise<void> {
    const { channel } = subscription;
    const session = this.#session ?? (await this.#connected());
    if (!this.#channels.has(channel)) {
      await session.script(`listen ${quotedName('postgres', channel)}`, this.#within(ANSWER_MS));
      this.#assertCurrent(session);
      this.#channels.set(channel, new Set());
    }
    this.#channels.get(channel)!.add(subscription);
  }

  /**
   * Removes a listener. Sends UNLISTEN after the last listener of a channel, and closes the connection after
   * the last listener of all channels.
   */
  async #remove(subscription: Subscription): Promise<void> {
    const { channel } = subscription;
    const known = this.#channels.get(channel);
    if (known?.delete(subscription) !== true || known.size > 0) return;
    this.#channels.delete(channel);
    if (this.#session !== undefined) await this.#turns.take(() => this.#unlisten(channel));
  }

  async #unlisten(channel: string): Promise<void> {
    if (this.#channels.size === 0) return this.#end();
    // a new listener of the channel was added meanwhile
    if (this.#channels.has(channel)) return;
    await guarded(
      () => this.#session?.script(`unlisten ${quotedName('postgres', channel)}`, this.#within(ANSWER_MS)),
      // ignore the error: UNLISTEN fails if the connection is lost, and then LISTEN has ended, too
      () => undefined,
    );
  }

  /** Opens a connection, and sends LISTEN for all channels on it. */
  async #connected(): Promise<PostgresSession> {
    const session = await this.#deps.connect(this.#within(this.#deps.connectTimeoutMs));
    if (this.#abort.signal.aborted) {
      session.destroy();
      throw this.#abort.signal.reason;
    }
    session.onNotification = (channel, payload, processId) => this.#notify(channel, payload, processId);
    session.onLost = (error) => this.#lost(session, error);
    this.#session = session;
    this.#askLater(session);
    try {
      for (const channel of this.#channels.keys())
        await session.script(`listen ${quotedName('postgres', channel)}`, this.#within(ANSWER_MS));
      this.#assertCurrent(session);
      return session;
    } catch (error) {
      this.#session = undefined;
      session.destroy();
      throw error;
    }
  }

  /**
   * Throws if `session` is no longer the current connection, because it was lost just after its last reply.
   */
  #assertCurrent(session: PostgresSession): void {
    if (this.#session !== session)
      throw new ConnectionLost(
        'The connection was lost just after the server confirmed LISTEN: call listen() again',
      );
  }

  #notify(channel: string, payload: string, processId: number): void {
    for (const { notified } of this.#channels.get(channel) ?? []) {
      void guarded(
        () => notified(payload, { channel, processId }),
        (error) => this.#deps.log?.error('notification_failed', error, { channel }),
      );
    }
  }

  #lost(session: PostgresSession, error: Error): void {
    if (this.#session !== session) return;
    this.#keepalive?.[Symbol.dispose]();
    this.#session = undefined;
    if (this.#channels.size === 0 || this.#abort.signal.aborted || this.#isReconnecting) return;
    this.#deps.log?.warn('listening_interrupted', { reason: error });
    this.#isReconnecting = true;
    void this.#reconnect()
      .catch(() => undefined)
      .finally(() => {
        this.#isReconnecting = false;
      });
  }

  /**
   * Reconnects, and tries again until an attempt succeeds. Between two attempts, listeners can be added and
   * removed.
   */
  async #reconnect(): Promise<void> {
    const { clock, log } = this.#deps;
    const backoff = new Backoff(Math.random);
    const interrupted = [...this.#channels.values()].flatMap((subscriptions) => [...subscriptions]);
    for (let isBack = false; !isBack;) {
      const startedMs = clock.monotonicMs();
      try {
        await this.#turns.take(async () => {
          if (this.#channels.size > 0 && this.#session === undefined) await this.#connected();
          // close the connection if all listeners were removed meanwhile
          if (this.#channels.size === 0) await this.#end();
        });
        isBack = true;
      } catch {
        backoff.fail(startedMs, clock.monotonicMs());
        await clock.sleep(Math.ceil(backoff.waitMs(clock.monotonicMs())), this.#abort.signal);
      }
    }
    if (this.#session === undefined) return;
    log?.info('listening_again', { failures: backoff.failures });
    for (const subscription of interrupted) {
      const { channel, onReconnect } = subscription;
      if (this.#channels.get(channel)?.has(subscription) !== true) continue;
      void guarded(
        () => onReconnect?.(),
        (error) => log?.error('notification_failed', error, { channel }),
      );
    }
  }

  #askLater(session: PostgresSession): void {
    this.#keepalive?.[Symbol.dispose]();
    this.#keepalive = this.#deps.clock.after(KEEPALIVE_MS, () => {
      void session.ping(this.#within(ANSWER_MS)).then(
        () => {
          if (this.#session === session) this.#askLater(session);
        },
        (error: unknown) => {
          session.destroy();
          this.#lost(
            session,
            error instanceof Error
              ? error
              : new ConnectionLost('The server did not reply to a ping on the connection for LISTEN'),
          );
        },
      );
    });
  }

  async #end(): Promise<void> {
    this.#keepalive?.[Symbol.dispose]();
    const session = this.#session;
    this.#session = undefined;
    await session?.close();
  }

  #within(timeoutMs: number): Limit {
    return limitIn(timeoutMs, this.#deps.clock, this.#abort.signal);
  }
}

/**
 * Runs `work`, and passes its error to `failed`. So an error of a listener does not affect the connection or
 * other listeners.
 */
async function guarded(work: () => unknown, failed: (error: unknown) => void): Promise<void> {
  try {
    await work();
  } catch (error) {
    failed(error);
  }
}
