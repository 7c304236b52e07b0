import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createSecretKey, webcrypto } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SvcError } from '../../src/base/errors.ts';
import { createLogger, LineQueue } from '../../src/observability/log.ts';
import type { LoggerOptions } from '../../src/observability/log.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { seeded } from '../support/random.ts';

function collect(options: LoggerOptions = {}) {
  const lines: string[] = [];
  return {
    lines,
    log: createLogger({
      clock: new ManualClock(),
      format: 'json',
      level: 'debug',
      sink: (line) => lines.push(line),
      ...options,
    }),
  };
}

/** Returns the logged form of one field. */
function logged(value: unknown, key = 'value'): unknown {
  const { lines, log } = collect();
  log.info('event', { [key]: value });
  assert.equal(lines.length, 1);
  assert.doesNotMatch(lines[0]!, /[\x00-\x1f\x7f-\x9f\u2028\u2029]/);
  return JSON.parse(lines[0]!)[key];
}

// ── lines ──

test('createLogger() writes one line of JSON for each event', () => {
  const { lines, log } = collect();
  log.info('server_listening', { port: 8000, host: 'localhost' });
  assert.deepEqual(lines, [
    '{"time":"2024-01-01T00:00:00.000Z","level":"info","logger":"svc","event":"server_listening","port":8000,"host":"localhost"}',
  ]);
});

test('createLogger() omits events below the configured level', () => {
  for (const [level, expected] of [
    ['debug', 'debug info warn error'],
    ['info', 'info warn error'],
    ['warn', 'warn error'],
    ['error', 'error'],
    ['silent', ''],
  ] as const) {
    const { lines, log } = collect({ level });
    log.debug('a');
    log.info('a');
    log.warn('a');
    log.error('a', undefined);
    assert.equal(lines.map((line) => JSON.parse(line).level).join(' '), expected);
  }
});

