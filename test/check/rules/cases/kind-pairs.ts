/** One wrong and one right application for rules about amounts, files, memory, XML, addresses and CSV. */

/** An application with this route, and these lines before it. */
const app = (route: string, before = ''): string => `
import { BearerAuth, Depends, Field, HttpResponse, MemoryCache, Schema, Svc, int, str } from 'svc';
import { db as database } from 'svc/db';
${before}
export const app: Svc = new Svc();
const seen: Map<string, number> = new Map();
app.${route}
`;

const paid = (type: string): string =>
  app(
    "post('/pay', { me: Depends(BearerAuth()), db: Depends(database), body: Payment }, ({ me, db, body }: Context) =>\n  db.execute('update wallet set cents = cents - ? where owner = ? and cents >= ?', [body.cents, me.sub, body.cents]));",
    `class Payment extends Schema { cents: number = Field(int, ${type}); }`,
  );

const written = (options: string, test: string): string =>
  app(
    `post('/notes', { body: Note }, async ({ body }: Context): Promise<void> => {
  const path: string = \`notes/\${body.name}\`;
  ${test}
  await writeFile(path, body.name${options});
});`,
    "import { existsSync } from 'node:fs';\nimport { writeFile } from 'node:fs/promises';\nclass Note extends Schema { name: string = Field(str, { pattern: '^[a-z]{1,20}$' }); }",
  );

const parsed = (options: string): string =>
  app(
    `post('/feed', {}, async ({ req }: Context) => libxml.parseXml(await req.text(), ${options}).root().name());`,
    "import * as libxml from 'libxmljs2';",
  );

const listened = (end: string): string =>
  app(
    `get('/wait', {}, async (): Promise<void> => {
  const note = (order: unknown): void => console.log(order);
  bus.on('order', note);
  ${end}
});`,
    "import { EventEmitter } from 'node:events';\nconst bus: EventEmitter = new EventEmitter();",
  );

const sheet = (cell: string): string =>
  app(
    `get('/names.csv', { query: { name: Field(str) } }, ({ query }: Context) =>
  new HttpResponse(${cell}, { headers: { 'Content-Type': 'text/csv' } }));`,
  );

const polled = (guard: string): string =>
  app(
    "get('/a', {}, (): boolean => isBusy);\nsetInterval(() => void send(), 1_000);",
    `let isBusy: boolean = false;
async function send(): Promise<void> {
  ${guard}
  const db = await openDatabase('a.db');
  for (const row of await db.fetchAll('select id from outbox')) await fetch('https://b.example/', { method: 'POST', body: row.id });
}
import { openDatabase } from 'svc/db';`,
  );

/** Wrong and right code by rule. */
export const KIND_PAIRS: Readonly<Record<string, { readonly wrong: string; readonly right: string }>> = {
  SVC650: {
    wrong: app(
      "post('/a', {}, ({ body }: Context) => { const all: Groups = {}; all[body.group as string][body.name as string] = 1; return all; });",
    ),
    right: app(
      "post('/a', {}, ({ body }: Context) => { const all: Groups = {}; if (Object.hasOwn(all, body.group)) all[body.group as string][body.name as string] = 1; return all; });",
    ),
  },
  SVC651: { wrong: parsed('{ noent: true }'), right: parsed('{ noent: false, nonet: true }') },
  SVC652: {
    wrong: written('', 'if (existsSync(path)) return;'),
    right: written(", { flag: 'wx' }", ''),
  },
  SVC653: {
    wrong: app("get('/a', {}, ({ query }: Context): void => { seen.set(query.word as string, 1); });"),
    right: app(
      "get('/a', {}, ({ query }: Context): void => { if (seen.size > 99) seen.clear(); seen.set(query.word as string, 1); });",
    ),
  },
  SVC654: { wrong: listened(''), right: listened("bus.off('order', note);") },
  SVC655: {
    wrong: app(
      "get('/a', {}, ({ req }: Context) => fetch(`https://b.example/?key=${process.env.B_KEY}`, { signal: req.signal }));",
    ),
    right: app(
      "get('/a', {}, ({ req }: Context) => fetch('https://b.example/', { signal: req.signal, headers: { 'x-key': process.env.B_KEY ?? '' } }));",
    ),
  },
  SVC656: { wrong: sheet('`1,"${query.name}"`'), right: sheet('`1,"\'${query.name}"`') },
};

/** The pair of SVC647, which stands before those of other files. */
export const AMOUNT_PAIR: { readonly wrong: string; readonly right: string } = {
  wrong: paid('{ le: 9_000 }'),
  right: paid('{ ge: 1, le: 9_000 }'),
};

/** Pairs about the process, which stand after those of other files. */
export const PROCESS_PAIRS: typeof KIND_PAIRS = {
  SVC663: {
    wrong: app("get('/a', {}, (): void => { process.exit(1); });"),
    right: app("get('/a', {}, (): void => { throw new Error('no'); });"),
  },
  SVC664: { wrong: polled(''), right: polled('if (isBusy) return;\n  isBusy = true;') },
};
