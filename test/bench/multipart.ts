/**
 * Multipart bodies in chunks of 64 KiB: the codec against busboy. Each body is read until every field is text and every byte
 * of a file was handed out. Milliseconds of processor time, medians of alternating fresh processes.
 *
 *   node --conditions=svc-source test/bench/multipart.ts [--rounds=5]        exits 1 when a ratio to busboy is above its bound
 *
 *   file      one file of 50 MiB of random bytes         near      one file of 12.5 MiB that is "\r\n-" all through
 *   fields    200 small fields                           files     20 files of 1 KiB
 *
 * `node` is what bare Node has, `Response.formData()`, which holds the whole body; `form` is the same body through
 * `readMultipart()`, its files kept: both are for information. busboy is installed in the scratch folder of
 * test/support/scratch.ts; without a registry only the other figures are printed.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readFormOptions } from '../../src/http/request/form.ts';
import { readMultipart } from '../../src/http/request/multipart-form.ts';
import { MultipartParser } from '../../src/http/request/multipart.ts';
import { UploadStore } from '../../src/http/request/uploads.ts';
import { field, fileOf, written } from '../support/multipart-reference.ts';
import { seeded } from '../support/random.ts';
import { scratch } from '../support/scratch.ts';
import type { EventEmitter } from 'node:events';
import type { TestContext } from 'node:test';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    child: { type: 'string' },
    body: { type: 'string' },
    folder: { type: 'string', default: '' },
  },
});

const BOUNDARY = '----WebKitFormBoundary7MA4YWxkTrZu0gW';
const CHUNK_BYTES = 65_536;
const MEBI = 1_048_576;

/** The most that a body may cost, as a multiple of busboy's, and how often it is read in a process. */
const BODIES = {
  file: { bound: 0.55, times: 20, parts: () => [fileOf('file', 'a.bin', randomBytes(50 * MEBI))] },
  fields: {
    bound: 0.6,
    times: 3_000,
    parts: () => Array.from({ length: 200 }, (_, n) => field(`field-${n}`, `value of ${n}`)),
  },
  files: {
    bound: 0.3,
    times: 8_000,
    parts: () =>
      Array.from({ length: 20 }, (_, n) => fileOf(`file-${n}`, `${n}.txt`, 'x'.repeat(1_024), 'text/plain')),
  },
  near: { bound: 1.0, times: 60, parts: () => [fileOf('file', 'a.bin', '\r\n-'.repeat((12.5 * MEBI) / 3))] },
} as const;
type BodyName = keyof typeof BODIES;

/** The same in every process. */
function randomBytes(length: number): Buffer {
  const random = seeded(7);
  const bytes = Buffer.allocUnsafe(length);
  for (let at = 0; at < length; at += 4) bytes.writeUInt32LE(random(4_294_967_296), at);
  return bytes;
}

function chunksOf(body: Buffer): Buffer[] {
  return Array.from({ length: Math.ceil(body.length / CHUNK_BYTES) }, (_, n) =>
    Buffer.from(body.subarray(n * CHUNK_BYTES, (n + 1) * CHUNK_BYTES)),
  );
}

/** Reads a body; answers how many bytes of files and characters of fields it had. */
type Reader = (chunks: readonly Buffer[]) => number | Promise<number>;

