/**
 * What is in the text of a statement for MySQL or MariaDB: how many values it wants, and whether it is one. Nothing is
 * rewritten: the server's own lexer finds the `?`, and this one only tells mistakes before they are sent.
 *
 * Nothing is read inside 'text', "text", `names`, comments from # or -- to the end of the line, and block comments. What stands
 * in an executable comment, which begins with an exclamation mark, counts.
 */
import { SvcError } from '../../base/errors.ts';
import { LruIndex } from '../../cache/lru.ts';

/** What was found in the text of one statement. */
export interface MySqlStatement {
  /** How many values it needs. */
  readonly placeholders: number;
  /** What keeps it from being run as a statement, if anything does. */
  readonly problem: string | undefined;
}

/** Texts that are remembered; longer ones than this are generated, and rarely twice the same. */
const MAX_KEPT = 1_000;
const MAX_KEPT_CHARACTERS = 15 * 1024;
/** A number of 16 bits counts them. */
const MAX_PLACEHOLDERS = 65_535;

const PLAIN = /[^'"`#\-/*?;A-Za-z_\u0080-\uffff@]+/y;
const WORD = /[@A-Za-z_\u0080-\uffff][\w$@.\u0080-\uffff]*/y;
const SPACE = /\s+/y;
const LINE_COMMENT = /(?:#|--(?=[\s\0-\x1f]|$))[^\n]*/y;
const EXECUTABLE = /\/\*M?!\d*/y;
const BLOCK_COMMENT = /\/\*[\s\S]*?(?:\*\/|$)/y;
const NAME = /`[^`]*(?:``[^`]*)*`/y;
const TEXT = {
  "'": /'[^'\\]*(?:(?:\\[\s\S]|'')[^'\\]*)*'/y,
  '"': /"[^"\\]*(?:(?:\\[\s\S]|"")[^"\\]*)*"/y,
} as const;
const PLAIN_TEXT: typeof TEXT = { "'": /'[^']*(?:''[^']*)*'/y, '"': /"[^"]*(?:""[^"]*)*"/y };

const CONTROL: ReadonlySet<string> = new Set(['begin', 'commit', 'rollback', 'savepoint', 'release', 'xa']);

const index = new LruIndex(MAX_KEPT);
const kept: (MySqlStatement | undefined)[] = [];

/** What is in the text. Remembered, for the thousand texts that were used last. `hasPlainBackslashes`: NO_BACKSLASH_ESCAPES is on. */
export function scanMySql(text: string, hasPlainBackslashes: boolean = false): MySqlStatement {
  if (hasPlainBackslashes) return new Scanner(text, PLAIN_TEXT).scan();
  const slot = index.find(text);
  if (slot !== 0) {
    index.use(slot);
    return kept[slot]!; // every slot in the index has one
  }
  const scanned = new Scanner(text, TEXT).scan();
  if (text.length <= MAX_KEPT_CHARACTERS)
    kept[index.isFull ? index.replaceOldest(text) : index.add(text)] = scanned;
  return scanned;
}

/** The same, or why it cannot be run. @throws SvcError `E_DB_STATEMENT` */
export function checkedMySql(text: string, hasPlainBackslashes: boolean = false): MySqlStatement {
  const scanned = scanMySql(text, hasPlainBackslashes);
  if (scanned.problem !== undefined) throw new SvcError('E_DB_STATEMENT', [scanned.problem]);
  return scanned;
}

/** Whether a statement begins or ends a transaction. */
export function isTransactionControl(first: string, second: string | undefined): boolean {
  return CONTROL.has(first) || (first === 'start' && second === 'transaction');
}

/** One pass over a text. */
class Scanner {
  readonly #source: string;
  readonly #texts: typeof TEXT;
  #at = 0;
  #placeholders = 0;
  /** The first two words. */
  readonly #words: string[] = [];
  #isExecutable = false;
  #hasBegun = false;
  #isEnded = false;
  #hasMore = false;

  constructor(source: string, texts: typeof TEXT) {
    this.#source = source;
    this.#texts = texts;
  }

  scan(): MySqlStatement {
    while (this.#at < this.#source.length) this.#step();
    return { placeholders: this.#placeholders, problem: this.#problem() };
  }

  #step(): void {
    if (this.#takes(SPACE) || this.#takes(LINE_COMMENT) || this.#skipBlockComment()) return;
    const character = this.#source[this.#at]!; // scan() looks whether there is one
    if (character === ';') {
      this.#at++;
      this.#isEnded ||= this.#hasBegun && !this.#isBody();
      return;
    }
    this.#hasMore ||= this.#isEnded;
    this.#hasBegun = true;
    switch (character) {
      case "'":
      case '"':
        return this.#skip(this.#texts[character]);
      case '`':
        return this.#skip(NAME);
      case '?':
        this.#placeholders++;
        this.#at++;
        return;
      default:
        this.#onOther();
    }
  }

  /** Of an executable comment only its marks are skipped. */
  #skipBlockComment(): boolean {
    if (this.#isExecutable && this.#source.startsWith('*/', this.#at)) {
      this.#isExecutable = false;
      this.#at += 2;
      return true;
    }
    if (this.#takes(EXECUTABLE)) return (this.#isExecutable = true);
    return this.#takes(BLOCK_COMMENT);
  }

  #onOther(): void {
    const from = this.#at;
    if (this.#takes(WORD)) {
      if (this.#words.length < 2) this.#words.push(this.#source.slice(from, this.#at).toLowerCase());
    } else if (!this.#takes(PLAIN)) this.#at++;
  }

  /** What creates a program has statements inside, and so does the text of an event. */
  #isBody(): boolean {
    return this.#words[0] === 'create' || (this.#words[0] === 'alter' && this.#words[1] === 'event');
  }

  #problem(): string | undefined {
    if (!this.#hasBegun) return 'the text has none';
    if (this.#hasMore) return 'the text has more than one';
    const [first = '', second] = this.#words;
    if (isTransactionControl(first, second))
      return `${first.toUpperCase()} would change the transaction of whoever uses the connection next`;
    if (!this.#source.isWellFormed()) return 'the text has half a surrogate pair, which no encoding can send';
    if (this.#placeholders > MAX_PLACEHOLDERS)
      return 'it has more than 65535 placeholders: use executeMany() or insertMany()';
    return undefined;
  }

  /** Skips what matches; without an end, all that is left: the server will say so. */
  #skip(pattern: RegExp): void {
    if (!this.#takes(pattern)) this.#at = this.#source.length;
  }

  #takes(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    if (!pattern.test(this.#source)) return false;
    this.#at = pattern.lastIndex;
    return true;
  }
}
