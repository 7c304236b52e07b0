/**
 * Calls of asynchronous functions of an application: functions for origins and guards of metrics. `check()` is synchronous,
 * so `svc check` calls these functions first, and the rules read the results.
 */
import { readFileSync } from 'node:fs';
import { fileOfPlace } from '../base/findings.ts';
import { systemClock } from '../base/clock.ts';
import { within } from '../base/promises.ts';
import { CORSMiddleware } from '../http/middleware/cors.ts';
import { ownRoutes } from './check.ts';
import type { ApplicationView } from './check.ts';
import type { Place } from '../base/findings.ts';
import type { Middleware } from '../http/contracts.ts';

/** Time limit of a function. The rules skip functions that take longer. */
const LIMIT_MS = 1_000;

type Guard = (...args: never[]) => unknown;

const openGuards = new WeakSet<Guard>();

/** Calls every function that decides about origins or metrics. Never rejects. */
export async function probe(view: ApplicationView): Promise<void> {
  const pending: Promise<void>[] = [];
  for (const [layer, place] of layersWithPlaces(view))
    if (layer instanceof CORSMiddleware) pending.push(layer.allowed.settle(sourceAt(place), LIMIT_MS));
  for (const { declared, route } of view.details)
    if (declared.socket !== undefined)
      pending.push(declared.socket.guard.origin.settle(sourceAt(route.place), LIMIT_MS));
  if (view.metricsGuard !== undefined) pending.push(probeGuard(view.metricsGuard));
  await Promise.allSettled(pending);
}

/** Returns every middleware of the application and its routes, with the place of its use. */
export function layersWithPlaces(view: ApplicationView): ReadonlyMap<Middleware, Place | undefined> {
  const layers = new Map(view.middleware.map((layer) => [layer, view.placeOfMiddleware(layer)]));
  for (const { declared, route } of ownRoutes(view))
    for (const layer of declared.use) layers.set(layer, route.place);
  return layers;
}

/** Returns the text of the file of a place, or an empty text if there is no file. */
export function sourceAt(place: Place | undefined): string {
  if (place === undefined || place.line === 0) return '';
  try {
    return readFileSync(fileOfPlace(place), 'utf8');
  } catch {
    return ''; // generated code has no file
  }
}

/** Whether a guard accepted a request without a valid credential. */
export function letsStrangersIn(guard: Guard): boolean {
  return openGuards.has(guard);
}

async function probeGuard(guard: Guard): Promise<void> {
  try {
    const verdict = Promise.try(() => guard(strangeRequest() as never));
    const isAllowed = await within(systemClock, LIMIT_MS, verdict, () => undefined);
    if (isAllowed === true) openGuards.add(guard);
  } catch {
    // the function needs other parts of a request, so the rules skip it
  }
}

/** Returns a request from a public address (RFC 5737) whose headers and cookies all have one invalid value. */
function strangeRequest(): object {
  const words = new Proxy(
    {},
    { get: (_target, name) => (typeof name === 'string' ? 'svc-check' : undefined) },
  );
  return {
    method: 'GET',
    path: '/metrics',
    url: '/metrics',
    ip: '203.0.113.9',
    host: 'svc-check.invalid',
    scheme: 'https',
    headers: words,
    cookies: words,
    query: new URLSearchParams(),
  };
}
