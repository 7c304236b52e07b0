/**
 * From a request to an open WebSocket: the answer 101 as the pipeline sees it, and its bytes (RFC 6455 §4.2.2).
 *
 * Middleware finds an ordinary response and may add fields and cookies. One that returns another response has refused.
 */
import { acceptKey } from './ws-handshake.ts';
import { HttpResponse, Prepared } from './response.ts';
import type { Duplex } from 'node:stream';
import type { TransportRequest } from './request.ts';
import type { DeflateAgreement } from './ws-deflate.ts';
import type { Handshake } from './ws-handshake.ts';
import type { SocketHost, SocketParts, WebSocketConnection } from './websocket.ts';

/** What was agreed upon. */
export interface Agreement {
  readonly handshake: Handshake;
  /** Empty where there is none. */
  readonly protocol: string;
  readonly deflate: DeflateAgreement | undefined;
}

/** Makes the socket on a stream. */
export type OpenSocket = (stream: Duplex, parts: SocketParts) => WebSocketConnection;

/** 101: the connection goes on as a WebSocket. */
export class SwitchingProtocols extends HttpResponse {
  readonly #agreement: Agreement;
  readonly #open: OpenSocket;
  readonly #context: unknown;

  constructor(agreement: Agreement, open: OpenSocket, context: unknown) {
    const { handshake, protocol, deflate } = agreement;
    const fields = ['Upgrade', 'websocket', 'Connection', 'Upgrade', 'Sec-WebSocket-Accept', acceptKey(handshake.key)];
    if (protocol !== '') fields.push('Sec-WebSocket-Protocol', protocol);
    if (deflate !== undefined) fields.push('Sec-WebSocket-Extensions', deflate.field);
    super(null, new Prepared(101, fields));
    this.#agreement = agreement;
    this.#open = open;
    this.#context = context;
  }

  /** The subprotocol; empty where there is none. */
  get protocol(): string { return this.#agreement.protocol; }

  /** Makes the socket. */
  open(stream: Duplex, req: TransportRequest, host: SocketHost): WebSocketConnection {
    const { protocol, deflate } = this.#agreement;
    return this.#open(stream, { protocol, deflate, context: this.#context, req, host });
  }
}

/** Fields that each answer has. */
const SENT: ReadonlySet<string> = new Set(['Upgrade', 'Connection', 'Sec-WebSocket-Accept', 'Sec-WebSocket-Protocol', 'Sec-WebSocket-Extensions']);
/** Fields that belong to a body, or to the connection. */
const NOT_SENT: ReadonlySet<string> = new Set(['content-length', 'content-type', 'transfer-encoding', 'keep-alive']);

/** The bytes of the answer, in latin1. Its fields have been checked when they were set. */
export function headOf(response: SwitchingProtocols, req: TransportRequest, isSecure: boolean): string {
  let text = 'HTTP/1.1 101 Switching Protocols\r\n';
  const fields = response.fields(isSecure);
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]!;
    if (SENT.has(name) || isSent(name.toLowerCase(), req)) text += `${name}: ${fields[index + 1]!}\r\n`;
  }
  return `${text}${req.idField}: ${req.id}\r\n\r\n`;
}

function isSent(name: string, req: TransportRequest): boolean {
  return !NOT_SENT.has(name) && name !== req.idField.toLowerCase();
}
