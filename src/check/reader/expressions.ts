/**
 * Parses the expressions of a module from its tokens.
 */
import { Unreadable, parent } from './nodes.ts';
import type { Block, Entry, Fn, Node, Spread } from './nodes.ts';
import type { Token } from './tokens.ts';

/** Precedence of binary operators. Operators with a higher number bind more tightly. */
const PRECEDENCE: ReadonlyMap<string, number> = new Map(
  [
    ['??', '||'],
    ['&&'],
    ['|'],
    ['^'],
    ['&'],
    ['==', '!=', '===', '!=='],
    ['<', '>', '<=', '>=', 'in', 'instanceof'],
    ['<<', '>>', '>>>'],
    ['+', '-'],
    ['*', '/', '%'],
    ['**'],
  ].flatMap((operators, level) => operators.map((operator) => [operator, level + 1] as const)),
);
const ASSIGNMENT = /^(?:=|\+=|-=|\*=|\/=|%=|\*\*=|<<=|>>=|>>>=|&=|\|=|\^=|&&=|\|\|=|\?\?=)$/;
const UNARY: ReadonlySet<string> = new Set(['!', '~', '+', '-', '++', '--', 'typeof', 'void', 'delete']);
const END: Token = { kind: 'punctuator', text: '', start: 0, end: 0, isFirstOfLine: true };
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  b: '\b',
  f: '\f',
  v: '\v',
  0: '\0',
};

/** Parses expressions. The subclass for statements parses the bodies of functions. */
export abstract class ExpressionReader {
  protected readonly tokens: readonly Token[];
  protected readonly textEnd: Token;
  protected at = 0;

  constructor(tokens: readonly Token[], length: number) {
    this.tokens = tokens;
    this.textEnd = { ...END, start: length, end: length };
  }

  // -- tokens --

  protected peek(ahead = 0): Token {
    return this.tokens[this.at + ahead] ?? this.textEnd;
  }

  protected take(): Token {
    const token = this.tokens[this.at];
    if (token === undefined) this.refuse('the file ends too early');
    this.at++;
    return token;
  }

  /**
   * Whether a token is this punctuator or word. `ahead` is 0 for the next token, 1 for the token after it.
   */
  protected is(text: string, ahead = 0): boolean {
    const token = this.peek(ahead);
    return token.text === text && (token.kind === 'punctuator' || token.kind === 'name');
  }

  protected skip(text: string): boolean {
    if (!this.is(text)) return false;
    this.at++;
    return true;
  }

  protected expect(text: string): Token {
    if (!this.is(text)) this.refuse(`expected "${text}" here`);
    return this.take();
  }

  protected refuse(problem: string): never {
    throw new Unreadable(problem, this.peek().start);
  }

  protected get end(): number {
    return this.tokens[this.at - 1]?.end ?? 0;
  }

  /** Parses the statements between braces. */
  protected abstract block(): Block;

  // -- expressions --

  protected decorators(): void {
    while (this.skip('@')) this.suffixes(this.primary());
  }

  protected expression(): Node {
    const { start } = this.peek();
    const first = this.assignment();
    if (!this.is(',')) return first;
    const items = [first];
    while (this.skip(',')) items.push(this.assignment());
    return { type: 'sequence', items, start, end: this.end, parent };
  }

  protected assignment(): Node {
    const token = this.peek();
    const { start } = token;
    if (token.text === 'yield' && token.kind === 'name') return this.yieldOf(start);
    if (token.text === '...' && token.kind === 'punctuator') {
      this.take();
      return { type: 'spread', value: this.assignment(), start, end: this.end, parent };
    }
    const arrow = this.arrow(start);
    if (arrow !== undefined) return arrow;
    const target = this.conditional();
    const { text, kind } = this.peek();
    if (kind !== 'punctuator' || !ASSIGNMENT.test(text)) return target;
    this.take();
    return { type: 'assign', operator: text, target, value: this.assignment(), start, end: this.end, parent };
  }

