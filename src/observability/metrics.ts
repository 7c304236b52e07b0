/**
 * Counters, gauges and histograms of a process. renderMetrics() writes them as text, and mergeMetrics() adds
 * up the metrics of several processes.
 *
 * Each metric stores its numbers in one Float64Array. Nested Maps give the offset of a series by its label
 * values.
 *
 * A series of a counter has one number. A series of a histogram has a count for each bucket, a count for
 * larger values, and the sum. A metric has at most 1,000 series, and one more for all further label values.
 */
import { SvcError } from '../base/errors.ts';
import { onePer } from '../base/options.ts';
import type { Logger } from './log.ts';

/** A metric whose values only increase. */
export interface Counter {
  /**
   * Adds `amount`, which must be 0 or more, to the series with these label values. Label values are given in
   * the order in which the labels were declared.
   */
  add(amount: number, ...labels: string[]): void;
}

/** Counts values by size, in buckets with upper limits. Also counts and adds up all values. */
export interface Histogram {
  /**
   * Counts `value` in the series with these label values. Label values are given in the order in which the
   * labels were declared.
   */
  observe(value: number, ...labels: string[]): void;
}

/**
 * Registry of metrics. Each metric must be declared once before its use. A name is any name that Prometheus
 * allows, such as `orders_total`; metrics of the framework begin with `svc_`.
 */
export interface Metrics {
  /** Declares a counter, which can only increase. */
  counter(name: string, help: string, labels?: readonly string[]): Counter;
  /**
   * Declares a gauge. `read` returns its value, and is called each time that the metrics are read. With
   * several processes, their values are added; with `max`, the greatest value is used.
   */
  gauge(name: string, help: string, read: () => number, merge?: 'sum' | 'max'): void;
  /** Declares a histogram. `buckets` are inclusive upper limits in ascending order; `+Inf` is added. */
  histogram(name: string, help: string, buckets: readonly number[], labels?: readonly string[]): Histogram;
}

/** One series of a counter, for code that counts very often: the series is looked up only once. */
export interface CounterSlot {
  add(amount: number): void;
}

/** One series of a histogram, for code that counts very often: the series is looked up only once. */
export interface HistogramSlot {
  observe(value: number): void;
}

const MAX_LABEL_SETS = 1_000;
const MAX_LABEL_CHARACTERS = 256;
const MAX_BUCKETS = 100;
// the names that the text format of Prometheus allows
const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;
const OTHER = 'other';

/**
 * Creates an empty registry. `log` gets one line for each metric that exceeds 1,000 label sets, or receives
 * an invalid number.
 */
export function createMetrics({ log }: { readonly log: Logger }): MetricsRegistry {
  return new MetricsRegistry(log);
}

export class MetricsRegistry implements Metrics {
  readonly #log: Logger;
  readonly #metrics = new Map<string, SeriesMetric | GaugeMetric>();

  constructor(log: Logger) {
    this.#log = log;
  }

  counter(name: string, help: string, labels: readonly string[] = []): CounterMetric {
    return this.#add(new CounterMetric(head('counter', name, help, labels), this.#log), ['']);
  }

  gauge(name: string, help: string, read: () => number, merge: 'sum' | 'max' = 'sum'): void {
    this.#add(new GaugeMetric({ ...head('gauge', name, help), merge }, read, this.#log), ['']);
  }

