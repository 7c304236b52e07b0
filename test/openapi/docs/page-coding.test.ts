import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { HttpResponse } from 'svc';
import { CodedPage } from '../../../src/openapi/docs/page.ts';

const PARTS = ['<a nonce="', '">é<b nonce="', '">'.repeat(5_000)];

test('CodedPage.write() puts the nonce between the parts, in each content coding', async () => {
  const page = new CodedPage(PARTS);
  for (const [accepted, decode] of [
    ['br', brotliDecompressSync],
    ['gzip', gunzipSync],
    [undefined, (bytes: Uint8Array): Uint8Array => bytes],
  ] as const) {
    for (const nonce of ['AAAA', 'b+/=']) {
      const { body } = await page.write(new HttpResponse(), accepted, nonce);
      assert.equal(Buffer.from(decode(body as Uint8Array)).toString(), PARTS.join(nonce));
    }
  }
});

test('CodedPage.write() sets Content-Encoding and Vary', async () => {
  const { headers } = await new CodedPage(PARTS).write(
    new HttpResponse(null, { headers: { Vary: 'Cookie' } }),
    'gzip;q=0.5, br',
    'N',
  );
  assert.deepEqual([headers.get('Content-Encoding'), headers.get('Vary')], ['br', 'Cookie, Accept-Encoding']);
});

test('CodedPage.write() compresses 32 responses at once, sends further ones uncompressed, and compresses again later', async () => {
  const page = new CodedPage(PARTS);
  const codings = async (count: number): Promise<(string | undefined)[]> =>
    (await Promise.all(Array.from({ length: count }, () => page.write(new HttpResponse(), 'br', 'N')))).map(
      ({ headers }) => headers.get('Content-Encoding'),
    );
  const crowd = await codings(40);
  assert.deepEqual(
    [crowd.filter((coding) => coding === 'br').length, crowd.filter((coding) => coding === undefined).length],
    [32, 8],
  );
  assert.deepEqual(await codings(1), ['br']);
});
