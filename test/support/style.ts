/**
 * Checks for plain English: forbidden words and openings in comments, messages, test names and manuals.
 *
 *   source file ─ scanSource ─→ passages ─ problemsOf ─→ "src/x.ts:12: …"
 *   *.md        ─ scanMarkdown ─→
 *   .ci, *.yml  ─ scanScript ─→
 *
 * A passage is one text of prose with its offset. Inline code and quoted words are not prose. In the fenced code of a
 * manual, the same texts are passages as in a file of its language.
 * The opening comment of test/style.test.ts states what counts as a message.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { blocksOf } from './markdown.ts';
import type { Block } from './markdown.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FOLDERS: readonly string[] = ['.ci', '.github', 'bin', 'src', 'test'];
const SOURCE_FILE = /\.[cm]?[jt]s$/;
const SCRIPT_FILE = /\.(?:sh|ya?ml)$|^\.ci\/[^.]+$/;

const FORBIDDEN_WORD = /\b(?:whoever|nobody|somebody|anybody|told|hears?)\b/i;
const FORBIDDEN_OPENING =
  /^(?:(?:those|of|who|what)(?=\s+\S|['’])|(?:the same|as above|see above)(?![-\w]))/i;
const QUESTION = /^(?:of|who|what)\b[^.!?]*\?/i;
/** Pattern of bullets, rules, emphasis and a doc tag before the first word. */
const BEFORE_FIRST_WORD = /^(?:\[[ x]\]|<!--|<?\w+>|[\s*#>+_~[(─═·•-]|\d+[.)]\s)*(?:@[\w-]+\s+)?/;
/** Languages of fences without prose: the output of programs, and formats without comments. */
const DATA: ReadonlySet<string> = new Set(['text', 'json', 'http', 'diff', 'csv']);
/** Pattern of a request of an example program, with its answer (test/readme.integration.test.ts). */
const EXAMPLE_REQUEST = /^<!-- [A-Z]+ \//;

const NEW_ERROR =
  /^new (?:\w+\.)*\w*(?:Error|Fault|Exception|Violation|Lost|Refusal|Failure|Timeout|Aborted|Canceled|Unknown|BadRequest|Unauthorized|Forbidden|NotFound|Conflict|TooLarge|TooManyRequests|Unavailable|NoKey)$/;
const REPORTING_CALL =
  /^(?:super|(?:\w+\.)*(?:fail|refuse|refusal|report|tell)|(?:\w+\.)*(?:console|log|logger)\.\w+|(?:\w+\.)*std(?:out|err)\.write)$/;
const TEST_CALL = /^(?:\w+\.)?(?:test|it|describe|suite|\w*[cC]ontract|with[A-Z]\w*)$/;
const MESSAGE_KEY = /^(?:message|remedy|summary|description|describe|detail|title|why|help|hint|usage)$/;

/** Pattern of a sign or word after which `/` starts a regular expression, and `(` groups. */
const BEFORE_VALUE =
  /^(?:|[([{,;:=!&|?+\-*%~^<>}]|return|typeof|case|in|of|yield|await|void|delete|throw|if|while|for|else|do)$/;

export interface Passage {
  readonly kind: 'comment' | 'message' | 'test name' | 'manual';
  readonly text: string;
  readonly offset: number;
  /** False for the rest of a concatenation, and for a part of a test name inside `${…}`: they have no opening. */
  readonly isStart: boolean;
}

/** An open bracket or template. */
interface Frame {
  readonly open: string;
  /** Called function such as `new SvcError` or `test`; '' if the bracket is not a call. */
  readonly callee: string;
  readonly start: number;
  /** Text of a template so far, with each expression as `…`. */
  text: string;
  /** Key of the property, or name of the variable, whose value is being read. */
  label: string;
  argument: number;
}

/**
 * Returns the comments, messages and test names of a program.
 * @throws Error when its brackets do not match
 */
export function scanSource(source: string): Passage[] {
  return new SourceScanner(source).run();
}

class SourceScanner {
  readonly #source: string;
  readonly #passages: Passage[] = [];
  readonly #frames: Frame[] = [];
  #at = 0;
  #last = '';
  #path = '';

  constructor(source: string) {
    this.#source = source;
    this.#open('{', 0, '');
  }

  run(): Passage[] {
    while (this.#at < this.#source.length) {
      if (this.#top.open === '`') this.#readTemplate();
      else this.#readToken();
    }
    if (this.#frames.length !== 1) throw new Error(`"${this.#top.open}" at ${this.#top.start} is not closed`);
    return this.#passages;
  }

  get #top(): Frame {
    return this.#frames.at(-1)!;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const text = pattern.exec(this.#source)?.[0];
    if (text !== undefined) this.#at += text.length;
    return text;
  }

  #readToken(): void {
    const start = this.#at;
    if (this.#take(/\s+/y) !== undefined) return;
    const comment = this.#take(/\/\*[^]*?\*\/|\/\/[^\n]*(?:\n[ \t]*\/\/[^\n]*)*/y);
    if (comment !== undefined) return this.#addComment(comment, start);
    const string = this.#take(/'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"/y);
    if (string !== undefined) return this.#endLiteral(string.slice(1, -1), start);
    const isRegExp = BEFORE_VALUE.test(this.#last);
    if (isRegExp && this.#take(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y) !== undefined) {
      this.#advance("'", '');
      return;
    }
    const word = this.#take(/[\w$#]+/y);
    if (word !== undefined) return this.#readWord(word);
    this.#readSign(this.#source[this.#at++]!, start);
  }

  #advance(last: string, path: string): void {
    this.#last = last;
    this.#path = path;
  }

  #readWord(word: string): void {
    const isMember = this.#last === '.' || (this.#last === 'new' && this.#path !== '');
    this.#advance(word, isMember ? this.#path + word : word === 'new' ? 'new ' : word);
  }

  #readSign(sign: string, start: number): void {
    const isPostfix = sign === '!' && !BEFORE_VALUE.test(this.#last) && this.#source[this.#at] !== '=';
    if (isPostfix) return; // the `!` of `a! / 2` asserts, so `/` divides
    if (sign === '`') this.#open(sign, start, '');
    else if (sign === '(') this.#open(sign, start, BEFORE_VALUE.test(this.#last) ? '' : this.#path || '?');
    else if (sign === '[' || sign === '{') this.#open(sign, start, '');
    else if (sign === ')' || sign === ']' || sign === '}') return this.#close(sign, start);
    else if (sign === '.') return this.#advance(sign, this.#path === '' ? '' : `${this.#path}.`);
    else this.#separate(sign);
    this.#advance(sign, '');
  }

  #separate(sign: string): void {
    const top = this.#top;
    if (sign === ',') top.argument += 1;
    if (sign === ',' || sign === ';') top.label = '';
    else if ((sign === ':' || sign === '=') && top.label === '') top.label = this.#last;
  }

  #open(open: string, start: number, callee: string): void {
    this.#frames.push({ open, callee, start, text: '', label: '', argument: 0 });
  }

  #close(sign: string, offset: number): void {
    const frame = this.#frames.pop();
    const expected = frame?.open === '(' ? ')' : frame?.open === '[' ? ']' : '}';
    if (sign !== expected || this.#frames.length === 0)
      throw new Error(`"${sign}" at ${offset} does not match`);
    this.#advance(sign, '');
  }

  /** Reads a template up to its end or its next expression. */
  #readTemplate(): void {
    const frame = this.#top;
    frame.text += this.#take(/(?:\\[^]|\$(?!\{)|[^\\$`])*/y) ?? '';
    if (this.#take(/\$\{/y) !== undefined) {
      frame.text += '…';
      this.#open('${', this.#at, '');
      this.#advance('', '');
    } else {
      this.#at += 1;
      this.#frames.pop();
      this.#endLiteral(frame.text, frame.start);
    }
  }

  #endLiteral(text: string, offset: number): void {
    const kind = this.#kindOfLiteral(this.#frames.length - 1);
    const before = this.#source.slice(Math.max(0, offset - 80), offset);
    const isNested = kind === 'test name' && this.#frames.some((frame) => frame.open === '${');
    if (kind !== undefined)
      this.#passages.push({ kind, text, offset, isStart: !isNested && !/\+\s*$/.test(before) });
    this.#advance("'", '');
  }

  /**
   * Returns what a string is: it has the kind of the call or property around it, also through groups, lists
   * and expressions of a template.
   */
  #kindOfLiteral(depth: number): 'message' | 'test name' | undefined {
    const frame = this.#frames[depth];
    if (frame === undefined) return undefined;
    if (frame.open === '{') return MESSAGE_KEY.test(frame.label) ? 'message' : undefined;
    if (frame.callee === '') return this.#kindOfLiteral(depth - 1);
    if (TEST_CALL.test(frame.callee)) return frame.argument === 0 ? 'test name' : undefined;
    return NEW_ERROR.test(frame.callee) || REPORTING_CALL.test(frame.callee) ? 'message' : undefined;
  }

  #addComment(comment: string, start: number): void {
    const prose = comment.replace(/^\/\*+|\*+\/$|^[ \t]*(?:\/\/+|\*(?!\/))/gm, (mark) =>
      ' '.repeat(mark.length),
    );
    const passages = /\S(?:[^]*?)(?=\n[ \t]*(?:\n|[-*] |\d+\. )|\s@(?=[a-z])|\s*$(?![^]))/g; // list items, too
    for (const { index, 0: text } of prose.matchAll(passages)) {
      this.#passages.push({ kind: 'comment', text, offset: start + index, isStart: true });
    }
  }
}

