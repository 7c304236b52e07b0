/**
 * Determines the order of plugins by their requirements, starts them in this order, and stops them in reverse
 * order.
 */
import { within } from '../base/promises.ts';
import type { Clock } from '../base/clock.ts';
import type { Finding, Place } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { Plugin } from '../http/contracts.ts';

export type { Host, Plugin, RouterLike } from '../http/contracts.ts';

/** A plugin, and the place in the program's code that registers it. */
export interface RegisteredPlugin {
  readonly plugin: Plugin;
  readonly place: Place;
}

/**
 * Sorts plugins, so that each one comes after the plugins that it requires. Apart from that, plugins with
 * `startsFirst` come first, and the others keep the order of registration. Repeated names, missing plugins
 * and cycles are reported as findings.
 */
export function sortPlugins(
  registered: readonly RegisteredPlugin[],
  report: (finding: Finding) => void,
): Plugin[] {
  const byName = new Map<string, RegisteredPlugin>();
  const mistake = (entry: RegisteredPlugin, message: string, remedy: string): void => {
    report({
      rule: 'SVC114',
      severity: 'error',
      subject: `plugin ${entry.plugin.name}`,
      place: entry.place,
      message,
      remedy,
    });
  };
  for (const entry of registered) {
    if (byName.has(entry.plugin.name))
      mistake(
        entry,
        `two plugins are named "${entry.plugin.name}"`,
        'Register the plugin once, or give each plugin a name of its own',
      );
    else byName.set(entry.plugin.name, entry);
  }
  const sorted: Plugin[] = [];
  const state = new Map<string, 'visiting' | 'done'>();
  const visit = (entry: RegisteredPlugin, path: readonly string[]): void => {
    const { plugin } = entry;
    const names = [...path, plugin.name];
    if (state.get(plugin.name) === 'done') return;
    if (state.get(plugin.name) === 'visiting') {
      mistake(
        entry,
        `plugins need one another in a circle: ${names.slice(names.indexOf(plugin.name)).join(' → ')}`,
        'Break the circle: let one of these plugins work without the other, or look the other up when a request arrives',
      );
      return;
    }
    state.set(plugin.name, 'visiting');
    for (const name of plugin.requires ?? []) {
      const needed = byName.get(name);
      if (needed === undefined)
        mistake(
          entry,
          `it requires the plugin "${name}", which is not registered: ${[...names, name].join(' → ')}`,
          `Register that plugin with app.register(…), or remove the plugin ${plugin.name}`,
        );
      else visit(needed, names);
    }
    for (const name of plugin.after ?? []) {
      const earlier = byName.get(name);
      if (earlier !== undefined) visit(earlier, names);
    }
    state.set(plugin.name, 'done');
    sorted.push(plugin);
  };
  const entries = [...byName.values()];
  for (const entry of entries) if (entry.plugin.startsFirst === true) visit(entry, []);
  for (const entry of entries) visit(entry, []);
  return sorted;
}

/**
 * Starts plugins in order. If one fails, the started plugins are stopped in reverse order, and its error is
 * thrown.
 */
export async function startPlugins(
  plugins: readonly Plugin[],
  signal: AbortSignal,
  log: Logger,
  clock: Clock,
): Promise<void> {
  const started: Plugin[] = [];
  try {
    for (const plugin of plugins) {
      signal.throwIfAborted();
      await plugin.startup?.(signal);
      started.push(plugin);
    }
  } catch (error) {
    await stopPlugins(started, log, clock);
    throw error;
  }
}

/**
 * Stops plugins in reverse order. If one fails or does not end, its error is logged, and the others are still
 * stopped.
 */
export async function stopPlugins(plugins: readonly Plugin[], log: Logger, clock: Clock): Promise<void> {
  for (const plugin of plugins.toReversed()) {
    try {
      await stopped(clock, () => plugin.shutdown?.());
    } catch (error) {
      log.error('plugin_shutdown_failed', error, { plugin: plugin.name });
    }
  }
}

/**
 * Time in milliseconds in which a step of the shutdown must end. A plugin may have a shorter limit of its
 * own: a database waits ten seconds for running transactions.
 */
const STEP_MS = 12_000;

/** Runs a step of the shutdown. Rejects if the step does not end in time, so that the other steps can run. */
export async function stopped(clock: Clock, stop: () => unknown): Promise<void> {
  await within(clock, STEP_MS, Promise.try(stop), () => {
    throw new Error(`The step did not end within ${STEP_MS} ms, so the shutdown goes on`);
  });
}
