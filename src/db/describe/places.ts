/**
 * Finds the place of a mistake in the text of a statement. PostgreSQL reports an offset. The other engines quote the
 * name that they refuse, or the text in which they found a syntax error.
 */
import { tokensOf, type Token } from '../lexer.ts';
import type { DatabaseError } from '../errors.ts';
import type { Dialect } from '../driver.ts';

/** Returns the offset of the mistake in UTF-16 code units; undefined if the error does not tell. */
export function placeOf(error: DatabaseError, text: string, dialect: Dialect): number | undefined {
  if (dialect === 'postgres')
    return error.position === undefined ? undefined : sourceOffset(text, error.sql ?? text, error.position);
  const rest = /near '([\s\S]+)' at line \d+$/.exec(error.message)?.[1];
  if (rest !== undefined) return offsetOfRest(text, rest);
  const name = QUOTED.map((pattern) => pattern.exec(error.message)?.[1]).find((each) => each !== undefined);
  return name === undefined ? undefined : offsetOfName(text, name, dialect);
}

/** Returns the tokens that a syntax error of SQLite quotes; none for another message. */
export function quotedTokens(message: string, text: string): readonly Token[] {
  const quoted = /^near "([\s\S]+)": syntax error$/.exec(message)?.[1];
  return tokensOf(text, 'sqlite').filter((token) => token.text === quoted);
}

/** Messages of SQLite and MySQL that quote what they refuse. */
const QUOTED: readonly RegExp[] = [
  /^near "([\s\S]+)": syntax error$/,
  /^unrecognized token: "([\s\S]+)"$/,
  /^no such column: "?([^"]+?)"?(?: - should this be .*)?$/,
  /^(?:no such (?:table|function|window|collation sequence|index)|ambiguous column name): (.+)$/,
  /has no column named (.+)$/,
  /^wrong number of arguments to function (\w+)\(\)/,
  /^(?:Unknown column|Column|Unknown table|Not unique table\/alias:|Table) '([^']+)'/,
  /^(?:FUNCTION|PROCEDURE) (\S+) does not exist/,
  /function '([^']+)'$/,
  /(?:nonaggregated|references) column '(?:[^'.]+\.)*?((?:[^'.]+\.)?[^'.]+)'/,
];

/** Converts a position of PostgreSQL: characters from 1, in a text with `$1` in place of `?`. */
function sourceOffset(source: string, sent: string, position: number): number {
  const end = [...sent].slice(0, position - 1).join('').length;
  let at = 0;
  let placeholders = 0;
  for (let sentAt = 0; sentAt < end; at++) {
    if (source[at] === sent[sentAt]) sentAt++;
    else if (sent[sentAt] === '$') sentAt += `$${++placeholders}`.length;
    // else: the second question mark of `??`, which is sent as one
  }
  while (source[at] === '?' && source[at - 1] === '?') at++;
  return Math.min(at, source.length);
}

/** Returns the offset of the rest of a statement, which MySQL quotes up to 80 characters. */
function offsetOfRest(text: string, rest: string): number | undefined {
  const trimmed = text.trimEnd();
  if (trimmed.endsWith(rest.trimEnd())) return trimmed.length - rest.trimEnd().length;
  const at = text.indexOf(rest);
  return at === -1 ? undefined : at;
}

/** Returns the offset of a name. A column of a table, or an alias, counts only if there is no other place. */
function offsetOfName(text: string, name: string, dialect: Dialect): number | undefined {
  const wanted = unquoted(name);
  const tokens = tokensOf(text, dialect);
  for (const candidate of [wanted, wanted.slice(wanted.indexOf('.') + 1)]) {
    const found = tokens.flatMap(({ start }, index) => {
      let joined = '';
      for (let next = index; next < tokens.length && joined.length < candidate.length; next++)
        joined += unquoted(tokens[next]!.text);
      return joined === candidate
        ? [{ start, isFree: !/^(?:\.|as)$/i.test(tokens[index - 1]?.text ?? '') }]
        : [];
    });
    if (found.length > 0) return (found.find(({ isFree }) => isFree) ?? found[0]!).start;
  }
  return undefined;
}

function unquoted(token: string): string {
  return (/^["`[]/.test(token) ? token.slice(1, -1) : token).toLowerCase();
}
