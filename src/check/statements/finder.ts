/**
 * Finds the calls that send SQL statements, by the type of the receiver: the methods of a database, of a
 * transaction or session, and of pages. Collects the texts that each call may send.
 */
import { SQL } from '../values/effects.ts';
import { itemOf } from '../values/inputs.ts';
import { constantIn } from '../values/tests.ts';
import { boundValue, insertText, pageText } from '../values/sql-texts.ts';
import { entryOf, methodOf } from '../reader/nodes.ts';
import { specOf } from '../values/functions.ts';
import { Sending } from './sending.ts';
import { Statement, VERBS } from './statement.ts';
import { innerOf } from '../values/value.ts';
import type { Site } from '../values/calls.ts';
import type { Piece, Text } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { Watch } from '../sources.ts';
import type { Node } from '../reader/nodes.ts';
import type { SentCall, Verb } from './statement.ts';
import type { Spot } from '../reader/modules.ts';

/** Name of the plugin of the default database. */
const DEFAULT_NAME = 'database';
/** Methods that only databases have. */
const OWN_VERBS = /^(?:fetchAll|fetchOne|fetchArrays|fetchSets|executeMany|insertMany)$/;
const STATEMENT = /^\s*(?:select|insert|update|delete|replace|with|values)\s/i;
/** Functions that make a response of their first argument. */
const REPLIES = /^svc\.(?:reply|JSONResponse|HttpResponse)$|^Response(?:\.json)?$/;

/** Collects the statements of a project, while the interpreter follows its calls. */
export class StatementFinder implements Watch {
  readonly #calls = new Map<Node, SentCall>();
  readonly #replied = new Set<Node>();
  readonly #onStatement: (sending: Sending) => void;

  constructor(onStatement: (sending: Sending) => void = () => undefined) {
    this.#onStatement = onStatement;
  }

  /** Calls that send statements, in the order of their files and lines. */
  get calls(): readonly SentCall[] {
    return [...this.#calls.values()];
  }

  /** Notes the calls whose rows a response contains as they are. */
  onReply({ value, route }: Pick<Site, 'route'> & { readonly value: Value | undefined }): void {
    // a response schema removes members that it does not declare
    if (route !== undefined && entryOf(specOf(route), 'response') !== undefined) return;
    for (const node of rowsIn(value)) this.#replied.add(node);
  }

  /** Whether a response contains the rows of a call as they are. */
  isReplied({ call }: SentCall): boolean {
    return this.#replied.has(call);
  }

  onCall(site: Site): void {
    const { call, module } = site;
    if (REPLIES.test(site.meaning)) this.onReply({ value: site.value(call.args[0]), route: site.route });
    const found = call.isNew ? undefined : receiverOf(site);
    if (found === undefined) return;
    const { verb, database } = found;
    const sent = sentBy(site, verb);
    if (sent === undefined) return;
    let entry = this.#calls.get(call);
    if (entry === undefined) {
      const snakeCase = constantIn(site.value(entryOf(sent.options, 'snakeCase')));
      entry = {
        call,
        module,
        verb,
        database,
        as: asOf(site, sent.options),
        snakeCase: snakeCase === undefined ? undefined : snakeCase === 'true',
        statements: new Map(),
        unknown: undefined,
      };
      this.#calls.set(call, entry);
    }
    const added = this.#add(entry, sent);
    if (verb !== 'script')
      for (const statement of added) this.#onStatement(new Sending(site, statement, database));
  }

  #add(entry: SentCall, { text, values, spot }: Sent): readonly Statement[] {
    const found: Statement[] = [];
    const isTemplate = text?.type === SQL;
    for (const each of text?.texts ?? []) {
      const pieces = piecesOf(each);
      if (pieces === undefined) entry.unknown ??= spot;
      else {
        const statement = new Statement(pieces, isTemplate ? boundIn(pieces) : values);
        found.push(statement);
        const key = statement.text('sqlite');
        if (!entry.statements.has(key)) entry.statements.set(key, statement);
      }
    }
    if (entry.statements.size === 0) entry.unknown ??= spot;
    return found;
  }
}

/** Returns the calls whose rows are in a value as a whole. */
function rowsIn(value: Value | undefined, depth = 0): readonly Node[] {
  if (value === undefined || depth > 4) return [];
  return [
    ...(value.whole === undefined ? [] : [value.whole.node]),
    ...innerOf(value).flatMap((each) => rowsIn(each, depth + 1)),
  ];
}

