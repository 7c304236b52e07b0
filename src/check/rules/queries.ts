/**
 * Rules about the use of databases: rows that may be missing, results without a maximum, and a statement for each row
 * (SVC615, SVC637, SVC662).
 */
import { literal } from '../reader/constants.ts';
import {
  calledName,
  functionAround,
  isWithin,
  methodOf,
  nodesAround,
  isAskedBefore,
  partsIn,
  pathOf,
  provedBy,
} from '../reader/nodes.ts';
import { callsIn } from '../sources.ts';
import { givenTo } from '../values/calls.ts';
import { ROW } from '../values/marks.ts';
import { rightsIn } from '../statements/releases.ts';
import { inputsOf } from '../statements/sending.ts';
import { boundIn } from '../values/sql-texts.ts';
import { hasNoMaximum, isPiece, literalOf } from '../values/text.ts';
import { clientsIn, madeIn, withoutMembers } from '../values/value.ts';
import { ASKS } from './availability.ts';
import { OUR_DATABASE } from './injection.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Fn, Node, NodeOf } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, SourceRule, Sources, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
import type { Made } from '../values/text.ts';
import type { Value } from '../values/value.ts';

/** Rules about queries, sorted by id. */
export const QUERY_RULES: readonly (SourceRule | SourcePart)[] = [
  {
    id: 'SVC615',
    severity: 'warning',
    cwe: [476],
    why: 'A request with an unknown id finds no row. The client should then get status 404, and not 500',
    remedy: 'Test whether the row exists: if (row === undefined) throw new NotFound()',
    wrong: "const user = await db.fetchOne('… where id = ?', [id]); return user.name;",
    right: 'if (user === undefined) throw new NotFound(); return user.name;',
    onCall: findAbsentRows,
  },
  {
    id: 'SVC637',
    severity: 'warning',
    cwe: [770],
    sources: ['OWASP API4:2023'],
    why: 'Without a bound, a client reads or changes all rows of a table, and a list grows with its table',
    remedy: 'Declare a maximum: Field(int, { default: 50, ge: 1, le: 200 })',
    wrong: 'limit: Field(int, { ge: 1 })',
    right: 'limit: Field(int, { ge: 1, le: 200 })',
    watch: watchLimits,
    onCall: findBatches,
  },
  {
    id: 'SVC662',
    severity: 'warning',
    cwe: [1050],
    why: 'A list of a hundred rows sends a hundred and one statements, each with its own way to the database and back',
    remedy: 'Read all of them with one statement: a join, or where order_id in (…) with sql.list()',
    wrong: "for (const { id } of orders) items.push(await db.fetchAll('… where order_id = ?', [id]));",
    right: 'await db.fetchAll(sql`… where order_id in (${sql.list(orders.map(({ id }) => id))})`)',
    watch: watchRows,
  },
  { id: 'SVC423', find: findTexts },
  { id: 'SVC637', watch: watchFilters },
  {
    id: 'SVC671',
    severity: 'warning',
    cwe: [670],
    why: 'Without an order, the database returns rows as it finds them, so one page repeats rows of another one and leaves others out',
    remedy: 'Sort by columns that together are unique: order by created_at desc, id desc',
    wrong: "db.fetchAll('select id, title from note limit ? offset ?', [size, start])",
    right: "db.fetchAll('select id, title from note order by id limit ? offset ?', [size, start])",
    watch: watchPages,
  },
  {
    id: 'SVC676',
    severity: 'warning',
    cwe: [471],
    why: 'Each start and each tick of a timer deletes what the application has stored before, also after a crash and in each of several processes',
    remedy:
      'Let a migration change tables, and give a deletion a condition: delete from session where ends_at < now()',
    wrong: "app.onStartup(({ state }) => state.db.execute('drop table if exists job'))",
    right: 'migrations/0002_job.up.sql: alter table job add column ends_at timestamptz',
    watch: watchErasures,
  },
];

