/**
 * What Redis refuses → our errors, by the first word of what it says. What it quotes of a command is cut: it may be a value.
 */
import { ConnectionLost, DatabaseError, LockTimeout, ReadOnly } from './db-errors.ts';
import type { RespError } from './resp.ts';

/** Something that Redis refuses. `reply` is the first word of its answer: `ERR`, `WRONGTYPE`, `NOPERM`, `OOM`, `NOSCRIPT`, … */
export class RedisError extends DatabaseError {
  readonly reply: string;

  constructor(reply: string, message: string) {
    super(message);
    this.reply = reply;
  }
}

/** Of a server that serves nobody for now, as while it loads its data. */
const AWAY: ReadonlySet<string> = new Set(['LOADING', 'MASTERDOWN', 'CLUSTERDOWN']);

/** How servers before Redis 7 say what a command of a script was refused with. */
const IN_SCRIPT = /^ERR Error running script .*?: -([A-Z]+) /;

/** The error of a command. `name` is its first word, which is no value. */
export function redisError({ kind: first, message }: RespError, name: string): DatabaseError {
  const kind = IN_SCRIPT.exec(message)?.[1] ?? first;
  const text = `${name}: ${message.replace(/(['"`])[\s\S]*\1/g, '$1…$1').slice(0, 300)}`;
  if (kind === 'READONLY') return new ReadOnly(text, { sqlstate: '25006' });
  if (AWAY.has(kind)) return new ConnectionLost(text, { sqlstate: '57P03' });
  if (kind === 'BUSY') return new LockTimeout(text, { sqlstate: '55P03' });
  return new RedisError(kind, kind === 'MOVED' || kind === 'ASK' ? `${name}: the server is part of a cluster, and this client speaks to single servers and their replicas` : text);
}
