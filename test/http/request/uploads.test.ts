import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { spawnSync } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { BackgroundTasks, Depends, Svc } from '../../../src/index.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { UploadStore } from '../../../src/http/request/uploads.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { UploadFolder, formRequest, textOf } from '../../support/form-requests.ts';
import { fileOf } from '../../support/multipart-reference.ts';
import { folder } from '../../support/run.ts';
import type { FileHandle } from 'node:fs/promises';
import type { FormOptions, UploadFile } from '../../../src/index.ts';

const isRoot = process.getuid?.() === 0;

/** Stores the files of a form with these options, and returns them. */
async function received(
  contents: readonly string[],
  options: FormOptions,
): Promise<{ files: readonly UploadFile[]; end: () => Promise<void> }> {
  const { req, end } = formRequest(contents.map((content) => fileOf('f', 'a.txt', content)));
  return { files: (await req.form(options)).files('f'), end };
}

test('UploadFile.stream() and bytes() can be called repeatedly, for files in memory and in the temporary file', async (t) => {
  const uploads = new UploadFolder(t);
  const contents = ['', 'a', 'x'.repeat(700_000), 'yz', 'w'.repeat(262_144)];
  for (const memoryBytes of [0, 2, 1e9]) {
    const { files, end } = await received(contents, { directory: uploads.path, memoryBytes });
    for (const [index, file] of files.entries()) {
      assert.equal(file.size, contents[index]!.length);
      for (let round = 0; round < 2; round++) {
        assert.equal(await textOf(file.stream()), contents[index]);
        assert.equal(Buffer.from(await file.bytes()).toString(), contents[index]);
      }
    }
    const both = await Promise.all([
      textOf(files[2]!.stream()),
      textOf(files[4]!.stream()),
      files[2]!.bytes(),
    ]);
    assert.deepEqual(
      both.map(({ length }) => length),
      [700_000, 262_144, 700_000],
    );
    await end();
    assert.deepEqual(uploads.left, []);
  }
});

test('UploadFile.bytes() returns a copy, so changes to it do not change the file', async () => {
  const {
    files: [file],
  } = await received(['abc'], {});
  (await file!.bytes()).fill(0);
  assert.equal(await textOf(file!.stream()), 'abc');
});

test(
  'UploadStore keeps files in memory up to its total limit, and writes files that do not fit to one temporary file',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const uploads = new UploadFolder(t);
    const { files, end } = await received(['12345', '12345', '12345', '1'], {
      directory: uploads.path,
      memoryBytes: 11,
    });
    assert.equal(readdirSync(uploads.path).length, 1);
    assert.equal(uploads.open.length, 1);
    assert.match(uploads.open[0]!, /svc-upload-\d+-[0-9a-f]{32}$/);
    assert.deepEqual(await Promise.all(files.map((file) => textOf(file.stream()))), [
      '12345',
      '12345',
      '12345',
      '1',
    ]);
    const [name] = readdirSync(uploads.path);
    const { mode, size } = statSync(join(uploads.path, name!));
    assert.deepEqual([mode & 0o777, size], [0o600, 5]);
    await end();
    assert.deepEqual(uploads.left, []);
  },
);

