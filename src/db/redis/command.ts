/**
 * Validates the arguments and the time limits of Redis commands.
 */
import { SvcError } from '../../base/errors.ts';
import { shown } from '../../base/options.ts';
import { QueryCanceled } from '../errors.ts';
import type { Limit } from '../driver.ts';

/** Options of one command. */
export interface RedisCommandOptions {
  /** Time limit in milliseconds. Default: the client's `commandTimeoutMs`. */
  readonly timeoutMs?: number | undefined;
  /** Cancels the command. */
  readonly signal?: AbortSignal | undefined;
  /** Whether strings in the reply are returned as bytes instead of text. Default false. */
  readonly asBytes?: boolean | undefined;
}

const MAX_ARGUMENTS = 1_000_000;

export function limitOf(
  options: RedisCommandOptions | undefined,
  usualMs: number,
  nowMs: number,
): Limit | undefined {
  const timeoutMs = options?.timeoutMs ?? usualMs;
  const signal = options?.signal;
  if (timeoutMs === 0 && signal === undefined) return undefined;
  if (signal?.aborted === true)
    throw new QueryCanceled('The caller canceled the command', { cause: signal.reason });
  return { signal, deadlineMs: timeoutMs === 0 ? Infinity : nowMs + timeoutMs, timeoutMs };
}

export function commandName(parts: readonly unknown[]): string {
  checkArguments(parts);
  const [name] = parts;
  if (typeof name !== 'string')
    throw new SvcError('E_REDIS_ARGUMENT', [
      'a command',
      `the name of the command must be text, found ${shown(name)}`,
    ]);
  return name.toUpperCase();
}

/**
 * Refuses invalid arguments, such as text with a lone surrogate. UTF-8 replaces each lone surrogate by
 * U+FFFD, so different keys would become equal.
 */
export function checkArguments(parts: readonly unknown[]): void {
  if (parts.length === 0 || parts.length > MAX_ARGUMENTS)
    throw new SvcError('E_REDIS_ARGUMENT', ['a command', `found ${parts.length} arguments`]);
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
        typeof part === 'string'
          ? 'found text with half a surrogate pair, which UTF-8 cannot encode'
          : `found ${shown(part)}`,
      ]);
  }
}
