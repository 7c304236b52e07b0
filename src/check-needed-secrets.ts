/**
 * Which secrets an application needs, and who needs them: what check-secrets.ts judges.
 */
import { variableOf } from './config.ts';
import { viewOfDependency } from './di.ts';
import type { NeededSecret } from './check.ts';
import type { CompilationView } from './compile.ts';
import type { Dependency } from './di.ts';
import type { Place } from './findings.ts';
import type { Middleware, Plugin } from './http/contracts.ts';

/** Asked for its place only where somebody has to be told: that is work. */
interface Placed { readonly place: Place | undefined }

/** The secret settings that plugins, middleware and dependencies cannot do without, each with whoever needs it first. */
export function neededSecrets(view: CompilationView, placeOfPlugin: (plugin: Plugin) => Place | undefined): NeededSecret[] {
  const needed = new Map<string, NeededSecret>();
  const need = (key: string, neededBy: string, by: Placed): void => {
    if (!needed.has(variableOf(key))) needed.set(variableOf(key), { key, neededBy, place: by.place });
  };
  for (const plugin of view.plugins) for (const key of plugin.secrets ?? []) need(key, `the plugin ${plugin.name}`, { place: placeOfPlugin(plugin) });
  const layers = new Map<Middleware, Placed>(view.middleware.map((layer) => [layer, { place: undefined }]));
  for (const { declared: { use }, route } of view.details) if (use.length > 0) for (const layer of use) layers.set(layer, route);
  for (const [layer, by] of layers) for (const key of layer.secrets ?? []) need(key, `the middleware ${layer.constructor.name}`, by);
  const seen = new Set<unknown>();
  const visit = (dependency: Dependency<unknown>, by: Placed): void => {
    if (seen.has(dependency.source)) return;
    seen.add(dependency.source);
    const { label, secrets, needs } = viewOfDependency(dependency);
    for (const key of secrets) need(key, `the dependency ${label}`, by);
    for (const inner of needs) visit(inner, by);
  };
  const looked = new Set<object>(); // thousands of routes share the dependencies of their routers, and having none
  for (const { declared: { routerDeps, deps }, route } of view.details) {
    if (!looked.has(routerDeps)) for (const [, dependency] of routerDeps) visit(dependency, route);
    if (!looked.has(deps)) for (const dependency of Object.values(deps)) visit(dependency, route);
    looked.add(routerDeps).add(deps);
  }
  return [...needed.values()];
}
