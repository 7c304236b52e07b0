/**
 * Records how a WebSocket closes, and chooses the close code for an error. A WebSocket has ended when its
 * onClose handler has settled and its stream has closed.
 */
import { ClientDisconnected, HTTPException } from '../../base/errors.ts';
import { CLOSE } from './codes.ts';

/** Describes how a WebSocket closed. The onClose handler gets this object. */
export interface WebSocketClose {
  /** Close code (RFC 6455 §7.4). 1005: closed without a code; 1006: the connection was lost. */
  readonly code: number;
  readonly reason: string;
  /** Whether both sides sent a close frame. */
  readonly wasClean: boolean;
}

/** Progress of closing a WebSocket. Created when closing begins. */
export class Ending {
  /** Code and reason of the side that closed first. Undefined until one side has closed. */
  close: WebSocketClose | undefined;
  /** The first error that the onError handler did not handle. */
  failure: unknown;
  /** Timer that ends the connection if the client does not close in time. */
  timer: Disposable | undefined;
  isReported = false;
  /** Whether the onClose handler has settled. */
  isHandled = false;
  isGone = false;
  #isOver = false;

  /** True only once: at the first call after the onClose handler has settled and the stream has closed. */
  takeOver(): boolean {
    if (!this.isHandled || !this.isGone || this.#isOver) return false;
    this.#isOver = true;
    return true;
  }

  stopTimer(): void {
    this.timer?.[Symbol.dispose]();
  }

  /** The error that ended the WebSocket. Undefined after a clean close. */
  get cause(): unknown {
    // `close` is defined, because the WebSocket has closed
    return this.failure ?? (this.close!.wasClean ? undefined : new ClientDisconnected());
  }
}

/**
 * Returns the close code and reason for an error of a handler. An HTTPException below 500 has its message as
 * the reason, and the code 1007 (status 400), 1003 (status 415) or 1008 (other status). Other errors have the
 * code 1011 and no reason.
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
