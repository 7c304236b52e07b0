/**
 * Rules about how an application is served: what production shows to everybody, headers that protect visitors, limits that
 * are none.
 */
import { codeOf } from './source.ts';
import { callsOfRequest } from './handler.ts';
import { ownRoutes, subjectOf } from './routes.ts';
import { fileLimit } from '../schema/schema.ts';
import type { ApplicationView, Tell } from './check.ts';

/** SVC208 */
export function findExposedInsides(view: ApplicationView, tell: Tell): void {
  if (view.env !== 'production') return;
  const { settings, place } = view;
  if (isOn(settings.peek('debug')))
    tell('setting debug', 'answers show stack traces to everybody', place, {
      remedy: 'Leave out debug (SVC_DEBUG) in production: the log has the traces',
    });
  if (view.hasPublicDocs && isOn(settings.peek('enableDocs'))) {
    tell('setting enableDocs', '/docs and /openapi.json tell everybody of every route', place, {
      severity: 'warning',
      remedy: 'Leave out enableDocs (SVC_ENABLE_DOCS) in production, unless the interface is public',
    });
  }
  if (
    view.metricsGuard !== undefined &&
    /=>\s*(?:\(?\s*true\b|\{\s*return\s+true\b)/.test(codeOf(view.metricsGuard))
  ) {
    tell('setting ops', '/metrics is open to everybody: its auth says yes to whoever asks', place, {
      severity: 'warning',
      remedy:
        'Give it a token: ops: { metrics: { auth: process.env["METRICS_TOKEN"] } }, or leave auth out: private peers only',
    });
  }
}

function isOn(value: unknown): boolean {
  return value === true || (typeof value === 'string' && /^(?:true|1|yes|on)$/i.test(value));
}

/** SVC211 */
export function findMissingHeaders(view: ApplicationView, tell: Tell): void {
  if (
    view.env !== 'production' ||
    ownRoutes(view).length === 0 ||
    view.middleware.some((layer) => layer.kind === 'security-headers')
  )
    return;
  tell(
    'the application',
    'its answers have no security headers: no content security policy, no HSTS, no nosniff',
    view.place,
  );
}

/** Beyond these a limit protects nobody. */
const GREATEST = {
  headersTimeoutMs: 120_000,
  requestTimeoutMs: 3_600_000,
  sendTimeoutMs: 600_000,
  maxBodyBytes: 1_073_741_824,
} as const;
const GREATEST_UPLOAD = 1_073_741_824;
/** `req.body()`: uncapped, as it is documented. */
const READS_ALL = String.raw`body\s*\(\s*\)`;

/** SVC212 */
export function findUnlimited(view: ApplicationView, tell: Tell): void {
  findUnguardedSockets(view, tell);
  const { settings, place } = view;
  for (const [name, greatest] of Object.entries(GREATEST)) {
    const value = Number(settings.peek(name) ?? 0);
    if (value > greatest)
      tell(
        `setting ${name}`,
        `${value} is as good as no limit: a few clients can hold all that the process has`,
        settings.placeOf(name) ?? place,
        { severity: 'warning' },
      );
  }
  for (const detail of ownRoutes(view)) {
    const {
      route,
      declared: { spec, handler },
      inputs,
    } = detail;
    if (
      spec.maxBodyBytes === undefined &&
      settings.peek('maxBodyBytes') === undefined &&
      callsOfRequest(handler, READS_ALL)
    ) {
      tell(subjectOf(detail), 'its handler reads bodies of any length', route.place, {
        remedy: 'Give it a bound: req.body({ maxBytes: 1_000_000 }), or maxBodyBytes for the route',
      });
    }
    if ((spec.maxBodyBytes ?? 0) > GREATEST_UPLOAD)
      tell(subjectOf(detail), `it takes bodies of ${spec.maxBodyBytes} bytes`, route.place, {
        severity: 'warning',
      });
    for (const field of inputs.form?.fields ?? []) {
      const limit = fileLimit(field.node);
      if (limit !== undefined && limit > GREATEST_UPLOAD)
        tell(subjectOf(detail), `its file "${field.name}" may have any length`, route.place, {
          severity: 'warning',
        });
    }
  }
}

/** What nobody need look out for beyond a message of this size is no limit. */
const LARGE_MESSAGE_BYTES = 67_108_864;

function findUnguardedSockets(view: ApplicationView, tell: Tell): void {
  for (const detail of view.details) {
    const {
      route,
      declared: { socket },
    } = detail;
    if (socket === undefined) continue;
    const { settings, guard } = socket;
    const warn = (message: string, remedy: string): void =>
      tell(subjectOf(detail), message, route.place, { severity: 'warning', remedy });
    if (guard.origin.isOpen)
      warn(
        "pages of every site may open it: origins: '*'",
        "Name the pages that may open it: origins: ['https://app.example']",
      );
    if (settings.heartbeatMs === false && settings.idleTimeoutMs === false)
      warn(
        'nothing ends it when its client is gone: heartbeatMs: false without an idleTimeoutMs',
        'Leave heartbeatMs to its default, or give it an idleTimeoutMs',
      );
    if (settings.maxMessageBytes > LARGE_MESSAGE_BYTES)
      warn(
        `one message may take ${settings.maxMessageBytes} bytes of memory: maxMessageBytes`,
        'Leave maxMessageBytes to its default, or to what your largest message needs',
      );
  }
}
