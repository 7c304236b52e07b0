/**
 * Calls asynchronous functions of an application with test input: CORS origin functions and metrics guards.
 * `check()` is synchronous, so `svc check` calls these functions first, and the rules read the results.
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

/** Time limit for one function. Rules ignore a function that takes longer. */
const LIMIT_MS = 1_000;

type Guard = (...args: never[]) => unknown;

const openGuards = new WeakSet<Guard>();

/**
 * Calls every CORS origin function and metrics guard of an application, and keeps the results for the rules.
 * Never rejects.
 */
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

/** Returns the text of the source file of a place, or an empty text if the file cannot be read. */
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
    // the function reads parts of a request that this test request lacks: no result
  }
}

/**
 * Returns a test request from a public address (RFC 5737) in which every header and cookie has the same
 * invalid value.
 */
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
