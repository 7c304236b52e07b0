/**
 * `svc check --database` and `--scratch-database`: statements are prepared on a server, which stays as it was.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { readFileSync } from 'node:fs';
import { before, test, type TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { openDatabase, type Database } from '../../src/db/index.ts';
import { Migrator } from '../../src/db/migrations/migrations.ts';
import { readTables } from '../../src/db/tables.ts';
import { BIN, build } from '../support/build.ts';
import { SERVERS } from '../support/every-database.ts';
import { inReverse, project, svc } from '../support/run.ts';

before(build);

const APP = `import { Svc, Depends } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@localhost/shop'));
app.get('/authors/{id:int}', { db: Depends(db) }, ({ db, params }) => db.fetchAll('select id, name from author where id = ?', [params.id]));
app.get('/wrong', { db: Depends(db) }, ({ db }) => db.fetchAll('select nme from author'));
app.post('/authors', { db: Depends(db) }, async ({ db }) => { await db.execute('insert into author (id, name) values (?, ?)', [7, 'Ada']); });
app.delete('/authors', { db: Depends(db) }, async ({ db }) => { await db.execute('delete from author'); });
`;
const MIGRATION = 'create table author (id int primary key, name varchar(20) not null);';

/** A server, the database of an application on it, and a connection to look at both. */
interface Place {
  readonly engine: 'postgres' | 'mariadb' | 'mysql';
  readonly server: string;
  readonly application: string;
  readonly admin: Database;
  readonly db: Database;
  /** Returns the rows and the tables of the application, and the names of all databases. */
  dump(): Promise<unknown>;
}

function onEachServer(behavior: string, run: (place: Place, t: TestContext) => Promise<void>): void {
  for (const tested of SERVERS)
    test(`${tested.name}: svc check ${behavior}`, async (t) => {
      const engine = tested.dialect;
      const scope = inReverse(t);
      const [server, application] = [await tested.server(t), await tested.address(t, scope)];
      if (server === undefined || application === undefined) return;
      const admin = await openDatabase(server);
      scope.after(() => admin.close());
      const db = await openDatabase(application);
      scope.after(() => db.close());
      await db.script(`${MIGRATION} insert into author (id, name) values (1, 'Grace')`);
      const dump = async (): Promise<unknown> => ({
        tables: await readTables(db, new Set()),
        authors: await db.fetchAll('select * from author order by id'),
        databases: await databasesOf(admin),
      });
      await run({ engine, server, application, admin, db, dump }, t);
    });
}

async function databasesOf(admin: Database): Promise<readonly string[]> {
  const rows = await admin.fetchArrays(
    admin.dialect === 'postgres' ? 'select datname::text from pg_database order by 1' : 'show databases',
  );
  return rows.rows.map(([name]) => String(name));
}

const scratchesOf = async (admin: Database): Promise<readonly string[]> =>
  (await databasesOf(admin)).filter((name) => name.startsWith('svc_check_'));

/** A folder with the application, and migrations by their names. */
const applicationIn = (t: TestContext, migrations: Readonly<Record<string, string>> = {}): string =>
  project(t, {
    'app.ts': APP,
    'migrations/0001_author.up.sql': MIGRATION,
    ...Object.fromEntries(Object.entries(migrations).map(([name, text]) => [`migrations/${name}`, text])),
  });

interface Found {
  readonly status: number | null;
  readonly findings: readonly (readonly [rule: string, place: string | undefined, message: string])[];
  readonly output: string;
}

async function check(cwd: string, ...args: readonly string[]): Promise<Found> {
  const ended = await svc(['check', 'app.ts', '--format', 'json', '--only', 'SVC4*', ...args], { cwd });
  const { findings } = JSON.parse(ended.stdout) as {
    findings: { rule: string; message: string; place: { file: string; line: number } | null }[];
  };
  return {
    status: ended.status,
    findings: findings.map(({ rule, message, place }) => [
      rule,
      place === null ? undefined : `${place.file}:${place.line}`,
      message,
    ]),
    output: ended.stdout + ended.stderr,
  };
}

/** The only finding about the statements of the application. */
const isWrongColumn = ({ findings }: Found): void => {
  assert.deepEqual(
    findings.map(([rule, place]) => [rule, place]),
    [['SVC411', 'app.ts:6']],
  );
  assert.match(findings[0]![2], /nme/);
};

/** Records the migrations as applied in the database of the application, whose table exists. */
async function recordApplied({ db }: Place, cwd: string): Promise<void> {
  await db.script('drop table author');
  await new Migrator(db, { directory: `${cwd}/migrations` }).up();
  await db.execute("insert into author (id, name) values (1, 'Grace')");
}

