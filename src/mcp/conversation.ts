/**
 * An MCP conversation with one client. It parses the client's messages, and sends responses, notifications
 * and requests. The transport, such as stdio.ts, reads and writes the text of each message.
 *
 * Requests of the client run concurrently. A cancelled request gets no response.
 */
import { ClientDisconnected } from '../base/errors.ts';
import { jsonOf } from '../base/options.ts';
import { SentRequests, abortOf, stopping } from './sent-requests.ts';
import { McpDispatcher, issueInBatch } from './server.ts';
import * as rpc from './messages.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';
import type { Caller } from './calls.ts';
import type { JsonObject, RequestId, RpcRequest } from './messages.ts';
import type { Exchange, McpSession } from './server.ts';

export interface ConversationDeps {
  readonly dispatcher: McpDispatcher;
  readonly caller: Caller;
  readonly log: Logger;
  readonly clock: Clock;
  /** Sends the text of one message, without line feeds. Must not throw. */
  send(text: string): void;
}

/** Maximum number of requests that run at once. Further ones get an error. */
const MAX_IN_FLIGHT = 1_000;

/** A conversation with one MCP client, over any transport that carries JSON texts. */
export class McpConversation {
  readonly #deps: ConversationDeps;
  readonly #inFlight = new Map<RequestId, AbortController>();
  readonly #closing = new AbortController();
  #running = new Set<Promise<unknown>>();
  readonly #sentRequests: SentRequests;
  #session: McpSession | undefined;

  constructor(deps: ConversationDeps) {
    this.#deps = deps;
    this.#sentRequests = new SentRequests(deps.clock);
  }

  /** Number of requests from the client that have no response yet. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Handles the text of one message or of a batch. Only protocol versions up to 2025-03-26 allow batches. */
  receive(text: string): void {
    const value = jsonOf(text);
    if (value === undefined)
      return this.refuse(new rpc.RpcError(rpc.PARSE_ERROR, 'Parse error: a line must hold one JSON message'));
    if (Array.isArray(value)) return this.#receiveBatch(value);
    const answer = this.#take(value, false);
    if (answer !== undefined) this.#reply(answer);
  }

  /** Sends the error response to a message that could not be read. */
  refuse(error: rpc.RpcError): void {
    this.#send(rpc.failure(undefined, error, this.#session?.dialect));
  }

  /**
   * Called after the last message of the client. Ends subscriptions, and cancels the unanswered requests of
   * the server. Resolves when all requests of the client have a response.
   */
  async finish(): Promise<void> {
    this.#closing.abort(stopping());
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Aborts all running requests of the client. They get no response. */
  abort(): void {
    for (const request of this.#inFlight.values()) request.abort(new ClientDisconnected());
    this.#inFlight.clear();
    this.#running.clear();
  }

  #send(message: JsonObject | readonly JsonObject[]): void {
    this.#deps.send(JSON.stringify(message));
  }

  #reply(answer: Promise<JsonObject | readonly JsonObject[] | undefined>): void {
    const running = answer.then((message) => {
      if (message !== undefined) this.#send(message);
    });
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }

  #receiveBatch(values: readonly unknown[]): void {
    const problem = rpc.batchIssue(values, this.#session?.dialect);
    if (problem !== undefined) return this.refuse(problem);
    this.#reply(
      Promise.all(values.map((value) => this.#take(value, true))).then((answers) => {
        const answered = answers.filter((answer) => answer !== undefined);
        return answered.length === 0 ? undefined : answered;
      }),
    );
  }

  #take(value: unknown, isInBatch: boolean): Promise<JsonObject | undefined> | undefined {
    const message = rpc.readMessage(value);
    switch (message.kind) {
      case 'response':
        return void this.#sentRequests.receive('', message);
      case 'invalid':
        return Promise.resolve(rpc.failure(message.id, message.error, this.#session?.dialect));
      case 'notification':
        return void this.#onNotification(message.method, message.params);
      case 'request': {
        const problem = this.#issueOf(message, isInBatch);
        return problem === undefined
          ? this.#answer(message)
          : Promise.resolve(rpc.failure(message.id, problem, this.#session?.dialect));
      }
    }
  }

  #issueOf(message: RpcRequest, isInBatch: boolean): rpc.RpcError | undefined {
    if (this.#inFlight.has(message.id)) return rpc.invalidRequest(rpc.REPEATED_ID);
    const problem = isInBatch ? issueInBatch(message) : undefined;
    if (problem !== undefined) return problem;
    return this.#inFlight.size >= MAX_IN_FLIGHT
      ? new rpc.RpcError(
          rpc.INTERNAL_ERROR,
          `Too many requests: ${MAX_IN_FLIGHT} have no response yet. Try again later`,
        )
      : undefined;
  }

  async #answer(request: RpcRequest): Promise<JsonObject | undefined> {
    const abort = new AbortController();
    this.#inFlight.set(request.id, abort);
    const { signal } = abort;
    const exchange: Exchange = {
      session: McpDispatcher.isModern(request.method, request.params) ? undefined : this.#session,
      caller: this.#deps.caller,
      signal,
      closing: this.#closing.signal,
      notify: (method, params) => {
        if (!signal.aborted) this.#send(rpc.notification(method, params));
      },
      begin: (session) => {
        this.#session = session;
      },
      ask: (request) =>
        this.#sentRequests.ask({
          ...request,
          owner: '',
          client: '',
          ends: [this.#closing.signal],
          send: (message) => this.#send(message),
        }),
    };
    const gone = abortOf(signal);
    const answer = await Promise.race([this.#deps.dispatcher.answer(request, exchange), gone]);
    if (this.#inFlight.get(request.id) === abort) this.#inFlight.delete(request.id);
    return signal.aborted ? undefined : answer;
  }

  /** Handles a notification: `notifications/cancelled` cancels a request, and all others are ignored. */
  #onNotification(method: string, { requestId, reason }: JsonObject): void {
    if (
      method !== 'notifications/cancelled' ||
      (typeof requestId !== 'string' && typeof requestId !== 'number')
    )
      return;
    const request = this.#inFlight.get(requestId);
    if (request === undefined) return;
    this.#deps.log.debug('mcp_cancelled', {
      reason: typeof reason === 'string' ? reason.slice(0, 200) : undefined,
    });
    this.#inFlight.delete(requestId);
    request.abort(new ClientDisconnected());
  }
}
