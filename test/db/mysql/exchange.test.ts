/** Replies of MySQL and MariaDB packet by packet: results with and without end packets, several results, and errors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Exchange } from '../../../src/db/mysql/exchange.ts';
import { CAPABILITY, MARIADB } from '../../../src/db/mysql/wire.ts';
import { ProtocolViolation, StatementError, UniqueViolation } from '../../../src/db/errors.ts';
import { column } from '../../support/mysql-bytes.ts';
import type { Dialogue, ExchangeDeps } from '../../../src/db/mysql/exchange.ts';
import type { RowPlan } from '../../../src/db/mysql/rows.ts';

const MORE_RESULTS = 8;

function dialogue({ hasEnds = false, extended = 0 } = {}): Dialogue {
  return {
    capabilities: hasEnds ? 0 : CAPABILITY.deprecateEof,
    extended,
    values: { int8: 'auto', zeroDates: 'null', hasBooleans: true, parsesJson: true, timestamps: 'date' },
  };
}

function exchangeOf(options: Partial<ExchangeDeps>, talk: Dialogue = dialogue()): Exchange {
  return new Exchange({ sql: 'select 1', kind: 'query', wanted: 'objects', sequence: 1, ...options }, talk);
}

/** Gives packets to an exchange. Returns what it returned for each. */
function feed(exchange: Exchange, ...packets: readonly Buffer[]): boolean[] {
  return packets.map((body) => {
    const bytes = Buffer.concat([Buffer.of(0xee), body, Buffer.of(0xee)]);
    const isLast = exchange.onPacket(bytes, 1, bytes.length - 1);
    bytes.fill(0xee);
    return isLast;
  });
}

const count = (...bytes: readonly number[]): Buffer => Buffer.from(bytes);
const row = (...values: readonly string[]): Buffer =>
  Buffer.concat(values.map((value) => Buffer.from([value.length, ...Buffer.from(value)])));
/** An OK packet: rows affected, last id and status flags. */
const ok = (affected = 0, id = 0, status = 0): Buffer => Buffer.from([0, affected, id, 2 | status, 0, 0, 0]);
const eof = (status = 0): Buffer => Buffer.from([0xfe, 0, 0, 2 | status, 0]);
const DUPLICATE = Buffer.from([0xff, 0x26, 0x04, ...Buffer.from('#23000Duplicate')]);

/** Returns the packets of a result as servers with or without end packets send it. */
function result(hasEnds: boolean, names: readonly string[], rows: readonly Buffer[], status = 0): Buffer[] {
  // the end of the rows is an OK packet with another first byte, or an EOF packet
  const end = hasEnds ? eof(status) : Buffer.from([0xfe, 0, 0, 2 | status, 0, 0, 0]);
  return [count(names.length), ...names.map(column), ...(hasEnds ? [eof()] : []), ...rows, end];
}

