/**
 * Handles the replies to one request to MySQL or MariaDB, packet by packet.
 *
 * The reply to a command is an OK packet, an error packet or a result. A result consists of the number of
 * columns, the column descriptions, the rows, and an end packet, which may announce another result.
 *
 * The reply to COM_STMT_PREPARE consists of the statement's id, the descriptions of its parameters, and the
 * descriptions of its columns. Servers before MySQL 5.7 also send an end packet after each list of
 * descriptions.
 *
 * An unexpected packet ends the connection, because later replies could be matched to the wrong request. A
 * request for a local file of the client (LOCAL INFILE) also ends it.
 */
import { mysqlError } from './errors.ts';
import { Fields, readColumn, readEof, readError, readOk, readPrepared, type WireColumn } from './messages.ts';
import { RowPlan } from './rows.ts';
import { CAPABILITY, MARIADB, MAX_PAYLOAD, REPLY, STATUS } from './wire.ts';
import { ProtocolViolation, StatementError } from '../errors.ts';
import { scanned } from '../placeholders.ts';
import { ServerExchange, type RowsWanted } from '../wire/conversation.ts';
import type { Row } from '../driver.ts';
import type { MySqlValueOptions } from './url.ts';

/** Kind of a request. `query` sends SQL text, `execute` runs a prepared statement, `fetch` reads a cursor. */
type Kind = 'command' | 'query' | 'prepare' | 'execute' | 'fetch';

/** Format of replies, on which the client and the server have agreed during the login. */
export interface Dialogue {
  readonly capabilities: number;
  /** Capability flags of MariaDB that the client and the server both have. */
  readonly extended: number;
  readonly values: MySqlValueOptions;
}

export interface ExchangeDeps {
  readonly sql: string;
  readonly kind: Kind;
  readonly wanted: RowsWanted;
  /** Sequence number of the reply's first packet. */
  readonly sequence: number;
  /** Whether further requests may be added until close() is called. */
  readonly isOpen?: boolean | undefined;
  /** Cached row decoders of the statement. A reply whose column descriptions differ replaces them. */
  readonly memory?: { plan: RowPlan | undefined } | undefined;
  /** Row decoders for a reply that has no column descriptions. */
  readonly plan?: RowPlan | undefined;
}

interface Definitions {
  readonly columns: WireColumn[];
  readonly described: Buffer[];
}

type Step = 'head' | 'definitions' | 'definitions-end' | 'rows';

/** Maximum length in bytes of an EOF packet, which servers before MySQL 5.7 send after columns and rows. */
const EOF_BYTES = 5;
const MAX_COLUMNS = 65_535;

/** A request that was sent, and the state of its replies. */
export class Exchange extends ServerExchange<RowPlan> {
  readonly #kind: Kind;
  readonly #dialogue: Dialogue;
  #step: Step = 'head';
  #isAtHead = true;
  /** Sequence number of the first packet of each reply, by its index, if it is not 1. */
  #sequences: Map<number, number> | undefined;
  #written = 1;
  #answered = 0;
  #isOpen: boolean;
  readonly #memory: { plan: RowPlan | undefined } | undefined;
  #lacking = 0;
  #columnsLater = 0;
  #areParameters = false;
  /** Whether all column descriptions so far are equal to the cached ones in `plan`. */
  #isSame = true;
  #same = 0;
  /** Column descriptions of this reply, if they differ from the cached ones in `plan`. */
  #definitions: Definitions | undefined;
  /** Rows of each result, if `wanted` is `sets`. */
  readonly sets: Row[][] = [];
  #isFirstResult = true;
  /** Number of rows of the current result, if the caller wants no rows. */
  #unwantedRows = 0;
  #hasResult = false;
  statementId = 0;
  parameters = 0;
  /** Session status in the last packet that had one. Undefined after an error. */
  status: number | undefined;

  constructor(options: ExchangeDeps, dialogue: Dialogue) {
    super(options.sql, options.wanted, options.plan);
    this.#kind = options.kind;
    this.#isOpen = options.isOpen === true;
    if (options.sequence !== 1) this.#sequences = new Map([[0, options.sequence]]);
    this.#memory = options.memory;
    this.#dialogue = dialogue;
    if (options.kind === 'fetch') this.#step = 'rows';
  }

