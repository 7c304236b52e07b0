/**
 * The format of server-sent events (WHATWG HTML §9.2.5): what programs write → lines of `text/event-stream`.
 *
 *   { event: 'price', id: '7', data: { tea: 3 } }  →  event: price ␊ id: 7 ␊ data: {"tea":3} ␊ ␊
 *
 * Data of several lines becomes several `data:` fields, which the browser joins again. Names and ids with a line break
 * would be other fields, or whole events: they are refused, as are ids with NUL, which browsers ignore.
 */
import { SvcError } from '../errors.ts';
import { shown } from '../options.ts';
import { toJson } from './json.ts';

/** An event. `undefined` means not given; at least one member is. */
export interface ServerSentEvent {
  /** What listeners are registered for; browsers take `message` where there is none. One line. */
  readonly event?: string | undefined;
  /** What a client that comes back says it has had last: see `lastEventId()`. One line without NUL; empty: nothing. */
  readonly id?: string | undefined;
  /** How long the client waits before it comes back, in milliseconds: an integer 0 … 2^31-1. */
  readonly retryMs?: number | undefined;
  /** Text as it is, anything else as JSON. Without it browsers tell nobody of the event. */
  readonly data?: unknown;
}

/** A line that browsers skip: keeps the connection from being taken for dead. */
export const COMMENT = ':\n\n';

/** An event, or text that is its data, as it is sent. @throws SvcError `E_EVENT`, `E_REPLY` for data that is no JSON */
export function encodeEvent(given: unknown): string {
  if (typeof given === 'string') return `${dataOf(given)}\n`;
  if (typeof given !== 'object' || given === null) throw new SvcError('E_EVENT', [`${shown(given)} is no event`]);
  const { event, id, retryMs, data } = given as ServerSentEvent;
  let text = '';
  if (event !== undefined) text += `event: ${oneLine('event', event)}\n`;
  if (id !== undefined) text += `id: ${oneLine('id', id)}\n`;
  if (retryMs !== undefined) text += retryOf(retryMs);
  if (data !== undefined) text += dataOf(typeof data === 'string' ? data : toJson(data));
  if (text === '') throw new SvcError('E_EVENT', ['it has none of event, id, retryMs and data']);
  return `${text}\n`;
}

/** The field that says when to come back. @throws SvcError `E_EVENT` */
export function retryOf(ms: unknown): string {
  if (!Number.isInteger(ms) || (ms as number) < 0 || (ms as number) > 2_147_483_647) throw new SvcError('E_EVENT', [`its retryMs is ${shown(ms)}, an integer 0 … 2147483647 is needed`]);
  return `retry: ${String(ms)}\n`;
}

function dataOf(text: string): string {
  if (!text.includes('\n') && !text.includes('\r')) return `data: ${text}\n`;
  return text.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`).join('');
}

function oneLine(name: string, value: unknown): string {
  if (typeof value !== 'string') throw new SvcError('E_EVENT', [`its ${name} is ${shown(value)}, a string is needed`]);
  if (/[\r\n\0]/.test(value)) throw new SvcError('E_EVENT', [`its ${name} has a line break or NUL`]);
  return value;
}

/**
 * The id of the last event that a client has had when it comes back (field `Last-Event-ID`); undefined for one that comes for
 * the first time. It is what a client says: look it up, do not trust it.
 */
export function lastEventId(req: { readonly headers: Readonly<Record<string, string | undefined>> }): string | undefined {
  const value = req.headers['last-event-id'];
  if (value === undefined || value === '') return undefined;
  return /[\x80-\xff]/.test(value) ? Buffer.from(value, 'latin1').toString() : value; // browsers send UTF-8
}