onEachServer('--database prepares statements on a migrated database, and runs none', async (place, t) => {
  const cwd = applicationIn(t);
  await recordApplied(place, cwd);
  const dump = await place.dump();
  const found = await check(cwd, '--database', place.application);
  isWrongColumn(found);
  assert.equal(found.status, 1);
  assert.deepEqual(await place.dump(), dump);
});

onEachServer(
  '--database has one finding when the migrations differ, and prepares nothing',
  async (place, t) => {
    const cwd = applicationIn(t, { '0002_more.up.sql': 'create table more (id int)' });
    const dump = await place.dump();
    const { findings } = await check(cwd, '--database', place.application);
    assert.equal(findings.length, 1);
    assert.equal(findings[0]![0], 'SVC402');
    assert.match(findings[0]![2], /0001_author is pending, 0002_more is pending/);
    assert.deepEqual(await place.dump(), dump);
  },
);

onEachServer('--scratch-database finds the statements, and leaves the server as it was', async (place, t) => {
  const dump = await place.dump();
  isWrongColumn(await check(applicationIn(t), '--scratch-database', place.server));
  assert.deepEqual(await place.dump(), dump);
});

onEachServer(
  '--scratch-database reports a migration that fails, and leaves the server as it was',
  async (place, t) => {
    const dump = await place.dump();
    const cwd = applicationIn(t, { '0002_wrong.up.sql': 'alter table author add column name int' });
    const { findings, status } = await check(cwd, '--scratch-database', place.server);
    assert.deepEqual([status, findings.map(([rule]) => rule)], [1, ['SVC402']]);
    assert.match(findings[0]![2], /0002_wrong\.up\.sql/);
    assert.deepEqual(await place.dump(), dump);
  },
);

onEachServer('shows no password of an address, whatever is wrong with it', async ({ server }, t) => {
  const cwd = applicationIn(t);
  const secret = 'p4ssw0rd-of-nobody';
  const wrong = server.replace(/\/\/[^@]*@/, `//svc_nobody:${secret}@`);
  for (const [option, url] of [
    ['--database', wrong],
    ['--scratch-database', wrong],
    ['--database', `${wrong}?nonsense=1`],
    ['--database', `other=${wrong}`],
    ['--scratch-database', wrong.replace(':', '-x:')],
    ['--database', wrong.replace(':', '')],
  ] as const) {
    const ended = await svc(['check', 'app.ts', '--only', 'SVC402', option, url], { cwd });
    assert.ok(ended.status === 1 || ended.status === 2, `${option} ${url}: ${ended.status}`);
    assert.equal(`${ended.stdout}${ended.stderr}`.includes(secret), false, ended.stdout + ended.stderr);
  }
});

onEachServer('--database needs no more than the right to read', async (place, t) => {
  const { admin, application, engine } = place;
  const cwd = applicationIn(t);
  await recordApplied(place, cwd);
  const user = `svc_reads_${process.pid}`;
  const schema = /(svc_test_\d+_\d+)/.exec(application)![1]!;
  await admin.script(
    engine === 'postgres'
      ? `create role ${user} login password 'x'; grant usage on schema ${schema} to ${user}; grant select on all tables in schema ${schema} to ${user}`
      : `create user ${user} identified by 'x'; grant select on ${schema}.* to ${user}`,
  );
  t.after(async () => {
    await using cleaner = await openDatabase(place.server);
    await cleaner.script(
      engine === 'postgres' ? `drop owned by ${user}; drop role ${user}` : `drop user ${user}`,
    );
  });
  const dump = await place.dump();
  isWrongColumn(await check(cwd, '--database', application.replace(/\/\/[^@]*@/, `//${user}:x@`)));
  assert.deepEqual(await place.dump(), dump);
});

// -- ends of a run --

/** Waits until `isSo` returns true. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await systemClock.sleep(20);
}

/** A run of `svc check --scratch-database` as a process group, and the process that inspects the application. */
class Run {
  readonly child: ChildProcess;

  constructor(cwd: string, url: string, ...args: readonly string[]) {
    this.child = spawn(process.execPath, [BIN, 'check', 'app.ts', '--scratch-database', url, ...args], {
      cwd,
      detached: true,
      stdio: 'ignore',
    });
  }

  /** Sends a signal to the command, to the process that it has started, or to both. */
  async end(signal: NodeJS.Signals, to: 'command' | 'inspector' | 'both'): Promise<void> {
    const { pid } = this.child;
    const inspector = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]);
    const ended = this.child.exitCode === null ? once(this.child, 'exit') : undefined;
    process.kill(to === 'both' ? -pid! : to === 'command' ? pid! : inspector, signal);
    await ended;
    await until(async () => !isAlive(inspector));
  }
}

function isAlive(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0] !== 'Z';
  } catch {
    return false;
  }
}