/**
 * Returns the paragraphs, list items, table cells, headings and HTML comments of a manual, and the comments,
 * messages and test names of its fenced code. A comment with a request of an example is data.
 */
export function scanMarkdown(text: string): Passage[] {
  return blocksOf(text).flatMap((block): Passage[] => {
    const { kind, offset } = block;
    if (kind === 'row') return cellsOf(block.text, offset);
    if (kind === 'code') {
      return scanCode(block).map((passage) => ({ ...passage, offset: offset + passage.offset }));
    }
    if (kind === 'html comment' && EXAMPLE_REQUEST.test(block.text)) return [];
    const prose = kind === 'heading' ? block.text.replace(/^[ >]*#+ [\d.]*/, '') : block.text;
    return [{ kind: 'manual', text: prose, offset, isStart: kind !== 'heading' }];
  });
}

function scanCode({ language, text }: Block): Passage[] {
  if (language === 'sql') return commentsOf(text, /--[ \t]*(\S.*)/g);
  if (language === 'html') return commentsOf(text, /<!--\s*(\S[^]*?)-->/g);
  if (/^[cm]?[jt]sx?$/.test(language)) return scanSource(text);
  return DATA.has(language) ? [] : scanScript(text);
}

function commentsOf(text: string, pattern: RegExp): Passage[] {
  return [...text.matchAll(pattern)].map(({ index, 1: comment }) => {
    return { kind: 'comment', text: comment!, offset: index, isStart: true };
  });
}

function cellsOf(row: string, offset: number): Passage[] {
  return [...row.matchAll(/(?:\\.|(?!<br>)[^|\\])+/g)].map(({ index, 0: text }) => {
    return { kind: 'manual', text, offset: offset + index, isStart: true };
  });
}

/** Returns the comments of a shell script or YAML file, and the texts that it prints. */
export function scanScript(text: string): Passage[] {
  const passages: Passage[] = [];
  for (const { index, 1: comment } of text.matchAll(/(?<=^|\s)#(?!!)[ \t]*(\S.*)/gm)) {
    passages.push({ kind: 'comment', text: comment!, offset: index, isStart: true });
  }
  for (const { index, 2: printed } of text.matchAll(/\b(?:echo|section)\s+(['"])(.*?)\1/g)) {
    passages.push({ kind: 'message', text: printed!, offset: index, isStart: true });
  }
  return passages;
}

/**
 * Returns a line for each forbidden word or opening in a file: `src/x.ts:12: …`. The path selects the
 * scanner.
 */
export function problemsOf(path: string, text: string): string[] {
  const scan = path.endsWith('.md') ? scanMarkdown : SOURCE_FILE.test(path) ? scanSource : scanScript;
  return scan(text).flatMap((passage) => {
    const prose = passage.text
      .replace(/(`+)(?!`)[^]*?(?<!`)\1(?!`)|"\w+"/g, '`')
      .replace(/\]\([^)]*\)/g, ']');
    const words = prose.match(new RegExp(FORBIDDEN_WORD, 'gi')) ?? [];
    const problems = [
      ...words.map((word) => `has the word "${word}"`),
      ...openingsOf(prose, passage.isStart).map((opening) => `opens with "${opening}"`),
    ];
    const lineOf = (): number => text.slice(0, passage.offset).split('\n').length;
    return problems.map((problem) => `${path}:${lineOf()}: ${passage.kind} ${problem}`);
  });
}

/** Returns the forbidden openings of the passage and of its further sentences. */
function openingsOf(prose: string, isStart: boolean): string[] {
  return prose
    .split(/(?<=[.!?:][)"*_]*)[\s/*]+(?=[*_[(]*[A-Z])/)
    .slice(isStart ? 0 : 1)
    .map((sentence) => sentence.replace(BEFORE_FIRST_WORD, ''))
    .filter((sentence) => !QUESTION.test(sentence))
    .flatMap((sentence) => FORBIDDEN_OPENING.exec(sentence)?.[0] ?? []);
}

/** Returns the paths of all files that are checked, sorted. */
export function checkedFiles(): string[] {
  const inFolders = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((file) => `${folder}/${file}`),
  );
  const all = [...inFolders, ...readdirSync(ROOT)].map((file) => file.replaceAll('\\', '/'));
  return all
    .filter((file) => file.endsWith('.md') || SOURCE_FILE.test(file) || SCRIPT_FILE.test(file))
    .sort();
}

/** Returns the problems of all files. */
export function projectProblems(): string[] {
  return checkedFiles().flatMap((file) => problemsOf(file, readFileSync(join(ROOT, file), 'utf8')));
}
