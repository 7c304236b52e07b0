/**
 * Subscriptions to Redis channels on a separate connection. The connection is checked twice a minute, and
 * replaced when the server does not answer.
 *
 * SUBSCRIBE is sent for the first subscriber of each channel. After a lost connection, the next connection
 * sends SUBSCRIBE for all channels. Then `onReconnect` of each subscription is called, because messages may
 * have been lost.
 */
import { Turns } from '../../base/promises.ts';
import { ConnectionLost } from '../errors.ts';
import { limitIn } from '../limits.ts';
import { RedisLink, type RedisEventKind } from './link.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit } from '../driver.ts';
import type { RedisConnectDeps } from './connect.ts';
import type { RedisConnection } from './connection.ts';
import type { RespValue } from './resp.ts';

/** Handler of messages. Each message is a copy of the received bytes. */
export type RedisSubscriberFunction = (message: Uint8Array, channel: string) => unknown;

/** Options of a subscription. */
export interface RedisSubscribeOptions {
  /** Called after the client has reconnected. Messages that were published in the meantime are lost. */
  readonly onReconnect?: (() => unknown) | undefined;
}

interface RedisSubscriberDeps {
  readonly options: RedisConnectDeps;
  readonly timeoutMs: number;
  readonly log: () => Logger | undefined;
  readonly onEvent: (kind: RedisEventKind, error?: unknown) => void;
}

const KEEPALIVE_MS = 30_000;
const ANSWER_MS = 10_000;

interface Subscription {
  readonly fn: RedisSubscriberFunction;
  readonly onReconnect: (() => unknown) | undefined;
}

export class RedisSubscriber {
  readonly #deps: RedisSubscriberDeps;
  readonly #channels = new Map<string, Set<Subscription>>();
  #link: RedisLink | undefined;
  #hadConnection = false;
  #keepalive: Disposable | undefined;
  readonly #turns = new Turns();
  #isClosed = false;

  constructor(deps: RedisSubscriberDeps) {
    this.#deps = deps;
  }

  /**
   * Subscribes to a channel. Resolves when the server has confirmed the subscription. If `mayWait` is true,
   * also resolves if the server is not reachable. Then the next connection subscribes to the channel.
   */
  async subscribe(
    channel: string,
    fn: RedisSubscriberFunction,
    { onReconnect }: RedisSubscribeOptions,
    mayWait: boolean = false,
  ): Promise<AsyncDisposable> {
    const subscription: Subscription = { fn, onReconnect };
    await this.#turns.take(() => this.#add(channel, subscription, mayWait));
    return {
      [Symbol.asyncDispose]: () => this.#turns.take(() => this.#remove(channel, subscription)),
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#channels.clear();
    this.#keepalive?.[Symbol.dispose]();
    await this.#link?.close();
    await this.#turns.settled();
  }

  async #add(channel: string, subscription: Subscription, mayWait: boolean): Promise<void> {
    if (this.#isClosed) throw new ConnectionLost('The Redis client is closed', { sqlstate: '08003' });
    const known = this.#channels.get(channel);
    if (known !== undefined) return void known.add(subscription);
    // add the channel first, so that a connection that opens meanwhile subscribes to it
    this.#channels.set(channel, new Set([subscription]));
    try {
      const { options, onEvent, timeoutMs } = this.#deps;
      this.#link ??= new RedisLink({ options, onEvent, prepare: (connection) => this.#prepare(connection) });
      const connection = await this.#link.connected(this.#within(timeoutMs));
      // send SUBSCRIBE even if a new connection has just sent it: a second one does no harm
      await connection.send(['SUBSCRIBE', channel], this.#within(ANSWER_MS));
    } catch (error) {
      if (mayWait) return;
      this.#channels.delete(channel);
      throw error;
    }
  }

  async #remove(channel: string, subscription: Subscription): Promise<void> {
    const known = this.#channels.get(channel);
    if (known?.delete(subscription) !== true || known.size > 0) return;
    this.#channels.delete(channel);
    if (this.#channels.size > 0)
      return void (await this.#link?.connection
        ?.send(['UNSUBSCRIBE', channel], this.#within(ANSWER_MS))
        .catch(() => undefined)); // ignore the error: a lost connection has no subscriptions
    const link = this.#link;
    this.#link = undefined;
    this.#hadConnection = false;
    this.#keepalive?.[Symbol.dispose]();
    await link?.close();
  }

  async #prepare(connection: RedisConnection): Promise<void> {
    connection.onPush = (value, isPush) => this.#onPush(value, isPush);
    await Promise.all(
      [...this.#channels.keys()].map((channel) =>
        connection.send(['SUBSCRIBE', channel], this.#within(ANSWER_MS)),
      ),
    );
    this.#askLater(connection);
    if (this.#hadConnection)
      for (const [channel, subscriptions] of this.#channels)
        for (const { onReconnect } of subscriptions) void this.#guarded(channel, () => onReconnect?.());
    this.#hadConnection = true;
  }

  /**
   * Delivers messages to the subscribers of a channel. Returns false for a reply, such as the confirmation of
   * SUBSCRIBE. RESP2 sends messages as arrays, and RESP3 as pushes with the same elements.
   */
  #onPush(value: RespValue, isPush: boolean): boolean {
    if (!Array.isArray(value)) return false;
    const kind = String(value[0]);
    if (kind !== 'message') return isPush && kind !== 'subscribe' && kind !== 'unsubscribe';
    const channel = String(value[1]);
    const message = value[2];
    if (!Buffer.isBuffer(message)) return true;
    // copy the bytes, because they may share the memory of a larger buffer
    const bytes = new Uint8Array(message);
    for (const { fn } of this.#channels.get(channel) ?? [])
      void this.#guarded(channel, () => fn(bytes, channel));
    return true;
  }

  #askLater(connection: RedisConnection): void {
    const { clock } = this.#deps.options;
    this.#keepalive?.[Symbol.dispose]();
    this.#keepalive = clock.after(KEEPALIVE_MS, () => {
      if (connection.isEnded) return;
      connection.send(['PING'], this.#within(ANSWER_MS)).then(
        () => this.#askLater(connection),
        (error: unknown) => this.#link?.evict(connection, error),
      );
    });
  }

  async #guarded(channel: string, work: () => unknown): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#deps.log()?.error('subscriber_failed', error, { channel });
    }
  }

  #within(timeoutMs: number): Limit {
    return limitIn(timeoutMs, this.#deps.options.clock);
  }
}
