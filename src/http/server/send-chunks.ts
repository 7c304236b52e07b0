/**
 * Sending bodies in pieces: they are pulled one at a time and wait for the client (back-pressure). When the client leaves, their
 * source is ended; when the source fails after the head has gone, the connection is cut, so that the client sees a truncated answer.
 */
import { ignore } from '../../base/promises.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { FileBody } from '../files/body.ts';
import { EndlessChunks, checkedChunk, isPending, iterate, lengthError, writable } from '../chunks.ts';
import { SLICE_BYTES } from './slow-readers.ts';
import type { ServerResponse } from 'node:http';
import type { HeadTexts } from './request-head.ts';
import type { SentMessage } from './fast-path/outgoing.ts';
import type { Chunk, ChunkIterator, Chunks } from '../chunks.ts';
import type { SlowReaders } from './slow-readers.ts';

/** What holds for every answer of a server. */
export interface Sending {
  /** Whether cookies that wait for it get `Secure` even without TLS. */
  readonly securesCookies: boolean;
  /** Writes the heads of answers that are sent as one text. */
  readonly heads: HeadTexts;
  /** Watches the answers that are not taken at once. */
  readonly slow: SlowReaders;
  /** The streams that have no end of their own: for a server that stops. */
  readonly endless: Set<EndlessChunks>;
}

/** Sends pieces whose head has gone. Settles when they are sent, and rejects with what their source threw. */
export function sendStream(
  outgoing: SentMessage,
  body: Chunks,
  announced: number,
  sending: Sending,
  id: string,
): Promise<void> | undefined {
  if (body instanceof EndlessChunks) return sendEndless(outgoing, body, sending, id);
  if (!(body instanceof FileBody) || outgoing.destroyed)
    return sendChunks(outgoing, iterate(body), announced, sending.slow, id);
  sending.slow.watch(outgoing, id);
  return body.sendTo(outgoing);
}

function sendEndless(
  outgoing: SentMessage,
  chunks: EndlessChunks,
  { endless, slow }: Sending,
  id: string,
): Promise<void> | undefined {
  endless.add(chunks);
  outgoing.once('close', () => endless.delete(chunks));
  const source = chunks[Symbol.asyncIterator]() as unknown as ChunkIterator; // itself, which is taken now
  if (outgoing.destroyed || !chunks.attach(outgoing)) return sendChunks(outgoing, source, -1, slow, id);
  slow.watch(outgoing, id);
  outgoing.once('close', () => chunks.return());
  return undefined;
}

/** Bytes that are sent before others get a turn: a source that is always ready would keep the process to itself. */
const TURN_BYTES = 1_048_576;
/** What a piece counts for besides its bytes. */
const CHUNK_COST = 64;

/** A character has up to three bytes, those of two units four. */
const SLICE_CHARACTERS = Math.floor(SLICE_BYTES / 3);

/** Sends what a source gives: `announced` bytes, or -1 where that is not known. */
export async function sendChunks(
  outgoing: ServerResponse,
  source: ChunkIterator,
  announced: number,
  slow: SlowReaders,
  id: string,
): Promise<void> {
  let ending: Promise<unknown> | undefined;
  const end = (): void => {
    ending ??= Promise.try(() => source.return?.());
    ending.catch(ignore); // awaited below, unless the source never answers
  };
  if (outgoing.destroyed) {
    end();
    await ending;
    return;
  }
  slow.watch(outgoing, id);
  outgoing.once('close', end); // at once, not with the next piece, which may never come
  try {
    await writeAll(outgoing, source, announced);
    outgoing.off('close', end);
    if (outgoing.destroyed) end();
    else outgoing.end();
  } catch (error) {
    if (outgoing.destroyed && isAbort(error)) return;
    end();
    await nextTurn(); // what was written in this one goes out at its end: a client that sees nothing takes the request for one that was never served
    outgoing.destroy();
    throw error;
  }
  await ending;
}

/** Every piece, each when there is room for it. @throws SvcError `E_STREAM` for what is no piece, and for more or less than was announced */
async function writeAll(outgoing: ServerResponse, source: ChunkIterator, announced: number): Promise<void> {
  let sent = 0;
  for (let burst = 0; ;) {
    const next = source.next();
    const step = isPending(next) ? await next : next;
    if (outgoing.destroyed) return;
    if (step.done === true) break;
    const chunk = checkedChunk(step.value);
    if (announced >= 0) {
      sent += typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk.length;
      if (sent > announced) throw lengthError(announced, sent); // the rest would be read as the next answer
    }
    if (chunk.length > SLICE_BYTES) await writeSlices(outgoing, chunk);
    else if (chunk.length !== 0 && !outgoing.write(chunk)) await writable(outgoing);
    burst += chunk.length + CHUNK_COST;
    if (burst < TURN_BYTES) continue;
    burst = 0;
    await nextTurn();
  }
  if (sent < announced) throw lengthError(announced, sent); // the client would wait for the rest
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

async function writeSlices(outgoing: ServerResponse, chunk: Chunk): Promise<void> {
  for (const slice of slicesOf(chunk)) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(slice)) await writable(outgoing);
  }
}

/**
 * In parts that may be written at once. Those of a text stay text, of which node:http makes bytes outside of V8's memory: all of them
 * in a buffer would take as much memory again for as long as the client reads, and have V8 mark its heap every few answers
 * (test/bench/streams.ts --only=long). `isAscii`: bytes are characters.
 */
export function* slicesOf(chunk: Chunk, isAscii = false): Generator<Chunk, void, undefined> {
  if (typeof chunk !== 'string') {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) yield chunk.subarray(at, at + SLICE_BYTES);
    return;
  }
  const most = isAscii ? SLICE_BYTES : SLICE_CHARACTERS;
  for (let at = 0, end: number; at < chunk.length; at = end) {
    end = at + most;
    if (!isAscii && isHighSurrogate(chunk.charCodeAt(end - 1))) end--; // its other half follows
    yield chunk.slice(at, end);
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** How a source stops that listens to `req.signal`: no failure once the client has left. */
function isAbort(error: unknown): boolean {
  return error instanceof ClientDisconnected || (error instanceof Error && error.name === 'AbortError');
}
