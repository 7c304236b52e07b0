/**
 * A client that sends raw bytes and reads the responses, for requests that no normal client sends.
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';

/** One response. Its body is without transfer coding. */
export interface RawAnswer {
  readonly version: string;
  readonly status: number;
  /** Header fields by lower-case name, in order of arrival. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
  readonly body: Buffer;
  /** Whether the body is complete by its framing. */
  readonly isWhole: boolean;
  field(name: string): string | undefined;
  text(): string;
  json(): Record<string, unknown>;
}

/**
 * Returns the bytes of a request. `head`: method and path; `fields`: further lines. With `random` the body is
 * sent in chunks of random size.
 */
export function requestOf(
  head: string,
  fields: string,
  body?: string | Uint8Array,
  random?: (below: number) => number,
): Buffer {
  const start = `${head} HTTP/1.1\r\nHost: a.example\r\n${fields}`;
  if (body === undefined) return Buffer.from(`${start}\r\n`, 'latin1');
  const bytes = Buffer.from(body);
  if (random === undefined)
    return Buffer.concat([Buffer.from(`${start}Content-Length: ${bytes.length}\r\n\r\n`, 'latin1'), bytes]);
  const parts = [Buffer.from(`${start}Transfer-Encoding: chunked\r\n\r\n`, 'latin1')];
  for (let at = 0; at < bytes.length;) {
    const end = Math.min(bytes.length, at + 1 + random(Math.max(64, bytes.length >> 2)));
    parts.push(Buffer.from(`${(end - at).toString(16)}\r\n`), bytes.subarray(at, end), Buffer.from('\r\n'));
    at = end;
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}

/** A client with its own connection. */
export class RawClient implements AsyncDisposable {
  readonly socket: Socket;
  /** Bytes that have arrived and are not read yet, as chunks. They are joined once, when they are read. */
  #chunks: Buffer[] = [];
  #length = 0;
  #hasEnded = false;
  #wake: (() => void) | undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#length += chunk.length;
      this.#wake?.();
    });
    const end = (): void => {
      this.#hasEnded = true;
      this.#wake?.();
    };
    socket.on('end', end).on('close', end).on('error', end);
  }

  static open(port: number): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(new RawClient(socket)));
      socket.once('error', reject);
    });
  }

  /** Sends bytes. Text is sent as Latin-1. */
  send(bytes: string | Uint8Array): this {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
    return this;
  }

  /** Sends a GET request. */
  get(path: string, fields = ''): this {
    return this.send(`GET ${path} HTTP/1.1\r\nHost: a.example\r\n${fields}\r\n`);
  }

  /**
   * Returns the next response, including interim ones (1xx). `method`: that of the request, because a
   * response to HEAD has no body.
   */
  async answer(method = 'GET'): Promise<RawAnswer> {
    const head = await this.#until((bytes) => bytes.indexOf('\r\n\r\n'), 4);
    const [line, ...rest] = head.toString('latin1').split('\r\n');
    const [, version, status] = /^HTTP\/(\d\.\d) (\d{3})/.exec(line!)!;
    const fields = new Map<string, string[]>();
    for (const field of rest) {
      const colon = field.indexOf(':');
      const name = field.slice(0, colon).toLowerCase();
      fields.set(name, [...(fields.get(name) ?? []), field.slice(colon + 1).trim()]);
    }
    const { body, isWhole } = await this.#body(method, Number(status), fields);
    return {
      version: version!,
      status: Number(status),
      fields,
      body,
      isWhole,
      field: (name) => fields.get(name)?.join(', '),
      text: () => body.toString(),
      json: () => JSON.parse(body.toString()) as Record<string, unknown>,
    };
  }

  /** Resolves when the server has closed the connection, with the unread bytes. */
  async ended(): Promise<Buffer> {
    while (!this.#hasEnded) await this.#more();
    return this.#joined();
  }

  /** Number of bytes that have arrived and are not read yet. */
  get unread(): number {
    return this.#length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.ended();
  }

  async #body(
    method: string,
    status: number,
    fields: ReadonlyMap<string, readonly string[]>,
  ): Promise<{ body: Buffer; isWhole: boolean }> {
    if (method === 'HEAD' || status < 200 || status === 204 || status === 304)
      return { body: Buffer.alloc(0), isWhole: true };
    const length = fields.get('content-length')?.[0];
    if (length !== undefined) return this.#exactly(Number(length));
    if (fields.get('transfer-encoding') === undefined)
      return { body: await this.ended().then(() => this.#take(this.#length)), isWhole: true };
    const chunks: Buffer[] = [];
    for (;;) {
      const line = await this.#until((bytes) => bytes.indexOf('\r\n'), 2).catch(() => undefined);
      if (line === undefined) return { body: Buffer.concat(chunks), isWhole: false };
      const { body, isWhole } = await this.#exactly(parseInt(line.toString(), 16) + 2);
      if (!isWhole) return { body: Buffer.concat([...chunks, body]), isWhole };
      if (body.length === 2) return { body: Buffer.concat(chunks), isWhole };
      chunks.push(body.subarray(0, -2));
    }
  }

  async #exactly(length: number): Promise<{ body: Buffer; isWhole: boolean }> {
    while (this.#length < length && !this.#hasEnded) await this.#more();
    return { isWhole: this.#length >= length, body: this.#take(Math.min(length, this.#length)) };
  }

  async #until(find: (bytes: Buffer) => number, skip: number): Promise<Buffer> {
    for (;;) {
      const at = find(this.#joined());
      if (at !== -1) {
        const found = this.#take(at);
        this.#take(skip);
        return found;
      }
      if (this.#hasEnded)
        throw new Error(`The connection ended; unread: ${JSON.stringify(this.#joined().toString('latin1'))}`);
      await this.#more();
    }
  }

  #take(length: number): Buffer {
    const bytes = this.#joined();
    this.#chunks = length < bytes.length ? [bytes.subarray(length)] : [];
    this.#length = bytes.length - length;
    return bytes.subarray(0, length);
  }

  #joined(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0]!;
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}
