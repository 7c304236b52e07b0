/**
 * Analysis of function code: parameters, calls of the request, and returned values.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  callsOfRequest,
  givesNothing,
  repliesWithObject,
  takenBy,
} from '../../src/check/reader/functions.ts';
import type { Context } from '../../src/http/contracts.ts';

type Any = (...args: never[]) => unknown;
const items = [{ title: 'a' }];
const page = (text: string): string => text;

test("takenBy() returns the destructuring pattern of a function's first parameter, with nested patterns and default values", () => {
  const patterns: [Any, string | undefined][] = [
    [({ params: { id }, db }: { params: { id: number }; db: number }) => id + db, 'params: { id }, db'],
    [() => 1, ''],
    [
      async function named({ a = { b: 1 }, c }: { a?: object; c: number }) {
        return [a, c];
      },
      'a = { b: 1 }, c',
    ],
    [(ctx: { a: number }) => ctx.a, undefined],
    [((ctx) => ctx) as Any, undefined],
    [Math.max, undefined],
  ];
  for (const [fn, expected] of patterns)
    assert.equal(takenBy(fn)?.replace(/\s+/g, ' ').trim(), expected, String(fn));
});

test('callsOfRequest() finds calls of the given request method in a handler, even if the handler renames "req"', () => {
  const call = String.raw`json\s*\(`;
  const reading: Any[] = [
    ({ req }: { req: Response }) => req.json(),
    (ctx: { req: Response }) => ctx.req.json(),
    ({ req: incoming }: { req: Response }) => incoming.json(),
  ];
  const others: Any[] = [
    async () => (await fetch('http://a.example')).json(),
    ({ req }: Context) => req.text(),
    (upstream: { answer: Response }) => upstream.answer.json(),
  ];
  assert.deepEqual(
    reading.map((fn) => callsOfRequest(fn, call)),
    [true, true, true],
  );
  assert.deepEqual(
    others.map((fn) => callsOfRequest(fn, call)),
    [false, false, false],
  );
});

test('repliesWithObject() returns true if a handler returns an object, and ignores objects that callbacks in the handler return', () => {
  const objects: Any[] = [
    () => ({ a: 1 }),
    () => [{ a: 1 }],
    () => {
      return { a: 1 };
    },
    () => [{ a: 1 }, 201],
    function () {
      if (items.length > 9) return;
      return { a: 1 };
    },
    () => items.map(({ title }) => ({ title })),
    () => {
      const found = items.filter((item) => item.title !== '');
      return found.map((item) => {
        return { ...item };
      });
    },
    (reply: Any) => reply({ a: 1 } as never),
    async () => {
      await Promise.resolve();
      return { a: 1 };
    },
    () => (items.length > 9 ? 'none' : { a: 1 }),
    () => {
      return items[0]?.title === 'a' ? { a: items.length ?? 1 } : 'none';
    },
  ];
  const others: Any[] = [
    () =>
      items
        .map((item) => ({ ...item }))
        .map(({ title }) => title)
        .join(),
    () => page(JSON.stringify(items.map((item) => ({ ...item })))),
    () => {
      items.map((item) => {
        return { ...item };
      });
    },
    () => {
      const first = items.map((item) => {
        return { ...item, x: 1 };
      })[0];
      return page(first?.title ?? '');
    },
    () => {
      function inner(): object {
        return { a: 1 };
      }
      return page(String(inner()));
    },
    () => 'x',
    () => page(items.length > 9 ? String({ a: 1 }) : 'none'),
    () => items[0]?.title ?? 'none',
    () => {
      const a = { b: 1 };
      return a.b;
    },
  ];
  for (const fn of objects) assert.equal(repliesWithObject(fn), true, String(fn));
  for (const fn of others) assert.equal(repliesWithObject(fn), false, String(fn));
});

test('repliesWithObject() examines both branches of a conditional expression in a handler', () => {
  assert.equal(
    repliesWithObject(() => (items.length > 9 ? 'none' : { a: 1 })),
    true,
  );
  assert.equal(
    repliesWithObject(() => (items.length > 9 ? 'none' : { a: 1 })),
    true,
  );
  assert.equal(
    repliesWithObject(() => (items.length > 9 ? 'none' : items.length > 5 ? { a: 1 } : 'few')),
    true,
  );
  assert.equal(
    repliesWithObject(() => (items.length > 9 ? 'none' : page(JSON.stringify({ a: 1 })))),
    false,
  );
  assert.equal(
    repliesWithObject(() => (items.length > 9 ? [{ error: 'many' }, 404] : 'few')),
    false,
  );
});

test('givesNothing() returns true for a function that returns no value, even if a callback inside the function returns one', () => {
  const nothing: Any[] = [
    () => {
      items.map((item) => {
        return item;
      });
    },
    () => {
      if (items.length > 9) return;
      items.pop();
    },
    function* () {
      try {
        yield;
      } finally {
        items.pop();
      }
    },
  ];
  const something: Any[] = [
    () => 1,
    () => {
      return 1;
    },
    function* () {
      yield 1;
    },
    class {
      readonly a = 1;
    } as unknown as Any,
    Math.max,
  ];
  assert.deepEqual(nothing.map(givesNothing), [true, true, true]);
  assert.deepEqual(something.map(givesNothing), [false, false, false, false, false]);
});