const READERS: Readonly<Record<string, () => Reader>> = {
  node: () => async (chunks) => {
    const response = new Response(new Blob(chunks as Buffer<ArrayBuffer>[]), {
      headers: { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
    });
    let total = 0;
    for (const [, value] of await response.formData())
      total += typeof value === 'string' ? value.length : value.size;
    return total;
  },
  busboy: () => {
    const busboy = createRequire(join(values.folder, 'package.json'))('busboy') as (
      options: object,
    ) => EventEmitter & { write(chunk: Buffer): void; end(): void };
    return (chunks) =>
      new Promise((resolve, reject) => {
        let total = 0;
        const parser = busboy({
          headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
          limits: { fields: 1_000 },
        });
        parser.on('field', (_name: string, value: string) => {
          total += value.length;
        });
        parser.on('file', (_name: string, file: EventEmitter) =>
          file.on('data', (chunk: Buffer) => {
            total += chunk.length;
          }),
        );
        parser.on('close', () => resolve(total)).on('error', reject);
        for (const chunk of chunks) parser.write(chunk);
        parser.end();
      });
  },
  svc: () => {
    const limits = readFormOptions('bench', {}, '');
    return (chunks) => {
      let total = 0;
      let isFile = false;
      const parser = new MultipartParser(
        BOUNDARY,
        {
          onPart: (head) => {
            isFile = head.filename !== undefined;
          },
          onData: (bytes, start, end) => {
            total += isFile ? bytes.subarray(start, end).length : bytes.toString('utf8', start, end).length;
          },
          onPartEnd: () => undefined,
        },
        limits,
      );
      for (const chunk of chunks) parser.push(chunk);
      if (parser.end() !== undefined) throw new Error('The body was refused');
      return total;
    };
  },
  form: () => {
    const options = readFormOptions('bench', {}, tmpdir());
    return async (chunks) => {
      const store = new UploadStore(options.directory, options.memoryBytes);
      const form = await readMultipart(chunks, BOUNDARY, options, store);
      let total = 0;
      for (const name of form.keys()) total += form.get(name)?.length ?? form.file(name)!.size;
      await store.close();
      return total;
    };
  },
};

/** ms of processor time of the process for one reading. @throws Error when it has read something else */
async function timed(read: Reader, body: BodyName): Promise<number> {
  const { times, parts } = BODIES[body];
  const made = parts();
  const chunks = chunksOf(written(made, BOUNDARY));
  const expected = made.reduce((sum, { content }) => sum + content.length, 0);
  const run = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++)
      if ((await read(chunks)) !== expected) throw new Error('another number of bytes');
  };
  await run(Math.ceil(times / 5));
  const started = process.cpuUsage();
  await run(times);
  const { user, system } = process.cpuUsage(started);
  return (user + system) / 1_000 / times;
}

function measured(reader: string, body: string, folder: string): number {
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [
      '--conditions=svc-source',
      fileURLToPath(import.meta.url),
      `--child=${reader}`,
      `--body=${body}`,
      `--folder=${folder}`,
    ],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`${reader}, ${body}: ${stderr}`);
  return Number(stdout);
}

/** Prints the table. Answers the exit status. */
function compare(): number {
  const reported = { skip: (why: string): void => console.log(`busboy: left out, ${why}`) };
  const folder = scratch(reported as unknown as TestContext, 'busboy', { busboy: '^1.6.0' }); // it calls nothing else
  const names = Object.keys(READERS).filter((name) => folder !== undefined || name !== 'busboy');
  let isSlow = false;
  const rows = Object.entries(BODIES).map(([body, { bound }]) => {
    const samples = new Map<string, number[]>(names.map((name) => [name, []]));
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const name of round % 2 === 0 ? names : names.toReversed())
        samples.get(name)!.push(measured(name, body, folder ?? ''));
    }
    const median = (name: string): number =>
      samples.get(name)?.toSorted((left, right) => left - right)[Number(values.rounds) >> 1] ?? NaN;
    const ratio = median('svc') / median('busboy');
    isSlow ||= ratio > bound;
    const columns = Object.fromEntries(names.map((name) => [`${name}, ms`, median(name).toPrecision(3)]));
    return [
      body,
      {
        ...columns,
        'form / busboy': (median('form') / median('busboy')).toFixed(2),
        'svc / busboy': ratio.toFixed(2),
        bound,
      },
    ];
  });
  console.table(Object.fromEntries(rows));
  return isSlow ? 1 : 0;
}

if (values.child === undefined) process.exitCode = compare();
else console.log(await timed(READERS[values.child]!(), values.body as BodyName));
