/**
 * Rules about the surroundings of an application: its import, its settings, the version of Node.js, and, in
 * the phase `live`, its databases and certificates.
 */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { variableOf } from '../../base/config.ts';
import { SvcError } from '../../base/errors.ts';
import { closest } from '../../base/options.ts';
import { thrown } from '../../routing/compile.ts';
import type { OpenMigrator } from '../../db/migrations/start.ts';
import type { Finding } from '../../base/findings.ts';
import type { Dialect } from '../../db/driver.ts';
import type { ApplicationView, CoreRule, ReportFinding, RuleText } from '../check.ts';
import type { SourceModule } from '../reader/modules.ts';

const APPLY = 'Apply the migrations before the new version starts: svc migrate up <module>';

/** Rules about the import, the settings and the machine, sorted by id. */
export const ENVIRONMENT_RULES: readonly CoreRule[] = [
  {
    id: 'SVC001',
    severity: 'error',
    phase: 'load',
    why: 'A module that cannot be imported cannot be deployed. A module that listens, connects or starts timers at import cannot be checked or tested',
    remedy:
      'At import, only declare the application. Start work in app.onStartup(), and end the module with: if (import.meta.main) await app.run()',
    wrong: 'await app.run();',
    right: 'if (import.meta.main) await app.run();',
  },
  {
    id: 'SVC401',
    severity: 'error',
    phase: 'environment',
    why: 'An invalid setting causes an error when code first uses the setting. An environment variable that no code reads is probably misspelt',
    remedy: 'Set the environment variable to a valid value, or remove the variable to use the default',
    wrong: 'SVC_PAGE_SIZE=many, where a number is read',
    right: 'SVC_PAGE_SIZE=50',
    run: findSettings,
  },
  {
    id: 'SVC402',
    severity: 'error',
    phase: 'live',
    why: 'An application whose database lacks migrations fails at the first statement that needs them',
    remedy: APPLY,
    wrong: 'a deployment before svc migrate up',
    right: 'svc migrate up src/app.ts before the deployment',
    run: findMigrations,
  },
  {
    id: 'SVC403',
    severity: 'warning',
    phase: 'environment',
    why: 'Worker processes do not share memory. A client can use the full rate limit in each process, and each process knows only its own sessions and event streams',
    remedy: 'Use a store that all processes share, or serve with one process',
    wrong: 'SVC_WORKERS=4 with new MemoryRecordStore()',
    right: 'SVC_WORKERS=4 with a store in the database or in Redis',
  },
  {
    id: 'SVC404',
    severity: 'warning',
    phase: 'environment',
    cwe: [1104],
    why: 'Older Node.js releases have known vulnerabilities. A release line past its end of life gets no more fixes',
    remedy: 'Run the newest release of a supported line: 24 or 26',
    wrong: 'Node.js 24.1',
    right: 'Node.js 24.18.1',
    run: findMachine,
  },
  {
    id: 'SVC405',
    severity: 'warning',
    phase: 'live',
    cwe: [298],
    why: 'Clients refuse an expired certificate, and a server does not start with a certificate that does not match its key',
    remedy: 'Renew the certificate, and set SVC_TLS_CERT to its chain and SVC_TLS_KEY to its key',
    wrong: 'a certificate that expires tomorrow',
    right: 'a renewed certificate',
    run: findCertificates,
  },
  {
    id: 'SVC406',
    severity: 'warning',
    phase: 'source',
    why: 'Row classes of other migrations hide renamed columns: the compiler finds no mistake, and the response is a 500',
    remedy: 'Write the row classes again: svc migrate types <module> --output <file>',
    wrong: 'a new migration, and src/rows.ts as before',
    right: 'svc migrate types src/app.ts --output src/rows.ts after each new migration',
  },
  {
    id: 'SVC503',
    severity: 'info',
    phase: 'load',
    why: 'Each process and worker imports the module at its start, so a slow import delays every start and every deployment',
    remedy: 'Import rarely needed modules only when code needs them, and do slow work in app.onStartup()',
    wrong: 'const table = await build();  // at import',
    right: 'app.onStartup(async () => { table = await build(); });',
  },
];

/**
 * Settings that the application reads only when a server starts, and the type of each. Rule SVC401 runs
 * earlier, and validates their values by these types.
 */
