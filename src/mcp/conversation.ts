/**
 * One client on one channel: texts in, texts out. Requests run side by side; each is answered once, or not at all when it was
 * cancelled. Neither reads nor writes.
 */
import { ClientDisconnected } from '../base/errors.ts';
import { McpDispatcher, comesAlone } from './server.ts';
import {
  INTERNAL_ERROR,
  INVALID_REQUEST,
  PARSE_ERROR,
  RpcError,
  failure,
  notification,
  readMessage,
} from './messages.ts';
import type { Logger } from '../observability/log.ts';
import type { Caller } from './calls.ts';
import type { JsonObject, RequestId, RpcRequest } from './messages.ts';
import type { Exchange, McpSession } from './server.ts';

/** What a conversation is made of. */
export interface ConversationDeps {
  readonly dispatcher: McpDispatcher;
  readonly caller: Caller;
  readonly log: Logger;
  /** Takes one message, without its line feed. Must not throw. */
  send(text: string): void;
}

/** Requests that run at the same time: one more is an error. */
const MAX_IN_FLIGHT = 1_000;
/** Messages in one array. */
const MAX_BATCH = 1_000;

/** A conversation with one client. */
export class McpConversation {
  readonly #deps: ConversationDeps;
  readonly #inFlight = new Map<RequestId, AbortController>();
  readonly #closing = new AbortController();
  #running = new Set<Promise<unknown>>();
  #session: McpSession | undefined;

  constructor(deps: ConversationDeps) {
    this.#deps = deps;
  }

  /** Requests that are not answered yet. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** One message, or several where the version has them. */
  receive(text: string): void {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return this.refuse(new RpcError(PARSE_ERROR, 'Parse error: a line is one message of JSON'));
    }
    if (Array.isArray(value)) return this.#receiveBatch(value);
    const answer = this.#take(value, false);
    if (answer !== undefined)
      this.#run(
        answer.then((message) => {
          if (message !== undefined) this.#send(message);
        }),
      );
  }

  /** Answers what could not be read. */
  refuse(error: RpcError): void {
    this.#send(failure(undefined, error, this.#session?.dialect));
  }

  /** Nothing more will come. Resolves when all that runs is answered; what would go on for ever is ended. */
  async finish(): Promise<void> {
    this.#closing.abort();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Ends what still runs. Nobody gets an answer. */
  abort(): void {
    for (const request of this.#inFlight.values()) request.abort(new ClientDisconnected());
    this.#inFlight.clear();
    this.#running.clear();
  }

  #send(message: JsonObject | readonly JsonObject[]): void {
    this.#deps.send(JSON.stringify(message));
  }

  #run(running: Promise<unknown>): void {
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
  }

  #receiveBatch(values: readonly unknown[]): void {
    const problem =
      this.#session?.dialect.hasBatches !== true
        ? 'This version has no batches: one message at a time'
        : values.length === 0
          ? 'A batch has at least one message'
          : values.length > MAX_BATCH
            ? `A batch has at most ${MAX_BATCH} messages`
            : undefined;
    if (problem !== undefined) return this.refuse(new RpcError(INVALID_REQUEST, problem));
    const answers = values.map((value) => this.#take(value, true)).filter((answer) => answer !== undefined);
    if (answers.length > 0)
      this.#run(
        Promise.all(answers).then((messages) =>
          this.#sendBatch(messages.filter((message) => message !== undefined)),
        ),
      );
  }

  #sendBatch(messages: readonly JsonObject[]): void {
    if (messages.length > 0) this.#send(messages);
  }

  /** The answer to one message, undefined where there is none: a notification, or a request that is cancelled. */
  #take(value: unknown, isInBatch: boolean): Promise<JsonObject | undefined> | undefined {
    const message = readMessage(value);
    switch (message.kind) {
      case 'response':
        return undefined; // to nothing that we have asked
      case 'invalid':
        return Promise.resolve(failure(message.id, message.error, this.#session?.dialect));
      case 'notification':
        return void this.#onNotification(message.method, message.params);
      case 'request': {
        const problem = this.#issueOf(message, isInBatch);
        return problem === undefined
          ? this.#answer(message)
          : Promise.resolve(failure(message.id, problem, this.#session?.dialect));
      }
    }
  }

  #issueOf(message: RpcRequest, isInBatch: boolean): RpcError | undefined {
    if (this.#inFlight.has(message.id))
      return new RpcError(INVALID_REQUEST, 'The id belongs to a request that is not answered yet');
    if (isInBatch && comesAlone(message))
      return new RpcError(INVALID_REQUEST, `"${message.method}" comes alone`);
    return this.#inFlight.size >= MAX_IN_FLIGHT
      ? new RpcError(INTERNAL_ERROR, `There are ${MAX_IN_FLIGHT} requests that are not answered yet`)
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
        if (!signal.aborted) this.#send(notification(method, params));
      },
      begin: (session) => {
        this.#session = session;
      },
    };
    const gone = Promise.withResolvers<undefined>();
    signal.addEventListener('abort', () => gone.resolve(undefined), { once: true });
    const answer = await Promise.race([this.#deps.dispatcher.answer(request, exchange), gone.promise]);
    if (this.#inFlight.get(request.id) === abort) this.#inFlight.delete(request.id);
    return signal.aborted ? undefined : answer;
  }

  /** Unknown ones are passed over, as are those about what is over. */
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
