/**
 * Lines of JSON (`application/x-ndjson`): each value of a source is one line, sent when it comes.
 */
import { checkedSource, StreamingResponse, toJson } from '../response.ts';
import { isPending, iterate } from '../chunks.ts';
import type { Chunk, ChunkIterator, ChunkStep, Chunks } from '../chunks.ts';
import type { ResponseOptions } from '../response.ts';

/**
 * Values as lines of JSON: dates in ISO 8601, bigints as decimal strings. A value without JSON, like any failure of the source, is a 500
 * if it is the first, and closes the connection later.
 */
export class NDJSONResponse extends StreamingResponse {
  /** @throws SvcError `E_STREAM` for a source without values */
  constructor(
    values: Iterable<unknown> | AsyncIterable<unknown> | ReadableStream<unknown>,
    options: ResponseOptions = {},
  ) {
    const source = checkedSource(values) as Chunks; // any value becomes a line
    super(
      { [Symbol.asyncIterator]: () => new Lines(iterate(source)) as unknown as AsyncIterator<Chunk> },
      { ...options, mediaType: options.mediaType ?? 'application/x-ndjson' },
    ); // see Primed
  }
}

class Lines implements ChunkIterator {
  readonly #source: ChunkIterator;

  constructor(source: ChunkIterator) {
    this.#source = source;
  }

  next(): ChunkStep | PromiseLike<ChunkStep> {
    const step = this.#source.next();
    return isPending(step) ? step.then(lineOf) : lineOf(step);
  }

  return(): unknown {
    return this.#source.return?.();
  }
}

function lineOf(step: ChunkStep): ChunkStep {
  return step.done === true ? step : { done: false, value: `${toJson(step.value)}\n` };
}
