/**
 * Parses the tokens of a module into statements and expressions. Expects code that Node.js accepts, so it
 * does not report errors such as a name that is declared twice.
 */
import { tokensOf } from './tokens.ts';
import { ExpressionReader, unquoted } from './expressions.ts';
import { MAX_DEPTH, TOO_DEEP, Unreadable, eachChild, parent, withinStack } from './nodes.ts';
import type { Block, Case, Declarator, Node, NodeOf } from './nodes.ts';
import type { Token } from './tokens.ts';

interface Parsed {
  readonly body: Block;
  readonly comments: readonly Token[];
}

/**
 * Parses a module.
 * @throws Unreadable if the text is not JavaScript, or is nested more deeply than svc check can follow
 */
export function parse(source: string): Parsed {
  return withinStack(() => {
    const all = tokensOf(source);
    const comments = all.filter(({ kind }) => kind === 'comment');
    const tokens = comments.length === 0 ? all : all.filter(({ kind }) => kind !== 'comment');
    const body = new Reader(tokens, source.length).module();
    adopt(body, 0);
    return { body, comments };
  });
}

function adopt(node: Node, depth: number): void {
  if (depth > MAX_DEPTH) throw new Unreadable(TOO_DEEP, node.start);
  eachChild(node, (child) => {
    child.parent = node;
    adopt(child, depth + 1);
  });
}

class Reader extends ExpressionReader {
  module(): Block {
    const body: Node[] = [];
    while (this.at < this.tokens.length) body.push(...this.statement());
    return { type: 'block', body, start: 0, end: this.textEnd.end, parent };
  }

  // -- statements --

  protected statement(): readonly Node[] {
    const token = this.peek();
    const { start } = token;
    if (token.kind === 'punctuator') {
      if (this.skip(';')) return [];
      if (token.text === '{') return [this.block()];
      if (token.text === '@') this.decorators();
    }
    if (token.kind === 'name') {
      const read = this.keyword(token.text, start);
      if (read !== undefined) return read;
      if (this.is(':', 1)) {
        this.at += 2; // a label such as `outer:`
        return this.statement();
      }
    }
    const value = this.expression();
    this.skip(';');
    return [{ type: 'statement', value, start, end: this.end, parent }];
  }

  /** Parses the statement of a branch, or the body of a loop, as one node. */
  protected branch(): Node {
    const { start } = this.peek();
    const [only, ...more] = this.statement();
    return only !== undefined && more.length === 0
      ? only
      : { type: 'block', body: only === undefined ? [] : [only, ...more], start, end: this.end, parent };
  }

  protected override block(): Block {
    const { start } = this.expect('{');
    const body: Node[] = [];
    while (!this.is('}')) {
      if (this.at >= this.tokens.length) this.refuse('the file ends without the expected "}"');
      body.push(...this.statement());
    }
    this.take();
    return { type: 'block', body: body.slice(), start, end: this.end, parent };
  }

  protected keyword(word: string, start: number): readonly Node[] | undefined {
    const next = this.peek(1);
    switch (word) {
      case 'const':
      case 'var':
        return [this.declaration(start)];
      case 'let':
        return next.kind === 'name' || next.text === '{' || next.text === '['
          ? [this.declaration(start)]
          : undefined;
      case 'using':
        return next.kind === 'name' && !next.isFirstOfLine && next.text !== 'in' && next.text !== 'of'
          ? [this.declaration(start)]
          : undefined;
      case 'await':
        if (next.text !== 'using' || this.peek(2).kind !== 'name') return undefined;
        this.take();
        return [this.declaration(start)];
      case 'function':
        return [this.functionOf(start, false)];
      case 'async':
        if (next.text !== 'function' || next.isFirstOfLine) return undefined;
        this.take();
        return [this.functionOf(start, true)];
      case 'class':
        return [this.classOf()];
      case 'if':
        return [this.ifStatement(start)];
      case 'for':
        return [this.forLoop(start)];
      case 'while':
      case 'do':
        return [this.whileLoop(start)];
      case 'return':
      case 'throw':
      case 'break':
      case 'continue':
        return [this.leave(word, start)];
      case 'try':
        return [this.tryStatement(start)];
      case 'switch':
        return [this.switchStatement(start)];
      case 'debugger':
        this.take();
        this.skip(';');
        return [];
      case 'import':
        return next.text === '(' || next.text === '.' ? undefined : [this.importDeclaration(start)];
      case 'export':
        return [this.exportDeclaration(start)];
      default:
        return undefined;
    }
  }

