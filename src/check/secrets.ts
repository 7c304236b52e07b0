/**
 * Secrets as checks see them (SVC205): whether what is needed is there, and whether it could be guessed. None is ever shown.
 *
 *   absent, under 32 bytes, a public key   an error that keeps the application from starting
 *   a placeholder, repeated, counted up    an error of the check, and a warning in the log of each start
 */
import { Keyring, weaknessOf } from '../crypto/keys.ts';
import { sourceAt } from './probes.ts';
import { variableOf } from '../base/config.ts';
import { viewOfDependency } from '../routing/di.ts';
import type { ApplicationView, NeededSecret, ReportFinding } from './check.ts';
import type { Place } from '../base/findings.ts';
import type { CompilationView } from '../routing/compile.ts';
import type { Dependency } from '../routing/di.ts';
import type { Middleware, Plugin } from '../http/contracts.ts';

/** SVC205: those that are missing, and those that could be guessed. What would be refused when it is first used keeps the application from starting. */
export function findSecrets(view: ApplicationView, report: ReportFinding): void {
  for (const { key, neededBy, place } of view.secrets) {
    const variable = variableOf(key);
    if (isAbsent(view.settings.peek(key)))
      report(
        `setting ${key}`,
        `${neededBy} needs the secret "${key}" (${variable}), and there is none`,
        place,
        { remedy: remedyFor(key), refuses: true },
      );
    // what others need may be given by others, who decide on its form
    if (variable === variableOf('authSecret')) {
      for (const setting of ['authSecret', 'authSecretPrevious']) {
        const isArgument = view.settings.sourceOf(setting) === 'argument';
        judgeSecret(setting, view.settings.peek(setting), isArgument ? view.place : place, report);
        if (isArgument) findWritten(setting, view, report);
      }
    }
  }
}

/** A secret that stands in the file where the application is made: every reader of the sources has it. */
function findWritten(
  setting: string,
  { settings, place, env }: ApplicationView,
  report: ReportFinding,
): void {
  if (env !== 'production') return;
  const source = sourceAt(place);
  for (const text of [settings.peek(setting)].flat()) {
    if (typeof text !== 'string' || weaknessOf(text) !== undefined || !source.includes(text)) continue;
    report(
      `setting ${setting}`,
      `the secret "${setting}" (${variableOf(setting)}) stands in the source`,
      place,
      { remedy: remedyFor(setting) },
    );
  }
}

/** A secret that signs, or a list of them. */
function judgeSecret(setting: string, value: unknown, place: Place | undefined, report: ReportFinding): void {
  if (isAbsent(value)) return;
  const texts: readonly unknown[] = [value].flat();
  for (const [index, text] of texts.entries()) {
    const problem = typeof text === 'string' ? weaknessOf(text) : 'is no text';
    if (problem === undefined) continue;
    const which = texts.length === 1 ? '' : `, number ${index + 1} of its list,`;
    report(
      `setting ${setting}`,
      `the secret "${setting}" (${variableOf(setting)})${which} ${problem}`,
      place,
      {
        remedy: remedyFor(setting),
        refuses: typeof text !== 'string' || isRefused(text),
      },
    );
  }
}

/** As authSecrets() sees it: empty text and an empty list are none. */
function isAbsent(value: unknown): boolean {
  return (
    value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)
  );
}

function remedyFor(key: string): string {
  return `Set ${variableOf(key)} to the output of: node -p "crypto.randomBytes(32).toString('hex')"`;
}

function isRefused(secret: string): boolean {
  try {
    Keyring.of(secret);
    return false;
  } catch {
    return true;
  }
}

/** Its place is worked out only where a finding needs it. */
interface Placed {
  readonly place: Place | undefined;
}

/** The secret settings that plugins, middleware and dependencies cannot do without, each with the part that needs it first. */
export function neededSecrets(
  view: CompilationView,
  placeOfPlugin: (plugin: Plugin) => Place | undefined,
): NeededSecret[] {
  const needed = new Map<string, NeededSecret>();
  const need = (key: string, neededBy: string, by: Placed): void => {
    if (!needed.has(variableOf(key))) needed.set(variableOf(key), { key, neededBy, place: by.place });
  };
  for (const plugin of view.plugins)
    for (const key of plugin.secrets ?? [])
      need(key, `the plugin ${plugin.name}`, { place: placeOfPlugin(plugin) });
  const layers = new Map<Middleware, Placed>(view.middleware.map((layer) => [layer, { place: undefined }]));
  for (const {
    declared: { use },
    route,
  } of view.details)
    if (use.length > 0) for (const layer of use) layers.set(layer, route);
  for (const [layer, by] of layers)
    for (const key of layer.secrets ?? []) need(key, `the middleware ${layer.constructor.name}`, by);
  const seen = new Set<unknown>();
  const visit = (dependency: Dependency<unknown>, by: Placed): void => {
    if (seen.has(dependency.source)) return;
    seen.add(dependency.source);
    const { label, secrets, needs } = viewOfDependency(dependency);
    for (const key of secrets) need(key, `the dependency ${label}`, by);
    for (const inner of needs) visit(inner, by);
  };
  const looked = new Set<object>(); // thousands of routes share the dependencies of their routers, and having none
  for (const {
    declared: { routerDeps, deps },
    route,
  } of view.details) {
    if (!looked.has(routerDeps)) for (const [, dependency] of routerDeps) visit(dependency, route);
    if (!looked.has(deps)) for (const dependency of Object.values(deps)) visit(dependency, route);
    looked.add(routerDeps).add(deps);
  }
  return [...needed.values()];
}
