/**
 * Servers that repeatedly stop reading while many rows are written: rows are produced only while there is
 * room for them.
 */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { ConnectionLost } from '../../../src/db/index.ts';
import { MySqlConversation } from '../../../src/db/mysql/conversation.ts';
import { runMany } from '../../../src/db/mysql/many.ts';
import { MySqlRunner } from '../../../src/db/mysql/runner.ts';
import { PacketReader } from '../../../src/db/mysql/wire.ts';
import { PostgresConversation } from '../../../src/db/postgres/conversation.ts';
import { copyRows } from '../../../src/db/postgres/copy.ts';
import { RepeatableRows, writeMany } from '../../../src/db/postgres/many.ts';
import { PostgresTypes } from '../../../src/db/postgres/types.ts';
import { MessageReader } from '../../../src/db/postgres/messages.ts';
import { MessageWriter } from '../../../src/db/postgres/writer.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { CAPABILITIES, OK, packet, prepared } from '../../support/mysql-bytes.ts';
import { PLAIN } from '../../support/postgres.ts';
import * as write from '../../support/postgres-bytes.ts';
import { turn } from '../../support/turn.ts';
import type { Socket } from 'node:net';
import type { MySqlConnectionOptions } from '../../../src/db/mysql/url.ts';
import type { Params } from '../../../src/db/values.ts';

const ROWS = 200;
const VALUE = 'x'.repeat(10_000);
/** Maximum buffered bytes: the threshold of sending, and the row that exceeds it. */
const MOST_AT_ONCE = (64 * 1024) / VALUE.length + 2;
const TURNS = 10;
/** Time limit of a test. */
const MAX_TURNS = 10_000;

/** A socket whose server reads short requests at once, and others only on `takeIn()`. */
class SlowSocket extends Duplex {
  readonly #received: Buffer[] = [];
  #taken: (() => void) | undefined;
  isSlow = true;
  onShort: (request: Buffer) => void = () => undefined;

  constructor() {
    super({ writableHighWaterMark: 16 * 1024 });
  }

