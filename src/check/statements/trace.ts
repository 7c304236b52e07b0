/**
 * Trace of each handler: the statements that it sends, and whether it tests something of its principal. Follows the dependencies of a handler, too.
 */
import { COMPUTED, GUARDS, INPUT, OWN_CHANGE, PRINCIPAL, ROW, isOfPrincipal } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { clientPartsOf } from '../values/text.ts';
import { conditionAround, methodOf, partsIn } from '../reader/nodes.ts';
import { isParser } from '../values/inputs.ts';
import { inputsOf } from './sending.ts';
import { ABSENT, clientIn, hasMark, idsIn, madeIn } from '../values/value.ts';
import { isMySql } from '../../db/dialects.ts';
import type { Call, ClassNode, Fn, Node } from '../reader/nodes.ts';
import type { RouteCall } from '../values/functions.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { ValueListeners } from '../values/calls.ts';
import type { Value } from '../values/value.ts';
import type { Dialect } from '../../db/driver.ts';
import type { Sending } from './sending.ts';
import type { KnownTable } from './written-schema.ts';

/** A handler with the dependencies that it receives. */
export interface Run {
  readonly handler: Fn;
  readonly route: RouteCall | undefined;
  readonly dependencies: readonly Value[];
  /** The handler, and the functions of its dependencies. */
  readonly functions: ReadonlySet<Fn>;
  /** Types of the dependencies: `svc.BearerAuth`. */
  readonly guards: ReadonlySet<string>;
  /** Whether a dependency of the project declares `security`. */
  readonly hasOwnGuard: boolean;
}

/** Whether a handler runs for authenticated clients only. */
export function isGuarded({ guards, hasOwnGuard }: Run): boolean {
  return hasOwnGuard || [...guards].some((type) => GUARDS.test(type));
}

/** A database of an application. */
export interface Engine {
  readonly dialect: Dialect;
  /** Isolation level that the address of the database sets for each transaction. */
  readonly isolation: string | undefined;
}

/** A comparison of two values. A condition compares its value with none. */
export type Compared = Parameters<ValueListeners['onCompare']>[0];

/** Listeners with which a trace follows an evaluation. */
type Listeners = Pick<ValueListeners, 'onHandler' | 'onCall' | 'onCompare' | 'onTest' | 'onSum'> & {
  onStatement(sending: Sending): void;
};

/** A call of a function that is not of the project. */
export interface KeptCall {
  readonly call: Call;
  readonly module: SourceModule;
  readonly meaning: string;
  /** Ids of the inputs in its arguments. */
  readonly inputs: ReadonlySet<string>;
  /** Whether an argument comes from the body of the request. */
  readonly isOfBody: boolean;
  /** Values of the arguments, only of functions of node:crypto and of this package, because values hold much memory. */
  readonly args: readonly (Value | undefined)[];
}

/** Calls that do not decide anything about the principal that they receive. */
const INDIFFERENT =
  /^(?:svc\.|String$|Number$|BigInt$|JSON\.|console\.|Object\.|Promise\.|Array\.|svc\/db\.|Date|Math\.)/;

/** Items by the handler or dependency that they belong to. */
class ByHandler<T> {
  readonly #all = new Map<Fn, T[]>();
  readonly #kept = new WeakMap<ReadonlySet<Fn>, { items: readonly T[]; added: number; size: number }>();
  #added = 0;

  add(handler: Fn, item: T): void {
    this.#added++;
    const known = this.#all.get(handler);
    if (known === undefined) this.#all.set(handler, [item]);
    else known.push(item);
  }

