/**
 * Which way is chosen: undocumented parts of Node, or the documented way beside each.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { IncomingMessage, ServerResponse } from 'node:http';
import test from 'node:test';
import { ROOT } from '../../../support/build.ts';

/**
 * Starts a process with SVC_NODE_INTERNALS set to `value`. Returns whether it uses internals, the members of
 * its classes, and its responses.
 */
function found(value: string | undefined): Record<string, unknown> {
  const program = `import { createServer } from 'node:http';
    import { Svc } from 'svc';
    import { MESSAGES, USES_INTERNALS } from './src/http/server/fast-path/internals.ts';
    const names = (from) => { const all = []; for (let at = from.prototype; !at.constructor.toString().startsWith('function'); at = Object.getPrototypeOf(at)) all.push(...Object.getOwnPropertyNames(at)); return all; };
    const app = new Svc({ logger: undefined });
    app.get('/', () => 'ok').post('/', async ({ req }) => (await req.text()).length);
    const { url, close } = await app.run({ port: 0, handleSignals: false });
    const get = await (await fetch(url)).text();
    const post = await (await fetch(url, { method: 'POST', body: 'x'.repeat(1_000_000) })).text();
    await close();
    console.error('found ' + JSON.stringify({ uses: USES_INTERNALS, received: names(MESSAGES.IncomingMessage), sent: names(MESSAGES.ServerResponse), get, post }));`;
  const { SVC_NODE_INTERNALS: _own, ...rest } = process.env;
  const { stderr } = spawnSync(
    process.execPath,
    ['--conditions=svc-source', '--input-type=module', '-e', program],
    {
      cwd: ROOT,
      encoding: 'utf8',
      env: value === undefined ? rest : { ...rest, SVC_NODE_INTERNALS: value },
    },
  );
  return JSON.parse(/^found (.*)$/m.exec(stderr)?.[1] ?? assert.fail(stderr)) as Record<string, unknown>;
}

/** Returns the members of Node's class that `names` overrides. */
const overridden = (names: unknown, base: typeof IncomingMessage | typeof ServerResponse): string[] =>
  (names as string[]).filter((name) => name !== 'constructor' && name in base.prototype).sort();

test('if SVC_NODE_INTERNALS is off, the server uses classes that override no undocumented part of Node', () => {
  const { uses, received, sent, get, post } = found('off');
  assert.equal(uses, false);
  assert.deepEqual(overridden(received, IncomingMessage), []);
  assert.deepEqual(overridden(sent, ServerResponse), ['destroy']);
  assert.deepEqual([get, post], ['ok', '1000000']);
});

test('on Node 24 and 26 the server uses the fast path through undocumented parts of node:http, unless SVC_NODE_INTERNALS is off', () => {
  const { uses, received, sent, get, post } = found(undefined);
  assert.equal(uses, true);
  assert.deepEqual(overridden(received, IncomingMessage), ['_destroy', 'headers', 'push', 'readableEnded']);
  assert.deepEqual(overridden(sent, ServerResponse), ['destroy', 'headersSent', 'writableFinished']);
  assert.deepEqual([get, post], ['ok', '1000000']);
});