  get received(): Buffer {
    return Buffer.concat(this.#received);
  }

  override _read(): void {
    /* replies do not use this path */
  }

  override _write(chunk: Buffer, _: string, done: () => void): void {
    this.#received.push(chunk);
    if (this.isSlow && chunk.length >= 16 * 1024) this.#taken = done;
    else {
      done();
      this.onShort(chunk);
    }
  }

  /** Reads the pending bytes. */
  takeIn(): void {
    const taken = this.#taken;
    this.#taken = undefined;
    taken?.();
  }

  /** Resolves when more was written than the server reads. */
  stalled(): Promise<void> {
    return until(() => this.writableNeedDrain, 'the socket has room');
  }
}

async function until(isSo: () => boolean, problem: string): Promise<void> {
  for (let count = 0; !isSo(); count++) {
    assert.ok(count < MAX_TURNS, problem);
    await turn();
  }
}

/** Rows that count how many were produced, and whether the iteration was ended. */
function counted(row: (id: number) => Params): {
  readonly rows: Iterable<Params>;
  readonly state: { made: number; isLeft: boolean };
} {
  const state = { made: 0, isLeft: false };
  function* rows(): Generator<Params, void, undefined> {
    try {
      for (let id = 0; id < ROWS; id++) {
        state.made++;
        yield row(id);
      }
    } finally {
      state.isLeft = true;
    }
  }
  return { rows: rows(), state };
}

interface Under {
  readonly socket: SlowSocket;
  /** Begins to write. Resolves to the number of affected rows. */
  readonly run: (rows: Iterable<Params>) => Promise<number>;
  /** Replies to all requests. */
  readonly answer: () => void;
  readonly most: number;
}

function onPostgres(how: 'executeMany' | 'insertMany'): Under {
  const socket = new SlowSocket();
  const reader = new MessageReader((type, bytes, at, end) => conversation.onMessage(type, bytes, at, end));
  const conversation = new PostgresConversation({
    socket: socket as unknown as Socket,
    reader,
    writer: new MessageWriter(),
    parameters: new Map(),
    processId: 1,
    cancel: () => Promise.resolve(),
    clock: new ManualClock(),
    log: undefined,
  });
  const types = new PostgresTypes('auto');
  if (how === 'insertMany')
    socket.onShort = (request) => {
      if (request.includes('copy t')) conversation.onBytes(write.message('G', Buffer.from([0, 0, 1, 0, 0])));
    };
  const pair = Buffer.concat([write.message('2'), write.commandComplete('INSERT 0 1')]);
  // executeMany() asks for the reply to its first row with a Flush
  if (how === 'executeMany')
    socket.onShort = (request) => {
      if (request.toString() === 'H\0\0\0\x04')
        conversation.onBytes(Buffer.concat([write.message('1'), pair]));
    };
  return {
    socket,
    most: MOST_AT_ONCE,
    run(rows) {
      if (how === 'insertMany')
        return copyRows(conversation, types, {
          text: 'copy t from stdin',
          oids: [25],
          rows: rows[Symbol.iterator](),
          limit: undefined,
        });
      return writeMany(conversation, types, {
        text: 'insert into t values ($1)',
        name: '',
        placeholders: 1,
        oids: undefined,
        rows: new RepeatableRows(rows),
        limit: undefined,
      });
    },
    answer() {
      conversation.onBytes(
        Buffer.concat(
          how === 'insertMany'
            ? [write.commandComplete(`COPY ${ROWS}`), write.ready()]
            : [...Array.from({ length: ROWS - 1 }, () => pair), write.ready()],
        ),
      );
    },
  };
}

const OPTIONS: MySqlConnectionOptions = {
  dialect: 'mariadb',
  user: 'u',
  password: undefined,
  database: undefined,
  tls: PLAIN,
  plugins: ['mysql_native_password'],
  serverPublicKey: undefined,
  allowsKeyRetrieval: false,
  applicationName: 'test',
  parameters: {},
  isStrict: true,
  isReadOnly: false,
  pipelines: true,
  mustWrite: false,
  statementCache: 10,
  values: { int8: 'auto', zeroDates: 'null', hasBooleans: false, parsesJson: true, timestamps: 'date' },
  clock: new ManualClock(),
  log: undefined,
  slowStatementMs: 0,
};

function onMySql(): Under {
  const socket = new SlowSocket();
  const reader = new PacketReader((bytes, at, end, sequence) =>
    conversation.onPacket(bytes, at, end, sequence),
  );
  const dialogue = { capabilities: CAPABILITIES, extended: 0, values: OPTIONS.values };
  const conversation = new MySqlConversation({
    socket: socket as unknown as Socket,
    reader,
    dialogue,
    status: 2,
    cancel: () => Promise.resolve(),
    clock: OPTIONS.clock,
  });
  socket.onShort = (request) => {
    if (request[4] === 0x16) conversation.onBytes(prepared(1));
  };
  return {
    socket,
    most: MOST_AT_ONCE,
    run: (rows) =>
      runMany(new MySqlRunner(conversation, OPTIONS, false), 'update t set a = ?', rows, undefined),
    answer() {
      const executions = commandsIn(socket.received).filter((command) => command === 0x17).length;
      const affected = Array.from(
        { length: executions },
        (_, index) => Math.floor((ROWS * (index + 1)) / executions) - Math.floor((ROWS * index) / executions),
      );
      conversation.onBytes(
        Buffer.concat(affected.map((count) => packet(1, Buffer.of(0, count), OK.subarray(2)))),
      );
    },
  };
}

/** First bytes of all packets. */
function commandsIn(received: Buffer): number[] {
  const commands: number[] = [];
  for (let at = 0; at < received.length; at += 4 + received.readUIntLE(at, 3))
    commands.push(received[at + 4]!);
  return commands;
}

for (const [name, make] of [
  ['PostgreSQL: executeMany()', () => onPostgres('executeMany')],
  ['PostgreSQL: insertMany() by COPY', () => onPostgres('insertMany')],
  ['MySQL: executeMany()', () => onMySql()],
] as const) {
  test(`${name} takes no further rows from its source while the server does not read`, async () => {
    const { socket, run, answer, most } = make();
    const { rows, state } = counted((id) => [`${id}${VALUE}`]);
    const running = run(rows);
    let before = 0;
    for (let stall = 0; stall < 4; stall++) {
      await socket.stalled();
      const { made } = state;
      assert.ok(made > before && made - before <= most, `${made - before} rows at stall ${stall}`);
      for (let count = 0; count < TURNS; count++) await turn();
      assert.equal(state.made, made, `rows were made at stall ${stall}, and the server reads none`);
      before = made;
      socket.takeIn();
    }
    socket.isSlow = false;
    await turn();
    socket.takeIn();
    await until(() => state.isLeft, 'not all rows are asked for');
    for (let count = 0; count < TURNS; count++) await turn();
    answer();
    assert.equal(await running, ROWS);
    assert.equal(state.made, ROWS);
    socket.destroy();
  });

  test(`${name} takes no further rows and throws ConnectionLost if the connection breaks while the server does not read`, async () => {
    const { socket, run } = make();
    const { rows, state } = counted((id) => [`${id}${VALUE}`]);
    const running = assert.rejects(run(rows), ConnectionLost);
    await socket.stalled();
    socket.takeIn();
    await turn();
    await socket.stalled();
    const { made } = state;
    socket.destroy(new Error('broken'));
    await running;
    assert.ok(state.made <= made + 1 && made < ROWS);
  });
}
