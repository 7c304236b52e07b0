/**
 * Metrics at one moment → Prometheus text format 0.0.4, for one process or summed over several.
 */

/** One metric at one moment. Plain JSON: it travels between processes. */
export interface MetricSnapshot {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly merge: 'sum' | 'max';
  /** Empty but for a histogram. */
  readonly buckets: readonly number[];
  /** Label values and numbers: one number, or for a histogram the count of each bucket, of all above, and the sum. */
  readonly series: readonly (readonly [labels: readonly string[], numbers: readonly number[]])[];
}

// ── over several processes ──

/**
 * One list out of those of several processes: counters, histograms and most gauges are added up, the other gauges keep the
 * greatest value. A metric that is declared otherwise than in the first list that has it is left out.
 */
export function mergeMetrics(lists: Iterable<readonly MetricSnapshot[]>): MetricSnapshot[] {
  const merged = new Map<string, { readonly metric: MetricSnapshot; readonly series: Map<string, [readonly string[], number[]]> }>();
  for (const list of lists) {
    for (const metric of list) {
      let entry = merged.get(metric.name);
      if (entry === undefined) merged.set(metric.name, entry = { metric, series: new Map() });
      if (shapeOf(entry.metric) === shapeOf(metric)) addSeries(entry.series, metric);
    }
  }
  return [...merged.values()].map(({ metric, series }) => ({ ...metric, series: [...series.values()] }));
}

function shapeOf({ kind, merge, labels, buckets }: MetricSnapshot): string {
  return JSON.stringify([kind, merge, labels, buckets]);
}

function addSeries(into: Map<string, [readonly string[], number[]]>, { merge, series }: MetricSnapshot): void {
  for (const [labels, numbers] of series) {
    const key = JSON.stringify(labels);
    const known = into.get(key);
    if (known === undefined) into.set(key, [labels, [...numbers]]);
    else numbers.forEach((number, index) => { known[1][index] = merge === 'max' ? Math.max(known[1][index]!, number) : known[1][index]! + number; });
  }
}

// ── as text ──

/** Snapshots in the Prometheus text format 0.0.4 (`text/plain; version=0.0.4; charset=utf-8`). */
export function renderMetrics(metrics: Iterable<MetricSnapshot>): string {
  let text = '';
  for (const metric of metrics) {
    text += `# HELP ${metric.name} ${metric.help.replace(/[\\\n]/g, escaped)}\n# TYPE ${metric.name} ${metric.kind}\n`;
    for (const [values, numbers] of metric.series) {
      const labels = metric.labels.map((label, index) => `${label}="${values[index]!.replace(/[\\\n"]/g, escaped)}"`).join(',');
      text += metric.kind === 'histogram' ? bucketLines(metric, labels, numbers) : `${metric.name}${labels === '' ? '' : `{${labels}}`} ${numbers[0]}\n`;
    }
  }
  return text;
}

/** Buckets are kept apart and added up here: a scrape is rare, an observation is not. */
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
