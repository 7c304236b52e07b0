/**
 * Whether an application may start: nothing of it is what a rule of the phase `graph` refuses.
 *
 *   starting   a look at what could break such a rule -> that rule, where there is something -> rules.ts, where it found something
 *
 * So an application that has no flaw starts without the catalogue, and a plain one without the rules themselves.
 */
import { findMissingLayers, findUnreachable, findWhatIsAllowed } from './graph-rules.ts';
import { findSecrets } from './secrets.ts';
import { IdempotencyMiddleware } from '../http/middleware/idempotency.ts';
import { CONVERTERS } from '../http/path.ts';
import type { ApplicationView, Tell } from './check.ts';
import type { RouteDetail } from '../routing/compile.ts';

/**
 * Whether no rule of the phase `graph`, and none about secrets, finds what could keep it from starting. One that throws has: the
 * examination tells. What only warns becomes an error where its allowance has ended, and nowhere else: with thousands of routes,
 * looking for it would take longer than to compile them.
 */
export function passesAtStart(view: ApplicationView): boolean {
  let passes = true;
  const tell: Tell = () => {
    passes = false;
  };
  try {
    if (view.details.some(takesRest)) findUnreachable(view, tell);
    if (
      view.details.some(asksForLayers) ||
      view.middleware.some((layer) => layer instanceof IdempotencyMiddleware)
    )
      findMissingLayers(view, tell);
    if (view.details.some(({ declared: { spec } }) => spec.allow !== undefined))
      findWhatIsAllowed(view, tell);
    if (mayNeedSecrets(view) && view.secrets.length > 0) findSecrets(view, tell);
  } catch {
    return false;
  }
  return passes;
}

/** Whether more specific routes may leave no request for it (SVC102). */
function takesRest({ declared: { template } }: RouteDetail): boolean {
  return template.parameters.at(-1)?.converter === CONVERTERS.path;
}

/** Whether it asks for what a layer does (SVC121). */
function asksForLayers({ route, declared }: RouteDetail): boolean {
  return typeof route.rateLimit === 'object' || route.security.length > 0 || declared.use.length > 0;
}

/** Whether there is anybody who could need a secret. */
function mayNeedSecrets({ plugins, middleware, details }: ApplicationView): boolean {
  return (
    plugins.length > 0 ||
    middleware.length > 0 ||
    details.some(
      ({ declared: { use, routerDeps, deps } }) =>
        use.length > 0 || routerDeps.length > 0 || Object.keys(deps).length > 0,
    )
  );
}
