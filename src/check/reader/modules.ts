/**
 * Reads the modules of a project: the entry files and all files that they import, except packages. Node.js
 * removes the types and keeps every other character at its position.
 */
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { SourceMap, findPackageJSON, isBuiltin, stripTypeScriptTypes } from 'node:module';
import { basename, dirname, extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { errorCode } from '../../base/errors.ts';
import { ownFolders } from '../../base/package-root.ts';
import { mayHoldJsx, withoutJsx } from './jsx.ts';
import { walk } from './nodes.ts';
import { parse } from './syntax.ts';
import type { Place } from '../../base/findings.ts';
import type { Block, ClassNode, Declarator, Fn, Node } from './nodes.ts';
import type { Token } from './tokens.ts';

/** Maximum number of files that are read. `svc check` reports when a project has more. */
const MAX_FILES = 5_000;
/** Larger files are not read: they are usually generated. */
const MAX_FILE_BYTES = 2_000_000;
const EXTENSIONS = ['.ts', '.mts', '.cts', '.tsx', '.js', '.mjs', '.cjs', '.jsx'];

/** A node of a module. */
export interface Spot {
  readonly node: Node;
  readonly module: SourceModule;
}

/** The declaration or import to which a name refers. */
export type Binding =
  | { readonly kind: 'declared'; readonly module: SourceModule; readonly node: Fn | ClassNode | Declarator }
  /** A parameter, a caught error, or the variable of a loop. */
  | { readonly kind: 'parameter'; readonly owner: Node }
  /** An import from a package or from Node.js, such as `randomBytes` from `node:crypto`. */
  | { readonly kind: 'external'; readonly from: string; readonly imported: string }
  /** All exports of a module of the project: `import * as notes`. */
  | { readonly kind: 'module'; readonly module: SourceModule };

/** A name of another module. */
interface Imported {
  readonly from: string;
  readonly imported: string;
}

/** A parsed module of a project. */
export class SourceModule {
  readonly file: string;
  readonly source: string;
  readonly body: Block;
  readonly comments: readonly Token[];
  readonly imports: ReadonlyMap<string, Imported>;
  /** Imports of types, which Node.js removes: `import type { Deps } from './deps.ts'`. */
  readonly #types: ReadonlyMap<string, Imported>;
  /** Modules of the project that this module imports, by import specifier. */
  readonly resolved: Map<string, SourceModule> = new Map();
  readonly #exports: Exports;
  readonly #names = new WeakMap<Node, ReadonlyMap<string, Binding>>();
  #lines: number[] | undefined;
  #url: string | undefined;

  readonly #map: SourceMap | undefined;
  /**
   * The original TypeScript, at the same offsets as `source`. Undefined for JavaScript, and if removing the
   * types moved code.
   */
  readonly text: string | undefined;

  constructor(file: string, { source, map, text }: Readable) {
    this.file = file;
    this.source = source;
    this.text = text;
    this.#map = map;
    const { body, comments } = parse(source);
    this.body = body;
    this.comments = comments;
    this.imports = importsOf(body);
    this.#types = typesOf(text);
    this.#exports = exportsOf(body);
  }

  /** Returns the line and column of an offset in `source`, one-based. */
  placeAt(offset: number): Place {
    this.#lines ??= lineStarts(this.source);
    let [low, high] = [0, this.#lines.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#lines[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    const column = offset - this.#lines[low]!;
    const file = (this.#url ??= pathToFileURL(this.file).href);
    const entry = this.#map?.findEntry(low, column);
    return entry !== undefined && 'originalLine' in entry
      ? { file, line: entry.originalLine + 1, column: entry.originalColumn + 1 }
      : { file, line: low + 1, column: column + 1 };
  }

  /** Specifiers of all modules that this module imports. */
  get specifiers(): readonly string[] {
    const found = new Set([...this.imports.values(), ...this.#types.values()].map(({ from }) => from));
    for (const statement of this.body.body)
      if ((statement.type === 'import' || statement.type === 'export') && statement.from !== undefined)
        found.add(statement.from);
    if (/\b(?:import|require)\s*\(/.test(this.source)) {
      walk(this.body, (node) => {
        const from = requiredBy(node);
        if (from !== undefined) found.add(from);
      });
    }
    return [...found];
  }

  /**
   * Returns the declaration or import to which a name refers at the position of a node. Undefined if there is
   * none.
   */
  lookup(name: string, at: Node): Binding | undefined {
    for (let scope: Node | undefined = at; scope !== undefined; scope = scope.parent) {
      if (!SCOPES.has(scope.type)) continue;
      const found = this.#namesOf(scope).get(name);
      if (found !== undefined) return found;
    }
    const imported = this.imports.get(name);
    return imported === undefined ? undefined : this.#bindingOf(imported);
  }

  /** Returns the module or package from which a type is imported. */
  typeImport(name: string): (Imported & { readonly module: SourceModule | undefined }) | undefined {
    const found = this.#types.get(name) ?? this.imports.get(name);
    return (
      found && { ...found, from: found.from.replace(/^node:/, ''), module: this.resolved.get(found.from) }
    );
  }

  /** Returns the declaration or import to which an exported name refers. */
  exported(name: string, depth = 0): Binding | undefined {
    const found = this.#exports.byName.get(name);
    if (depth > 20) return undefined; // ends the search when modules re-export from each other in a circle
    if (found === undefined) {
      for (const from of this.#exports.all) {
        const binding = this.resolved.get(from)?.exported(name, depth + 1);
        if (binding !== undefined) return binding;
      }
      return undefined;
    }
    if ('type' in found)
      return found.type === 'function' || found.type === 'class' || found.type === 'declarator'
        ? { kind: 'declared', module: this, node: found }
        : found.type === 'name'
          ? this.lookup(found.name, this.body)
          : undefined;
    if (found.from === undefined) return this.lookup(found.local, this.body);
    return this.#bindingOf({ from: found.from, imported: found.local });
  }

  #bindingOf({ from, imported }: Imported): Binding | undefined {
    const module = this.resolved.get(from);
    if (module === undefined) return { kind: 'external', from: from.replace(/^node:/, ''), imported };
    return imported === '*' ? { kind: 'module', module } : module.exported(imported);
  }

  #namesOf(scope: Node): ReadonlyMap<string, Binding> {
    let names = this.#names.get(scope);
    if (names === undefined) this.#names.set(scope, (names = namesIn(scope, this)));
    return names;
  }
}

/** Modules of a project. */
export interface Project {
  readonly modules: readonly SourceModule[];
  /** Files that were not read, with the reason. */
  readonly unread: readonly { readonly file: string; readonly why: string }[];
}

/**
 * Reads the entry files and all files that they import, at most `maxFiles`. Lists files that are not read in
 * `unread`, and does not throw for them.
 */
export function readProject(entries: readonly string[], maxFiles: number = MAX_FILES): Project {
  const modules = new Map<string, SourceModule>();
  const unread: { file: string; why: string }[] = [];
  const own = ownFolders();
  /** Files of imports, by folder and specifier. */
  const located = new Map<string, string | undefined>();
  const beyond = new Set<string>();
  const read = (file: string): SourceModule | undefined => {
    const known = modules.get(file);
    if (known !== undefined) return known;
    if (modules.size + unread.length >= maxFiles) {
      beyond.add(file);
      return undefined;
    }
    try {
      const module = new SourceModule(file, sourceOf(file));
      modules.set(file, module);
      return module;
    } catch (error) {
      if (!unread.some((other) => other.file === file))
        unread.push({ file, why: (error as Error).message.split('\n')[0]! });
      return undefined;
    }
  };
  for (const entry of entries) read(realpathSync.native(entry));
  for (const module of modules.values()) {
    // the outer loop also visits the modules that read() adds to the map while the loop runs
    for (const specifier of module.specifiers) {
      const key = `${dirname(module.file)}\0${specifier}`;
      if (!located.has(key)) located.set(key, locate(specifier, module.file));
      const file = located.get(key);
      if (file === undefined || own.some((folder) => file.startsWith(folder))) continue;
      const found = read(file);
      if (found !== undefined) module.resolved.set(specifier, found);
    }
  }
  const [first] = beyond;
  if (first !== undefined) {
    const others = beyond.size === 1 ? '' : ` (files beyond it: ${beyond.size})`;
    unread.push({ file: first, why: `the limit of svc check is ${maxFiles} files${others}` });
  }
  return { modules: [...modules.values()], unread };
}

/** A file converted to JavaScript. It has a source map if removing the types moved code. */
interface Readable {
  readonly source: string;
  readonly map?: SourceMap | undefined;
  readonly text?: string | undefined;
}

/**
 * Returns the code of a file as JavaScript. Removing types keeps all offsets, except for types that become
 * code, such as enums.
 * @throws Error if the text is not JavaScript or TypeScript
 */
function sourceOf(file: string): Readable {
  if (statSync(file).size > MAX_FILE_BYTES)
    throw new Error(`the file is larger than ${MAX_FILE_BYTES} bytes, the limit of svc check`);
  const read = readFileSync(file, 'utf8');
  const text = mayHoldJsx(file) ? withoutJsx(read) : read;
  if (!/\.(?:[mc]?ts|tsx)$/.test(file)) return { source: text };
  const { emitWarning } = process;
  process.emitWarning = () => undefined; // suppresses the warning that stripTypeScriptTypes() is experimental
  try {
    return { source: stripTypeScriptTypes(text), text };
  } catch (error) {
    if (errorCode(error) !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    // enums and parameter properties become code, so removing types is not enough
    const source = stripTypeScriptTypes(text, { mode: 'transform', sourceMap: true });
    const map = /\/\/# sourceMappingURL=data:application\/json;base64,(\S+)\s*$/.exec(source)?.[1];
    // JSON.parse() below does not throw, because the source map comes from Node.js and is valid JSON
    return {
      source,
      map:
        map === undefined
          ? undefined
          : new SourceMap(JSON.parse(Buffer.from(map, 'base64').toString()) as never),
    };
  } finally {
    process.emitWarning = emitWarning;
  }
}

/**
 * Returns the file of an import; undefined for packages, built-in modules and files that are not JavaScript
 * or TypeScript.
 */
function locate(specifier: string, from: string): string | undefined {
  if (isBuiltin(specifier)) return undefined;
  const path = /^\.{0,2}\//.test(specifier)
    ? onDisk(resolve(dirname(from), specifier.replace(/[?#].*$/, '')))
    : throughPackage(specifier, from);
  if (path === undefined || !EXTENSIONS.includes(extname(path))) return undefined;
  const file = realpathSync.native(path);
  return file.includes('/node_modules/') ||
    file.includes('\\node_modules\\') ||
    basename(file).endsWith('.d.ts')
    ? undefined
    : file;
}

function onDisk(path: string): string | undefined {
  const candidates = [
    path,
    ...EXTENSIONS.map((extension) => path + extension),
    ...EXTENSIONS.map((extension) => resolve(path, `index${extension}`)),
    path.replace(/js$/, 'ts'),
    path.replace(/\.jsx?$/, '.tsx'),
  ];
  return candidates.find((candidate) => statSync(candidate, { throwIfNoEntry: false })?.isFile() === true);
}

/**
 * Finds the file of an import such as `#notes`, through the field "imports" of package.json. Also finds the
 * file of a package in the same workspace.
 */
function throughPackage(specifier: string, from: string): string | undefined {
  try {
    const isOwn = specifier.startsWith('#');
    const [name] = isOwn ? [specifier] : /^(?:@[^/]+\/)?[^/]+/.exec(specifier)!;
    const manifest = isOwn ? findPackageJSON('..', from) : findPackageJSON(specifier, from);
    if (manifest === undefined) return undefined;
    const { imports, exports, main } = JSON.parse(readFileSync(manifest, 'utf8')) as Record<string, unknown>;
    const key = isOwn ? specifier : `.${specifier.slice(name!.length)}`;
    const target = targetOf(isOwn ? imports : (exports ?? { '.': main ?? './index.js' }), key);
    return target === undefined ? undefined : onDisk(resolve(dirname(manifest), target));
  } catch {
    // the package is missing or unreadable, which Node.js reports when it imports the package
    return undefined;
  }
}

/**
 * Returns the target of a key in the field "imports" or "exports" of package.json. Supports `*` patterns and
 * conditions.
 */
function targetOf(table: unknown, key: string): string | undefined {
  if (typeof table === 'string') return key === '.' ? table : undefined;
  if (typeof table !== 'object' || table === null) return undefined;
  for (const [pattern, target] of Object.entries(table)) {
    const [before, after] = pattern.split('*') as [string, string | undefined];
    const isMatch = after === undefined ? pattern === key : key.startsWith(before) && key.endsWith(after);
    if (!isMatch) continue;
    const found = byCondition(target);
    return after === undefined
      ? found
      : found?.replaceAll('*', key.slice(before.length, key.length - after.length));
  }
  return key === '.' && !Object.keys(table).some((each) => each.startsWith('.'))
    ? byCondition(table)
    : undefined;
}

function byCondition(target: unknown): string | undefined {
  if (typeof target === 'string') return target;
  if (typeof target !== 'object' || target === null) return undefined;
  for (const [condition, inner] of Object.entries(target))
    if (/^(?:node|import|module|default|require)$/.test(condition)) return byCondition(inner);
  return undefined;
}

function lineStarts(source: string): number[] {
  const starts = [0];
  for (let at = source.indexOf('\n'); at !== -1; at = source.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

// -- imports and exports --

function importsOf(body: Block): Map<string, Imported> {
  const imports = new Map<string, Imported>();
  for (const statement of body.body) {
    if (statement.type === 'import')
      for (const { imported, local } of statement.names)
        imports.set(local, { from: statement.from, imported });
    if (statement.type === 'declare') for (const item of statement.items) addRequired(item, imports);
  }
  return imports;
}

/** Returns the imports of types of TypeScript. */
function typesOf(text: string | undefined): Map<string, Imported> {
  const types = new Map<string, Imported>();
  for (const [, isType, names, from] of (text ?? '').matchAll(
    /\bimport\s+(type\s+)?(?:\w+\s*,\s*)?\{([^}]*)\}\s*from\s*['"]([^'"\n]+)['"]/g,
  ))
    for (const [, mark, imported, local] of names!.matchAll(/(type\s+)?([\w$]+)(?:\s+as\s+([\w$]+))?/g))
      if (isType !== undefined || mark !== undefined)
        types.set(local ?? imported!, { from: from!, imported: imported! }); // both groups match
  return types;
}

/**
 * Adds the names that `const { exec } = require('node:child_process')` declares. Also reads `await
 * import(…)`.
 */
function addRequired({ target, value }: Declarator, imports: Map<string, Imported>): void {
  const from = requiredBy(value?.type === 'await' ? value.value : value);
  if (from === undefined) return;
  if (target.type === 'name') imports.set(target.name, { from, imported: '*' });
  for (const { key, local } of boundIn(target))
    if (key !== undefined) imports.set(local, { from, imported: key });
}

/** Returns the module that `require('…')` or `import('…')` loads; undefined for any other node. */
function requiredBy(node: Node | undefined): string | undefined {
  const isCall = node?.type === 'call' && node.callee.type === 'name';
  const [first] = isCall && /^(?:require|import)$/.test(node.callee.name) ? node.args : [];
  return first?.type === 'text' ? first.value : undefined;
}

type Exported = { readonly local: string; readonly from: string | undefined } | Node;

interface Exports {
  readonly byName: ReadonlyMap<string, Exported>;
  /** Modules whose exports are all exported: `export * from`. */
  readonly all: readonly string[];
}

function exportsOf(body: Block): Exports {
  const byName = new Map<string, Exported>();
  const all: string[] = [];
  for (const statement of body.body) {
    if (statement.type === 'statement') addAssigned(statement.value, byName);
    if (statement.type !== 'export') continue;
    const { declared, from, names, isDefault } = statement;
    for (const { local, exported } of names) {
      if (exported === '*')
        all.push(from!); // `export * from` always names a module
      else byName.set(exported, { local, from });
    }
    if (isDefault && declared !== undefined) byName.set('default', declared);
    else if (declared?.type === 'function' || declared?.type === 'class')
      byName.set(declared.name!, declared); // a declared function or class has a name
    else if (declared?.type === 'declare')
      for (const item of declared.items) if (item.target.type === 'name') byName.set(item.target.name, item);
  }
  return { byName, all };
}

/** Adds the exports of CommonJS: `module.exports = { a, b: … }`, `exports.a = …`. */
function addAssigned(node: Node, byName: Map<string, Exported>): void {
  if (node.type !== 'assign' || node.target.type !== 'member') return;
  const { object, property } = node.target;
  const isExports = object.type === 'name' && object.name === 'exports';
  const isModule = object.type === 'name' && object.name === 'module' && property === 'exports';
  const isNested = object.type === 'member' && object.property === 'exports';
  if ((isExports || isNested) && property !== undefined) byName.set(property, node.value);
  if (!isModule) return;
  byName.set('default', node.value);
  if (node.value.type !== 'object') return;
  for (const entry of node.value.entries)
    if (entry.type === 'entry' && entry.key !== undefined && entry.value !== undefined)
      byName.set(entry.key, entry.value);
}

/** Returns the variables that a destructuring pattern declares. In `{ user: { name: n } }`, `n` has the key `name`. */
export function boundIn(
  target: Node,
  key?: string,
): { readonly key: string | undefined; readonly local: string }[] {
  switch (target.type) {
    case 'name':
      return [{ key, local: target.name }];
    case 'assign':
      return boundIn(target.target, key);
    case 'spread':
      return boundIn(target.value, key);
    case 'list':
      return target.items.flatMap((item) => boundIn(item));
    case 'object':
      return target.entries.flatMap((entry) =>
        entry.value === undefined ? [] : boundIn(entry.value, entry.type === 'entry' ? entry.key : undefined),
      );
    default:
      return [];
  }
}

/** Nodes that declare names. */
const SCOPES: ReadonlySet<Node['type']> = new Set(['function', 'block', 'loop', 'try', 'case']);

/** Returns the names that a scope declares, except those of nested scopes. */
function namesIn(scope: Node, module: SourceModule): Map<string, Binding> {
  const names = new Map<string, Binding>();
  const declare = (node: Node): void => {
    const declared = node.type === 'export' ? node.declared : node;
    if (declared?.type === 'declare') for (const item of declared.items) bind(item);
    else if ((declared?.type === 'function' || declared?.type === 'class') && declared.name !== undefined)
      names.set(declared.name, { kind: 'declared', module, node: declared });
  };
  const bind = (item: Declarator): void => {
    const bound = boundIn(item.target);
    // a name that require() gives is an import
    if (scope === module.body && bound.some(({ local }) => module.imports.has(local))) return;
    for (const { local } of bound) names.set(local, { kind: 'declared', module, node: item });
  };
  const parameters = (targets: readonly Node[]): void => {
    for (const target of targets)
      for (const { local } of boundIn(target)) names.set(local, { kind: 'parameter', owner: scope });
  };
  if (scope.type === 'function') {
    parameters(scope.params);
    if (!scope.isExpression) scope.body.forEach(declare);
  } else if (scope.type === 'block' || scope.type === 'case') scope.body.forEach(declare);
  else if (scope.type === 'loop') {
    const [first] = scope.head;
    if (first?.type === 'declare') {
      if (scope.kind === 'for') declare(first);
      else parameters(first.items.map(({ target }) => target));
    }
  } else if (scope.type === 'try' && scope.param !== undefined) parameters([scope.param]);
  return names;
}
