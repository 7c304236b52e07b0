/**
 * Commands for Redis: their arguments, and how long they may take.
 */
import { SvcError } from '../../base/errors.ts';
import { shown } from '../../base/options.ts';
import { QueryCanceled } from '../errors.ts';
import type { Limit } from '../driver.ts';

/** How one command is run. */
export interface RedisCommandOptions {
  /** In place of the client's `commandTimeoutMs`. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether strings of the reply are bytes. Default false: they are text. */
  readonly asBytes?: boolean | undefined;
}

const MAX_ARGUMENTS = 1_000_000;

/** The limit of one command; undefined when it may take as long as it does. @throws QueryCanceled when the signal is aborted already */
export function limitOf(
  options: RedisCommandOptions | undefined,
  usualMs: number,
  nowMs: number,
): Limit | undefined {
  const timeoutMs = options?.timeoutMs ?? usualMs;
  const signal = options?.signal;
  if (timeoutMs === 0 && signal === undefined) return undefined;
  if (signal?.aborted === true)
    throw new QueryCanceled('The caller canceled the command', { sqlstate: '57014', cause: signal.reason });
  return { signal, deadlineMs: timeoutMs === 0 ? Infinity : nowMs + timeoutMs, timeoutMs };
}

/** The name of a command, in capitals. @throws SvcError `E_REDIS_ARGUMENT` for a command that has none, and for arguments that are none */
export function commandName(parts: readonly unknown[]): string {
  checkArguments(parts);
  const [name] = parts;
  if (typeof name !== 'string')
    throw new SvcError('E_REDIS_ARGUMENT', ['the name of a command', shown(name)]);
  return name.toUpperCase();
}

/** Text must be whole: two keys with half a character each would be one and the same. @throws SvcError `E_REDIS_ARGUMENT` */
export function checkArguments(parts: readonly unknown[]): void {
  if (parts.length === 0 || parts.length > MAX_ARGUMENTS)
    throw new SvcError('E_REDIS_ARGUMENT', ['a command', `${parts.length} arguments`]);
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index];
    const isGood =
      typeof part === 'string'
        ? part.isWellFormed()
        : typeof part === 'number'
          ? Number.isFinite(part)
          : typeof part === 'bigint' || part instanceof Uint8Array;
    if (!isGood)
      throw new SvcError('E_REDIS_ARGUMENT', [
        `argument ${index}`,
        typeof part === 'string' ? 'text with half a surrogate pair' : shown(part),
      ]);
  }
}
