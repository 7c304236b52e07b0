/**
 * `svc migrate`: applies or reverts migrations of an application's database, and reports their state.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { denyStart } from '../app/lifecycle.ts';
import { ENV_FILE_HELP, importApplication, readCount, textOf } from './command.ts';
import { sourceOf, writeRowClasses } from '../db/row-classes.ts';
import { printAll, writeOutput } from './inspect.ts';
import {
  errorOfDatabase,
  forDatabase,
  hasNoMigrations,
  isMigratable,
  labelOf,
  type Migratable,
  type OpenMigrator,
} from '../db/migrations/start.ts';
import { refuseInProduction } from '../db/migrations/seeds.ts';
import { fileNamed, nextNumber } from '../db/migrations/source.ts';
import { SvcError } from '../base/errors.ts';
import { codeOf, makeFolder } from './load.ts';
import { closest } from '../base/options.ts';
import type { Command, Invocation } from './command.ts';
import type { MigrationDone } from '../db/migrations/migrations.ts';
import type { MigrationState } from '../db/migrations/state.ts';

const DEFAULT_DIRECTORY = 'migrations';

type Action = (open: OpenMigrator, values: Invocation['values'], plugin: Migratable) => Promise<number>;

const ACTIONS: Readonly<Record<string, Action>> = {
  up: async ({ migrator }, values) =>
    printRest(await migrator.up({ to: textOf(values, 'to') }), 'Nothing to apply'),
  down: async ({ migrator }, values) =>
    printRest(await migrator.down({ steps: readSteps(values) }), 'Nothing to undo'),
  status: printStatus,
  repair,
  seed,
};

export const migrateCommand: Command = {
  usage: [
    'svc migrate up <module>[:<app>] [--to <id>] [--database <name>] [--env-file <file>]',
    'svc migrate down <module>[:<app>] [--steps <number>] [--database <name>] [--env-file <file>]',
    'svc migrate status <module>[:<app>] [--database <name>] [--env-file <file>]',
    'svc migrate repair <module>[:<app>] [--as applied|pending] [--database <name>] [--env-file <file>]',
    'svc migrate seed <module>[:<app>] [--in-production] [--database <name>] [--env-file <file>]',
    'svc migrate types <module>[:<app>] [--output <file>] [--database <name or address>] [--env-file <file>]',
    'svc migrate new <name> [--directory <path>]',
  ].join('\n       '),
  summary:
    'applies, undoes, lists, repairs and creates migrations of a database, fills the database for development, and writes classes for its rows',
  details: [
    '  --to <id>           up: stops after the migration with this id, for example 0003 or 0003_search',
    '  --steps <number>    down: number of migrations to undo, the last one first; default 1',
    '  --as applied        repair: records the unfinished migration as applied, if you have completed it; "--as pending", if you have undone it',
    '  --in-production     seed: also runs if SVC_ENV is production, which is the default',
    `  --directory <path>  new: the folder for the two new files; default ${DEFAULT_DIRECTORY}`,
    '  --output <file>     types: the module to write, for example src/rows.ts; default standard output',
    '  --database <name>   name of the database plugin, if the application has several; default "database".',
    '                      types: or the address of a server with all migrations, which is only read',
    ENV_FILE_HELP,
    '',
    'Files are migrations/0001_create_users.up.sql and .down.sql, numbered without gaps. Each runs once, in a transaction,',
    'even if several processes or machines apply migrations at the same time. Migrations of plugins run before the files.',
    'PostgreSQL uses 0003_search.postgres.up.sql in place of 0003_search.up.sql, if both exist; other engines likewise.',
    'Seed files are files such as seeds/10_users.sql. Each "svc migrate seed" runs all of them, in the order of their names.',
    'Types writes one class for each table, for the option "as". For SQLite, it applies the migrations to a database in memory.',
    'The application is imported, but neither started nor checked.',
    '',
    'Status: 0 done, 1 failed, or a migration needs attention (status, repair), 2 invalid arguments, 3 the application did not load',
  ].join('\n'),
  options: {
    to: { type: 'string' },
    steps: { type: 'string' },
    as: { type: 'string' },
    directory: { type: 'string' },
    output: { type: 'string' },
    'in-production': { type: 'boolean' },
    database: { type: 'string' },
    'env-file': { type: 'string' },
  },
  choices: { to: [], steps: [], as: ['applied', 'pending'], database: [] },
  verbs: ['up', 'down', 'status', 'repair', 'seed', 'types', 'new'],
  words: 1,
  takesModule: (_values, positionals) => actionOf(positionals) !== 'new',
  check: (values) => {
    readSteps(values);
    readAs(values);
  },
  run: (invocation) =>
    actionOf(invocation.positionals) === 'new' ? create(invocation) : migrate(invocation),
};

function actionOf([word]: readonly string[]): string {
  const words = [...Object.keys(ACTIONS), 'types', 'new'];
  if (word !== undefined && words.includes(word)) return word;
  const near = word === undefined ? undefined : closest(word, words);
  throw new SvcError('E_CLI_USAGE', [
    word === undefined
      ? `svc migrate needs a subcommand: ${words.join(', ')}`
      : `unknown subcommand "${word}" of svc migrate: ${near === undefined ? `the subcommands are ${words.join(', ')}` : `did you mean "${near}"?`}`,
  ]);
}

async function migrate({ positionals, values, subject }: Invocation): Promise<number> {
  denyStart(); // makes `app.run()` throw in a module that starts its application on import
  const app = await importApplication(subject!); // `subject` is set, because this command takes a module
  const view = app.inspect();
  const action = actionOf(positionals);
  const database = textOf(values, 'database');
  const address = action === 'types' && database?.includes(':') === true ? database : undefined;
  const plugins = view.plugins.filter(isMigratable);
  const plugin = pluginOf(plugins, address === undefined ? database : undefined);
  if (action === 'types') return writeTypes(plugin, address, textOf(values, 'output'));
  if (action === 'seed') refuseInProduction(view.env, values['in-production'] === true);
  const status = await runAction(action, plugin, values);
  if ((action === 'up' || action === 'status') && database === undefined)
    noteOthers(
      plugins.filter((each) => each !== plugin && hasMigrations(each)),
      action,
    );
  return status;
}

async function runAction(action: string, plugin: Migratable, values: Invocation['values']): Promise<number> {
  try {
    await using open = await plugin.openMigrator({ onDone: printDone });
    return await ACTIONS[action]!(open, values, plugin);
  } catch (error) {
    throw errorOfDatabase(error, plugin.name);
  }
}

/** Prints the commands for the other databases to standard error: standard output is for the migrations of this one. */
function noteOthers(others: readonly Migratable[], action: 'up' | 'status'): void {
  for (const { name } of others)
    process.stderr.write(
      `The database "${name}" has migrations, too: ${forDatabase(`svc migrate ${action} <module>`, name)}\n`,
    );
}

