import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { Field, Schema, Svc, bool, file, int, lazy, list, nullable, str } from '../../../src/index.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { served } from '../../support/served.ts';
import { MULTIPART, UploadFolder, formRequest, textOf } from '../../support/form-requests.ts';
import { field, fileOf, written } from '../../support/multipart-reference.ts';
import type { FormFields, FormOptions, HttpRequest } from '../../../src/index.ts';
import type { WrittenPart } from '../../support/multipart-reference.ts';

/** Returns the status and code of the error with which reading fails. */
async function refusal(reading: Promise<unknown>): Promise<readonly unknown[]> {
  try {
    await reading;
  } catch (error) {
    const { status, code } = error as { status?: number; code?: string };
    return [status, code];
  }
  return [];
}

async function asText(form: FormFields): Promise<unknown> {
  const names = [...form.keys()];
  return Promise.all(
    names.map(async (name) => [
      name,
      ...form.getAll(name),
      ...(await Promise.all(
        form
          .files(name)
          .map(async (upload) => [upload.filename, upload.contentType, await textOf(upload.stream())]),
      )),
    ]),
  );
}

const PARTS = [
  field('name', 'Ada & Co'),
  field('tag', 'x'),
  fileOf('avatar', 'me.png', 'PNG…', 'image/png'),
  field('tag', 'ü👋'),
  fileOf('docs', 'a.txt', 'first'),
  fileOf('docs', 'b.txt', ''),
  field('empty'),
];
const READ = [
  ['name', 'Ada & Co'],
  ['tag', 'x', 'ü👋'],
  ['empty', ''],
  ['avatar', ['me.png', 'image/png', 'PNG…']],
  ['docs', ['a.txt', 'application/octet-stream', 'first'], ['b.txt', 'application/octet-stream', '']],
];

test('form() returns fields and files of a multipart body, however the body is split and wherever files are stored', async (t) => {
  const folder = new UploadFolder(t);
  const body = written(PARTS);
  for (const memoryBytes of [0, 1, 8, 1_000]) {
    for (const size of [1, 7, 64, body.length]) {
      const { req, incoming, end } = formRequest();
      const reading = req.form({ memoryBytes, directory: folder.path });
      for (let at = 0; at < body.length; at += size) incoming.push(body.subarray(at, at + size));
      incoming.complete = true;
      incoming.push(null);
      assert.deepEqual(await asText(await reading), READ, `${memoryBytes} ${size}`);
      assert.equal(folder.open.length, memoryBytes < 1_000 && process.platform === 'linux' ? 1 : 0);
      await end();
      assert.deepEqual(folder.left, []);
    }
  }
});

test('form() returns fields and files by name', async () => {
  const { req } = formRequest(PARTS);
  const form = await req.form();
  assert.deepEqual(
    [form.get('tag'), form.get('avatar'), form.get('none'), form.getAll('docs')],
    ['x', undefined, undefined, []],
  );
  assert.deepEqual([form.has('tag'), form.has('avatar'), form.has('none')], [true, true, false]);
  assert.deepEqual(
    [form.file('docs')?.filename, form.file('tag'), form.files('docs').length, form.files('none')],
    ['a.txt', undefined, 2, []],
  );
  assert.deepEqual(JSON.parse(JSON.stringify(form.file('avatar'))), {
    name: 'avatar',
    filename: 'me.png',
    contentType: 'image/png',
    size: 6,
  });
  assert.equal(await req.form(), form);
});

test('form() omits a file input for which no file was chosen, and includes an empty file', async () => {
  const { req } = formRequest([
    fileOf('unused', '', ''),
    fileOf('empty', 'a', ''),
    fileOf('nameless', '', 'x'),
  ]);
  assert.deepEqual([...(await req.form()).keys()], ['empty', 'nameless']);
});

