/**
 * Sent messages, cheaper than node:http makes them (`createServer({ ServerResponse })`).
 *
 * An answer whose body is whole is one `end(body)`. node:http then counts the body and asks for its head by `writeHead(status)`,
 * as it does for all who call no `writeHead` themselves, and adds the length as text that it need not check: 3 % of a plain
 * answer (test/bench/http.ts --only=json).
 */
import { ServerResponse } from 'node:http';
import type { OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http';
import type { TransportRequest } from './request.ts';

type Fields = OutgoingHttpHeaders | OutgoingHttpHeader[];

/** An answer that knows what it answers. */
export class SentMessage extends ServerResponse {
  /** Set by the server. */
  request: TransportRequest | undefined = undefined;
  /** Name and value in turn, until node:http asks for them. */
  #fields: string[] | undefined = undefined;

  /** Sends it whole; Content-Length is added. `isAscii`: bytes are characters, in the body and in every field. */
  sendWhole(status: number, fields: string[], body: string | Uint8Array, isAscii: boolean): void {
    this.statusCode = status;
    this.#fields = fields;
    if (isAscii) this.end(body, 'latin1'); // the same bytes as in UTF-8, for a copy in place of a conversion
    else this.end(body);
  }

  /** Without fields, as node:http calls it: those of {@link sendWhole}. */
  override writeHead(status: number, reason?: string | Fields, fields?: Fields): this {
    return super.writeHead(status, (reason ?? this.#fields) as string, fields); // a reason or, in its place, fields: one overload each
  }
}