function hasMigrations(plugin: Migratable): boolean {
  try {
    return (plugin.migrationsFor?.() ?? []).length > 0;
  } catch {
    return true; // the command for that database reports invalid files
  }
}

/** Returns the plugin of the database to migrate. */
function pluginOf(plugins: readonly Migratable[], name: string | undefined): Migratable {
  const chosen =
    plugins.find((plugin) => plugin.name === (name ?? 'database')) ??
    (name === undefined && plugins.length === 1 ? plugins[0] : undefined);
  if (chosen !== undefined) return chosen;
  const names = plugins.map((plugin) => `"${plugin.name}"`).join(', ');
  throw new SvcError('E_MIGRATION_TARGET', [
    names === ''
      ? 'the application has no database'
      : name === undefined
        ? `the application has several databases, and --database names none of them: ${names}`
        : `the application has no database "${name}", only ${names}`,
  ]);
}

// -- subcommands --

const NONE_UNFINISHED = 'No migration is unfinished\n';

/** Migrations that printDone() has printed: some plugins report them only at the end. */
const printed = new Set<MigrationDone>();

/** Prints a migration as soon as it is done, because a later one may take long or fail. */
function printDone(done: MigrationDone): void {
  printed.add(done);
  process.stdout.write(
    `${done.direction === 'up' ? 'applied' : 'undone '}  ${labelOf(done)}  ${done.durationMs} ms\n`,
  );
}

