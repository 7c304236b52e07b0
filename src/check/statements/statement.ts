/**
 * SQL statements in the sources: calls that send statements, the texts that each call may send, and the places of
 * these texts.
 */
import { offsetInSource } from '../reader/expressions.ts';
import { isMySql } from '../../db/dialects.ts';
import { splitScript } from '../../db/script.ts';
import { Outline } from './outline.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Call } from '../reader/nodes.ts';
import type { Piece } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import type { Place } from '../../base/findings.ts';
import type { Describer } from '../../db/describe/describer.ts';
import type { Dialect } from '../../db/driver.ts';

/** Methods that send statements. A script sends several ones. */
export const VERBS = [
  'fetchAll',
  'fetchOne',
  'fetchArrays',
  'fetchSets',
  'execute',
  'executeMany',
  'insertMany',
  'scalar',
  'script',
  'stream',
] as const;
/** A method that sends statements. A page sends the statement of `fetch()`. */
export type Verb = (typeof VERBS)[number] | 'page';

/** A call that sends statements. */
export interface SentCall {
  readonly call: Call;
  readonly module: SourceModule;
  readonly verb: Verb;
  /** Name of the plugin of the database. Undefined for a database that is not known by name. */
  readonly database: string | undefined;
  /** Expression of the option `as`. */
  readonly as: Spot | undefined;
  /** Value of the option `snakeCase` of the call. */
  readonly snakeCase: boolean | undefined;
  /** Statements that the call may send, by their text for SQLite. */
  readonly statements: Map<string, Statement>;
  /** Expression of a statement whose text is not known. */
  unknown: Spot | undefined;
}

/** A statement as a database receives it. */
export interface SentText {
  readonly statement: Statement;
  readonly text: string;
  readonly outline: Outline;
  /** Offset in the text of the call. */
  readonly start: number;
}

/** Words that begin the statements of a script that change no tables. */
const OF_ROWS = /^(?:select|insert|update|delete|replace|with|merge|values)$/;

/** Returns the statements that a call may send to a database. Leaves out scripts whose parts are choices. */
export function textsOf({ verb, statements }: SentCall, dialect: Dialect): readonly SentText[] {
  const known = [...statements.values()].map((statement) => ({
    statement,
    text: statement.text(dialect),
    start: 0,
  }));
  if (verb !== 'script') return known.map((each) => ({ ...each, outline: new Outline(each.text, dialect) }));
  if (known.length > 1) return [];
  return known.flatMap(({ statement, text: script }) =>
    splitScript(script, dialect, true)
      .statements.map(({ text, start }) => ({ statement, text, start, outline: new Outline(text, dialect) }))
      // a script has no placeholders: a question mark is an operator
      .filter(({ outline }) => OF_ROWS.test(outline.verb) && outline.placeholders.length === 0),
  );
}

/** A database, or a lock file in its place. */
export type StatementDescriber = Pick<
  Describer,
  'dialect' | 'snakeCase' | 'hash' | 'tables' | 'describeStatement'
> & {
  /** Whether a lock file describes the statements. */
  readonly isLocked?: boolean;
};

/** A problem at a place in the text of a statement. */
export interface Problem {
  readonly rule: `SVC${number}`;
  readonly message: string;
  readonly remedy?: string | undefined;
  /** Offset in the text of the statement. */
  readonly start: number;
}

/** One text that a call may send. */
export class Statement {
  readonly pieces: readonly Piece[];
  /** Values for the placeholders, in their order. Undefined if their number is not known. */
  readonly values: readonly (Value | undefined)[] | undefined;

  constructor(pieces: readonly Piece[], values: readonly (Value | undefined)[] | undefined) {
    this.pieces = pieces;
    this.values = values;
  }

  /** Returns the text for a dialect, with a `?` for each value. */
  text(dialect: Dialect): string {
    return this.pieces.map((piece) => textOf(piece, dialect)).join('');
  }

  /** Whether no value may be a part of the statement instead. */
  get isCertain(): boolean {
    return this.pieces.every(({ bound }) => bound?.isCertain !== false);
  }

  /** Whether the text has one item of a list in place of a number of items that is not known. */
  get isPartial(): boolean {
    return this.pieces.some(({ isPartial }) => isPartial === true);
  }

  /** Returns the place in the sources of an offset in the text for a dialect. */
  placeAt(offset: number, dialect: Dialect): Place {
    let before = 0;
    for (const piece of this.pieces) {
      const { length } = textOf(piece, dialect);
      if (offset < before + length) return placeIn(piece, offset - before, textOf(piece, dialect));
      before += length;
    }
    const last = this.pieces.findLast(({ text }) => text.trim() !== '') ?? this.pieces.at(-1)!;
    const text = textOf(last, dialect).trimEnd();
    return placeIn(last, Math.max(0, text.length - 1), text);
  }
}

function textOf({ text, ofMySql = text }: Piece, dialect: Dialect): string {
  return isMySql(dialect) ? ofMySql : text;
}

function placeIn({ module, node, start }: Piece, offset: number, text: string): Place {
  const isAsWritten = module.source.startsWith(text, start);
  const isEscaped = node.type === 'text' || node.type === 'template';
  const rest = isEscaped ? module.source.slice(start, node.end) : '';
  return module.placeAt(start + (isAsWritten ? offset : isEscaped ? offsetInSource(rest, offset) : 0));
}
