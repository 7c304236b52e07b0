/** Loggers that write to a file: the example of the manual, with SIGHUP and SIGTERM, and the exit of the process. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createLogger, exitAfterLog } from '../../src/observability/log.ts';
import { manual } from '../support/manuals.ts';
import { folder } from '../support/run.ts';

const INDEX = pathToFileURL(join(import.meta.dirname, '../../src/index.ts')).href;
const PROGRAM = `
app.onShutdown(() => { for (let n = 0; n < 1_000; n++) logger.info('line', { n }); });
await app.run({ port: 0 });
while (file.pending) await new Promise((resolve) => setImmediate(resolve)); // until the file exists
console.log('ready');
`;

test(
  'the log file of the manual is opened again on SIGHUP, and complete after SIGTERM',
  { skip: process.platform === 'win32' },
  async (t) => {
    const directory = folder(t);
    const [path, program] = [join(directory, 'app.log'), join(directory, 'app.ts')];
    const [, example] = /## Log files[^]*?```ts\n([^]*?)```/.exec(manual('src/operations/README.md'))!;
    writeFileSync(program, (example! + PROGRAM).replaceAll("'svc'", JSON.stringify(INDEX)));
    const child = spawn(process.execPath, ['--conditions=svc-source', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, LOG_FILE: path, SVC_ENV: 'test' },
    });
    t.after(() => child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    await once(createInterface(child.stdout), 'line');
    renameSync(path, `${path}.1`);
    child.kill('SIGHUP');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
    const eventsOf = (file: string): string[] =>
      readFileSync(file, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { event: string }).event);
    assert.ok(eventsOf(`${path}.1`).includes('listening'));
    const later = eventsOf(path);
    assert.equal(later.filter((event) => event === 'line').length, 1_000);
    assert.ok(later.includes('stopped'));
  },
);

test('the process exits only when the output of its logger has written all lines', async (t) => {
  const steps: string[] = [];
  t.mock.method(process, 'exit', (status: number) => void steps.push(`exit ${status}`));
  const written = Promise.withResolvers<void>();
  const log = createLogger({
    sink: {
      write: () => undefined,
      flush: async () => {
        await written.promise;
        steps.push('written');
      },
    },
  });
  const exiting = exitAfterLog(3, log.child('other'));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(steps, []);
  written.resolve();
  await exiting;
  assert.deepEqual(steps, ['written', 'exit 3']);
});

test('the process exits although the output of its logger fails', async (t) => {
  const exit = t.mock.method(process, 'exit', () => undefined);
  const log = createLogger({
    sink: { write: () => undefined, flush: () => Promise.reject(new Error('full')) },
  });
  await exitAfterLog(1, log);
  assert.deepEqual(exit.mock.calls[0]!.arguments, [1]);
});