test(
  "without a folder of the application, the temporary file is in the system's folder, and has no name",
  { skip: process.platform !== 'linux' },
  async (t) => {
    const uploads = new UploadFolder(t);
    const target = folder(t);
    const before = process.env['TMPDIR'];
    process.env['TMPDIR'] = uploads.path;
    t.after(() => {
      if (before === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = before;
    });
    const {
      files: [file],
      end,
    } = await received(['12345'], { memoryBytes: 0 });
    assert.deepEqual(readdirSync(uploads.path), []);
    assert.match(uploads.open[0]!, /svc-upload-\d+-[0-9a-f]{32} \(deleted\)$/);
    await file!.save(join(target, 'copy.txt'));
    assert.equal(readFileSync(join(target, 'copy.txt'), 'utf8'), '12345');
    await end();
    assert.deepEqual(uploads.left, []);
  },
);

test('UploadFile.save() moves the temporary file to the same file system, and the upload stays readable', async (t) => {
  const uploads = new UploadFolder(t);
  const target = folder(t);
  const {
    files: [file],
    end,
  } = await received(['x'.repeat(600_000)], { directory: uploads.path, memoryBytes: 0 });
  const [spooled] = readdirSync(uploads.path);
  const { ino } = statSync(join(uploads.path, spooled!), { bigint: true });
  await file!.save(join(target, 'moved'));
  assert.equal(statSync(join(target, 'moved'), { bigint: true }).ino, ino);
  assert.deepEqual(readdirSync(uploads.path), []);
  await file!.save(join(target, 'copied'));
  assert.notEqual(statSync(join(target, 'copied'), { bigint: true }).ino, ino);
  assert.equal(await textOf(file!.stream()), 'x'.repeat(600_000));
  await end();
  for (const name of ['moved', 'copied'])
    assert.equal(readFileSync(join(target, name), 'utf8'), 'x'.repeat(600_000));
  assert.deepEqual([uploads.left, readdirSync(target).length], [[], 2]);
});

test('UploadFile.save() copies the file to another file system, and if the form has another file on disk', async (t) => {
  const uploads = new UploadFolder(t);
  const { files, end } = await received(['first', 'second'], { directory: uploads.path, memoryBytes: 0 });
  const target = folder(t);
  for (const file of files) await file.save(join(target, file === files[0] ? '0' : '1'));
  await end();
  assert.deepEqual(
    ['0', '1'].map((name) => readFileSync(join(target, name), 'utf8')),
    ['first', 'second'],
  );
  if (!existsSync('/dev/shm') || statSync('/dev/shm').dev === statSync(uploads.path).dev) return;
  const other = mkdtempSync('/dev/shm/svc-uploads-');
  t.after(() => rmSync(other, { recursive: true }));
  const single = await received(['only'], { directory: uploads.path, memoryBytes: 0 });
  await single.files[0]!.save(join(other, 'only'));
  await single.end();
  assert.equal(readFileSync(join(other, 'only'), 'utf8'), 'only');
});

test('if an upload cannot be saved, save() throws a 507 for a full disk, and otherwise the error of the file system', async (t) => {
  const target = folder(t);
  const [file] = (await received(['content'], {})).files;
  await using probe = await open(import.meta.filename);
  for (const [code, status] of [
    ['ENOSPC', 507],
    ['EDQUOT', 507],
    ['EIO', undefined],
  ] as const) {
    const writeFile = t.mock.method(Object.getPrototypeOf(probe) as FileHandle, 'writeFile', () =>
      Promise.reject(Object.assign(new Error(code), { code })),
    );
    await assert.rejects(
      file!.save(join(target, 'a')),
      (error: { status?: number; message: string }) =>
        error.status === status && (status !== undefined || error.message === code),
    );
    writeFile.mock.restore();
    assert.deepEqual(readdirSync(target), []);
  }
});

test('the first upload to a folder removes the temporary files of processes that no longer run, and no other file', async (t) => {
  const uploads = new UploadFolder(t);
  const hex = 'a'.repeat(32);
  const { pid } = spawnSync(process.execPath, ['--version']);
  // in a container, a killed process and the next one often have the same id
  for (const id of [pid, process.pid, process.ppid])
    writeFileSync(join(uploads.path, `svc-upload-${id}-${hex}`), 'x');
  writeFileSync(join(uploads.path, 'svc-upload-notes'), 'x');
  const { end } = await received(['content'], { directory: uploads.path, memoryBytes: 0 });
  await end();
  assert.deepEqual(readdirSync(uploads.path).sort(), [
    `svc-upload-${process.ppid}-${hex}`,
    'svc-upload-notes',
  ]);
});

test('UploadStore joins small chunks, so a body that arrives byte by byte takes little memory', async () => {
  const store = new UploadStore('/nowhere', 1e9);
  const file = store.begin({ name: 'f', filename: 'f', contentType: 'a/b' }, Infinity);
  const chunk = Buffer.alloc(65_536, 'x');
  const before = process.memoryUsage();
  for (let n = 0; n < 300_000; n++) store.add(chunk, n % 60_000, (n % 60_000) + 1);
  store.end();
  const after = process.memoryUsage();
  assert.equal(file.size, 300_000);
  assert.ok(after.external + after.arrayBuffers - before.external - before.arrayBuffers < 20_000_000);
});

test('UploadFile.save() writes the whole content of the file, or no file if it fails', async (t) => {
  const uploads = new UploadFolder(t);
  const target = folder(t);
  const umask = process.umask();
  for (const memoryBytes of [0, 1e9]) {
    const {
      files: [file],
      end,
    } = await received(['x'.repeat(600_000)], { directory: uploads.path, memoryBytes });
    const path = join(target, `${memoryBytes}.txt`);
    await file!.save(path);
    await end();
    assert.equal(readFileSync(path, 'utf8'), 'x'.repeat(600_000));
    if (process.platform !== 'win32') assert.equal(statSync(path).mode & 0o777, 0o666 & ~umask);
  }
  assert.equal(readdirSync(target).length, 2);
});

test('UploadFile.save() replaces an existing file only with overwrite: true, and leaves no file behind when it fails', async (t) => {
  const target = folder(t, { 'there.txt': 'before' });
  mkdirSync(join(target, 'folder'));
  writeFileSync(join(target, 'outside.txt'), 'outside');
  if (process.platform !== 'win32') symlinkSync('outside.txt', join(target, 'link.txt'));
  const {
    files: [file],
  } = await received(['after'], {});
  for (const name of ['there.txt', 'folder', 'link.txt'])
    await assert.rejects(file!.save(join(target, name)), { code: 'E_UPLOAD_EXISTS' }, name);
  await assert.rejects(file!.save(join(target, 'none', 'a.txt')), { code: 'ENOENT' });
  await assert.rejects(file!.save(join(target, 'folder'), { overwrite: true }));
  await assert.rejects(file!.save(join(target, 'a'), { overwite: true } as object), {
    code: 'E_OPTION_UNKNOWN',
  });
  assert.equal(readFileSync(join(target, 'there.txt'), 'utf8'), 'before');
  await file!.save(join(target, 'there.txt'), { overwrite: true });
  await file!.save(join(target, 'link.txt'), { overwrite: true });
  assert.deepEqual(
    ['there.txt', 'link.txt', 'outside.txt'].map((name) => readFileSync(join(target, name), 'utf8')),
    ['after', 'after', 'outside'],
  );
  assert.deepEqual(readdirSync(target).sort(), ['folder', 'link.txt', 'outside.txt', 'there.txt']);
  const saves = await Promise.allSettled(
    Array.from({ length: 8 }, () => file!.save(join(target, 'raced.txt'))),
  );
  assert.equal(saves.filter(({ status }) => status === 'fulfilled').length, 1);
});

test('an uploaded file can be read until the background tasks have run, and reading it afterwards throws', async (t) => {
  const uploads = new UploadFolder(t);
  const app = new Svc({ env: 'test', uploadDirectory: uploads.path });
  const kept: UploadFile[] = [];
  let inTask = '';
  app.post('/', { tasks: Depends(BackgroundTasks) }, async ({ req, tasks }) => {
    const file = (await req.form({ memoryBytes: 0 })).file('f')!;
    kept.push(file);
    tasks.add(async () => {
      inTask = await textOf(file.stream());
    });
    return { size: file.size };
  });
  await using client = new TestClient(app);
  const form = new FormData();
  form.set('f', new File(['content'], 'a.txt'));
  assert.deepEqual(await (await client.post('/', { form })).json(), { size: 7 });
  assert.equal(inTask, 'content');
  assert.deepEqual(uploads.left, []);
  for (const use of [kept[0]!.bytes(), kept[0]!.save(join(uploads.path, 'x')), textOf(kept[0]!.stream())])
    await assert.rejects(use, { code: 'E_UPLOAD_GONE' });
  assert.equal(existsSync(join(uploads.path, 'x')), false);
  assert.equal(inspect(kept[0]).includes('a.txt'), true);
});

test('if a handler throws, the files uploaded to it are deleted', async (t) => {
  const uploads = new UploadFolder(t);
  const app = new Svc({ env: 'test', uploadDirectory: uploads.path, logger: collectedLog().logger });
  app.post('/', async ({ req }) => {
    await req.form({ memoryBytes: 0 });
    throw new Error('planned');
  });
  await using client = new TestClient(app, { raiseErrors: false });
  const form = new FormData();
  form.set('f', new File(['content'], 'a.txt'));
  assert.equal((await client.post('/', { form })).status, 500);
  assert.deepEqual(uploads.left, []);
});

test('an upload folder that cannot be used causes E_UPLOAD_DIRECTORY, but forms that fit in memory still work', async (t) => {
  const uploads = new UploadFolder(t);
  const gone = join(uploads.path, 'gone');
  await assert.rejects(received(['x'], { directory: gone, memoryBytes: 0 }), {
    code: 'E_UPLOAD_DIRECTORY',
    message: /ENOENT/,
  });
  assert.equal((await received(['x'], { directory: gone })).files.length, 1);
  if (isRoot || process.platform === 'win32') return; // they may write anywhere
  mkdirSync(gone);
  chmodSync(gone, 0o500);
  await assert.rejects(received(['x'], { directory: gone, memoryBytes: 0 }), {
    code: 'E_UPLOAD_DIRECTORY',
    message: /EACCES/,
  });
  rmSync(gone, { recursive: true });
});

test('a server does not listen if the setting uploadDirectory is not a folder that can be written; a startup hook may make it', async (t) => {
  const uploads = new UploadFolder(t);
  const [gone, plain, locked] = ['gone', 'plain.txt', 'locked'].map((name) => join(uploads.path, name));
  writeFileSync(plain!, 'x');
  mkdirSync(locked!, { mode: 0o500 });
  const canWriteAnywhere = isRoot || process.platform === 'win32';
  const make = (directory: string): Svc =>
    new Svc({ config: { uploadDirectory: directory }, logger: collectedLog().logger });
  const options = { port: 0, handleSignals: false };
  for (const [directory, problem] of [
    [gone!, 'the directory does not exist'],
    [plain!, 'the path is not a directory'],
    ...(canWriteAnywhere ? [] : [[locked!, 'the process may not write to the directory (EACCES)']]),
  ] as const) {
    const app = make(directory!);
    app.compileAll();
    await assert.rejects(app.run(options), {
      code: 'E_UPLOAD_DIRECTORY',
      message: `Cannot store uploaded files in "${directory}": ${problem}`,
    });
  }
  const app = make(gone!);
  app.onStartup(() => void mkdirSync(gone!));
  const server = await app.run(options);
  await server.close();
});

test('if an upload cannot be written, the response is a 507 for a full disk, and otherwise the error of the file system', async (t) => {
  const uploads = new UploadFolder(t);
  await using probe = await open(import.meta.filename);
  for (const [code, status] of [
    ['ENOSPC', 507],
    ['EDQUOT', 507],
    ['EMFILE', undefined],
    ['EIO', undefined],
  ] as const) {
    const writev = t.mock.method(Object.getPrototypeOf(probe) as FileHandle, 'writev', () =>
      Promise.reject(Object.assign(new Error(code), { code })),
    );
    await assert.rejects(
      received(['x'], { directory: uploads.path, memoryBytes: 0 }),
      (error: { status?: number; message: string }) =>
        error.status === status && (status !== undefined || error.message === code),
    );
    writev.mock.restore();
    assert.deepEqual(uploads.left, []);
  }
});

test('if a write to the temporary file writes only some of the bytes, UploadStore writes the rest', async (t) => {
  const uploads = new UploadFolder(t);
  await using probe = await open(import.meta.filename);
  type Writev = (chunks: readonly Uint8Array[], position: number) => Promise<unknown>;
  const prototype = Object.getPrototypeOf(probe) as { writev: Writev };
  const whole = prototype.writev;
  t.mock.method(
    prototype,
    'writev',
    function (this: unknown, chunks: readonly Uint8Array[], position: number) {
      return whole.call(this, [Buffer.concat(chunks).subarray(0, 1_000)], position);
    },
  );
  const content = Array.from({ length: 9_000 }, (_, n) => n % 10).join('');
  const {
    files: [file],
    end,
  } = await received([content], { directory: uploads.path, memoryBytes: 0 });
  assert.equal(await textOf(file!.stream()), content);
  await end();
});

test('UploadStore.close() waits for a temporary file that is being opened', async (t) => {
  const uploads = new UploadFolder(t);
  const store = new UploadStore(uploads.path, 0);
  store.begin({ name: 'f', filename: 'f', contentType: 'a/b' }, Infinity);
  store.add(Buffer.from('x'), 0, 1);
  const flushing = store.flush(true);
  await store.close();
  await flushing;
  assert.deepEqual(uploads.left, []);
  await assert.rejects(store.flush(true), { code: 'E_UPLOAD_GONE' });
});