  protected declaration(start: number, isInHead = false): Node {
    this.take();
    const items: Declarator[] = [];
    do {
      const from = this.peek().start;
      const target = this.primary();
      const value = this.skip('=') ? this.assignment() : undefined;
      items.push({ type: 'declarator', target, value, start: from, end: this.end, parent });
    } while (this.skip(','));
    if (!isInHead) this.skip(';');
    return { type: 'declare', items: items.slice(), start, end: this.end, parent };
  }

  protected ifStatement(start: number): Node {
    this.take();
    const test = this.inParentheses();
    const yes = this.branch();
    const no = this.skip('else') ? this.branch() : undefined;
    return { type: 'if', test, yes, no, start, end: this.end, parent };
  }

  protected inParentheses(): Node {
    this.expect('(');
    const value = this.expression();
    this.expect(')');
    return value;
  }

  protected forLoop(start: number): Node {
    this.take();
    this.skip('await');
    this.expect('(');
    const head: Node[] = [];
    let kind: 'for' | 'of' | 'in' = 'for';
    const isDeclaration =
      /^(?:const|let|var|using|await)$/.test(this.peek().text) && !this.is('.', 1) && !this.is('(', 1);
    if (isDeclaration) {
      this.skip('await');
      head.push(this.declaration(this.peek().start, true));
    } else if (!this.is(';')) head.push(this.variable() ?? this.expression());
    if (this.is('of') || this.is('in')) {
      kind = this.take().text as 'of' | 'in'; // the condition above allows only `of` and `in`
      head.push(this.expression());
    } else {
      this.expect(';');
      if (!this.is(';')) head.push(this.expression());
      this.expect(';');
      if (!this.is(')')) head.push(this.expression());
    }
    this.expect(')');
    return { type: 'loop', kind, head, body: this.branch(), start, end: this.end, parent };
  }

  /** Parses the variable of `for (… of …)` or `for (… in …)` if one begins here, else returns undefined. */
  protected variable(): Node | undefined {
    const from = this.at;
    const variable = this.unary();
    if (this.is('of') || this.is('in')) return variable;
    this.at = from;
    return undefined;
  }

  protected whileLoop(start: number): Node {
    const kind = this.take().text as 'while' | 'do'; // the caller has tested that the word is `while` or `do`
    if (kind === 'while') {
      const head = [this.inParentheses()];
      return { type: 'loop', kind, head, body: this.branch(), start, end: this.end, parent };
    }
    const body = this.branch();
    this.expect('while');
    const head = [this.inParentheses()];
    this.skip(';');
    return { type: 'loop', kind, head, body, start, end: this.end, parent };
  }

  protected leave(how: 'return' | 'throw' | 'break' | 'continue', start: number): Node {
    this.take();
    const next = this.peek();
    const isAlone = next === this.textEnd || next.isFirstOfLine || next.text === ';' || next.text === '}';
    let value: Node | undefined;
    if (!isAlone && (how === 'break' || how === 'continue')) this.take();
    else if (!isAlone) value = this.expression();
    this.skip(';');
    return { type: 'leave', how, value, start, end: this.end, parent };
  }

