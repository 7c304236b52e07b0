/**
 * Outline of one SQL statement: its tables, the columns that placeholders are compared with or written to, and the
 * conditions of its `where`. Reads only plain forms. Leaves out everything else.
 */
import { Lexer } from '../../db/lexer.ts';
import type { Dialect } from '../../db/driver.ts';

/** A token that is neither space nor a comment. */
export interface Token {
  readonly text: string;
  /** The word in lower case. Empty for other tokens, and for quoted names. */
  readonly word: string;
  /** The name in lower case, without quotes. Empty for a token that is not a name. */
  readonly name: string;
  readonly start: number;
  /** Number of open parentheses around the token. */
  readonly depth: number;
  readonly isPlaceholder: boolean;
}

/** A table in `from`, `join`, `update`, `into` or `delete from`. */
interface UsedTable {
  /** Name in lower case, with its schema unless that is the default one. */
  readonly name: string;
  readonly alias: string;
  readonly token: Token;
}

/** A column with its table, as a statement names it. */
export interface ColumnName {
  /** Alias or name of the table, in lower case. */
  readonly table: string | undefined;
  readonly column: string;
}

/** An `insert` with the columns that it writes. */
interface Insertion {
  readonly table: UsedTable;
  /** Undefined without a list of columns. */
  readonly columns: readonly Token[] | undefined;
}

/** Words that may follow the name of a table, so they are not its alias. */
const CLAUSES =
  /^(?:where|on|using|join|inner|left|right|full|cross|natural|outer|order|group|having|limit|offset|window|union|intersect|except|set|values|select|returning|default|for|indexed|not|force|use|ignore|straight_join|lateral|as)$/;
const BEFORE_TABLE = /^(?:from|join|update|into|straight_join)$/;
const ENDS_WHERE = /^(?:group|order|limit|offset|having|window|union|intersect|except|returning|for|fetch)$/;

export class Outline {
  readonly tokens: readonly Token[];
  readonly tables: readonly UsedTable[];
  readonly placeholders: readonly Token[];

  constructor(text: string, dialect: Dialect) {
    this.tokens = tokensOf(text, dialect);
    this.tables = tablesIn(this.tokens);
    this.placeholders = this.tokens.filter(({ isPlaceholder }) => isPlaceholder);
  }

  /** First word of the statement. */
  get verb(): string {
    return this.tokens[0]?.word ?? '';
  }

  has(word: RegExp, depth?: number): boolean {
    return this.tokens.some(
      (token) => word.test(token.word) && (depth === undefined || token.depth === depth),
    );
  }

  /** Whether the statement names a column, or all of them. */
  names(column: string): boolean {
    return this.hasStar || this.tokens.some(({ name }) => name === column);
  }

  /** Returns the tokens before a word outside of parentheses; all of them if there is no such word. */
  before(word: 'from' | 'where'): readonly Token[] {
    const at = this.#at(word);
    return this.tokens.slice(0, at === -1 ? undefined : at);
  }

