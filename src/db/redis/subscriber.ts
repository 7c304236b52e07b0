/**
 * What is published to channels of Redis: a connection of its own, that is asked twice a minute whether it still answers, and made
 * anew when not.
 *
 *   subscribe(channel, fn) -> SUBSCRIBE channel            the first of a channel
 *   connection lost -> all of them again -> onReconnect of each: what was published in between is lost
 */
import { ConnectionLost } from '../errors.ts';
import { RedisLink, type RedisEventKind } from './link.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit } from '../driver.ts';
import type { RedisConnectDeps } from './connect.ts';
import type { RedisConnection } from './connection.ts';
import type { RespValue } from './resp.ts';

/** Gets what is published: bytes of its own. */
export type RedisSubscriberFunction = (message: Uint8Array, channel: string) => unknown;

/** How a channel is subscribed to. */
export interface RedisSubscribeOptions {
  /** Told when the connection was lost and is there again: what was published in between is lost. */
  readonly onReconnect?: (() => unknown) | undefined;
}

/** What a subscriber is made from. */
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

/** The channels of one client. */
export class RedisSubscriber {
  readonly #deps: RedisSubscriberDeps;
  readonly #channels = new Map<string, Set<Subscription>>();
  #link: RedisLink | undefined;
  #hadConnection = false;
  #keepalive: Disposable | undefined;
  /** One after the other. */
  #work: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(deps: RedisSubscriberDeps) {
    this.#deps = deps;
  }

  /** Resolves when the server knows of it. While there is no connection it is kept all the same if `mayWait`, and subscribed to later. */
  async subscribe(
    channel: string,
    fn: RedisSubscriberFunction,
    { onReconnect }: RedisSubscribeOptions,
    mayWait: boolean = false,
  ): Promise<AsyncDisposable> {
    const subscription: Subscription = { fn, onReconnect };
    await this.#inTurn(() => this.#add(channel, subscription, mayWait));
    let isOver = false;
    return {
      [Symbol.asyncDispose]: async () => {
        if (isOver) return;
        isOver = true;
        await this.#inTurn(() => this.#remove(channel, subscription));
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#channels.clear();
    this.#keepalive?.[Symbol.dispose]();
    await this.#link?.close();
    await this.#work;
  }

  async #add(channel: string, subscription: Subscription, mayWait: boolean): Promise<void> {
    if (this.#isClosed) throw new ConnectionLost('The client is closed', { sqlstate: '08003' });
    const known = this.#channels.get(channel);
    if (known !== undefined) return void known.add(subscription);
    this.#channels.set(channel, new Set([subscription])); // a connection that comes meanwhile subscribes to it
    try {
      const connection = await this.#linked().connected(this.#within(this.#deps.timeoutMs));
      await connection.send(['SUBSCRIBE', channel], this.#within(ANSWER_MS)); // once more does no harm, and one that was being prepared may not have known of it
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
        .catch(() => undefined)); // a lost one hears nothing
    const link = this.#link;
    this.#link = undefined;
    this.#hadConnection = false;
    this.#keepalive?.[Symbol.dispose]();
    await link?.close();
  }

  #linked(): RedisLink {
    const { options, onEvent } = this.#deps;
    this.#link ??= new RedisLink({ options, onEvent, prepare: (connection) => this.#prepare(connection) });
    return this.#link;
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

  /** RESP2 has messages as lists, RESP3 as pushes; either answers SUBSCRIBE by what it would push. */
  #onPush(value: RespValue, isPush: boolean): boolean {
    if (!Array.isArray(value)) return false;
    const kind = String(value[0]);
    if (kind !== 'message') return isPush && kind !== 'subscribe' && kind !== 'unsubscribe';
    const channel = String(value[1]);
    const message = value[2];
    if (!Buffer.isBuffer(message)) return true;
    const bytes = new Uint8Array(message); // a copy: what it lies in is larger
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

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work.then(work, work);
    this.#work = done.catch(() => undefined);
    return done;
  }

  #within(timeoutMs: number): Limit {
    return { signal: undefined, deadlineMs: this.#deps.options.clock.monotonicMs() + timeoutMs, timeoutMs };
  }
}
