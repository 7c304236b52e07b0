/**
 * Reference parser of multipart bodies: splits at the delimiters, then splits each part into head and
 * content. Also creates bodies for tests.
 */
import { isUtf8 } from 'node:buffer';
import { parsePartHead } from '../../src/http/request/part-head.ts';

/** A parsed part: name, file name, type, and content as Latin-1 text. */
export type PlainPart = readonly [
  name: string,
  filename: string | undefined,
  contentType: string,
  content: string,
];

/** Returns the parts of a body, given as Latin-1 text; undefined when it is malformed. */
export function partsByReference(body: string, boundary: string): PlainPart[] | undefined {
  const delimiter = `\r\n--${boundary}`;
  const [, ...segments] = `\r\n${body}`.split(delimiter);
  const parts: PlainPart[] = [];
  for (const [index, segment] of segments.entries()) {
    if (segment.startsWith('--'))
      return /^--[ \t]*(?:\r?$|\r\n)/.test(segments.slice(index).join(delimiter)) ? parts : undefined;
    const start = /^[ \t]*\r\n/.exec(segment)?.[0].length;
    if (start === undefined) return undefined;
    const rest = segment.slice(start);
    const end = `${rest}\r\n`.indexOf('\r\n\r\n');
    const bytes = Buffer.from(rest.slice(0, end), 'latin1');
    const head = end === -1 || !isUtf8(bytes) ? 'none' : parsePartHead(bytes.toString());
    if (typeof head === 'string') return undefined;
    parts.push([head.name, head.filename, head.contentType, rest.slice(end + 4)]);
  }
  return undefined;
}

/** A part from which a test creates a body. */
export interface WrittenPart {
  /** Text after `form-data`, such as `; name="a"`; or a whole head, if it contains a colon. */
  readonly head: string;
  readonly content: string | Uint8Array;
}

/** Returns a field. */
export function field(name: string, content: string | Uint8Array = ''): WrittenPart {
  return { head: `; name="${name}"`, content };
}

/** Returns a file. */
export function fileOf(
  name: string,
  filename: string,
  content: string | Uint8Array,
  type = 'application/octet-stream',
): WrittenPart {
  return {
    head: `Content-Disposition: form-data; name="${name}"; filename="${filename}"\r\nContent-Type: ${type}`,
    content,
  };
}

/** Returns the parts as one body. */
export function written(parts: readonly WrittenPart[], boundary = 'b'): Buffer {
  const chunks = parts.flatMap(({ head, content }) => [
    `--${boundary}\r\n${head.includes(':') ? head : `Content-Disposition: form-data${head}`}\r\n\r\n`,
    content,
    '\r\n',
  ]);
  return Buffer.concat([...chunks, `--${boundary}--\r\n`].map((chunk) => Buffer.from(chunk)));
}