  /** Adds a request of the same kind. `sequence` is the number of the reply's first packet. */
  add(sequence: number): void {
    if (sequence !== 1) (this.#sequences ??= new Map()).set(this.#written, sequence);
    this.#written++;
  }

  close(): void {
    this.#isOpen = false;
  }

  /** Whether all requests were written and answered. */
  get isOver(): boolean {
    return !this.#isOpen && this.#answered === this.#written;
  }

  /** Expected number of the first packet of a reply. Undefined inside a reply. */
  get sequence(): number | undefined {
    return this.#isAtHead ? (this.#sequences?.get(this.#answered) ?? 1) : undefined;
  }

  /** Handles a packet. Returns true when the packet was the last one of all replies. */
  onPacket(bytes: Buffer, at: number, end: number): boolean {
    if (at === end) throw new ProtocolViolation('the server sent an empty packet');
    this.#isAtHead = false;
    switch (this.#step) {
      case 'rows':
        return this.#onRow(bytes, at, end);
      case 'head':
        return this.#onHead(bytes, at, end);
      case 'definitions':
        return this.#onDefinition(bytes, at, end);
      case 'definitions-end':
        return this.#onDefinitionsEnd(bytes, at, end);
    }
  }

  #onHead(bytes: Buffer, at: number, end: number): boolean {
    if (this.#answered === this.#written)
      throw new ProtocolViolation('the server sent a packet although no request waits for a reply');
    const first = bytes[at]!;
    if (first === REPLY.error) return this.#onError(bytes, at, end);
    if (this.#kind === 'prepare') return this.#onPrepared(bytes, at, end);
    if (first === REPLY.ok) return this.#onOk(bytes, at, end);
    if (first === REPLY.localInfile)
      throw new ProtocolViolation(
        'the server requested a local file (LOCAL INFILE), which this client never sends',
      );
    if (this.#kind === 'command') throw unexpected(first);
    return this.#onCount(bytes, at, end);
  }

  /** Reads the number of columns. MariaDB also sends whether column descriptions follow. */
  #onCount(bytes: Buffer, at: number, end: number): boolean {
    const fields = new Fields(bytes, at, end);
    const count = fields.length();
    if (count === 0 || count > MAX_COLUMNS)
      throw new ProtocolViolation(
        `the server announced a result of ${count} columns, but a result can have only 1 to ${MAX_COLUMNS}`,
      );
    const isDescribed = (this.#dialogue.extended & MARIADB.cacheMetadata) === 0 || fields.byte() === 1;
    if (fields.left > 0)
      throw new ProtocolViolation('the server sent extra bytes after the number of columns');
    this.#hasResult = true;
    if (!this.#isFirstResult) {
      if (this.wanted === 'sets') this.plan = undefined;
      else if (this.wanted !== 'none') this.fail(severalResults(this.sql));
    } else if (this.#memory !== undefined) this.plan = this.#memory.plan;
    if (isDescribed) this.#describe(count);
    else if (this.plan === undefined || this.plan.isText || this.plan.columns.length !== count)
      throw new ProtocolViolation('the server sent rows without column descriptions');
    else this.#step = this.#hasEnds ? 'definitions-end' : 'rows';
    return false;
  }

  #describe(count: number): void {
    this.#lacking = count;
    this.#same = 0;
    this.#isSame =
      this.plan !== undefined &&
      this.plan.columns.length === count &&
      this.plan.isText === (this.#kind === 'query');
    this.#definitions = undefined;
    this.#step = 'definitions';
  }

  #onDefinition(bytes: Buffer, at: number, end: number): boolean {
    if (bytes[at] === REPLY.error) return this.#onError(bytes, at, end);
    // ignore the descriptions of parameters, which have no useful content
    if (!this.#areParameters) this.#onColumn(bytes, at, end);
    if (--this.#lacking > 0) return false;
    if (!this.#areParameters && !this.#isSame && this.#isWanted)
      this.#remember(
        new RowPlan(
          this.#definitions!.columns,
          this.#definitions!.described,
          this.#dialogue.values,
          this.#kind === 'query',
        ),
      );
    if (!this.#hasEnds) return this.#afterDefinitions();
    this.#step = 'definitions-end';
    return false;
  }

  #remember(plan: RowPlan): void {
    this.plan = plan;
    if (this.#isFirstResult && this.#memory !== undefined) this.#memory.plan = plan;
  }

  /**
   * Handles a column description. A description that is equal to the cached one is neither parsed nor stored
   * again.
   */
  #onColumn(bytes: Buffer, at: number, end: number): void {
    if (this.#isSame) {
      const { columns, described } = this.plan!;
      if (holds(bytes, at, end, described[this.#same]!)) {
        this.#same++;
        return;
      }
      this.#isSame = false;
      this.#definitions = {
        columns: columns.slice(0, this.#same),
        described: described.slice(0, this.#same),
      };
    }
    const definitions = (this.#definitions ??= { columns: [], described: [] });
    definitions.described.push(Buffer.from(bytes.subarray(at, end)));
    definitions.columns.push(
      readColumn(bytes, at, end, (this.#dialogue.extended & MARIADB.extendedMetadata) !== 0),
    );
  }

  #onDefinitionsEnd(bytes: Buffer, at: number, end: number): boolean {
    if (bytes[at] === REPLY.error) return this.#onError(bytes, at, end);
    if (bytes[at] !== REPLY.eof || end - at > EOF_BYTES) throw unexpected(bytes[at]!);
    const { status } = readEof(bytes, at, end);
    const isOver = this.#afterDefinitions();
    return this.#step === 'rows' && (status & STATUS.cursorExists) !== 0 ? this.#onEnd(status) : isOver;
  }

  #afterDefinitions(): boolean {
    if (this.#kind !== 'prepare') {
      this.#step = 'rows';
      return false;
    }
    this.#areParameters = false;
    if (this.#columnsLater === 0) return this.#onAnswered();
    this.#describe(this.#columnsLater);
    this.#columnsLater = 0;
    return false;
  }

  #onPrepared(bytes: Buffer, at: number, end: number): boolean {
    if (bytes[at] !== REPLY.ok) throw unexpected(bytes[at]!);
    const { id, columns, parameters } = readPrepared(bytes, at, end);
    this.statementId = id;
    this.parameters = parameters;
    if (parameters === 0 && columns === 0) return this.#onAnswered();
    this.#areParameters = parameters > 0;
    this.#columnsLater = parameters > 0 ? columns : 0;
    this.#describe(parameters > 0 ? parameters : columns);
    return false;
  }

  #onRow(bytes: Buffer, at: number, end: number): boolean {
    const first = bytes[at]!;
    if (first === REPLY.error) return this.#onError(bytes, at, end);
    if (first === REPLY.eof && end - at < MAX_PAYLOAD && (!this.#hasEnds || end - at <= EOF_BYTES)) {
      return this.#onEnd(this.#hasEnds ? readEof(bytes, at, end).status : readOk(bytes, at, end).status);
    }
    if (this.wanted === 'none') this.#unwantedRows++;
    else if (this.#isWanted) this.keep(bytes, at, end);
    return false;
  }

  #onOk(bytes: Buffer, at: number, end: number): boolean {
    const ok = readOk(bytes, at, end);
    this.affectedRows += ok.affectedRows;
    if (ok.lastInsertId !== 0) this.lastInsertId = ok.lastInsertId;
    return this.#onEnd(ok.status);
  }

  #onEnd(status: number): boolean {
    this.status = status;
    if (this.#hasResult) {
      this.#isFirstResult = false;
      if (this.#unwantedRows > 0) this.#countReturned();
      if (this.wanted === 'sets') this.sets.push(this.rows.splice(0) as Row[]);
    }
    this.#hasResult = false;
    if ((status & STATUS.moreResults) !== 0) {
      this.#step = 'head';
      return false;
    }
    return this.#onAnswered();
  }

  /** Counts the rows of `returning`, for which MariaDB reports no number of rows affected. */
  #countReturned(): void {
    const { kind } = scanned(this.sql, 'mariadb');
    if (kind === 'insert' || kind === 'update') this.affectedRows += this.#unwantedRows;
    this.#unwantedRows = 0;
  }

  #onError(bytes: Buffer, at: number, end: number): boolean {
    this.status = undefined;
    this.#hasResult = false;
    this.#unwantedRows = 0;
    this.fail(mysqlError(readError(bytes, at, end), this.sql));
    return this.#onAnswered();
  }

  #onAnswered(): boolean {
    this.#answered++;
    this.#step = 'head';
    this.#isAtHead = true;
    return this.isOver;
  }

  /** Whether the caller gets the rows of the current result: the first one, or any with `sets`. */
  get #isWanted(): boolean {
    return this.#isFirstResult || this.wanted === 'sets';
  }

  /** Whether an EOF packet ends column descriptions and rows, as before MySQL 5.7. */
  get #hasEnds(): boolean {
    return (this.#dialogue.capabilities & CAPABILITY.deprecateEof) === 0;
  }
}

function severalResults(sql: string): StatementError {
  return new StatementError('The statement ran, but it returned several results: use fetchSets()', {
    sqlstate: '0A000',
    sql,
  });
}

function unexpected(first: number): ProtocolViolation {
  return new ProtocolViolation(`the server sent an unexpected packet, which begins with ${first}`);
}

/** Compares bytes. For short packets, a loop is faster than a method of Buffer. */
function holds(bytes: Buffer, at: number, end: number, known: Buffer): boolean {
  if (end - at !== known.length) return false;
  for (let index = 0; index < known.length; index++) if (bytes[at + index] !== known[index]) return false;
  return true;
}
