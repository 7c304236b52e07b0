/** The delivery of a response: its facts for the access log, and its chunks while they are sent. */
import { onePer } from '../../base/options.ts';
import { safeField } from '../../observability/redact.ts';
import { PassedChunks, isPending, isChunks, iterate } from '../chunks.ts';
import { hasNoContent, lengthOf } from '../response.ts';
import type { CompiledRoute } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { ChunkIterator, ChunkStep, Chunks } from '../chunks.ts';

/** Maximum number of characters of a user agent in spans and logs. @internal */
export const MAX_AGENT_CHARACTERS = 256;

/**
 * A sample value for path parameters. If safeField() masks the sample, the parameter has the name of a
 * secret, for example `token`.
 */
const LIKE_A_SECRET = 'x'.repeat(64);

/** Returns whether a path parameter of a route has the name of a secret, so that logs must not show the path. */
export const hasSecret: (route: CompiledRoute) => boolean = onePer((route) =>
  [...route.template.matchAll(/\{(\w+)/g)].some(
    ([, name]) => safeField(name!, LIKE_A_SECRET) !== LIKE_A_SECRET,
  ),
);

/** Facts about the response to a request, for the access log. */
export class Delivery {
  readonly status: number;
  /** Time in milliseconds from the arrival of the request until the response is known. */
  readonly durationMs: number;
  /** Size of the body in bytes. If its length is not known in advance, the number of bytes sent so far. */
  bytes: number;

  constructor(method: string, response: HttpResponse, durationMs: number) {
    this.status = response.status;
    this.durationMs = durationMs;
    const isEmpty = method === 'HEAD' || response.body === null || hasNoContent(response.status);
    const length = isEmpty ? 0 : lengthOf(response);
    this.bytes = Math.max(0, length);
    const { body } = response;
    if (length < 0 && isChunks(body))
      response.body = new CountedChunks(body, (bytes) => {
        this.bytes += bytes;
      });
  }
}

/** Passes the size of each chunk to `onBytes`. The chunks can be read only once. */
export class CountedChunks extends PassedChunks {
  readonly #onBytes: (bytes: number) => void;
  #source: ChunkIterator | undefined;

  constructor(chunks: Chunks, onBytes: (bytes: number) => void) {
    super(chunks);
    this.#onBytes = onBytes;
  }

  next(): ChunkStep | PromiseLike<ChunkStep> {
    const step = this.#begun().next();
    return isPending(step) ? step.then((ready) => this.#count(ready)) : this.#count(step);
  }

  return(): unknown {
    return this.#begun().return?.();
  }

  #begun(): ChunkIterator {
    return (this.#source ??= iterate(this.chunks));
  }

  #count(step: ChunkStep): ChunkStep {
    // an invalid chunk counts as 0 bytes, because it is not sent
    if (step.done !== true)
      this.#onBytes(
        typeof step.value === 'string' ? Buffer.byteLength(step.value) : (step.value?.byteLength ?? 0),
      );
    return step;
  }
}