test('form() parses a urlencoded form, and accepts both media types in upper or lower case', async () => {
  for (const type of [
    'application/x-www-form-urlencoded',
    'Application/X-WWW-Form-Urlencoded; charset=utf-8',
  ]) {
    const { req } = formRequest(Buffer.from('a=1&a=%zz&b=+%C3%BC&__proto__=x'), type);
    const form = await req.form();
    assert.deepEqual(
      [form.getAll('a'), form.get('b'), form.get('__proto__'), form.files('a'), form.file('a')],
      [['1', '%zz'], ' ü', 'x', [], undefined],
    );
    assert.equal(({} as Record<string, unknown>)['x'], undefined);
  }
  const { req } = formRequest(
    [field('__proto__', 'x'), fileOf('constructor', 'f', 'y')],
    'Multipart/Form-Data; Boundary="b"',
  );
  assert.deepEqual([...(await req.form()).keys()], ['__proto__', 'constructor']);
});

test('form() and parts() name the media types that they read, in the 415 for another one', async () => {
  for (const type of ['', 'application/json', 'application/x-www-form-urlencoded']) {
    const parts = formRequest(PARTS, type).req.parts()[Symbol.asyncIterator]();
    await assert.rejects(parts.next(), {
      status: 415,
      message: 'The request body must be multipart/form-data',
    });
  }
  await assert.rejects(formRequest(PARTS, 'application/json').req.form(), {
    status: 415,
    message: 'The request body must be application/x-www-form-urlencoded or multipart/form-data',
  });
});

test('form() answers a media type that is not for forms with 415, and a multipart body whose boundary is missing with 400', async () => {
  for (const type of ['application/json', 'multipart/mixed; boundary=b', 'text/plain', ''])
    assert.deepEqual(await refusal(formRequest(PARTS, type).req.form()), [415, undefined], type);
  for (const type of [
    'multipart/form-data',
    'multipart/form-data; boundary=b; boundary=b',
    `multipart/form-data; boundary=${'b'.repeat(71)}`,
  ])
    assert.deepEqual(await refusal(formRequest(PARTS, type).req.form()), [400, 'multipart'], type);
});

test('form() answers 400 to text that is not UTF-8, and to a body that declares another charset', async () => {
  for (const parts of [
    [field('a', Buffer.from([0xff]))],
    [field('a', Buffer.from([0xc3]))],
    [field('_charset_', 'iso-8859-1'), field('a', 'x')],
    [
      {
        head: 'Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain; charset=iso-8859-1',
        content: 'x',
      },
    ],
  ]) {
    assert.deepEqual(await refusal(formRequest(parts).req.form()), [400, 'utf8']);
    assert.deepEqual(
      await refusal(
        (async () => {
          for await (const part of formRequest(parts).req.parts()) await part.text();
        })(),
      ),
      [400, 'utf8'],
    );
  }
  const { req } = formRequest([
    field('_charset_', 'UTF-8'),
    field('a', '\ufeff\ufffd'),
    {
      head: 'Content-Disposition: form-data; name="b"\r\nContent-Type: text/plain; charset=utf-8',
      content: 'ü',
    },
  ]);
  assert.deepEqual(await asText(await req.form()), [
    ['_charset_', 'UTF-8'],
    ['a', '\ufeff\ufffd'],
    ['b', 'ü'],
  ]);
});

const LIMITS: readonly (readonly [options: FormOptions, code: string | undefined])[] = [
  [{ maxFields: 3 }, 'max_fields'],
  [{ maxFiles: 2 }, 'max_files'],
  [{ maxFieldBytes: 7 }, 'max_field_bytes'],
  [{ maxFileBytes: 5 }, 'max_file_bytes'],
  [{ maxTextBytes: 300 }, 'max_text_bytes'],
  [{ maxHeaderBytes: 64 }, 'max_header_bytes'],
  [{ maxBytes: 500 }, undefined],
];
test('a urlencoded form with escapes that are not UTF-8 is answered with 400; malformed escapes are kept as text', async () => {
  const app = new Svc({ env: 'test' });
  const handler = async ({ req }: { readonly req: HttpRequest }): Promise<unknown> => {
    const form = await req.form();
    return [...form.keys()].map((name) => [name, form.getAll(name)]);
  };
  app.post('/read', handler);
  app.post('/declared', { form: { a: Field('') } }, ({ form }) => [['a', [form.a]]]);
  await using server = await served(app);
  const send = async (path: string, body: string): Promise<readonly [number, unknown]> => {
    const head = `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n`;
    const answer = await server.ask('POST', path, head + body); // text is sent as Latin-1, byte for byte
    const { code } = answer.json() as { code?: string };
    return [answer.status, code ?? answer.json()];
  };
  for (const path of ['/read', '/declared']) {
    for (const body of [
      'a=%ff',
      'a=%C3',
      'a=x%E2%82+',
      'a=%ED%A0%80',
      'a=%zz%ff',
      'a=\xff',
      'a=\xc3%A4',
    ].concat(path === '/read' ? ['%ff=a', 'b=1&%C3%28'] : []))
      assert.deepEqual(await send(path, body), [400, 'utf8'], body);
    for (const [body, value] of [
      ['a=%EF%BF%BD', '\ufffd'],
      ['a=%zz%', '%zz%'],
      ['a=%zz%C3%A4+', '%zzä '],
      ['a=100%', '100%'],
      ['a=\xc3\xa4%', 'ä%'],
    ] as const)
      assert.deepEqual(await send(path, body), [200, [['a', [value]]]], body);
  }
});

