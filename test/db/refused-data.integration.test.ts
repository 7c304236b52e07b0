/**
 * Values from a request that a database cannot store, and the handler of an application for them, on every
 * engine.
 */
import assert from 'node:assert/strict';
import { Depends, Field, Schema, Svc, UnprocessableContent, str } from '../../src/index.ts';
import { DataError, DatabasePlugin, db as dbKey } from '../../src/db/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { onEveryDatabase } from '../support/every-database.ts';

class Note extends Schema {
  title = Field(str);
}

onEveryDatabase(
  'an exception handler for DataError can answer 422 to a request with a value that the database cannot store',
  async (db, url, t) => {
    await db.script('create table note (title varchar(40) not null, stars integer)');
    const app = new Svc({ env: 'test' });
    app.register(new DatabasePlugin(url));
    app.exceptionHandler(DataError, ({ sqlstate }) => {
      throw new UnprocessableContent(`The data cannot be stored (${sqlstate})`);
    });
    app.post('/notes', { body: Note, db: Depends(dbKey), status: 204 }, async (c) => {
      await c.db.execute('insert into note (title) values (?)', [c.body.title]);
    });
    app.get('/notes/{title}', { db: Depends(dbKey) }, async (c) => {
      const count = await c.db.scalar('select count(*) from note where title = ?', [c.params.title]);
      return { count: Number(count) };
    });
    app.get('/stars/{stars}', { db: Depends(dbKey) }, async (c) => {
      const count = await c.db.scalar('select count(*) from note where stars = ?', [BigInt(c.params.stars)]);
      return { count: Number(count) };
    });
    const client = new TestClient(app);
    t.after(() => client.close());
    const hasNul = db.dialect !== 'postgres';
    const post = async (title: string): Promise<number> =>
      (await client.post('/notes', { json: { title } })).status;
    assert.equal(await post('plain'), 204);
    assert.equal(await post('a\0b'), hasNul ? 204 : 422);
    assert.equal((await client.get('/notes/a%00b')).status, hasNul ? 200 : 422);
    const response = await client.get(`/stars/${'9'.repeat(70)}`);
    assert.equal(response.status, 422);
    assert.match(await response.text(), /"The data cannot be stored \(22003\)"/);
  },
);
