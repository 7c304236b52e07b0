/**
 * Origins that may open a WebSocket, by what the application knows about the scheme of a request.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Svc } from 'svc';
import { TestClient, WebSocketRefused } from 'svc/testing';
import { collectedLog } from '../../support/collected-log.ts';

describe('without the option "origins", a WebSocket handshake needs an Origin with the scheme and host of the request', () => {
  for (const [baseUrl, config, fields, origin, expected] of [
    ['http://localhost', {}, {}, 'http://localhost', 101],
    // a proxy that is not named by trustProxy may have terminated TLS
    ['http://localhost', {}, {}, 'https://localhost', 101],
    ['http://localhost', {}, {}, 'http://localhost:81', 403],
    ['http://localhost', {}, {}, 'ftp://localhost', 403],
    ['https://shop.example', {}, {}, 'https://shop.example', 101],
    ['https://shop.example', {}, {}, 'http://shop.example', 403],
    ['http://localhost', { trustProxy: 'loopback' }, {}, 'http://localhost', 101],
    ['http://localhost', { trustProxy: 'loopback' }, {}, 'https://localhost', 403],
    [
      'http://localhost',
      { trustProxy: 'loopback' },
      { 'x-forwarded-proto': 'https' },
      'https://localhost',
      101,
    ],
    [
      'http://localhost',
      { trustProxy: 'loopback' },
      { 'x-forwarded-proto': 'https' },
      'http://localhost',
      403,
    ],
    ['http://localhost', {}, { 'x-forwarded-proto': 'https' }, 'http://localhost', 101],
  ] as const)
    test(`Origin: ${origin}, request: ${baseUrl}, settings: ${JSON.stringify(config)}, fields: ${JSON.stringify(fields)}, status: ${expected}`, async () => {
      const app = new Svc({ logger: collectedLog().logger, config });
      app.websocket('/x').onMessage(() => undefined);
      await using client = new TestClient(app, { baseUrl, raiseErrors: false });
      const status = await client.websocket('/x', { headers: { ...fields, origin } }).then(
        () => 101,
        (error: unknown) => (error instanceof WebSocketRefused ? error.response.status : error),
      );
      assert.equal(status, expected);
    });
});
