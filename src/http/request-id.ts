/**
 * Request ids: how a request gets its one, and the field that carries it. Every answer, log line and problem has it.
 *
 *   X-Request-Id of the request, where it is well-formed        else a random UUID
 *
 * The application has one way for all its requests, those that no middleware sees included; http/middleware/request-id.ts
 * changes it.
 */
import { uuid } from '../base/uuid.ts';
import { findField } from './headers.ts';

/** How requests get their ids. `undefined` means not given. */
export interface RequestIDOptions {
  /** The field of the request that may bring an id, and of the answer that tells it. Default `X-Request-Id`. */
  readonly header?: string | undefined;
  /**
   * Whether an id that comes with a request is taken over: letters, digits and `._:+=@/-`, 128 of them at most. Default true: it
   * joins the lines of several services. False where clients reach the server directly and its logs must not repeat ids.
   */
  readonly acceptIncoming?: boolean | undefined;
  /** Makes an id of the same form, at once. One of another form, or a failure, is logged once, and a UUID takes its place. Default: a random UUID. */
  readonly generate?: (() => string) | undefined;
}

/** Ids that may come from outside: they go into fields, logs and problem bodies as they are. */
const VALID_ID = /^[A-Za-z0-9][A-Za-z0-9._:+=@/-]{0,127}$/;

/** One way of getting ids. @internal */
export class RequestIdentity {
  /** The field's name as it is sent. */
  readonly field: string;
  /** The same in lower case. */
  readonly name: string;
  readonly #acceptsIncoming: boolean;
  readonly #generate: (() => string) | undefined;
  /** Told once that an id of the application's own making is none. */
  onInvalid: ((error: unknown) => void) | undefined;

  constructor({ header = 'X-Request-Id', acceptIncoming = true, generate }: RequestIDOptions = {}) {
    this.field = header;
    this.name = header.toLowerCase();
    this.#acceptsIncoming = acceptIncoming;
    this.#generate = generate;
  }

  /** The id of a request with these fields. Never throws: errors are rendered with it. */
  idOf(rawHeaders: readonly string[]): string {
    if (this.#acceptsIncoming) {
      const incoming = findField(rawHeaders, this.name);
      if (incoming !== undefined && VALID_ID.test(incoming)) return incoming;
    }
    return this.fresh();
  }

  /** An id for what is no request yet, or has none. */
  fresh(): string {
    return this.#generate === undefined ? uuid() : this.#made(this.#generate);
  }

  #made(generate: () => string): string {
    try {
      const id: unknown = generate();
      if (typeof id === 'string' && VALID_ID.test(id)) return id;
      this.#complain(
        new TypeError(
          'generate() must return 1 … 128 letters, digits and ._:+=@/-, the first a letter or digit',
        ),
      );
    } catch (error) {
      this.#complain(error);
    }
    return uuid();
  }

  #complain(error: unknown): void {
    this.onInvalid?.(error);
    this.onInvalid = undefined;
  }
}

/** What an application has that says nothing else. @internal */
export const USUAL_IDENTITY: RequestIdentity = new RequestIdentity();
