/**
 * Histogram of calls to providers.
 */
import type { Histogram, Metrics } from '../../observability/metrics.ts';

/** One histogram for all providers of an application, because a name can be declared only once. */
const histograms = new WeakMap<Metrics, Histogram>();

/** Returns the histogram of an application. */
export function secondsOf(metrics: Metrics): Histogram {
  const known =
    histograms.get(metrics) ??
    metrics.histogram(
      'svc_oauth_provider_seconds',
      'Duration of calls to identity providers',
      BUCKETS_SECONDS,
      ['provider', 'call'],
    );
  histograms.set(metrics, known);
  return known;
}

const BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
