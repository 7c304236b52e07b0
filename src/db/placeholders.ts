/**
 * Statements with `?` -> PostgreSQL's `$n`. The only text that we ever rewrite: values are bound, so that a mistake in here could
 * make a statement wrong, and never make a value part of it.
 *
 *   ?  the next value      ??  the operator ?, as in ??| and @??      $1 $2  as they are, where there is no plain ?
 *
 * Nothing is read inside 'text', E'te\'xt', U&'text', "names", $tag$ text $tag$, comments to the end of the line, and block
 * comments, which nest.
 */
import { SvcError } from '../base/errors.ts';
import { LruIndex } from '../cache/lru.ts';
import { ScriptProblem, splitStatements } from './migrations/split.ts';
import { isTransactionControl } from './mysql/statement.ts';
import type { Dialect } from './driver.ts';

/** What was found in the text of one statement. */
export interface ScannedStatement {
  /** As the server is to have it. */
  readonly text: string;
  /** How many values it needs. */
  readonly placeholders: number;
  /** What keeps it from being run as a statement, if anything does. */
  readonly problem: string | undefined;
}

/** Texts that are remembered; longer ones than this are generated, and rarely twice the same. */
const MAX_KEPT = 1_000;
const MAX_KEPT_CHARACTERS = 15 * 1024;
/** Of `$n`: what an Int16 counts. */
const MAX_NUMBER = 65_535;