function printRest(done: readonly MigrationDone[], none: string): number {
  for (const each of done) if (!printed.has(each)) printDone(each);
  if (done.length === 0) process.stdout.write(`${none}\n`);
  return 0;
}

async function printStatus(
  { migrator }: OpenMigrator,
  _values: Invocation['values'],
  plugin: Migratable,
): Promise<number> {
  const found = await migrator.status();
  const areOfOthers = found.length > 0 && hasNoMigrations(plugin);
  const states = areOfOthers ? found.map(asKnown) : found;
  if (areOfOthers)
    process.stdout.write(
      `The application has no migrations for the database "${plugin.name}". It has those of another plugin or application:\n`,
    );
  const width = Math.max(0, ...states.map((each) => labelOf(each).length));
  const lines = states.map((each) =>
    `${each.state.padEnd(10)}  ${labelOf(each).padEnd(width)}  ${each.appliedAt ?? ''}`.trimEnd(),
  );
  const folder = `. Without migrationDirectory, their folder is ${resolve('migrations')}`;
  const none = `There are no migrations${plugin.name === 'database' ? folder : ''}`; // only this one has such a folder
  process.stdout.write(`${lines.length === 0 ? none : lines.join('\n')}\n`);
  return states.every(({ state }) => state === 'applied' || state === 'unknown') ? 0 : 1;
}

/** An application without migrations of its own cannot say which migrations are unknown. */
function asKnown(each: MigrationState): MigrationState {
  return each.state === 'unknown' ? { ...each, state: 'applied' } : each;
}

function readSteps(values: Invocation['values']): number {
  return readCount('steps', values['steps'], 1, 9_999) ?? 1;
}

/** Shows the unfinished migration, or records its outcome with `--as`. */
async function repair(
  { migrator }: OpenMigrator,
  values: Invocation['values'],
  { name }: Migratable,
): Promise<number> {
  const as = readAs(values);
  if (as !== undefined) {
    const repaired = await migrator.repair(as);
    process.stdout.write(
      repaired === undefined ? NONE_UNFINISHED : `${as.padEnd(10)}  ${labelOf(repaired)}\n`,
    );
    return 0;
  }
  const unfinished = await migrator.unfinished();
  if (unfinished === undefined) {
    process.stdout.write(NONE_UNFINISHED);
    return 0;
  }
  const label = labelOf(unfinished);
  const statements = unfinished.statements.map(
    ({ line, text }) => `  line ${line}: ${text.replace(/\s+/g, ' ').trim()}\n`,
  );
  const command = forDatabase('svc migrate repair <module>', name);
  process.stdout.write(
    `unfinished migration: ${label}${unfinished.isRunning ? ' (a process is running this migration now)' : ''}\n${statements.join('')}` +
      `Find out which of these statements the database has executed. Undo these and run ${command} --as pending, or execute the rest and run ${command} --as applied.\n`,
  );
  return 1;
}

/** Runs the seed files after all migrations have been applied. */
async function seed(
  { migrator, seeder }: OpenMigrator,
  _values: Invocation['values'],
  { name }: Migratable,
): Promise<number> {
  if (seeder === undefined)
    throw new SvcError('E_SEED', [
      'the DatabasePlugin of this database has no folder of seed files: set the option seedDirectory of the plugin',
    ]);
  const pending = await migrator.pending();
  if (pending.length > 0)
    throw new SvcError('E_SEED', [
      `some migrations are not applied yet, so run "${forDatabase('svc migrate up <module>', name)}" first: ${pending.map(labelOf).join(', ')}`,
    ]);
  const done = await seeder.run(({ file, durationMs }) =>
    process.stdout.write(`seeded   ${file}  ${durationMs} ms\n`),
  );
  if (done.length === 0) process.stdout.write('There are no seed files\n');
  return 0;
}

