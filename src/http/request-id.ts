/**
 * Request ids: how a request gets its one, and the field that carries it. Every answer, log line and problem has it.
 *
 *   X-Request-Id of the request, where it is well-formed        else a random UUID
 *
 * The application has one way for all its requests, those that no middleware sees included; http/middleware/request-id.ts
 * changes it.
 */
import { randomBytes, randomFillSync } from 'node:crypto';
import { findField } from './headers.ts';

/*
 * Random UUIDs (version 4, RFC 9562 §5.4), a batch at a time. Those of node:crypto are ropes of twenty texts, which whoever
 * writes them has to join: each request has one, and reads it twice (175 against 104 ns with the joining). One text of the
 * whole batch is cut in V8: a call of Node for each was 2 % of a plain answer (test/bench/http.ts). Who keeps an id keeps its
 * batch, of 4,608 bytes. Written two characters at a time, and with chance fetched for eight batches: 27 ns for 48.
 */

const BATCH = 128;
/** The first ones of a process come one by one: its first answer would wait for the tables, 1 ms before anything is compiled. */
const FEW = 8;
const BYTES = 16;
const CHARACTERS = 36;
const CHANCE_BYTES = 8 * BATCH * BYTES;
const DASH = 0x2d;

/** Two characters as they stand in memory, by a byte: its digits; a dash and its first; its second and a dash; its second and its first. */
const BOTH = new Uint16Array(256),
  DASHED = new Uint16Array(256),
  ENDED = new Uint16Array(256),
  CROSSED = new Uint16Array(256);

/** Byte by byte, so that the order of bytes in this machine does not matter, and in one plain loop: nothing is compiled yet. */
function fillTables(): void {
  const digits = Buffer.from('0123456789abcdef', 'latin1');
  const [both, dashed, ended, crossed] = [BOTH, DASHED, ENDED, CROSSED].map(
    ({ buffer }) => new Uint8Array(buffer),
  ) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array]; // as many
  for (let byte = 0, at = 0; byte < 256; byte++, at += 2) {
    both[at] = dashed[at + 1] = crossed[at + 1] = digits[byte >> 4]!;
    both[at + 1] = ended[at] = crossed[at] = digits[byte & 15]!;
    dashed[at] = ended[at + 1] = DASH;
  }
}

const random = Buffer.allocUnsafeSlow(CHANCE_BYTES);
const text = Buffer.allocUnsafeSlow(BATCH * CHARACTERS);
const characters = new Uint16Array(text.buffer);
let batch = '';
let next = BATCH;
let used = CHANCE_BYTES;
let early = 0;

/** A UUID that nobody has had before and nobody can foretell, in lower case. */
export function uuid(): string {
  if (next === BATCH) {
    if (early < FEW) return oneEarly();
    refill();
  }
  const start = CHARACTERS * next++;
  return batch.slice(start, start + CHARACTERS);
}

function oneEarly(): string {
  early++;
  const bytes = randomBytes(BYTES);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40; // version 4
  bytes[8] = (bytes[8]! & 0x3f) | 0x80; // variant
  const digits = bytes.toString('hex');
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`;
}

function refill(): void {
  if (batch === '') fillTables();
  if (used === CHANCE_BYTES) {
    randomFillSync(random);
    used = 0;
  }
  for (let index = 0; index < BATCH; index++, used += BYTES) write(used, (CHARACTERS / 2) * index);
  batch = text.toString('latin1');
  next = 0;
}

/** Writes the bytes of one, as text: 8-4-4-4-12. Two of the groups begin at odd places, and their digits come crossed. */
function write(from: number, to: number): void {
  const b4 = random[from + 4]!;
  const b5 = random[from + 5]!;
  const b8 = (random[from + 8]! & 0x3f) | 0x80; // variant
  const b9 = random[from + 9]!;
  for (let index = 0; index < 4; index++) characters[to + index] = BOTH[random[from + index]!]!;
  characters[to + 4] = DASHED[b4]!;
  characters[to + 5] = CROSSED[(b5 & 0xf0) | (b4 & 0x0f)]!;
  characters[to + 6] = ENDED[b5]!;
  characters[to + 7] = BOTH[(random[from + 6]! & 0x0f) | 0x40]!; // version 4
  characters[to + 8] = BOTH[random[from + 7]!]!;
  characters[to + 9] = DASHED[b8]!;
  characters[to + 10] = CROSSED[(b9 & 0xf0) | (b8 & 0x0f)]!;
  characters[to + 11] = ENDED[b9]!;
  for (let index = 0; index < 6; index++) characters[to + 12 + index] = BOTH[random[from + 10 + index]!]!;
}

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
