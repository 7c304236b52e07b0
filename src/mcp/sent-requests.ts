/**
 * Questions to clients with a protocol version before 2026-07-28: requests of the server that have no
 * response yet.
 */
import { randomBytes } from 'node:crypto';
import { HTTPException } from '../base/errors.ts';
import { isRecord } from '../base/options.ts';
import { notification } from './messages.ts';
import type { Clock } from '../base/clock.ts';
import type { JsonObject, RpcResponse } from './messages.ts';
import type { Question } from './questions.ts';

/** Maximum number of questions without an answer, over all calls of an endpoint or conversation. */
const MAX_SENT = 1_000;

/** A question that is sent to a client as a request. */
interface SentQuestion extends Omit<Question, 'key'> {
  /** Further signals that end the question: the client has left, or the server stops. */
  readonly ends: readonly AbortSignal[];
  /** Id of the session. Responses from other sessions are ignored. */
  readonly owner: string;
  /** Name of the client. The limit of open questions applies per client. */
  readonly client: string;
  send(message: JsonObject): void;
}

/** The questions of one endpoint or conversation that have no response yet. */
export class SentRequests {
  readonly #clock: Clock;
  readonly #shares: Shares;
  readonly #waiting = new Map<unknown, { readonly owner: string; settle(response: RpcResponse): void }>();

  /** `mostOfOne` is the maximum number of open questions to one client. */
  constructor(clock: Clock, mostOfOne: number = MAX_SENT) {
    this.#clock = clock;
    this.#shares = new Shares('questions', MAX_SENT, mostOfOne);
  }

  /**
   * Sends a request, and returns the result of its response. If the time runs out, or a signal aborts, before
   * the response arrives, the request is cancelled.
   */
  async ask({
    owner,
    client,
    method,
    params,
    timeoutMs,
    signal,
    ends,
    send,
  }: SentQuestion): Promise<unknown> {
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
    // the cast is safe: only signals have this listener
    const onAbort = ({ target }: Event): void => giveUp('The call has ended', (target as AbortSignal).reason);
    const timer = this.#clock.after(timeoutMs, () =>
      giveUp('The time to answer is over', unanswered(`within ${timeoutMs} ms`)),
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
      // not `using`: Node.js 22 must be able to parse this module, see base/need-node.ts
      timer[Symbol.dispose]();
      this.#waiting.delete(id);
      this.#shares.give(client);
      for (const each of signals) each.removeEventListener('abort', onAbort);
    }
  }

  /** Handles a response of a client. A response without a request, or from another session, is ignored. */
  receive(owner: string, response: RpcResponse): void {
    const waiting = this.#waiting.get(response.id);
    if (waiting?.owner === owner) waiting.settle(response);
  }
}

/** Returns the error that ends open questions when the server stops. */
export function stopping(): HTTPException {
  return unanswered('before the server stopped');
}

function unanswered(limit: string): HTTPException {
  return new HTTPException(408, `The client did not answer the question ${limit}`, {
    code: 'client_timeout',
  });
}

function refusal(error: unknown): HTTPException {
  const message = isRecord(error) && typeof error['message'] === 'string' ? error['message'] : 'no reason';
  return new HTTPException(424, `The client refused the question: ${message.slice(0, 200)}`, {
    code: 'client_refused',
  });
}

/**
 * Counts open requests or questions by client, so that no client takes the share of others.
 */
export class Shares {
  readonly #what: string;
  readonly #most: number;
  readonly #mostOfOne: number;
  readonly #open = new Map<string, number>();
  #total = 0;

  constructor(what: string, most: number, mostOfOne: number) {
    this.#what = what;
    this.#most = most;
    this.#mostOfOne = mostOfOne;
  }

  /**
   * Counts one more request or question of a client. If a limit is reached, counts nothing and returns a
   * message.
   */
  take(client: string): string | undefined {
    const open = this.#open.get(client) ?? 0;
    if (open >= this.#mostOfOne)
      return `Already ${open} ${this.#what} of this client have no answer: try again later`;
    if (this.#total >= this.#most)
      return `Already ${this.#total} ${this.#what} have no answer: try again later`;
    this.#open.set(client, open + 1);
    this.#total++;
    return undefined;
  }

  /** Removes one request or question of a client from the count. */
  give(client: string): void {
    const open = this.#open.get(client)! - 1; // defined, because take() has counted it
    if (open === 0) this.#open.delete(client);
    else this.#open.set(client, open);
    this.#total--;
  }
}
