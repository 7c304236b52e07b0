/** Metrics of connections: open ones, refused ones, and the number of requests of each. */
import type { Server as NetServer } from 'node:net';
import type { CounterMetric, HistogramSlot, MetricsRegistry } from '../../observability/metrics.ts';

/** Buckets for the number of requests of a connection. A client that never reuses connections leads to 1. */
const REQUEST_BUCKETS = [0, 1, 2, 5, 10, 50, 100, 1_000, 10_000];

/** Value of the label `reason` by the error code of node:http. Other codes mean malformed data. */
const REASONS: Readonly<Record<string, string | undefined>> = {
  HPE_HEADER_OVERFLOW: 'overflow',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'overflow',
  ERR_HTTP_REQUEST_TIMEOUT: 'timeout',
};
/** Codes of errors that occur when the client closes the connection; they are not counted as refusals. */
const GONE: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE']);

/** Counts open and refused connections of one application, and the requests of each connection. */
export class ConnectionMeter {
  readonly #requests: HistogramSlot;
  readonly #refused: CounterMetric;
  #open = 0;

  constructor(metrics: MetricsRegistry) {
    metrics.gauge('svc_connections', 'Open connections, including idle ones', () => this.#open);
    this.#requests = metrics
      .histogram(
        'svc_connection_requests',
        'Requests of a connection, counted when the connection closes',
        REQUEST_BUCKETS,
      )
      .slot();
    this.#refused = metrics.counter(
      'svc_connections_refused_total',
      'Connections that the server refused, or closed because of invalid data, by reason',
      ['reason'],
    );
  }

  get open(): number {
    return this.#open;
  }

  /** Begins to count the connections and requests that a server refuses. */
  watch(server: NetServer): void {
    server.on('clientError', (error: NodeJS.ErrnoException) => {
      if (!GONE.has(error.code)) this.#refused.add(1, REASONS[error.code ?? ''] ?? 'malformed');
    });
    server.on('tlsClientError', () => this.#refused.add(1, 'tls'));
    server.on('drop', () => this.refuse());
  }

  /** Counts a connection beyond the maximum number. */
  refuse(): void {
    this.#refused.add(1, 'limit');
  }

  enter(): void {
    this.#open++;
  }

  /** Counts a closed connection, and how many requests it had. */
  leave(requests: number): void {
    this.#open--;
    this.#requests.observe(requests);
  }
}
