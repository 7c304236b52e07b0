/**
 * Malformed input for every parser of bytes and texts: mutations of valid examples, for SOAK_SECONDS (default 60)
 * in all, which the parsers share.
 *
 *   node --conditions=svc-source test/soak/parsers.ts
 *   SOAK_SEED=7 node --conditions=svc-source test/soak/parsers.ts multipart 504      # repeats one input
 *
 * Each parser runs in a thread of its own. Asserted: it throws only the errors that it documents, answers each input
 * of at most 64 KiB within 30 s, and holds no memory afterwards.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { BadRequest, SvcError } from 'svc';
import { systemClock } from '../../src/base/clock.ts';
import { withoutJsx } from '../../src/check/reader/jsx.ts';
import { parse } from '../../src/check/reader/syntax.ts';
import { Keyring } from '../../src/crypto/keys.ts';
import { createToken, readToken, tokenChecks } from '../../src/crypto/jwt.ts';
import { ProtocolViolation } from '../../src/db/errors.ts';
import * as mysql from '../../src/db/mysql/messages.ts';
import { PacketReader } from '../../src/db/mysql/wire.ts';
import * as postgres from '../../src/db/postgres/messages.ts';
import { RespReader } from '../../src/db/redis/resp.ts';
import { scriptStatements } from '../../src/db/script.ts';
import { parseCookies } from '../../src/http/cookies.ts';
import { canonicalPath, decodeEscapes } from '../../src/http/path.ts';
import { MultipartParser } from '../../src/http/request/multipart.ts';
import { parsePairs } from '../../src/http/request/query.ts';
import { FrameReader } from '../../src/http/websocket/frames.ts';
import { prose } from '../../src/openapi/docs/markdown.ts';
import { seeded } from '../support/random.ts';
import { SECONDS, SEED, held, heldBy, soak } from '../support/soak.ts';
import { frame } from '../support/ws-frames.ts';

type Random = (below: number) => number;

interface Target {
  /** Valid inputs, which are changed at random. */
  readonly examples: readonly (string | Buffer)[];
  /** Whether an error is one that the parser documents. */
  readonly isDocumented?: (error: unknown) => boolean;
  /** Parses chunks of one input. */
  readonly run: (chunks: readonly Buffer[]) => unknown;
}

const isViolation = (error: unknown): boolean => error instanceof ProtocolViolation;
const textOf = (chunks: readonly Buffer[]): string => Buffer.concat(chunks).toString();
const SECRET = 'fuzzing'.repeat(6);
const KEYRING = Keyring.of(SECRET);
const CHECKS = tokenChecks('parsers', {});
const LIMITS = {
  maxHeaderBytes: 1_024,
  maxFields: 20,
  maxFiles: 20,
  maxFieldBytes: 10_000,
  maxTextBytes: 50_000,
  maxFileBytes: 50_000,
};
const IGNORED = { onPart: () => {}, onData: () => {}, onPartEnd: () => {} };
const MESSAGES = {
  onText: () => {},
  onBinary: () => {},
  onPing: () => {},
  onPong: () => {},
  onClose: () => {},
};