  get all(): readonly T[] {
    return [...this.#all.values()].flat();
  }

  /** Returns the items of a handler and its dependencies. Kept, because many rules ask for those of the same handlers. */
  by({ functions }: Pick<Run, 'functions'>): readonly T[] {
    const kept = this.#kept.get(functions);
    if (kept?.added === this.#added && kept.size === functions.size) return kept.items;
    const items = [...functions].flatMap((handler) => this.#all.get(handler) ?? []);
    this.#kept.set(functions, { items, added: this.#added, size: functions.size });
    return items;
  }
}

export class Trace {
  readonly #runs = new Map<Fn, Run>();
  /** The values of `#runs`, which many rules ask for in loops. */
  #listed: readonly Run[] | undefined;
  readonly #sent: Sending[] = [];
  readonly #sentBy = new ByHandler<Sending>();
  /** Calls of functions that are not of the project. */
  readonly calls: ByHandler<KeptCall> = new ByHandler();
  /** Comparisons of rows and inputs. */
  readonly compared: ByHandler<Compared> = new ByHandler();
  /** Tests of inputs. */
  readonly tested: ByHandler<Compared> = new ByHandler();
  /** Sums and products with a number that a client sends. */
  readonly sums: ByHandler<Compared> = new ByHandler();
  /** Functions that test or compare something of the principal, or hand it to code that may do so. */
  readonly #testing = new Set<Fn>();
  /** Functions that decide by the claims of the principal, or by columns of its rows. */
  readonly #deciding = new Set<Fn>();
  /** Comparisons that let a principal go on only if an input names it. */
  readonly #ties = new ByHandler<Compared>();
  #hasTestingMiddleware: boolean | undefined;
  /** Tables that migrations and texts in the sources create, by their names. */
  readonly tables: ReadonlyMap<string, KnownTable>;
  /** Databases by the names of their plugins. */
  readonly #engines: ReadonlyMap<string, Engine>;

  constructor(tables: ReadonlyMap<string, KnownTable>, engines: ReadonlyMap<string, Engine>) {
    this.tables = tables;
    this.#engines = engines;
  }

  /** Handlers of routes, WebSockets and tools. */
  get runs(): readonly Run[] {
    return (this.#listed ??= [...this.#runs.values()]);
  }

  /** Returns the run of a handler; undefined for a dependency. */
  runOf(handler: Fn | undefined): Run | undefined {
    return handler && this.#runs.get(handler);
  }

  /** Returns the table whose rows a statement selects or changes; undefined if no text in the sources creates it. */
  tableOf({ target }: Sending): KnownTable | undefined {
    return this.tables.get(target ?? '');
  }

  /** Whether other requests may change a row that a transaction has read before the transaction writes it. */
  isLoose({ database, isolation }: Sending): boolean {
    return isolation !== undefined && this.#isOn(database, (engine) => isLoose(engine, isolation));
  }

  /** Whether the database of a statement is MySQL or MariaDB, which compare texts without case by default. */
  isCaseless({ database }: Sending): boolean {
    return this.#isOn(database, ({ dialect }) => isMySql(dialect));
  }

  /** Whether a database fits; all databases, if it is not known by name. */
  #isOn(database: string | undefined, fits: (engine: Engine) => boolean): boolean {
    const named = this.#engines.get(database ?? '');
    return named === undefined
      ? this.#engines.size > 0 && [...this.#engines.values()].every(fits)
      : fits(named);
  }

  /** Statements that handlers and dependencies send. */
  get sent(): readonly Sending[] {
    return this.#sent;
  }

  /** Returns the statements that a handler sends, also through its dependencies. */
  sentBy(run: Pick<Run, 'functions'>): readonly Sending[] {
    return this.#sentBy.by(run);
  }

  /** Whether a guard of a handler requires a role, a scope, or anything else than an input that names the principal. */
  requiresRights(run: Run): boolean {
    const isOwnOnly = this.#ties.by(run).length > 0;
    return [...run.guards].some(
      (type) => /^svc\.require(?:Roles|Scopes)$/.test(type) || (type === 'svc.requireIf' && !isOwnOnly),
    );
  }

  /** Returns the inputs that must name the principal, because a comparison refuses all others. */
  namesIn(run: Run): readonly string[] {
    return this.#ties.by(run).flatMap(({ sides }) => sides.flatMap((side) => inputsOf(side)));
  }

  /** Whether a handler or one of its dependencies tests something of the principal. */
  testsPrincipal({ functions }: Run): boolean {
    return [...functions].some((fn) => this.#testing.has(fn));
  }

  /** Whether a handler or one of its dependencies decides by rights of the principal. */
  testsRights({ functions }: Run): boolean {
    return [...functions].some((fn) => this.#deciding.has(fn));
  }

  /** Whether a middleware of the project tests something of the principal. */
  get hasTestingMiddleware(): boolean {
    const isKnown = (fn: Fn): boolean => this.runs.some(({ functions }) => functions.has(fn));
    return (this.#hasTestingMiddleware ??= ![...this.#testing].every(isKnown));
  }

  /** Keeps a comparison of a row, or of an input with another value. Rules ask for no other ones. */
  #keep(handler: Fn, compared: Compared): void {
    const { sides } = compared;
    const isOfInput = !sides.some(isEmpty) && sides.some(isGiven);
    if (isOfInput || sides.some((side) => rowsIn(side).length > 0)) this.compared.add(handler, compared);
  }

  readonly watch: Listeners = {
    onHandler: ({ handler, route, dependencies }) => {
      const functions = new Set([handler]);
      const guards = new Set<string>();
      const hasOwnGuard = dependencies.map((each) => follow(each, functions, guards)).includes(true);
      this.#listed = undefined;
      this.#runs.set(handler, { handler, route, dependencies, functions, guards, hasOwnGuard });
    },
    onCall: (site) => {
      const { handler, meaning, call, receiver, fn, value } = site;
      if (handler === undefined) return;
      const args = call.args.map((arg) => value(arg));
      const isKept = /^(?:crypto|svc)\b/.test(meaning);
      if (fn === undefined && (isKept || args.some(isGiven)))
        this.calls.add(handler, {
          call,
          module: site.module,
          meaning,
          inputs: new Set(args.flatMap(idsIn)),
          isOfBody: args.some(isOfBody),
          args: isKept ? args : [],
        });
      const isFollowed =
        fn !== undefined ||
        value(call.callee)?.of !== undefined ||
        isParser(receiver, methodOf(call)) ||
        INDIFFERENT.test(meaning);
      if (isFollowed || ![receiver, ...args].some(isOwn)) return;
      this.#testing.add(handler);
      this.#deciding.add(handler);
    },
    onCompare: (compared) => {
      const { handler, sides } = compared;
      if (handler === undefined) return;
      this.#keep(handler, compared);
      if (tiesInput(compared)) this.#ties.add(handler, compared);
      else if (!sides.includes(ABSENT) && !isOfPresence(sides) && sides.some(isOwn)) {
        this.#testing.add(handler);
        if (decidesByRights(sides)) this.#deciding.add(handler);
      }
    },
    onSum: (sum) => {
      const isOfNumber = sum.sides.some(({ declared }) => declared?.number !== undefined);
      if (sum.handler !== undefined && isOfNumber) this.sums.add(sum.handler, sum);
    },
    onTest: ({ value, handler, node, module }) => {
      if (handler === undefined) return;
      const tested: Compared = { node, module, handler, sides: [value, ABSENT] };
      this.#keep(handler, tested);
      if (isGiven(value)) this.tested.add(handler, tested);
      // a test whether there is a principal says nothing of its rights
      if (value.type !== undefined || !isOwn(value)) return;
      this.#testing.add(handler);
      if (hasMark(value, PRINCIPAL)) this.#deciding.add(handler);
    },
    onStatement: (sending) => {
      if (sending.handler === undefined) return;
      this.#sent.push(sending);
      this.#sentBy.add(sending.handler, sending);
    },
  };
}

/**
 * Transactions of SQLite run one after the other. PostgreSQL refuses to write a row that has changed since a snapshot.
 * MySQL, and MariaDB before 11.6, write it.
 */
function isLoose({ dialect, isolation: usual = '' }: Engine, isolation: string): boolean {
  const level = isolation === '' ? usual.toLowerCase().replace('-', ' ') : isolation;
  if (dialect === 'sqlite' || level === '?') return false;
  return isMySql(dialect) ? level !== 'serializable' : !/^(?:serializable|repeatable read)$/.test(level);
}

/** Whether a comparison with the value says only that there is a text. */
export function isEmpty(value: Value): boolean {
  return value === ABSENT || constantIn(value) === '';
}

/** Whether a comparison with 0 or 1 says only that a row was found by an input: `(await db.scalar('select count(*) …')) > 0`. */
function isOfPresence(sides: readonly Value[]): boolean {
  return (
    sides.some(({ keys = [] }) => keys.length > 0) &&
    sides.some((side) => /^[01]$/.test(constantIn(side) ?? ''))
  );
}

/** Returns the calls that read the columns of which a value consists, or from which it was computed. */
export function rowsIn(
  value: Value | undefined,
  marks: readonly string[] = [ROW, COMPUTED],
): readonly Node[] {
  const columns = clientPartsOf(value?.texts ?? []).flatMap(({ origin }) => origin.made ?? []);
  return [...columns, ...madeIn(value)].filter(({ by }) => marks.includes(by)).map(({ node }) => node);
}

/** Whether a client gave a part of a value. */
function isGiven(value: Value | undefined): boolean {
  return clientIn(value) !== undefined || hasMark(value, INPUT);
}

function isOfBody(value: Value | undefined): boolean {
  return clientIn(value)?.origin.input === 'body' || hasMark(value, /^input body\./);
}

/** Returns the name of the column or variable on a side of a comparison; undefined for any other expression. */
export function comparedColumn({ node }: Compared, side: number): string | undefined {
  const at = node.type === 'binary' ? (side === 0 ? node.left : node.right) : side === 0 ? node : undefined;
  return at?.type === 'member' ? at.property : at?.type === 'name' ? at.name : undefined;
}

/** Whether a comparison of an input with the principal decides whether code goes on. */
function tiesInput({ node, sides }: Compared): boolean {
  const [left, right] = sides.map(isOwn);
  const input = left === right ? undefined : sides[left === true ? 1 : 0];
  return inputsOf(input).length > 0 && rowsIn(input).length === 0 && decides(node);
}

/** Whether the value of a comparison decides whether code goes on: in the test of a branch that leaves, or as a result. */
export function decides(node: Node): boolean {
  const { whole } = conditionAround(node, /./);
  const { parent } = whole;
  if (parent?.type === 'function') return parent.isExpression;
  const isTest = parent?.type === 'if' && parent.test === whole;
  return parent?.type === 'leave' || (isTest && partsIn(parent.yes).some(({ type }) => type === 'leave'));
}

/** Whether a value belongs to the principal. */
export function isOwn(value: Value | undefined): boolean {
  return madeIn(value).some(isOfPrincipal);
}

/** Whether a comparison asks for a claim of the principal, or a column of its row, but not whether it owns another row. */
function decidesByRights(sides: readonly Value[]): boolean {
  const marks = sides.flatMap((side) => madeIn(side));
  return (
    marks.some((made) => isOfPrincipal(made) && made.by !== OWN_CHANGE) &&
    !sides.some((side) => !isOwn(side) && rowsIn(side).length > 0)
  );
}

/** Adds the functions and guards of a dependency. Returns whether a dependency of the project declares `security`. */
function follow({ depends, gives }: Value, functions: Set<Fn>, guards: Set<string>, depth = 0): boolean {
  if (depends === undefined || depth > 6) return false;
  if (gives?.type !== undefined) guards.add(gives.type);
  const fn = (depends.fn ?? depends.predicate)?.fn ?? constructorOf(depends.of?.node);
  if (fn !== undefined) functions.add(fn);
  const members = [...(depends.spec?.members?.values() ?? [])];
  const inner = members.map((member) => follow(member, functions, guards, depth + 1)).includes(true);
  return inner || depends.spec?.members?.has('security') === true;
}

function constructorOf(node: ClassNode | undefined): Fn | undefined {
  const found = node?.members.find((member) => member.type === 'entry' && member.key === 'constructor');
  return found?.type === 'entry' && found.value?.type === 'function' ? found.value : undefined;
}
