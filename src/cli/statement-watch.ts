/**
 * Reports wrong SQL statements during development: `svc run --reload` checks the sources while the application
 * starts, in a process of its own. SQLite migrations are applied in memory; a server is not asked.
 */
import { relative } from 'node:path';
import { fileOfPlace } from '../base/findings.ts';
import { STATEMENT_RULES } from '../check/rules/statements.ts';
import { ask } from './inspect.ts';
import type { Finding } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { Subject } from './command.ts';

const TIMEOUT_MS = 10_000;
const RULES: ReadonlySet<string> = new Set(STATEMENT_RULES.map(({ id }) => id));

/** Checks the statements of an application, and logs findings that the check before did not have. */
export class StatementWatch {
  readonly #findings: () => Promise<readonly Finding[]>;
  readonly #log: Logger;
  #known: ReadonlySet<string> = new Set();
  #running: Promise<void> | undefined;
  #isOutdated = false;

  /** `findings` checks the application as it is saved now. */
  constructor(findings: () => Promise<readonly Finding[]>, log: Logger) {
    this.#findings = findings;
    this.#log = log;
  }

  /** Checks the statements. A call during a check starts another check after it. */
  check(): Promise<void> {
    this.#isOutdated = true;
    return (this.#running ??= this.#run());
  }

  async #run(): Promise<void> {
    try {
      while (this.#isOutdated) {
        this.#isOutdated = false;
        this.#report(await this.#findings());
      }
    } catch (error) {
      this.#log.error('statement_check_failed', error);
    } finally {
      this.#running = undefined;
    }
  }

  #report(findings: readonly Finding[]): void {
    const known = new Set<string>();
    for (const { rule, message, remedy, place } of findings) {
      if (!RULES.has(rule)) continue;
      const file = place === undefined ? '' : relative(process.cwd(), fileOfPlace(place));
      const key = `${rule} ${file} ${message}`; // without the line, because each save moves lines
      known.add(key);
      if (!this.#known.has(key))
        this.#log.warn('statement_finding', {
          rule,
          place: place === undefined ? undefined : `${file}:${place.line}:${place.column}`,
          message,
          remedy,
        });
    }
    this.#known = known;
  }
}

/** Returns a function that checks an application in a process of its own. */
export function checkOf(subject: Subject): () => Promise<readonly Finding[]> {
  return async () => {
    const env = process.env['SVC_ENV'] ?? 'development'; // as in the process that serves
    const answer = await ask(subject, { wants: 'report', timeoutMs: TIMEOUT_MS, env, isSilent: true });
    return answer.report.findings;
  };
}