  #at(word: 'from' | 'where'): number {
    return this.tokens.findIndex((token) => token.word === word && token.depth === 0);
  }

  /** Whether a name occurs after a token, except in the columns by which the rows are grouped and sorted. */
  isNamedAfter(index: number, name: string): boolean {
    let isSorting = false;
    return this.tokens.slice(index + 1).some((token) => {
      if (token.depth === 0 && /^(?:group|order)$/.test(token.word)) isSorting = true;
      if (token.depth === 0 && /^(?:having|limit|union|intersect|except|returning)$/.test(token.word))
        isSorting = false;
      return !isSorting && token.name === name;
    });
  }

  /** Whether the statement reads numbers about its rows, such as `count(*)`, instead of rows. */
  get isAggregate(): boolean {
    return (
      this.verb === 'select' &&
      this.#at('from') !== -1 &&
      this.before('from').some(
        ({ word, depth }, index) =>
          depth === 0 &&
          /^(?:count|sum|avg|min|max|total)$/.test(word) &&
          this.tokens[index + 1]?.text === '(',
      )
    );
  }

  /** Whether the list of columns has a `*`. */
  get hasStar(): boolean {
    return this.tokens.some(
      ({ text, depth }, index) =>
        text === '*' &&
        depth === 0 &&
        /^(?:select|distinct|all|returning|,|\.)$/i.test(this.tokens[index - 1]?.text ?? ''),
    );
  }

  /** The `insert` of the statement; undefined for any other statement. */
  get insertion(): Insertion | undefined {
    const into = this.tokens.findIndex(({ word, depth }) => word === 'into' && depth === 0);
    const table = this.tables.find(({ token }) => token === this.#tableAfter(into));
    if (!/^(?:insert|replace)$/.test(this.verb) || table === undefined) return undefined;
    const open = this.tokens.indexOf(table.token) + 1;
    if (this.tokens[open]?.text !== '(') return { table, columns: undefined };
    return { table, columns: this.#names(open) };
  }

  #tableAfter(index: number): Token | undefined {
    const [name, dot, second] = this.tokens.slice(index + 1, index + 4);
    return dot?.text === '.' ? second : name;
  }

  /** Returns the names between the parenthesis at an index and its end; undefined if there is anything else. */
  #names(open: number): readonly Token[] | undefined {
    const inside = insideOf(this.tokens, open);
    const isList = inside.every((token, index) => (index % 2 === 0 ? token.name !== '' : token.text === ','));
    return isList && inside[0]?.word !== 'select' ? inside.filter((_, index) => index % 2 === 0) : undefined;
  }

  /** Returns the column to which a placeholder is written; undefined for a placeholder in an expression. */
  target(placeholder: Token): ColumnName | undefined {
    const at = this.tokens.indexOf(placeholder);
    const [before, after] = [this.tokens[at - 1], this.tokens[at + 1]];
    const ends =
      after === undefined ||
      /^[,);]$/.test(after.text) ||
      /^(?:where|from|returning|on|order|limit)$/.test(after.word);
    if (!ends || before === undefined) return undefined;
    if (before.text === '=' && this.#clauseBefore(at) === 'set') return this.#columnBefore(at - 1);
    const isItem = placeholder.depth === 0 && this.#clauseBefore(at) === 'select';
    if (!/^[(,]$/.test(before.text) && !(isItem && before.word === 'select')) return undefined;
    const open = this.tokens.findLastIndex(({ text, word, depth }, index) =>
      index >= at
        ? false
        : isItem
          ? word === 'select' && depth === 0
          : text === '(' && depth === placeholder.depth - 1,
    );
    return this.#cell(open, placeholder);
  }

  /** Returns the column of a placeholder in `values (…)`, or of an item of `insert … select`. */
  #cell(open: number, placeholder: Token): ColumnName | undefined {
    const insertion = this.insertion;
    const before = this.tokens[open - 1];
    const isRow =
      this.tokens[open]?.word === 'select' ||
      ((before?.word === 'values' || (before?.text === ',' && before.depth === this.tokens[open]!.depth)) &&
        this.#clauseBefore(open) === 'values');
    if (insertion?.columns === undefined || !isRow || this.tokens[open]!.depth !== 0) return undefined;
    const position = this.tokens.filter(
      (token) =>
        token.text === ',' &&
        token.depth === placeholder.depth &&
        token.start > this.tokens[open]!.start &&
        token.start < placeholder.start,
    ).length;
    const column = insertion.columns[position];
    return column && { table: insertion.table.alias, column: column.name };
  }

  #clauseBefore(index: number): string | undefined {
    const { depth } = this.tokens[index]!;
    return this.tokens.findLast(
      (token, at) =>
        at < index && token.depth <= depth && /^(?:set|where|values|on|having|select|from)$/.test(token.word),
    )?.word;
  }

  /** Returns the column of `column in (…)` around a placeholder; undefined for any other placeholder. */
  listed(placeholder: Token): ColumnName | undefined {
    const open = this.tokens.findLastIndex(
      ({ text, depth, start }) =>
        text === '(' && depth === placeholder.depth - 1 && start < placeholder.start,
    );
    const isIn = this.tokens[open - 1]?.word === 'in' && this.tokens[open - 2]?.word !== 'not';
    return isIn ? this.#columnBefore(open - 1) : undefined;
  }

  /** Returns the column with which a placeholder is compared; undefined for any other placeholder. */
  compared(placeholder: Token): ColumnName | undefined {
    const at = this.tokens.indexOf(placeholder);
    const after = this.tokens[at + 1];
    const ends =
      after === undefined ||
      /^[);]$/.test(after.text) ||
      /^(?:and|or|order|group|limit|having|returning|union|intersect|except|then|for|offset)$/.test(
        after.word,
      );
    if (!ends || !/^(?:=|<|>)$/.test(this.tokens[at - 1]?.text ?? '') || this.#clauseBefore(at) === 'set')
      return undefined;
    const start = /^[=<>!]$/.test(this.tokens[at - 2]?.text ?? '') ? at - 2 : at - 1;
    return this.#columnBefore(start);
  }

  #columnBefore(index: number): ColumnName | undefined {
    const [table, dot, column] = [this.tokens[index - 3], this.tokens[index - 2], this.tokens[index - 1]];
    if (column === undefined || column.name === '') return undefined;
    if (dot?.text === '.')
      return table === undefined || table.name === ''
        ? undefined
        : { table: table.name, column: column.name };
    return dot === undefined ||
      /^[(,]$/.test(dot.text) ||
      /^(?:where|and|or|not|on|set|having|when)$/.test(dot.word)
      ? { table: undefined, column: column.name }
      : undefined;
  }

  /**
   * Returns the columns that the `where` of the statement compares with `=`, one for each of its conditions.
   * Undefined if there is a condition of another form, or none.
   */
  get equalities(): readonly ColumnName[] | undefined {
    const where = this.#where;
    if (where === undefined) return undefined;
    const found: ColumnName[] = [];
    for (const condition of splitAt(where, ({ word, depth }) => word === 'and' && depth === 0)) {
      const equals = condition.findIndex(({ text }) => text === '=');
      const left = condition.slice(0, equals).filter(({ text }) => text !== '.');
      const column = left.at(-1);
      const isPlain =
        equals > 0 && equals <= 3 && column !== undefined && column.name !== '' && left.length <= 2;
      if (!isPlain) return undefined;
      found.push({ table: left.length === 2 ? left[0]!.name : undefined, column: column.name });
    }
    return found;
  }

  /** The conditions of the `where` of which one is enough: those that an `or` outside of parentheses separates. */
  get alternatives(): readonly (readonly Token[])[] {
    return splitAt(this.#where ?? [], ({ word, depth }) => word === 'or' && depth === 0);
  }

  /** Tokens of the conditions of the statement; undefined without a `where`. */
  get #where(): readonly Token[] | undefined {
    const where = this.#at('where');
    if (where === -1) return undefined;
    const rest = this.tokens.slice(where + 1);
    const end = rest.findIndex(({ word, depth }) => depth === 0 && ENDS_WHERE.test(word));
    return rest.slice(0, end === -1 ? undefined : end);
  }
}

