/**
 * From a request to an open WebSocket: the answer 101 as the pipeline sees it, and its bytes (RFC 6455 §4.2.2).
 *
 * Middleware finds an ordinary response and may add fields and cookies. One that returns another response has refused.
 */
import { acceptKey } from './ws-handshake.ts';
import { HttpResponse, Prepared } from './response.ts';
import { WebSocketConnection } from './websocket.ts';
import type { Duplex } from 'node:stream';
import type { TransportRequest } from './request.ts';
import type { DeflateAgreement } from './ws-deflate.ts';
import type { Handshake } from './ws-handshake.ts';
import type { SocketParts, SocketTerms } from './websocket.ts';

/** What was agreed upon. */
export interface Agreement {
  readonly handshake: Handshake;
  /** Empty where there is none. */
  readonly protocol: string;
  readonly deflate: DeflateAgreement | undefined;
}

/** 101: the connection goes on as a WebSocket. */
export class SwitchingProtocols extends HttpResponse {
  readonly #agreement: Agreement;
  readonly #terms: SocketTerms;
  readonly #context: unknown;

  constructor(agreement: Agreement, terms: SocketTerms, context: unknown) {
    const { handshake, protocol, deflate } = agreement;
    super(null, new Prepared(101, [
      'Upgrade', 'websocket', 'Connection', 'Upgrade', 'Sec-WebSocket-Accept', acceptKey(handshake.key),
      ...protocol === '' ? [] : ['Sec-WebSocket-Protocol', protocol], ...deflate === undefined ? [] : ['Sec-WebSocket-Extensions', deflate.field],
    ]));
    this.#agreement = agreement;
    this.#terms = terms;
    this.#context = context;
  }

  /** The subprotocol; empty where there is none. */
  get protocol(): string { return this.#agreement.protocol; }

  /** Makes the socket. */
  open(stream: Duplex, { req, onClosed, onOver }: Pick<SocketParts, 'req' | 'onClosed' | 'onOver'>): WebSocketConnection {
    const { protocol, deflate } = this.#agreement;
    return new WebSocketConnection(stream, this.#terms, { protocol, deflate, context: this.#context, req, onClosed, onOver });
  }
}

/** Fields that belong to a body, or to the connection. */
const NOT_SENT: ReadonlySet<string> = new Set(['content-length', 'content-type', 'transfer-encoding', 'keep-alive']);

/** The bytes of the answer, in latin1. Its fields have been checked when they were set. */
export function headOf(response: SwitchingProtocols, req: TransportRequest, isSecure: boolean): string {
  let text = 'HTTP/1.1 101 Switching Protocols\r\n';
  const fields = response.fields(isSecure);
  const ownId = req.idField.toLowerCase();
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]!.toLowerCase();
    if (!NOT_SENT.has(name) && name !== ownId) text += `${fields[index]!}: ${fields[index + 1]!}\r\n`;
  }
  return `${text}${req.idField}: ${req.id}\r\n\r\n`;
}
