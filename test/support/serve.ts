/**
 * Runs an application as a program does, and opens a connection to it.
 */
import { Svc } from '../../src/index.ts';
import { collectedLog } from './collected-log.ts';
import { RawClient } from './raw-http.ts';
import type { RunningServer, SvcOptions } from '../../src/index.ts';

/** An application that listens until it is disposed of. */
export interface Serving extends AsyncDisposable, Pick<RunningServer, 'port' | 'url' | 'close'> {
  readonly app: Svc;
  readonly client: RawClient;
  readonly events: Record<string, unknown>[];
}

/** Runs an application on a free port. `drainSeconds` is the time for requests when it closes. */
export async function serve(
  declare: (app: Svc) => void,
  options: SvcOptions = {},
  drainSeconds: number = 1,
): Promise<Serving> {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, ...options });
  declare(app);
  const { port, url, close } = await app.run({ port: 0, handleSignals: false, drainSeconds });
  const client = await RawClient.open(port);
  return {
    app,
    client,
    port,
    url,
    events,
    close,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await close();
    },
  };
}