const SPACE = /[ \t\n\r\f\v]+/y;
const LINE_COMMENT = /--[^\n\r]*/y;
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y;
const NUMBER = /\d[\w.]*/y;
const PLAIN_QUOTED = /'[^']*(?:''[^']*)*'(?!')/y;
const ESCAPED = /'[^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*'(?!')/y;
const CONTINUED = /(?:[ \t\f]|--[^\n\r]*)*[\n\r](?:[ \t\n\r\f]|--[^\n\r]*[\n\r])*(?=')/y;
const NAME = /"[^"]*(?:""[^"]*)*"(?!")/y;
const DOLLAR_TAG = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;
const PARAMETER = /\$\d+/y;
const QUESTION_MARKS = /\?+/y;

const CONTROL: ReadonlySet<string> = new Set([
  'begin',
  'start',
  'commit',
  'end',
  'rollback',
  'abort',
  'savepoint',
  'release',
]);

const NUL = 'the text has a NUL, which would end it';

const index = new LruIndex(MAX_KEPT);
const kept: (ScannedStatement | undefined)[] = [];

/** What is in the text of a statement. Remembered, for the thousand texts that were used last. */
export function scanPostgres(text: string): ScannedStatement {
  const slot = index.find(text);
  if (slot !== 0) {
    index.use(slot);
    return kept[slot]!; // every slot in the index has one
  }
  const scanned = new Scanner(text).scan();
  if (text.length <= MAX_KEPT_CHARACTERS)
    kept[index.isFull ? index.replaceOldest(text) : index.add(text)] = scanned;
  return scanned;
}

/** The same, or why it cannot be run. @throws SvcError `E_DB_STATEMENT` */
export function checkedStatement(text: string): ScannedStatement {
  const scanned = scanPostgres(text);
  if (scanned.problem !== undefined) throw new SvcError('E_DB_STATEMENT', [scanned.problem]);
  return scanned;
}

/** The statements of a script, each to be run as it is. @throws SvcError `E_DB_STATEMENT` for one that ends the transaction around it, and for quotes without an end */
export function scriptStatements(script: string, dialect: Dialect = 'postgres'): readonly string[] {
  try {
    return splitStatements(script, dialect).map(({ text, words: [first = '', second] }) => {
      if (dialect === 'postgres' ? isControl(first, second) : isTransactionControl(first, second))
        throw new SvcError('E_DB_STATEMENT', [
          `${first.toUpperCase()} in a script would end or hide the transaction around it`,
        ]);
      if (dialect === 'postgres' && text.includes('\0')) throw new SvcError('E_DB_STATEMENT', [NUL]);
      return text;
    });
  } catch (error) {
    throw error instanceof ScriptProblem
      ? new SvcError('E_DB_STATEMENT', [`in line ${error.line} ${error.message}`])
      : error;
  }
}

/** One pass over a text. */
class Scanner {
  readonly #source: string;
  /** The text so far, with numbers for question marks, and with single ones for doubled ones. */
  #translated = '';
  /** From where on the source is not copied yet. */
  #from = 0;
  #at = 0;
  #questionMarks = 0;
  #largestNumber = 0;
  /** The first two words. */
  readonly #words: string[] = [];
  #lastWord = '';
  #parentheses = 0;
  /** Of a function in SQL: what follows `begin atomic` is one body with semicolons. */
  #isInBody = false;
  #hasBegun = false;
  #isEnded = false;
  #hasMore = false;

  constructor(source: string) {
    this.#source = source;
  }

  scan(): ScannedStatement {
    while (this.#at < this.#source.length) this.#step();
    const text = this.#from === 0 ? this.#source : this.#translated + this.#source.slice(this.#from);
    return {
      text,
      placeholders: Math.max(this.#questionMarks, this.#largestNumber),
      problem: this.#problem(),
    };
  }

  #step(): void {
    const character = this.#source[this.#at]!; // scan() looks whether there is one
    if (this.#take(SPACE) !== undefined || this.#skipComment()) return;
    if (character === ';') {
      this.#at++;
      this.#isEnded ||= this.#hasBegun && this.#parentheses <= 0 && !this.#isInBody;
      return;
    }
    this.#hasMore ||= this.#isEnded;
    this.#hasBegun = true;
    switch (character) {
      case "'":
        return this.#skip(PLAIN_QUOTED);
      case '"':
        return this.#skip(NAME);
      case '$':
        return this.#onDollar();
      case '?':
        return this.#onQuestionMark();
      default:
        this.#onOther();
    }
  }

  /** Whether a comment was there. Block comments nest; without an end they reach to that of the text. */
  #skipComment(): boolean {
    if (this.#take(LINE_COMMENT) !== undefined) return true;
    if (!this.#source.startsWith('/*', this.#at)) return false;
    let depth = 0;
    do {
      if (this.#source.startsWith('/*', this.#at)) depth++;
      else if (this.#source.startsWith('*/', this.#at)) depth--;
      else {
        this.#at++;
        continue;
      }
      this.#at += 2;
    } while (depth > 0 && this.#at < this.#source.length);
    return true;
  }

  /** A word, with the text behind it that belongs to it: E'...' has its own rules, and `a$b$c` is a name. */
  #onOther(): void {
    const word = this.#take(WORD);
    if (word === undefined) {
      this.#onCharacter();
      return;
    }
    const lower = word.toLowerCase();
    if (this.#words.length < 2) this.#words.push(lower);
    if (lower === 'atomic' && this.#lastWord === 'begin') this.#isInBody = true;
    this.#lastWord = lower;
    if (lower === 'e' && this.#source[this.#at] === "'") this.#skipEscaped();
  }

  #onCharacter(): void {
    if (this.#take(NUMBER) !== undefined) return;
    if (this.#source[this.#at] === '(') this.#parentheses++;
    else if (this.#source[this.#at] === ')') this.#parentheses--;
    this.#at++;
  }

  /** Text that goes on after a line break is still text of the same kind. */
  #skipEscaped(): void {
    do this.#skip(ESCAPED);
    while (this.#take(CONTINUED) !== undefined);
  }

  /** `$1`, or text between `$tag$`. */
  #onDollar(): void {
    const parameter = this.#take(PARAMETER);
    if (parameter !== undefined) {
      this.#largestNumber = Math.max(this.#largestNumber, Number(parameter.slice(1)));
      return;
    }
    const tag = this.#take(DOLLAR_TAG);
    if (tag === undefined) {
      this.#at++;
      return;
    }
    const end = this.#source.indexOf(tag, this.#at);
    this.#at = end === -1 ? this.#source.length : end + tag.length;
  }

  /** Each two are an operator's one; one that is left is a placeholder. */
  #onQuestionMark(): void {
    const marks = this.#take(QUESTION_MARKS)!.length; // one at least
    const operators = marks >> 1;
    this.#translated += `${this.#source.slice(this.#from, this.#at - marks)}${'?'.repeat(operators)}`;
    if (marks % 2 === 1) this.#translated += `$${++this.#questionMarks}`;
    this.#from = this.#at;
  }

  #problem(): string | undefined {
    if (!this.#hasBegun) return 'the text has none';
    if (this.#hasMore) return 'the text has more than one';
    const [first = '', second] = this.#words;
    if (isControl(first, second))
      return `${first.toUpperCase()} would change the transaction of whoever uses the connection next`;
    if (this.#source.includes('\0')) return NUL;
    if (!this.#source.isWellFormed()) return 'the text has half a surrogate pair, which no encoding can send';
    if (this.#questionMarks > 0 && this.#largestNumber > 0)
      return 'it has placeholders of both kinds, ? and $1: use one of them, and write ?? for an operator that is spelled ?';
    if (Math.max(this.#questionMarks, this.#largestNumber) > MAX_NUMBER)
      return 'it has more than 65535 placeholders: use executeMany() or insertMany(), or pass a list for "= any (?)"';
    return undefined;
  }

  /** Skips what matches; without an end, all that is left: the server will say so. */
  #skip(pattern: RegExp): void {
    if (this.#take(pattern) === undefined) this.#at = this.#source.length;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source)?.[0];
    if (match !== undefined) this.#at += match.length;
    return match;
  }
}

function isControl(first: string, second: string | undefined): boolean {
  return CONTROL.has(first) || (first === 'prepare' && second === 'transaction');
}