test('form() and parts() answer 413 to a body beyond a limit, and delete the temporary files of the body', async (t) => {
  const folder = new UploadFolder(t);
  for (const [options, code] of LIMITS) {
    const own = { ...options, directory: folder.path, memoryBytes: 0 };
    const { req, end } = formRequest(PARTS);
    assert.deepEqual(await refusal(req.form(own)), [413, code]);
    assert.deepEqual(folder.left, []);
    await end();
    assert.deepEqual(
      await refusal(
        (async () => {
          for await (const _ of formRequest(PARTS).req.parts(own));
        })(),
      ),
      [413, code],
    );
  }
  const urlencoded = (options: FormOptions): Promise<unknown> =>
    formRequest(Buffer.from('a=12345&b=%C3%BC'), 'application/x-www-form-urlencoded').req.form(options);
  assert.deepEqual(
    [
      await refusal(urlencoded({ maxFields: 1 })),
      await refusal(urlencoded({ maxFieldBytes: 4 })),
      await refusal(urlencoded({ maxBytes: 10 })),
      await refusal(urlencoded({ maxFields: 2, maxFieldBytes: 5, maxBytes: 16 })),
    ],
    [[413, 'max_fields'], [413, 'max_field_bytes'], [413, undefined], []],
  );
  const raw = (maxFieldBytes: number): Promise<unknown> =>
    formRequest(Buffer.from('a=漢字'), 'application/x-www-form-urlencoded').req.form({ maxFieldBytes });
  assert.deepEqual([await refusal(raw(5)), await refusal(raw(6))], [[413, 'max_field_bytes'], []]);
});

test('form() refuses 1,001 fields, 101 files and a field of more than 1 MB by default', async () => {
  const many = (count: number, part: WrittenPart): WrittenPart[] => Array.from({ length: count }, () => part);
  for (const [parts, code] of [
    [many(1_000, field('a')), undefined],
    [many(1_001, field('a')), 'max_fields'],
    [many(100, fileOf('a', 'a', 'x')), undefined],
    [many(101, fileOf('a', 'a', 'x')), 'max_files'],
    [[field('a', 'x'.repeat(1_000_001))], 'max_field_bytes'],
  ] as const) {
    assert.deepEqual(await refusal(formRequest(parts).req.form()), code === undefined ? [] : [413, code]);
  }
  const large = formRequest(undefined, undefined, ['content-length', '10000001']);
  assert.deepEqual(await refusal(large.req.form()), [413, undefined]); // before the first byte
});

test('form() and parts() refuse unknown or invalid options', async () => {
  for (const [options, code] of [
    [{ maxFileds: 1 }, 'E_OPTION_UNKNOWN'],
    [{ maxFields: -1 }, 'E_OPTION_RANGE'],
    [{ maxFileBytes: 1.5 }, 'E_OPTION_RANGE'],
    [{ maxHeaderBytes: 10 }, 'E_OPTION_RANGE'],
    [{ maxBytes: -1 }, 'E_OPTION_RANGE'],
    [{ directory: 5 }, 'E_OPTION_RANGE'],
  ] as const) {
    await assert.rejects(formRequest(PARTS).req.form(options as FormOptions), { code });
    await assert.rejects(
      async () => {
        for await (const _ of formRequest(PARTS).req.parts(options as FormOptions));
      },
      { code },
    );
  }
});

