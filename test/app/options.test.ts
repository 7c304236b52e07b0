/**
 * The options of `app.run()` and their settings.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPlace } from '../../src/app/options.ts';
import { Config } from '../../src/base/config.ts';

test('PORT replaces the default port of run(), but neither SVC_PORT, nor a port of the constructor, nor --port', () => {
  const before = process.env['PORT'];
  process.env['PORT'] = '4711';
  const portOf = (
    options: { port?: number },
    values: Readonly<Record<string, unknown>> = {},
    environment: Readonly<Record<string, string>> = {},
  ): unknown => readPlace('run()', options, new Config({ values, environment })).port;
  try {
    assert.equal(portOf({}), 4_711);
    assert.equal(portOf({}, { port: 1 }), 1);
    assert.equal(portOf({}, {}, { SVC_PORT: '2' }), 2);
    assert.equal(portOf({ port: 3 }), 3);
    process.env['PORT'] = '';
    assert.equal(portOf({}), 8_000);
    for (const text of ['http', '65536', '-1', '0x50']) {
      process.env['PORT'] = text;
      assert.throws(() => portOf({}), {
        code: 'E_CONFIG_CAST',
        message: /^Cannot read PORT: an integer 0 … 65535/,
      });
      assert.equal(portOf({ port: 3 }), 3);
    }
  } finally {
    if (before === undefined) delete process.env['PORT'];
    else process.env['PORT'] = before;
  }
});
