/**
 * Connections in numbers: how many are open, how many requests each brought, and which the server would not have.
 *
 *   svc_connections                              open now: idle ones too
 *   svc_connection_requests                      a histogram, counted when a connection closes: one request each is a client without keep-alive
 *   svc_connections_refused_total{reason}        malformed, overflow (head too large), timeout, tls, limit (too many connections)
 */
import type { Server } from 'node:net';
import type { CounterMetric, HistogramSlot, MetricsRegistry } from '../../observability/metrics.ts';

const REQUEST_BUCKETS = [0, 1, 2, 5, 10, 50, 100, 1_000, 10_000];

/** Why a connection was refused, by the code of the error that node:http gives. Others are mistakes in a head or a body. */
const REASONS: Readonly<Record<string, string | undefined>> = {
  HPE_HEADER_OVERFLOW: 'overflow',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'overflow',
  ERR_HTTP_REQUEST_TIMEOUT: 'timeout',
};
/** The client's end, not ours. */
const GONE: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE']);

/** The connections of one application, over all its servers. */
export class ConnectionMeter {
  readonly #requests: HistogramSlot;
  readonly #refused: CounterMetric;
  #open = 0;

  /** @throws SvcError `E_METRIC` where the names are taken */
  constructor(metrics: MetricsRegistry) {
    metrics.gauge('svc_connections', 'Connections that are open, idle ones too', () => this.#open);
    this.#requests = metrics
      .histogram(
        'svc_connection_requests',
        'Requests that a connection has brought, counted when it closes',
        REQUEST_BUCKETS,
      )
      .slot();
    this.#refused = metrics.counter(
      'svc_connections_refused_total',
      'Connections that the server would not have, or ended for what came over them',
      ['reason'],
    );
  }

  get open(): number {
    return this.#open;
  }

  /** Counts what a server would not have, from now on. */
  watch(server: Server): void {
    server.on('clientError', (error: NodeJS.ErrnoException) => {
      if (!GONE.has(error.code)) this.#refused.add(1, REASONS[error.code ?? ''] ?? 'malformed');
    });
    server.on('tlsClientError', () => this.#refused.add(1, 'tls'));
    server.on('drop', () => this.refuse());
  }

  /** A connection is one too many. */
  refuse(): void {
    this.#refused.add(1, 'limit');
  }

  /** A connection has come that requests may come over. */
  enter(): void {
    this.#open++;
  }

  /** It is gone, and has brought so many requests. */
  leave(requests: number): void {
    this.#open--;
    this.#requests.observe(requests);
  }
}
