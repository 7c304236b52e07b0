/** A worker that processes jobs and serves only its health. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, datetime, int, nullable } from 'svc';
import type { Plugin } from 'svc';

class Progress extends Schema {
  done = Field(int, { ge: 0 });
  failed = Field(int, { ge: 0 });
  lastAt = Field(nullable(datetime));
}

/** Runs one job after another until stop(). */
class Jobs {
  done = 0;
  failed = 0;
  lastAt: Date | null = null;
  #stop: AbortController | undefined;

  start(): void {
    this.#stop = new AbortController();
    void this.#work(this.#stop.signal);
  }

  async #work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await new Promise((resolve) => {
        setTimeout(resolve, 1_000).unref();
      });
      this.done++;
      this.lastAt = new Date();
    }
  }

  stop(): void {
    this.#stop?.abort();
  }
  get isRunning(): boolean {
    return this.#stop?.signal.aborted === false;
  }
}

const jobs = new Jobs();
const worker: Plugin = {
  name: 'worker',
  register: (host) => {
    host.readiness('worker', () => {
      if (!jobs.isRunning) throw new Error('the worker has stopped');
    });
    host.metrics.gauge('svc_jobs_done', 'Jobs that are done.', () => jobs.done);
  },
  startup: () => {
    jobs.start();
  },
  shutdown: () => {
    jobs.stop();
  },
};

export const app: Svc = new Svc({ title: 'Worker', version: '1.0.0', trustProxy: 1, enableDocs: false });
app.use(new SecurityHeadersMiddleware());
app.register(worker);
app.get('/progress', { response: Progress }, () => ({
  done: jobs.done,
  failed: jobs.failed,
  lastAt: jobs.lastAt,
}));

if (import.meta.main) await app.run({ host: '0.0.0.0', port: 8080 });
