/**
 * What rules want to know of a route, in one place for all of them.
 */
import { segmentsOf } from '../http/middleware/exemptions.ts';
import type { ApplicationView } from './check.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { Middleware } from '../http/contracts.ts';
import type { FlatRoute } from '../routing/route.ts';

/** Methods that change nothing (RFC 9110 §9.2.1). */
export const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** How findings name a route: `POST /users`. */
export function subjectOf({ route }: RouteDetail): string {
  return `${route.method} ${route.template}`;
}

/** Whether requests of it change something. */
export function isWrite({ route, declared }: RouteDetail): boolean {
  return declared.socket === undefined && !SAFE_METHODS.has(route.method);
}

/** Whether its author has said that it is open to everybody. */
export function isPublic({ declared: { spec } }: RouteDetail): boolean {
  return spec.public !== undefined && spec.public !== false;
}

/** Whether nobody gets through without a credential. */
export function isGuarded({ route: { security } }: RouteDetail): boolean {
  return security.some(({ isOptional }) => isOptional !== true);
}

/** Routes of the application itself, but for the parts of static mounts. */
export function ownRoutes({ details }: ApplicationView): readonly RouteDetail[] {
  return details.filter(({ isOperation, declared }) => !isOperation && declared.mount === undefined);
}

/** The template without the names of its parameters: what two routes have in common that match the same. */
export function shapeOf({ declared }: Pick<RouteDetail, 'declared'>): string {
  return segmentsOf(declared.template).join('/');
}

/** Those around a route, the outermost first. */
export function layersOf({ middleware }: ApplicationView, { use }: FlatRoute): readonly Middleware[] {
  return [...middleware, ...use];
}
