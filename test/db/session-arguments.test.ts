/** Arguments of the methods of a session that JavaScript allows and TypeScript refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase, sql } from '../../src/db/index.ts';
import { Field, Schema, int } from '../../src/index.ts';
import { fault } from '../contract/database.ts';
import type { Session } from '../../src/db/index.ts';

class Note extends Schema {
  id = Field(int);
}

type Method = (...args: readonly unknown[]) => Promise<unknown>;

const METHODS: Readonly<Record<string, (session: Session) => Method>> = {
  execute: (session) => session.execute.bind(session) as Method,
  fetchOne: (session) => session.fetchOne.bind(session) as Method,
  fetchAll: (session) => session.fetchAll.bind(session) as Method,
  fetchSets: (session) => session.fetchSets.bind(session) as Method,
  fetchArrays: (session) => session.fetchArrays.bind(session) as Method,
  scalar: (session) => session.scalar.bind(session) as Method,
  stream:
    (session) =>
    async (...args) => {
      const stream = session.stream.bind(session) as (...given: readonly unknown[]) => AsyncIterable<unknown>;
      for await (const _ of stream(...args)) continue;
    },
};

const IN_TEMPLATE = {
  code: 'E_DB_PARAMETER',
  message:
    /an sql template contains its values: write each value as \$\{…\} inside the template, and pass the options as the second argument$/,
};
const NO_LIST = {
  code: 'E_DB_PARAMETER',
  message: /the values: a list of values is needed, found an object$/,
};

test('every method of a session refuses values or options that an sql template would ignore', async () => {
  await using db = await openDatabase('sqlite::memory:');
  const query = sql`select ${1} as id`;
  const options = { timeoutMs: 5_000 };
  for (const [name, method] of Object.entries(METHODS)) {
    const run = method(db);
    for (const args of [[[]], [[1]], [[], options], [[], { as: Note }], [undefined, options], [options, {}]])
      await assert.rejects(run(query, ...args), IN_TEMPLATE, `${name} ${JSON.stringify(args)}`);
    await assert.rejects(run('select 1 as id', options), NO_LIST, name);
    await run(query);
    await run(query, options);
    await run(query, undefined, undefined);
  }
});

test('executeMany() and script() refuse an sql template with values', async () => {
  await using db = await openDatabase('sqlite::memory:');
  await db.script('create table note (id integer)');
  const query = sql`insert into note values (${1})` as unknown as string;
  await assert.rejects(db.executeMany(query, [[2]]), fault('E_DB_STATEMENT'));
  await assert.rejects(db.script(query), fault('E_DB_STATEMENT'));
  assert.equal(await db.scalar('select count(*) from note'), 0);
});
