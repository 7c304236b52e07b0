import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../src/base/errors.ts';
import { createLogger } from '../../src/observability/log.ts';
import {
  type MetricSnapshot,
  type MetricsRegistry,
  createMetrics,
  mergeMetrics,
  renderMetrics,
} from '../../src/observability/metrics.ts';

function setUp(): { metrics: MetricsRegistry; events: string[] } {
  const lines: string[] = [];
  return {
    metrics: createMetrics({ log: createLogger({ sink: (line) => lines.push(line) }) }),
    get events() {
      return lines.map((line) => `${JSON.parse(line).event} ${JSON.parse(line).metric}`);
    },
  };
}
const fault =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof SvcError && error.code === code;

test('Metrics.render() writes counters, gauges and histograms in the Prometheus text format 0.0.4', () => {
  const { metrics } = setUp();
  const requests = metrics.counter('svc_requests_total', 'Requests.', ['method', 'status']);
  metrics.gauge('svc_uptime_seconds', 'Uptime.', () => 1.5, 'max');
  const seconds = metrics.histogram('svc_request_seconds', 'Time.', [0.1, 1], ['route']);
  metrics.counter('svc_errors_total', 'Errors.');
  requests.add(1, 'GET', '200');
  requests.add(2, 'GET', '200');
  requests.add(1, 'POST', '201');
  for (const value of [0.05, 0.1, 0.5, 2]) seconds.observe(value, '/a');
  assert.equal(
    metrics.render(),
    `# HELP svc_requests_total Requests.
# TYPE svc_requests_total counter
svc_requests_total{method="GET",status="200"} 3
svc_requests_total{method="POST",status="201"} 1
# HELP svc_uptime_seconds Uptime.
# TYPE svc_uptime_seconds gauge
svc_uptime_seconds 1.5
# HELP svc_request_seconds Time.
# TYPE svc_request_seconds histogram
svc_request_seconds_bucket{route="/a",le="0.1"} 2
svc_request_seconds_bucket{route="/a",le="1"} 3
svc_request_seconds_bucket{route="/a",le="+Inf"} 4
svc_request_seconds_sum{route="/a"} 2.65
svc_request_seconds_count{route="/a"} 4
# HELP svc_errors_total Errors.
# TYPE svc_errors_total counter
svc_errors_total 0
`,
  );
});

test('Metrics.render() writes the buckets of a histogram without labels even before the first observation', () => {
  const { metrics } = setUp();
  metrics.histogram('svc_h', 'H', [1]);
  assert.match(
    metrics.render(),
    /\nsvc_h_bucket\{le="1"\} 0\nsvc_h_bucket\{le="\+Inf"\} 0\nsvc_h_sum 0\nsvc_h_count 0\n$/,
  );
});

test('Metrics accepts each metric name and label name that Prometheus allows', () => {
  const { metrics } = setUp();
  for (const name of ['requests', 'ordersTotal', 'job:rate:5m', ':x', '_x', 'a1'])
    metrics.counter(name, '', ['Status', '_code']).add(1, 'ok', '2');
  assert.match(metrics.render(), /^job:rate:5m\{Status="ok",_code="2"\} 1$/m);
});

test('Metrics.render() escapes help texts and label values', () => {
  const { metrics } = setUp();
  metrics.counter('svc_a', 'one\ntwo \\ "three"', ['l']).add(1, 'a"b\\c\nd');
  assert.equal(
    metrics.render(),
    '# HELP svc_a one\\ntwo \\\\ "three"\n# TYPE svc_a counter\nsvc_a{l="a\\"b\\\\c\\nd"} 1\n',
  );
});

