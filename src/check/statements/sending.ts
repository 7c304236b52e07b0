/** One statement that a handler sends, with the columns to which its values go. */
import { methodOf } from '../reader/nodes.ts';
import { INPUT, isOfPrincipal } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { hasAny, isStored } from '../values/text.ts';
import { clientIn, clientsIn, madeIn, withoutMembers } from '../values/value.ts';
import { Outline } from './outline.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { CharSet } from '../../schema/pattern-parser.ts';
import type { Site, ValueListeners } from '../values/calls.ts';
import type { ClientPart, Made } from '../values/text.ts';
import type { ClassValue, Value } from '../values/value.ts';
import type { ColumnName, Token } from './outline.ts';
import type { Statement } from './statement.ts';

/** Where a value of a statement comes from. `other` is not known. */
type Kind = 'principal' | 'input' | 'constant' | 'other';

/** A value of a statement. */
export interface Binding {
  readonly value: Value | undefined;
  readonly kind: Kind;
  readonly token: Token;
  /** Table and column that the value is compared with by `=`, or written to. Lower case; '' if not known. */
  readonly table: string;
  readonly column: string;
  readonly use: 'equal' | 'compared' | 'written' | 'other';
}

/** A statement that a handler sends. */
export class Sending {
  readonly call: Call;
  readonly module: SourceModule;
  readonly handler: Fn | undefined;
  /** Isolation level of the transaction that sends the statement; undefined outside of transactions. */
  readonly isolation: string | undefined;
  /** Name of the plugin of the database; see {@link SentCall}. */
  readonly database: string | undefined;
  /** The calls that lead to the statement, the one that sends it last. */
  readonly way: readonly Spot[];
  readonly statement: Statement;
  readonly outline: Outline;
  /** Values of the statement. Undefined if their number is not known. */
  readonly bindings: readonly Binding[] | undefined;

  constructor(site: Site, statement: Statement, database: string | undefined) {
    const { receiver, transaction } = site;
    this.call = site.call;
    this.module = site.module;
    this.handler = site.handler;
    const typed = /Transaction\b/.test(receiver?.type ?? '') ? '?' : undefined;
    this.isolation = receiver?.isolation ?? transaction?.session.isolation ?? typed;
    this.database = database;
    this.way = [
      ...site.stack.map((frame) => ({ node: frame.call ?? frame.fn, module: frame.module })),
      { node: site.call, module: site.module },
    ];
    this.statement = statement;
    this.outline = new Outline(statement.text('sqlite'), 'sqlite');
    this.bindings = this.#bindings();
  }

  get isInTransaction(): boolean {
    return this.isolation !== undefined;
  }

  /** Whether the statement changes rows. */
  get isWrite(): boolean {
    return (
      /^(?:insert|replace|update|delete|merge)$/.test(this.outline.verb) ||
      this.outline.has(/^(?:insert|update|delete)$/, 0)
    );
  }

  /** Whether the program expects one row. */
  get isOfOne(): boolean {
    return this.isWrite || /^(?:fetchOne|scalar)$/.test(methodOf(this.call));
  }

  /** Names of the tables of the statement, in lower case. */
  get tables(): readonly string[] {
    return this.outline.tables.map(({ name }) => name);
  }

  /** The table whose rows the statement selects or changes: the first one. */
  get target(): string | undefined {
    return this.tables[0];
  }

  /** Values that the statement compares with columns by `=`. */
  get equal(): readonly Binding[] {
    return (this.bindings ?? []).filter(({ use }) => use === 'equal');
  }

  /** Values that the statement writes to columns. */
  get written(): readonly Binding[] {
    return (this.bindings ?? []).filter(({ use }) => use === 'written');
  }

  /** Whether the statement selects rows by an input of a client. */
  get isByInput(): boolean {
    return this.equal.some(({ kind }) => kind === 'input');
  }

  /** Whether a value is compared or written that belongs to the principal. */
  get isTied(): boolean {
    return this.bindings === undefined || this.bindings.some(({ kind }) => kind === 'principal');
  }

