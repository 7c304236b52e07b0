/**
 * Routes of the framework itself: probes, metrics, the OpenAPI document and the documentation page.
 */
import { OpenApiAnswer } from '../openapi/answer.ts';
import { ownProtection } from '../openapi/security.ts';
import { Router } from '../routing/route.ts';
import type { TransportRequest } from '../http/request/request.ts';
import type { DocsPage } from '../openapi/docs/page.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { Operations } from '../operations/operations.ts';
import type { CompilationView } from '../routing/compile.ts';
import type { Routes } from '../routing/route.ts';

/** Paths that are exempt from load limits: an orchestrator would restart a process whose probe is refused. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

const OPERATIONS_SPEC = {
  public: 'operations',
  mcp: false,
  rateLimit: false,
  timeoutMs: false,
  meta: { loadShedding: false },
} as const;
/**
 * Declaration of the documentation routes. The usual limits apply to them, because no orchestrator requests
 * them.
 */
const DOCS_SPEC = { public: 'documentation', mcp: false } as const;
/**
 * Declaration of the probes. Their Host is an address, and their responses disclose nothing, so host checks
 * do not apply.
 */
const PROBE_SPEC = { ...OPERATIONS_SPEC, meta: { ...OPERATIONS_SPEC.meta, trustedHost: false } } as const;

/** Whether a request has the path of a probe. Probes are served even under overload. */
export function isProbe({ path }: TransportRequest): boolean {
  return PROBES.has(path);
}

/**
 * Returns the routes of the probes, the route of the metrics unless they have a port of their own, and, if
 * `openapi` is given, the routes of the documents that describe `view`. The documentation page is imported
 * when it is first requested.
 */
export function operationRoutes(
  operations: Operations,
  openapi: OpenApiOptions | undefined,
  view: () => CompilationView,
): Routes {
  const router = new Router();
  router.get('/healthz', PROBE_SPEC, () => operations.health());
  router.get('/readyz', PROBE_SPEC, () => operations.readiness());
  if (operations.access.port === undefined) addMetrics(router, operations);
  if (openapi === undefined) return router;
  const document = new OpenApiAnswer(view, openapi);
  let page: Promise<DocsPage> | undefined;
  const docs = (): Promise<DocsPage> =>
    (page ??= import('../openapi/docs/page.ts').then(
      ({ DocsPage }) =>
        new DocsPage(
          () => document.document,
          undefined,
          () => ownProtection(view()),
        ),
      (error: unknown) => {
        page = undefined; // after a failed import, the next request tries again
        throw error;
      },
    ));
  router.get('/openapi.json', DOCS_SPEC, ({ req }) => operations.document(req, () => document.answer(req)));
  router.get('/docs', DOCS_SPEC, ({ req }) =>
    operations.document(req, async () => (await docs()).respond(req)),
  );
  return router;
}

/** Returns the route `/metrics` alone, for a port of its own. */
export function metricsRoutes(operations: Operations): Routes {
  return addMetrics(new Router(), operations);
}

function addMetrics(router: Router, operations: Operations): Router {
  return router.get('/metrics', OPERATIONS_SPEC, ({ req }) => operations.metrics(req));
}