/** Returns the tokens between the parenthesis at an index and its end. */
export function insideOf(tokens: readonly Token[], open: number): readonly Token[] {
  const depth = tokens[open]?.depth ?? 0;
  const end = tokens.findIndex((token, index) => index > open && token.text === ')' && token.depth === depth);
  return tokens.slice(open + 1, end === -1 ? undefined : end);
}

/** Splits tokens at those for which a test holds. */
export function splitAt(
  tokens: readonly Token[],
  ends: (token: Token) => boolean,
): readonly (readonly Token[])[] {
  const parts: Token[][] = [[]];
  for (const token of tokens)
    if (ends(token)) parts.push([]);
    else parts.at(-1)!.push(token);
  return parts;
}

function tokensOf(text: string, dialect: Dialect): Token[] {
  const lexer = new Lexer(text, dialect);
  const tokens: Token[] = [];
  let depth = 0;
  while (lexer.next()) {
    if (lexer.kind === 'space' || lexer.kind === 'comment') continue;
    if (lexer.text === ')') depth--;
    const isName = lexer.kind === 'word' || (lexer.kind === 'quoted' && !lexer.text.startsWith("'"));
    tokens.push({
      text: lexer.text,
      word: lexer.kind === 'word' ? lexer.text.toLowerCase() : '',
      name: isName ? unquoted(lexer.text).toLowerCase() : '',
      start: lexer.start,
      depth,
      isPlaceholder: lexer.kind === 'placeholder',
    });
    if (lexer.text === '(') depth++;
  }
  return tokens;
}

function unquoted(token: string): string {
  const [quote] = token;
  if (quote === undefined || !/["`[]/.test(quote)) return token;
  return token.slice(1, -1).replaceAll(quote + quote, quote);
}

function tablesIn(tokens: readonly Token[]): UsedTable[] {
  return tokens.flatMap((token, index): UsedTable[] => {
    const before = tokens[index - 1];
    const isNamed = token.name !== '' && before !== undefined && BEFORE_TABLE.test(before.word);
    if (!isNamed || (token.word !== '' && CLAUSES.test(token.word))) return [];
    const { name, last } = tableAt(tokens, index);
    const table = tokens[last];
    if (
      table === undefined ||
      table.name === '' ||
      (tokens[last + 1]?.text === '(' && before.word !== 'into')
    )
      return [];
    const next = tokens[last + 1]?.word === 'as' ? tokens[last + 2] : tokens[last + 1];
    const isAlias = next !== undefined && next.name !== '' && !CLAUSES.test(next.word);
    return [{ name, alias: isAlias ? next.name : table.name, token: table }];
  });
}

/** Returns the name of the table that begins at a token, with its schema unless that is the default one, and its last token. */
export function tableAt(
  tokens: readonly Token[],
  index: number,
): { readonly name: string; readonly last: number } {
  const [first, dot, second] = tokens.slice(index, index + 3);
  if (dot?.text !== '.') return { name: first?.name ?? '', last: index };
  const isDefault = /^(?:main|public)$/.test(first!.name);
  const name = second?.name ?? '';
  return { name: isDefault ? name : `${first!.name}.${name}`, last: index + 2 };
}

/** Returns the table with a name in lower case; undefined if there is none, or several that differ in case. */
export function tableNamed<T extends { readonly name: string }>(
  tables: readonly T[],
  name: string | undefined,
): T | undefined {
  const [found, ...more] = tables.filter((table) => table.name.toLowerCase() === name);
  return more.length === 0 ? found : undefined;
}
