/**
 * MCP over standard input and output: one message per line. Standard output carries messages only. Output of
 * other code and of child processes goes to standard error. Child processes cannot read standard input.
 *
 * Standard input is not read while the reader of standard output is slow. The end of the input ends the
 * server: running requests have a few seconds to finish, then the application shuts down.
 */
import { isUtf8 } from 'node:buffer';
import { ignore, within } from '../base/promises.ts';
import { reservedWrite } from './reserved-output.ts';
import { invalidRequest, PARSE_ERROR, RpcError } from './messages.ts';
import { McpConversation } from './conversation.ts';
import type { Readable, Writable } from 'node:stream';
import type { ConversationDeps } from './conversation.ts';

interface StdioDeps extends Omit<ConversationDeps, 'send'> {
  readonly input: Readable;
  readonly output: Writable;
  readonly maxLineBytes: number;
  /** Time in milliseconds for running requests to finish after the input has ended. */
  readonly graceMs: number;
  /** Stops the server when it aborts. The end of the input stops the server too. */
  readonly signal?: AbortSignal | undefined;
}

/** Serves until the input has ended. Then waits at most `graceMs` for the responses to running requests. */
export async function serveStdio(deps: StdioDeps): Promise<void> {
  const { input, output, clock, maxLineBytes, graceMs, signal, ...parts } = deps;
  const ended = Promise.withResolvers<void>();
  const end = (): void => ended.resolve();
  const write = reservedWrite(output) ?? output.write.bind(output);
  let isGone = false;
  const onGone = (): void => {
    isGone = true;
    end();
  };
  const conversation = new McpConversation({
    ...parts,
    clock,
    send: (text) => {
      if (isGone || write(`${text}\n`) || input.isPaused()) return;
      input.pause();
      output.once('drain', () => input.resume());
    },
  });
  const lines = new LineReader(maxLineBytes, {
    onLine: (text) => conversation.receive(text),
    onBadLine: (problem) =>
      conversation.refuse(
        problem === 'long'
          ? invalidRequest(`A line must have at most ${maxLineBytes} bytes (option maxLineBytes)`)
          : new RpcError(PARSE_ERROR, 'Parse error: a line must be UTF-8'),
      ),
  });
  const onData = (chunk: Uint8Array | string): void =>
    lines.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
  const onEnd = (): void => {
    lines.end();
    end();
  };
  output.on('error', onGone).on('close', onGone);
  input.on('data', onData).on('end', onEnd).on('error', end).on('close', end);
  signal?.addEventListener('abort', end, { once: true });
  if (signal?.aborted === true) end();
  await ended.promise;
  input.off('data', onData).off('end', onEnd).pause();
  if (!isGone)
    await within(
      clock,
      graceMs,
      Promise.race([conversation.finish(), new Promise<void>((resolve) => output.once('close', resolve))]),
      ignore,
      { ref: true },
    );
  conversation.abort();
  if (!isGone) await new Promise<void>((resolve) => write('', () => resolve()));
  output.off('error', onGone).off('close', onGone);
  input.off('error', end).off('close', end);
}

interface LineHandler {
  onLine(text: string): void;
  onBadLine(problem: 'long' | 'encoding'): void;
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/**
 * Splits bytes into lines that end with LF or CR LF. Empty lines are left out. A line that is too long or not
 * UTF-8 is dropped and reported once.
 */
export class LineReader {
  readonly #maxBytes: number;
  readonly #handler: LineHandler;
  #chunks: Uint8Array[] = [];
  #length = 0;
  /** Whether the current line is too long, and the rest of the line is dropped. */
  #isDropping = false;

  constructor(maxBytes: number, handler: LineHandler) {
    this.#maxBytes = maxBytes;
    this.#handler = handler;
  }

  /** Reads the next bytes. The caller must not modify them afterwards. */
  push(chunk: Uint8Array): void {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      this.#add(chunk.subarray(start, end));
      this.#endLine();
      start = end + 1;
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  /** Ends the input. The last line needs no line feed. */
  end(): void {
    if (this.#length > 0 || this.#isDropping) this.#endLine();
  }

  #add(part: Uint8Array): void {
    if (this.#isDropping || part.length === 0) return;
    this.#length += part.length;
    if (this.#length <= this.#maxBytes) this.#chunks.push(part);
    else {
      this.#isDropping = true;
      this.#chunks = [];
      this.#handler.onBadLine('long');
    }
  }

  #endLine(): void {
    const bytes = Buffer.concat(this.#chunks);
    const isDropped = this.#isDropping;
    this.#chunks = [];
    this.#length = 0;
    this.#isDropping = false;
    if (isDropped) return;
    const line = bytes.at(-1) === CARRIAGE_RETURN ? bytes.subarray(0, -1) : bytes;
    if (line.length === 0) return;
    if (isUtf8(line)) this.#handler.onLine(line.toString());
    else this.#handler.onBadLine('encoding');
  }
}
