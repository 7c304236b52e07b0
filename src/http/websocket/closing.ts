/**
 * End of one WebSocket: its outcome, the steps that are done, and the close code for an error.
 *
 *   close frames are exchanged, or the connection is lost  ->  onClose has settled  \
 *                                                              stream has closed    /-> over
 */
import { ClientDisconnected, HTTPException } from '../../base/errors.ts';
import { CLOSE } from './codes.ts';

/** How a WebSocket ended. */
export interface WebSocketClose {
  /** 1005: closed without a code; 1006: the connection was lost. */
  readonly code: number;
  readonly reason: string;
  /** Whether both sides sent a close frame. */
  readonly wasClean: boolean;
}

/** State of the end of a socket. A socket makes it when it begins to end. */
export class Ending {
  /** Undefined until one side has closed. */
  close: WebSocketClose | undefined;
  /** First error that no handler took. */
  failure: unknown;
  /** Ends the connection when the peer takes too long. */
  timer: Disposable | undefined;
  /** Whether onClose has been called. */
  isReported = false;
  /** Whether onClose has settled. */
  isHandled = false;
  /** Whether the stream has closed. */
  isGone = false;
  #isOver = false;

  /** Returns true once: when onClose has settled and the stream has closed. */
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
    return this.failure ?? (this.close!.wasClean ? undefined : new ClientDisconnected()); // it has closed
  }
}

/**
 * Returns how a socket closes for an error of a handler. An HTTPException below 500 is meant for clients, so its message is the
 * reason: with 1007 for invalid input, 1003 for the wrong kind of message, else 1008. Other errors give 1011 without a reason.
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
