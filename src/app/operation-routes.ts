/**
 * Routes that the framework adds itself: `/healthz`, `/readyz`, `/metrics`, the OpenAPI document and the
 * documentation page.
 */
import { hash } from 'node:crypto';
import { LazyModule } from '../base/promises.ts';
import { notModified } from '../http/files/files.ts';
import { clientHas } from '../http/files/preconditions.ts';
import { HttpResponse, JSON_TYPE } from '../http/response.ts';
import { openapiDocument } from '../openapi/openapi.ts';
import { ownProtection } from '../openapi/security.ts';
import { Router } from '../routing/route.ts';
import type { TransportRequest } from '../http/request/request.ts';
import type { DocsPage } from '../openapi/docs/page.ts';
import type { OpenApiDocument } from '../openapi/document.ts';
import type { OpenApiOptions } from '../openapi/openapi.ts';
import type { Operations } from '../operations/operations.ts';
import type { CompilationView } from '../routing/compile.ts';
import type { Routes } from '../routing/route.ts';

/** Imported by the first request, because it takes long, and production has no documentation page. */
const docsPages = new LazyModule(() => import('../openapi/docs/page.ts'));

/**
 * Paths of health checks and metrics. Load limits do not apply to them: an orchestrator would restart a
 * process that refuses its health check.
 */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

const OPERATIONS_SPEC = {
  public: 'operations',
  mcp: false,
  rateLimit: false,
  timeoutMs: false,
  meta: { loadShedding: false },
} as const;
/** Load limits apply, because these routes serve people and not an orchestrator. */
const DOCS_SPEC = { public: 'documentation', mcp: false } as const;
/**
 * Options of `/healthz` and `/readyz`. Orchestrators address them by IP address, and the responses disclose
 * nothing. So the check of the Host field is off.
 */
const PROBE_SPEC = { ...OPERATIONS_SPEC, meta: { ...OPERATIONS_SPEC.meta, trustedHost: false } } as const;

/** Probes are served even under overload. */
export function isProbe({ path }: TransportRequest): boolean {
  return PROBES.has(path);
}

/**
 * Returns the routes `/healthz` and `/readyz`, and `/metrics` unless it has a separate port. If `openapi` is
 * set, also returns `/openapi.json` and `/docs`, which describe the routes of `view`.
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
  let generated: OpenApiDocument | undefined;
  const document = (): OpenApiDocument => (generated ??= openapiDocument(view(), openapi));
  let sent: HttpResponse | undefined;
  let page: DocsPage | undefined;
  const docs = async (): Promise<DocsPage> =>
    (page ??= new (await docsPages.load()).DocsPage(document, undefined, () => ownProtection(view())));
  router.get('/openapi.json', DOCS_SPEC, ({ req }) =>
    operations.document(req, () => {
      const response = (sent ??= responseOf(document()));
      const validators = { etag: response.headers.get('ETag'), lastModified: undefined };
      return clientHas(req, validators) ? notModified(response.copy()) : response;
    }),
  );
  router.get('/docs', DOCS_SPEC, ({ req }) =>
    operations.document(req, async () => (await docs()).respond(req)),
  );
  return router;
}

/** Returns only the route `/metrics`, for a separate port. */
export function metricsRoutes(operations: Operations): Routes {
  return addMetrics(new Router(), operations);
}

function addMetrics(router: Router, operations: Operations): Router {
  return router.get('/metrics', OPERATIONS_SPEC, ({ req }) => operations.metrics(req));
}

function responseOf(document: OpenApiDocument): HttpResponse {
  const bytes = Buffer.from(JSON.stringify(document));
  const etag = `"${hash('sha256', bytes, 'base64url').slice(0, 22)}"`;
  return new HttpResponse(bytes, {
    mediaType: JSON_TYPE,
    // `no-cache` lets clients keep the document if they revalidate it before each use
    headers: { ETag: etag, 'Cache-Control': 'no-cache' },
  });
}