test('if the body ends too early or the client leaves, form() deletes its temporary files', async (t) => {
  const folder = new UploadFolder(t);
  const options = { directory: folder.path, memoryBytes: 0 };
  const short = formRequest(written(PARTS).subarray(0, 400));
  assert.deepEqual(await refusal(short.req.form(options)), [400, 'multipart']);
  assert.deepEqual(folder.left, []);
  const left = formRequest();
  const reading = left.req.form(options);
  left.incoming.push(
    Buffer.concat([written([fileOf('f', 'f', Buffer.alloc(300_000, 'x'))])]).subarray(0, 300_000),
  );
  await new Promise((resolve) => setImmediate(resolve));
  left.incoming.destroy();
  await assert.rejects(reading, { name: 'ClientDisconnected' });
  await left.end();
  assert.deepEqual(folder.left, []);
});

test('if the client leaves during form() and no code awaits its promise, the process does not end', async () => {
  const { req, incoming } = formRequest();
  void req.form();
  incoming.push('--b');
  await new Promise((resolve) => setImmediate(resolve));
  incoming.destroy();
  await new Promise((resolve) => setImmediate(resolve)); // an unhandled rejection would fail this test
});

test('form() can read a body after body(), but after form() or stream() no other method can read the body', async () => {
  const { req } = formRequest(PARTS);
  assert.equal((await req.body()).length, written(PARTS).length);
  assert.deepEqual(await asText(await req.form()), READ);
  const other = formRequest(PARTS).req;
  await other.form();
  await assert.rejects(other.body(), { code: 'E_BODY_CONSUMED' });
  await assert.rejects(
    async () => {
      for await (const _ of other.parts());
    },
    { code: 'E_BODY_CONSUMED' },
  );
  const streamed = formRequest(PARTS).req;
  await textOf(streamed.stream());
  await assert.rejects(streamed.form(), { code: 'E_BODY_CONSUMED' });
});

test('form() stops reading from the connection until the temporary file has been written', async (t) => {
  const folder = new UploadFolder(t);
  const { req, incoming, end } = formRequest();
  const reading = req.form({ directory: folder.path, memoryBytes: 0, maxBytes: 100_000_000 });
  let handed = 0,
    most = 0;
  const block = Buffer.alloc(65_536, 'x');
  incoming.push(`--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n`);
  incoming._read = () => {
    if (handed++ < 400) incoming.push(block);
    else {
      incoming.push('\r\n--b--');
      incoming.push(null);
    }
    most = Math.max(most, incoming.readableLength);
  };
  incoming._read();
  assert.equal((await reading).file('f')!.size, 400 * block.length);
  assert.ok(most < 1_000_000, `${most} bytes lay unread`);
  await end();
  assert.deepEqual(folder.left, []);
});

// ── parts() ──

test('parts() yields all parts of a body, and skips a part that the loop does not read', async () => {
  const body = written(PARTS);
  for (const size of [1, 5, 50, body.length]) {
    const { req, incoming } = formRequest();
    for (let at = 0; at < body.length; at += size) incoming.push(body.subarray(at, at + size));
    incoming.push(null);
    const seen: unknown[] = [];
    for await (const part of req.parts())
      seen.push([
        part.name,
        part.filename,
        part.contentType,
        part.name === 'docs' ? '' : part.filename === undefined ? await part.text() : await textOf(part),
      ]);
    assert.deepEqual(seen, [
      ['name', undefined, 'text/plain', 'Ada & Co'],
      ['tag', undefined, 'text/plain', 'x'],
      ['avatar', 'me.png', 'image/png', 'PNG…'],
      ['tag', undefined, 'text/plain', 'ü👋'],
      ['docs', 'a.txt', 'application/octet-stream', ''],
      ['docs', 'b.txt', 'application/octet-stream', ''],
      ['empty', undefined, 'text/plain', ''],
    ]);
  }
});

test('parts() yields the parts before a malformed part, and then throws a 400', async () => {
  const { req } = formRequest(Buffer.concat([written([field('a', '1')]).subarray(0, -4), Buffer.from('x')]));
  const seen: string[] = [];
  assert.deepEqual(
    await refusal(
      (async () => {
        for await (const part of req.parts()) seen.push(await part.text());
      })(),
    ),
    [400, 'multipart'],
  );
  assert.deepEqual(seen, ['1']);
});

