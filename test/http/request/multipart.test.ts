import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boundaryOf } from '../../../src/http/request/form.ts';
import { MultipartParser } from '../../../src/http/request/multipart.ts';
import { field, fileOf, partsByReference, written } from '../../support/multipart-reference.ts';
import { seeded } from '../../support/random.ts';
import type { MultipartLimits, MultipartIssue, MultipartSink } from '../../../src/http/request/multipart.ts';
import type { PartHead } from '../../../src/http/request/part-head.ts';
import type { PlainPart } from '../../support/multipart-reference.ts';

const LIMITS: MultipartLimits = {
  maxHeaderBytes: 1_000,
  maxFields: 100,
  maxFiles: 100,
  maxFieldBytes: 1e9,
  maxTextBytes: 1e9,
  maxFileBytes: 1e9,
};

/** A sink that stores all parts. */
class Kept implements MultipartSink {
  readonly parts: PlainPart[] = [];
  #head: PartHead | undefined;
  #content: Buffer[] = [];

  onPart(head: PartHead): void {
    assert.equal(this.#head, undefined);
    this.#head = head;
  }
  onData(bytes: Buffer, start: number, end: number): void {
    assert.ok(start < end);
    this.#content.push(Buffer.from(bytes.subarray(start, end)));
  }
  onPartEnd(): void {
    const { name, filename, contentType } = this.#head!;
    this.parts.push([name, filename, contentType, Buffer.concat(this.#content).toString('latin1')]);
    this.#head = undefined;
    this.#content = [];
  }
}

function read(
  chunks: readonly Uint8Array[],
  boundary = 'b',
  limits: Partial<MultipartLimits> = {},
): { parts: PlainPart[]; problem: MultipartIssue | undefined } {
  const kept = new Kept();
  const parser = new MultipartParser(boundary, kept, { ...LIMITS, ...limits });
  let problem: MultipartIssue | undefined;
  for (const chunk of chunks) problem ??= parser.push(chunk);
  return { parts: kept.parts, problem: problem ?? parser.end() };
}

/** Chunk sizes: whole, split at every position, and byte by byte. */
function* everySplit(body: Buffer): Generator<readonly Uint8Array[]> {
  yield [body];
  for (let at = 1; at < body.length; at++) yield [body.subarray(0, at), body.subarray(at)];
  yield Array.from(body, (byte) => Uint8Array.of(byte));
  yield [body.subarray(0, 1), new Uint8Array(0), body.subarray(1)];
}

const text = (body: string): Buffer => Buffer.from(body, 'latin1');
const HEAD = 'Content-Disposition: form-data; name="n"';

test('boundaryOf() returns a boundary as RFC 2046 §5.1.1 defines it, quoted or not', () => {
  const most = 'x'.repeat(70);
  for (const [value, boundary] of [
    ['multipart/form-data; boundary=gc0pJq0M:08jU534c0p', 'gc0pJq0M:08jU534c0p'],
    ['multipart/form-data; boundary="gc0pJq0M:08jU534c0p"', 'gc0pJq0M:08jU534c0p'],
    ['multipart/form-data;charset=utf-8;BOUNDARY=----WebKitFormBoundaryAbC', '----WebKitFormBoundaryAbC'],
    [`multipart/form-data; boundary=${most}`, most],
    ['multipart/form-data ; boundary="a b" ', 'a b'],
    ['multipart/form-data; boundary="0\'()+_,-./:=?"', "0'()+_,-./:=?"],
    ['multipart/form-data; boundary=----=_Part_0_1.2', '----=_Part_0_1.2'],
    ['multipart/form-data; boundary="a\\-b"', 'a-b'],
  ] as const)
    assert.equal(boundaryOf(value), boundary, value);
});

test('boundaryOf() refuses a missing, repeated, too long or malformed boundary', () => {
  for (const value of [
    '',
    '; boundary=',
    '; boundary=""',
    '; charset=utf-8',
    '; boundary=a; boundary=a',
    '; boundary=a; Boundary=b',
    `; boundary=${'x'.repeat(71)}`,
    '; boundary="a "',
    '; boundary=é',
    '; boundary="a\r\nb"',
    '; boundary="a',
    '; boundary=a;',
    '; boundary=a b',
    '; boundary=[a]',
    '; boundary=a, b',
    ';boundary',
    '; boundary=a"b"',
    '; boundary="a";;',
  ])
    assert.equal(boundaryOf(`multipart/form-data${value}`), undefined, value);
});

const EXAMPLES: Readonly<Record<string, { body: string; boundary?: string; parts: readonly PlainPart[] }>> = {
  'RFC 7578 §4.2, without Content-Type': {
    body: '--AaB03x\r\ncontent-disposition: form-data; name="field1"\r\n\r\nJoe Blow\r\n--AaB03x--',
    boundary: 'AaB03x',
    parts: [['field1', undefined, 'text/plain', 'Joe Blow']],
  },
  'RFC 7578 §4.5, _charset_': {
    body: '--AaB03x\r\ncontent-disposition: form-data; name="_charset_"\r\n\r\niso-8859-1\r\n--AaB03x\r\ncontent-disposition: form-data; name="field1"\r\ncontent-type: text/plain;charset=UTF-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n...text...\r\n--AaB03x--',
    boundary: 'AaB03x',
    parts: [
      ['_charset_', undefined, 'text/plain', 'iso-8859-1'],
      ['field1', undefined, 'text/plain;charset=UTF-8', '...text...'],
    ],
  },
  'RFC 2046 §5.1.1: preamble, epilogue, padding, an implicit new line': {
    body: `This is the preamble.  It is to be ignored.\r\n--simple boundary \t \r\n${HEAD}\r\n\r\nThis one does NOT end with a linebreak.\r\n--simple boundary\r\n${HEAD}\r\n\r\nThis one DOES end with a linebreak.\r\n\r\n--simple boundary--\t\r\nThis is the epilogue.\r\n--simple boundary\r\nIgnored, too.`,
    boundary: 'simple boundary',
    parts: [
      ['n', undefined, 'text/plain', 'This one does NOT end with a linebreak.'],
      ['n', undefined, 'text/plain', 'This one DOES end with a linebreak.\r\n'],
    ],
  },
  'no parts, as FormData without entries': { body: '--b--\r\n', parts: [] },
  'an empty content, and no content at all': {
    body: `--b\r\n${HEAD}\r\n\r\n\r\n--b\r\n${HEAD}\r\n\r\n--b--`,
    parts: [
      ['n', undefined, 'text/plain', ''],
      ['n', undefined, 'text/plain', ''],
    ],
  },
  'beginnings of a boundary in the content': {
    body: `--b\r\n${HEAD}\r\n\r\n\r\r\n\r\n-\r\n--\r\r\n--\r\n-b--b\n--b\r--b\r\n\r\n--b--`,
    parts: [['n', undefined, 'text/plain', '\r\r\n\r\n-\r\n--\r\r\n--\r\n-b--b\n--b\r--b\r\n']],
  },
  'a boundary of dashes': {
    body: `-----\r\n${HEAD}\r\n\r\n--\r\n---\r\n----\r\n-------`,
    boundary: '---',
    parts: [['n', undefined, 'text/plain', '--\r\n---\r\n----']],
  },
};
for (const [what, { body, boundary, parts }] of Object.entries(EXAMPLES)) {
  test(`MultipartParser reads a valid multipart body, however its bytes are split: ${what}`, () => {
    for (const chunks of everySplit(text(body)))
      assert.deepEqual(read(chunks, boundary), { parts, problem: undefined }, String(chunks[0]!.length));
    assert.deepEqual(partsByReference(body, boundary ?? 'b'), parts);
  });
}

const MALFORMED: Readonly<Record<string, string>> = {
  nothing: '',
  'no boundary': 'a=1&b=2',
  'another boundary': `--c\r\n${HEAD}\r\n\r\nx\r\n--c--`,
  'no last boundary': `--b\r\n${HEAD}\r\n\r\nx`,
  'half a last boundary': `--b\r\n${HEAD}\r\n\r\nx\r\n--b-`,
  'a boundary with something behind it': `--bc\r\n${HEAD}\r\n\r\nx\r\n--b--`,
  'a last boundary with something behind it': `--b\r\n${HEAD}\r\n\r\nx\r\n--b--x`,
  'padding with something behind it': `--b \r\n${HEAD}\r\n\r\nx\r\n--b -\r\n`,
  'LF for a new line': `--b\n${HEAD}\n\nx\n--b--`,
  'CR for a new line': `--b\r${HEAD}\r\r`,
  'CR behind the last boundary': '--b--\rx',
  'a part without head': '--b\r\n\r\nx\r\n--b--',
  'a head without end': `--b\r\n${HEAD}\r\n--b--`,
  'a boundary in a head': `--b\r\nX: y\r\n--b\r\n${HEAD}\r\n\r\n--b--`,
  'a head that is not UTF-8': '--b\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nx\r\n--b--',
};
for (const [what, body] of Object.entries(MALFORMED)) {
  test(`MultipartParser answers 400 to a malformed body, however its bytes are split: ${what}`, () => {
    for (const chunks of everySplit(text(body))) {
      const { problem } = read(chunks);
      assert.deepEqual([problem?.status, problem?.code], [400, 'multipart'], `${chunks[0]?.length}`);
      assert.doesNotMatch(problem!.detail, /[\r\n\xff]/);
    }
    assert.equal(partsByReference(body, 'b'), undefined);
  });
}

test('MultipartParser accepts input at each limit, and answers 413 to one byte or part more, however the bytes are split', () => {
  const body = written([
    field('a', 'xyz'),
    field('b', '12345'),
    fileOf('f', 'f', '1234567'),
    fileOf('g', 'g', ''),
  ]);
  const heads = [field('a'), field('b'), fileOf('f', 'f', ''), fileOf('g', 'g', '')].map(
    (part) => written([part]).length - written([]).length - '--b\r\n\r\n\r\n\r\n'.length,
  );
  const limits: Readonly<Record<keyof MultipartLimits, [number, string]>> = {
    maxFields: [2, 'max_fields'],
    maxFiles: [2, 'max_files'],
    maxFieldBytes: [5, 'max_field_bytes'],
    maxFileBytes: [7, 'max_file_bytes'],
    maxHeaderBytes: [Math.max(...heads), 'max_header_bytes'],
    maxTextBytes: [heads.reduce((sum, length) => sum + length) + 'xyz12345'.length, 'max_text_bytes'],
  };
  for (const [name, [limit, code]] of Object.entries(limits)) {
    for (const chunks of everySplit(body)) {
      assert.equal(read(chunks, 'b', { [name]: limit }).problem, undefined, name);
      const { problem } = read(chunks, 'b', { [name]: limit - 1 });
      assert.deepEqual([problem?.status, problem?.code], [413, code], name);
    }
  }
  for (const part of [field, (name: string) => fileOf('f', name, '')]) {
    const problemOf = (length: number): string | undefined =>
      read([written([part('n'.repeat(length))])], 'b', { maxHeaderBytes: 5_000 }).problem?.code;
    assert.deepEqual([problemOf(1_024), problemOf(1_025)], [undefined, 'max_name_length']);
  }
});

test('after MultipartParser has found a problem in its input, push() and end() return the same problem, and emit no parts', () => {
  const kept = new Kept();
  const parser = new MultipartParser('b', kept, LIMITS);
  const problem = parser.push(text('--bad'));
  assert.equal(problem?.status, 400);
  assert.equal(parser.push(written([field('a', 'x')])), problem);
  assert.equal(parser.end(), problem);
  assert.deepEqual(kept.parts, []);
});

test('MultipartParser emits chunks without copying them, and never reuses their bytes', () => {
  const body = written([fileOf('f', 'f', 'x'.repeat(1_000))]);
  let handed = 0;
  const parser = new MultipartParser(
    'b',
    {
      onPart() {
        /* not used by this test */
      },
      onPartEnd() {
        /* not used by this test */
      },
      onData(bytes, start, end) {
        handed += bytes === body ? end - start : 0;
      },
    },
    LIMITS,
  );
  parser.push(body);
  assert.equal(handed, 1_000);
  const chunks: Buffer[] = [];
  const other = new MultipartParser(
    'b',
    {
      onPart() {
        /* not used by this test */
      },
      onPartEnd() {
        /* not used by this test */
      },
      onData(bytes, start, end) {
        chunks.push(bytes.subarray(start, end));
      },
    },
    LIMITS,
  );
  const split = text(`--b\r\n${HEAD}\r\n\r\nx\r\n--`);
  other.push(split);
  other.push(text('y\r\n--'));
  for (const chunk of chunks) chunk.fill(0);
  other.push(text('z\r\n--b--'));
  assert.equal(chunks.at(-1)!.toString(), 'z');
  assert.equal(other.end(), undefined);
});

test('for generated bodies, MultipartParser returns the same as a simple reference implementation, however the bodies are split', () => {
  const random = seeded(20261121);
  const pick = <T>(items: readonly T[]): T => items[random(items.length)]!;
  const BOUNDARIES = ['b', '---', 'a:b', '-', 'bb', 'a b', 'x'.repeat(70)];
  let sound = 0,
    total = 0;
  for (let round = 0; round < 6_000; round++) {
    const boundary = pick(BOUNDARIES);
    const delimiter = `\r\n--${boundary}`;
    const word = (): string =>
      pick([
        '\r',
        '\n',
        '\r\n',
        '-',
        '--',
        boundary,
        delimiter.slice(0, random(delimiter.length)),
        'x',
        ' ',
        '\0\xff',
        random(4) === 0 ? delimiter : '',
        random(6) === 0 ? `${delimiter}--` : '',
      ]);
    const content = (): string => Array.from({ length: random(6) }, word).join('');
    const head = (): string =>
      pick([
        HEAD,
        `${HEAD}; filename="f"\r\nContent-Type: a/b`,
        `X: y\r\n${HEAD}`,
        HEAD,
        random(8) === 0 ? content() : HEAD,
      ]);
    const part = (): string =>
      `${delimiter}${random(9) === 0 ? pick([' ', '\t ', '-', 'x', '\n']) : ''}\r\n${head()}\r\n${random(12) === 0 ? '' : '\r\n'}${content()}`;
    let body = `${random(4) === 0 ? content() : ''}${Array.from({ length: random(4) }, part).join('')}${random(10) === 0 ? content() : `${delimiter}--`}${random(3) === 0 ? content() : ''}`;
    if (random(2) === 0 && body.startsWith('\r\n')) body = body.slice(2);
    const expected = partsByReference(body, boundary);
    const bytes = text(body);
    const splits: readonly Uint8Array[][] = [
      [bytes],
      Array.from(bytes, (byte) => Uint8Array.of(byte)),
      ...Array.from({ length: 3 }, () => {
        const cuts = [
          0,
          ...Array.from({ length: 1 + random(4) }, () => random(bytes.length + 1)),
          bytes.length,
        ].sort((left, right) => left - right);
        return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
      }),
    ];
    for (const chunks of splits) {
      const { parts, problem } = read(chunks, boundary);
      if (expected === undefined) assert.equal(problem?.status, 400, JSON.stringify(body));
      else
        assert.deepEqual({ parts, problem }, { parts: expected, problem: undefined }, JSON.stringify(body));
    }
    total++;
    if (expected !== undefined) sound++;
  }
  assert.ok(sound > total / 4 && sound < total * 0.9, `${sound} of ${total}`);
});
