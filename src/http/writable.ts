/**
 * Back-pressure: waiting until a stream takes more.
 */
import type { Writable } from 'node:stream';

/** Resolves when more can be written, or when nothing can any more. Leaves no listener behind. */
export function writable(stream: Writable): Promise<void> {
  if (stream.destroyed) return Promise.resolve(); // "close" may have been told already
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}