const LATER: Readonly<Record<string, NumberConstructor | BooleanConstructor | StringConstructor>> = {
  host: String,
  port: Number,
  socket: String,
  socketMode: String,
  shutdownDelaySeconds: Number,
  shutdownTimeoutSeconds: Number,
  enableDocs: Boolean,
  mcpToken: String,
  tlsCert: String,
  tlsKey: String,
};
/** Environment variables that the framework itself reads and that are not settings. */
const FOREIGN: ReadonlySet<string> = new Set(['SVC_DEBUG', 'SVC_NODE_INTERNALS', 'SVC_WORKERS']);
const CASTS = { number: Number, boolean: Boolean, string: String } as const;

/** SVC401: settings that are missing, misspelt or invalid. */
function findSettings({ settings, secrets, place }: ApplicationView, report: ReportFinding): void {
  const reads = [...settings.reads().values()];
  const isRead = new Set(reads.map((read) => read.key));
  for (const { key, variable, cast, fallback } of reads) {
    if (cast !== undefined && cast !== 'custom') recast(key, CASTS[cast]);
    else if (cast === undefined && fallback === undefined && settings.peek(key) === undefined) {
      report(
        `setting ${key}`,
        'the code reads the setting without a default, but nothing sets the setting',
        settings.placeOf(key),
        {
          remedy: `Set ${variable} (--env-file reads a file), or add a default: config.get("${key}", …). The default null makes the setting optional`,
        },
      );
    }
  }
  for (const [key, cast] of Object.entries(LATER)) if (!isRead.has(key)) recast(key, cast);
  const known = new Set(
    [...Object.keys(LATER), ...secrets.map((secret) => secret.key), 'authSecret', 'authSecretPrevious'].map(
      variableOf,
    ),
  );
  for (const { variable, suggestion = closest(variable, known) } of settings.unknownVariables()) {
    if (known.has(variable) || FOREIGN.has(variable)) continue;
    report(
      `variable ${variable}`,
      'the environment variable is set, but no code reads it' +
        (suggestion === undefined ? '' : `: did you mean ${suggestion}?`),
      place,
      {
        severity: 'warning',
        remedy:
          'Correct or remove the environment variable. If code reads the variable later, declare a default: new Svc({ config: { … } })',
        about: { unread: variable },
      },
    );
  }

  function recast(key: string, cast: (text: string) => unknown): void {
    try {
      if (settings.peek(key) !== undefined) settings.get(key, undefined, { cast });
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      report(`setting ${key}`, error.message, settings.placeOf(key));
    }
  }
}

/**
 * Release lines of Node.js. `floor` is the first release without known vulnerabilities, by its minor and patch number; without
 * it, every release is accepted. `endsOn` is the day on which support ends.
 */
const LINES: Readonly<Record<number, { readonly endsOn: string; readonly floor?: [number, number] }>> = {
  20: { endsOn: '2026-04-30' },
  22: { endsOn: '2027-04-30', floor: [23, 2] },
  24: { endsOn: '2028-04-30', floor: [18, 1] },
  25: { endsOn: '2026-06-01' },
  26: { endsOn: '2029-04-30', floor: [5, 1] },
  27: { endsOn: '2030-04-30' },
};
/** Supported versions of Node.js. Equal to `engines.node` in package.json. */
export const SUPPORTED_NODE = '^24.18.1 || >=26.5.1';

/** SVC404: a version of Node.js that is not supported, or that package.json does not allow. */
function findMachine(view: ApplicationView, report: ReportFinding): void {
  findOldNode(view, report);
  const wanted = enginesOf(process.cwd());
  if (wanted !== undefined && satisfies(view.nodeVersion, wanted) === false) {
    report(
      `Node.js ${view.nodeVersion}`,
      `package.json requires another version of Node.js: engines.node is "${wanted}"`,
      undefined,
      {
        remedy:
          'Run the application with a version that engines.node allows, or change engines.node in package.json',
      },
    );
  }
}

function findOldNode({ nodeVersion, nowMs }: ApplicationView, report: ReportFinding): void {
  const [major = 0, minor = 0, patch = 0] = nodeVersion.split(/[.-]/).map(Number);
  const line = LINES[major];
  const problems: string[] = [];
  if (major !== 24 && major < 26)
    problems.push(`the version is outside the supported range (${SUPPORTED_NODE})`);
  else if (line?.floor !== undefined && order([major, minor, patch], [major, ...line.floor]) < 0)
    problems.push(`the version lacks the security fixes of ${major}.${line.floor.join('.')}`);
  if (line !== undefined && nowMs >= Date.parse(`${line.endsOn}T00:00:00Z`))
    problems.push(`this release line of Node.js reached its end of life on ${line.endsOn}`);
  for (const problem of problems) report(`Node.js ${nodeVersion}`, problem);
}