for (const hasEnds of [true, false]) {
  const talk = dialogue({ hasEnds });
  const how = hasEnds ? 'with end packets' : 'without end packets';

  for (const [wanted, rows] of [
    [
      'objects',
      [
        { a: 1, b: 2 },
        { a: 3, b: 4 },
      ],
    ],
    [
      'lists',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ['first', [{ a: 1, b: 2 }]],
    ['firstList', [[1, 2]]],
    ['none', []],
  ] as const)
    test(`a result of MySQL ${how} gives the wanted rows: ${wanted}`, () => {
      const exchange = exchangeOf({ wanted }, talk);
      const packets = result(hasEnds, ['a', 'b'], [row('1', '2'), row('3', '4')]);
      assert.deepEqual(
        feed(exchange, ...packets),
        packets.map((_, index) => index === packets.length - 1),
      );
      assert.deepEqual([exchange.rows, exchange.error, exchange.isOver], [rows, undefined, true]);
    });

  test(`each of several results of MySQL has its own columns, and counts of rows are added (${how})`, () => {
    const exchange = exchangeOf({ wanted: 'sets' }, talk);
    const packets = [
      ...result(hasEnds, ['a'], [row('1'), row('2')], MORE_RESULTS),
      ok(3, 9, MORE_RESULTS),
      ...result(hasEnds, ['b', 'c'], [row('3', '4')], MORE_RESULTS),
      ...result(hasEnds, ['b', 'c'], [], MORE_RESULTS),
      ok(2),
    ];
    const ended = feed(exchange, ...packets);
    assert.deepEqual([ended.indexOf(true), ended.at(-1)], [packets.length - 1, true]);
    assert.deepEqual(exchange.sets, [[{ a: 1 }, { a: 2 }], [{ b: 3, c: 4 }], []]);
    assert.deepEqual([exchange.affectedRows, exchange.lastInsertId, exchange.rows], [5, 9, []]);
  });

  test(`a statement of MySQL that returns several results without fetchSets() fails after all of them (${how})`, () => {
    for (const [wanted, fails] of [
      ['objects', true],
      ['first', true],
      ['none', false],
    ] as const) {
      const exchange = exchangeOf({ wanted }, talk);
      const ended = feed(
        exchange,
        ...result(hasEnds, ['a'], [row('1')], MORE_RESULTS),
        ...result(hasEnds, ['b'], [row('2')]),
      );
      assert.equal(ended.indexOf(true), ended.length - 1);
      assert.deepEqual(exchange.rows, wanted === 'none' ? [] : [{ a: 1 }]);
      assert.equal(exchange.error instanceof StatementError, fails);
    }
  });

  test(`MariaDB may omit the descriptions of columns that the client has cached (${how})`, () => {
    const cached = dialogue({ hasEnds, extended: MARIADB.cacheMetadata });
    const memory: { plan: RowPlan | undefined } = { plan: undefined };
    const end = hasEnds ? eof() : Buffer.from([0xfe, 0, 0, 2, 0, 0, 0]);
    const ends = hasEnds ? [eof()] : [];
    const binary = Buffer.from([0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    const request = { kind: 'execute', memory } as const;
    const first = exchangeOf(request, cached);
    feed(first, count(1, 1), column('a'), ...ends, binary, end);
    const second = exchangeOf(request, cached);
    const ended = feed(second, count(1, 0), ...ends, binary, binary, end);
    assert.deepEqual(ended, [...ended.slice(1).fill(false), true]);
    assert.deepEqual([first.rows, second.rows], [[{ a: 7 }], [{ a: 7 }, { a: 7 }]]);
    const renamed = exchangeOf(request, cached);
    feed(renamed, count(1, 1), column('b'), ...ends, binary, end);
    assert.deepEqual(renamed.rows, [{ b: 7 }]);
    assert.equal(memory.plan, renamed.plan);
    for (const [what, options, before, head] of [
      ['without a plan', { kind: 'execute' }, [], count(1, 0)],
      ['of another number', request, [], count(2, 0)],
      [
        'of the second result',
        { ...request, wanted: 'sets' },
        [count(1, 0), ...ends, binary, withMore(end)],
        count(1, 0),
      ],
    ] as const) {
      const exchange = exchangeOf(options, cached);
      feed(exchange, ...before);
      assert.throws(() => feed(exchange, head), /rows without column descriptions/, what);
    }
  });

  test(`MySQL describes the parameters and the columns of a prepared statement (${how})`, () => {
    const ends = hasEnds ? [eof()] : [];
    for (const [parameters, columns] of [
      [0, 0],
      [2, 0],
      [0, 2],
      [2, 2],
    ] as const) {
      const exchange = exchangeOf({ kind: 'prepare' }, talk);
      const packets = [
        Buffer.from([0, 7, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0]),
        ...(parameters === 0 ? [] : [column('?'), column('?'), ...ends]),
        ...(columns === 0 ? [] : [column('a'), column('b'), ...ends]),
      ];
      const ended = feed(exchange, ...packets);
      assert.deepEqual([ended.indexOf(true), exchange.statementId], [packets.length - 1, 7]);
      assert.equal(exchange.parameters, parameters);
      assert.deepEqual(
        exchange.plan?.columns.map(({ name }) => name),
        columns === 0 ? undefined : ['a', 'b'],
      );
    }
  });
}

function withMore(end: Buffer): Buffer {
  const more = Buffer.from(end);
  more[3]! |= MORE_RESULTS;
  return more;
}

test('an exchange with MySQL is over when it is closed and each of its requests has its reply', () => {
  const exchange = exchangeOf({ kind: 'execute', wanted: 'none', isOpen: true, sequence: 2 });
  assert.equal(exchange.sequence, 2);
  assert.deepEqual(feed(exchange, ok(1)), [false]);
  assert.equal(exchange.sequence, 1);
  exchange.add(1);
  exchange.add(3);
  assert.deepEqual(feed(exchange, ok(1)), [false]);
  assert.deepEqual([exchange.isOver, exchange.sequence], [false, 3]);
  exchange.close();
  assert.equal(exchange.isOver, false);
  assert.deepEqual(feed(exchange, ok(1)), [true]);
  assert.deepEqual([exchange.isOver, exchange.affectedRows], [true, 3]);
  assert.throws(() => feed(exchange, ok()), /although no request waits for a reply/);
  const idle = exchangeOf({ kind: 'execute', isOpen: true });
  feed(idle, ok());
  assert.equal(idle.isOver, false);
  idle.close();
  assert.equal(idle.isOver, true);
});

test('an exchange with MySQL keeps the cached decoders while the descriptions of the columns stay equal', () => {
  const memory: { plan: RowPlan | undefined } = { plan: undefined };
  const binary = Buffer.from([0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
  const run = (names: readonly string[]): Exchange => {
    const exchange = exchangeOf({ kind: 'execute', memory });
    feed(exchange, ...result(false, names, [binary]));
    assert.deepEqual(exchange.rows, [{ [names[0]!]: 7, [names[1]!]: 8 }]);
    assert.equal(memory.plan, exchange.plan);
    return exchange;
  };
  const first = run(['a', 'b']);
  assert.equal(run(['a', 'b']).plan, first.plan);
  for (const names of [
    ['a', 'c'],
    ['c', 'b'],
  ]) {
    const changed = run(names);
    assert.notEqual(changed.plan, first.plan);
    assert.equal(run(names).plan, changed.plan);
    assert.notEqual(run(['a', 'b']).plan, changed.plan);
  }
  const text = exchangeOf({ kind: 'query', memory });
  feed(text, ...result(false, ['a', 'b'], [row('7', '8')]));
  assert.deepEqual([text.rows, text.plan?.isText], [[{ a: 7, b: 8 }], true]);
});

test('a cursor of MySQL gives further rows without descriptions', () => {
  const binary = Buffer.from([0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
  const opened = exchangeOf({ kind: 'execute' });
  feed(opened, ...result(false, ['a'], []));
  const fetching = exchangeOf({ kind: 'fetch', plan: opened.plan });
  assert.deepEqual(feed(fetching, binary, binary, Buffer.from([0xfe, 0, 0, 0x82, 0, 0, 0])), [
    false,
    false,
    true,
  ]);
  assert.deepEqual([fetching.rows, fetching.status], [[{ a: 7 }, { a: 7 }], 0x82]);
});

test('an exchange with MySQL has a number of the next reply only between replies, and no status after an error', () => {
  const exchange = exchangeOf({ isOpen: true, sequence: 5 });
  const seen: unknown[] = [exchange.sequence];
  for (const body of result(false, ['a'], [row('1')])) {
    feed(exchange, body);
    seen.push(exchange.sequence);
  }
  assert.deepEqual(seen, [5, undefined, undefined, undefined, 1]);
  assert.equal(exchange.status, 2);
  exchange.add(1);
  feed(exchange, DUPLICATE);
  assert.equal(exchange.status, undefined);
});

test('the first error of a reply of MySQL is kept, and reported at once to a writer that waits', () => {
  let calls = 0;
  const exchange = exchangeOf({ kind: 'execute', wanted: 'none', isOpen: true });
  exchange.onProgress = () => void calls++;
  exchange.add(1);
  exchange.close();
  assert.deepEqual(feed(exchange, DUPLICATE), [false]);
  assert.ok(exchange.error instanceof UniqueViolation);
  assert.deepEqual([calls, exchange.status], [1, undefined]);
  const { error } = exchange;
  assert.deepEqual(feed(exchange, Buffer.from([0xff, 0x28, 0x04, ...Buffer.from('#42000no')])), [true]);
  assert.equal(exchange.error, error);
});

test('an error of MySQL ends a reply in each of its parts', () => {
  for (const hasEnds of [true, false]) {
    const packets = result(hasEnds, ['a', 'b'], [row('1', '2')]);
    for (let part = 0; part < packets.length; part++) {
      const exchange = exchangeOf({}, dialogue({ hasEnds }));
      const ended = feed(exchange, ...packets.slice(0, part), DUPLICATE);
      assert.deepEqual([ended.at(-1), exchange.error instanceof UniqueViolation], [true, true], String(part));
      assert.equal(exchange.isOver, true);
    }
  }
});

test('rows of "returning" count as rows affected, if the caller wants none', () => {
  for (const [sql, affected] of [
    ['insert into a values (1) returning id', 2],
    ['update a set b = 1 returning id', 2],
    ['delete from a returning id', 2],
    ['select id from a', 0],
  ] as const) {
    const exchange = exchangeOf({ sql, wanted: 'none' });
    feed(exchange, ...result(false, ['id'], [row('1'), row('2')]));
    assert.equal(exchange.affectedRows, affected, sql);
  }
});

for (const [what, kind, packets, message] of [
  ['an empty packet', 'query', [Buffer.alloc(0)], /an empty packet/],
  ['a request for a file', 'query', [Buffer.of(0xfb)], /LOCAL INFILE/],
  ['a result of no columns', 'query', [Buffer.from([0xfc, 0, 0])], /a result of 0 columns/],
  ['a result of too many columns', 'query', [Buffer.from([0xfd, 0, 0, 1])], /a result of 65536 columns/],
  [
    'extra bytes after the number of columns',
    'query',
    [count(1, 1)],
    /extra bytes after the number of columns/,
  ],
  ['a result as the reply to a command', 'command', [count(1)], /./],
  ['a result as the reply to a preparation', 'prepare', [count(1)], /./],
  ['a row instead of the end of the descriptions', 'query', [count(1), column('a'), row('1')], /./],
] as const)
  test(`an exchange with MySQL refuses ${what}`, () => {
    const exchange = exchangeOf({ kind }, dialogue({ hasEnds: true }));
    assert.throws(
      () => feed(exchange, ...packets),
      (error) => error instanceof ProtocolViolation && message.test(error.message),
    );
  });