  histogram(
    name: string,
    help: string,
    buckets: readonly number[],
    labels: readonly string[] = [],
  ): HistogramMetric {
    const isRising = buckets.every(
      (limit, index) => Number.isFinite(limit) && (index === 0 || limit > buckets[index - 1]!),
    );
    if (buckets.length === 0 || buckets.length > MAX_BUCKETS || !isRising)
      throw new SvcError('E_METRIC', [
        name,
        `buckets must be 1 to ${MAX_BUCKETS} finite numbers in ascending order`,
      ]);
    const metric = new HistogramMetric(head('histogram', name, help, labels, buckets), this.#log);
    return this.#add(metric, ['', '_bucket', '_sum', '_count']);
  }

  render(): string {
    return renderMetrics(this.snapshot());
  }

  /** Returns all metrics as plain data, for {@link mergeMetrics} in another process. */
  snapshot(): MetricSnapshot[] {
    return [...this.#metrics.values()].map((metric) => metric.snapshot());
  }

  #add<T extends SeriesMetric | GaugeMetric>(metric: T, suffixes: readonly string[]): T {
    const { name, labels } = metric.head;
    if (!METRIC_NAME.test(name))
      throw new SvcError('E_METRIC', [
        name,
        'the name must consist of letters, digits, "_" and ":", and not begin with a digit',
      ]);
    const wrong = labels.find(
      (label, index) => !LABEL_NAME.test(label) || label === 'le' || labels.indexOf(label) !== index,
    );
    if (wrong !== undefined)
      throw new SvcError('E_METRIC', [name, `the label name "${wrong}" is invalid, reserved or repeated`]);
    for (const suffix of suffixes) {
      if (this.#metrics.has(name + suffix))
        throw new SvcError('E_METRIC', [name, `"${name}${suffix}" already exists`]);
    }
    const histogram = this.#metrics.get(name.replace(/_(?:bucket|sum|count)$/, ''));
    if (histogram instanceof HistogramMetric)
      throw new SvcError('E_METRIC', [
        name,
        `the name already belongs to a series of the histogram "${histogram.head.name}"`,
      ]);
    this.#metrics.set(name, metric);
    return metric;
  }
}

/** A metric in a snapshot, without its series. */
type MetricHead = Omit<MetricSnapshot, 'series'>;

function head(
  kind: MetricHead['kind'],
  name: string,
  help: string,
  labels: readonly string[] = [],
  buckets: readonly number[] = [],
): MetricHead {
  return { kind, name, help, labels: [...labels], merge: 'sum', buckets: [...buckets] };
}

/** A counter or histogram. The numbers of all its series are side by side in one array. */
class SeriesMetric {
  readonly head: MetricHead;
  /**
   * The numbers of all series. A larger array may replace this one at any time, so callers must not store it.
   */
  numbers: Float64Array;
  /** Logs the first invalid number. */
  readonly refuse: () => void;
  readonly #width: number;
  readonly #log: Logger;
  /** Offsets of series by label values: nested Maps, one level for each label. */
  readonly #root: Branch | number;
  readonly #sets: (readonly string[])[] = [];
  /** Offset of the series that counts everything beyond the maximum number of label sets. */
  #other: number | undefined;

  constructor(head: MetricHead, log: Logger) {
    const { kind, name, labels, buckets } = head;
    this.head = head;
    this.refuse = refusal(name, log);
    this.#width = kind === 'counter' ? 1 : buckets.length + 2;
    this.#log = log;
    this.numbers = new Float64Array(this.#width * (labels.length === 0 ? 1 : 8));
    this.#root = labels.length === 0 ? this.#append([]) : new Map();
  }

  /**
   * Returns the offset of a series in `numbers`, and creates the series if necessary.
   * @throws SvcError `E_METRIC_LABELS` when the number of label values is wrong
   */
  offset(labels: readonly string[]): number {
    return this.#find(labels) ?? this.#offsetOfNew(labels);
  }

  snapshot(): MetricSnapshot {
    const series = this.#sets.map((labels, slot) => {
      const numbers = [...this.numbers.subarray(slot * this.#width, (slot + 1) * this.#width)];
      return [labels, numbers] as const;
    });
    return { ...this.head, series };
  }

  #find(labels: readonly string[]): number | undefined {
    let found: Branch | number | undefined = this.#root;
    for (const label of labels) found = typeof found === 'object' ? found.get(label) : undefined;
    return typeof found === 'number' ? found : undefined;
  }

  #offsetOfNew(given: readonly unknown[]): number {
    const { name, labels: wanted } = this.head;
    if (given.length !== wanted.length) throw new SvcError('E_METRIC_LABELS', [name, wanted, given.length]);
    // JavaScript code may pass labels that are not strings
    const labels = given.map((label) => String(label).slice(0, MAX_LABEL_CHARACTERS));
    const known = this.#find(labels);
    if (known !== undefined) return known;
    if (this.#sets.length >= MAX_LABEL_SETS) return this.#offsetOfOther();
    const offset = this.#append(labels);
    let branch = this.#root as Branch;
    for (const label of labels.slice(0, -1)) {
      const next = (branch.get(label) as Branch | undefined) ?? (new Map() as Branch);
      branch.set(label, next);
      branch = next;
    }
    branch.set(labels.at(-1)!, offset);
    return offset;
  }

  #offsetOfOther(): number {
    if (this.#other === undefined) {
      const { name, labels } = this.head;
      this.#other = this.#append(labels.map(() => OTHER));
      this.#log.warn('metric_label_sets_exceeded', { metric: name, most: MAX_LABEL_SETS });
    }
    return this.#other;
  }

  #append(labels: readonly string[]): number {
    const offset = (this.#sets.push(labels) - 1) * this.#width;
    if (offset + this.#width > this.numbers.length) {
      const grown = new Float64Array(2 * this.numbers.length);
      grown.set(this.numbers);
      this.numbers = grown;
    }
    return offset;
  }
}

interface Branch extends Map<string, Branch | number> {}

export class CounterMetric extends SeriesMetric implements Counter {
  add(amount: number, ...labels: string[]): void {
    this.#increase(this.offset(labels), amount);
  }