/*
 * The functions below parse version ranges of Node.js in package.json, such as `^24.18.1 || >=26.5`.
 */

type Version = readonly [major: number, minor: number, patch: number];

/** Returns `engines.node` of the nearest package.json in a folder or above, or undefined. */
export function enginesOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const file = join(at, 'package.json');
    if (existsSync(file)) return readEngines(file);
    if (at === dirname(at)) return undefined;
  }
}

function readEngines(file: string): string | undefined {
  try {
    const { engines } = JSON.parse(readFileSync(file, 'utf8')) as { engines?: { node?: unknown } | null };
    return typeof engines?.node === 'string' ? engines.node : undefined;
  } catch {
    // npm reports an invalid package.json itself
    return undefined;
  }
}

/**
 * Returns whether a version is in a range such as `>=24 <27`. Undefined if the version or range cannot be
 * parsed. Ignores prerelease and build parts of the version.
 */
export function satisfies(version: string, range: string): boolean | undefined {
  const own = versionOf(version.split(/[-+]/)[0]!);
  if (own === undefined) return undefined;
  const results = range.split('||').map((part) => isIn(own.from, part.trim()));
  return results.includes(true) ? true : results.includes(undefined) ? undefined : false;
}

/**
 * Whether a version satisfies one alternative of a range, such as `>=24 <27`. Undefined if the alternative
 * cannot be parsed.
 */
function isIn(version: Version, part: string): boolean | undefined {
  const hyphen = /^(\S+)\s+-\s+(\S+)$/.exec(part);
  const comparators =
    hyphen === null
      ? part.replace(/(\^|~|[<>]=?|=)\s+/g, '$1').split(/\s+/)
      : [`>=${hyphen[1]!}`, `<=${hyphen[2]!}`];
  const results = comparators.map((comparator) => compares(version, comparator));
  return results.includes(undefined) ? undefined : results.every((result) => result === true);
}

function compares(version: Version, comparator: string): boolean | undefined {
  // every part of this pattern is optional, so it matches every text
  const [, operator = '', rest = ''] = /^(\^|~|[<>]=?|=)?v?(.*)$/.exec(comparator)!;
  const wanted = versionOf(rest);
  if (wanted === undefined) return undefined;
  const { from, parts } = wanted;
  const isFrom = order(version, from) >= 0;
  // whether the version begins with as many parts of the wanted one, or is below it
  const isUpTo = (fixed: number): boolean => {
    const next = nextOf(from, fixed);
    return next === undefined || order(version, next) < 0;
  };
  switch (operator) {
    case '>=':
      return isFrom;
    case '>':
      return !isUpTo(parts);
    case '<':
      return !isFrom;
    case '<=':
      return isUpTo(parts);
    case '~':
      return isFrom && isUpTo(Math.min(parts, 2));
    case '^':
      return isFrom && isUpTo(Math.min(parts, from[0] > 0 ? 1 : from[1] > 0 ? 2 : 3));
    default:
      return isFrom && isUpTo(parts);
  }
}

/**
 * Increments the number at position `parts`, and sets the later numbers to 0. For 1.2.3, returns 2.0.0 if
 * `parts` is 1, and 1.3.0 if it is 2. Undefined if `parts` is 0.
 */
function nextOf([major, minor, patch]: Version, parts: number): Version | undefined {
  return parts === 0
    ? undefined
    : parts === 1
      ? [major + 1, 0, 0]
      : parts === 2
        ? [major, minor + 1, 0]
        : [major, minor, patch + 1];
}

