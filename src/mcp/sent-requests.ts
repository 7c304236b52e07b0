/** Sends requests to clients with a protocol version before 2026-07-28, and waits for their responses. */
import { randomBytes } from 'node:crypto';
import { HTTPException } from '../base/errors.ts';
import { isRecord } from '../base/options.ts';
import { notification } from './messages.ts';
import type { Clock } from '../base/clock.ts';
import type { JsonObject, RpcResponse } from './messages.ts';
import type { ClientRequest } from './questions.ts';

const MAX_SENT = 1_000;

interface SentRequest extends Omit<ClientRequest, 'key'> {
  /** Further signals that cancel the request: the client has disconnected, or the server stops. */
  readonly ends: readonly AbortSignal[];
  /** Id of the session to which the request belongs. Responses from other sessions are ignored. */
  readonly owner: string;
  /** Name of the client. The number of unanswered requests to one client is limited. */
  readonly client: string;
  send(message: JsonObject): void;
}

export class SentRequests {
  readonly #clock: Clock;
  readonly #shares: Shares;
  readonly #waiting = new Map<unknown, { readonly owner: string; settle(response: RpcResponse): void }>();

  /** `mostOfOne` is the maximum number of requests to one client that have no response yet. */
  constructor(clock: Clock, mostOfOne: number = MAX_SENT) {
    this.#clock = clock;
    this.#shares = new Shares('to', MAX_SENT, mostOfOne);
  }

  /**
   * Sends a request to a client, and returns the result of its response. The request is cancelled if the time
   * runs out or a signal aborts before the response arrives.
   */
  async ask({ owner, client, method, params, timeoutMs, signal, ends, send }: SentRequest): Promise<unknown> {
    const signals = [signal, ...ends];
    for (const each of signals) each.throwIfAborted();
    const problem = this.#shares.take(client);
    if (problem !== undefined) throw new HTTPException(503, problem);
    const id = `svc-${randomBytes(16).toString('hex')}`;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const giveUp = (reason: string, error: unknown): void => {
      send(notification('notifications/cancelled', { requestId: id, reason }));
      reject(error);
    };
    const onAbort = ({ target }: Event): void => giveUp('The call has ended', (target as AbortSignal).reason);
    const timer = this.#clock.after(timeoutMs, () =>
      giveUp('The time to respond is over', unanswered(`within ${timeoutMs} ms`)),
    );
    for (const each of signals) each.addEventListener('abort', onAbort, { once: true });
    this.#waiting.set(id, {
      owner,
      settle: ({ result, error }) => (error === undefined ? resolve(result) : reject(refusal(error))),
    });
    try {
      send({ jsonrpc: '2.0', id, method, params });
      return await promise;
    } finally {
      // not `using`, because Node.js 22 must be able to parse this module: see base/need-node.ts
      timer[Symbol.dispose]();
      this.#waiting.delete(id);
      this.#shares.give(client);
      for (const each of signals) each.removeEventListener('abort', onAbort);
    }
  }

  /** Handles a response. Returns false for an unknown request, or one of another session. */
  receive(owner: string, response: RpcResponse): boolean {
    const waiting = this.#waiting.get(response.id);
    if (waiting?.owner !== owner) return false;
    waiting.settle(response);
    return true;
  }
}

/** Resolves when the signal aborts. */
export function abortOf(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }));
}

/** Returns the error for a request that has no response when the server stops. */
export function stopping(): HTTPException {
  return unanswered('before the server stopped');
}

function unanswered(limit: string): HTTPException {
  return new HTTPException(408, `The client did not respond to the request of the server ${limit}`, {
    code: 'client_timeout',
  });
}

function refusal(error: unknown): HTTPException {
  const message =
    isRecord(error) && typeof error['message'] === 'string' ? error['message'] : 'the client gave no reason';
  return new HTTPException(424, `The client refused the request of the server: ${message.slice(0, 200)}`, {
    code: 'client_refused',
  });
}

/** Counts unanswered requests, with a limit for each client and for all together. */
export class Shares {
  readonly #direction: 'from' | 'to';
  readonly #most: number;
  readonly #mostOfOne: number;
  readonly #open = new Map<string, number>();
  #total = 0;

  /** `direction` says whether the requests come from clients or are sent to clients. */
  constructor(direction: 'from' | 'to', most: number, mostOfOne: number) {
    this.#direction = direction;
    this.#most = most;
    this.#mostOfOne = mostOfOne;
  }

  /** Counts one more request of a client. At a limit, counts nothing and returns an error message. */
  take(client: string): string | undefined {
    const open = this.#open.get(client) ?? 0;
    if (open >= this.#mostOfOne)
      return `Already ${open} requests ${this.#direction} this client have no response: try again later`;
    if (this.#total >= this.#most)
      return `Already ${this.#total} requests ${this.#direction} clients have no response: try again later`;
    this.#open.set(client, open + 1);
    this.#total++;
    return undefined;
  }

  /** Called when a request of the client has ended, so that it no longer counts. */
  give(client: string): void {
    const open = this.#open.get(client)! - 1; // defined, because take() has counted this request
    if (open === 0) this.#open.delete(client);
    else this.#open.set(client, open);
    this.#total--;
  }
}
