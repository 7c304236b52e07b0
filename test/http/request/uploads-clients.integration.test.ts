/**
 * Uploads over sockets: from curl, fetch() and Chromium, from clients that leave, and into a process that is killed.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { HTMLResponse, SessionMiddleware, CSRFMiddleware, Svc, csrfField } from '../../../src/index.ts';
import { Chromium, chromiumProgram, needsChromium } from '../../support/chromium.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { UploadFolder } from '../../support/form-requests.ts';
import { RawClient } from '../../support/raw-http.ts';
import { folder, project, run, start } from '../../support/run.ts';
import type { TestContext } from 'node:test';
import type { FormFields } from '../../../src/index.ts';

/** Started once for the module, because a hook of a test would end it with that test. */
const chromium = chromiumProgram() === undefined ? undefined : await Chromium.start({ after });

const sha = (bytes: string | Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex').slice(0, 16);

/** Returns the content of a form: fields unchanged, files as [file name, type, size, hash]. */
async function shown(form: FormFields): Promise<Record<string, unknown>> {
  const entries = [...form.keys()].map(async (name) => {
    const files = await Promise.all(
      form
        .files(name)
        .map(async (file) => [file.filename, file.contentType, file.size, sha(await file.bytes())]),
    );
    return [name, [...form.getAll(name), ...files]];
  });
  return Object.fromEntries(await Promise.all(entries)) as Record<string, unknown>;
}

/** Starts a server that returns the content of forms, with an upload folder of its own. */
async function serve(
  t: TestContext,
  declare: (app: Svc) => void = () => undefined,
): Promise<{ url: string; port: number; uploads: UploadFolder; done: Promise<unknown> }> {
  const uploads = new UploadFolder(t);
  const app = new Svc({
    uploadDirectory: uploads.path,
    logger: collectedLog().logger,
    authSecret: 'x'.repeat(64),
  });
  const left = Promise.withResolvers<unknown>();
  app.post('/', { maxBodyBytes: 50_000_000 }, async ({ req }) => {
    try {
      return await shown(await req.form());
    } catch (error) {
      left.resolve(error);
      throw error;
    }
  });
  declare(app);
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  return { url: server.url, port: Number(new URL(server.url).port), uploads, done: left.promise };
}

/** Waits until finished requests have cleaned up, which follows their responses. */
async function emptied(uploads: UploadFolder): Promise<void> {
  for (let turn = 0; uploads.left.length > 0; turn++) {
    assert.ok(turn < 10_000, `left: ${uploads.left.join(', ')}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const LARGE = Buffer.alloc(3_000_000, 'binary\r\n--');

test('form() reads fields and files that curl -F uploads', async (t) => {
  const { url, uploads } = await serve(t);
  const files = folder(t, { 'a.txt': 'small', 'we"ird;name=x.txt': 'weird' });
  writeFileSync(join(files, 'large.bin'), LARGE);
  const { status, stdout, stderr } = await run(
    'curl',
    [
      '-sS',
      '-F',
      'name=Ada & "Co"',
      '-F',
      'empty=',
      '-F',
      'a=@a.txt',
      '-F',
      'many=@a.txt;type=text/x-a;filename=../../etc/passwd',
      '-F',
      'many=@large.bin',
      '-F',
      'weird=@"we\\"ird;name=x.txt"',
      '-F',
      'text=<a.txt',
      '-F',
      'ü[]=1',
      url,
    ],
    { cwd: files },
  );
  assert.equal(status, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), {
    name: ['Ada & "Co"'],
    empty: [''],
    text: ['small'],
    'ü[]': ['1'],
    a: [['a.txt', 'text/plain', 5, sha('small')]],
    many: [
      ['passwd', 'text/x-a', 5, sha('small')],
      ['large.bin', 'application/octet-stream', LARGE.length, sha(LARGE)],
    ],
    weird: [['we"ird;name=x.txt', 'text/plain', 5, sha('weird')]],
  });
  await emptied(uploads);
  const escaped = await run('curl', ['-sS', '--form-escape', '-F', 'weird=@"we\\"ird;name=x.txt"', url], {
    cwd: files,
  });
  assert.deepEqual(JSON.parse(escaped.stdout), {
    weird: [['we"ird;name=x.txt', 'text/plain', 5, sha('weird')]],
  });
  const chunked = await run(
    'curl',
    ['-sS', '-H', 'Transfer-Encoding: chunked', '-H', 'Expect: 100-continue', '-F', 'f=@large.bin', url],
    { cwd: files },
  );
  assert.deepEqual(JSON.parse(chunked.stdout), {
    f: [['large.bin', 'application/octet-stream', LARGE.length, sha(LARGE)]],
  });
  await emptied(uploads);
});

test('form() reads FormData that fetch() uploads', async (t) => {
  const { url, uploads } = await serve(t);
  const form = new FormData();
  form.append('name', 'ü "quoted"\nlines');
  form.append('ke"y\r\n', 'x');
  form.append('f', new File([LARGE], 'grüße "1".bin', { type: 'image/png' }));
  form.append('f', new Blob(['b']));
  const response = await fetch(url, { method: 'POST', body: form });
  assert.deepEqual(await response.json(), {
    name: ['ü "quoted"\r\nlines'],
    'ke"y\r\n': ['x'],
    f: [
      ['grüße "1".bin', 'image/png', LARGE.length, sha(LARGE)],
      ['blob', 'application/octet-stream', 1, sha('b')],
    ],
  });
  assert.deepEqual(await (await fetch(url, { method: 'POST', body: new FormData() })).json(), {});
  await emptied(uploads);
});

test('Chromium uploads a form in which a field with the CSRF token comes before the files', async (t) => {
  if (!needsChromium(t)) return;
  const { url, uploads } = await serve(t, (app) => {
    app.use(new SessionMiddleware()).use(new CSRFMiddleware({ exempt: ['/'] }));
    app.get(
      '/page',
      ({ req }) =>
        new HTMLResponse(
          `<!doctype html><meta charset="utf-8"><form method="post" action="/sent" enctype="multipart/form-data">${csrfField(req)}<input name="t&quot;ext" value="ü &#13;&#10; x"><input type="file" name="many" multiple><input type="file" name="unused"><textarea name="area">a\nb</textarea><button id="send">Send</button></form>`,
        ),
    );
    app.post('/sent', { maxBodyBytes: 50_000_000 }, async ({ req }) => {
      const { _csrf_token: token, ...rest } = await shown(await req.form());
      return { hasToken: token !== undefined, ...rest };
    });
  });
  const files = folder(t, { 'we"ird 👋.txt': 'weird' });
  writeFileSync(join(files, 'large.bin'), LARGE);
  const page = await chromium!.visitor();
  await page.open(`${url}/page`);
  const { root } = await page.send<{ root: { nodeId: number } }>('DOM.getDocument');
  const { nodeId } = await page.send<{ nodeId: number }>('DOM.querySelector', {
    nodeId: root.nodeId,
    selector: '[name=many]',
  });
  await page.send('DOM.setFileInputFiles', {
    nodeId,
    files: [join(files, 'we"ird 👋.txt'), join(files, 'large.bin')],
  });
  await page.click('#send', `${url}/sent`);
  assert.deepEqual(JSON.parse(await page.text()), {
    hasToken: true,
    't"ext': ['ü  x'],
    area: ['a\r\nb'],
    many: [
      ['we"ird 👋.txt', 'text/plain', 5, sha('weird')],
      ['large.bin', 'application/octet-stream', LARGE.length, sha(LARGE)],
    ],
  });
  await emptied(uploads);
});

test('if a client leaves during an upload, no temporary file is left', async (t) => {
  const { port, uploads, done } = await serve(t);
  const client = await RawClient.open(port);
  client
    .send(
      `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 10000000\r\n\r\n--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n`,
    )
    .send(Buffer.alloc(2_000_000, 'x'));
  if (process.platform === 'linux')
    while (uploads.open.length === 0) await new Promise((resolve) => setImmediate(resolve));
  client.socket.resetAndDestroy();
  assert.equal(((await done) as Error).name, 'ClientDisconnected');
  await emptied(uploads);
});

test('a refused upload is answered while the client still sends, and the connection stays usable afterwards', async (t) => {
  const { port, uploads } = await serve(t);
  const client = await RawClient.open(port);
  t.after(() => client[Symbol.asyncDispose]());
  const body = Buffer.concat([
    Buffer.from('--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'),
    Buffer.alloc(1_500_000, 'x'),
    Buffer.from('\r\n--b--'),
  ]);
  client
    .send(
      `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    .send(body);
  const refused = await client.answer();
  assert.deepEqual([refused.status, refused.json()['code']], [413, 'max_field_bytes']);
  assert.equal((await client.get('/none').answer()).status, 404);
  await emptied(uploads);
});

const KILLED_APP = `
import { Svc } from 'svc';
const app = new Svc(process.env.OWN === 'yes' ? { uploadDirectory: process.env.TMPDIR } : {});
app.post('/', async ({ req }) => { await req.form(); });
const { port } = await app.run({ port: 0 });
console.log('port ' + port);
`;

/** Starts a process, and sends it a part of a large upload. */
async function interrupted(
  t: TestContext,
  cwd: string,
  env: Readonly<Record<string, string>>,
): Promise<ReturnType<typeof start>> {
  const child = start(t, process.execPath, ['--conditions=svc-source', 'app.mjs'], {
    cwd,
    env: { ...env, NODE_V8_COVERAGE: '' },
  });
  const [, port] = await child.printed(/port (\d+)/);
  const client = await RawClient.open(Number(port));
  t.after(() => client.socket.destroy());
  client.socket.on('error', () => undefined);
  client
    .send(
      `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 9000000\r\n\r\n--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n`,
    )
    .send(Buffer.alloc(3_000_000, 'x'));
  return child;
}

test(
  'if a process is killed during an upload to the temporary folder of the system, no file is left',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const uploads = folder(t);
    const cwd = project(t, { 'app.mjs': KILLED_APP });
    const { child, ended } = await interrupted(t, cwd, { TMPDIR: uploads });
    const spools = (): string[] =>
      readdirSync(`/proc/${child.pid}/fd`)
        .map((fd) => {
          try {
            return readlinkSync(`/proc/${child.pid}/fd/${fd}`);
          } catch {
            return '';
          }
        })
        .filter((path) => path.startsWith(uploads) && path.endsWith(' (deleted)'));
    while (spools().length === 0) await new Promise((resolve) => setImmediate(resolve));
    child.kill('SIGKILL');
    await ended;
    assert.deepEqual(readdirSync(uploads), []);
  },
);

test('if a process is killed during an upload to its uploadDirectory, the next process removes its file', async (t) => {
  const uploads = folder(t);
  const cwd = project(t, { 'app.mjs': KILLED_APP });
  const found = async (isWanted: (names: readonly string[]) => boolean): Promise<readonly string[]> => {
    for (;;) {
      const names = readdirSync(uploads).filter((name) => name.startsWith('svc-upload-'));
      if (isWanted(names)) return names;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const first = await interrupted(t, cwd, { TMPDIR: uploads, OWN: 'yes' });
  const [left] = await found((names) => names.length === 1);
  first.child.kill('SIGKILL');
  await first.ended;
  assert.deepEqual(await found(() => true), [left]);
  const next = await interrupted(t, cwd, { TMPDIR: uploads, OWN: 'yes' });
  const [other] = await found((names) => names.length === 1 && names[0] !== left);
  assert.ok(other!.startsWith(`svc-upload-${next.child.pid}-`));
  next.child.kill('SIGKILL');
  await next.ended;
});
