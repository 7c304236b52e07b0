/**
 * Metrics of the WebSockets of an application:
 *   - svc_websockets: number of open WebSockets
 *   - svc_websocket_messages_total{direction}: received and sent messages; for a room, one per member
 *   - svc_websocket_bytes_total{direction}: received and sent bytes, including the heads of frames
 *   - svc_websocket_dropped_total: messages that were dropped because clients read too slowly
 *   - svc_websocket_closed_total{code}: closed WebSockets by close code; 1006 is a lost connection
 */
import type { CounterMetric, CounterSlot, MetricsRegistry } from '../../observability/metrics.ts';

export class WebSocketMeter {
  readonly messagesIn: CounterSlot;
  readonly messagesOut: CounterSlot;
  readonly bytesIn: CounterSlot;
  readonly bytesOut: CounterSlot;
  readonly dropped: CounterMetric;
  readonly #closed: CounterMetric;
  #open = 0;

  constructor(metrics: MetricsRegistry) {
    metrics.gauge('svc_websockets', 'WebSockets that are open', () => this.#open);
    const messages = metrics.counter('svc_websocket_messages_total', 'Messages of WebSockets', ['direction']);
    const bytes = metrics.counter(
      'svc_websocket_bytes_total',
      'Bytes of WebSockets as sent and received, with frames',
      ['direction'],
    );
    this.messagesIn = messages.slot('in');
    this.messagesOut = messages.slot('out');
    this.bytesIn = bytes.slot('in');
    this.bytesOut = bytes.slot('out');
    this.dropped = metrics.counter(
      'svc_websocket_dropped_total',
      'Messages that were dropped because the client of a WebSocket read too slowly',
    );
    this.#closed = metrics.counter(
      'svc_websocket_closed_total',
      'WebSockets that have closed, by close code',
      ['code'],
    );
  }

  /** Counts an opened socket. */
  enter(): void {
    this.#open++;
  }

  leave(code: number): void {
    this.#open--;
    // codes from 3000 on are grouped, because clients can choose any of them
    this.#closed.add(1, code >= 4000 ? '4xxx' : code >= 3000 ? '3xxx' : String(code));
  }
}
