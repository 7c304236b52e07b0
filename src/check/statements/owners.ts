/**
 * Owners of rows: the columns that statements or code compare with the principal, and the inputs of which a handler
 * asks whether they belong to its principal. The rules of access ask this model.
 */
import { onePer } from '../../base/options.ts';
import { endsFunction, functionAround, isWithin, nodesAround } from '../reader/nodes.ts';
import { ROW } from '../values/marks.ts';
import { comparedColumn, decides, isGuarded, isOwn, rowsIn } from './trace.ts';
import { inputsOf } from './sending.ts';
import type { Node } from '../reader/nodes.ts';
import type { Binding, Sending } from './sending.ts';
import type { Run, Trace } from './trace.ts';

/** A statement whose rows are compared with the principal: by itself, or by code. */
export interface Tie {
  readonly sending: Sending;
  readonly table: string;
  /** Column with the owner. Empty if code compares a value whose column is not known. */
  readonly owner: string;
  /** Columns of the table that the statement compares with an input. */
  readonly keys: readonly string[];
  /** Whether the statement itself compares the owner. */
  readonly isInStatement: boolean;
}

/** Returns the columns of a table that a statement compares with inputs. */
export function keysOf({ equal }: Sending, table: string): readonly string[] {
  return equal.filter((each) => each.table === table && each.kind === 'input').map(({ column }) => column);
}

/**
 * Returns the input by which a statement selects its rows; undefined if other values decide, too. With `isAnyWriter`, a
 * statement may write the principal into the row that it selects: `set edited_by = ? where id = ?`.
 */
export function keyOf({ bindings, outline, isTied }: Sending, isAnyWriter = false): Binding | undefined {
  if (bindings === undefined || !/^(?:select|update|delete)$/.test(outline.verb)) return undefined;
  if (
    isTied &&
    !(isAnyWriter && bindings.every(({ kind, use }) => kind !== 'principal' || use === 'written'))
  )
    return undefined;
  const deciding = bindings.filter(({ use }) => use !== 'written');
  if (deciding.some(({ kind }) => kind === 'other')) return undefined;
  return deciding.find((each) => each.kind === 'input' && each.use === 'equal' && each.table !== '');
}

/** Returns the owners of the rows of an application. */
export const ownersOf: (trace: Trace) => Owners = onePer((trace: Trace) => new Owners(trace));

export class Owners {
  readonly #trace: Trace;
  readonly #tied = new WeakMap<Run, ReadonlySet<string>>();
  readonly #ties: ReadonlyMap<string, readonly Tie[]>;
  /** Tables whose rows every client reads. */
  readonly shared: ReadonlySet<string>;
  /** Tables whose rows are clients: a single key is compared with the principal. */
  readonly accounts: ReadonlySet<string>;

  constructor(trace: Trace) {
    this.#trace = trace;
    this.#ties = Map.groupBy([...tiesOfStatements(trace), ...tiesInCode(trace)], ({ table }) => table);
    this.accounts = new Set(
      [...this.#ties].flatMap(([table, all]) =>
        all.some(({ owner }) => this.isKey(table, owner)) ? [table] : [],
      ),
    );
    const shared = this.#sharedTables(new Set(this.#ties.keys()));
    // rows below a row that every client reads are not private, either
    this.shared = this.#sharedTables(new Set([...this.#ties.keys()].filter((table) => !shared.has(table))));
  }

