/**
 * The head of an answer as one text, as node:http would write it, for answers that go past it: see http/server/fast-path/outgoing.ts.
 *
 *   status line · fields of the response · X-Request-Id · Date · Connection · Keep-Alive · Content-Length
 *
 * Fields that node:http looks at, or writes in a way of their own, are left to it.
 */
import { STATUS_CODES } from 'node:http';
import { systemClock } from '../../base/clock.ts';
import { httpDate, isAsciiValue, isNamed, isToken } from '../headers.ts';
import type { RequestIdentity } from '../request-id.ts';
import type { HttpResponse } from '../response.ts';

/** By length, which few other names share. */
const LEFT_TO_NODE = new Map<number, string[]>();
for (const name of [
  'connection',
  'content-disposition',
  'content-length',
  'date',
  'expect',
  'keep-alive',
  'trailer',
  'transfer-encoding',
  'upgrade',
]) {
  LEFT_TO_NODE.set(name.length, [...(LEFT_TO_NODE.get(name.length) ?? []), name]);
}

/** The heads of a server's answers. */
export class HeadTexts {
  readonly #keepAlive: string;
  /** What stands between the id and the length, for as long as the second lasts. */
  #middle: string | undefined;

  /** `keepAliveTimeoutMs`: how long a connection stays open between two requests. */
  constructor(keepAliveTimeoutMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1_000)}\r\n`;
  }

  /** The head of an answer whose connection stays open. Empty where it has to be left to node:http. */
  of(
    response: HttpResponse,
    { field, name }: Pick<RequestIdentity, 'field' | 'name'>,
    id: string,
    isSecure: boolean,
    length: number,
  ): string {
    const { prepared } = response;
    const start =
      prepared === undefined
        ? startOf(response.status, response.fields(isSecure), name)
        : (prepared.headText ??= startOf(prepared.status, prepared.flat, name));
    return start === '' ? '' : `${start}${field}: ${id}${this.#middle ?? this.#renew()}${length}\r\n\r\n`;
  }

  #renew(): string {
    const nowMs = systemClock.nowMs(); // the system's, as node:http has it, whatever clock the application has
    systemClock.after(1_000 - (nowMs % 1_000), () => {
      this.#middle = undefined;
    });
    return (this.#middle = `\r\nDate: ${httpDate(nowMs)}\r\n${this.#keepAlive}Content-Length: `);
  }
}

/** The status line and the fields, each checked as node:http does: what is not as it should be is left to it. */
function startOf(status: number, fields: readonly string[], idName: string): string {
  let text = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n`;
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]!;
    const value = fields[index + 1]!;
    if (
      isNamed(name, idName) ||
      ((typeof value !== 'string' || passed.get(name) !== value) && !passes(name, value))
    )
      return '';
    text += `${name}: ${value}\r\n`;
  }
  return text;
}

/** The value that each of these names had when it was looked at last: most fields are the same in every answer (test/bench/http.ts --only=stack). */
const passed = new Map<string, string>();
const MOST_PASSED = 100;
/** Others are not worth their memory. */
const LONGEST_PASSED = 1_000;

/** Whether a field may be sent as it is. */
function passes(name: string, value: string): boolean {
  if (typeof value !== 'string' || isLeftToNode(name) || !isToken(name) || !isAsciiValue(value)) return false;
  if (
    !isNamed(name, 'set-cookie') &&
    value.length <= LONGEST_PASSED &&
    (passed.size < MOST_PASSED || passed.has(name))
  )
    passed.set(name, value);
  return true;
}

function isLeftToNode(name: string): boolean {
  const names = LEFT_TO_NODE.get(name.length);
  return names !== undefined && names.includes(name.toLowerCase());
}
