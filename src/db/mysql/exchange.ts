/**
 * One request to MySQL or MariaDB and what must come back for it, packet by packet.
 *
 *   a command     OK | error | count columns [end] rows end        and the same again, while the end says that there is more
 *   a statement   id  parameters [end]  columns [end]                          [end]: of servers before MySQL 5.7
 *
 * A packet that is not the one to come is a violation: the connection ends, for what follows cannot be told apart any more. A server
 * that asks for a file gets none.
 */
import { mysqlError } from './errors.ts';
import { Fields, readColumn, readEof, readError, readOk, readPrepared, type WireColumn } from './messages.ts';
import { RowPlan } from './rows.ts';
import { CAPABILITY, MARIADB, MAX_PAYLOAD, REPLY, STATUS } from './wire.ts';
import { ProtocolViolation, StatementError } from '../errors.ts';
import { ServerExchange, type RowsWanted } from '../wire/conversation.ts';
import type { Row } from '../driver.ts';
import type { MySqlValueOptions } from './url.ts';

/** What is asked: a command that is answered by OK, a text, a statement to prepare, one that is prepared, rows of a cursor. */
type Kind = 'command' | 'query' | 'prepare' | 'execute' | 'fetch';

/** How answers are read, by what both sides can do. */
export interface Dialogue {
  readonly capabilities: number;
  /** Of MariaDB. */
  readonly extended: number;
  readonly values: MySqlValueOptions;
}

/** How an exchange is set up. */
export interface ExchangeDeps {
  /** As it was sent, for errors. */
  readonly sql: string;
  readonly kind: Kind;
  readonly wanted: RowsWanted;
  /** The number of the first packet of the answer. */
  readonly sequence: number;
  /** Whether more requests of the same kind may follow, until close(). */
  readonly isOpen?: boolean | undefined;
  /** Of a statement: how its rows were read the last time, which holds where the server describes them alike, or not at all. Answers come in their order, so it is read and changed when they come. */
  readonly memory?: { plan: RowPlan | undefined } | undefined;
  /** How rows are read that are not described. */
  readonly plan?: RowPlan | undefined;
}

/** Columns of a result, and the packets that described them. */
interface Definitions {
  readonly columns: WireColumn[];
  readonly described: Buffer[];
}

type Step = 'head' | 'definitions' | 'definitions-end' | 'rows';

/** The end of columns or rows, as servers before MySQL 5.7 say it. */
const EOF_BYTES = 5;
/** Packets of a result set that describe columns, at most: what MySQL and MariaDB allow in a table is 4,096. */
const MAX_COLUMNS = 65_535;

/** See the top of this file. */
export class Exchange extends ServerExchange<RowPlan> {
  readonly #kind: Kind;
  readonly #dialogue: Dialogue;
  #step: Step = 'head';
  /** Nothing of the answer has come yet. */
  #isAtHead = true;
  /** The number of the first packet of an answer, where that is not 1. */
  #sequences: Map<number, number> | undefined;
  /** Requests that were written, and answers that have ended. */
  #written = 1;
  #answered = 0;
  /** More of them may be written. */
  #isOpen: boolean;
  readonly #memory: { plan: RowPlan | undefined } | undefined;
  /** Of a result that is being described: what is still to come, and what has. */
  #lacking = 0;
  #columnsLater = 0;
  #areParameters = false;
  /** So far all are described as they are in the plan, and these are so many. */
  #isSame = true;
  #same = 0;
  /** Those that are not. */
  #definitions: Definitions | undefined;
  /** The rows of each result that has any, where several are wanted. */
  readonly sets: Row[][] = [];
  #isFirstResult = true;
  #hasResult = false;
  lastInsertId: number | bigint = 0;
  /** Of a statement that was prepared. */
  statementId = 0;
  parameters = 0;
  /** By the last packet that told it; undefined after an error. */
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

