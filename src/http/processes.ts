/**
 * How many processes serve an application, as far as its settings say: the setting `workers` (SVC_WORKERS).
 */
import type { CompiledView } from './contracts.ts';

/** Whether several processes serve, so that what is in the memory of one is not in that of another. */
export function isServedByMany(view: Pick<CompiledView, 'config'>): boolean {
  const workers = view.config('workers');
  return workers === 'auto' || Number(workers ?? 1) > 1;
}
