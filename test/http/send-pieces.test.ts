/**
 * Long bodies in slices: none is too long to tell how far its client has read, and together they are the body. And what of a body
 * arrives whose source fails.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NDJSONResponse, StreamingResponse, Svc, TextResponse } from 'svc';
import { slicesOf } from '../../src/http/send-pieces.ts';
import { SLICE_BYTES } from '../../src/http/slow-readers.ts';
import { collectedLog } from '../support/collected-log.ts';
import { seeded } from '../support/random.ts';
import { RawClient } from '../support/raw-http.ts';

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

test('A source that fails in the turn of its first pieces: they arrive, and the answer is cut', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  async function* failing<T>(...values: T[]): AsyncGenerator<T> { yield* values; throw new Error('no more'); }
  app.get('/texts', () => new StreamingResponse(failing('one', 'two'))).get('/values', () => new NDJSONResponse(failing({ a: 1 }, { a: 2 })));
  app.get('/at-once', () => new StreamingResponse((function* () { yield 'one'; throw new Error('no more'); })()));
  const server = await app.run({ port: 0, handleSignals: false });
  try {
    for (const [path, chunks] of [['/texts', '3\r\none\r\n3\r\ntwo\r\n'], ['/values', '8\r\n{"a":1}\n\r\n8\r\n{"a":2}\n\r\n'], ['/at-once', '3\r\none\r\n']] as const) {
      const client = await RawClient.open(server.port);
      const answer = String(await client.get(path).ended());
      assert.ok(answer.startsWith('HTTP/1.1 200 OK\r\n'), `${path}: ${answer}`);
      assert.equal(answer.slice(answer.indexOf('\r\n\r\n') + 4), chunks); // and not the chunk that ends it
    }
  } finally {
    await server.close();
  }
});