  /** One more request of the same kind was written. */
  add(sequence: number): void {
    if (sequence !== 1) (this.#sequences ??= new Map()).set(this.#written, sequence);
    this.#written++;
  }

  /** No more are written. */
  close(): void {
    this.#isOpen = false;
  }

  /** Whether all is written, and answered. */
  get isOver(): boolean {
    return !this.#isOpen && this.#answered === this.#written;
  }

  /** The number of the next packet, if that is the first of an answer; else undefined: it goes on where the last one ended. */
  get sequence(): number | undefined {
    return this.#isAtHead ? (this.#sequences?.get(this.#answered) ?? 1) : undefined;
  }

  /** Takes a packet. True when it was the last one. @throws ProtocolViolation */
  onPacket(bytes: Buffer, at: number, end: number): boolean {
    if (at === end) throw new ProtocolViolation('an empty packet');
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
    if (this.#answered === this.#written) throw new ProtocolViolation('an answer to nothing');
    const first = bytes[at]!; // it is not empty
    if (first === REPLY.error) return this.#onError(bytes, at, end);
    if (this.#kind === 'prepare') return this.#onPrepared(bytes, at, end);
    if (first === REPLY.ok) return this.#onOk(bytes, at, end);
    if (first === REPLY.localInfile)
      throw new ProtocolViolation('a request for a file of ours, which it does not get (LOCAL INFILE)');
    if (this.#kind === 'command') throw unexpected(first);
    return this.#onCount(bytes, at, end);
  }

  /** How many columns the rows have; MariaDB adds whether it describes them. */
  #onCount(bytes: Buffer, at: number, end: number): boolean {
    const fields = new Fields(bytes, at, end);
    const count = fields.length();
    if (count === 0 || count > MAX_COLUMNS) throw new ProtocolViolation(`${count} columns`);
    const isDescribed = (this.#dialogue.extended & MARIADB.cacheMetadata) === 0 || fields.byte() === 1;
    if (fields.left > 0) throw new ProtocolViolation('a number of columns with bytes behind it');
    this.#hasResult = true;
    if (!this.#isFirstResult) {
      if (this.wanted === 'sets') this.plan = undefined;
      else if (this.wanted !== 'none') this.fail(severalResults(this.sql));
    } else if (this.#memory !== undefined) this.plan = this.#memory.plan;
    if (isDescribed) this.#describe(count);
    else if (this.plan === undefined || this.plan.isText || this.plan.columns.length !== count)
      throw new ProtocolViolation('rows that were never described');
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
    if (!this.#areParameters) this.#onColumn(bytes, at, end); // of a parameter nothing is told
    if (--this.#lacking > 0) return false;
    if (!this.#areParameters && !this.#isSame && this.#isWanted)
      this.#remember(
        new RowPlan(
          this.#definitions!.columns,
          this.#definitions!.described,
          this.#dialogue.values,
          this.#kind === 'query',
        ),
      ); // one is there that is not the same
    if (!this.#hasEnds) return this.#afterDefinitions();
    this.#step = 'definitions-end';
    return false;
  }

  #remember(plan: RowPlan): void {
    this.plan = plan;
    if (this.#isFirstResult && this.#memory !== undefined) this.#memory.plan = plan;
  }

  /** Those that are described as before are not read again, nor kept once more. */
  #onColumn(bytes: Buffer, at: number, end: number): void {
    if (this.#isSame) {
      const { columns, described } = this.plan!; // the same only where there is a plan
      if (holds(bytes, at, end, described[this.#same]!)) {
        // as many as columns
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
    if (bytes[at] !== REPLY.eof || end - at > EOF_BYTES) throw unexpected(bytes[at]!); // it is not empty
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
    if (this.#isWanted) this.keep(bytes, at, end);
    return false;
  }

  #onOk(bytes: Buffer, at: number, end: number): boolean {
    const ok = readOk(bytes, at, end);
    this.affectedRows += ok.affectedRows;
    if (ok.lastInsertId !== 0) this.lastInsertId = ok.lastInsertId;
    return this.#onEnd(ok.status);
  }

  /** The end of an answer, or of one of its results. */
  #onEnd(status: number): boolean {
    this.status = status;
    if (this.#hasResult) {
      this.#isFirstResult = false;
      if (this.wanted === 'sets') this.sets.push(this.rows.splice(0) as Row[]); // as was wanted
    }
    this.#hasResult = false;
    if ((status & STATUS.moreResults) !== 0) {
      this.#step = 'head';
      return false;
    }
    return this.#onAnswered();
  }

  #onError(bytes: Buffer, at: number, end: number): boolean {
    this.status = undefined;
    this.#hasResult = false;
    this.fail(mysqlError(readError(bytes, at, end), this.sql));
    return this.#onAnswered();
  }

  #onAnswered(): boolean {
    this.#answered++;
    this.#step = 'head';
    this.#isAtHead = true;
    return this.isOver;
  }

  /** Whether rows of this result are kept. */
  get #isWanted(): boolean {
    return this.#isFirstResult || this.wanted === 'sets';
  }

  /** Whether descriptions end with a packet of their own, and rows with one that says little. */
  get #hasEnds(): boolean {
    return (this.#dialogue.capabilities & CAPABILITY.deprecateEof) === 0;
  }
}

function severalResults(sql: string): StatementError {
  return new StatementError('The statement gives several results, and has run: use fetchSets()', {
    sqlstate: '0A000',
    sql,
  });
}

function unexpected(first: number): ProtocolViolation {
  return new ProtocolViolation(`a packet that begins with ${first}, which was not to come`);
}

/** Whether these bytes are there. One by one: for so few a method of Buffer takes longer. */
function holds(bytes: Buffer, at: number, end: number, known: Buffer): boolean {
  if (end - at !== known.length) return false;
  for (let index = 0; index < known.length; index++) if (bytes[at + index] !== known[index]) return false;
  return true;
}