test('createLogger() logs events from level "info" upwards by default, and refuses unknown options', () => {
  const lines: string[] = [];
  const log = createLogger({ sink: (line) => lines.push(line) });
  log.debug('a');
  log.info('b');
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^\{"time":"\d{4}-/); // the sink is not a terminal, so the format is JSON
  const code = (expected: string) => (error: unknown) => error instanceof SvcError && error.code === expected;
  assert.throws(() => createLogger({ level: 'loud' as 'info' }), code('E_OPTION_RANGE'));
  for (const wrong of [{ sink: 1 }, { clock: 1 }, { fields: 1 }, { colour: 1 }])
    assert.throws(() => createLogger(wrong as object), code('E_OPTION_RANGE'));
  assert.throws(() => createLogger({ nmae: 'x' } as object), code('E_OPTION_UNKNOWN'));
});

test('a logger from Logger.child() has its own name and the fields of its parent, which its own fields can override', () => {
  const { lines, log } = collect({ name: 'app', fields: { pid: 1 } });
  const child = log.child('svc_oauth', { request_id: 'a', n: 1 });
  child.info('login', { n: 2 });
  child.child('deep').info('deeper');
  log.info('parent');
  assert.deepEqual(
    lines.map((line) => {
      const { time, level, ...rest } = JSON.parse(line);
      return rest;
    }),
    [
      { logger: 'svc_oauth', event: 'login', pid: 1, request_id: 'a', n: 2 },
      { logger: 'deep', event: 'deeper', pid: 1, request_id: 'a', n: 1 },
      { logger: 'app', event: 'parent', pid: 1 },
    ],
  );
});

test('the fields of a log event cannot replace the members time, level, logger and event of its line', () => {
  const { lines, log } = collect();
  log.info('event', { time: 'x', level: 'error', logger: 'y', event: 'z' });
  const { time_, level_, logger_, event_, level } = JSON.parse(lines[0]!);
  assert.deepEqual([time_, level_, logger_, event_, level], ['x', 'error', 'y', 'z', 'info']);
  assert.equal(lines[0]!.match(/"level":/g)!.length, 1);
});

test('Logger.error() logs the name, code, message, stack, remedy and cause of an error', () => {
  const { lines, log } = collect();
  log.error('failed', Object.assign(new TypeError('outer', { cause: new Error('inner') }), { code: 'E_X' }), {
    error: 'replaced',
    n: 1,
  });
  log.error('failed', new SvcError('E_CLI_USAGE', ['x']));
  log.error('failed', 'just text');
  log.error('failed', undefined);
  log.error('failed', new AggregateError([new Error('one')], 'many'));
  const [first, second, ...rest] = lines.map((line) => JSON.parse(line));
  assert.deepEqual(
    [first.error.name, first.error.code, first.error.message, first.error.cause.message, first.n],
    ['TypeError', 'E_X', 'outer', 'inner', 1],
  );
  assert.match(first.error.stack, /^TypeError: outer\n +at /);
  assert.equal(second.error.remedy, 'See: svc --help');
  assert.deepEqual(
    rest.map(({ error }) => error?.errors?.[0].message ?? error),
    ['just text', null, 'one'],
  );
});

test('log methods never throw, whatever their arguments are', () => {
  const hostile = new Proxy(
    {},
    {
      get() {
        throw new Error('get');
      },
      ownKeys() {
        throw new Error('keys');
      },
      getPrototypeOf() {
        throw new Error('prototype');
      },
    },
  );
  const { lines, log } = collect();
  log.info('event', hostile);
  log.info('event', {
    hostile,
    array: [hostile],
    get bad() {
      throw new Error('getter');
    },
    json: {
      toJSON() {
        throw new Error('json');
      },
    },
  });
  log.info('event', null as unknown as Record<string, unknown>);
  log.error('event', hostile);
  log.error(
    'event',
    Object.defineProperty(new Error('x'), 'stack', {
      get() {
        throw new Error('stack');
      },
    }),
  );
  log.error(
    'event',
    Object.defineProperty(new Error('x'), 'message', {
      get() {
        throw new Error('message');
      },
    }),
  );
  log.info(5 as unknown as string);
  assert.equal(lines.length, 7);
  for (const line of lines) JSON.parse(line);
  assert.deepEqual(JSON.parse(lines[1]!).bad, '[threw]');
  log.info(Symbol('x') as unknown as string);
  log.info({
    toString() {
      throw new Error('text');
    },
  } as unknown as string);
  createLogger({
    sink: () => {
      throw new Error('sink');
    },
  }).info('event');
  createLogger({
    sink: () => undefined,
    clock: { ...new ManualClock(), nowMs: () => Number.NaN } as unknown as ManualClock,
  }).info('event');
});

// ── redaction ──

for (const key of [
  'authorization',
  'Authorization',
  'proxy-authorization',
  'cookie',
  'Set-Cookie',
  'set_cookie',
  'password',
  'newPassword',
  'passwd',
  'secret',
  'authSecret',
  'SVC_AUTH_SECRET',
  'token',
  'access_token',
  'accessToken',
  'refresh_token',
  'id_token',
  'csrfToken',
  'x-csrf-token',
  'client_secret',
  'clientSecret',
  'api_key',
  'X-Api-Key',
  'code_verifier',
  'private_key',
  'tokens',
  'jwt',
  'otp',
  'session_id',
  'passphrase',
]) {
  test(`createLogger() redacts the field ${key} at any depth, whatever type its value has`, () => {
    assert.equal(logged('hunter2', key), '[redacted]');
    assert.deepEqual(logged({ deep: [{ [key]: 'hunter2' }] }), { deep: [{ [key]: '[redacted]' }] });
    assert.equal(logged({ value: 'hunter2' }, key), '[redacted]');
    assert.equal(logged(['hunter2'], key), '[redacted]');
  });
}

test('createLogger() does not redact fields such as tokenCount, whose names only resemble the names of secrets', () => {
  const fields = {
    tokenType: 'Bearer',
    hasPassword: true,
    maxTokens: 5,
    secretary: 'Ada',
    cookieName: 'sid',
    state: 'half-open',
    code: 'ECONNREFUSED',
    password: null,
    monkey: 1,
    tokenCount: 3,
  };
  const { lines, log } = collect();
  log.info('event', { ...fields, status: 200 });
  const { time, level, logger, event, status, ...rest } = JSON.parse(lines[0]!);
  assert.deepEqual(rest, fields);
});

test('createLogger() redacts fields named code, state and nonce only if their values look random', () => {
  for (const word of [
    'E_APP_FROZEN',
    'ER_DUP_ENTRY',
    '23505',
    'P0001',
    'invalid_grant',
    'SVC101',
    'open',
    'half-open',
    '1006',
    1006,
  ])
    assert.equal(logged(word, 'code'), word);
  for (const random of [
    '4/0AX4XfWh',
    'aB3',
    'xkPq-92',
    '9f8a7b6c5d4e3f2a1b0c',
    `a${'b'.repeat(50)}`,
    '123456',
  ]) {
    for (const key of ['code', 'state', 'nonce']) assert.equal(logged(random, key), '[redacted]', random);
  }
});

test('createLogger() can log values of every type, such as dates, errors, keys, maps and class instances', async () => {
  const key = createSecretKey(Buffer.from('hunter2hunter2'));
  const cryptoKey = await webcrypto.subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
  class Point {
    x = 1;
    #hidden = 2;
    get sum() {
      return this.x + this.#hidden;
    }
    method() {
      return 1;
    }
  }
  for (const [value, expected] of [
    [Buffer.from('hunter2'), '[7 bytes]'],
    [new Uint8Array(3), '[3 bytes]'],
    [new ArrayBuffer(4), '[4 bytes]'],
    [new DataView(new ArrayBuffer(2)), '[2 bytes]'],
    [key, '[key]'],
    [cryptoKey, '[key]'],
    [new URL('postgres://ada:hunter2@db.example/x'), 'postgres://ada:[redacted]@db.example/x'],
    [() => 1, '[function value]'],
    [class Foo {}, '[function Foo]'],
    [5n, '5'],
    [2n ** 300n, '[bigint]'],
    [-(2n ** 300n), '[bigint]'],
    [Number.NaN, 'NaN'],
    [-Infinity, '-Infinity'],
    [Symbol('s'), 'Symbol(s)'],
    [null, null],
    [true, true],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    [new Date(Number.NaN), '[invalid date]'],
    [/x/g, '/x/g'],
    [Promise.resolve(1), '[promise]'],
    [
      new Map<unknown, unknown>([
        ['a', 1],
        ['password', 'hunter2'],
        [{}, 2],
        [5, 3],
      ]),
      { 5: 3, a: 1, password: '[redacted]', '[object]': 2 },
    ],
    [new Set([1, 'b']), [1, 'b']],
    [new Headers({ cookie: 'sid=hunter2', accept: '*/*' }), { accept: '*/*', cookie: '[redacted]' }],
    [new URLSearchParams('a=1&code=x9Y8z7'), { a: '1', code: '[redacted]' }],
    [new Point(), { x: 1 }],
    [
      { toJSON: 5, a: undefined, b: [undefined] },
      { toJSON: 5, b: [null] },
    ],
    [Object.create(null), {}],
    [
      {
        toJSON() {
          return 1;
        },
      },
      { toJSON: '[function toJSON]' },
    ],
    [
      ['Cookie', 'sid=hunter2', 'Host', 'a'],
      ['Cookie', '[redacted]', 'Host', 'a'],
    ],
  ] as const)
    assert.deepEqual(
      logged(typeof value === 'function' && value.name === '' ? { value: () => 1 }.value : value),
      expected,
    );
  class Money {
    toJSON() {
      return { amount: 1, secret: 'hunter2' };
    }
  }
  class Self {
    a = 1;
    toJSON() {
      return this;
    }
  }
  assert.deepEqual(logged(new Money()), { amount: 1, secret: '[redacted]' });
  assert.deepEqual(logged(new Self()), { a: 1 });
});

test('createLogger() masks secrets such as tokens and passwords inside longer texts', () => {
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl';
  for (const [text, expected] of [
    [`got ${jwt}!`, 'got [jwt]!'],
    ['Authorization: Bearer abc.def', 'Authorization: Bearer [redacted]'],
    ['basic dXNlcjpwYXNz', 'basic [redacted]'],
    [
      'at mysql://root:p@ss:w@db/x and redis://:pw@r',
      'at mysql://root:[redacted]@db/x and redis://:[redacted]@r',
    ],
    ['/oauth/callback?code=abc&state=def&x=1', '/oauth/callback?code=[redacted]&state=[redacted]&x=1'],
    ['/a#access_token=abc&b=1', '/a#access_token=[redacted]&b=1'],
    ['https://example.com/a?q=1', 'https://example.com/a?q=1'],
    ['the bearer of news', 'the bearer [redacted] news'.replace('[redacted] news', 'of news')],
  ] as const)
    assert.equal(logged(text), expected);
  assert.doesNotMatch(JSON.stringify(logged(new Error(`bad ${jwt}`))), /eyJ/);
});

test('createLogger() masks a secret even if the text is truncated in the middle of the secret', () => {
  const text = `${'x'.repeat(4_080)} postgres://ada:${'hunter2'.repeat(20)}@db`;
  assert.doesNotMatch(String(logged(text)), /hunter2/);
});

test('createLogger() masks a JSON Web Token from its first character, even if a dash precedes the token', () => {
  const below = seeded(6);
  const parts = ['eyJ', 'eyJabcdefgh', 'abcdefgh', '-', '.', '.', '_', ' ', 'a', '/', '12345678'];
  for (let round = 0; round < 20_000; round++) {
    const text = Array.from({ length: below(14) }, () => parts[below(parts.length)]!).join('');
    assert.equal(logged(text), text.replace(/\beyJ[\w-]{8,}(?:\.[\w-]*){1,4}/g, '[jwt]'), text);
  }
});

test('createLogger() writes a short line for several megabytes of texts that are hard to mask', () => {
  for (const part of ['-eyJ', 'eyJaaaaaaaa.', 'a.', 'a-', 'a://x:', '?code=', 'Bearer\t']) {
    const text = part.repeat(Math.ceil(7_168 / part.length));
    const body = Array.from({ length: 10 }, () => Array.from({ length: 99 }, () => text));
    const line = JSON.stringify(logged(body));
    assert.ok(line.length < 100_000, `${part} ${line.length}`);
  }
});

test('a log line has a bounded length, however large or deeply nested its fields are', () => {
  let deep: unknown = 'bottom';
  for (let level = 0; level < 1_000; level++) deep = level % 2 === 0 ? { deep } : [deep];
  const wide = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, index) => [`k${index}`, 'x'.repeat(10_000)]),
  );
  const { lines, log } = collect();
  log.info('event', {
    deep,
    wide,
    list: new Array(1e6).fill(wide),
    set: new Set(new Array(1_000).keys()),
    text: 'y'.repeat(1e6),
    ['k'.repeat(1_000)]: 1,
  });
  log.info('event', wide);
  log.error('e'.repeat(100_000), new Error('m'.repeat(1e6)));
  for (const line of lines) assert.ok(line.length < 100_000 && JSON.parse(line), `${line.length}`);
  const cyclic: Record<string, unknown> = { a: 1 };
  cyclic['self'] = cyclic;
  cyclic['list'] = [cyclic];
  assert.deepEqual(logged(cyclic), { a: 1, self: '[circular]', list: ['[circular]'] });
  const shared = { a: 1 };
  assert.deepEqual(logged([shared, shared]), [shared, shared]);
  const error: Error = new Error('x');
  error.cause = error;
  assert.equal((logged(error) as Error).cause, '[circular]');
  assert.deepEqual(logged(Array.from({ length: 102 }, () => 1)), [
    ...Array.from({ length: 100 }, () => 1),
    '[2 more]',
  ]);
  assert.equal((logged(wide) as Record<string, unknown>)['[more]'], 900);
});