test('reading a part throws if the loop over parts() has moved to the next part or has ended', async () => {
  const { req } = formRequest(PARTS);
  const kept = [];
  for await (const part of req.parts()) {
    kept.push(part);
    if (kept.length === 2) await assert.rejects(kept[0]!.text(), { code: 'E_UPLOAD_GONE' });
    if (kept.length === 3) break;
  }
  await assert.rejects(kept[2]!.text(), { code: 'E_UPLOAD_GONE' });
  assert.deepEqual(
    await refusal(
      (async () => {
        for await (const _ of formRequest(
          Buffer.from('a=1'),
          'application/x-www-form-urlencoded',
        ).req.parts());
      })(),
    ),
    [415, undefined],
  );
});

test('parts() reads the next chunk only when the previous chunk has been used', async () => {
  const { req, incoming } = formRequest();
  incoming.push('--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nfirst');
  const parts = req.parts()[Symbol.asyncIterator]();
  const part = (await parts.next()).value as AsyncIterable<Uint8Array>;
  const chunks = part[Symbol.asyncIterator]();
  assert.equal(String((await chunks.next()).value), 'first');
  incoming.push('second');
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(incoming.readableLength, 6);
  assert.equal(String((await chunks.next()).value), 'second');
  await parts.return!();
});

// ── leadingFields() ──

test('leadingFields() returns the fields before the first file if they fit in 64 KiB, and the body can still be read', async () => {
  const before = [field('a', '1'), field('a', 'ü'), field('b', 'x'.repeat(60_000))];
  const inside = written([...before, fileOf('f', 'f', 'y'.repeat(80_000)), field('c', 'late')]);
  const room =
    65_536 -
    (written(before).length - '--b--\r\n'.length) -
    field('d').head.length -
    'Content-Disposition: form-data'.length -
    '--b\r\n\r\n\r\n\r\n--b'.length;
  const cases: readonly (readonly [body: Buffer, names: readonly string[]])[] = [
    [inside, ['a', 'b']],
    [written(before), ['a', 'b']],
    [written([]), []],
    [written([fileOf('f', 'f', 'x'), field('a')]), []],
    [written([...before, field('d', 'z'.repeat(room)), field('e')]), ['a', 'b', 'd']],
    [written([...before, field('d', 'z'.repeat(room + 1)), field('e')]), ['a', 'b']],
  ];
  for (const [index, [body, names]] of cases.entries()) {
    for (const size of [997, 16_384, 65_536, 65_537, body.length]) {
      const { req, incoming } = formRequest();
      for (let at = 0; at < body.length; at += size) incoming.push(body.subarray(at, at + size));
      incoming.complete = true;
      incoming.push(null);
      const fields = await req.leadingFields();
      assert.deepEqual([...fields.keys()], names, `case ${index}, chunks of ${size}`);
      assert.equal(await req.leadingFields(), fields);
      if (index === 0 && size === 997)
        assert.deepEqual([fields.getAll('a'), (await req.form()).get('c')], [['1', 'ü'], 'late']);
      else if (size === 16_384) assert.deepEqual(await req.body(), body);
      else assert.equal(await textOf(req.stream()), body.toString());
    }
  }
});

test('leadingFields() also returns fields of a multipart body that was read by body() or form()', async () => {
  const read = formRequest(PARTS).req;
  await read.body();
  assert.deepEqual((await read.leadingFields()).getAll('tag'), ['x']);
  const formed = formRequest(PARTS).req;
  await formed.form();
  assert.deepEqual((await formed.leadingFields()).getAll('tag'), ['x', 'ü👋']);
  const streamed = formRequest(PARTS).req;
  await textOf(streamed.stream());
  assert.deepEqual([...(await streamed.leadingFields()).keys()], []);
  assert.deepEqual(
    [
      ...(
        await formRequest(Buffer.from('a=1'), 'application/x-www-form-urlencoded').req.leadingFields()
      ).keys(),
    ],
    [],
  );
});