  slot(...labels: string[]): CounterSlot {
    return { add: this.#increase.bind(this, this.offset(labels)) };
  }

  /**
   * Adds a finite number that is 0 or more. Any other number would make the total wrong, so it is ignored,
   * and the first one is logged.
   */
  #increase(offset: number, amount: number): void {
    if (amount >= 0 && amount < Infinity) this.numbers[offset]! += amount;
    else this.refuse();
  }
}

class GaugeMetric {
  readonly head: MetricHead;
  readonly #read: () => number;
  readonly #refuse: (error?: unknown) => void;

  constructor(head: MetricHead, read: () => number, log: Logger) {
    this.head = head;
    this.#read = read;
    this.#refuse = refusal(head.name, log);
  }

  snapshot(): MetricSnapshot {
    return { ...this.head, series: this.#series() };
  }

  /** Returns no series if `read` fails: a missing value is better than a wrong one. */
  #series(): MetricSnapshot['series'] {
    try {
      const value = this.#read();
      if (Number.isFinite(value)) return [[[], [value]]];
      this.#refuse();
    } catch (error) {
      this.#refuse(error);
    }
    return [];
  }
}

class HistogramMetric extends SeriesMetric implements Histogram {
  readonly #limits = this.head.buckets;

  observe(value: number, ...labels: string[]): void {
    this.#count(this.offset(labels), value);
  }

