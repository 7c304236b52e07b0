/**
 * Errors that no handler of the application's takes, as answers and as lines of the log.
 */
import { ClientDisconnected, HTTPException } from '../errors.ts';
import { problem, problemOf } from './problem.ts';
import { failRequest } from './request-event.ts';
import type { Logger } from '../log.ts';
import type { Counter } from '../metrics.ts';
import type { TransportRequest } from './request.ts';
import type { HttpResponse } from './response.ts';

/** Who is told of them, and how much. */
export interface FailureParts {
  readonly log: Logger;
  readonly errors: Counter;
  /** Whether answers show stacks. */
  readonly debug: boolean;
  /** Told of every unhandled error and the request it stopped: a test client rethrows it. */
  readonly onUnhandled?: ((error: unknown, requestId: string) => void) | undefined;
}

/** No handler of the application's: HTTP exceptions as they say, everything else 500 and one line in the log. */
export function plainAnswer(error: unknown, req: TransportRequest, parts: FailureParts): HttpResponse {
  if (error instanceof HTTPException && error.status < 500) return problemFor(error, req, parts);
  if (isDisconnect(error)) {
    parts.log.debug('client_disconnected', req.logFields());
    return problem(400, req.id, { detail: 'The request was not received whole' });
  }
  parts.errors.add(1);
  const status = error instanceof HTTPException ? error.status : 500;
  parts.log.error('unhandled_error', error, { ...req.logFields(), status });
  if (req.event !== undefined) failRequest(req.event, error);
  const trace = parts.debug ? stackOf(error) : undefined;
  if (error instanceof HTTPException) return problemFor(error, req, parts, trace);
  parts.onUnhandled?.(error, req.id);
  return problem(500, req.id, { trace });
}

/** An error that nothing handled behind the answer: on a WebSocket. */
export function tellFailure(error: unknown, req: TransportRequest, parts: FailureParts): void {
  parts.errors.add(1);
  parts.log.error('unhandled_error', error, req.logFields());
  if (req.event !== undefined) failRequest(req.event, error);
  parts.onUnhandled?.(error, req.id);
}

function problemFor(error: HTTPException, req: TransportRequest, { log }: FailureParts, trace?: string): HttpResponse {
  try {
    return problemOf(error, req.id, trace);
  } catch (failure) { // a header that cannot be sent, a detail that is no text
    log.error('unhandled_error', failure, { ...req.logFields(), status: error.status });
    return problem(error.status, req.id, { detail: typeof error.detail === 'string' ? error.detail : undefined });
  }
}

/** The client has left: as itself, or as the AbortError that Node makes of an aborted signal. */
function isDisconnect(error: unknown): boolean {
  return error instanceof ClientDisconnected || (error instanceof Error && error.name === 'AbortError' && error.cause instanceof ClientDisconnected);
}

const MAX_CAUSES = 8;

/** The stack with the causes below it, of which an error may be one itself. */
function stackOf(error: unknown, depth = 0): string {
  if (!(error instanceof Error)) return `Thrown: ${typeof error}`;
  const stack = error.stack ?? `${error.name}: ${error.message}`;
  return error.cause === undefined || depth === MAX_CAUSES ? stack : `${stack}\nCaused by: ${stackOf(error.cause, depth + 1)}`;
}
