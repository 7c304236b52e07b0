/**
 * Rules about SQL statements and their transactions. Each statement of the sources is described by the engine of its
 * database, with the schema of the migrations: see statements/judge.ts. The functions below judge what a transaction
 * surrounds (SVC614, SVC661).
 */
import { entryOf, isWithin, methodOf } from '../reader/nodes.ts';
import { writtenOf } from '../sources.ts';
import { ASKS } from './availability.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Sources, Watch } from '../sources.ts';
import type { Frame, Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Rules about SQL statements, sorted by id. */
export const STATEMENT_RULES: readonly SourceRule[] = [
  {
    id: 'SVC411',
    severity: 'error',
    why: 'A statement that the database refuses fails for each request that sends it, with status 500',
    remedy: 'Correct the statement, or add the migration that it needs',
    wrong: "db.fetchAll('select nmae from artist')",
    right: "db.fetchAll('select name from artist')",
  },
  {
    id: 'SVC412',
    severity: 'error',
    why: 'A row without a column for each member of the class in "as" is refused with E_DB_ROW, so each response is a 500',
    remedy:
      'Select a column for each member, or declare a class with fewer members: Note.pick("id", "title")',
    wrong: "db.fetchAll('select id from note', [], { as: Note })",
    right: "db.fetchAll('select id, title from note', [], { as: Note })",
  },
  {
    id: 'SVC413',
    severity: 'error',
    why: 'A value of another type than the member in "as" is refused with E_DB_ROW, so each response is a 500',
    remedy: 'Declare the member with the type of the column, or convert the column in the statement',
    wrong: 'class Note extends Schema { id = Field(str); }  // id is an integer column',
    right: 'class Note extends Schema { id = Field(int); }',
  },
  {
    id: 'SVC414',
    severity: 'warning',
    why: 'A row with NULL in a member that is not nullable is refused with E_DB_ROW, and so are all rows of its result',
    remedy: 'Declare the member as nullable(…), write coalesce(…), or add "is not null" to the conditions',
    wrong: 'class Note extends Schema { text = Field(str); }  // the column text may be NULL',
    right: 'class Note extends Schema { text = Field(nullable(str)); }',
  },
  {
    id: 'SVC415',
    severity: 'error',
    why: 'A value of another type than its column is refused by a server. SQLite stores it as it is, or never finds a row by it',
    remedy: 'Pass a value of the type of the column',
    wrong: "db.execute('update note set state = ? where id = ?', ['opne', id])",
    right: "db.execute('update note set state = ? where id = ?', ['open', id])",
  },
  {
    id: 'SVC416',
    severity: 'warning',
    why: 'A server refuses a text that is longer than its column, and the response is a 500 instead of a 422',
    remedy: 'Limit the length of the input to the length of the column',
    wrong: 'title = Field(str)  // written to a varchar(80)',
    right: 'title = Field(str, { maxLength: 80 })',
  },
  {
    id: 'SVC417',
    severity: 'error',
    why: 'An insert without a value for a column that is not null and has no default always fails',
    remedy: 'Add the column to the insert, or give it a default in a migration',
    wrong: "db.execute('insert into note (text) values (?)', [text])  // title is not null",
    right: "db.execute('insert into note (title, text) values (?, ?)', [title, text])",
  },
  {
    id: 'SVC418',
    severity: 'warning',
    why: 'If several rows match, the database returns any one of them, and not always the same one',
    remedy: 'Compare the columns of a unique key, or add "order by" and "limit 1", or a unique index',
    wrong: "db.fetchOne('select * from account where name = ?', [name])",
    right: "db.fetchOne('select * from account where email = ?', [email])  // email is unique",
  },
  {
    id: 'SVC419',
    severity: 'warning',
    cwe: [213],
    sources: ['OWASP API3:2023 Broken Object Property Level Authorization'],
    why: 'A later migration adds a column, such as a hash of a password, and every client receives it',
    remedy:
      'Name the columns, read the rows with "as", or declare the schema of the response: response: list(Note)',
    wrong: "app.get('/notes', { db: Depends(db) }, ({ db }) => db.fetchAll('select * from note'))",
    right: "… db.fetchAll('select id, title from note')",
  },
  {
    id: 'SVC421',
    severity: 'error',
    why: 'Without a database, only the file of --statements says whether a statement fits the schema',
    remedy:
      'Describe the statements again: svc check <module> --statements <file> --database <url>, and commit the file',
    wrong: 'a new migration, and statements.lock as before',
    right: 'svc check src/app.ts --statements statements.lock --database "$URL" after each new migration',
  },
  {
    id: 'SVC422',
    severity: 'error',
    why: 'While a deployment runs, the previous release still sends its statements to the migrated database',
    remedy:
      'Deploy in two steps: first a release that no longer sends the statement, then the migration that removes what it needs',
    wrong: 'alter table note drop column title;  -- the previous release selects it',
    right: 'alter table note add column name text;  -- and drop title with a later release',
  },
  {
    id: 'SVC423',
    severity: 'warning',
    cwe: [1188, 276],
    sources: ['PostgreSQL: ALTER TABLE, Building Indexes Concurrently'],
    why: 'A default applies to each row that a statement inserts without the column, and to all rows that are there',
    remedy:
      'Give rights by a statement of their own, and let the default be the least: is_admin boolean not null default false',
    wrong: 'alter table person add column is_admin boolean not null default true;',
    right: 'alter table person add column is_admin boolean not null default false;',
  },
];

/** Rules about transactions, sorted by id. */
export const TRANSACTION_RULES: readonly SourceRule[] = [
  {
    id: 'SVC614',
    severity: 'error',
    cwe: [662],
    why: 'A statement outside of the transaction is not rolled back, does not see the writes of the transaction, and may wait forever for locks of the transaction',
    remedy:
      'Use the session that transaction() passes to its callback: db.transaction(async (tx) => { await tx.execute(…); })',
    wrong: 'db.transaction(async () => { await db.execute(…); })',
    right: 'db.transaction(async (tx) => { await tx.execute(…); })',
    onCall: findOutsideTransaction,
    watch: watchRequestTransactions,
  },
  {
    id: 'SVC661',
    severity: 'warning',
    cwe: [833, 400],
    why: 'Until the other service responds, the transaction keeps its connection and its locks, so other requests wait. A rollback does not undo the request',
    remedy:
      'Send the request before or after the transaction: keep the intention in a row first, and write the result with a second transaction',
    wrong: 'db.transaction(async (tx) => { await tx.execute(…); await fetch(…); })',
    right: 'await db.transaction(async (tx) => { await tx.execute(…); }); await fetch(…);',
    watch: watchRequests,
  },
];

/** Methods of a database that a transaction refuses: `insertMany()` and `transaction()` send statements, too. */
const USES_DATABASE =
  /^svc\/db\.[^]*\.(?:fetchAll|fetchOne|fetchArrays|fetchSets|execute|executeMany|insertMany|scalar|script|stream|transaction)$/;

/** SVC614: statements in the callback of transaction() that are not part of the transaction. */
function findOutsideTransaction(
  { call, module, meaning, receiver, transaction, led, value }: Site,
  report: ReportAt,
  sources: Sources,
): void {
  if (transaction === undefined) return;
  const { owner, session } = transaction;
  if (!isWithin(call, transaction.work)) {
    const isSame = receiver === owner || (receiver?.type === owner.type && owner.type === 'svc/db.db');
    if (USES_DATABASE.test(meaning) && isSame && receiver?.isolation === undefined && led?.call !== undefined)
      report(
        { module: led.module, call: led.call },
        `${writtenOf(led.module, led.call.callee)}() is called inside transaction(), but sends statements that run outside of the transaction`,
      );
    return;
  }
  const isOutside = (given: Value | undefined): boolean =>
    given !== undefined && given !== session && given.type === owner.type && given.fn === undefined;
  const passed = call.args.find((arg) => isOutside(value(arg)));
  if (passed !== undefined && sources.handlers.resolve(call.callee, module) !== undefined)
    report(
      { module, node: passed },
      'a function called inside transaction() receives the database as an argument, so its statements run outside of the transaction',
      { severity: 'warning' },
    );
  if (USES_DATABASE.test(meaning) && isOutside(receiver))
    report(
      { module, call },
      `${writtenOf(module, call.callee)}() is called inside transaction(), but runs outside of the transaction`,
    );
}

/** Stores that use the database of the application unless an option names another store. */
const OF_APPLICATION: Readonly<Record<string, string>> = { 'svc/oauth.OAuthPlugin': 'records' };
/** Methods with which code uses a store, or an object that has one. */
const USES_STORE: Readonly<Record<string, RegExp>> = {
  'svc.RateLimiter': /^take$/,
  'svc.RecordRateLimitStore': /^\w+$/,
  'svc/db.DatabaseRecordStore': /^\w+$/,
  'svc/oauth.OAuthPlugin':
    /^(?:issue|logout|revokeAll|revokeSession|listSessions|listIdentities|providerToken|forgetProviderToken|cleanUp)$/,
};

/** SVC614: statements, and stores in the same database, inside of the transaction of a request. */
function watchRequestTransactions(report: ReportAt): Watch {
  /** Handlers that receive `Depends(transaction)`, also through a dependency, and the types of their databases. */
  const open = new Map<Fn, ReadonlySet<string | undefined>>();
  /** Expressions that make an object whose records are in the database of the application. */
  const stores = new Set<Node>();
  return {
    onHandler({ handler, dependencies }) {
      const types = dependencies.flatMap((each) => transactionsOf(each));
      if (types.length > 0) open.set(handler, new Set(types));
    },
    onCall({ call, module, meaning, receiver, handler, transaction, stack, value }) {
      if (call.isNew && isStored(call, meaning, value, stores)) stores.add(call);
      const around = transaction?.work ?? handler;
      if (around === undefined || !isDuring(around, stack)) return;
      const types = transaction === undefined ? open.get(around) : new Set([transaction.owner.type]);
      const { type = '', lasting, isolation } = receiver ?? {};
      const isStore =
        lasting !== undefined && stores.has(lasting) && USES_STORE[type]?.test(methodOf(call)) === true;
      // findOutsideTransaction() reports the statements in a callback
      const isOutside =
        transaction === undefined &&
        USES_DATABASE.test(meaning) &&
        isolation === undefined &&
        types?.has(type);
      if (isOutside !== true && !(isStore && types?.has(DEFAULT) === true)) return;
      report(
        { module, node: call },
        `${writtenOf(module, call.callee)}() uses the database while a transaction of the request is open, so it fails with E_DB_NESTED`,
        {
          remedy: isStore
            ? 'Call it before or after db.transaction(), with Depends(db) in place of Depends(transaction)'
            : 'Use the transaction that Depends(transaction) gives to the handler',
        },
      );
    },
  };
}

const DEFAULT = 'svc/db.db';

/** Whether an expression makes a store in the database of the application, or an object that has such a store. */
function isStored(call: Call, meaning: string, value: Site['value'], stores: ReadonlySet<Node>): boolean {
  const [first] = call.args;
  const option = OF_APPLICATION[meaning];
  if (option !== undefined) return value(first)?.members?.has(option) !== true;
  if (USES_STORE[meaning] === undefined || first === undefined) return false;
  const given = value(first);
  if (meaning === 'svc/db.DatabaseRecordStore')
    return given?.type === DEFAULT || (given?.type === 'svc/db.DatabasePlugin' && !isNamed(given));
  const store = given?.members?.get('store') ?? given;
  return store?.lasting !== undefined && stores.has(store.lasting);
}

/** Whether a plugin has a name of its own, so that its database is another one than that of the application. */
function isNamed({ lasting }: Value): boolean {
  const options = lasting?.type === 'call' ? lasting.args[1] : undefined;
  return options !== undefined && (options.type !== 'object' || entryOf(options, 'name') !== undefined);
}

/** Whether code runs before a function around it returns: a task in the background runs after the response. */
function isDuring(around: Fn, stack: readonly Frame[]): boolean {
  const at = stack.findLastIndex(({ fn }) => fn === around);
  return stack.slice(at + 1).every((frame) => frame.call !== undefined);
}

/** SVC661: requests of other services inside of a transaction: of a callback, or of the whole request. */
function watchRequests(report: ReportAt): Watch {
  /** Handlers that receive `Depends(transaction)`, also through a dependency. */
  const open = new Set<Fn>();
  return {
    onHandler({ handler, dependencies }) {
      if (dependencies.some((each) => transactionsOf(each).length > 0)) open.add(handler);
    },
    onCall({ call, module, meaning, transaction, led, handler, stack }) {
      if (!ASKS.test(meaning)) return;
      if (transaction === undefined) {
        if (handler !== undefined && open.has(handler) && isDuring(handler, stack))
          report(
            { module, node: call },
            'a request of another service is sent while the transaction of the handler is open, which ends after the handler',
          );
        return;
      }
      const isLed = led?.call !== undefined && !isWithin(call, transaction.work);
      report(
        { module: isLed ? led.module : module, node: isLed ? led.call! : call }, // `isLed` says that there is one
        'a request of another service is sent inside of transaction(), which stays open until the response comes',
      );
    },
  };
}

/** Returns the types of the databases of the transactions that a dependency gives, or needs. */
function transactionsOf({ gives, depends }: Value, depth = 0): readonly string[] {
  if (gives?.isolation !== undefined)
    return [gives.type === 'svc/db.transaction' ? DEFAULT : (gives.type ?? '')];
  const inner = depth < 6 ? [...(depends?.spec?.members?.values() ?? [])] : [];
  return inner.flatMap((each) => transactionsOf(each, depth + 1));
}