test('no logged text can start a new line or contain control characters, in the format "json" or "human"', () => {
  const evil = 'a\nb\r\u2028c\u2029\x1b[2J\x7f\x85\u202e\ufeff\ud800{"level":"error"}';
  for (const format of ['json', 'human'] as const) {
    const { lines, log } = collect({ format, name: evil });
    log.info(evil, { [evil]: evil, nested: { [evil]: [evil] } });
    assert.equal(lines.length, 1);
    assert.doesNotMatch(lines[0]!, /[\x00-\x1f\x7f-\x9f\u2028-\u202e\ufeff]/);
  }
  assert.equal(logged('tab\tfeed\n'), 'tab\tfeed\n'); // escaped in the line, and complete in the parsed value
});

// ── human form ──

test('in the log format "human", an event is one line, and the stack of its error is indented below this line', () => {
  const { lines, log } = collect({ format: 'human' });
  log.child('db').warn('slow query', { ms: 5.5, sql: 'select 1', path: '/a/b', ok: true, list: [1, 'b'] });
  log.error(
    'failed',
    new SvcError('E_CLI_USAGE', ['bad\n00:00:00.000 INFO  svc forged\x1b[2J'], { cause: new Error('inner') }),
    { n: 1 },
  );
  assert.equal(
    lines[0],
    '00:00:00.000Z WARN  db "slow query" ms=5.5 sql="select 1" path=/a/b ok=true list=[1,"b"]',
  );
  const [head, ...stack] = lines[1]!.split('\n');
  assert.equal(head, '00:00:00.000Z ERROR svc failed n=1');
  assert.ok(stack.every((row) => row.startsWith('    ')));
  assert.match(
    lines[1]!,
    /\n    error: SvcError: Cannot understand .*\n    00:00:00\.000 INFO  svc forged\\u001b\[2J\n.*\n    Remedy: See: svc --help\n    cause: Error: inner\n/s,
  );
});

test('in the log format "human", lines have colours if the option "colour" is true', () => {
  const { lines, log } = collect({ format: 'human', colour: true });
  log.error('failed', 'text');
  assert.equal(lines[0], '00:00:00.000Z \x1b[31mERROR\x1b[0m svc failed error=text');
});

// ── queue ──

type LogDevice = ReturnType<ConstructorParameters<typeof LineQueue>[0]>;
class FakeDevice implements LogDevice {
  canBlock = false;
  written = '';
  writes = 0;
  pauses = 0;
  /** A device that accepts this many bytes; further writes fail with EAGAIN. */
  room = Infinity;
  fault: string | undefined;
  readonly waiting: (() => void)[] = [];
  onPause = (): void => {};

  writeNow(bytes: Uint8Array, offset: number): number {
    this.writes++;
    if (this.fault !== undefined) throw Object.assign(new Error(this.fault), { code: this.fault });
    if (this.room === 0) throw Object.assign(new Error('EAGAIN'), { code: 'EAGAIN' });
    const count = Math.min(this.room, bytes.length - offset);
    this.room -= count;
    this.written += Buffer.from(bytes.subarray(offset, offset + count)).toString();
    return count;
  }

  write(
    bytes: Uint8Array,
    offset: number,
    done: (error: NodeJS.ErrnoException | null, written: number) => void,
  ): void {
    this.waiting.push(() => {
      let [error, written]: [NodeJS.ErrnoException | null, number] = [null, 0];
      try {
        written = this.writeNow(bytes, offset);
      } catch (thrown) {
        error = thrown as NodeJS.ErrnoException;
      }
      done(error, written);
    });
  }

  pause(): void {
    this.pauses++;
    this.onPause();
  }
}

function queueOn(device: FakeDevice) {
  const clock = new ManualClock();
  return { clock, queue: new LineQueue(() => device, clock), turn: () => clock.advance(0) };
}

test('LineQueue collects the log lines of one turn of the event loop, and writes them with one write in a later turn', async () => {
  const device = new FakeDevice();
  const { queue, turn } = queueOn(device);
  queue.push('one');
  queue.push('two ü');
  assert.equal(device.writes, 0);
  await turn();
  assert.deepEqual([device.written, device.writes], ['one\ntwo ü\n', 1]);
  queue.push('three');
  await turn();
  assert.deepEqual([device.written, device.writes], ['one\ntwo ü\nthree\n', 2]);
});

test('LineQueue writes log lines in batches, and no batch ends inside a line', async () => {
  const device = new FakeDevice();
  const { queue, turn } = queueOn(device);
  const lines = Array.from({ length: 100 }, (_, index) => `${index} ${'x'.repeat(1_000)}`);
  for (const line of lines) queue.push(line);
  await turn();
  assert.equal(device.written, `${lines.join('\n')}\n`);
  assert.ok(device.writes >= 5 && device.writes <= 7, `${device.writes}`);
});

test('if the output accepts only a part of a line, LineQueue writes the rest of this line after 10 ms', async () => {
  const device = new FakeDevice();
  const { queue, clock, turn } = queueOn(device);
  device.room = 5;
  for (const line of ['one', 'two', 'three']) queue.push(line);
  await turn();
  assert.equal(device.written, 'one\nt');
  queue.push('four');
  await turn();
  assert.equal(device.writes, 2); // the queue waits for its timer
  device.room = Infinity;
  await clock.advance(10);
  assert.equal(device.written, 'one\ntwo\nthree\nfour\n');
});

test('a full LineQueue drops log lines, and later writes their number at the place where they are missing', async () => {
  const device = new FakeDevice();
  const { queue, clock, turn } = queueOn(device);
  device.room = 0;
  const line = 'x'.repeat(1_023);
  for (let count = 0; count < 2_000; count++) queue.push(line);
  await turn();
  queue.push('y'.repeat(2_000_000));
  device.room = Infinity;
  await clock.advance(10);
  queue.push('later');
  await turn();
  const lines = device.written.trimEnd().split('\n');
  assert.equal(lines.filter((other) => other === line).length, 1_024); // 1 MiB
  const reported = lines.slice(1_024, -1).map((other) => JSON.parse(other));
  assert.deepEqual(reported[0], {
    time: '2024-01-01T00:00:00.000Z',
    level: 'warn',
    logger: 'svc',
    event: 'log_lines_dropped',
    count: 2_000 - 1_024,
  });
  assert.deepEqual([reported.length, reported[1].count], [2, 1]);
  assert.equal(lines.at(-1), 'later');
});

for (const code of ['EPIPE', 'EBADF', 'EIO']) {
  test(`LineQueue stops writing for good after a write has failed with ${code}`, async () => {
    const device = new FakeDevice();
    const { queue, clock, turn } = queueOn(device);
    device.fault = code;
    queue.push('one');
    await turn();
    device.fault = undefined;
    queue.push('two');
    await clock.advance(10_000);
    queue.flush();
    queue.exit();
    queue.push('three');
    assert.deepEqual([device.writes, device.written], [1, '']);
  });
}

test('if the disk is full, LineQueue drops log lines, and later writes the number of dropped lines', async () => {
  const device = new FakeDevice();
  const { queue, clock, turn } = queueOn(device);
  device.fault = 'ENOSPC';
  queue.push('one');
  queue.push('two');
  await turn();
  assert.equal(device.writes, 1);
  device.fault = undefined;
  await clock.advance(1_000);
  assert.equal(JSON.parse(device.written).count, 2);
});

test('log_lines_dropped counts the lines whose own report was lost on a full disk, too', async () => {
  const device = new FakeDevice();
  const { queue, clock, turn } = queueOn(device);
  device.fault = 'ENOSPC';
  for (let round = 0; round < 5; round++) {
    for (const line of ['one', 'two', 'three']) queue.push(line);
    await turn();
    await clock.advance(1_000);
  }
  device.fault = undefined;
  await clock.advance(1_000);
  assert.equal(JSON.parse(device.written).count, 15);
});

test('after a full disk, LineQueue ends the line that was written in part, and counts only the later lines', async () => {
  const device = new FakeDevice();
  const { queue, clock, turn } = queueOn(device);
  for (const line of ['one', 'two', 'three', 'four']) queue.push(line);
  device.room = 6;
  await turn();
  device.fault = 'ENOSPC';
  await clock.advance(10);
  await clock.advance(1_000);
  assert.equal(device.written, 'one\ntw');
  device.fault = undefined;
  device.room = Infinity;
  await clock.advance(1_000);
  const [first, second, report] = device.written.split('\n');
  assert.deepEqual([first, second, JSON.parse(report!).count], ['one', 'two', 2]);
});

test('if writes to the output can block, LineQueue has only one write in progress at a time', async () => {
  const device = new FakeDevice();
  device.canBlock = true;
  const { queue, turn } = queueOn(device);
  queue.push('one');
  await turn();
  queue.push('two');
  await turn();
  assert.equal(device.waiting.length, 1);
  device.room = 2;
  device.waiting.shift()!(); // writes only a part
  device.room = Infinity;
  device.waiting.shift()!();
  assert.equal(device.waiting.length, 1);
  device.waiting.shift()!();
  assert.equal(device.written, 'one\ntwo\n');
  assert.equal(device.waiting.length, 0);
});

test('LineQueue handles errors of asynchronous writes like errors of synchronous writes', async () => {
  const device = new FakeDevice();
  device.canBlock = true;
  const { queue, clock, turn } = queueOn(device);
  device.room = 0;
  queue.push('one');
  await turn();
  device.waiting.shift()!();
  device.room = Infinity;
  await clock.advance(10);
  device.waiting.shift()!();
  assert.equal(device.written, 'one\n');
  device.fault = 'EPIPE';
  queue.push('two');
  await turn();
  device.waiting.shift()!();
  queue.push('three');
  await turn();
  assert.equal(device.waiting.length, 0);
});

test('LineQueue.flush() waits for an asynchronous write in progress, and then writes all queued lines before it returns', async () => {
  const device = new FakeDevice();
  device.canBlock = true;
  const { queue, turn } = queueOn(device);
  queue.flush();
  queue.push('one');
  await turn();
  queue.push('two');
  device.onPause = () => {
    device.written += 'one\n';
  }; // the thread pool completes the write, but the event loop does not run
  queue.flush();
  assert.equal(device.written, 'one\ntwo\n');
  assert.equal(device.pauses, 1);
});

test('if a pipe is full, LineQueue.flush() waits at most half a second until the pipe accepts data', () => {
  const device = new FakeDevice();
  device.room = 0;
  const { queue } = queueOn(device);
  queue.push('one');
  queue.flush();
  assert.equal(device.pauses, 100);
  device.pauses = 0;
  device.onPause = () => {
    if (device.pauses === 3) device.room = Infinity;
  };
  queue.flush();
  assert.deepEqual([device.pauses, device.written], [3, 'one\n']);
});

test('LineQueue.exit() writes all queued lines, and after this call each line is written immediately', async () => {
  const device = new FakeDevice();
  const { queue, turn } = queueOn(device);
  queue.push('one');
  queue.exit();
  queue.push('two');
  assert.equal(device.written, 'one\ntwo\n');
  await turn(); // the scheduled write finds an empty queue
  device.room = 0;
  queue.push('three');
  const { pauses } = device;
  queue.push('four'); // the second call does not wait again
  assert.equal(device.pauses, pauses);
});

test('if a pipe stays full, LineQueue.exit() waits half a second, and later lines cause no further wait', () => {
  const device = new FakeDevice();
  const { queue } = queueOn(device);
  device.room = 0;
  queue.push('one');
  queue.exit();
  queue.push('two');
  assert.equal(device.pauses, 100);
});

test('if the disk is full, LineQueue.exit() drops the queued lines and returns', () => {
  const device = new FakeDevice();
  const { queue } = queueOn(device);
  device.fault = 'ENOSPC';
  queue.push('one');
  queue.exit();
  assert.equal(device.writes, 1);
});

// ── the log of a real process ──

const CHILD = fileURLToPath(new URL('../support/log-child.ts', import.meta.url));

/** Runs the child process. `read` is false for a pipe that stays full. */
async function run(how: string, { read = true, stderr = 'pipe' as 'pipe' | number, shell = '' } = {}) {
  const argv = ['--conditions=svc-source', CHILD, how];
  const child =
    shell === ''
      ? spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', stderr] })
      : spawn('/bin/sh', ['-c', shell, process.execPath, ...argv], { stdio: ['ignore', 'pipe', 'pipe'] });
  const chunks: Buffer[] = [];
  let stdout = '';
  child.stdout!.on('data', (chunk) => {
    stdout += chunk;
  });
  if (read) child.stderr?.on('data', (chunk) => chunks.push(chunk));
  const exited = once(child, 'exit');
  if (read) await once(child, 'close');
  const [code, signal] = await exited;
  child.stderr?.destroy();
  const text = Buffer.concat(chunks).toString();
  return {
    code,
    signal,
    stdout,
    text,
    events: text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line)),
  };
}

