/**
 * Databases on which `svc check` prepares statements: those of --database and --scratch-database, with --live those of the
 * application, and SQLite in memory.
 *
 * A scratch database is dropped in the end, and also when the command is interrupted or its parent process ends.
 */
import { SvcError } from '../base/errors.ts';
import { systemClock } from '../base/clock.ts';
import { within } from '../base/promises.ts';
import { isMigratable, type Migratable } from '../db/migrations/start.ts';
import { thrown } from '../routing/compile.ts';
import { LEAVE_MS, type DescribedPlaces } from './inspect.ts';
import type { Finding, Place, Severity } from '../base/findings.ts';
import type { DescribedPlace, Describer } from '../db/describe/describer.ts';

/** The plugins of an application, and where they are registered. */
interface Plugins {
  readonly plugins: readonly { readonly name: string }[];
  placeOfPlugin(name: string): Place | undefined;
}

const REMEDY = 'Correct the address, start the server, or grant its user the missing rights';
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Drops the scratch databases that this process uses; undefined while there are none. */
let dropping: (() => Promise<unknown>) | undefined;

/** Ends the process of an inspection, after its scratch databases were dropped. */
export async function leave(): Promise<never> {
  if (dropping !== undefined) await within(systemClock, LEAVE_MS, dropping(), () => undefined);
  process.exit(1);
}

const onSignal = (): void => void leave();

export class Describers implements AsyncDisposable {
  readonly #view: Plugins;
  readonly #plugins: readonly Migratable[];
  readonly #open = new Map<string, Describer>();
  readonly #findings: Finding[] = [];
  readonly #abort = new AbortController();
  #opening: Promise<void> = Promise.resolve();

  private constructor(view: Plugins) {
    this.#view = view;
    this.#plugins = view.plugins.filter(isMigratable).filter((plugin) => plugin.openDescriber !== undefined);
  }

  /**
   * Opens the describers. Without statements, opens only the databases that the command line names. `live` are the plugins
   * whose own database is read. A database that cannot be used has a finding of rule SVC402 and no describer. Never
   * rejects.
   */
  static async open(
    view: Plugins,
    places: DescribedPlaces,
    hasStatements: boolean,
    live: ReadonlySet<string> = new Set(),
  ): Promise<Describers> {
    const opened = new Describers(view);
    if (Object.values(places).some(({ isScratch }) => isScratch)) {
      dropping = () => {
        opened.#abort.abort();
        return opened[Symbol.asyncDispose]();
      };
      for (const signal of SIGNALS) process.on(signal, onSignal);
    }
    await (opened.#opening = opened.#openAll(places, hasStatements, live));
    return opened;
  }

  /** Describers by the name of their plugin. */
  get byPlugin(): ReadonlyMap<string, Describer> {
    return this.#open;
  }

  /** Findings about databases that cannot be used. Read them after all statements were described. */
  get findings(): readonly Finding[] {
    const lost = [...this.#open].flatMap(([name, { failure }]) =>
      failure === undefined ? [] : [this.#failure(name, failure, 'error')],
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

  async #openAll(places: DescribedPlaces, hasStatements: boolean, live: ReadonlySet<string>): Promise<void> {
    const names = this.#plugins.map(({ name }) => name);
    const only = names.length === 1 ? names[0]! : 'database';
    const wanted = new Map(Object.entries(places).map(([name, place]) => [name || only, place]));
    for (const name of wanted.keys())
      if (!names.includes(name))
        this.#findings.push(this.#finding(name, absence(names), 'error', 'Name a DatabasePlugin: name=url'));
    for (const plugin of this.#plugins) {
      if (!hasStatements && !wanted.has(plugin.name)) continue;
      const place = wanted.get(plugin.name);
      try {
        const isOwn = place === undefined && live.has(plugin.name);
        const describer = await this.#describerOf(plugin, place, isOwn);
        if (describer !== undefined) this.#open.set(plugin.name, describer);
      } catch (error) {
        // without a place, the application may still be right: its migrations may need a server or a file
        this.#findings.push(this.#failure(plugin.name, error, place === undefined ? 'warning' : 'error'));
      }
    }
  }

  async #describerOf(
    plugin: Migratable,
    place: DescribedPlace | undefined,
    isOwn: boolean,
  ): Promise<Describer | undefined> {
    const { signal } = this.#abort;
    const opening = plugin.openDescriber?.({ ...place, isOwn, signal });
    // the migrations tell of a database that the check cannot read
    return isOwn ? opening?.catch(() => plugin.openDescriber?.({ signal })) : opening;
  }

  #failure(name: string, error: unknown, severity: Severity): Finding {
    return error instanceof SvcError
      ? this.#finding(name, error.message, severity, error.remedy)
      : this.#finding(name, thrown(error), severity, REMEDY);
  }

  #finding(name: string, reason: string, severity: Severity, remedy: string): Finding {
    const message = `its statements were not checked: ${reason}`;
    const place = this.#view.placeOfPlugin(name);
    return { rule: 'SVC402', severity, subject: `database ${name}`, message, remedy, place };
  }
}

function absence(names: readonly string[]): string {
  return names.length === 0
    ? 'the application has no database'
    : `the databases of the application are ${names.map((name) => `"${name}"`).join(', ')}`;
}