/** SQL by which a migration waits until a test opens a gate. */
const GATE = {
  postgres: `do $$ begin
    while not exists (select from pg_stat_activity where application_name = 'svc_test_gate') loop
      perform pg_sleep(0.02), pg_stat_clear_snapshot();
    end loop;
  end $$`,
  mysql: "do get_lock('svc_test_gate', 600)",
};
/** SQL by which a session locks the table of the application. */
const LOCK = 'lock table author in access exclusive mode';
/** SQL that makes PostgreSQL wait while it creates a database. */
const NO_CREATION = 'lock table pg_database in exclusive mode';
/** Number of sessions that are in a statement, besides those that hold locks for the test. */
const RUNNING = {
  postgres:
    "select count(*) from pg_stat_activity where state = 'active' and query ilike ? and pid <> pg_backend_pid()",
  mysql: 'select count(*) from information_schema.processlist where info like ? and id <> connection_id()',
};
const familyOf = (engine: Place['engine']): 'postgres' | 'mysql' =>
  engine === 'postgres' ? engine : 'mysql';

/** Runs a statement that takes a lock. Returns when it has the lock, which lasts until the result is disposed of. */
async function holding(url: string, text: string): Promise<AsyncDisposable> {
  const db = await openDatabase(url);
  const [held, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const session = db.run(
    'transaction',
    async (connection) => {
      if (db.dialect === 'postgres')
        await connection.begin({ isolation: undefined, isReadOnly: false }, undefined);
      await connection.execute(text, [], undefined);
      held.resolve();
      await ended.promise;
    },
    { timeoutMs: 0 },
  );
  session.catch(held.reject);
  await held.promise;
  return {
    [Symbol.asyncDispose]: async () => {
      ended.resolve();
      await session.catch(() => undefined);
      await db.close();
    },
  };
}

/** Places in a run at which a test ends it. */
const POINTS = ['while the database is created', 'in a migration', 'while a statement is prepared'] as const;
type Point = (typeof POINTS)[number];

/** Starts a run, and calls `end` when the run waits at a point. */
async function at(
  point: Point,
  place: Place,
  t: TestContext,
  end: (running: Run) => Promise<void>,
  ...args: readonly string[]
): Promise<void> {
  const { engine, server, admin } = place;
  const waits = (text: string) => () =>
    admin.scalar(RUNNING[familyOf(engine)], [text]).then((count) => Number(count) > 0);
  if (point === 'while the database is created') {
    await using _lock = await holding(server, NO_CREATION);
    const running = new Run(applicationIn(t), server, ...args);
    await until(waits('create database%'));
    await end(running);
    return;
  }
  const cwd = applicationIn(t, { '0002_gate.up.sql': GATE[familyOf(engine)] });
  await using _closed = engine !== 'postgres' ? await holding(server, GATE.mysql) : undefined;
  const running = new Run(cwd, server, ...args);
  await until(waits('%svc_test_gate%'));
  // a lock on a table of MariaDB or MySQL does not stop a prepare
  if (point === 'in a migration' || engine !== 'postgres') return end(running);
  const [name = ''] = await scratchesOf(admin);
  await using _lock = await holding(server.replace(/\/[^/]*$/, `/${name}`), LOCK);
  await using _gate = await openDatabase(`${server}?application_name=svc_test_gate`);
  await until(waits('%from author%'));
  await end(running);
}

for (const point of POINTS)
  onEachServer(
    `that is killed ${point} changes no table, and the next run leaves nothing`,
    async (place, t) => {
      if (place.engine !== 'postgres' && point !== 'in a migration') return;
      const dump = await place.dump();
      await at(point, place, t, (running) => running.end('SIGKILL', 'both'));
      await until(
        async () =>
          Number(await place.admin.scalar(RUNNING[familyOf(place.engine)], ['create database%'])) === 0,
      );
      isWrongColumn(await check(applicationIn(t), '--scratch-database', place.server));
      assert.deepEqual(await place.dump(), dump);
    },
  );

/** Sessions of a server by the port of their client. */
const SESSIONS = {
  postgres: 'select count(*) from pg_stat_activity where client_port = ?',
  mysql: "select count(*) from information_schema.processlist where host like concat('%:', ?)",
};
/** Number of runs that a test kills. */
const KILLS = 8;

/** A proxy in front of a server. Counts what clients send, and calls `onMessage` after it has passed the number on. */
async function countingProxy(
  t: TestContext,
  server: string,
  onMessage: (count: number) => void,
): Promise<{ readonly url: string; readonly ports: Set<number>; sent: number }> {
  const { hostname, port } = new URL(server);
  const state = { url: '', ports: new Set<number>(), sent: 0 };
  const proxy = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    upstream.once('connect', () => void state.ports.add(upstream.localPort!));
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
    upstream.on('data', (bytes) => client.write(bytes));
    client.on('data', (bytes) => {
      upstream.write(bytes);
      onMessage(++state.sent);
    });
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => proxy.close());
  state.url = server.replace(`${hostname}:${port}`, `127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  return state;
}

onEachServer(
  'that is killed after any message to the server changes no table, and the next run leaves nothing',
  async (place, t) => {
    const { admin, engine, server } = place;
    const cwd = applicationIn(t);
    const dump = await place.dump();
    let kill: (count: number) => void = () => undefined;
    const proxy = await countingProxy(t, server, (count) => kill(count));
    isWrongColumn(await check(cwd, '--scratch-database', proxy.url));
    const all = proxy.sent;
    assert.ok(all > 20, `${all} messages`);
    let killed = 0;
    for (let run = 1; run <= KILLS; run++) {
      const last = Math.ceil((run * all) / (KILLS + 1));
      proxy.sent = 0;
      proxy.ports.clear();
      const { child } = new Run(cwd, proxy.url);
      const ended = once(child, 'exit');
      kill = (count) => {
        if (count === last) killed += Number(process.kill(-child.pid!, 'SIGKILL'));
      };
      await ended;
      kill = () => undefined;
      const sessions = async (): Promise<number> => {
        const counts = await Promise.all(
          [...proxy.ports].map((port) => admin.scalar(SESSIONS[familyOf(engine)], [port])),
        );
        return counts.reduce<number>((sum, count) => sum + Number(count), 0);
      };
      await until(async () => (await sessions()) === 0);
    }
    assert.ok(killed > KILLS / 2, `${killed} runs`);
    isWrongColumn(await check(cwd, '--scratch-database', server));
    assert.deepEqual(await place.dump(), dump);
  },
);

/** Signals that end a run early, and the process that gets each. */
const ENDS = [
  ['SIGINT', 'both'],
  ['SIGTERM', 'command'],
  ['SIGTERM', 'inspector'],
  ['SIGKILL', 'command'],
] as const;
const RECEIVERS = {
  both: 'all of its processes get',
  command: 'the command gets',
  inspector: 'the process that imports the application gets',
};
for (const [index, [signal, to]] of ENDS.entries())
  onEachServer(`drops its scratch database when ${RECEIVERS[to]} ${signal}`, async (place, t) => {
    const dump = await place.dump();
    await at(POINTS[1 + (index % 2)]!, place, t, (running) => running.end(signal, to));
    assert.deepEqual(await place.dump(), dump);
  });

onEachServer('drops its scratch database at its time limit', async (place, t) => {
  const dump = await place.dump();
  await at(
    'in a migration',
    place,
    t,
    ({ child }) => once(child, 'exit').then(() => undefined),
    '--timeout',
    '1',
  );
  assert.deepEqual(await place.dump(), dump);
});

onEachServer('--database ends with a finding when the server does not answer', async (place, t) => {
  const cwd = applicationIn(t);
  const sockets = new Set<{ destroy(): void }>();
  const silent = createServer((socket) => void sockets.add(socket)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const { port } = silent.address() as AddressInfo;
  const url = place.server.replace(/@[^/]*/, `@127.0.0.1:${port}`);
  const { status, findings } = await check(cwd, '--database', `${url}?connect_timeout=1`);
  assert.deepEqual([status, findings.map(([rule]) => rule)], [1, ['SVC402']]);
});

test('svc check refuses an address without its option with status 2, and does not quote it', async (t) => {
  const cwd = applicationIn(t);
  for (const args of [['postgres://u:s3cret@h/db'], ['app.ts', 'postgres://u:s3cret@h/db']]) {
    const { status, stdout, stderr } = await svc(['check', ...args], { cwd });
    assert.equal(status, 2);
    assert.match(stderr, /--database/);
    assert.equal(`${stdout}${stderr}`.includes('s3cret'), false);
  }
});

test('svc check reports a database that cannot be used whatever rules --only selects, but not with --skip', async (t) => {
  const cwd = applicationIn(t);
  const rulesWith = async (...args: readonly string[]): Promise<unknown> => {
    const url = 'missing=postgres://127.0.0.1:1/x';
    const ended = await svc(['check', 'app.ts', '--format', 'json', '--database', url, ...args], { cwd });
    const { findings } = JSON.parse(ended.stdout) as { findings: { rule: string }[] };
    return findings.flatMap(({ rule }) => (rule === 'SVC402' ? [rule] : []));
  };
  assert.deepEqual(await rulesWith('--only', 'SVC41*'), ['SVC402']);
  assert.deepEqual(await rulesWith('--only', 'SVC41*', '--skip', 'SVC402'), []);
});
