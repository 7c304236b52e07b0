/**
 * Rules about secrets, and rule SVC205: secrets that are missing, weak or written in the source. Its findings
 * never contain a secret.
 *
 * A secret that is missing, has fewer than 32 bytes or is a public key prevents the start. A secret that is
 * easy to guess, such as a placeholder, does not: `svc check` fails, and each start logs a warning.
 */
import { Keyring, weaknessOf } from '../../crypto/keys.ts';
import { sourceAt } from '../check.ts';
import { variableOf } from '../../base/config.ts';
import { viewOfDependency } from '../../routing/di.ts';
import type { ApplicationView, CoreRule, NeededSecret, ReportFinding } from '../check.ts';
import type { Place } from '../../base/findings.ts';
import type { CompilationView } from '../../routing/compile.ts';
import type { Dependency } from '../../routing/di.ts';
import type { Middleware, PluginLike } from '../../http/contracts.ts';

/** Rules about secrets, passwords and tokens, sorted by id. */
export const SECRET_RULES: readonly CoreRule[] = [
  {
    id: 'SVC205',
    severity: 'error',
    phase: 'security',
    cwe: [798, 521],
    sources: ['OWASP Cheat Sheet: Secrets Management'],
    why: 'Signatures and tokens are only as safe as their secret. An attacker who knows or guesses the secret can forge signatures and tokens',
    remedy: `Set the environment variable of the secret to the output of: node -p "crypto.randomBytes(32).toString('hex')"`,
    wrong: "BearerAuth('changeme')",
    right: 'BearerAuth()  // SVC_AUTH_SECRET',
    run: findSecrets,
  },
];

/**
 * SVC205: missing and weak secrets. The application does not start with a secret that the framework would
 * refuse at its first use.
 */
export function findSecrets(view: ApplicationView, report: ReportFinding): void {
  for (const { key, neededBy, place } of view.secrets) {
    const variable = variableOf(key);
    if (isAbsent(view.settings.peek(key)))
      report(
        `setting ${key}`,
        `${neededBy} needs the secret "${key}" (${variable}), which is not set`,
        place,
        { remedy: `${remedyFor(key)}. If a file sets the variable, name it with --env-file`, refuses: true },
      );
    // only authSecret is judged here: the code that uses another secret validates its format
    if (variable === variableOf('authSecret')) {
      for (const setting of ['authSecret', 'authSecretPrevious']) {
        const isArgument = view.settings.sourceOf(setting) === 'argument';
        judgeSecret(setting, view.settings.peek(setting), isArgument ? view.place : place, report);
        if (isArgument) findWritten(setting, view, report);
      }
    }
  }
}

/**
 * Reports a secret that is written in the file of `new Svc()`, where every reader of the source can see it.
 */
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
      `the secret "${setting}" (${variableOf(setting)}) is written in the source code`,
      place,
      { remedy: remedyFor(setting), about: { option: { key: setting, value: text } } },
    );
  }
}

/** Reports each weak secret of a setting. The setting holds one secret or a list. */
function judgeSecret(setting: string, value: unknown, place: Place | undefined, report: ReportFinding): void {
  if (isAbsent(value)) return;
  const texts: readonly unknown[] = [value].flat();
  for (const [index, text] of texts.entries()) {
    const problem = typeof text === 'string' ? weaknessOf(text) : 'is not text';
    if (problem === undefined) continue;
    const which = texts.length === 1 ? '' : `, number ${index + 1} of its list,`;
    report(
      `setting ${setting}`,
      `the secret "${setting}" (${variableOf(setting)})${which} ${problem}`,
      place,
      {
        remedy: remedyFor(setting),
        refuses: typeof text !== 'string' || isRefused(text),
        about: { option: { key: setting, value: text } },
      },
    );
  }
}

/** Whether a secret is missing. An empty text or list counts as missing, as in authSecrets(). */
export function isAbsent(value: unknown): boolean {
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

/** `place` may be a getter, so that the place is computed only if a finding needs it. */
type Placed = Pick<NeededSecret, 'place'>;

/**
 * Returns the secret settings that plugins, middleware and dependencies need. Each entry names the first part
 * of the application that needs the secret.
 */
export function neededSecrets(
  view: CompilationView,
  placeOfPlugin: (plugin: PluginLike) => Place | undefined,
): NeededSecret[] {
  const needed = new Map<string, NeededSecret>();
  const need = (key: string, neededBy: string, by: Placed): void => {
    if (!needed.has(variableOf(key))) needed.set(variableOf(key), { key, neededBy, place: by.place });
  };
  for (const plugin of view.plugins)
    for (const key of plugin.secrets ?? [])
      need(key, `the plugin ${plugin.name}`, { place: placeOfPlugin(plugin) });
  const layers = new Map<Middleware, Placed>(view.middleware.map((layer) => [layer, { place: undefined }]));
  for (const { declared, route } of view.details) for (const layer of declared.use) layers.set(layer, route);
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
  // routes may share lists of dependencies, so this set prevents repeated visits
  const looked = new Set<object>();
  for (const { declared, route } of view.details) {
    const { routerDeps, deps } = declared;
    if (!looked.has(routerDeps)) for (const [, dependency] of routerDeps) visit(dependency, route);
    if (!looked.has(deps)) for (const dependency of Object.values(deps)) visit(dependency, route);
    looked.add(routerDeps).add(deps);
  }
  return [...needed.values()];
}
