/**
 * `run({ workers })` and `run({ reload })`: the first process supervises child processes, which serve the
 * requests.
 */
import { SvcError } from '../base/errors.ts';
import { superviseReload } from './reload.ts';
import { serveSupervised } from './supervised.ts';
import { ownRole } from './supervision.ts';
import { countOf, superviseWorkers } from './workers.ts';
import type { ServeOptions, SupervisedApplication, SupervisedServer } from './supervised.ts';

type Supervision = { readonly workers: number | 'auto' } | { readonly reload: true };

/**
 * Serves requests if this process is a child; otherwise starts and supervises child processes.
 * @throws SvcError `E_LISTEN` when the address cannot be opened, `E_WORKERS` when child processes cannot run
 */
export async function runSupervised(
  app: SupervisedApplication,
  supervision: Supervision,
  options: ServeOptions,
): Promise<SupervisedServer> {
  const role = ownRole();
  if (role === ('workers' in supervision ? 'worker' : 'reload')) return serveSupervised(app, role, options);
  const { clock, log } = app;
  const { handleSignals } = options;
  if (!('workers' in supervision)) return superviseReload({ ...options, clock, log });
  const outcome = await superviseWorkers({ count: countOf(supervision.workers), clock, log, handleSignals });
  if ('url' in outcome) return outcome;
  throw new SvcError('E_WORKERS', [
    `the first worker exited with status ${outcome.status} before it served requests`,
  ]);
}
