/**
 * Idempotency keys in processes that share a database, also when one of them dies.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { IdempotencyMiddleware, Svc, int } from 'svc';
import { DatabaseRecordStore, openDatabase, sql } from 'svc/db';
import { ManualClock, TestClient } from 'svc/testing';
import { ROOT } from '../../support/build.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { folder, start } from '../../support/run.ts';
import type { Database } from 'svc/db';
import type { TestContext } from 'node:test';
import type { Running } from '../../support/run.ts';

const KEY = { 'Idempotency-Key': '"one"', 'Content-Type': 'application/json', 'X-User': 'ada' };
const ORDER = { method: 'POST', headers: KEY, body: '{"item":"tea"}' };

interface Shared {
  readonly db: Database;
  readonly children: readonly Running[];
  readonly urls: readonly string[];
  executions(): Promise<number | undefined>;
  /** Resolves when `count` executions have begun. */
  begun(count: () => number): Promise<void>;
}

async function processes(t: TestContext, count: number): Promise<Shared> {
  const url = `sqlite:${join(folder(t), 'shared.db')}`;
  const db = await openDatabase(url, { busyTimeoutMs: 60_000 });
  let isOver = false;
  t.after(() => {
    isOver = true;
    return db.close();
  });
  await new DatabaseRecordStore(db).createTable();
  await db.execute(sql`create table executions (name text, item text)`);
  await db.execute(sql`create table gate (open integer)`);
  const children = Array.from({ length: count }, (_, id) =>
    start(
      t,
      process.execPath,
      ['--conditions=svc-source', join(ROOT, 'test/support/idempotency-child.ts'), url, `p${id}`],
      { env: { NODE_V8_COVERAGE: '' } },
    ),
  );
  const ports = await Promise.all(children.map((child) => child.printed(/^(\d+)$/m)));
  const executions = (): Promise<number | undefined> =>
    db.scalar(sql`select count(*) from executions`, { as: int });
  return {
    db,
    children,
    urls: ports.map(([port]) => `http://127.0.0.1:${port}/orders`),
    executions,
    async begun(least) {
      while (!isOver && (await executions())! < least())
        await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('if six processes receive a hundred equal requests at once, only one request runs, and later requests get its stored response', async (t) => {
  const { db, urls, executions, begun } = await processes(t, 6);
  let answered = 0;
  const sent = Array.from({ length: 100 }, async (_, index) => {
    const answer = await fetch(urls[index % urls.length]!, ORDER);
    answered++;
    return answer;
  });
  for (const each of sent) each.catch(() => undefined); // checked below, unless a test failed before
  await begun(() => 100 - answered); // each is answered or executed
  assert.deepEqual(
    [answered, await executions()],
    [99, 1],
    'the others are answered while the one is executed',
  );
  await db.execute(sql`insert into gate values (1)`);
  const statuses = await Promise.all(sent.map(async (answer) => (await answer).status));
  assert.deepEqual([statuses.filter((status) => status === 201).length, await executions()], [1, 1]);
  const executed = await (await sent[statuses.indexOf(201)]!).text();
  for (const url of urls) {
    const again = await fetch(url, ORDER);
    assert.deepEqual(
      [
        again.status,
        again.headers.get('idempotency-replayed'),
        again.headers.get('location'),
        await again.text(),
      ],
      [201, 'true', '/orders/tea', executed],
    );
  }
  const other = await fetch(urls[0]!, { ...ORDER, headers: { ...KEY, 'X-User': 'eve' } });
  assert.deepEqual([other.headers.get('idempotency-replayed'), await executions()], [null, 2]);
});

test('if a process is killed during a request, repeated requests get 409 until the idempotency lease ends, and then the request runs once', async (t) => {
  const { db, children, urls, executions, begun } = await processes(t, 1);
  const lost = fetch(urls[0]!, ORDER).then(
    () => assert.fail('it was answered'),
    () => undefined,
  );
  await begun(() => 1);
  children[0]!.child.kill('SIGKILL');
  await lost;
  const clock = new ManualClock(Date.now());
  const app = new Svc({ logger: collectedLog().logger })
    .use(
      new IdempotencyMiddleware({
        store: new DatabaseRecordStore(db, { clock }),
        principal: (req) => req.headers['x-user'],
      }),
    )
    .post('/orders', { public: true }, async () => {
      await db.execute(sql`insert into executions values ('parent', 'tea')`);
      return 'again';
    });
  await using client = new TestClient(app, { clock });
  const send = (): Promise<Response> => client.post('/orders', { headers: KEY, body: ORDER.body });
  assert.equal((await send()).status, 409);
  await clock.advance(3_000);
  const answers = await Promise.all([send(), send(), send()]);
  assert.deepEqual([answers.filter(({ status }) => status === 200).length, await executions()], [1, 2]);
  assert.equal((await send()).headers.get('idempotency-replayed'), 'true');
});
