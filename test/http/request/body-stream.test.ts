import assert from 'node:assert/strict';
import test from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ClientDisconnected } from '../../../src/base/errors.ts';
import { ByteBudget } from '../../../src/http/request/budget.ts';
import { chunksOf, joined, readAhead, receive } from '../../../src/http/request/body-stream.ts';
import { fakeRequest } from '../../support/transport.ts';
import { seeded } from '../../support/random.ts';
import type { BodySource } from '../../../src/http/request/body-stream.ts';
import type { RequestInput } from '../../support/transport.ts';

/** A body whose bytes are not counted. */
const HOLDER = { budget: undefined, heldBytes: 0, holderIndex: 0, client: '' };
const source = (input: RequestInput = {}): ReturnType<typeof fakeRequest>['incoming'] =>
  fakeRequest(input).incoming;
async function drained(chunks: AsyncIterable<Uint8Array>): Promise<string[]> {
  const texts: string[] = [];
  for await (const chunk of chunks) texts.push(Buffer.from(chunk).toString());
  return texts;
}

/** Calls receive(), and returns a promise of its result. */
async function received(
  ...args: [source: BodySource, declared: number, maxBytes: number]
): Promise<Uint8Array> {
  return receive(...args, HOLDER);
}

test('receive() returns a single chunk without a copy', async () => {
  const incoming = source();
  const chunk = Buffer.from('whole');
  const body = received(incoming, 5, 5);
  await incoming.pushAll([chunk]);
  assert.equal(await body, chunk);
});

test('receive() returns a body that has arrived completely as a value, even if the client has left', async () => {
  for (const isGone of [false, true]) {
    const incoming = source({ body: 'whole' });
    if (isGone) incoming.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(String(receive(incoming, 5, 5, HOLDER)), 'whole', String(isGone));
  }
});

test('receive() returns all chunks of a body that has arrived completely', async () => {
  const incoming = source();
  await incoming.pushAll(['abc', 'def', 'ghi']);
  assert.equal(Buffer.from(await receive(incoming, -1, 9, HOLDER)).toString(), 'abcdefghi');
});

test('receive() joins many chunks, and accepts a body of exactly the limit', async () => {
  const incoming = source();
  const body = received(incoming, -1, 9);
  await incoming.pushAll(['abc', 'def', 'ghi']);
  assert.equal(Buffer.from(await body).toString(), 'abcdefghi');
});

test('receive() returns an empty body for an empty stream, and for a stream that has already ended', async () => {
  const incoming = source();
  const body = received(incoming, 0, 0);
  await incoming.pushAll([]);
  assert.equal((await body).length, 0);
  assert.ok(incoming.readableEnded);
  assert.equal((await received(incoming, -1, 0)).length, 0);
});

test('receive() refuses a declared length beyond its limit before it reads the body', async () => {
  const incoming = source();
  await assert.rejects(received(incoming, 6, 5), { status: 413, detail: /5 bytes/ });
  assert.equal(incoming.listenerCount('data'), 0);
});

test('receive() refuses a body at the first byte beyond its limit, whatever length was declared, and stops reading', async () => {
  for (const declared of [-1, 0, 3]) {
    const incoming = source();
    const body = received(incoming, declared, 5);
    incoming.push('abc');
    incoming.push('def');
    await assert.rejects(body, { status: 413 });
    assert.ok(incoming.isPaused());
    incoming.destroy(); // and the callback is called only once
  }
});

test('if the client leaves before or during the body, receive() rejects with ClientDisconnected', async () => {
  const incoming = source();
  const body = received(incoming, 10, 10);
  incoming.push('abc');
  incoming.destroy();
  await assert.rejects(body, ClientDisconnected);
  await assert.rejects(received(incoming, 10, 10), ClientDisconnected);
});

test('chunksOf() yields chunks as they arrive, and ends with the body', async () => {
  const incoming = source();
  const texts = drained(chunksOf(incoming, -1, 6));
  await incoming.pushAll(['abc', 'def']);
  assert.deepEqual(await texts, ['abc', 'def']);
  assert.deepEqual(await drained(chunksOf(incoming, -1, 6)), []);
});

test('chunksOf() refuses a body if its declared length or its received bytes exceed the limit', async () => {
  await assert.rejects(drained(chunksOf(source(), 7, 6)), { status: 413 });
  const incoming = source();
  const seen: string[] = [];
  const reading = (async () => {
    for await (const chunk of chunksOf(incoming, -1, 5)) seen.push(Buffer.from(chunk).toString());
  })();
  await Promise.all([assert.rejects(reading, { status: 413 }), incoming.pushAll(['abc', 'def'])]);
  assert.deepEqual(seen, ['abc']);
  assert.ok(!incoming.destroyed, "what is left is the transport's affair");
});

test('if a for-await loop over chunksOf() ends early, the rest of the body stays unread', async () => {
  const incoming = source();
  incoming.push('abc');
  for await (const chunk of chunksOf(incoming, -1, 100)) {
    assert.equal(String(chunk), 'abc');
    break;
  }
  assert.ok(!incoming.destroyed);
  const rest = received(incoming, -1, 100);
  await incoming.pushAll(['def']);
  assert.equal(String(await rest), 'def');
});