function order(left: Version, right: Version): number {
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/**
 * Parses a version such as `24.1.0`, `24.x` or `*`. Returns the lowest matching version, and the number of
 * fixed parts: 24.0.0 and 1 for `24.x`.
 */
function versionOf(text: string): { readonly from: Version; readonly parts: number } | undefined {
  if (text === '' || text === '*' || /^x$/i.test(text)) return { from: [0, 0, 0], parts: 0 };
  const match = /^(\d+)(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?$/.exec(text);
  if (match === null) return undefined;
  const numbers = match
    .slice(1)
    .map((part) => (part === undefined || !/^\d+$/.test(part) ? undefined : Number(part)));
  const parts = numbers[1] === undefined ? 1 : numbers[2] === undefined ? 2 : 3;
  return { from: [numbers[0]!, numbers[1] ?? 0, parts === 3 ? numbers[2]! : 0], parts };
}

const MESSAGES: Readonly<Record<string, string>> = {
  pending: 'has not been applied',
  unfinished: 'was started without a transaction and has not finished',
  changed: 'has changed since it was applied',
};
const RESTORE =
  'Restore the migration file as it was applied, and write the change as a new migration: svc migrate new <name>';
const RENUMBER =
  'Give the later migration the next number; first undo what was applied under another number, with its old files: svc migrate down <module>';

/** SVC402: databases that cannot be opened, and migrations that have not been applied. */
async function findMigrations(view: ApplicationView, report: ReportFinding): Promise<void> {
  const { forDatabase, hasNoMigrations, isMigratable, labelOf } =
    await import('../../db/migrations/start.ts');
  for (const plugin of view.plugins) {
    if (!isMigratable(plugin)) continue;
    const subject = `database ${plugin.name}`;
    let open: OpenMigrator;
    try {
      open = await plugin.openMigrator({ onlyReads: true });
    } catch (error) {
      report(subject, `the database cannot be opened: ${thrown(error)}`, undefined, {
        remedy:
          'Correct the address of the database, start the database, or grant its user the missing rights',
      });
      continue;
    }
    try {
      const states = hasNoMigrations(plugin) ? [] : await open.migrator.status();
      for (const each of states) {
        const other = each.appliedAs;
        const message =
          other === undefined ? MESSAGES[each.state] : `was applied as another file (${each.id}_${other})`;
        const remedy = each.state !== 'changed' ? APPLY : other === undefined ? RESTORE : RENUMBER;
        if (message !== undefined)
          report(subject, `${labelOf(each)} ${message}`, undefined, {
            remedy: forDatabase(remedy, plugin.name),
          });
      }
    } catch (error) {
      report(subject, `the migrations cannot be read: ${thrown(error)}`);
    } finally {
      await open[Symbol.asyncDispose]();
    }
  }
}

/** SVC406: files of "svc migrate types" that were written for other migrations than the application has. */
export async function findStaleRowClasses(
  { plugins }: Pick<ApplicationView, 'plugins'>,
  { severity, remedy }: RuleText,
  modules: readonly Pick<SourceModule, 'file' | 'source'>[],
): Promise<readonly Finding[]> {
  const { sourceOf } = await import('../../db/row-classes.ts');
  return modules.flatMap(({ file, source }): Finding[] => {
    const written = sourceOf(source);
    if (written === undefined) return [];
    const plugin = plugins.find(({ name }) => name === written.database);
    const expected = plugin === undefined ? '' : hashIn(plugin, written.dialect);
    if (expected === undefined || expected === written.hash) return [];
    const message =
      plugin === undefined
        ? `the row classes are of the database "${written.database}", which the application does not have`
        : `the row classes were written for other migrations of the database "${written.database}"`;
    const place = { file, line: 1, column: 1 };
    return [{ rule: 'SVC406', severity, subject: `module ${basename(file)}`, message, remedy, place }];
  });
}

/** Returns the hash of a plugin's migrations. Undefined if the plugin has none, or if they are invalid. */
function hashIn(plugin: object, dialect: Dialect): string | undefined {
  const { migrationHash } = plugin as { migrationHash?: (dialect: Dialect) => string };
  try {
    return migrationHash?.call(plugin, dialect);
  } catch {
    return undefined; // SVC402 reports invalid migrations
  }
}

/**
 * SVC405: certificates in the settings that are expired or unreadable or do not match their key. The rule
 * does not see certificates that code passes to run().
 */
async function findCertificates({ settings, nowMs }: ApplicationView, report: ReportFinding): Promise<void> {
  const [cert, key] = [settings.peek('tlsCert'), settings.peek('tlsKey')];
  if (cert === undefined && key === undefined) return;
  try {
    const { examinePair } = await import('../../http/server/tls.ts');
    const { readTlsOptions } = await import('../../http/server/options.ts');
    // cert or key is set, so readTlsOptions() returns an object
    for (const problem of examinePair(readTlsOptions({}, settings)!, nowMs)) report('SVC_TLS_CERT', problem);
  } catch (error) {
    report('SVC_TLS_CERT', thrown(error));
  }
}