test('leadingFields() rejects if the client has left, or if the body is too large or malformed', async () => {
  const { req, incoming } = formRequest();
  const reading = req.leadingFields();
  incoming.push('--b\r\n');
  incoming.destroy();
  await assert.rejects(reading, { name: 'ClientDisconnected' });
  const gone = formRequest();
  gone.incoming.destroy();
  await assert.rejects(gone.req.leadingFields(), { name: 'ClientDisconnected' });
  assert.deepEqual(await refusal(formRequest(Buffer.from('--bad')).req.leadingFields()), [400, 'multipart']);
  const app = new Svc({ env: 'test' });
  app.post('/', { maxBodyBytes: 100 }, async ({ req: large }) => {
    await large.leadingFields();
  });
  await using client = new TestClient(app);
  assert.equal(
    (
      await client.post('/', {
        body: written(PARTS),
        headers: { 'content-type': MULTIPART, 'content-length': String(written(PARTS).length) },
      })
    ).status,
    413,
  );
});

// ── schemas ──

class Profile extends Schema {
  name = Field(str, { minLength: 2 });
  age = Field(int, { default: 18 });
  news = Field(bool, { default: false });
  avatar = Field(file, { maxLength: 5, contentTypes: ['image/png', 'text/*'] });
  docs = Field(list(file, { maxLength: 10 }), { default: () => [], maxLength: 2 });
  extra = Field(nullable(file), { optional: true });
}

function profiles(folder?: string): { app: Svc; client: TestClient; ran: () => number } {
  const app = new Svc({ env: 'test', uploadDirectory: folder });
  let ran = 0;
  app.post('/', { form: Profile }, async ({ form, req }) => {
    ran++;
    return {
      name: form.name,
      age: form.age,
      news: form.news,
      avatar: Buffer.from(await form.avatar.bytes()).toString(),
      docs: form.docs.map(({ filename, size }) => [filename, size]),
      extra: form.extra?.size ?? null,
      keys: [...(await req.form()).keys()],
    };
  });
  return { app, client: new TestClient(app), ran: () => ran };
}

function filled(entries: Readonly<Record<string, string | File | readonly File[]>>): FormData {
  const form = new FormData();
  for (const [name, values] of Object.entries(entries))
    for (const value of [values].flat()) form.append(name, value as File);
  return form;
}
const png = (text: string, name = 'a.png'): File => new File([text], name, { type: 'image/png' });

test('the option "form" of a route converts the fields of a form with a schema, and passes files to the handler', async () => {
  const { client } = profiles();
  await using _ = client;
  const response = await client.post('/', {
    form: filled({
      name: 'Ada',
      age: '36',
      news: 'on',
      avatar: png('12345'),
      docs: [png('1', '1'), png('22', '2')],
      other: png('x'),
    }),
  });
  assert.deepEqual(await response.json(), {
    name: 'Ada',
    age: 36,
    news: true,
    avatar: '12345',
    docs: [
      ['1', 1],
      ['2', 2],
    ],
    extra: null,
    keys: ['name', 'age', 'news', 'avatar', 'docs', 'other'],
  });
});

test('the option "form" reports all issues of a form together, each with its place, and deletes files that are too large', async (t) => {
  const folder = new UploadFolder(t);
  const { client, ran } = profiles(folder.path);
  await using _ = client;
  const problems = async (request: Parameters<TestClient['post']>[1]): Promise<unknown> => {
    const response = await client.post('/', request);
    assert.equal(response.status, 400);
    return ((await response.json()) as { errors: { loc: unknown[]; code: string }[] }).errors.map(
      ({ loc, code }) => `${loc.join('.')} ${code}`,
    );
  };
  assert.deepEqual(
    await problems({
      form: filled({ name: 'A', age: 'x', avatar: png('123456'), docs: [png('x'.repeat(11)), png('')] }),
    }),
    ['form.name min_length', 'form.age type', 'form.avatar max_length', 'form.docs.0 max_length'],
  );
  assert.deepEqual(
    await problems({
      form: filled({
        name: 'Ada',
        avatar: new File(['x'], 'a.zip', { type: 'application/zip' }),
        docs: [png(''), png(''), png('')],
      }),
    }),
    ['form.avatar content_type', 'form.docs max_length'],
  );
  assert.deepEqual(await problems({ form: filled({ name: png('x'), avatar: 'text' }) }), [
    'form.name required',
    'form.avatar type',
  ]);
  assert.deepEqual(await problems({ form: filled({ name: 'Ada', avatar: [png('1'), png('2')] }) }), [
    'form.avatar repeated',
  ]);
  assert.deepEqual(await problems({ form: { name: 'Ada' } }), ['form.avatar required']);
  assert.deepEqual(await problems({ form: filled({ name: 'Ada', avatar: png('x'.repeat(5_000_000)) }) }), [
    'form.avatar max_length',
  ]);
  assert.equal(ran(), 0);
  assert.deepEqual(readdirSync(folder.path), []);
});