for (const [why, declare] of Object.entries<(metrics: MetricsRegistry) => unknown>({
  'an empty name': (metrics) => metrics.counter('', ''),
  'a name that begins with a digit': (metrics) => metrics.counter('1_requests', ''),
  'a name with a dash': (metrics) => metrics.counter('http-requests', ''),
  'a name that is taken': (metrics) => metrics.gauge('svc_taken', '', () => 1),
  'a name that is taken by the same instrument': (metrics) => metrics.counter('svc_taken', ''),
  'a name that a histogram uses for a series': (metrics) => metrics.counter('svc_h_count', ''),
  'a histogram whose series are taken': (metrics) => metrics.histogram('svc_other', '', [1]),
  'a label with a dash': (metrics) => metrics.counter('svc_x', '', ['a-b']),
  'the label le': (metrics) => metrics.counter('svc_x', '', ['le']),
  'a reserved label': (metrics) => metrics.counter('svc_x', '', ['__name']),
  'a label twice': (metrics) => metrics.counter('svc_x', '', ['a', 'a']),
  'no buckets': (metrics) => metrics.histogram('svc_x', '', []),
  'buckets that do not rise': (metrics) => metrics.histogram('svc_x', '', [1, 1]),
  'a bucket +Inf': (metrics) => metrics.histogram('svc_x', '', [1, Infinity]),
  'more than 100 buckets': (metrics) =>
    metrics.histogram(
      'svc_x',
      '',
      Array.from({ length: 101 }, (_, index) => index),
    ),
})) {
  test(`Metrics refuses ${why}`, () => {
    const { metrics } = setUp();
    metrics.counter('svc_taken', '');
    metrics.histogram('svc_h', '', [1]);
    metrics.counter('svc_other_sum', '');
    assert.throws(() => declare(metrics), fault('E_METRIC'));
  });
}

for (const count of [1, 2, 3, 4, 5]) {
  test(`a counter with ${count} labels keeps separate counts for 100 label sets`, () => {
    const { metrics } = setUp();
    const labels = Array.from({ length: count }, (_, index) => `l${index}`);
    const counter = metrics.counter('svc_c', '', labels);
    const sets = Array.from({ length: 100 }, (_, set) =>
      labels.map((_label, index) => `v${Math.floor(set / 3 ** index) % (index === count - 1 ? 1_000 : 3)}`),
    );
    const distinct = new Map(sets.map((set) => [set.join(), set]));
    for (const [index, set] of [...distinct.values()].entries()) counter.add(index + 1, ...set);
    for (const set of distinct.values()) counter.add(1_000, ...set);
    assert.deepEqual(
      metrics.snapshot()[0]!.series,
      [...distinct.values()].map((set, index) => [set, [1_001 + index]]),
    );
  });
}

test('a counter refuses fewer or more label values than the number of its labels', () => {
  const { metrics } = setUp();
  const [none, one, two, four] = [
    metrics.counter('svc_a', ''),
    metrics.counter('svc_b', '', ['x']),
    metrics.counter('svc_c', '', ['x', 'y']),
    metrics.counter('svc_d', '', ['a', 'b', 'c', 'd']),
  ];
  two.add(1, 'p', 'q');
  for (const wrong of [
    () => none.add(1, 'p'),
    () => one.add(1),
    () => one.add(1, 'p', 'q'),
    () => two.add(1, 'p'),
    () => two.add(1, 'p', 'q', 'r'),
    () => four.add(1, 'p', 'q', 'r', 's', 't'),
    () => one.slot(),
  ]) {
    assert.throws(wrong, fault('E_METRIC_LABELS'));
  }
});

test('a counter converts label values that are not strings to text', () => {
  const { metrics } = setUp();
  const counter = metrics.counter('svc_a', '', ['status']);
  counter.add(1, '200');
  counter.add(1, 200 as unknown as string);
  assert.deepEqual(metrics.snapshot()[0]!.series, [[['200'], [2]]]);
});

test('a counter ignores amounts that are negative, infinite or NaN, and logs only the first such amount', () => {
  const under = setUp();
  const counter = under.metrics.counter('svc_a', '');
  for (const amount of [Number.NaN, -1, Infinity, 2, 0]) counter.add(amount);
  const histogram = under.metrics.histogram('svc_h', '', [1]);
  for (const value of [Number.NaN, -Infinity, -1]) histogram.observe(value);
  assert.deepEqual(
    under.metrics.snapshot().map(({ series }) => series),
    [[[[], [2]]], [[[], [1, 0, -1]]]],
  );
  assert.deepEqual(under.events, ['metric_value_refused svc_a', 'metric_value_refused svc_h']);
});