  protected yieldOf(start: number): Node {
    this.take();
    this.skip('*');
    const next = this.peek();
    const isAlone =
      next === this.textEnd ||
      next.isFirstOfLine ||
      (next.kind === 'punctuator' && /^[)\]};,:]$/.test(next.text));
    const value = isAlone ? undefined : this.assignment();
    return { type: 'unary', operator: 'yield', value, start, end: this.end, parent };
  }

  /** Parses an arrow function if one begins here, else returns undefined. */
  protected arrow(start: number): Fn | undefined {
    const isAsync =
      this.is('async') && !this.peek(1).isFirstOfLine && (this.peek(1).kind === 'name' || this.is('(', 1));
    const ahead = isAsync ? 1 : 0;
    const first = this.peek(ahead);
    if (first.kind === 'name' && this.is('=>', ahead + 1)) {
      this.at += ahead;
      return this.arrowBody(start, [named(this.take())], isAsync);
    }
    if (first.text !== '(' || first.kind !== 'punctuator') return undefined;
    const close = this.closing(this.at + ahead);
    if (this.tokens[close + 1]?.text !== '=>') return undefined;
    this.at += ahead;
    return this.arrowBody(start, this.params(), isAsync);
  }

  protected arrowBody(start: number, params: readonly Node[], isAsync: boolean): Fn {
    this.expect('=>');
    const isExpression = !this.is('{');
    const body = isExpression ? [this.assignment()] : this.block().body;
    const kind = { name: undefined, isAsync, isGenerator: false };
    return { type: 'function', ...kind, params, body, isExpression, start, end: this.end, parent };
  }

  /** Returns the index of the token that closes the parenthesis at index `from`. */
  protected closing(from: number): number {
    let depth = 0;
    for (let at = from; at < this.tokens.length; at++) {
      const { kind, text } = this.tokens[at]!;
      if (kind !== 'punctuator') continue;
      if (text === '(' || text === '[' || text === '{' || text === '${') depth++;
      else if ((text === ')' || text === ']' || text === '}') && --depth === 0) return at;
    }
    return this.tokens.length;
  }

  protected params(): Node[] {
    this.expect('(');
    return this.list(')');
  }

  protected list(close: string): Node[] {
    const items: Node[] = [];
    while (!this.skip(close)) {
      if (this.skip(',')) continue; // an empty element, as in `[, a]`
      if (this.at >= this.tokens.length) this.refuse(`the file ends without the expected "${close}"`);
      if (this.is('@')) this.decorators();
      items.push(this.assignment());
      if (!this.is(close)) this.expect(',');
    }
    return items.slice(); // push() has reserved room for 16 items
  }

  protected conditional(): Node {
    const { start } = this.peek();
    const test = this.binary(0);
    if (!this.skip('?')) return test;
    const yes = this.assignment();
    this.expect(':');
    const no = this.assignment();
    return { type: 'choice', test, yes, no, start, end: this.end, parent };
  }

  protected binary(least: number): Node {
    const { start } = this.peek();
    let left = this.unary();
    for (;;) {
      const { text, kind } = this.peek();
      if (kind !== 'punctuator' && text !== 'in' && text !== 'instanceof') return left;
      const level = PRECEDENCE.get(text);
      if (level === undefined || level <= least) return left;
      this.take();
      const right = this.binary(text === '**' ? level - 1 : level);
      left = { type: 'binary', operator: text, left, right, start, end: this.end, parent };
    }
  }

  protected unary(): Node {
    const token = this.peek();
    const { start, text, kind } = token;
    const isWord = kind === 'name';
    if (isWord && text === 'await' && !this.isNameHere()) {
      this.take();
      return { type: 'await', value: this.unary(), start, end: this.end, parent };
    }
    if ((kind === 'punctuator' || isWord) && UNARY.has(text) && !(isWord && this.isNameHere())) {
      this.take();
      return { type: 'unary', operator: text, value: this.unary(), start, end: this.end, parent };
    }
    const value = this.suffixes(this.primary());
    const after = this.peek();
    if ((after.text === '++' || after.text === '--') && after.kind === 'punctuator' && !after.isFirstOfLine) {
      this.take();
      return { type: 'unary', operator: after.text, value, start, end: this.end, parent };
    }
    return value;
  }

  /** Whether a word such as `await` is an identifier here, because no operand follows it. */
  protected isNameHere(): boolean {
    const next = this.peek(1);
    return next.kind === 'punctuator' && !/^(?:[([{`!~+\-@/]|\+\+|--|\$\{)$/.test(next.text);
  }

  protected suffixes(value: Node, isCallee = false): Node {
    const { start } = value;
    let node = value;
    for (;;) {
      const { text, kind } = this.peek();
      if (kind !== 'punctuator') return node;
      if (text === '.' || text === '?.') {
        this.take();
        if (text === '?.' && (this.is('(') || this.is('['))) continue;
        if (this.is('`')) continue;
        const property = this.take().text;
        node = { type: 'member', object: node, property, index: undefined, start, end: this.end, parent };
      } else if (text === '[') {
        this.take();
        const [first, ...more] = this.list(']');
        const last = more.at(-1) ?? first;
        // `row['name']` is `row.name`
        const [property, index] = last?.type === 'text' ? [last.value, undefined] : [undefined, last];
        node = { type: 'member', object: node, property, index, start, end: this.end, parent };
      } else if (text === '(' && !isCallee) {
        this.take();
        const args = this.list(')');
        node = { type: 'call', callee: node, args, isNew: false, start, end: this.end, parent };
      } else if (text === '`') node = this.template(node);
      else return node;
    }
  }

  protected template(tag: Node | undefined): Node {
    const open = this.expect('`');
    const texts: string[] = [];
    const starts: number[] = [];
    const values: Node[] = [];
    for (;;) {
      const text = this.take(); // the tokenizer adds a text, also an empty one, before each value
      texts.push(text.text);
      starts.push(text.start);
      if (!this.skip('${')) break;
      values.push(this.expression());
      this.expect('}');
    }
    this.expect('`');
    const { start } = tag ?? open;
    return { type: 'template', tag, texts, starts, values, start, end: this.end, parent };
  }

  protected primary(): Node {
    const token = this.peek();
    const { start, text, kind } = token;
    const end = token.end;
    switch (kind) {
      case 'string':
        this.take();
        return { type: 'text', value: unquoted(text), start, end, parent };
      case 'number':
        this.take();
        return { type: 'value', raw: text, start, end, parent };
      case 'pattern': {
        this.take();
        const close = text.lastIndexOf('/');
        const [source, flags] = [text.slice(1, close), text.slice(close + 1)];
        return { type: 'pattern', source, flags, start, end, parent };
      }
      case 'private':
        return named(this.take());
      case 'name':
        return this.word(token);
      default:
        return this.bracketed(token);
    }
  }

  protected bracketed({ start, text }: Token): Node {
    switch (text) {
      case '(': {
        this.take();
        const items = this.list(')');
        return items.length === 1 ? items[0]! : { type: 'sequence', items, start, end: this.end, parent };
      }
      case '[':
        this.take();
        return { type: 'list', items: this.list(']'), start, end: this.end, parent };
      case '{':
        return this.object();
      case '`':
        return this.template(undefined);
      case '@':
        this.decorators();
        return this.classOf();
      default:
        return this.refuse(`unexpected "${text}"`);
    }
  }

  protected word({ start, text, end }: Token): Node {
    switch (text) {
      case 'function':
        return this.functionOf(start, false);
      case 'async':
        if (!this.is('function', 1) || this.peek(1).isFirstOfLine) break;
        this.take();
        return this.functionOf(start, true);
      case 'class':
        return this.classOf();
      case 'new':
        return this.newCall(start);
      case 'true':
      case 'false':
      case 'null':
        this.take();
        return { type: 'value', raw: text, start, end, parent };
      default:
    }
    return named(this.take());
  }

  protected newCall(start: number): Node {
    this.take();
    if (this.skip('.')) {
      this.take();
      return { type: 'name', name: 'new.target', start, end: this.end, parent };
    }
    const callee = this.suffixes(this.primary(), true);
    const args = this.skip('(') ? this.list(')') : [];
    return { type: 'call', callee, args, isNew: true, start, end: this.end, parent };
  }

  protected functionOf(start: number, isAsync: boolean): Fn {
    this.expect('function');
    const isGenerator = this.skip('*');
    const name = this.peek().kind === 'name' ? this.take().text : undefined;
    return this.functionRest(start, { name, isAsync, isGenerator });
  }

  protected functionRest(
    start: number,
    kind: { readonly name: string | undefined; readonly isAsync: boolean; readonly isGenerator: boolean },
  ): Fn {
    const params = this.params();
    const { body } = this.block();
    return { type: 'function', ...kind, params, body, isExpression: false, start, end: this.end, parent };
  }

  protected classOf(): Node {
    const { start } = this.expect('class');
    const name = this.peek().kind === 'name' && !this.is('extends') ? this.take().text : undefined;
    const base = this.skip('extends') ? this.suffixes(this.primary()) : undefined;
    this.expect('{');
    const members: (Entry | Block)[] = [];
    while (!this.skip('}')) {
      if (this.skip(';')) continue;
      this.decorators();
      if (this.is('static') && this.is('{', 1)) {
        this.take();
        members.push(this.block());
      } else members.push(this.member(';'));
    }
    return { type: 'class', name, base, members: members.slice(), start, end: this.end, parent };
  }

  protected object(): Node {
    const { start } = this.expect('{');
    const entries: (Entry | Spread)[] = [];
    while (!this.skip('}')) {
      const from = this.peek().start;
      if (this.skip('...'))
        entries.push({ type: 'spread', value: this.assignment(), start: from, end: this.end, parent });
      else entries.push(this.member(','));
      if (!this.is('}')) this.expect(',');
    }
    return { type: 'object', entries: entries.slice(), start, end: this.end, parent };
  }

  /**
   * Parses a member of an object or class. `between` is the separator of members: a comma in an object, a
   * semicolon in a class.
   */
  protected member(between: ',' | ';'): Entry {
    const { start } = this.peek();
    const isStatic = between === ';' && this.modifier('static');
    this.modifier('accessor');
    const isAsync = this.modifier('async');
    const isGenerator = this.skip('*');
    if (!isGenerator && !this.modifier('get')) this.modifier('set');
    const token = this.take();
    let key: string | undefined = token.kind === 'string' ? unquoted(token.text) : token.text;
    let computed: Node | undefined;
    if (token.text === '[' && token.kind === 'punctuator') {
      computed = this.assignment();
      this.expect(']');
      key = computed.type === 'text' ? computed.value : undefined;
    }
    const made = (value: Node | undefined, isShorthand = false): Entry => {
      if (between === ';') this.skip(';');
      return { type: 'entry', key, computed, value, isShorthand, isStatic, start, end: this.end, parent };
    };
    if (this.is('(')) return made(this.functionRest(start, { name: key, isAsync, isGenerator }));
    if (this.skip(between === ',' ? ':' : '=')) return made(this.assignment());
    if (between === ';') return made(undefined);
    const name = named(token);
    if (!this.skip('=')) return made(name, true);
    const value = this.assignment();
    return made({ type: 'assign', operator: '=', target: name, value, start, end: this.end, parent }, true);
  }

  /** Skips a modifier of a member, such as `static`. Returns false if the word is the name of the member. */
  protected modifier(word: string): boolean {
    if (!this.is(word)) return false;
    const next = this.peek(1);
    const isName = next.kind === 'punctuator' && next.text !== '[' && next.text !== '*';
    if (isName || (next.isFirstOfLine && word !== 'static')) return false;
    this.take();
    return true;
  }
}

/** Returns the value of a string literal. Returns text without quotation marks unchanged. */
export function unquoted(text: string): string {
  if (!/^["']/.test(text)) return text;
  const inside = text.slice(1, text.endsWith(text[0]!) && text.length > 1 ? -1 : undefined);
  return unescaped(inside);
}

const ESCAPE = /\\(?:u\{([\dA-Fa-f]+)\}|u([\dA-Fa-f]{4})|x([\dA-Fa-f]{2})|(\r\n|[^]))/g;

/** Returns the offset in the source of a string or template of a character of its text. */
export function offsetInSource(source: string, offset: number): number {
  let length = 0;
  let at = 0;
  for (const { 0: escape, index } of source.matchAll(ESCAPE)) {
    if (length + (index - at) > offset) break;
    length += index - at;
    at = index;
    const { length: own } = unescaped(escape);
    if (length + own > offset) return at;
    length += own;
    at += escape.length;
  }
  return at + (offset - length);
}

/** Returns the text that the source of a string or template stands for. */
export function unescaped(source: string): string {
  if (!source.includes('\\')) return source;
  return source.replace(
    ESCAPE,
    (_whole, long: string | undefined, four: string | undefined, two: string | undefined, char: string) => {
      const code = long ?? four ?? two;
      if (code !== undefined) return String.fromCodePoint(Math.min(Number.parseInt(code, 16), 0x10ffff));
      return /[\r\n]/.test(char) ? '' : (ESCAPES[char] ?? char);
    },
  );
}

function named({ text: name, start, end }: Token): Node {
  return { type: 'name', name, start, end, parent };
}
