/**
 * One statement for many rows: a Bind and an Execute for each, and one Sync, which makes them all one. Sent while they are made.
 */
import { Exchange, STEP } from './exchange.ts';
import { checkCount, writeParams } from './values.ts';
import type { Limit } from '../driver.ts';
import type { PostgresConversation } from './conversation.ts';
import type { PostgresTypes } from './types.ts';
import type { Params } from '../values.ts';

/** What is run, and for which rows. */
export interface Many {
  readonly text: string;
  /** Of the statement that is prepared; empty when none is. */
  readonly name: string;
  readonly placeholders: number;
  /** Of the values; undefined where they were not described: then all are text. */
  readonly oids: readonly number[] | undefined;
  readonly first: Params;
  readonly source: Iterator<Params>;
  readonly limit: Limit | undefined;
}

const TEXT_FORMATS = new Uint8Array(0);
/** Not the name of any portal. */
const NO_PORTAL = 'svc_undo';

/** Runs it for all rows or for none: the rows affected. Nobody else may write meanwhile. */
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
  finished.catch(() => undefined); // looked at below
  let failure: { readonly error: unknown } | undefined;
  try {
    await writePairs(conversation, types, many, exchange);
  } catch (error) {
    failure = { error };
    if (wasIdle) writer.execute(NO_PORTAL, 0); // the error undoes what came before the Sync; in a transaction its owner does that
  }
  writer.sync();
  conversation.flushSoon();
  if (failure === undefined) return (await finished).affectedRows;
  await finished.catch(() => undefined); // that of the value, or of whoever made it, came first
  throw failure.error;
}

async function writePairs(
  conversation: PostgresConversation,
  types: PostgresTypes,
  many: Many,
  exchange: Exchange,
): Promise<void> {
  let params = many.first;
  for (let row = 1; exchange.error === undefined && !conversation.isEnded; row++) {
    writePair(conversation, types, many, params, row);
    exchange.pairsWritten++;
    const room = conversation.room();
    if (room !== undefined) await room;
    const next = many.source.next();
    if (next.done === true) return;
    params = next.value;
  }
}

function writePair(
  { writer }: PostgresConversation,
  types: PostgresTypes,
  { name, placeholders, oids }: Many,
  params: Params,
  row: number,
): void {
  const before = writer.length;
  try {
    checkCount(params, placeholders, row);
    writer.beginBind('', name, params.length);
    writeParams(writer, params, oids, types, row);
    writer.endBind(TEXT_FORMATS);
    writer.execute('', 0);
  } catch (error) {
    writer.rewind(before);
    throw error;
  }
}
