/**
 * Long bodies in slices: none is too long to tell how far its client has read, and together they are the body.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc, TextResponse } from 'svc';
import { slicesOf } from '../../src/http/send-pieces.ts';
import { SLICE_BYTES } from '../../src/http/slow-readers.ts';
import { collectedLog } from '../support/collected-log.ts';
import { seeded } from '../support/random.ts';

test('slicesOf() cuts texts and bytes into slices that are together what they were, and none too long, on generated texts', () => {
  const random = seeded(31);
  const LETTERS = ['a', 'é', '語', '😀', '😀', '\ud83d', '\ude00'];
  for (let round = 0; round < 60; round++) {
    const letters = LETTERS.slice(0, 1 + random(LETTERS.length));
    let text = 'b'.repeat(random(3));
    while (text.length < SLICE_BYTES * 2) text += letters[random(letters.length)]!.repeat(1 + random(20_000));
    const whole = Buffer.from(text);
    for (const isAscii of letters.length === 1 ? [true, false] : [false]) {
      const slices = [...slicesOf(text, isAscii)].map((slice) => Buffer.from(slice as string));
      assert.ok(slices.length > 1 && slices.every(({ length }) => length > 0 && length <= SLICE_BYTES));
      assert.ok(Buffer.concat(slices).equals(whole)); // lone surrogates are U+FFFD in both
    }
    const slices = [...slicesOf(whole)] as Uint8Array[];
    assert.ok(slices.every(({ length }) => length > 0 && length <= SLICE_BYTES));
    assert.ok(Buffer.concat(slices).equals(whole));
  }
});

test('A long text arrives as it is, with its length, whatever its characters', async () => {
  const texts = ['a'.repeat(SLICE_BYTES + 1), 'é'.repeat(SLICE_BYTES), `a${'😀'.repeat(SLICE_BYTES)}`, `語\ud83d${'語'.repeat(SLICE_BYTES * 3)}`];
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/text/{index:int}', ({ params: { index } }) => texts[index]!);
  app.get('/json/{index:int}', ({ params: { index } }) => ({ text: texts[index]! }));
  const { url, close } = await app.run({ port: 0, handleSignals: false });
  try {
    for (const [index, text] of texts.entries()) {
      const response = await fetch(`${url}/text/${index}`);
      assert.equal(response.headers.get('content-length'), String(Buffer.byteLength(text)));
      assert.ok(await response.text() === text.toWellFormed(), `text ${index}`);
      assert.deepEqual(await (await fetch(`${url}/json/${index}`)).json(), { text });
    }
  } finally {
    await close();
  }
});

test('Before a long text, fields go out as they are: a character of Latin-1 is one byte', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/', () => new TextResponse('é'.repeat(SLICE_BYTES), { headers: { 'X-Name': 'café' } }));
  const { url, close } = await app.run({ port: 0, handleSignals: false });
  try {
    const response = await fetch(url);
    assert.equal(response.headers.get('x-name'), 'café');
    assert.ok(await response.text() === 'é'.repeat(SLICE_BYTES));
  } finally {
    await close();
  }
});
