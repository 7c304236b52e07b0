/**
 * Databases on which `svc check` prepares statements: those of --database and --scratch-database, and SQLite in memory.
 *
 * A scratch database is dropped in the end, and also when the command is interrupted or its parent process ends.
 */
import { SvcError } from '../base/errors.ts';
import { systemClock } from '../base/clock.ts';
import { within } from '../base/promises.ts';
import { isMigratable } from '../db/migrations/start.ts';
import { thrown } from '../routing/compile.ts';
import type { Finding, Place } from '../base/findings.ts';
import type { RuleText } from '../check/check.ts';
import type { DescribedPlace, Describer } from '../db/describe/describer.ts';

/** Databases by the name of their plugin. The name is empty if the command line names no plugin. */
export type DescribedPlaces = Readonly<Record<string, DescribedPlace>>;

/** The plugins of an application, and where they are registered. */
interface Plugins {
  readonly plugins: readonly { readonly name: string }[];
  placeOfPlugin(name: string): Place | undefined;
}

/** Time limit for dropping scratch databases when the command ends early, in milliseconds. */
const LEAVE_MS = 5_000;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Drops the scratch databases that this process uses; undefined while there are none. */
let dropping: (() => Promise<unknown>) | undefined;

/** Ends the process of an inspection, after its scratch databases were dropped. */
export async function leave(): Promise<never> {
  if (dropping !== undefined) await within(systemClock, LEAVE_MS, dropping(), () => undefined);
  process.exit(1);
}

const onSignal = (): void => void leave();

/** Describers of the databases of one application. Disposing of it closes them. */
export class Describers implements AsyncDisposable {
  readonly #view: Plugins;
  readonly #rule: RuleText;
  readonly #open = new Map<string, Describer>();
  readonly #findings: Finding[] = [];
  #opening: Promise<void> = Promise.resolve();

  private constructor(view: Plugins, rule: RuleText) {
    this.#view = view;
    this.#rule = rule;
  }

  /**
   * Opens the describers. A database that cannot be used has a finding of `rule` and no describer. Never rejects.
   */
  static async open(view: Plugins, places: DescribedPlaces, rule: RuleText): Promise<Describers> {
    const opened = new Describers(view, rule);
    if (Object.values(places).some(({ scratch }) => scratch !== undefined)) {
      dropping = () => opened[Symbol.asyncDispose]();
      for (const signal of SIGNALS) process.on(signal, onSignal);
    }
    await (opened.#opening = opened.#openAll(places));
    return opened;
  }

  /** Describers by the name of their plugin. */
  get byPlugin(): ReadonlyMap<string, Describer> {
    return this.#open;
  }

  /** Findings about databases that cannot be used. Read them after all statements were described. */
  get findings(): readonly Finding[] {
    const lost = [...this.#open].flatMap(([name, { failure }]) =>
      failure === undefined ? [] : [this.#finding(name, failure)],
    );
    return [...this.#findings, ...lost];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opening;
    await Promise.allSettled([...this.#open.values()].map((describer) => describer[Symbol.asyncDispose]()));
    this.#open.clear();
    dropping = undefined;
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }

  async #openAll(places: DescribedPlaces): Promise<void> {
    const plugins = this.#view.plugins
      .filter(isMigratable)
      .filter((plugin) => plugin.openDescriber !== undefined);
    const names = new Set(plugins.map(({ name }) => name));
    const only = names.has('database') || names.size !== 1 ? 'database' : [...names][0]!;
    const wanted = new Map(Object.entries(places).map(([name, place]) => [name || only, place]));
    for (const name of wanted.keys())
      if (!names.has(name))
        this.#findings.push(this.#finding(name, new SvcError('E_MIGRATION_TARGET', [absence(name, names)])));
    for (const plugin of plugins) {
      try {
        const describer = await plugin.openDescriber!(wanted.get(plugin.name));
        if (describer !== undefined) this.#open.set(plugin.name, describer);
      } catch (error) {
        this.#findings.push(this.#finding(plugin.name, error));
      }
    }
  }

  #finding(name: string, error: unknown): Finding {
    const { id: rule, severity } = this.#rule;
    const remedy =
      error instanceof SvcError
        ? error.remedy
        : 'Correct the address of the database, start the database, or grant its user the missing rights';
    const message =
      error instanceof SvcError ? error.message : `the statements cannot be prepared: ${thrown(error)}`;
    return {
      rule,
      severity,
      subject: `database ${name}`,
      message,
      remedy,
      place: this.#view.placeOfPlugin(name),
    };
  }
}

function absence(name: string, names: ReadonlySet<string>): string {
  return names.size === 0
    ? 'the application has no database'
    : `the application has no database "${name}", only ${[...names].map((each) => `"${each}"`).join(', ')}`;
}
