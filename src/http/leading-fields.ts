/**
 * The fields that stand before the first file of a multipart form: for whoever has to know a field before a large upload is
 * read. At most 64 KiB are looked at, whatever the chunks are; a field counts when all of it lies within.
 */
import { TextPart, mustBeSound } from './form-text.ts';
import { MultipartParser } from './multipart.ts';
import { Pairs } from './query.ts';
import type { MultipartLimits, MultipartSink } from './multipart.ts';
import type { PartHead } from './part-head.ts';

const LEADING_BYTES = 65_536;
/** What is looked at is the limit. */
const LIMITS: MultipartLimits = {
  maxHeaderBytes: 16_384, maxFields: Infinity, maxFiles: Infinity, maxFieldBytes: Infinity, maxTextBytes: Infinity, maxFileBytes: Infinity,
};

/** Reads them. */
export class LeadingFields implements MultipartSink {
  readonly #parser: MultipartParser;
  readonly #names: string[] = [];
  readonly #values: string[] = [];
  readonly #text = new TextPart();
  #name: string | undefined;
  #left = LEADING_BYTES;
  #hasEnded = false;

  constructor(boundary: string) {
    this.#parser = new MultipartParser(boundary, this, LIMITS);
  }

  /** Reads on. Answers whether it has seen enough. @throws HTTPException for what is malformed */
  push(chunk: Uint8Array): boolean {
    const problem = this.#parser.push(chunk.length > this.#left ? chunk.subarray(0, this.#left) : chunk);
    if (!this.#hasEnded) mustBeSound(problem);
    this.#left -= chunk.length;
    return this.#hasEnded || this.#left <= 0;
  }

  get fields(): Pairs { return new Pairs(this.#names, this.#values); }

  onPart({ name, filename }: PartHead): void {
    if (filename !== undefined) this.#hasEnded = true;
    this.#name = name;
  }

  onData(bytes: Buffer, start: number, end: number): void {
    if (!this.#hasEnded) this.#text.add(bytes, start, end);
  }

  onPartEnd(): void {
    if (this.#hasEnded) return;
    this.#names.push(this.#name!);
    this.#values.push(this.#text.take() ?? '');
  }
}
