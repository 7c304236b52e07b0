/**
 * A middleware that keeps what it takes of its application (keys, clock, log) can serve one alone: compiled for another, it
 * would answer the first with the keys of the second.
 */
import type { Finding } from '../findings.ts';
import type { CompiledView, Services } from './contracts.ts';

/** Which application a middleware belongs to. */
export class OneApplication {
  #services: Services | undefined;

  /**
   * What `compile()` is to report, and then to end with everything left as it was; undefined for the application that has
   * asked first, which may ask as often as it likes: for checks, and for test clients. `subject` as in `middleware session`.
   */
  claim(subject: string, { services }: Pick<CompiledView, 'services'>): Omit<Finding, 'place'> | undefined {
    this.#services ??= services;
    if (this.#services === services) return undefined;
    return {
      rule: 'SVC121', severity: 'error', subject, message: 'it belongs to another application, whose keys and settings it would exchange',
      remedy: 'Make one for each application: call new where you call app.use()',
    };
  }
}