/** Tables that the program makes for itself, and that live no longer than its connection. */
const TEMPORARY =
  /\b(?:temp|temporary)\b|\b(?:drop\s+table|truncate)\s+(?:table\s+)?(?:if\s+exists\s+)?["`]?\w*(?:tmp|temp|staging|cache)/i;

/** Returns the name of the function that runs a callback: at the start, or again and again; undefined for any other code. */
function runnerOf(first: Fn | undefined): string | undefined {
  const call = first?.parent?.type === 'call' && first.parent.callee !== first ? first.parent : undefined;
  const name = call === undefined ? '' : (calledName(call) ?? '');
  return name === 'onStartup' || name.endsWith('Interval') ? name : undefined;
}

/** A statement that erases the rows of a table. */
interface Erasure extends Spot {
  readonly table: string;
  /** The function that sends the statement. */
  readonly home: Fn | undefined;
  /** Subject and verb of the message. Undefined for a deletion, which is a mistake only if requests fill the table. */
  readonly by?: string;
}

const ERASED = /\b(?:drop\s+table|truncate)\s+(?:table\s+)?(?:if\s+exists\s+)?["`]?(\w+)/i;

/** Returns a statement that drops or empties a table at the start, or at each tick of a timer. */
function erasureOf({ call, stack, handler, value, written }: Site): Erasure | undefined {
  const [first] = call.args;
  const runner = stack.map(({ fn }) => runnerOf(fn)).find((name) => name !== undefined);
  if (first === undefined || runner === undefined || handler !== undefined) return undefined;
  const text = literalOf(value(first)?.texts[0] ?? [], '?');
  const table = ERASED.exec(text)?.[1]?.toLowerCase();
  if (!/^(?:execute|script)$/.test(methodOf(call)) || table === undefined || TEMPORARY.test(text))
    return undefined;
  const by = `${runner === 'onStartup' ? 'each start' : 'the job'} ${/\btruncate\b/i.test(text) ? 'empties' : 'drops'}`;
  return { ...written(first), table, home: functionAround(call), by };
}

/** Returns a statement of a timer that deletes all rows of a table. */
function deletionOf(sending: Sending): Erasure | undefined {
  const { outline, handler, target: table = '', way, call } = sending;
  if (outline.verb !== 'delete' || handler !== undefined || outline.has(/^(?:where|using|limit)$/))
    return undefined;
  const isTimed = way.some(({ node }) =>
    [node, ...nodesAround(node)].some((each) => each.type === 'function' && runnerOf(each) !== undefined),
  );
  return isTimed ? { ...sending.nodeAt(), table, home: functionAround(call) } : undefined;
}

/** SVC676: tables that each start erases, and timers that delete all rows that requests insert. */
function watchErasures(report: ReportAt): Watch {
  const inserts: Sending[] = [];
  const erased: Erasure[] = [];
  return {
    onCall(site) {
      const erasure = erasureOf(site);
      if (erasure !== undefined) erased.push(erasure);
    },
    onStatement(sending) {
      const deletion = deletionOf(sending);
      if (deletion !== undefined) erased.push(deletion);
      if (sending.outline.verb === 'insert') inserts.push(sending);
    },
    finish() {
      for (const { table, home, by, ...spot } of erased) {
        const all = inserts.filter(({ target }) => target === table);
        const isHome = ({ call }: Sending): boolean => functionAround(call) === home;
        const isFilled = all.some((each) => each.handler !== undefined && !isHome(each));
        // a function that erases a table and fills it again computes its rows
        if (by !== undefined && (isFilled || !all.some(isHome)))
          report(spot, `${by} a table with all rows that the application has stored`);
        else if (by === undefined && isFilled)
          report(
            spot,
            `the job deletes every row of the table "${table}", because the statement has no condition`,
          );
      }
    },
  };
}

/** SVC671: a page of rows whose statement has no order. */
function watchPages(report: ReportAt): Watch {
  return {
    onStatement(sending) {
      const { outline, bindings = [] } = sending;
      const at = outline.tokens.find(
        ({ word, depth }) => depth === 0 && /^(?:limit|offset|fetch)$/.test(word),
      );
      const isPage =
        outline.has(/^offset$/, 0) ||
        bindings.some(({ use, kind }) => use === 'compared' && kind === 'input');
      if (outline.verb !== 'select' || at === undefined || !isPage || sending.isOfOne) return;
      if (!outline.has(/^order$/, 0) && !outline.isAggregate)
        report(sending.nodeAt(at), 'the statement reads a page of rows that have no order');
    },
  };
}

/** A call of `sql.and()` whose terms a client may leave out, and the names that their conditions test. */
interface Filter {
  readonly module: SourceModule;
  readonly names: ReadonlySet<string>;
}

/** SVC637: a deletion or change whose only condition is `sql.and()` with terms that a client may leave out. */
function watchFilters(report: ReportAt, sources: Sources): Watch {
  const filters = new Map<Node, Filter>();
  const sent = new Map<Node, Filter>();
  return {
    onCall({ call, meaning, module, value }) {
      const tests = call.args.map((arg) =>
        arg.type === 'binary' && arg.operator === '&&' ? arg.left : undefined,
      );
      const isOptional =
        tests.length > 0 && tests.every((test) => inputsOf(value(test && testedIn(test))).length > 0);
      if (meaning === 'svc/db.sql.and' && isOptional)
        filters.set(call, { module, names: new Set(tests.flatMap((test) => namesIn(test!))) });
    },
    onStatement({ outline, statement: { pieces } }) {
      const at = pieces.findIndex(({ node }) => filters.has(node));
      const filter = at === -1 ? undefined : filters.get(pieces[at]!.node);
      if (filter === undefined || !/^(?:delete|update)$/.test(outline.verb)) return;
      const before = pieces.slice(0, at).map(({ text }) => text);
      const after = pieces.slice(pieces.findLastIndex(({ node }) => node === pieces[at]!.node) + 1);
      if (/\bwhere\s*$/i.test(before.join('')) && !/\band\b/i.test(after.map(({ text }) => text).join('')))
        sent.set(pieces[at]!.node, filter);
    },
    finish() {
      const tests = [...sources.all('if')].map(({ node }) => node.test);
      for (const [node, { module, names }] of sent) {
        const isDemanded = (test: Node): boolean =>
          namesIn(test).filter((name) => names.has(name)).length >= Math.min(2, names.size);
        if (!tests.some(isDemanded))
          report(
            { module, node },
            'a client may leave out each term of the condition, and without a term the statement changes every row of the table',
            {
              remedy:
                "Require one: static *check(filter: Filter) { if (filter.name === undefined && filter.before === undefined) yield 'needs a filter'; }",
            },
          );
      }
    },
  };
}

/** Returns what a condition tests: the left side of a comparison, also of the length of a list. */
function testedIn(test: Node): Node {
  const tested = test.type === 'binary' && /^(?:[!=]==?|[<>]=?)$/.test(test.operator) ? test.left : test;
  return tested.type === 'member' && isLength(tested.property) ? tested.object : tested;
}

function isLength(name: string | undefined): boolean {
  return name === 'length' || name === 'size';
}

/** Returns the names of variables and members in an expression. */
function namesIn(within: Node): readonly string[] {
  return partsIn(within).flatMap((node) => {
    if (node.type === 'member') return isLength(node.property) ? [] : (node.property ?? []);
    const isObject = node.parent?.type === 'member' && !isLength(node.parent.property);
    return node.type === 'name' && !isObject && node.name !== 'undefined' ? node.name : [];
  });
}

/** Methods of lists that call a function for each item. */
const EACH = /^(?:map|flatMap|forEach|reduce|reduceRight)$/;

/** A list of so many rows costs little, so that its statements are only noted. */
const SHORT = 50;

/** SVC662: a statement for each row of another statement. */
function watchRows(report: ReportAt, sources: Sources): Watch {
  const read = new Map<Node, { readonly module: SourceModule; readonly isShort: boolean }>();
  const short = new Set<Node>();
  return {
    onStatement({ outline, equal, call, module }) {
      const limit = outline.tokens.findIndex(({ word }) => word === 'limit');
      if (Number(outline.tokens[limit + 1]?.text) <= SHORT && limit !== -1) short.add(call);
      const lists = equal
        .flatMap(({ value }) => madeIn(value))
        .filter(({ by, node }) => by === ROW && /^(?:fetchAll|stream)$/.test(methodOf(node)));
      if (lists.length > 0 && outline.verb === 'select')
        read.set(call, { module, isShort: lists.every(({ node }) => short.has(node)) });
    },
    finish() {
      if (read.size === 0) return;
      const bodies = [
        ...sources
          .all('loop')
          .flatMap(({ module, node }) =>
            /^(?:of|for)$/.test(node.kind) ? [{ module, node: node.body }] : [],
          ),
        ...sources.all('call').flatMap(({ module, node }) => {
          const [callback] = EACH.test(methodOf(node)) ? node.args : [];
          return callback === undefined ? [] : [{ module, node: callback }];
        }),
      ];
      for (const { module, node } of bodies)
        for (const each of callsIn(node, module, sources)) {
          const home = read.get(each.call);
          if (home !== undefined)
            report(
              { module: home.module, node: each.call },
              'the statement is sent again for each row of a list of rows',
              home.isShort ? { severity: 'info' } : {},
            );
        }
    },
  };
}

/** SVC637: the number after LIMIT is an input without a maximum. */
function watchLimits(report: ReportAt): Watch {
  /** Members of inputs that code compares with another value. */
  const compared = new Set<string>();
  const limits: Made[] = [];
  const amounts: Made[] = [];
  return {
    onStatement: (sending) => limits.push(...limitsOf(sending)),
    onCall(site) {
      const made = endlessIn(amountOf(site));
      if (made !== undefined) amounts.push({ by: made.by, node: site.call, module: site.module });
    },
    onCompare({ node, module, sides }) {
      // the condition of a loop is no limit, but needs one
      const [made] = node.parent?.type === 'loop' ? sides.flatMap((side) => endlessIn(side) ?? []) : [];
      if (made !== undefined) amounts.push({ by: made.by, node, module });
      else for (const { by } of sides.flatMap((side) => madeIn(withoutMembers(side)))) compared.add(by);
    },
    finish() {
      for (const { by, node, module } of limits)
        if (!compared.has(by))
          report(
            { module, node },
            'the number of rows is an input without a maximum, so one request can read a whole table into memory',
          );
      for (const { by, node, module } of amounts)
        if (!compared.has(by))
          report(
            { module, node },
            'a number of a client without a maximum says how much memory or time this takes, so one request can stop the process',
            { remedy: 'Declare a maximum: Field(int, { ge: 1, le: 1_000 })' },
          );
    },
  };
}

/** Functions that make as many bytes, items or characters as an argument says. */
const ALLOCATES = /^(?:Buffer\.alloc(?:Unsafe)?|crypto\.(?:randomBytes|randomFill)(?:Sync)?|Array)$/;

/** Returns the number that says how much memory a call takes. */
function amountOf({ call, meaning, value }: Site): Value | undefined {
  const [first] = call.args;
  if (ALLOCATES.test(meaning) && call.args.length < 3) return value(first);
  if (meaning === 'Array.from') return value(first)?.members?.get('length');
  return meaning === '' && /^(?:repeat|padStart|padEnd)$/.test(methodOf(call)) ? value(first) : undefined;
}

function endlessIn(value: Value | undefined): Made | undefined {
  return madeIn(withoutMembers(value)).find(hasNoMaximum);
}

/** Returns the inputs after LIMIT in a statement whose types have no maximum. */
function limitsOf(sending: Sending): readonly Made[] {
  const { tokens } = sending.outline;
  return (sending.bindings ?? []).flatMap(({ value, token }) => {
    const made = madeIn(value).find(hasNoMaximum);
    const isLimit = tokens[tokens.indexOf(token) - 1]?.word === 'limit';
    return made !== undefined && isLimit ? [{ by: made.by, ...sending.nodeAt(token) }] : [];
  });
}

/** SVC637: a statement or request for each item of a list of a client. */
function findBatches(site: Site, report: ReportAt): void {
  const { call, meaning } = site;
  if (!OUR_DATABASE.test(meaning) && !ASKS.test(meaning)) return;
  const calls = [call, ...site.stack.flatMap((frame) => frame.call ?? [])];
  const list = calls.flatMap(repeatedOver).find((node) => isUnlimited(site.value(node)) && !isMeasured(node));
  if (list === undefined) return;
  const frame = site.stack.find((each) => each.call !== undefined && repeatedOver(each.call).includes(list));
  report(
    { module: frame?.module ?? site.module, node: list },
    'each item of a list that a client sends starts a statement or request, and the list has no maximum length',
    {
      remedy:
        'Declare a maximum: Field(list(int), { maxLength: 50 }), or ask for all items at once: where id in (…)',
    },
  );
}

/** Returns the lists for whose items a call runs: those of loops, and of `map()` and similar methods. */
function repeatedOver(call: Node): readonly Node[] {
  return [call, ...nodesAround(call)].flatMap((at) => {
    const { parent } = at;
    const list = parent?.type === 'loop' && parent.kind === 'of' ? parent.head[1] : undefined;
    const around = at.type === 'function' && parent?.type === 'call' ? parent.callee : undefined;
    const isEach = around?.type === 'member' && EACH.test(around.property ?? '');
    return [...(list === undefined || list === at ? [] : [list]), ...(isEach ? [around.object] : [])];
  });
}

/** Whether a value is a list of a client whose type has no maximum length. */
function isUnlimited(value: Value | undefined): boolean {
  const { source, declared } = value ?? {};
  if (source === undefined || !/^(?:body|form|message|query)$/.test(source.origin.input)) return false;
  if (clientsIn(value).some((part) => isPiece(part))) return false;
  const node = declared?.node;
  return node === undefined
    ? declared === undefined
    : node.kind === 'list' && node.constraints.maxLength === undefined;
}

/** Whether code compares the length of a list. */
function isMeasured(list: Node): boolean {
  const path = pathOf(list);
  let at = functionAround(list);
  for (let outer = at; outer !== undefined; outer = functionAround(outer)) at = outer;
  return (
    at !== undefined &&
    partsIn(at).some(
      (node) =>
        node.type === 'member' &&
        node.property === 'length' &&
        node.parent?.type === 'binary' &&
        pathOf(node.object) === path,
    )
  );
}

/** SQL statements that always return a row. */
const ALWAYS_ONE = /\b(?:count|sum|max|min|avg|exists|coalesce)\s*\(|\breturning\b|^\s*select\s+\d/i;

/**
 * SVC615: code that reads a member of a row although the query may find none: `const user = await
 * db.fetchOne(…); return user.name`, also where a function returns the result of fetchOne().
 */
function findAbsentRows(site: Site, report: ReportAt): void {
  const { call, module, meaning, value } = site;
  if (!OUR_DATABASE.test(meaning) || !meaning.endsWith('.fetchOne')) return;
  const text = statementOf(call.args[0], module);
  const given = givenTo(site);
  const declarator = given.call.parent?.type === 'await' ? given.call.parent.parent : undefined;
  if (text === '' || ALWAYS_ONE.test(text) || declarator?.type !== 'declarator') return;
  const isByInput = call.args.map(value).some((arg) => arg !== undefined && isOfInput(arg));
  // a helper may read rows that code before has found
  if (given.call !== call && (!isByInput || isAskedBefore(given.call))) return;
  const use = unprovedUse(declarator, given.module);
  if (use !== undefined)
    report(
      { module: given.module, node: use },
      'fetchOne() returns undefined if no row matches, but the code reads a member of the row, so the client gets status 500',
    );
}

/** Whether a client sends a value of a statement. */
function isOfInput(value: Value): boolean {
  return [value, ...boundIn(value)].some((each) => inputsOf(each).length > 0);
}

/**
 * Returns the first place that reads a member of a row. Undefined if the function tests whether the row
 * exists.
 */
function unprovedUse(declarator: NodeOf<'declarator'>, module: SourceModule): Node | undefined {
  const { target } = declarator;
  const fn = functionAround(declarator);
  if (target.type === 'object') return target;
  if (target.type !== 'name' || fn === undefined) return undefined;
  const uses = partsIn(fn).filter(
    (node) => node.type === 'name' && node.name === target.name && node !== target,
  );
  const isRead = (use: Node): boolean =>
    use.parent?.type === 'member' && use.parent.object === use && !module.source.startsWith('?.', use.end);
  // a copy of no row is an empty object
  const tests = uses.filter((use) => !isRead(use) && use.parent?.type !== 'spread');
  const proved = tests.flatMap((use) => provedBy(use) ?? []);
  const outside = (use: Node): boolean => !proved.some((part) => isWithin(use, part));
  // code tests the row, or passes it to a function that may test it
  const isProved = tests.some((use) => provedBy(use) === undefined && outside(use));
  return isProved ? undefined : uses.find((use) => isRead(use) && outside(use))?.parent;
}

/** Returns the SQL text of an expression. The result is empty if the source does not contain the text. */
function statementOf(node: Node | undefined, module: SourceModule): string {
  const value = literal(node, module);
  return value?.type === 'text' ? value.value : value?.type === 'template' ? value.texts.join('?') : '';
}

/** SVC423: statements in the sources that make tables. */
function findTexts({ definitions }: Sources, report: ReportAt): void {
  for (const { module, node, text } of definitions)
    for (const { token, message } of /\b(?:create|alter)\s+table/i.test(text) ? rightsIn(text) : [])
      report({ module, node: { ...node, start: node.start + 1 + token.start } }, message);
}