test('the option "form" skips a file for which the schema has no field, whatever its size', async (t) => {
  const folder = new UploadFolder(t);
  const app = new Svc({ env: 'test', uploadDirectory: folder.path });
  let seen: unknown;
  app.post('/', { form: { a: Field(str) } }, async ({ form, req }) => {
    const raw = await req.form();
    seen = [form.a, folder.open, raw.has('large'), raw.file('large')];
  });
  await using client = new TestClient(app);
  assert.equal(
    (await client.post('/', { form: filled({ large: png('x'.repeat(3_000_000)), a: 'x' }) })).status,
    204,
  );
  assert.deepEqual(seen, ['x', [], true, undefined]);
});

test('if a schema forbids undeclared members, the option "form" refuses undeclared files', async () => {
  class Strict extends Schema {
    static extra = 'forbid';
    f = Field(
      lazy(() => file),
      { optional: true },
    );
  }
  const app = new Svc({ env: 'test' });
  app.post('/', { form: Strict }, ({ form }) => ({ size: form.f!.size }));
  await using client = new TestClient(app);
  assert.deepEqual(await (await client.post('/', { form: filled({ f: png('123') }) })).json(), { size: 3 });
  const refused = await client.post('/', { form: filled({ f: png('123'), g: png('x') }) });
  assert.deepEqual(
    ((await refused.json()) as { errors: { loc: unknown }[] }).errors.map(({ loc }) => loc),
    [['form', 'g']],
  );
});

test('the option "form" accepts a multipart or urlencoded form if a file is missing that the schema declares as optional', async () => {
  const app = new Svc({ env: 'test' });
  app.post('/', { form: { a: Field(str), f: Field(file, { optional: true }) } }, ({ form }) => ({
    a: form.a,
    f: form.f?.filename ?? null,
  }));
  await using client = new TestClient(app);
  for (const [form, f] of [
    [{ a: 'x' }, null],
    [filled({ a: 'x' }), null],
    [filled({ a: 'x', f: png('', 'f') }), 'f'],
  ] as const)
    assert.deepEqual(await (await client.post('/', { form })).json(), { a: 'x', f });
});

test('the setting "uploadDirectory" is read from the options of the application or its configuration', async (t) => {
  const folder = new UploadFolder(t);
  for (const options of [{ uploadDirectory: folder.path }, { config: { uploadDirectory: folder.path } }]) {
    const app = new Svc({ env: 'test', ...options });
    app.post('/', async ({ req }) => {
      await req.form({ memoryBytes: 0 });
      return { open: folder.open.length };
    });
    await using client = new TestClient(app);
    assert.deepEqual(await (await client.post('/', { form: filled({ f: png('x') }) })).json(), {
      open: process.platform === 'linux' ? 1 : 0,
    });
  }
  assert.throws(() => new Svc({ uploadDirectory: 5 as never }), { code: 'E_OPTION_RANGE' });
});

test('"maxBodyBytes" of a route limits a form that form() reads, may be above 10 MB, and does not affect other routes', async () => {
  const app = new Svc({ env: 'test' });
  const length = async ({ req }: { req: HttpRequest }): Promise<number> => (await req.form()).file('f')!.size;
  app
    .post('/small', { maxBodyBytes: 1_000 }, length)
    .post('/large', { maxBodyBytes: 20_000_000 }, length)
    .post('/usual', length);
  await using client = new TestClient(app);
  const status = async (path: string, size: number): Promise<number> =>
    (await client.post(path, { form: filled({ f: png('x'.repeat(size)) }) })).status;
  assert.deepEqual(
    [
      await status('/small', 500),
      await status('/small', 1_500),
      await status('/usual', 9_900_000),
      await status('/usual', 10_000_000),
      await status('/large', 12_000_000),
      await status('/large', 20_000_000),
    ],
    [200, 413, 200, 413, 200, 413],
  );
});
