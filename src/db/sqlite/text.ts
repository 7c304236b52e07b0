/**
 * What we must know of a statement before SQLite prepares it: node:sqlite fills missing values with NULL, runs only the first
 * of several statements, and would let a stray BEGIN capture the statements of everybody else.
 *
 * Tokens as in SQLite's tokenizer: 'text' "name" `name` [name] -- comment, block comment (they do not nest), ? ?NNN :name @name $name
 */

/** What a statement does, as far as it matters here. */
export type StatementKind =
  | 'empty'
  /** Cannot write. */
  | 'select'
  /** Makes rows: its last key counts. */
  | 'insert'
  /** Changes rows; or makes some, of which SQLite tells no key: it says not which of both `on conflict do update` did, and has the key that was there before. */
  | 'update'
  /** `with ... select` reads, `with ... insert` writes: only running it tells. */
  | 'with'
  /** begin, commit, end, rollback, savepoint, release */
  | 'control'
  /** Changes the schema or a setting, so that statements prepared earlier may mean something else. */
  | 'other';

/** What was found in the text. */
export interface ScannedText {
  readonly kind: StatementKind;
  readonly placeholders: number;
  /** The first placeholder that is no plain `?`. */
  readonly named: string | undefined;
  /** Whether something other than comments follows the first statement. */
  readonly hasMore: boolean;
  /** The word it begins with, in small letters. */
  readonly keyword: string;
  /** Where the first statement ends, its `;` included. */
  readonly end: number;
}

const TOKEN =
  /(?<space>[ \t\n\f\r]+|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(?<quoted>'[^']*(?:''[^']*)*'?|"[^"]*(?:""[^"]*)*"?|`[^`]*(?:``[^`]*)*`?|\[[^\]]*\]?)|(?<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)|(?<placeholder>\?\d*|[:@$][\w$\u0080-\uffff]+)|(?<number>[0-9][\w.]*)|(?<other>[\s\S])/y;

const KINDS: Readonly<Record<string, StatementKind>> = {
  select: 'select',
  values: 'select',
  insert: 'insert',
  replace: 'insert',
  update: 'update',
  delete: 'update',
  with: 'with',
  begin: 'control',
  commit: 'control',
  end: 'control',
  rollback: 'control',
  savepoint: 'control',
  release: 'control',
};

/** Reads a text once, token by token. */
export function scanSqlite(text: string): ScannedText {
  const words: string[] = [];
  let placeholders = 0;
  let named: string | undefined;
  let hasMore = false;
  let isUpsert = false;
  let before = '';
  let end = 0;
  const trigger = new TriggerBody();
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(text); match !== null; match = TOKEN.exec(text)) {
    const { space, word, placeholder, other } = match.groups!;
    if (space !== undefined) continue;
    if (trigger.isComplete) {
      if (other === ';') continue; // an empty statement
      hasMore = true;
      break;
    }
    if (word !== undefined && words.length < 4) words.push(word.toLowerCase());
    isUpsert ||= word?.toLowerCase() === 'update' && before.toLowerCase() === 'do';
    if (placeholder === '?') placeholders++;
    else if (placeholder !== undefined) named ??= placeholder;
    before = match[0];
    end = TOKEN.lastIndex;
    trigger.next(word?.toLowerCase() ?? other ?? '', words);
  }
  const keyword = words[0] ?? '';
  const kind =
    before === '' || (before === ';' && keyword === '')
      ? 'empty'
      : Object.hasOwn(KINDS, keyword)
        ? KINDS[keyword]!
        : 'other';
  return {
    kind: kind === 'insert' && isUpsert ? 'update' : kind,
    placeholders,
    named,
    hasMore,
    keyword,
    end,
  };
}

/** The statements of a script, each with what was found in it. */
export function* statementsOf(
  script: string,
): Generator<{ readonly text: string; readonly scanned: ScannedText }, void, undefined> {
  for (let rest = script; ;) {
    const scanned = scanSqlite(rest);
    if (scanned.end === 0) return;
    if (scanned.kind !== 'empty') yield { text: rest.slice(0, scanned.end).trim(), scanned };
    rest = rest.slice(scanned.end);
  }
}

/** Where the first statement ends: at `;`, but the body of a trigger has its own, and ends at `; end ;` as for sqlite3_complete(). */
class TriggerBody {
  isComplete = false;
  #last = '';
  #lastButOne = '';

  next(token: string, words: readonly string[]): void {
    if (token === ';') {
      const isTrigger = /^(?:explain )?create (?:temp |temporary )?trigger/.test(words.join(' '));
      this.isComplete = !isTrigger || (this.#last === 'end' && this.#lastButOne === ';');
    }
    [this.#lastButOne, this.#last] = [this.#last, token];
  }
}
