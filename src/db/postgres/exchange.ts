/**
 * Handles the replies to one request to PostgreSQL, message by message, up to ReadyForQuery. The server may
 * send an error instead of any reply. Then only ReadyForQuery follows.
 *
 * An unexpected message ends the connection, because later replies could be matched to the wrong request.
 */
import { SERVER } from './messages.ts';
import * as read from './messages.ts';
import { RowPlan } from './rows.ts';
import { ProtocolViolation, StatementError } from '../errors.ts';
import { ServerExchange, type RowsWanted } from '../wire/conversation.ts';
import type { DatabaseError } from '../errors.ts';
import type { PostgresTypes } from './types.ts';

export const STEP = {
  parse: 0,
  parameters: 1,
  rows: 2,
  bind: 3,
  execute: 4,
  close: 5,
  simple: 6,
  copyIn: 7,
  copied: 8,
  ready: 9,
} as const;
export type Step = (typeof STEP)[keyof typeof STEP];

const TAG_COUNT = /^(?:INSERT \d+|UPDATE|DELETE|MERGE|COPY) (\d+)$/;

interface ExchangeDeps {
  readonly sql: string;
  readonly steps: readonly Step[];
  readonly wanted: RowsWanted;
  readonly types: PostgresTypes;
  /** Row decoders of a prepared statement, whose rows arrive without a RowDescription. */
  readonly plan?: RowPlan | undefined;
}

export class Exchange extends ServerExchange<RowPlan> {
  readonly #steps: readonly Step[];
  readonly #types: PostgresTypes;
  #at = 0;
  /** Number of Bind and Execute pairs that were written, one for each row of values. */
  pairsWritten = 0;
  #pairsRead = 0;
  #isInPair = false;
  parameterOids: readonly number[] | undefined;
  tag = '';
  /** Whether the portal, a cursor, has more rows than were requested. */
  isSuspended = false;
  /** Whether the server has confirmed a Parse, so that the prepared statement exists. */
  isParsed = false;
  /** Whether the server waits for the data of COPY ... FROM STDIN. */
  isCopying = false;
  /** State of a COPY that ran as an ordinary statement. `refused`: no data is sent for it. */
  unasked: 'copy-in' | 'copy-out' | 'refused' | undefined;

  constructor({ sql, wanted, steps, types, plan }: ExchangeDeps) {
    super(sql, wanted, plan);
    this.#steps = steps;
    this.#types = types;
  }

  /** Whether the server has run the statement for the first row of values. */
  get hasRunPair(): boolean {
    return this.#pairsRead > 0;
  }

  /** Whether this is a simple query, which needs no Sync. */
  get isSimple(): boolean {
    return this.#steps[0] === STEP.simple;
  }

  /** Records an error that the server has reported. After the error, only ReadyForQuery may arrive. */
  override fail(error: DatabaseError): void {
    this.#at = this.#steps.length;
    this.#isInPair = false;
    super.fail(error);
  }

  /** Handles a message. Returns true if it was the last reply to the request. @throws ProtocolViolation */
  onMessage(type: number, bytes: Buffer, at: number, end: number): boolean {
    switch (
      this.#at < this.#steps.length ? this.#steps[this.#at] : this.#isInPair ? STEP.execute : STEP.ready
    ) {
      case STEP.execute:
        return this.#onExecute(type, bytes, at, end);
      case STEP.bind:
        return this.#expect(type, SERVER.bindComplete);
      case STEP.parse:
        return this.#onParsed(type);
      case STEP.parameters:
        return this.#onParameters(type, bytes, at, end);
      case STEP.rows:
        return this.#onDescription(type, bytes, at, end);
      case STEP.close:
        return this.#expect(type, SERVER.closeComplete);
      case STEP.simple:
        return this.#onSimple(type, bytes, at, end);
      case STEP.copyIn:
        return this.#onCopyIn(type);
      case STEP.copied:
        return this.#onComplete(type, bytes, at, end);
      default:
        return this.#onReady(type);
    }
  }