  /** Ties of all tables. */
  get all(): readonly Tie[] {
    return [...this.#ties.values()].flat();
  }

  tiesOf(table: string): readonly Tie[] {
    return this.#ties.get(table) ?? [];
  }

  /** Whether a column alone is a key of a table that the sources create. */
  isKey(table: string, column: string): boolean {
    return this.#trace.tables.get(table)?.keys.some((key) => key.length === 1 && key[0] === column) === true;
  }

  /** Whether other code decides which of the authenticated clients may continue. */
  isRestricted(run: Run): boolean {
    return (
      this.#trace.requiresRights(run) || this.#trace.testsPrincipal(run) || this.#trace.hasTestingMiddleware
    );
  }

  /**
   * Returns the inputs that the statements of a handler, or of another handler of its route, compare beside the
   * principal. A row that was found by an input hands this on to the statements that select by its columns. Statements
   * that do not run before `node` do not count.
   */
  tiedInputs(run: Run, node?: Node): ReadonlySet<string> {
    if (node !== undefined) return this.#tiedBy(run, node);
    let tied = this.#tied.get(run);
    if (tied === undefined) this.#tied.set(run, (tied = this.#tiedBy(run)));
    return tied;
  }

  #tiedBy(run: Run, node?: Node): ReadonlySet<string> {
    const runs = this.#trace.runs.filter(
      (each) => each === run || (run.route !== undefined && each.route === run.route),
    );
    const sent = runs
      .flatMap((each) => this.#trace.sentBy(each))
      .filter(({ way }) => node === undefined || !way.some((each) => isBeside(each.node, node)));
    const tied = new Set(runs.flatMap((each) => this.#trace.namesIn(each)));
    const follow = ({ bindings = [] }: Sending, seen: ReadonlySet<Sending>): void => {
      for (const { use, value } of bindings) {
        if (use === 'written') continue;
        for (const input of inputsOf(value)) tied.add(input);
        const rows = rowsIn(value, [ROW]);
        for (const each of sent)
          if (rows.includes(each.call) && !seen.has(each)) follow(each, new Set([...seen, each]));
      }
    };
    for (const each of sent) if (comparesPrincipal(each)) follow(each, new Set([each]));
    // a row that code compares with such an input belongs to the client, too
    const compared = runs.flatMap((each) => this.#trace.compared.by(each));
    for (const { sides } of compared) {
      if (!sides.some((side) => inputsOf(side).some((input) => tied.has(input)))) continue;
      const rows = sides.flatMap((side) => rowsIn(side, [ROW]));
      for (const each of sent) if (rows.includes(each.call)) follow(each, new Set([each]));
    }
    return tied;
  }

  /** Returns a column beside these by which handlers select rows of a table, with an input that belongs to their principal. */
  scopeOf(table: string, columns: readonly string[]): string | undefined {
    return this.#trace.runs
      .flatMap((run) => {
        const tied = this.tiedInputs(run);
        return (tied.size === 0 ? [] : this.#trace.sentBy(run))
          .filter((sending) => !comparesPrincipal(sending))
          .flatMap(({ equal }) => equal)
          .filter(
            (each) =>
              each.table === table &&
              !columns.includes(each.column) &&
              inputsOf(each.value).some((input) => tied.has(input)),
          );
      })
      .at(0)?.column;
  }

  /** Returns the tables of which a statement reads rows of all clients, in a handler that every client may call. */
  #sharedTables(owned: ReadonlySet<string>): ReadonlySet<string> {
    const trace = this.#trace;
    return new Set(
      trace.runs
        .filter((run) => !this.isRestricted(run))
        .flatMap((run) => {
          const tied = this.tiedInputs(run);
          return trace
            .sentBy(run)
            .filter(({ outline, isTied }) => outline.verb === 'select' && !isTied)
            .filter((sending) => !isGuarded(run) || !this.#selectsByKey(sending, tied, owned))
            .map(({ target }) => target ?? '');
        }),
    );
  }

  /** Whether a statement selects single rows or those of an owner: by a key, or by the columns by which owners select theirs. */
  #selectsByKey(
    { equal, target = '' }: Sending,
    tied: ReadonlySet<string>,
    owned: ReadonlySet<string>,
  ): boolean {
    const ties = this.tiesOf(target);
    const table = this.#trace.tables.get(target);
    const parents = (table?.references ?? []).filter(
      (each) => owned.has(each.table) && !this.accounts.has(each.table),
    );
    const keys = [
      ...(table?.keys.flat() ?? []),
      ...ties.flatMap((tie) => tie.keys),
      ...parents.map(({ column }) => column),
    ];
    return equal.some(
      ({ column, value }) =>
        keys.length === 0 ||
        keys.includes(column) ||
        ties.some(({ owner }) => owner === column) ||
        inputsOf(value).some((input) => tied.has(input)),
    );
  }
}

/** Whether a part of a function runs after another one, or in a branch that does not come to it. */
function isBeside(part: Node, other: Node): boolean {
  const fn = functionAround(part);
  if (fn !== functionAround(other)) return false;
  return (
    part.start > other.end ||
    [...nodesAround(part)].some((around) => {
      const { parent } = around;
      if (parent === undefined || isWithin(other, around) || !isWithin(parent, fn ?? parent)) return false;
      if (around.type === 'case') return true;
      return (
        parent.type === 'if' && parent.test !== around && (isWithin(other, parent) || endsFunction(around))
      );
    })
  );
}

/** Whether a statement compares a column with the principal. */
function comparesPrincipal({ equal }: Sending): boolean {
  return equal.some(({ kind }) => kind === 'principal');
}

function tiesOfStatements({ sent }: Trace): readonly Tie[] {
  return sent.flatMap((sending) =>
    sending.equal
      .filter(({ kind }) => kind === 'principal')
      .map(({ table, column }) => ({
        sending,
        table,
        owner: column,
        keys: keysOf(sending, table),
        isInStatement: true,
      })),
  );
}

/** Returns the statements whose rows code compares with the principal: `if (row.owner !== me.sub) throw …`. */
function tiesInCode(trace: Trace): readonly Tie[] {
  return trace.compared.all.flatMap((compared) =>
    compared.sides.flatMap((side, index) => {
      const other = compared.sides[1 - index];
      if (other === undefined || !isOwn(other) || isOwn(side) || !decides(compared.node)) return [];
      const calls = rowsIn(side, [ROW]);
      return trace.sent
        .filter((sending) => calls.includes(sending.call) && sending.target !== undefined)
        .map((sending) => ({
          sending,
          table: sending.target ?? '',
          owner: comparedColumn(compared, index) ?? '',
          keys: keysOf(sending, sending.target ?? ''),
          isInStatement: false,
        }));
    }),
  );
}
