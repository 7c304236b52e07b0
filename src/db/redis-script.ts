/**
 * A script that Redis runs as one step, known to the server by its digest.
 */
import { createHash } from 'node:crypto';

/** A script of Lua. It may use only the keys that it is given, and no random values but those of the server. */
export class RedisScript {
  readonly text: string;
  /** In hex. */
  readonly sha1: string;

  constructor(text: string) {
    this.text = text;
    this.sha1 = createHash('sha1').update(text).digest('hex');
  }
}
