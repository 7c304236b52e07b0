/**
 * The dependencies of an application as its compiler sees them. An application without any needs none of what puts them in order.
 */
import { DependencyPlanner } from './di-plan.ts';
import type { Dependency } from './di.ts';
import type { Ordering, PlannerParts } from './di-plan.ts';
import type { Declared } from './findings.ts';
import type { Context } from './http/contracts.ts';

/** Leaves what lives as long as the application. */
export type Leave = (onError: (error: unknown, label: string) => void) => Promise<unknown>;

/** Of the routes of one application. */
export class DependencyGraph {
  readonly #parts: PlannerParts;
  #planner: DependencyPlanner | undefined;

  constructor(parts: PlannerParts) { this.#parts = parts; }

  /** An empty order for a route. */
  order(subject: string, declared: Declared): Ordering {
    return { planned: [], slots: new Map(), subject, declared };
  }

  /** Adds a dependency and what it needs; answers its slot, or -1 where a mistake has been reported. */
  plan(ordering: Ordering, dependency: Dependency<unknown>): number {
    return (this.#planner ??= new DependencyPlanner(this.#parts)).plan(ordering, dependency);
  }

  /** Resolves what lives as long as the application. Answers how to leave it again. */
  async start(context: Context): Promise<Leave> {
    return this.#planner === undefined ? nothingToLeave : this.#planner.start(context);
  }
}

async function nothingToLeave(): Promise<void> { /* nothing was resolved */ }
