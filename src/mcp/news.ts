/**
 * News about sessions, which the processes of an application send each other through its RoomBus. Behind a load
 * balancer, a message of a client may reach another process than the one that runs the client's call.
 */
import { isRecord } from '../base/options.ts';
import type { RequestId, RpcResponse } from './messages.ts';
import type { ToolLogLevel } from './calls.ts';

/** A message of a client that concerns the state of its session in a process. */
export type News =
  | { readonly kind: 'response'; readonly response: RpcResponse }
  | { readonly kind: 'cancelled'; readonly request: RequestId }
  | { readonly kind: 'log level'; readonly level: ToolLogLevel }
  | { readonly kind: 'ended' };

/** Writes news for other processes. `session` is the id of the session. */
export function writeNews(session: string, news: News): string {
  return JSON.stringify({ session, news });
}

/** Reads news of another process; undefined if another version of this package has written them. */
export function readNews(text: string): { readonly session: string; readonly news: News } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  // the cast is safe: a process of this application has written the text
  return isRecord(value) && typeof value['session'] === 'string' && isRecord(value['news'])
    ? (value as unknown as { session: string; news: News })
    : undefined;
}