function pgMessage(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** Reads the body of a PostgreSQL message by its type. */
function readBackend(type: number, bytes: Buffer, at: number, end: number): void {
  const read = {
    R: postgres.readAuthentication,
    S: postgres.readParameterStatus,
    Z: postgres.readStatus,
    E: postgres.readErrorFields,
    T: postgres.readRowDescription,
    t: postgres.readParameterDescription,
    C: postgres.readCommandTag,
    A: postgres.readNotification,
  }[String.fromCharCode(type)];
  read?.(bytes, at, end);
}

function mysqlPacket(sequence: number, body: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUIntLE(body.length, 0, 3);
  head[3] = sequence;
  return Buffer.concat([head, body]);
}

const TARGETS: Readonly<Record<string, Target>> = {
  multipart: {
    examples: [
      '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nvalue\r\n--b\r\nContent-Disposition: form-data; name="f"; filename="x.png"\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n--b--\r\n',
      'preamble\r\n--b  \r\ncontent-disposition: form-data; name*=UTF-8\'\'%e2%82%ac; filename="a\\"b"\r\n\r\n--b-\r\n--b--',
    ],
    run: (chunks) => {
      const parser = new MultipartParser('b', IGNORED, LIMITS);
      for (const chunk of chunks) parser.push(chunk);
      parser.end();
    },
  },
  cookies: {
    examples: ['a=1; __Host-session="abc%20d"; theme=dark; b="; ; =x', 'a=b;a=c; $Version=1'],
    run: (chunks) => parseCookies(textOf(chunks)),
  },
  'paths and queries': {
    examples: ['/a/%2e%2e/b;c=1/%E2%82%AC?x=1&x=%zz&y[]=%00', '/%252e/..%5c/é?a=b=c&&=&%20+'],
    isDocumented: (error) => error instanceof BadRequest,
    run: (chunks) => {
      const [path = '', query = ''] = textOf(chunks).split('?', 2);
      const canonical = canonicalPath(path);
      assert.equal(canonicalPath(canonical), canonical, 'a canonical path stays as it is');
      decodeEscapes(path);
      parsePairs(query, 1_000);
      parsePairs(query, 1_000, true);
    },
  },
  tokens: {
    examples: [
      createToken('ada', SECRET, { claims: { roles: ['admin'], n: { deep: [1, 2.5e3, null, 'ü\\'] } } }),
      `${Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')}.${Buffer.from('{"sub":"ada","sub":"eve"}').toString('base64url')}.`,
    ],
    run: (chunks) => {
      const token = textOf(chunks);
      const claims = readToken(KEYRING, token, CHECKS, Math.floor(systemClock.nowMs() / 1_000));
      if (typeof claims !== 'string') assert.equal(claims.sub, 'ada', 'only the signed token is accepted');
    },
  },
  'WebSocket frames': {
    examples: [
      frame({ opcode: 1, payload: 'hello' }),
      Buffer.concat([
        frame({ opcode: 1, payload: 'ü', isFinal: false }),
        frame({ opcode: 9, payload: 'ping' }),
        frame({ opcode: 0, payload: 'x'.repeat(70_000) }),
        frame({ opcode: 8, payload: Buffer.from([3, 232]) }),
      ]),
    ],
    run: (chunks) => {
      const reader = new FrameReader(
        { isMasked: true, maxMessageBytes: 100_000 },
        { ...MESSAGES, onViolation: () => {} },
      );
      for (const chunk of chunks) reader.push(chunk);
    },
  },
  RESP: {
    examples: [
      '*2\r\n$3\r\nfoo\r\n:1\r\n+OK\r\n-ERR no\r\n$-1\r\n*-1\r\n',
      '%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n>2\r\n+message\r\n(123456789012345678901\r\n=7\r\ntxt:abc\r\n_\r\n',
    ],
    isDocumented: isViolation,
    run: (chunks) => {
      const reader = new RespReader(() => {}, { maxReplyBytes: 100_000 });
      for (const chunk of chunks) reader.push(chunk);
    },
  },
  'PostgreSQL messages': {
    examples: [
      Buffer.concat([
        pgMessage('R', Buffer.from('0000000a534352414d2d5348412d3235360000', 'hex')),
        pgMessage('S', Buffer.from('TimeZone\0UTC\0')),
        pgMessage('T', Buffer.from('0001696400000040000001000000170004ffffffff0000', 'hex')),
        pgMessage('t', Buffer.from('00020000001700000019', 'hex')),
        pgMessage('C', Buffer.from('INSERT 0 5\0')),
        pgMessage('E', Buffer.from('SERROR\0C23505\0Mduplicate key\0\0')),
        pgMessage('A', Buffer.from('\0\0\0\x01channel\0payload\0')),
        pgMessage('Z', Buffer.from('I')),
      ]),
    ],
    isDocumented: isViolation,
    run: (chunks) => {
      const reader = new postgres.MessageReader(readBackend);
      for (const chunk of chunks) reader.push(chunk);
    },
  },
  'MySQL packets': {
    examples: [
      Buffer.concat([
        mysqlPacket(
          0,
          Buffer.from(
            '\x0a8.4.0\0\x01\0\0\0abcdefgh\0\xff\xf7\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0caching_sha2_password\0',
            'latin1',
          ),
        ),
        mysqlPacket(1, Buffer.from('\0\x01\x05\x02\0\0\0', 'latin1')),
        mysqlPacket(2, Buffer.from('\xff\x15\x04#28000Access denied', 'latin1')),
        mysqlPacket(
          3,
          Buffer.from('\x03def\x01d\x01t\x01t\x02id\x02id\x0c\x3f\0\x0b\0\0\0\x03\0\0\0\0\0', 'latin1'),
        ),
      ]),
    ],
    isDocumented: isViolation,
    run: (chunks) => {
      const reads = [
        mysql.readGreeting,
        mysql.readOk,
        mysql.readError,
        (bytes: Buffer, at: number, end: number) => mysql.readColumn(bytes, at, end, false),
      ];
      let packets = 0;
      const reader = new PacketReader(
        (bytes, at, end) => void reads[packets++ % reads.length]!(bytes, at, end),
      );
      for (const chunk of chunks) reader.push(chunk);
    },
  },
  'SQL scripts': {
    examples: [
      "select 'it''s', \"a\"\"b\", `c`, $tag$ body; $tag$, E'\\n' -- end\n; /* a /* b */ */ create function f() returns int as $$ begin; end $$;",
      'delimiter //\ncreate trigger t before insert on a for each row begin set @x = 1; end//\n# comment\ninsert into a values (?, :b, $1);',
    ],
    run: (chunks) => {
      for (const dialect of ['sqlite', 'postgres', 'mysql'] as const)
        try {
          scriptStatements(textOf(chunks), dialect);
        } catch (error) {
          if (!(error instanceof SvcError)) throw error; // E_DB_STATEMENT
        }
    },
  },
  'sources of check': {
    examples: [
      "import { Svc, Field as F } from 'svc';\nexport class A extends B { #x = 1; static async *m({ a = 1, ...r }) { for await (const x of `a${`b${1}`}`) yield x; } get y() { return this.#x ?? 0n; } }",
      'const f = async (a) => /[/\\]"]+/u.test(`${a}`) ? a : <p className={`x`}>{a && <b/>}</p>;\nlabel: for (;;) { switch (a) { case 1: break label; default: } }',
      "app.get('/x', { query: { q: Field(str) } }, ({ query: { q } }) => db.fetchAll(sql`select ${q}`)); try { a ||= b?.[0]?.(); } catch { throw new E(...c) } finally {}",
    ],
    isDocumented: (error) => Object.hasOwn(error as Error, 'offset'), // where the text is not JavaScript
    run: (chunks) => parse(withoutJsx(textOf(chunks))),
  },
  Markdown: {
    examples: [
      '# Title\n\n* a *b **c** `d`*\n  1. x\n\n> quote\n> > deeper\n\n| a | b |\n|---|---|\n| 1 | [x](https://e.example) |\n\n```js\ncode\n```\n',
      '[a](javascript:alert(1)) <b>&amp;</b> ![x](y) ***a*** ~~b~~ <https://x.example> \\* a_b_c',
    ],
    run: (chunks) => {
      assert.doesNotMatch(prose(textOf(chunks)).text, /<script|href="javascript:/i);
    },
  },
};

// ── changed inputs ──

const MOST_BYTES = 65_536;
const BYTES = Buffer.from('\0\x01\x7f\x80\xff\r\n\t "\'`\\/%&=;:,.<>()[]{}#$*-+|_~0123456789azAZ', 'latin1');

/** Returns an example with 1 to 8 changes, in 1 to 4 chunks. */
function changed(examples: readonly Buffer[], random: Random): readonly Buffer[] {
  const pick = <T>(list: readonly T[]): T => list[random(list.length)]!;
  let bytes = Buffer.from(pick(examples));
  for (let changes = 1 + random(8); changes > 0; changes--) {
    const at = random(bytes.length + 1);
    const end = Math.min(bytes.length, at + 1 + random(random(8) === 0 ? 2_000 : 8));
    const middle = [
      () => Buffer.from([BYTES[random(BYTES.length)]!]), // other bytes in place of the old ones
      () => Buffer.from([random(256)]),
      () => Buffer.alloc(0),
      () => Buffer.concat(Array.from({ length: 1 + random(300) }, () => bytes.subarray(at, end))),
      () => pick(examples),
      () => Buffer.from(bytes.subarray(at, end)).reverse(),
    ][random(6)]!();
    bytes = Buffer.concat([bytes.subarray(0, at), middle, bytes.subarray(end)]).subarray(0, MOST_BYTES);
  }
  const cuts = Array.from({ length: random(4) }, () => random(bytes.length + 1)).sort((a, b) => a - b);
  return [0, ...cuts].map((from, index) => Buffer.from(bytes.subarray(from, cuts[index] ?? bytes.length)));
}

// ── a thread for each parser ──

/** Longest time for one input in milliseconds: far more than a busy machine needs. */
const MOST_MS = 30_000;
const MOST_HELD_BYTES = 32 * 1_048_576;

interface Task {
  readonly name: string;
  readonly seconds: number;
  /** Number of the current input. */
  readonly at: SharedArrayBuffer;
}

async function fuzz({ name, seconds, at }: Task): Promise<void> {
  const { examples, isDocumented, run } = TARGETS[name]!;
  const bytes = examples.map((example) => Buffer.from(example as string));
  const current = new Int32Array(at);
  for (const example of bytes) await run([example]); // a valid example is no error
  let input = 0;
  const once = async (): Promise<void> => {
    Atomics.store(current, 0, ++input);
    try {
      await run(changed(bytes, seeded(SEED + input)));
    } catch (error) {
      if (isDocumented?.(error) === true) return;
      throw new Error(`${name}, input ${input}: ${String((error as Error).stack ?? error)}`);
    }
  };
  while (input < 500) await once();
  const before = heldBy(await held());
  for (const endMs = performance.now() + seconds * 1_000; performance.now() < endMs;) await once();
  const more = heldBy(await held()) - before;
  parentPort!.postMessage({
    input,
    problem: more > MOST_HELD_BYTES ? `${name}: ${more} bytes are held after ${input} inputs` : undefined,
  });
}

/** Runs one parser. Returns what failed. */
async function watched(name: string, seconds: number): Promise<readonly string[]> {
  const at = new SharedArrayBuffer(4);
  const worker = new Worker(import.meta.filename, { workerData: { name, seconds, at } satisfies Task });
  const ended = Promise.race([
    once(worker, 'message').then(([{ input, problem }]) => {
      console.log(`${name}: ${input} inputs`);
      return problem === undefined ? [] : [problem as string];
    }),
    once(worker, 'error').then(([error]) => [String((error as Error).message)]),
  ]).catch((error: unknown) => [String(error)]);
  const ticks = new AbortController();
  const hung = (async (): Promise<readonly string[]> => {
    for (let last = -1; ;) {
      await sleep(MOST_MS, undefined, { signal: ticks.signal });
      const input = Atomics.load(new Int32Array(at), 0);
      if (input === last) return [`${name}: input ${input} takes more than ${MOST_MS} ms`];
      last = input;
    }
  })();
  try {
    return await Promise.race([ended, hung]);
  } finally {
    ticks.abort();
    hung.catch(() => {});
    await worker.terminate();
  }
}

async function main(): Promise<readonly string[]> {
  const names = Object.keys(TARGETS);
  const failures: string[] = [];
  console.log(`seed ${SEED}`);
  for (const name of names) failures.push(...(await watched(name, SECONDS / names.length)));
  return failures;
}

/** Parses one input again, and prints it. */
async function repeat(name: string, input: number): Promise<void> {
  const { examples, run } = TARGETS[name]!;
  const chunks = changed(
    examples.map((example) => Buffer.from(example as string)),
    seeded(SEED + input),
  );
  console.log(chunks);
  await run(chunks);
}

const [name, input] = process.argv.slice(2);
if (!isMainThread) {
  setFlagsFromString('--expose-gc');
  globalThis.gc = runInNewContext('gc') as typeof globalThis.gc;
  await fuzz(workerData as Task);
} else if (name !== undefined) await repeat(name, Number(input));
else await soak(main);
