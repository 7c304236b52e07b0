/**
 * Runs one statement for many rows. Each row has its own Bind and Execute. One Sync at the end makes all rows
 * succeed or fail together. Messages are sent while later messages are still being built.
 */
import { Exchange, STEP } from './exchange.ts';
import { writeParams } from './values.ts';
import { endRows } from '../parameters.ts';
import { checkCount } from '../placeholders.ts';
import type { Limit } from '../driver.ts';
import type { PostgresConversation } from './conversation.ts';
import type { PostgresTypes } from './types.ts';
import type { Params } from '../values.ts';

export interface Many {
  readonly text: string;
  /** Name of the prepared statement. Empty for an unnamed statement. */
  readonly name: string;
  readonly placeholders: number;
  /**
   * Oids of the types of the values. Undefined if the types are not known. Then all values are sent as text.
   */
  readonly oids: readonly number[] | undefined;
  readonly rows: RepeatableRows;
  readonly limit: Limit | undefined;
}

/**
 * Rows of values that can be read again until the server has run the statement for the first one. If the
 * statement was outdated, the server has already refused this row.
 */
export class RepeatableRows {
  readonly #source: Iterator<Params>;
  /** Rows that can be read again, and the index of the next one. */
  #kept: Params[] = [];
  #at = 0;
  #isKeeping = true;

  constructor(rows: Iterable<Params>) {
    this.#source = rows[Symbol.iterator]();
  }

  next(): IteratorResult<Params, unknown> {
    if (this.#at < this.#kept.length) return { done: false, value: this.#kept[this.#at++]! };
    const next = this.#source.next();
    if (next.done !== true && this.#isKeeping) this.#at = this.#kept.push(next.value);
    return next;
  }

  /** Begins again at the first row. Returns false when rows were already dropped. */
  rewind(): boolean {
    if (this.#isKeeping) this.#at = 0;
    return this.#isKeeping;
  }

  /** Drops the rows that were read, because the server has run the statement for the first one. */
  drop(): void {
    if (!this.#isKeeping) return;
    this.#isKeeping = false;
    this.#kept = this.#kept.slice(this.#at);
    this.#at = 0;
  }

  end(): void {
    endRows(this.#source);
  }
}

const TEXT_FORMATS = new Uint8Array(0);
/** Name of a portal that does not exist. Executing it causes an error, so that the server undoes all rows. */
const NO_PORTAL = 'svc_undo';

/**
 * Runs the statement for all rows or none. Returns the number of rows affected. Write no other request until
 * the returned promise settles.
 */
export async function writeMany(
  conversation: PostgresConversation,
  types: PostgresTypes,
  many: Many,
): Promise<number> {
  const { writer } = conversation;
  const wasIdle = conversation.status === 'I';
  if (many.name === '') writer.parse('', many.text);
  const exchange = new Exchange({
    sql: many.text,
    steps: many.name === '' ? [STEP.parse] : [],
    wanted: 'none',
    types,
  });
  conversation.add(exchange);
  const finished = conversation.finish(exchange, many.limit);
  finished.catch(() => undefined); // prevents an unhandled rejection: `finished` is awaited below
  let failure: { readonly error: unknown } | undefined;
  try {
    await writePairs(conversation, types, many, exchange);
  } catch (error) {
    failure = { error };
    // without a transaction, cause an error, so that the server undoes all rows; a transaction is rolled back
    // by the caller
    if (wasIdle) writer.execute(NO_PORTAL, 0);
  }
  writer.sync();
  conversation.flushSoon();
  if (failure === undefined) return (await finished).affectedRows;
  // ignore the server's error: it is a consequence of `failure`, which is thrown instead
  await finished.catch(() => undefined);
  // rows that the server has run must not run again
  if (exchange.hasRunPair) many.rows.drop();
  throw failure.error;
}

async function writePairs(
  conversation: PostgresConversation,
  types: PostgresTypes,
  many: Many,
  exchange: Exchange,
): Promise<void> {
  const { rows } = many;
  const turns = conversation.turns();
  for (
    let next = rows.next(), row = 1;
    next.done !== true && exchange.error === undefined && !conversation.isEnded;
    next = rows.next(), row++
  ) {
    writePair(conversation, types, many, next.value, row);
    exchange.pairsWritten++;
    const { isFull } = conversation;
    const room = conversation.room(turns);
    if (room === undefined) continue;
    await room;
    // wait for the first row, so that the memory for rows that can be read again is limited
    if (isFull && !exchange.hasRunPair) await firstReply(conversation, exchange);
    if (exchange.hasRunPair) rows.drop();
  }
}

/** Waits until the server has run the statement for the first row, or has refused this row. */
function firstReply(conversation: PostgresConversation, exchange: Exchange): Promise<void> | undefined {
  if (exchange.error !== undefined || conversation.isEnded) return undefined;
  conversation.writer.flush();
  conversation.flushSoon();
  return new Promise((resolve) => {
    exchange.onProgress = resolve;
  });
}

function writePair(
  { writer }: PostgresConversation,
  types: PostgresTypes,
  { text, name, placeholders, oids }: Many,
  params: Params,
  row: number,
): void {
  const before = writer.length;
  try {
    checkCount(params, placeholders, row);
    writer.beginBind('', name, params.length);
    writeParams(writer, params, oids, types, text, row);
    writer.endBind(TEXT_FORMATS);
    writer.execute('', 0);
  } catch (error) {
    writer.rewind(before);
    throw error;
  }
}

/** Yields the rows of a list, and then those of an iterator. */
export function* chained(
  first: readonly Params[],
  rest: Iterator<Params>,
): Generator<Params, void, undefined> {
  yield* first;
  for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value;
}