/** Returns the pieces of a text that is known completely. */
function piecesOf(text: Text): readonly Piece[] | undefined {
  const pieces: Piece[] = [];
  for (const part of text) {
    if (part.kind !== 'literal' || part.from === undefined) return undefined;
    pieces.push(...part.from);
  }
  return pieces;
}

function boundIn(pieces: readonly Piece[]): Values {
  return pieces.flatMap((piece) => (piece.bound === undefined ? [] : [boundValue(piece)]));
}

/** Returns the method of the framework that a call calls, and the database. Undefined for any other call. */
function receiverOf(site: Site): { readonly verb: Verb; readonly database: string | undefined } | undefined {
  const { call, meaning, receiver, value } = site;
  const method = methodOf(call);
  if (/^svc\/db\.(?:Keyset|Offset)Pages\.fetch$/.test(meaning))
    return { verb: 'page', database: nameIn(value(call.args[0])?.type) };
  const verb = VERBS.find((each) => each === method);
  if (verb === undefined) return undefined;
  if (/^svc\/db\.(?!redis|Redis|DedicatedRedis|openRedis)/.test(meaning))
    return { verb, database: nameIn(receiver?.type) };
  const isUntyped = meaning === '' || /^svc\.\w+\.[^]+$/.test(meaning);
  if (!isUntyped || receiver?.of !== undefined || receiver?.members?.has(method) === true) return undefined;
  const [first] = call.args;
  const text = value(first);
  const isStatement =
    text?.type === SQL ||
    text?.texts.some(([lead]) => lead?.kind === 'literal' && STATEMENT.test(lead.text)) === true;
  return OWN_VERBS.test(method) || isStatement ? { verb, database: ANY } : undefined;
}

/** Stands for the only database of the application, where the type of the receiver is not known. */
export const ANY = '';

/** Returns the name of the plugin whose database has a type; undefined for a database that has no plugin. */
function nameIn(type: string | undefined): string | undefined {
  if (type === undefined || /^svc\/db\.(?:database|Database|DatabasePlugin|Session|Transaction)$/.test(type))
    return ANY;
  const [, name] = /^svc\/db\.database\((.*)\)/.exec(type) ?? [];
  return name ?? (/^svc\/db\.(?:db|transaction)\b/.test(type) ? DEFAULT_NAME : undefined);
}

type Values = readonly (Value | undefined)[];

/** The texts that a call may send, with the values of their placeholders. */
interface Sent {
  readonly text: Value | undefined;
  /** Values for the placeholders of a plain text. Undefined if their number is not known. */
  readonly values: Values | undefined;
  readonly options: Node | undefined;
  readonly spot: Spot;
}

function sentBy(site: Site, verb: Verb): Sent | undefined {
  const { call, value } = site;
  const [first, second, third, fourth] = call.args;
  if (first === undefined) return undefined;
  const at = { node: call, module: site.module };
  const spot = site.written((verb === 'page' ? second : undefined) ?? first);
  if (verb === 'page') {
    const text = pageText(value(second), site.receiver?.members?.get('orderBy'), at);
    return { text, values: undefined, options: fourth, spot };
  }
  if (verb === 'insertMany') {
    const text = insertText(value(first), value(second), rowOf(value(third)), at);
    return { text, values: undefined, options: fourth, spot };
  }
  const text = value(first);
  if (text?.type === SQL) return { text, values: undefined, options: second, spot };
  const values = verb === 'executeMany' ? cellsOf(rowOf(value(second))) : valuesIn(second, site);
  return { text, values, options: third, spot };
}

function rowOf(rows: Value | undefined): Value | undefined {
  return rows === undefined ? undefined : itemOf(rows);
}

/** Returns the values of a list: one that is written in the call, or one whose items are all known. */
function valuesIn(node: Node | undefined, { value }: Site): Values | undefined {
  if (node === undefined) return [];
  if (node.type !== 'list' || node.items.some(({ type }) => type === 'spread')) {
    const list = value(node);
    return list?.members?.has('0') === true ? cellsOf(list) : undefined;
  }
  return node.items.map((item) => value(item));
}

function cellsOf(row: Value | undefined): Values | undefined {
  if (row?.members === undefined || row.items !== undefined) return undefined;
  return [...row.members.values()];
}

/** Returns the expression of the option `as`. */
function asOf(site: Site, options: Node | undefined): Spot | undefined {
  if (options === undefined) return undefined;
  const { node, module } = site.written(options);
  const as = entryOf(node, 'as');
  return as === undefined ? undefined : module === site.module ? site.written(as) : { node: as, module };
}
