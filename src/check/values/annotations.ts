/** Reads the types that TypeScript declares for parameters, fields and variables. Types are not checked. */
import type { SourceModule } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';

/** A written type. It is the first member with a name if the type is a union. */
export type WrittenType =
  | { readonly kind: 'name'; readonly name: string; readonly args: readonly WrittenType[] }
  | { readonly kind: 'object'; readonly members: ReadonlyMap<string, WrittenType> }
  | { readonly kind: 'list'; readonly item: WrittenType };

/** Returns the type written after a name or pattern: `store: Store`, `{ db }: { db: Database }`. */
export function typeAfter({ end }: Node, { text }: SourceModule): WrittenType | undefined {
  const colon = text === undefined ? null : /^\s*[?!]?\s*:/.exec(text.slice(end, end + 40));
  return colon === null || text === undefined
    ? undefined
    : new TypeReader(text, end + colon[0].length).read();
}

const declared = new WeakMap<SourceModule, Map<string, WrittenType | undefined>>();

/** Returns the type that a module declares under a name: `interface Deps { … }`, `type Deps = …`. */
export function typeNamed(name: string, module: SourceModule): WrittenType | undefined {
  const { text } = module;
  if (text === undefined) return undefined;
  let known = declared.get(module);
  if (known === undefined) declared.set(module, (known = new Map()));
  if (!known.has(name)) {
    const found = new RegExp(`\\b(?:interface|type)\\s+${name.replaceAll('$', '\\$')}\\b[^={]*=?\\s*`).exec(
      text,
    );
    known.set(name, found === null ? undefined : new TypeReader(text, found.index + found[0].length).read());
  }
  return known.get(name);
}

/** Types that say nothing of a value. */
const EMPTY = /^(?:undefined|null|unknown|any|never|void)$/;
/** Nested types are read to this depth. */
const MAX_NESTED = 8;

class TypeReader {
  readonly #text: string;
  #at: number;
  #depth = 0;

  constructor(text: string, at: number) {
    this.#text = text;
    this.#at = at;
  }

  /** Reads a type; undefined for a form that this class does not know, such as a function. */
  read(): WrittenType | undefined {
    if (++this.#depth > MAX_NESTED) return undefined;
    this.#take(/^[|&]/);
    let found = this.#one();
    while (this.#take(/^[|&]/) !== undefined) {
      const next = this.#one();
      if (found === undefined || (found.kind === 'name' && EMPTY.test(found.name))) found = next;
    }
    this.#depth--;
    return found;
  }

  #one(): WrittenType | undefined {
    this.#take(/^(?:readonly|typeof)\b/);
    let type = this.#primary();
    while (type !== undefined && this.#take(/^\[\s*\]/) !== undefined) type = { kind: 'list', item: type };
    return type;
  }

  #primary(): WrittenType | undefined {
    if (this.#take(/^\{/) !== undefined) return this.#object();
    if (this.#take(/^(?:'[^'\n]*'|"[^"\n]*"|-?\d+)/) !== undefined)
      return { kind: 'name', name: 'string', args: [] };
    const name = this.#take(/^[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*/);
    if (name === undefined) return undefined;
    const args: WrittenType[] = [];
    if (this.#take(/^</) !== undefined) {
      do {
        const arg = this.read();
        if (arg === undefined) return { kind: 'name', name, args };
        args.push(arg);
      } while (this.#take(/^,/) !== undefined);
      this.#take(/^>/);
    }
    return { kind: 'name', name, args };
  }

  #object(): WrittenType {
    const members = new Map<string, WrittenType>();
    while (this.#take(/^\}/) === undefined) {
      const key = this.#take(/^(?:readonly\s+)?[\w$]+\s*\??\s*:/);
      const type = key === undefined ? undefined : this.read();
      const name = key === undefined ? undefined : /([\w$]+)\s*\??\s*:$/.exec(key)?.[1];
      if (name !== undefined && type !== undefined) members.set(name, type);
      // a member of another form, such as a method, ends at the next line or semicolon
      if (this.#take(/^[;,]/) === undefined && type === undefined && this.#take(/^[^;\n}]*[;\n]?/) === '')
        break;
    }
    return { kind: 'object', members };
  }

  #take(pattern: RegExp): string | undefined {
    const rest = this.#text.slice(this.#at, this.#at + 400);
    const blank = /^(?:\s+|\/\/[^\n]*|\/\*[^]*?\*\/)*/.exec(rest)?.[0].length ?? 0;
    const found = pattern.exec(rest.slice(blank))?.[0];
    if (found !== undefined) this.#at += blank + found.length;
    return found;
  }
}