  slot(...labels: string[]): HistogramSlot {
    return { observe: this.#count.bind(this, this.offset(labels)) };
  }

  #count(offset: number, value: number): void {
    if (!Number.isFinite(value)) return this.refuse();
    const limits = this.#limits;
    const { numbers } = this;
    let bucket = 0;
    // a linear search, because for about ten limits and mostly small values, a binary search is not faster
    while (bucket < limits.length && value > limits[bucket]!) bucket++;
    numbers[offset + bucket]! += 1;
    numbers[offset + limits.length + 1]! += value;
  }
}

function refusal(name: string, log: Logger): (error?: unknown) => void {
  let isReported = false;
  return (error) => {
    if (isReported) return;
    isReported = true;
    log.warn('metric_value_refused', { metric: name, error });
  };
}

/** One metric at one moment, as plain data that can be sent to another process. */
export interface MetricSnapshot {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly merge: 'sum' | 'max';
  /** Upper limits of a histogram's buckets; empty for other metrics. */
  readonly buckets: readonly number[];
  /**
   * Label values and numbers of each series. A histogram has a count for each bucket, a count above the last
   * bucket, and the sum. Other metrics have one number.
   */
  readonly series: readonly (readonly [labels: readonly string[], numbers: readonly number[]])[];
}

// -- adding up the metrics of several processes --

/**
 * Adds up the metrics of several processes. For gauges with `merge: 'max'`, the greatest value is used. If
 * two lists declare a metric differently, the values in the later list are left out.
 */
export function mergeMetrics(lists: Iterable<readonly MetricSnapshot[]>): MetricSnapshot[] {
  const merged = new Map<
    string,
    { readonly metric: MetricSnapshot; readonly series: Map<string, [readonly string[], number[]]> }
  >();
  for (const list of lists) {
    for (const metric of list) {
      let entry = merged.get(metric.name);
      if (entry === undefined) merged.set(metric.name, (entry = { metric, series: new Map() }));
      if (shapeOf(entry.metric) === shapeOf(metric)) addSeries(entry.series, metric);
    }
  }
  return [...merged.values()].map(({ metric, series }) => ({ ...metric, series: [...series.values()] }));
}

function shapeOf({ kind, merge, labels, buckets }: MetricSnapshot): string {
  return JSON.stringify([kind, merge, labels, buckets]);
}

function addSeries(
  into: Map<string, [readonly string[], number[]]>,
  { merge, series }: MetricSnapshot,
): void {
  for (const [labels, numbers] of series) {
    const key = JSON.stringify(labels);
    const known = into.get(key);
    if (known === undefined) into.set(key, [labels, [...numbers]]);
    else
      numbers.forEach((number, index) => {
        known[1][index] = merge === 'max' ? Math.max(known[1][index]!, number) : known[1][index]! + number;
      });
  }
}

// -- as text --

/** Returns the metrics in the Prometheus text format 0.0.4 (`text/plain; version=0.0.4; charset=utf-8`). */
export function renderMetrics(metrics: Iterable<MetricSnapshot>): string {
  let text = '';
  for (const metric of metrics) {
    text += `# HELP ${metric.name} ${metric.help.replace(/[\\\n]/g, escaped)}\n# TYPE ${metric.name} ${metric.kind}\n`;
    for (const [values, numbers] of metric.series) {
      const labels = metric.labels
        .map((label, index) => `${label}="${values[index]!.replace(/[\\\n"]/g, escaped)}"`)
        .join(',');
      text +=
        metric.kind === 'histogram'
          ? bucketLines(metric, labels, numbers)
          : `${metric.name}${labels === '' ? '' : `{${labels}}`} ${numbers[0]}\n`;
    }
  }
  return text;
}

/**
 * Returns the lines of a histogram's buckets. Prometheus expects cumulative counts, which are added up here.
 */
function bucketLines({ name, buckets }: MetricSnapshot, labels: string, numbers: readonly number[]): string {
  const own = labels === '' ? '' : `${labels},`;
  const all = labels === '' ? '' : `{${labels}}`;
  let text = '';
  let count = 0;
  for (let index = 0; index <= buckets.length; index++) {
    count += numbers[index]!;
    text += `${name}_bucket{${own}le="${index < buckets.length ? buckets[index] : '+Inf'}"} ${count}\n`;
  }
  return `${text}${name}_sum${all} ${numbers[buckets.length + 1]}\n${name}_count${all} ${count}\n`;
}

function escaped(character: string): string {
  return character === '\n' ? '\\n' : `\\${character}`;
}

const countersOf = onePer((_: Metrics) => new Map<string, Counter>());

/**
 * Returns the counter with this name, and declares it on the first call. All parts of an application can
 * share it.
 */
export function sharedCounter(
  metrics: Metrics,
  name: string,
  help: string,
  labels: readonly string[],
): Counter {
  const counters = countersOf(metrics);
  let counter = counters.get(name);
  if (counter === undefined) counters.set(name, (counter = metrics.counter(name, help, labels)));
  return counter;
}