for (const how of ['exit', 'natural']) {
  const end = how === 'exit' ? 'by process.exit()' : 'by itself';
  test(`when a process ends ${end}, all its log lines have been written to standard error in order`, async () => {
    const { code, events } = await run(how);
    assert.equal(code, how === 'exit' ? 3 : 0);
    assert.deepEqual(
      events.map(({ index }) => index),
      [...Array(500).keys()],
    );
  });

  test(`when a process ends ${end} and standard error is a file, all its log lines have been written in order`, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'svc-log-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const file = openSync(join(directory, 'log'), 'w');
    await run(how, { stderr: file });
    closeSync(file);
    const lines = readFileSync(join(directory, 'log'), 'utf8').trimEnd().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).index),
      [...Array(500).keys()],
    );
  });

  test(`when a process ends ${end} and standard error is a shell pipe, all its log lines have been written in order`, async () => {
    const { events } = await run(how, { shell: '"$0" "$@" 2>&1 >/dev/null | cat >&2' });
    assert.deepEqual(
      events.map(({ index }) => index),
      [...Array(500).keys()],
    );
  });
}

test('log lines that "exit" listeners of a process log are written before the process ends', async () => {
  assert.deepEqual(
    (await run('exit-listener')).events.map(({ event }) => event),
    ['first', 'last'],
  );
});