  #onParsed(type: number): boolean {
    this.#expect(type, SERVER.parseComplete);
    this.isParsed = true;
    return false;
  }

  #onParameters(type: number, bytes: Buffer, at: number, end: number): boolean {
    this.#expect(type, SERVER.parameterDescription);
    this.parameterOids = read.readParameterDescription(bytes, at, end);
    return false;
  }

  #onReady(type: number): boolean {
    if (type === SERVER.bindComplete && this.error === undefined && this.#pairsRead < this.pairsWritten) {
      this.#isInPair = true;
      return false;
    }
    if (type !== SERVER.readyForQuery || (this.error === undefined && this.#pairsRead < this.pairsWritten))
      throw unexpected(type);
    return true;
  }

  #onExecute(type: number, bytes: Buffer, at: number, end: number): boolean {
    if (type === SERVER.dataRow) {
      this.keep(bytes, at, end);
      return false;
    }
    if (this.#isCopy(type)) return false;
    if (type === SERVER.portalSuspended) {
      this.isSuspended = true;
      return this.#advance();
    }
    if (type === SERVER.emptyQuery) return this.#advance();
    return this.#onComplete(type, bytes, at, end);
  }

  #onDescription(type: number, bytes: Buffer, at: number, end: number): boolean {
    if (type !== SERVER.rowDescription && type !== SERVER.noData) throw unexpected(type);
    this.plan =
      type === SERVER.noData
        ? undefined
        : new RowPlan(read.readRowDescription(bytes, at, end), this.#types, true);
    return this.#advance();
  }

  /** Handles a reply to a simple query, which may contain several statements. Ignores their rows. */
  #onSimple(type: number, bytes: Buffer, at: number, end: number): boolean {
    switch (type) {
      case SERVER.readyForQuery:
        return true;
      case SERVER.commandComplete:
        this.tag = read.readCommandTag(bytes, at, end);
        return false;
      case SERVER.rowDescription:
      case SERVER.dataRow:
      case SERVER.emptyQuery:
        return false;
      default:
        if (this.#isCopy(type)) return false;
        throw unexpected(type);
    }
  }

  #onCopyIn(type: number): boolean {
    this.#expect(type, SERVER.copyIn);
    this.isCopying = true;
    this.onProgress?.();
    return false;
  }

  #onComplete(type: number, bytes: Buffer, at: number, end: number): boolean {
    if (type !== SERVER.commandComplete) throw unexpected(type);
    this.tag = read.readCommandTag(bytes, at, end);
    const count = TAG_COUNT.exec(this.tag)?.[1];
    if (count !== undefined) this.affectedRows += Number(count);
    if (this.unasked !== 'copy-out' || this.wanted === 'none') return this.#advance();
    this.fail(
      new StatementError('COPY … TO STDOUT returns no rows: use stream() with a select', {
        sqlstate: '0A000',
        sql: this.sql,
      }),
    );
    return false;
  }

  /**
   * Returns whether a message belongs to a COPY that was run as an ordinary statement. The client must refuse
   * this COPY, or read all its data. Without this, the connection would wait forever.
   */
  #isCopy(type: number): boolean {
    if (type === SERVER.copyIn) this.unasked = 'copy-in';
    else if (type === SERVER.copyOut) this.unasked = 'copy-out';
    else return this.unasked === 'copy-out' && (type === SERVER.copyData || type === SERVER.copyDone);
    return true;
  }

  #expect(type: number, expected: number): boolean {
    if (type !== expected) throw unexpected(type);
    return this.#advance();
  }

  #advance(): boolean {
    if (this.#at < this.#steps.length) this.#at++;
    else {
      this.#isInPair = false;
      if (this.#pairsRead++ === 0) this.onProgress?.();
    }
    return false;
  }
}

function unexpected(type: number): ProtocolViolation {
  return new ProtocolViolation(
    `the server sent an unexpected message of type ${JSON.stringify(String.fromCharCode(type))}`,
  );
}