  /** Returns a node at a token of the statement, or at its beginning, for reports. */
  nodeAt(token?: Token): Spot {
    let before = 0;
    const { pieces } = this.statement;
    const start = token?.start ?? 0;
    for (const { text, node, module, start: at } of pieces) {
      if (start < before + text.length)
        return {
          node: { ...node, start: module.source.startsWith(text, at) ? at + start - before : at },
          module,
        };
      before += text.length;
    }
    return { node: this.call, module: this.module };
  }

  #bindings(): readonly Binding[] | undefined {
    const { values } = this.statement;
    const { placeholders } = this.outline;
    if (values?.length !== placeholders.length) return undefined;
    return placeholders.map((token, index) => {
      const value = values[index];
      const written = this.outline.target(token);
      const listed = written === undefined ? this.outline.listed(token) : undefined;
      const compared = written === undefined ? (listed ?? this.outline.compared(token)) : undefined;
      const isEqual = listed !== undefined || this.#isEqual(token);
      const use = written ? 'written' : compared === undefined ? 'other' : isEqual ? 'equal' : 'compared';
      return { value, kind: kindOf(value), token, use, ...this.#column(written ?? compared) };
    });
  }

  #isEqual(token: Token): boolean {
    const { tokens } = this.outline;
    const at = tokens.indexOf(token);
    return tokens[at - 1]?.text === '=' && !/^[<>!]$/.test(tokens[at - 2]?.text ?? '');
  }

  #column(found: ColumnName | undefined): Pick<Binding, 'table' | 'column'> {
    if (found === undefined) return { table: '', column: '' };
    const used = this.outline.tables.find(({ alias, name }) => alias === found.table || name === found.table);
    return { table: used?.name ?? this.target ?? '', column: found.column };
  }
}

/** Returns where a value comes from. A value of several kinds counts as the one that a client chooses least. */
function kindOf(value: Value | undefined): Kind {
  if (value === undefined) return 'other';
  const marks = madeIn(value);
  if (marks.some(isOfPrincipal)) return 'principal';
  if (constantIn(value) !== undefined || value.constant !== undefined) return 'constant';
  return isInput(value, marks) ? 'input' : 'other';
}

/** Returns the inputs of clients in a value by their names, such as `params.id`. */
export function inputsOf(value: Value | undefined): readonly string[] {
  const marks = madeIn(value).filter(({ by }) => INPUT.test(by));
  const parts = clientsIn(value).filter((part) => !isStored(part));
  return [...parts.map(({ origin }) => origin.what), ...marks.map(({ by }) => by)].map(
    (name) => name.split(' ').at(-1)!, // split() always returns at least one part
  );
}

/** Whether a client chooses a value, at least on one way to it: `body.role ?? row.role`. */
export function isChosen(value: Value | undefined): boolean {
  if (value === undefined) return false;
  return value.texts.some((text) => {
    const only: Value = { texts: [text], source: value.source };
    return isInput(only, madeIn(only));
  });
}

function isInput({ source, texts }: Value, marks: readonly Made[]): boolean {
  if (source !== undefined && source.origin.input !== 'row') return true;
  const parts = texts.flat();
  return (
    parts.length > 0 &&
    parts.every((part) =>
      part.kind === 'own'
        ? /^(?:(?:input|endless) |BigInt$)/.test(part.made?.by ?? '')
        : part.kind === 'literal' || !isStored(part),
    ) &&
    (parts.some(({ kind }) => kind === 'client') || marks.length > 0)
  );
}

/** A column of the rows of a class. */
export interface RowColumn {
  readonly of: string;
  readonly name: string;
}

/** Columns to which statements write texts of clients, for rules that ask for a character in them. */
export class WrittenColumns {
  /** Classes of the option `as`, by the calls that send statements. */
  readonly #classes = new Map<Node, string>();
  readonly #written = new Map<string, WrittenColumn>();
  readonly #tables = new Map<string, Set<string>>();
  /** Tables of statements, by their calls. */
  readonly #sent = new Map<Node, readonly string[]>();
  /** Columns of rows without a class whose text code tests. */
  readonly #tested = new Set<string>();