  protected tryStatement(start: number): Node {
    this.take();
    const block = this.block();
    let param: Node | undefined;
    let handler: Node | undefined;
    if (this.skip('catch')) {
      if (this.skip('(')) {
        param = this.primary();
        this.expect(')');
      }
      handler = this.block();
    }
    const finalizer = this.skip('finally') ? this.block() : undefined;
    return { type: 'try', block, param, handler, finalizer, start, end: this.end, parent };
  }

  protected switchStatement(start: number): Node {
    this.take();
    const value = this.inParentheses();
    this.expect('{');
    const cases: Case[] = [];
    while (!this.skip('}')) {
      const from = this.peek().start;
      const test = this.skip('default') ? undefined : (this.expect('case'), this.expression());
      this.expect(':');
      const body: Node[] = [];
      while (!this.is('case') && !this.is('default') && !this.is('}')) body.push(...this.statement());
      cases.push({ type: 'case', test, body, start: from, end: this.end, parent });
    }
    return { type: 'switch', value, cases, start, end: this.end, parent };
  }

  protected importDeclaration(start: number): Node {
    this.take();
    const names: { imported: string; local: string }[] = [];
    if (this.peek().kind !== 'string') {
      if (
        this.peek().kind === 'name' &&
        /^(?:defer|source|type)$/.test(this.peek().text) &&
        !this.is(',', 1) &&
        !this.is('from', 1)
      )
        this.take();
      if (this.peek().kind === 'name') names.push({ imported: 'default', local: this.take().text });
      this.skip(',');
      if (this.skip('*')) {
        this.expect('as');
        names.push({ imported: '*', local: this.take().text });
      } else if (this.is('{'))
        for (const { name, as } of this.names()) names.push({ imported: name, local: as });
      this.expect('from');
    }
    const from = unquoted(this.take().text);
    this.attributes();
    return { type: 'import', from, names, start, end: this.end, parent };
  }

  /** Skips import attributes: `with { type: 'json' }`. */
  protected attributes(): void {
    if (this.skip('with')) this.object();
    this.skip(';');
  }

  /** Parses a list of imported or exported names: `{ a, b as c }`. */
  protected names(): { name: string; as: string }[] {
    const names: { name: string; as: string }[] = [];
    this.expect('{');
    while (!this.skip('}')) {
      const name = unquoted(this.take().text);
      names.push({ name, as: this.skip('as') ? unquoted(this.take().text) : name });
      this.skip(',');
    }
    return names;
  }

  protected exportDeclaration(start: number): Node {
    this.take();
    const made = (parts: Partial<NodeOf<'export'>>): Node => ({
      type: 'export',
      from: undefined,
      names: [],
      declared: undefined,
      isDefault: false,
      ...parts,
      start,
      end: this.end,
      parent,
    });
    if (this.skip('default')) {
      const isDeclaration = /^(?:function|class|async|@)$/.test(this.peek().text) && !this.is('=>', 1);
      const declared = isDeclaration ? this.statement()[0] : this.assignment();
      this.skip(';');
      const value = declared?.type === 'statement' ? declared.value : declared;
      return made({ declared: value && defaultOf(value), isDefault: true });
    }
    if (this.skip('*')) {
      const as = this.skip('as') ? unquoted(this.take().text) : '*';
      this.expect('from');
      const from = unquoted(this.take().text);
      this.attributes();
      return made({ from, names: [{ local: '*', exported: as }] });
    }
    if (this.is('{')) {
      const names = this.names().map(({ name, as }) => ({ local: name, exported: as }));
      const from = this.skip('from') ? unquoted(this.take().text) : undefined;
      this.attributes();
      return made({ from, names });
    }
    return made({ declared: this.statement()[0] });
  }
}

/** Returns the declaration of a default export: an expression is the value of a variable with the name "default". */
function defaultOf(value: Node): Node {
  if (/^(?:function|class|name)$/.test(value.type)) return value;
  const { start, end } = value;
  const target: Node = { type: 'name', name: 'default', start, end, parent };
  const item: Declarator = { type: 'declarator', target, value, start, end, parent };
  return { type: 'declare', items: [item], start, end, parent };
}