/** Writes the classes of rows to a file, or to standard output. */
async function writeTypes(
  plugin: Migratable,
  address: string | undefined,
  output: string | undefined,
): Promise<number> {
  if (plugin.migratedTables === undefined)
    throw new SvcError('E_MIGRATION_TARGET', [`the plugin "${plugin.name}" cannot describe its tables`]);
  const present = output !== undefined && existsSync(output) ? readFileSync(output, 'utf8') : undefined;
  if (present !== undefined && present.trim() !== '' && sourceOf(present) === undefined)
    throw new SvcError('E_CLI_USAGE', [
      `the file "${output!}" of --output was not written by this command: name another file`,
    ]);
  const migrated = await plugin.migratedTables(address);
  if (migrated.tables.length === 0)
    throw new SvcError('E_MIGRATION_TARGET', [`the migrations of "${plugin.name}" make no table`]);
  const text = writeRowClasses(migrated).trimEnd();
  if (output === undefined) await printAll(text);
  else if (present?.replaceAll('\r\n', '\n').trimEnd() === text) await printAll(`${output} is up to date`);
  else {
    writeOutput(output, text);
    await printAll(
      `${output} has ${migrated.tables.length} ${migrated.tables.length === 1 ? 'class' : 'classes'}`,
    );
  }
  return 0;
}

function readAs({ as }: Invocation['values']): 'applied' | 'pending' | undefined {
  if (as === undefined || as === 'applied' || as === 'pending') return as;
  throw new SvcError('E_CLI_USAGE', [`--as must be "applied" or "pending", found "${String(as)}"`]);
}

/** Writes the two files of a new migration, up and down. Its name must be unused. */
async function create({ positionals: [, given, ...surplus], values }: Invocation): Promise<number> {
  if (given === undefined || surplus.length > 0)
    throw new SvcError('E_CLI_USAGE', [
      given === undefined
        ? 'svc migrate new needs a name, for example create_users'
        : `svc migrate new takes one name, but found a second argument "${surplus[0]!}"`,
    ]);
  const name = nameOf(given);
  const directory = textOf(values, 'directory') ?? DEFAULT_DIRECTORY;
  const number = nextNumber(directory);
  const earlier = fileNamed(directory, name);
  if (earlier !== undefined)
    throw new SvcError('E_CLI_USAGE', [
      `svc migrate new needs an unused name: ${join(directory, earlier)} already exists`,
    ]);
  const base = join(directory, `${number}_${name}`);
  const files = [`${base}.up.sql`, `${base}.down.sql`] as const;
  try {
    makeFolder(directory);
    const up = '-- What changes. It runs in a transaction, once for each database.\n';
    writeFileSync(files[0], up, { flag: 'wx' });
    writeFileSync(files[1], `-- What undoes ${number}_${name}.up.sql.\n`, { flag: 'wx' });
  } catch (error) {
    throw new SvcError(
      'E_MIGRATION_FILES',
      [directory, `the files of the new migration cannot be written (${codeOf(error)})`],
      { cause: error },
    );
  }
  process.stdout.write(`${files.join('\n')}\n`);
  return 0;
}

/** Returns the name of a migration in lower case, with "_" between words. Rejects slashes and dots. */
function nameOf(given: string): string {
  const name = given
    .toLowerCase()
    .replace(/[\s_-]+/g, '_')
    .replace(/^_|_$/g, '');
  if (/^[a-z0-9_]+$/.test(name)) return name;
  const hint = /[\\/]/.test(given) ? '. Choose the folder with --directory' : '';
  throw new SvcError('E_CLI_USAGE', [
    `svc migrate new needs a name of letters a-z, digits, spaces, "-" and "_", found "${given}"${hint}`,
  ]);
}
