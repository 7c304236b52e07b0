/**
 * What one count costs, by how its series is found: the reason for the comparison before the Maps in src/observability/metrics.ts.
 *
 *   node --conditions=svc-source test/bench/metrics.ts
 */
import { createLogger } from '../../src/observability/log.ts';
import { createMetrics } from '../../src/observability/metrics.ts';

const metrics = createMetrics({ log: createLogger({ level: 'silent' }) });
const counter = metrics.counter('svc_requests_total', 'Requests.', ['method', 'status']);
const seconds = metrics.histogram(
  'svc_request_seconds',
  'Time.',
  [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
);
for (const status of ['200', '201', '404', '500', '501', '502'])
  for (const method of ['GET', 'POST']) counter.add(1, method, status);
const slot = counter.slot('GET', '200');

const cases: Record<string, (index: number) => void> = {
  'among the first eight label sets': (index) => counter.add(1, index & 1 ? 'GET' : 'POST', '200'),
  'a later label set, by Maps': (index) => counter.add(1, index & 1 ? 'GET' : 'POST', '502'),
  'bound by slot()': () => slot.add(1),
  'histogram of 9 buckets': (index) => seconds.observe((index & 63) / 1_000),
};
for (const [name, run] of Object.entries(cases)) {
  const samples: number[] = [];
  for (let round = 0; round < 9; round++) {
    const before = process.cpuUsage().user;
    for (let index = 0; index < 2_000_000; index++) run(index);
    samples.push((process.cpuUsage().user - before) / 2_000);
  }
  console.log(
    `${Math.min(...samples)
      .toFixed(1)
      .padStart(6)} ns  ${name}`,
  );
}