test('when a metric has 1,000 label sets, further label sets are counted under the labels "other", and this is logged once', () => {
  const under = setUp();
  const counter = under.metrics.counter('svc_a', '', ['user', 'page']);
  for (let index = 0; index < 1_500; index++) counter.add(1, `u${index}`, 'p');
  counter.add(5, 'u0', 'p');
  counter.add(5, 'u1499', 'q');
  const { series } = under.metrics.snapshot()[0]!;
  assert.equal(series.length, 1_001);
  assert.deepEqual(series[0], [['u0', 'p'], [6]]);
  assert.deepEqual(series[1_000], [['other', 'other'], [505]]);
  assert.deepEqual(under.events, ['metric_label_sets_exceeded svc_a']);
});

test('label values of metrics are truncated to 256 characters', () => {
  const { metrics } = setUp();
  const counter = metrics.counter('svc_a', '', ['l']);
  counter.add(1, 'x'.repeat(1_000));
  counter.add(1, 'x'.repeat(1_001));
  assert.deepEqual(metrics.snapshot()[0]!.series, [[['x'.repeat(256)], [2]]]);
});

test('slot() of a counter or histogram keeps counting for its labels, even after 100 further label sets were added', () => {
  const { metrics } = setUp();
  const [counter, histogram] = [
    metrics.counter('svc_a', '', ['l']),
    metrics.histogram('svc_h', '', [1], ['a', 'b', 'c', 'd']),
  ];
  const [slot, place] = [counter.slot('x'), histogram.slot('p', 'q', 'r', 's')];
  for (let index = 0; index < 100; index++) {
    counter.add(1, `${index}`);
    histogram.observe(5, 'p', 'q', 'r', `${index}`);
  }
  slot.add(2);
  counter.add(1, 'x');
  place.observe(0.5);
  histogram.observe(0.25, 'p', 'q', 'r', 's');
  const [a, h] = metrics.snapshot();
  assert.deepEqual(a!.series[0], [['x'], [3]]);
  assert.deepEqual(h!.series[0], [
    ['p', 'q', 'r', 's'],
    [2, 0, 0.75],
  ]);
});

test('if the callback of a gauge throws or returns NaN, the value of the gauge is omitted, and this is logged once', () => {
  const under = setUp();
  under.metrics.gauge('svc_a', 'A', () => {
    throw new Error('down');
  });
  under.metrics.gauge('svc_b', 'B', () => Number.NaN);
  for (let count = 0; count < 2; count++)
    assert.equal(
      under.metrics.render(),
      '# HELP svc_a A\n# TYPE svc_a gauge\n# HELP svc_b B\n# TYPE svc_b gauge\n',
    );
  assert.deepEqual(under.events, ['metric_value_refused svc_a', 'metric_value_refused svc_b']);
});

test('mergeMetrics() adds up counters and histograms, and merges each gauge by its declared rule, such as "max"', () => {
  const workers = [1, 2].map((worker) => {
    const { metrics } = setUp();
    metrics.counter('svc_c', 'C', ['l']).add(worker, 'both');
    if (worker === 2) metrics.counter('svc_only', 'O').add(7);
    metrics.gauge('svc_sum', 'S', () => worker);
    metrics.gauge('svc_max', 'M', () => worker, 'max');
    metrics.histogram('svc_h', 'H', [1]).observe(worker);
    metrics.snapshot().find(({ name }) => name === 'svc_c');
    return JSON.parse(JSON.stringify(metrics.snapshot())) as MetricSnapshot[];
  });
  const merged = mergeMetrics(workers);
  assert.deepEqual(Object.fromEntries(merged.map(({ name, series }) => [name, series])), {
    svc_c: [[['both'], [3]]],
    svc_sum: [[[], [3]]],
    svc_max: [[[], [2]]],
    svc_h: [[[], [1, 1, 3]]],
    svc_only: [[[], [7]]],
  });
  assert.match(renderMetrics(merged), /svc_h_bucket\{le="\+Inf"\} 2\nsvc_h_sum 3\nsvc_h_count 2\n/);
  assert.deepEqual(workers[0]![0]!.series, [[['both'], [1]]]); // merging does not change its inputs
});

test('if two processes declare one metric with different buckets, mergeMetrics() keeps only the values of the first process', () => {
  const [one, two] = [setUp().metrics, setUp().metrics];
  one.histogram('svc_h', '', [1]).observe(1);
  two.histogram('svc_h', '', [2]).observe(1);
  assert.deepEqual(mergeMetrics([one.snapshot(), two.snapshot()]), one.snapshot());
  assert.deepEqual(mergeMetrics([]), []);
});
