import assert from 'node:assert/strict';
import { readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Svc, createLogger } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { findStaleRowClasses } from '../../../src/check/rules/environment.ts';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { writeRowClasses } from '../../../src/db/row-classes.ts';
import { FIRST, SECOND } from '../../support/certificates.ts';
import { folder, write } from '../../support/run.ts';
import type { Plugin } from 'svc';

function application(...plugins: readonly Plugin[]): Svc {
  const app = new Svc({ logger: createLogger({ level: 'silent' }), env: 'production' });
  for (const plugin of plugins) app.register(plugin);
  return app;
}

const found = async (app: Svc): Promise<string[]> =>
  (await app.checkLive()).findings.map(
    ({ rule, severity, subject, message }) => `${rule} ${severity} ${subject}: ${message}`,
  );

test('app.checkLive() reports nothing if the application has no database, or if every migration is applied', async (t) => {
  assert.deepEqual(await found(application({ name: 'other', register: () => undefined })), []);
  const cwd = folder(t, { 'changes/0001_a.up.sql': 'create table a (id);' });
  const plugin = new DatabasePlugin(`sqlite:///${cwd}/data.db`, { migrationDirectory: join(cwd, 'changes') });
  const app = application(plugin);
  assert.deepEqual(await found(app), ['SVC402 error database database: 0001_a has not been applied']);
  assert.deepEqual(readdirSync(cwd), ['changes']); // the check created no database
  {
    await using open = await plugin.openMigrator();
    await open.migrator.up();
  }
  assert.deepEqual(await found(app), []);
  write(cwd, { 'changes/0001_a.up.sql': 'create table b (id);' });
  const [finding] = (await app.checkLive()).findings;
  assert.equal(finding!.message, '0001_a has changed since it was applied');
  assert.match(finding!.remedy, /Restore the migration file/);
  renameSync(join(cwd, 'changes/0001_a.up.sql'), join(cwd, 'changes/0001_b.up.sql'));
  const [other] = (await app.checkLive()).findings;
  assert.equal(other!.message, '0001_b was applied as another file (0001_a)');
  assert.match(other!.remedy, /Give the later migration the next number/);
});

test('if a database fails, app.checkLive() names the plugin of this database, and still checks the other databases', async (t) => {
  const cwd = folder(t, {
    'good/0001_a.up.sql': '-- svc: no-transaction\nvacuum;\ninsert into missing values (1);',
    'bad/1.sql': '',
  });
  const unfinished = new DatabasePlugin(`sqlite:///${cwd}/unfinished.db`, {
    name: 'unfinished',
    migrationDirectory: join(cwd, 'good'),
  });
  const app = application(
    new DatabasePlugin(`sqlite:///${cwd}/absent/data.db`, {
      name: 'absent',
      migrationDirectory: join(cwd, 'good'),
    }),
    new DatabasePlugin(`sqlite:///${cwd}/misnamed.db`, {
      name: 'misnamed',
      migrationDirectory: join(cwd, 'bad'),
    }),
    unfinished,
  );
  app.check(); // registers the plugins
  {
    await using open = await unfinished.openMigrator();
    await assert.rejects(open.migrator.up(), { code: 'E_MIGRATION_FAILED' });
  }
  const [absent, misnamed, begun, ...more] = await found(app);
  assert.match(absent!, /^SVC402 error database absent: the database cannot be opened: .*absent/);
  assert.match(
    misnamed!,
    /^SVC402 error database misnamed: the migrations cannot be read: .*"1\.sql" is not a valid name of a migration file/,
  );
  assert.equal(
    begun,
    'SVC402 error database unfinished: 0001_a was started without a transaction and has not finished',
  );
  assert.deepEqual(more, []);
});

test('app.checkLive() reports a configured TLS certificate that is unreadable, has no configured key or does not match its key', async () => {
  const configured = (config: Record<string, string>): Svc =>
    new Svc({ logger: createLogger({ level: 'silent' }), config });
  assert.deepEqual(await found(configured({ tlsCert: FIRST.cert, tlsKey: FIRST.key })), []);
  for (const [config, message] of [
    [{ tlsCert: FIRST.cert, tlsKey: SECOND.key }, /the key does not belong to the certificate/],
    [{ tlsCert: FIRST.cert }, /no private key is configured/],
    [{ tlsCert: '/nowhere.pem', tlsKey: FIRST.key }, /cannot be read: ENOENT/],
  ] as const) {
    const [finding, ...more] = await found(configured(config));
    assert.match(finding!, /^SVC405 warning SVC_TLS_CERT: Cannot serve TLS: /);
    assert.match(finding!, message);
    assert.deepEqual(more, []);
  }
});

test('row classes of an unknown database or of other migrations are reported, and other modules are not (SVC406)', async (t) => {
  const cwd = folder(t, { 'changes/0001_a.up.sql': 'create table a (id);' });
  const plugin = new DatabasePlugin('sqlite::memory:', { migrationDirectory: join(cwd, 'changes') });
  const { plugins } = application(plugin, { name: 'other', register: () => undefined }).inspect();
  const rule = CORE_RULES.find(({ id }) => id === 'SVC406')!;
  const reported = async (database: string, hash: string): Promise<string[]> => {
    const source = writeRowClasses({ database, dialect: 'postgres', snakeCase: false, hash, tables: [] });
    const modules = [
      { file: 'src/rows.ts', source },
      { file: 'src/app.ts', source: '' },
    ];
    const findings = await findStaleRowClasses({ plugins }, rule, modules);
    return findings.map(({ subject, message, place }) => `${subject} ${place!.file}: ${message}`);
  };
  const hash = plugin.migrationHash('postgres');
  const stale = [
    'module rows.ts src/rows.ts: the row classes were written for other migrations of the database ',
  ];
  assert.deepEqual(await reported('database', hash), []);
  assert.deepEqual(await reported('database', hash.replace(/./g, '0')), [`${stale}"database"`]);
  assert.deepEqual(await reported('other', hash), []);
  assert.deepEqual(await reported('gone', hash), [
    'module rows.ts src/rows.ts: the row classes are of the database "gone", which the application does not have',
  ]);
  write(cwd, { 'changes/notes.txt': '', 'changes/1.sql': '' });
  assert.deepEqual(await reported('database', hash), []); // invalid migrations are SVC402
});