test('if an uncaught error ends a process, all earlier log lines have been written', async () => {
  const { code, events, text } = await run('throw');
  assert.equal(code, 1);
  assert.deepEqual(
    events.map(({ event }) => event),
    ['before', 'just_before'],
  );
  assert.match(text, /Error: uncaught/);
});

test('if a process calls flush() and then kills itself with SIGKILL, all earlier log lines have been written', async () => {
  const { signal, events } = await run('kill');
  assert.deepEqual([signal, events.map(({ event }) => event)], ['SIGKILL', ['before']]);
});

test('if standard error is a pipe that is never read, a process that logs continues and can end', async () => {
  for (const how of ['flood', 'trickle']) {
    const { code, stdout } = await run(how, { read: false });
    assert.deepEqual([code, stdout], [0, 'alive\n']);
  }
});

test('if standard error is a FIFO that is never read, a process that logs continues and can end', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-log-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, 'fifo');
  execFileSync('mkfifo', [path]);
  const fifo = openSync(path, 'r+'); // opens the FIFO and never reads it
  const { code, stdout } = await run('flood', { stderr: fifo, read: false });
  closeSync(fifo);
  assert.deepEqual([code, stdout], [0, 'alive\n']);
});

test('a process that logs continues if the reader of its standard error closes the pipe', async () => {
  const { stdout, code } = await run('trickle', { shell: '{ { "$0" "$@" 2>&1 >&3; } | true; } 3>&1' });
  assert.deepEqual([stdout, code], ['alive\n', 0]);
});
