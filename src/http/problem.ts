/**
 * Problems: what a client reads when a request fails (RFC 9457), the same shape for every 4xx and 5xx.
 */
import { statusTitle } from '../base/errors.ts';
import { HttpResponse, PreparedType } from './response.ts';
import type { HTTPException, Issue } from '../base/errors.ts';

export const PROBLEM_TYPE = 'application/problem+json';
const PROBLEM = new PreparedType(PROBLEM_TYPE);

/** What a problem says besides its status. Nothing here comes from the request but issues' places and the request id. */
export interface ProblemDetails {
  readonly detail?: string | undefined;
  readonly code?: string | undefined;
  readonly issues?: readonly Issue[] | undefined;
  /** The stack, with `debug` only. */
  readonly trace?: string | undefined;
}

/** A problem as a response. `requestId` has been checked: it goes into the text as it is. */
export function problem(status: number, requestId: string, details: ProblemDetails = {}): HttpResponse {
  const { detail, code, issues, trace } = details;
  let text = head(status);
  if (detail !== undefined) text += `,"detail":${JSON.stringify(detail)}`;
  if (code !== undefined) text += `,"code":${JSON.stringify(code)}`;
  if (issues !== undefined) text += `,"errors":${JSON.stringify(issues)}`;
  text += `,"request_id":"${requestId}"`;
  if (trace !== undefined) text += `,"trace":${JSON.stringify(trace)}`;
  return new HttpResponse(`${text}}`, PROBLEM.get(status));
}

/** The problem of an exception, its headers included. */
export function problemOf(error: HTTPException, requestId: string, trace?: string): HttpResponse {
  const { detail, code, issues } = error;
  const response = problem(error.status, requestId, { detail, code, issues, trace });
  if (error.headers !== undefined)
    for (const [name, value] of Object.entries(error.headers)) response.headers.set(name, value);
  return response;
}

const heads = new Map<number, string>();

/** The beginning that is the same for every problem of a status. */
function head(status: number): string {
  let text = heads.get(status);
  if (text === undefined)
    heads.set(
      status,
      (text = `{"type":"about:blank","title":${JSON.stringify(statusTitle(status))},"status":${status}`),
    );
  return text;
}