  /** Listeners with which the columns follow an evaluation. */
  readonly watch: Pick<ValueListeners, 'onCall' | 'onCompare'> & { onStatement(sending: Sending): void } = {
    onCall: (site) => {
      const of = classOf(site);
      if (of !== undefined) this.#classes.set(site.call, `${of.module.file}:${of.node.start}`);
      if (/^(?:has|hasOwn|includes|indexOf|test|exec|match|startsWith|endsWith)$/.test(methodOf(site.call)))
        this.#noteTest([site.receiver, ...site.call.args.map((arg) => site.value(arg))]);
    },
    onCompare: ({ sides }) => this.#noteTest(sides),
    onStatement: (sending) => this.#add(sending),
  };

  /** Notes that code tests the texts of values. */
  #noteTest(tested: readonly (Value | undefined)[]): void {
    for (const value of tested)
      for (const made of madeIn(withoutMembers(value)))
        if (made.column !== undefined) this.#tested.add(`${made.node.start} ${made.column}`);
  }

  #add({ bindings = [], tables, call }: Sending): void {
    this.#sent.set(call, [...tables]);
    for (const { use, value, table, column } of bindings) {
      const part = use === 'written' ? clientIn(withoutMembers(value)) : undefined;
      const key = `${table}.${plain(column)}`;
      if (part !== undefined && !isStored(part))
        this.#written.set(key, { column, may: part.may | (this.#written.get(key)?.may ?? 0n) });
    }
    const of = this.#classes.get(call);
    if (of === undefined) return;
    const known = this.#tables.get(of) ?? new Set();
    for (const table of tables) known.add(table);
    this.#tables.set(of, known);
  }

  /** Returns the name in a statement that writes a text with a character to this column of a table from which the rows come. */
  nameOf(column: RowColumn | undefined, char: string): string | undefined {
    return this.#find(column).find(({ may }) => hasAny(may, char))?.column;
  }

  /** Returns the column of a row without a class, if a statement writes a text with a character to it and code tests none. */
  columnIn({ node, column }: Made, char: string): string | undefined {
    if (column === undefined || this.#tested.has(`${node.start} ${column}`)) return undefined;
    return this.#of(this.#sent.get(node), plain(column)).find(({ may }) => hasAny(may, char))?.column;
  }

  /** Whether every text of a client that statements write to this column lacks a character. */
  isSafe(column: RowColumn | undefined, char: string): boolean {
    const found = this.#find(column);
    return found.length > 0 && !found.some(({ may }) => hasAny(may, char));
  }

  #find(column: RowColumn | undefined): readonly WrittenColumn[] {
    return column === undefined ? [] : this.#of(this.#tables.get(column.of), column.name);
  }

  #of(tables: Iterable<string> = [], name: string): readonly WrittenColumn[] {
    return [...tables].flatMap((table) => this.#written.get(`${table}.${name}`) ?? []);
  }
}

/** A column to which texts of clients are written, and the characters that they may contain. */
interface WrittenColumn {
  readonly column: string;
  readonly may: CharSet;
}

function classOf({ call, value }: Site): ClassValue | undefined {
  return call.args.map((arg) => value(arg)?.members?.get('as')?.of).find((of) => of !== undefined);
}

/** Returns the column that a part holds unchanged. rowValue() makes the ids of such parts. */
export function columnOf(part: ClientPart): RowColumn | undefined {
  const [, of, name] = (isStored(part) && /^(.*:\d+)\.(\w+)$/.exec(part.id)) || [];
  return of === undefined || name === undefined ? undefined : { of, name: plain(name) };
}

/** Returns the name of a column or member, as it is in any case: `owner_id` and `ownerId` are one. */
export function plain(column: string): string {
  return column.replaceAll('_', '').toLowerCase();
}
