/**
 * Questions to functions of an application that may answer later: which origins they allow, who may read the metrics. `check()` is
 * synchronous, so `svc check` asks first, and the rules read the answers.
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

/** A function that has not answered by then is not judged. */
const LIMIT_MS = 1_000;

type Guard = (...args: never[]) => unknown;

const openGuards = new WeakSet<Guard>();

/** Asks every function that decides about origins or metrics. Never rejects. */
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

/** Every middleware, of the application and of routes, with where it was put to use. */
export function layersWithPlaces(view: ApplicationView): ReadonlyMap<Middleware, Place | undefined> {
  const layers = new Map(view.middleware.map((layer) => [layer, view.placeOfMiddleware(layer)]));
  for (const { declared, route } of ownRoutes(view))
    for (const layer of declared.use) layers.set(layer, route.place);
  return layers;
}

/** The text of the file that a place is in; empty for code that is in no file. */
export function sourceAt(place: Place | undefined): string {
  if (place === undefined || place.line === 0) return '';
  try {
    return readFileSync(fileOfPlace(place), 'utf8');
  } catch {
    return ''; // code that is in no file
  }
}

/** Whether a function has said yes to a request without any credential. */
export function letsStrangersIn(guard: Guard): boolean {
  return openGuards.has(guard);
}

async function probeGuard(guard: Guard): Promise<void> {
  try {
    const verdict = Promise.try(() => guard(strangeRequest() as never));
    const isAllowed = await within(systemClock, LIMIT_MS, verdict, () => undefined);
    if (isAllowed === true) openGuards.add(guard);
  } catch {
    // it needs more of a request, and is not judged
  }
}

/** A request from a public address (RFC 5737) whose every header and cookie is one word. */
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