test('if the client leaves before or during the body, chunksOf() throws ClientDisconnected', async () => {
  const incoming = source();
  const reading = drained(chunksOf(incoming, -1, 100));
  incoming.push('abc');
  await new Promise((resolve) => setImmediate(resolve));
  incoming.destroy();
  await assert.rejects(reading, ClientDisconnected);
  await assert.rejects(drained(chunksOf(incoming, -1, 100)), ClientDisconnected);
});

test('if the body of a for-await loop over chunksOf() throws, the loop throws the same error object', async () => {
  const incoming = source({ body: 'abc' });
  const failure = new Error('mine');
  await assert.rejects(
    (async () => {
      for await (const chunk of chunksOf(incoming, -1, 100))
        throw chunk.length > 0 ? failure : new Error('empty');
    })(),
    (error) => error === failure,
  );
});

test('receive() joins small and large chunks in order', async () => {
  const random = seeded(7);
  const chunks = Array.from({ length: 3_000 }, (_, index) =>
    Buffer.alloc(index % 500 === 499 ? 4_096 + random(5_000) : 1 + random(40), index),
  );
  const incoming = source();
  const body = received(incoming, -1, Infinity);
  for (const chunk of chunks) incoming.push(chunk);
  incoming.push(null);
  assert.deepEqual(await body, Buffer.concat(chunks));
});

const EVENTS = ['data', 'end', 'close', 'error', 'readable'] as const;

for (const [how, isEnough, act, expected] of [
  ['it has read enough', (text) => text === 'b', (incoming) => incoming.push('b'), 'ab'],
  ['the body ends', () => false, (incoming) => incoming.push(null), 'a'],
  ['the client leaves', () => false, (incoming) => incoming.destroy(), ClientDisconnected],
  [
    'its function throws',
    (text) => {
      if (text === 'b') throw new SyntaxError('b');
      return false;
    },
    (incoming) => incoming.push('b'),
    SyntaxError,
  ],
] as readonly (readonly [
  string,
  (text: string) => boolean,
  (incoming: ReturnType<typeof source>) => unknown,
  string | (new () => Error),
])[])
  test(`when ${how}, readAhead() leaves no listeners, and calls its function for no further chunk`, async () => {
    const incoming = source();
    const before = EVENTS.map((event) => incoming.listenerCount(event));
    const asked: string[] = [];
    const reading = readAhead(
      incoming,
      (chunk) => {
        const text = Buffer.from(chunk).toString();
        asked.push(text);
        return isEnough(text);
      },
      HOLDER,
    );
    incoming.push('a');
    await new Promise((resolve) => setImmediate(resolve));
    act(incoming);
    if (typeof expected === 'string') assert.equal(Buffer.concat(await reading).toString(), expected);
    else await assert.rejects(reading, expected);
    assert.deepEqual(
      EVENTS.map((event) => incoming.listenerCount(event)),
      before,
    );
    const count = asked.length;
    if (incoming.readableEnded || incoming.destroyed) return;
    assert.equal(incoming.isPaused(), true);
    const rest = drained(chunksOf(incoming, -1, 9, [Buffer.from('z')]));
    await incoming.pushAll(['c', 'd']);
    assert.equal((await rest).join(''), 'zcd');
    assert.equal(asked.length, count);
  });

test('readAhead() returns a body that has arrived completely in one part, and asks its function once', async () => {
  const incoming = source({ body: 'whole' });
  await new Promise((resolve) => setImmediate(resolve));
  const asked: string[] = [];
  const ahead = await readAhead(incoming, (chunk) => asked.push(Buffer.from(chunk).toString()) > 9, HOLDER);
  assert.deepEqual([ahead.map(String), asked], [['whole'], ['whole']]);
});

for (const isEnough of [true, false])
  test(`readAhead() counts the bytes that it has read for the budget (enough: ${isEnough})`, async () => {
    const budget = new ByteBudget(1_000);
    const held = { budget, heldBytes: 0, holderIndex: 0, client: '' };
    const incoming = source();
    const reading = readAhead(incoming, (chunk) => isEnough && chunk.length === 3, held);
    await incoming.pushAll(['ab', 'cde']);
    await reading;
    assert.deepEqual([held.heldBytes, budget.heldBytes], [5, 5]);
    await assert.rejects(
      async () => {
        const large = source();
        const tooMuch = readAhead(large, () => false, { budget, heldBytes: 0, holderIndex: 0, client: 'b' });
        large.push('x'.repeat(2_000));
        await tooMuch;
      },
      { status: 503 },
    );
  });

test('readAhead() and joined() join small chunks in order, and create no object for each chunk', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const incoming = source();
  const reading = readAhead(incoming, (chunk) => chunk[0] === 0x7a, HOLDER);
  for (const text of ['ab', ...Array.from({ length: 60_000 }, (_, index) => String(index % 10)), 'z'])
    incoming.push(text);
  const ahead = await reading;
  assert.equal(Buffer.concat(ahead).toString(), `ab${'0123456789'.repeat(6_000)}z`);
  assert.ok(ahead.length < 30, String(ahead.length));
  let grown = 0;
  const bytes = await joined(
    (async function* () {
      const used = (): number => {
        collectGarbage();
        return process.memoryUsage().heapUsed;
      };
      const before = used();
      for (let index = 0; index < 100_000; index++) yield Buffer.of(index);
      grown = used() - before;
    })(),
    HOLDER,
  );
  assert.deepEqual(Buffer.from(bytes), Buffer.from(Array.from({ length: 100_000 }, (_, index) => index)));
  assert.ok(grown < 2_000_000, `${grown}`);
});
