/**
 * The load of test/support/load.ts with times, for soaks.
 */
import { Load, type Failure, type Response } from './load.ts';
import type { Agent } from 'node:http';

/** Measures how long each response takes, and when a request fails. */
export class TimedLoad extends Load {
  worstMs = 0;
  readonly failedAtMs: Map<Failure, number> = new Map();

  protected override async send(agent: Agent): Promise<Response> {
    const startedMs = performance.now();
    try {
      return await super.send(agent);
    } finally {
      this.worstMs = Math.max(this.worstMs, performance.now() - startedMs);
    }
  }

  protected override fail(failure: Failure): void {
    super.fail(failure);
    this.failedAtMs.set(failure, performance.now());
  }
}
