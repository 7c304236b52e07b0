/** Caches of prepared statements: which statement is evicted, and which is closed on the server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PreparedStatements, TextCache } from '../../src/db/statements.ts';

interface Statement {
  readonly name: string | undefined;
}

const statement = (name: string | undefined): Statement => ({ name });

function prepared(capacity: number, ...names: string[]): PreparedStatements<Statement, string> {
  const cache = new PreparedStatements<Statement, string>(capacity, ({ name }) => name);
  for (const name of names) cache.add(`select '${name}'`, statement(name));
  return cache;
}

test('TextCache.add() evicts the least recently used text, and returns its value', () => {
  const cache = new TextCache<string>(2);
  assert.equal(cache.add('a', 'A'), undefined);
  assert.equal(cache.add('b', 'B'), undefined);
  assert.equal(cache.get('a'), 'A');
  assert.equal(cache.add('c', 'C'), 'B');
  assert.deepEqual([cache.peek('a'), cache.peek('b'), cache.peek('c'), cache.size], ['A', undefined, 'C', 2]);
  const one = new TextCache<string>(1);
  assert.deepEqual([one.add('a', 'A'), one.add('b', 'B'), one.peek('b'), one.size], [undefined, 'A', 'B', 1]);
});

test('TextCache.delete() removes one text, and ignores a text that it does not have', () => {
  const cache = new TextCache<string>(2);
  cache.add('a', 'A');
  assert.deepEqual(
    [cache.delete('b'), cache.delete('a'), cache.delete('a'), cache.size],
    [undefined, 'A', undefined, 0],
  );
  for (const text of ['b', 'c', 'd']) cache.add(text, text);
  assert.deepEqual(
    [cache.peek('a'), cache.peek('b'), cache.get('c'), cache.get('d')],
    [undefined, undefined, 'c', 'd'],
  );
});

test('TextCache.add() keeps no text over 15 KiB, and no text when the capacity is 0', () => {
  const cache = new TextCache<number>(2);
  for (const [length, isKept] of [
    [15 * 1024, true],
    [15 * 1024 + 1, false],
  ] as const) {
    const text = 'x'.repeat(length);
    cache.add(text, length);
    assert.equal(cache.peek(text), isKept ? length : undefined);
  }
  const none = new TextCache<number>(0);
  none.add('a', 1);
  assert.equal(none.size, 0);
});

test('PreparedStatements closes the statement that add() evicts, and no other', () => {
  const cache = prepared(2, 'a', 'b');
  assert.deepEqual(cache.takeClosing(), []);
  cache.get("select 'a'");
  assert.deepEqual(cache.add("select 'c'", statement('c')), statement('b'));
  assert.deepEqual(
    ['a', 'b', 'c'].map((name) => cache.isClosing(statement(name))),
    [false, true, false],
  );
  assert.deepEqual(cache.takeClosing(), ['b']);
  assert.deepEqual(cache.takeClosing(), []);
});

test('PreparedStatements closes deleted statements and given handles once, in the order of the calls', () => {
  const cache = prepared(4, 'a', 'b');
  cache.delete("select 'b'");
  cache.delete("select 'unknown'");
  cache.closeHandles('x', 'y');
  cache.close(statement(undefined)); // the server has not prepared this statement
  assert.deepEqual(cache.takeClosing(), ['b', 'x', 'y']);
  assert.equal(cache.size, 1);
});

test('PreparedStatements.reset() removes all statements and closes none, because the server has dropped them', () => {
  const cache = prepared(4, 'a', 'b', 'c');
  cache.delete("select 'c'");
  cache.reset();
  assert.deepEqual([cache.size, cache.takeClosing()], [0, []]);
});
