/**
 * Parses a `.d.ts` file as tsc writes it: every statement ends with ";" or with the "}" of its body, and a
 * doc comment stands before it.
 */

export interface Member {
  readonly doc: string;
  /** Text of the member without its last semicolon, such as `readonly ttlSeconds?: number | undefined`. */
  readonly text: string;
}

export interface Declaration {
  readonly kind: 'class' | 'interface' | 'type' | 'function' | 'const';
  readonly name: string;
  readonly doc: string;
  /** Text of the declaration up to its body, without `export declare`. */
  readonly head: string;
  /** Members of a class or an interface. */
  readonly members: readonly Member[];
}

/** Returns the declarations of a file; a function has one for each overload. */
export function declarationsOf(text: string): readonly Declaration[] {
  return statementsOf(text).flatMap(({ doc, text: statement }): readonly Declaration[] => {
    const match =
      /^(?:export )?(?:declare )?((?:abstract )?(class|interface|type|function|const) ([\w$]+)[^]*)$/.exec(
        statement,
      );
    if (match === null) return [];
    const [, whole, kind, name] = match as unknown as [string, string, Declaration['kind'], string];
    if (kind !== 'class' && kind !== 'interface')
      return [{ kind, name, doc, head: whole.replace(/;$/, ''), members: [] }];
    const open = bodyStart(whole);
    const members = statementsOf(whole.slice(open + 1, whole.lastIndexOf('}')))
      .map((member) => ({ doc: member.doc, text: member.text.replace(/;$/, '') }))
      .filter(
        ({ doc: own, text: member }) => !/@internal/.test(own) && !/^(?:#|private |protected )/.test(member),
      );
    return [{ kind, name, doc, head: whole.slice(0, open).trim(), members }];
  });
}

/**
 * Returns the offset of the "{" that opens the body: the first one outside of type parameters and
 * parentheses.
 */
function bodyStart(text: string): number {
  for (const { at, depth } of brackets(text, '<([')) if (text[at] === '{' && depth === 0) return at;
  throw new Error(`no body: ${text}`);
}

/** Splits text into statements, each with the doc comment before it. */
function statementsOf(text: string): { readonly doc: string; readonly text: string }[] {
  const statements: { doc: string; text: string }[] = [];
  let rest = text.trim();
  while (rest !== '') {
    const [comments = ''] = /^(?:\s*(?:\/\*[^]*?\*\/|\/\/.*))*\s*/.exec(rest) ?? [];
    const statement = rest.slice(comments.length);
    if (statement === '') break;
    const end = endOf(statement);
    const doc = comments.match(/\/\*\*[^]*?\*\//g)?.at(-1) ?? '';
    statements.push({ doc: plainDoc(doc), text: statement.slice(0, end).trim() });
    rest = statement.slice(end).trim();
  }
  return statements;
}

/** Returns the offset after the first statement: after its ";", or after the "}" of a class or interface. */
function endOf(text: string): number {
  const hasBody = /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface|namespace|module) /.test(text);
  const from = hasBody ? bodyStart(text) : 0;
  for (const { at, depth } of brackets(text, '{([', from)) {
    if (depth === 0 && at > from && text[at] === (hasBody ? '}' : ';')) return at + 1;
  }
  return text.length;
}

const CLOSES: Readonly<Record<string, string>> = { '}': '{', ')': '(', ']': '[', '>': '<' };

/**
 * Yields brackets and semicolons outside of comments and strings. Each has its depth, which counts only the
 * brackets in `counted`.
 */
function* brackets(
  text: string,
  counted: string,
  from = 0,
): Generator<{ readonly at: number; readonly depth: number }> {
  let depth = 0;
  for (const { index, 0: token } of text
    .slice(from)
    .matchAll(
      /\/\*[^]*?\*\/|\/\/.*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|=>|[{}()[\]<>;]/g,
    )) {
    if (token.length > 1) continue;
    const opener = CLOSES[token];
    if (opener !== undefined && counted.includes(opener)) depth--;
    yield { at: from + index, depth };
    if (counted.includes(token)) depth++;
  }
}

/** Returns the text of a doc comment without its stars. */
function plainDoc(doc: string): string {
  return doc
    .replace(/^\/\*\*\s?/, '')
    .replace(/\s*\*\/$/, '')
    .replace(/^[ \t]*\* ?/gm, '')
    .trim();
}
