/**
 * Promises that code uses without `await` (SVC611, SVC612). Each program marks the lines of its findings: what a call returns
 * decides, and no name of a variable.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { readProject } from '../../../src/check/reader/modules.ts';
import { folder } from '../../support/run.ts';

const HEAD = `import { Depends, Router, Svc, checkPassword, provide, reply } from 'svc';
import { db, openDatabase, type Database } from 'svc/db';
import { setTimeout as pause } from 'node:timers/promises';
import { unlink } from 'node:fs/promises';
export const app = new Svc();
`;

const handler = (code: string, before = ''): string => `${HEAD}${before}
app.post('/notes', { store: Depends(db) }, async ({ store, body, req }) => {
${code}
});
`;

const PROGRAMS: Readonly<Record<string, string>> = {
  'calls of this package and of Node.js, whatever the names': handler(`
  store.execute('delete from notes'); // SVC611
  unlink('a.txt'); // SVC611
  pause(100); // SVC611
  const given = req.json(); // SVC611
  if (given.title === undefined) return 1;
  const isRight = checkPassword('a', 'b'); // SVC611
  if (isRight) return 2;
  const n = store.scalar('select count(*) from notes'); // SVC611
  return 'number: ' + n;`),
  'background tasks await what they get, whatever their name': `import { BackgroundTasks, Depends, Svc } from 'svc';
export const app = new Svc();
class Mailer { async send(to: string): Promise<void> { await fetch('https://mail.example/' + encodeURIComponent(to)); } }
const mailer = new Mailer();
async function sendTo(address: string): Promise<void> { await mailer.send(address); }
app.post('/a', { later: Depends(BackgroundTasks) }, async ({ later, body }) => {
  later.add(() => mailer.send(body.to));
  later.add(sendTo, body.to);
  later.add(async () => { await mailer.send(body.to); });
  mailer.send(body.to); // SVC611
  sendTo(body.to); // SVC611
});
`,
  'values that a reply or a statement holds': handler(`
  const count = store.scalar('select count(*) from notes'); // SVC611
  await store.execute('insert into log (n) values (?)', [count]);
  const rows = await store.fetchAll('select id from notes');
  const notes = rows.map(async (row) => ({ id: row.id, owner: await store.scalar('select 1') })); // SVC611
  return { notes };`),
  'promises that are awaited, returned or caught': handler(`
  const pending = store.scalar('select 1');
  const [a, b] = await Promise.all([pending, store.scalar('select 2')]);
  const all = await Promise.all((await store.fetchAll('select 1')).map(async (row) => await store.scalar('select 3')));
  store.execute('delete from notes').catch(() => undefined);
  store.execute('delete from notes').then(() => 1, () => 2);
  const maybe = body.isNew ? store.scalar('select 4') : undefined;
  if (maybe) await maybe;
  await Promise.allSettled([store.execute('delete from a')]);
  return { a, b, all, one: await store.scalar('select 5') };`),
  'helpers that drop a promise, or return it': handler(
    `
  audit(store, 'a');
  const found = later(store); // SVC611
  if (found) return 1;
  const right = await later(store);
  await all([store], (each) => each.execute('delete from b'));
  return right;`,
    `function audit(log: Database, text: string) {
  log.execute('insert into audit values (?)', [text]); // SVC611
}
const later = (given: Database) => given.scalar('select 1');
const all = async (list: Database[], work: (each: Database) => Promise<unknown>) => { for (const one of list) await work(one); };`,
  ),
  'asynchronous functions of the project': handler(
    `
  notify(body); // SVC611
  quiet(body);
  const gate = new Gate();
  if (gate.isOpen()) return 1; // SVC611
  gate.close(); // SVC611
  return 2;`,
    `class Gate {
  #store: Database;
  async isOpen() { return (await fetchState()).open; }
  async close() { await fetchState(); }
}
const fetchState = async () => await load('state');
async function notify(note) { await load(note); }
async function quiet(note) { try { await load(note); } catch { /* the next run tells */ } }`,
  ),
  'asynchronous callbacks of lists': handler(`
  const rows = await store.fetchAll('select id from notes');
  const seen = rows.filter(async (row) => await store.scalar('select 1', [row.id])); // SVC612
  rows.forEach(async (row) => { await store.execute('delete from notes where id = ?', [row.id]); }); // SVC612
  rows.forEach(async (row) => { try { await store.execute('delete from a'); } catch { seen.push(row); } });
  for (const row of rows) await store.execute('delete from b where id = ?', [row.id]);
  rows.map(async (row) => { await store.execute('delete from c where id = ?', [row.id]); }); // SVC611
  return seen;`),
  'databases by their declared type': `${HEAD}
export class Notes {
  readonly #data: Database;
  constructor(data: Database) { this.#data = data; }
  clear() { this.#data.execute('delete from notes'); } // SVC611
  all() { return this.#data.fetchAll('select id from notes'); }
}
const notes = new Notes(await openDatabase('sqlite:notes.db'));
app.get('/notes', {}, async () => {
  notes.clear();
  const rows = notes.all(); // SVC611
  return rows.length;
});
const first = provide({ data: Depends(db) }, ({ data }) => data.fetchOne('select 1'));
app.get('/first', { first: Depends(first) }, ({ first }) => first.id);
`,
  'loops use what an earlier turn left': handler(`
  let last;
  for (const id of body.ids) {
    if (last) return reply(last);
    last = store.scalar('select 1', [id]); // SVC611
  }
  return 1;`),
};

for (const [name, text] of Object.entries(PROGRAMS))
  test(`svc check finds exactly the promises that are not awaited: ${name}`, (t) => {
    const cwd = folder(t, { 'app.ts': text });
    const { findings, project } = examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES);
    assert.deepEqual(project.unread, []);
    const found = findings
      .filter(({ rule }) => /^SVC61[12]$/.test(rule))
      .map(({ rule, place, message }) => `${rule} ${place!.line}: ${message}`);
    const marks = text.split('\n').flatMap((line, index) => {
      const mark = /\/\/ (SVC\d+)$/.exec(line)?.[1];
      return mark === undefined ? [] : [`${mark} ${index + 1}`];
    });
    assert.deepEqual(
      [...new Set(found.map((each) => each.split(':')[0]))].sort(),
      marks.sort(),
      found.join('\n'),
    );
  });
