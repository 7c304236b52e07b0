/**
 * The parts of a multipart form one by one as they arrive: nothing is kept, nothing is read that nobody asks for.
 *
 *   chunk → parser → events of this chunk → part, its content → the next chunk when they are used up
 */
import { SvcError } from '../errors.ts';
import { NO_TEXT, TextPart, isOtherText, mustBeSound } from './form-text.ts';
import { HeardSteps, heard } from './heard.ts';
import { MultipartParser } from './multipart.ts';
import type { FormPart } from './contracts.ts';
import type { MultipartLimits, MultipartProblem, MultipartSink } from './multipart.ts';
import type { PartHead } from './part-head.ts';

type PartEvent = { readonly kind: 'part'; readonly head: PartHead } | { readonly kind: 'data'; readonly bytes: Buffer } | { readonly kind: 'end' };

/** The parts of a body, each to be read before the next one is asked for; what is left of it is read over then. */
export async function* partsOf(chunks: AsyncIterable<Uint8Array>, boundary: string, limits: MultipartLimits): AsyncGenerator<FormPart, void, undefined> {
  const iterator = chunks[Symbol.asyncIterator]();
  const events = new PartEvents(iterator, boundary, limits);
  try {
    for (let event = await events.next(); event !== undefined; event = await events.next()) {
      if (event.kind === 'part') yield new StreamedPart(event.head, events);
    }
  } finally {
    events.isOver = true;
    await iterator.return?.();
  }
}

/** What a parser tells, on demand: never more than one chunk of it waits. */
class PartEvents implements MultipartSink {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #parser: MultipartParser;
  #waiting: PartEvent[] = [];
  #taken = 0;
  #problem: MultipartProblem | undefined;
  #isRead = false;
  isOver = false;
  /** How many parts have been given out: the last of them is the one to read. */
  count = 0;

  constructor(chunks: AsyncIterator<Uint8Array>, boundary: string, limits: MultipartLimits) {
    this.#chunks = chunks;
    this.#parser = new MultipartParser(boundary, this, limits);
  }

  onPart(head: PartHead): void { this.#waiting.push({ kind: 'part', head }); }
  onData(bytes: Buffer, start: number, end: number): void { this.#waiting.push({ kind: 'data', bytes: bytes.subarray(start, end) }); }
  onPartEnd(): void { this.#waiting.push({ kind: 'end' }); }

  /** The next event; undefined behind the last. What is wrong with the body is told behind what was right. */
  async next(): Promise<PartEvent | undefined> {
    while (this.#taken === this.#waiting.length) {
      mustBeSound(this.#problem);
      if (this.#isRead) return undefined;
      this.#waiting = [];
      this.#taken = 0;
      const { done, value } = await this.#chunks.next();
      this.#isRead = done === true;
      this.#problem = done === true ? this.#parser.end() : this.#parser.push(value);
    }
    const event = this.#waiting[this.#taken++]!;
    if (event.kind === 'part') this.count++;
    return event;
  }
}

/** A part whose content has not been read yet. */
class StreamedPart implements FormPart {
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string;
  readonly #head: PartHead;
  readonly #events: PartEvents;
  readonly #number: number;
  #isRead = false;

  constructor(head: PartHead, events: PartEvents) {
    this.name = head.name;
    this.filename = head.filename;
    this.contentType = head.contentType;
    this.#head = head;
    this.#events = events;
    this.#number = events.count;
  }

  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> { return new HeardSteps(this.#content()); }

  text(): Promise<string> { return heard(this.#text()); }

  async *#content(): AsyncGenerator<Uint8Array, void, undefined> {
    while (!this.#isRead) {
      if (this.#events.isOver || this.#events.count !== this.#number) throw new SvcError('E_UPLOAD_GONE', [`the part "${this.name}"`]);
      const event = await this.#events.next();
      if (event?.kind === 'data') yield event.bytes;
      else this.#isRead = true;
    }
  }

  async #text(): Promise<string> {
    const received = new TextPart();
    for await (const bytes of this.#content()) received.add(bytes as Buffer, 0, bytes.length);
    const value = received.take();
    if (value === undefined || isOtherText(this.#head, value)) mustBeSound(NO_TEXT);
    return value!;
  }
}
