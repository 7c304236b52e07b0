/**
 * Number of files and functions of src that a warm request runs, measured by the precise coverage of V8. The
 * list in src/app/README.md is the reading guide.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent, request as requestHttp } from 'node:http';
import { Session } from 'node:inspector/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { USES_INTERNALS } from '../../src/http/server/fast-path/internals.ts';
import { Field, Schema, Svc, int, str } from '../../src/index.ts';
import { ROOT } from '../support/build.ts';

const SOURCES = pathToFileURL(join(ROOT, 'src/')).href;
/** Above the number of requests whose fields are searched for signs of a proxy. */
const WARM_UP = 1_001;
/**
 * The lowest of several samples counts, because once a second a request renews the date, and timers may run
 * meanwhile.
 */
const SAMPLES = 8;

class Person extends Schema {
  name = Field(str, { minLength: 1 });
  age = Field(int, { ge: 0 });
}

/** Returns the files of src that a call runs, with the number of functions of each. */
async function pathOf(send: () => Promise<void>): Promise<ReadonlyMap<string, number>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  let least: Map<string, number> | undefined;
  for (let sample = 0; sample < SAMPLES; sample++) {
    await session.post('Profiler.takePreciseCoverage'); // resets the counts
    await send();
    await new Promise(setImmediate);
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const files = new Map<string, number>();
    for (const { url, functions } of result) {
      const count = functions.filter(({ ranges }) => ranges[0]!.count > 0).length;
      if (url.startsWith(SOURCES) && count > 0) files.set(url.slice(SOURCES.length), count);
    }
    if (least === undefined || total(files) < total(least)) least = files;
  }
  session.disconnect();
  return least!; // defined, because SAMPLES is not 0
}

function total(files: ReadonlyMap<string, number>): number {
  return [...files.values()].reduce((sum, count) => sum + count, 0);
}

/** Returns the files that the reading guide lists: those of a GET, and those of a POST. */
function guide(): { readonly get: readonly string[]; readonly post: readonly string[] } {
  const text = readFileSync(join(ROOT, 'src/app/README.md'), 'utf8');
  const [get = [], others = []] = text
    .split('A `POST`')
    .map((part) => [...part.matchAll(/^\d+\. `([^`]+)`/gm)].map((match) => match[1]!));
  return { get, post: [...get, ...others] };
}

const skip = !USES_INTERNALS
  ? 'the documented ways of node:http run other functions'
  : process.env['NODE_V8_COVERAGE'] !== undefined && 'the run collects coverage itself';

test(
  'a repeated GET or POST request runs code in exactly the source files that src/app/README.md lists for it',
  { skip },
  async (t) => {
    const app = new Svc();
    app.get('/json', () => ({ ok: true }));
    app.post('/people', { body: Person }, () => ({ ok: true }));
    const server = await app.run({ port: 0, handleSignals: false });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.after(async () => {
      agent.destroy();
      await server.close();
    });
    const sender = (method: string, path: string, body?: string) => (): Promise<void> =>
      new Promise((resolve, reject) => {
        const headers =
          body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length };
        requestHttp(server.url + path, { agent, method, headers }, (response) => {
          assert.equal(response.statusCode, 200);
          response.resume().once('end', resolve);
        })
          .once('error', reject)
          .end(body);
      });
    const { get, post } = guide();
    for (const [name, send, listed, mostFiles, mostFunctions] of [
      ['GET', sender('GET', '/json'), get, 20, 65],
      ['POST', sender('POST', '/people', '{"name":"Ada","age":36}'), post, 26, 118],
    ] as const) {
      for (let round = 0; round < WARM_UP; round++) await send();
      const files = await pathOf(send);
      const ordered = listed.filter((file) => files.has(file));
      t.diagnostic(`${name}: ${files.size} files, ${total(files)} functions`);
      for (const file of ordered) t.diagnostic(`  ${file} ${files.get(file)!}`);
      assert.deepEqual(
        [...files.keys()].filter((file) => !listed.includes(file)),
        [],
        `${name} runs files that the guide does not list`,
      );
      assert.deepEqual(ordered, listed, `${name} runs every file that the guide lists`);
      assert.ok(files.size <= mostFiles, `${files.size} files`);
      assert.ok(total(files) <= mostFunctions, `${total(files)} functions`);
    }
  },
);
