/**
 * The end of one WebSocket: its outcome, the steps that are complete, and the close code for an error. A
 * socket has ended when its onClose handler has settled and its stream has closed.
 */
import { ClientDisconnected, HTTPException } from '../../base/errors.ts';
import { CLOSE } from './codes.ts';

/** How a WebSocket ended. */
export interface WebSocketClose {
  /** Close code (RFC 6455 §7.4). 1005: closed without a code; 1006: the connection was lost. */
  readonly code: number;
  readonly reason: string;
  /** Whether both sides sent a close frame. */
  readonly wasClean: boolean;
}

/** State of the end of a socket. Created when the socket begins to close. */
export class Ending {
  /** Undefined until one side has closed. */
  close: WebSocketClose | undefined;
  /** First error that no handler handled. */
  failure: unknown;
  /** Timer that ends the connection if the peer takes too long. */
  timer: Disposable | undefined;
  /** Whether onClose has been called. */
  isReported = false;
  /** Whether onClose has settled. */
  isHandled = false;
  /** Whether the stream has closed. */
  isGone = false;
  #isOver = false;

  /** Returns true if onClose has settled and the stream has closed, but only once. */
  takeOver(): boolean {
    if (!this.isHandled || !this.isGone || this.#isOver) return false;
    this.#isOver = true;
    return true;
  }

  stopTimer(): void {
    this.timer?.[Symbol.dispose]();
  }

  /** Returns the error that ended the socket early; undefined after a clean close. */
  get cause(): unknown {
    // `close` is defined: called only after the socket has closed
    return this.failure ?? (this.close!.wasClean ? undefined : new ClientDisconnected());
  }
}

/**
 * Returns the close code and reason for an error of a handler. An HTTPException below 500 is meant for
 * clients, so its message is the reason. Its code is 1007 for invalid input, 1003 for the wrong kind of
 * message, else 1008. Other errors give 1011 without a reason.
 */
export function closeFor(error: unknown): { readonly code: number; readonly reason: string } {
  if (!(error instanceof HTTPException) || error.status >= 500)
    return { code: CLOSE.internalError, reason: '' };
  const [issue] = error.issues ?? [];
  const reason = issue === undefined ? error.message : `${issue.loc.join('.')} ${issue.message}`;
  return {
    code:
      error.status === 400
        ? CLOSE.invalidData
        : error.status === 415
          ? CLOSE.unsupportedData
          : CLOSE.policyViolation,
    reason,
  };
}
