/**
 * What a handler sees of its request before its inputs and dependencies are added.
 */
import type { Context, HttpRequest, StateMap } from './http/contracts.ts';
import type { TransportRequest } from './http/request.ts';

/** What a handler, dependency or hook gets: each part is taken from the request when it is read. */
export class RequestContext implements Context {
  readonly req: HttpRequest;

  constructor(req: TransportRequest) { this.req = req; }

  get params(): Readonly<Record<string, unknown>> { return this.req.pathParams; }
  get signal(): AbortSignal { return this.req.signal; }
  get state(): StateMap { return this.req.state; }
}
