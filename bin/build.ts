/**
 * src → dist: compiled by TypeScript, then joined, so that the package has few files to look at, to vendor and to load.
 *
 *   src/**.ts ─ tsc ─→ .build/**.js, .d.ts      a file of each source: for stack traces of this repository, tests and benches
 *   .build    ─ join → dist/index.js …          the entry points, and whatever else is loaded by its own name
 *                      dist/part-1.js …         what they share: modules that the same entry points need are in one file
 *                      dist/types.d.ts          the declarations that the entry points reach
 *
 * A module becomes a function that runs once, with its text as it was: names never meet, and nothing is renamed. Parts lie in the
 * folder of their modules, so that `import.meta.url` means what it meant. A line that this file does not understand ends it.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');
const MODULES = join(ROOT, '.build');

interface Manifest {
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
}

/** Compiles and joins. What was there before is gone. @throws Error when it does not compile, or cannot be joined */
export function build(): void {
  rmSync(MODULES, { recursive: true, force: true });
  const { NODE_V8_COVERAGE: _, NODE_OPTIONS: __, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', 'src/tsconfig.json'], { cwd: ROOT, env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`The package does not compile:\n${stdout}${stderr}`);
  const fresh = join(ROOT, '.build/joined');
  for (const { path, text } of [...joinedModules(), ...joinedTypes()]) {
    mkdirSync(dirname(join(fresh, path)), { recursive: true });
    writeFileSync(join(fresh, path), text);
  }
  rmSync(join(ROOT, 'dist'), { recursive: true, force: true });
  renameSync(fresh, join(ROOT, 'dist'));
}

interface Output {
  readonly path: string;
  readonly text: string;
}

// ── reading ──

/** What a module takes from another one. `names` is undefined for all of it, under the name `whole`. */
interface Import {
  readonly specifier: string;
  readonly names: readonly (readonly [imported: string, local: string])[];
  readonly whole?: string;
  readonly isReexport: boolean;
}

interface Module {
  /** `http/router.js`. */
  readonly path: string;
  readonly imports: readonly Import[];
  /** What it offers, by the name inside of it. */
  readonly exports: readonly (readonly [local: string, exported: string])[];
  /** Its text without imports and the word `export`. */
  readonly body: string;
  /** Files that it names: loaded when they are needed, or processes of their own. */
  readonly later: readonly string[];
}

/** The same text with blanks in the place of comments and of what is in strings and templates: as long, line by line. */
export function masked(text: string): string {
  const out: string[] = [];
  const blank = (part: string): void => { out.push(part.replace(/[^\n]/g, ' ')); };
  const depths: number[] = []; // of braces, where a template goes on
  let at = 0;
  let depth = 0;
  let last = ''; // the last word or sign
  const template = (): void => { // from behind ` or }
    const start = at;
    while (at < text.length && text[at] !== '`' && !(text[at] === '$' && text[at + 1] === '{')) at += text[at] === '\\' ? 2 : 1;
    blank(text.slice(start, at));
    if (text[at] === '`') { out.push('`'); at += 1; } else { out.push('${'); at += 2; depths.push(depth); depth = 0; }
  };
  while (at < text.length) {
    const rest = (pattern: RegExp): string | undefined => { pattern.lastIndex = at; return pattern.exec(text)?.[0]; };
    const comment = rest(/\/\/[^\n]*|\/\*[^]*?\*\//y);
    const space = rest(/\s+/y);
    const string = rest(/'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"/y);
    const word = rest(/[\w$#]+/y);
    const regex = text[at] === '/' && /^(?:|[([{,;:=!&|?+\-*%~^<>]|return|typeof|case|in|of|yield|await|void|delete|=>)$/.test(last) ? rest(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y) : undefined;
    if (comment !== undefined) { blank(comment); at += comment.length; continue; }
    if (space !== undefined) { out.push(space); at += space.length; continue; }
    if (string !== undefined || regex !== undefined) { const part = (string ?? regex)!; out.push(part[0]!); blank(part.slice(1, -1)); out.push(part.at(-1)!); at += part.length; last = "'"; continue; }
    if (word !== undefined) { out.push(word); at += word.length; last = word; continue; }
    const sign = text[at]!;
    at += 1;
    if (sign === '`') { out.push(sign); template(); last = '`'; continue; }
    if (sign === '}' && depth === 0 && depths.length > 0) { out.push(sign); depth = depths.pop()!; template(); last = '`'; continue; }
    if (sign === '{') depth += 1;
    if (sign === '}') depth -= 1;
    out.push(sign);
    last = sign;
  }
  return out.join('');
}

/** The statements at the left edge that begin with one of these words, with where they begin and end. */
function statements(text: string, mask: string, pattern: RegExp): { start: number; end: number; text: string }[] {
  return [...mask.matchAll(pattern)].map(({ index }) => {
    const end = mask.indexOf(';', index) + 1;
    return { start: index, end, text: text.slice(index, end) };
  });
}

/** `a, type B, b as c`, without types. */
function namesOf(list: string): [string, string][] {
  return list.split(',').map((item) => item.trim().replace(/^type\s+/, '')).filter((item) => item !== '').map((item) => {
    const [, from, to = from] = /^([\w$]+)(?:\s+as\s+([\w$]+))?$/.exec(item) ?? fail(`not a name: ${item}`);
    return [from!, to!];
  });
}

function importOf(statement: string, where: string): Import {
  const [, isExport, list, whole, single, specifier] = /^(import|export)\s+(?:type\s+)?(?:\{([^}]*)\}\s+from\s+|\*\s+as\s+([\w$]+)\s+from\s+|([\w$]+)\s+from\s+)?(['"][^'"]+['"]);$/.exec(statement) ?? fail(`${where}: ${statement}`);
  const names: [string, string][] = list !== undefined ? namesOf(list) : single !== undefined ? [['default', single]] : [];
  return { specifier: specifier!.slice(1, -1), names, ...whole === undefined ? {} : { whole }, isReexport: isExport === 'export' };
}

function readModule(path: string): Module {
  const text = readFileSync(join(MODULES, path), 'utf8').replace(/\n?\/\/# sourceMappingURL=.*\n?$/, '\n');
  const mask = masked(text);
  const taken = statements(text, mask, /^(?:import\b(?!\s*[.(])|export\s+(?:type\s+)?\{[^}]*\}(?:\s+from\b|;))/gm);
  const imports: Import[] = [];
  const exports: (readonly [string, string])[] = [];
  let body = '';
  let at = 0;
  for (const statement of taken) {
    body += text.slice(at, statement.start);
    at = statement.end;
    const local = /^export\s+\{([^}]*)\};$/.exec(statement.text);
    if (local !== null) { exports.push(...namesOf(local[1]!)); continue; }
    const one = importOf(statement.text, path);
    imports.push(one);
    if (one.isReexport) exports.push(...one.names);
  }
  body += text.slice(at);
  const bodyMask = masked(body);
  const cuts: number[] = [];
  for (const { index } of bodyMask.matchAll(/^export /gm)) {
    const [, name] = /^export (?:async function\*? |function\*? |class |const )([\w$]+)(?= extends| \{|\(| =)/.exec(bodyMask.slice(index, index + 300)) ?? fail(`${path}: ${body.slice(index, index + 60)}`);
    exports.push([name!, name!]);
    cuts.push(index);
  }
  for (const cut of cuts.reverse()) body = body.slice(0, cut) + body.slice(cut + 'export '.length);
  if (/^(?:import|export)\b(?!\s*[.(])|^(?:await|for await)\b|^(?:const|let) .*= await\b/m.test(masked(body))) fail(`${path}: a statement that cannot be joined`);
  const later = [...body.matchAll(/\bimport\('(\.[^']+)'\)|new URL\([`'](\.\/[\w-]+)/g)].map(([, dynamic, file]) => posix.join(posix.dirname(path), dynamic ?? `${file!}.js`));
  return { path, imports, exports, body: body.trim(), later };
}

function fail(problem: string): never {
  throw new Error(`Cannot join: ${problem}`);
}

// ── programs ──

/** Modules that one set of roots needs, in one folder. */
interface Part {
  readonly path: string;
  readonly modules: Module[];
}

function joinedModules(): Output[] {
  const modules = new Map(filesOf('.js').map((path) => [path, readModule(path)]));
  const roots = rootsOf(modules);
  const order = sorted(modules, roots);
  const parts = partsOf(order, roots, modules);
  const partOf = new Map(parts.flatMap((part) => part.modules.map(({ path }) => [path, part] as const)));
  return [...parts.map((part) => ({ path: part.path, text: partText(part, partOf) })), ...[...roots, ...MEASURED].map((path) => ({ path, text: rootText(modules.get(path)!, partOf.get(path)!) }))];
}

/** Loaded by name by test/bench/http.ts, which measures what is published. */
const MEASURED: readonly string[] = ['http/server.js'];

/** Entry points of the package, of the command, and whatever a module names. */
function rootsOf(modules: ReadonlyMap<string, Module>): string[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
  const entries = Object.values(exports).flatMap((entry) => typeof entry === 'string' ? [] : [entry.default.replace('./dist/', '')]);
  const later = [...modules.values()].flatMap((each) => each.later).filter((path) => modules.has(path));
  return [...new Set([...entries, 'cli.js', ...later])].sort();
}

function dependenciesOf({ path, imports }: Module): string[] {
  return imports.filter(({ specifier }) => specifier.startsWith('.')).map(({ specifier }) => posix.join(posix.dirname(path), specifier));
}

/** Each module behind those that it imports. */
function sorted(modules: ReadonlyMap<string, Module>, roots: readonly string[]): Module[] {
  const order: Module[] = [];
  const state = new Map<string, 'open' | 'done'>();
  const visit = (path: string): void => {
    if (state.get(path) === 'done') return;
    if (state.get(path) === 'open') fail(`${path} imports itself in a circle`);
    const each = modules.get(path) ?? fail(`there is no ${path}`);
    state.set(path, 'open');
    dependenciesOf(each).forEach(visit);
    state.set(path, 'done');
    order.push(each);
  };
  roots.forEach(visit);
  return order;
}

/** By folder, by the roots that need them, and by how often folders change on the way down: so parts never import each other in a circle. */
function partsOf(order: readonly Module[], roots: readonly string[], modules: ReadonlyMap<string, Module>): Part[] {
  const needed = new Map<string, Set<string>>();
  const mark = (path: string, root: string): void => {
    const by = needed.get(path) ?? new Set();
    if (by.has(root)) return;
    needed.set(path, by.add(root));
    for (const next of dependenciesOf(modules.get(path)!)) mark(next, root);
  };
  for (const root of roots) mark(root, root);
  const setOf = (path: string): string => [...needed.get(path)!].sort().join(' ');
  const layers = new Map<string, number>();
  for (const each of order) {
    const below = dependenciesOf(each).filter((path) => setOf(path) === setOf(each.path)).map((path) => layers.get(path)! + (posix.dirname(path) === posix.dirname(each.path) ? 0 : 1));
    layers.set(each.path, Math.max(0, ...below));
  }
  const parts = new Map<string, Part>();
  const counts = new Map<string, number>();
  for (const each of order) {
    const folder = posix.dirname(each.path);
    const key = [folder, layers.get(each.path), setOf(each.path)].join('|');
    let part = parts.get(key);
    if (part === undefined) {
      const number = (counts.get(folder) ?? 0) + 1;
      counts.set(folder, number);
      parts.set(key, part = { path: posix.join(folder, `part-${number}.js`), modules: [] });
    }
    part.modules.push(each);
  }
  return [...parts.values()];
}

const idOf = (path: string): string => `$${path.replace(/\.(?:js|d\.ts)$/, '').replace(/\W/g, '_')}`;
const relative = (from: string, to: string): string => posix.relative(posix.dirname(from), to).replace(/^(?!\.)/, './');

function partText(part: Part, partOf: ReadonlyMap<string, Part>): string {
  const own = new Set(part.modules.map(({ path }) => path));
  const outside = new Map<string, Set<string>>();
  for (const each of part.modules) {
    for (const path of dependenciesOf(each)) {
      if (own.has(path)) continue;
      const from = partOf.get(path)!.path;
      outside.set(from, (outside.get(from) ?? new Set()).add(idOf(path)));
    }
  }
  const builtins = builtinsOf(part);
  const offered = new Set<string>(part.modules.map(({ path }) => path));
  const imports = [...builtins.lines, ...[...outside].map(([from, ids]) => `import { ${[...ids].sort().join(', ')} } from '${relative(part.path, from)}';`)];
  const bodies = part.modules.map((each) => moduleText(each, builtins));
  return `${imports.join('\n')}\n\n${bodies.join('\n\n')}\n\nexport { ${[...offered].map(idOf).join(', ')} };\n`;
}

/** What the quarantine of `svc check` replaces while it imports an application: whoever has it must see that. */
const REPLACED: ReadonlySet<string> = new Set(['net', 'tls', 'dgram', 'dns', 'dns/promises', 'http', 'https', 'http2', 'child_process', 'worker_threads', 'cluster'].map((name) => `node:${name}`));

/** What a part imports from Node. */
interface Builtins {
  readonly lines: readonly string[];
  /** The name in the part of what a module knows by another one, which would be two things there. */
  renamed(specifier: string, imported: string, local: string): string | undefined;
}

/**
 * What modules take from Node is imported by the part under the same name: such imports see what somebody puts in the place
 * of it (`syncBuiltinESMExports`). A name that would be two things in the part, or hide a global one, gets another there.
 */
function builtinsOf({ path, modules }: Part): Builtins {
  const meanings = new Map<string, Set<string>>();
  const all = modules.flatMap(({ imports }) => imports.filter(({ specifier }) => !specifier.startsWith('.')).flatMap(({ specifier, whole, names }) => (whole === undefined ? names : [['*', whole] as const]).map(([imported, local]) => ({ specifier, imported, local }))));
  for (const { specifier, imported, local } of all) meanings.set(local, (meanings.get(local) ?? new Set()).add(`${specifier} ${imported}`));
  const renamed = (specifier: string, imported: string, local: string): string | undefined => {
    const isFree = meanings.get(local)!.size === 1 && (!(local in globalThis) || SAME.has(local));
    if (isFree) return undefined;
    if (REPLACED.has(specifier)) fail(`${path}: "${local}" of ${specifier} is another thing elsewhere: give it another name where it is imported`);
    return `${nodeId(specifier)}_${imported === '*' ? 'all' : imported}`;
  };
  const lines = new Map<string, Set<string>>();
  for (const { specifier, imported, local } of all) {
    const name = renamed(specifier, imported, local) ?? local;
    lines.set(specifier, (lines.get(specifier) ?? new Set()).add(imported === '*' ? `* as ${name}` : imported === name ? name : `${imported} as ${name}`));
  }
  return {
    renamed,
    lines: [...lines].sort(([one], [other]) => one < other ? -1 : 1).flatMap(([specifier, items]) => {
      const [wholes, names] = [[...items].filter((item) => item.startsWith('*')), [...items].filter((item) => !item.startsWith('*')).sort()];
      return [...wholes.map((item) => `import ${item} from '${specifier}';`), ...names.length === 0 ? [] : [`import { ${names.join(', ')} } from '${specifier}';`]];
    }),
  };
}

/** Globals that a module imports by name, and that are the same thing. */
const SAME: ReadonlySet<string> = new Set(['Buffer', 'URL', 'performance', 'crypto']);

function moduleText({ path, imports, exports, body }: Module, builtins: Builtins): string {
  const lines = imports.flatMap((one) => {
    if (!one.specifier.startsWith('.')) {
      return (one.whole === undefined ? one.names : [['*', one.whole] as const]).flatMap(([imported, local]) => {
        const name = builtins.renamed(one.specifier, imported, local);
        return name === undefined ? [] : [`const ${local} = ${name};`];
      });
    }
    const from = idOf(posix.join(posix.dirname(path), one.specifier));
    if (one.whole !== undefined) return [`const ${one.whole} = ${from};`];
    const names = one.names.map(([imported, local]) => imported === local ? local : `${imported}: ${local}`);
    return names.length === 0 || one.isReexport ? [] : [`const { ${names.join(', ')} } = ${from};`];
  });
  const passedOn = new Map(imports.filter(({ isReexport }) => isReexport).flatMap((one) => one.names.map(([imported, exported]) => [exported, `${idOf(posix.join(posix.dirname(path), one.specifier))}.${imported}`] as const)));
  const offered = exports.map(([local, exported]) => passedOn.has(exported) ? `${exported}: ${passedOn.get(exported)!}` : local === exported ? exported : `${exported}: ${local}`);
  return `// ── ${path.replace(/\.js$/, '.ts')} ──\nconst ${idOf(path)} = (() => {\n${[...lines, body, `return { ${offered.join(', ')} };`].filter((line) => line !== '').join('\n')}\n})();`;
}

function rootText({ path, exports }: Module, part: Part): string {
  const from = relative(path, part.path);
  const names = exports.map(([, exported]) => exported).sort();
  if (names.length === 0) return `import '${from}';\n`;
  return `import { ${idOf(path)} } from '${from}';\n\nexport const {\n${names.map((name) => `  ${name},\n`).join('')}} = ${idOf(path)};\n`;
}

// ── declarations ──

/** One file of namespaces, one for each module that the entry points reach, and the entry points. */
function joinedTypes(): Output[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
  const entries = Object.values(exports).flatMap((entry) => typeof entry === 'string' ? [] : [entry.types.replace('./dist/', '')]);
  const modules = new Map<string, Declarations>();
  const visit = (path: string): void => {
    if (modules.has(path)) return;
    const each = readDeclarations(path);
    modules.set(path, each);
    each.needs.forEach(visit);
  };
  entries.forEach(visit);
  const nodes = new Set([...modules.values()].flatMap(({ imports }) => imports.filter(({ specifier }) => !specifier.startsWith('.')).map(({ specifier }) => specifier)));
  const inner = [...modules.values()].filter((each) => !entries.includes(each.path) || ownNames(each).length > 0).sort((a, b) => a.path < b.path ? -1 : 1);
  const text = [
    ...[...nodes].sort().map((specifier) => `import * as ${nodeId(specifier)} from '${specifier}';`),
    ...inner.map((each) => `// ── ${each.path.replace(/\.d\.ts$/, '.ts')} ──\nexport declare namespace ${idOf(each.path)} {\n${[...aliases(each), each.body].filter((line) => line !== '').join('\n')}\n}`),
    'export {};',
  ].join('\n\n');
  return [{ path: 'types.d.ts', text: `${text}\n` }, ...entries.map((path) => ({ path, text: entryText(modules.get(path)!, modules) }))];
}

interface Declarations {
  readonly path: string;
  readonly imports: readonly Import[];
  readonly body: string;
  readonly needs: readonly string[];
  /** `declare module` of it: the module that it adds to, and what. */
  readonly additions: readonly (readonly [path: string, text: string])[];
  /** What it has imported and exports under the same name. */
  readonly passedOn: ReadonlySet<string>;
}

const nodeId = (specifier: string): string => `$${specifier.replace(/\W/g, '_')}`;

function readDeclarations(path: string): Declarations {
  const text = readFileSync(join(MODULES, path), 'utf8');
  const resolveIn = (specifier: string): string => posix.join(posix.dirname(path), specifier).replace(/\.[jt]s$/, '.d.ts');
  const taken = statements(text, masked(text), /^(?:import\b(?!\s*[.(])|export\s+(?:type\s+)?\{[^}]*\}(?:\s+from\b|;))/gm);
  const imports: Import[] = [];
  const passedOn = new Set<string>();
  let body = '';
  let at = 0;
  for (const statement of taken) {
    body += text.slice(at, statement.start);
    at = statement.end;
    const local = /^export\s+\{([^}]*)\};$/.exec(statement.text);
    if (local === null) imports.push(importOf(statement.text, path));
    else for (const [name, exported] of namesOf(local[1]!)) name === exported ? passedOn.add(name) : fail(`${path}: ${statement.text}`);
  }
  body += text.slice(at);
  const additions: [string, string][] = [];
  body = body.replace(/^declare module '(\.[^']+)' \{\n([^]*?)^\}\n/gm, (_all, specifier: string, inside: string) => {
    additions.push([resolveIn(specifier), inside]);
    return '';
  });
  const inline: string[] = [];
  body = body.replace(/\bimport\(["'](\.[^"']+)["']\)/g, (_all, specifier: string) => {
    inline.push(resolveIn(specifier));
    return idOf(resolveIn(specifier));
  });
  const mask = masked(body);
  for (const { index } of [...mask.matchAll(/^(?:export )?declare /gm)].reverse()) {
    const start = mask.indexOf('declare ', index);
    body = body.slice(0, start) + body.slice(start + 'declare '.length);
  }
  if (/^(?:import|export (?:default|\*|=|\{))/m.test(masked(body))) fail(`${path}: a declaration that cannot be joined`);
  const needs = [...imports.filter(({ specifier }) => specifier.startsWith('.')).map(({ specifier }) => resolveIn(specifier)), ...inline, ...additions.map(([to]) => to)];
  return { path, imports, body: body.trim(), needs, additions, passedOn };
}

function aliases({ path, imports, passedOn }: Pick<Declarations, 'path' | 'imports' | 'passedOn'>): string[] {
  return imports.flatMap((one) => {
    const from = one.specifier.startsWith('.') ? idOf(posix.join(posix.dirname(path), one.specifier).replace(/[jt]s$/, 'd.ts')) : nodeId(one.specifier);
    if (one.whole !== undefined) return [`import ${one.whole} = ${from};`];
    return one.names.map(([imported, local]) => `${one.isReexport || passedOn.has(local) ? 'export ' : ''}import ${local} = ${from}.${imported};`);
  });
}

/** What a module declares and exports, once each. */
function ownNames({ body }: Declarations): string[] {
  return [...new Set([...masked(body).matchAll(/^export (?:abstract )?(?:class|interface|type|function|const) ([\w$]+)/gm)].map(([, name]) => name!))];
}

function entryText(entry: Declarations, modules: ReadonlyMap<string, Declarations>): string {
  const reachable = new Set<string>();
  const visit = (path: string): void => {
    if (reachable.has(path)) return;
    reachable.add(path);
    modules.get(path)!.needs.forEach(visit);
  };
  visit(entry.path);
  const added = [...reachable].sort().map((path) => modules.get(path)!).filter(({ additions }) => additions.length > 0);
  const own = ownNames(entry);
  const used = new Set<string>(entry.imports.filter(({ isReexport }) => isReexport).map(({ specifier }) => idOf(posix.join(posix.dirname(entry.path), specifier).replace(/[jt]s$/, 'd.ts'))));
  const types = relative(entry.path, 'types.js');
  const augmentations = added.map(({ path, imports, passedOn, additions }) => additions.map(([to, text]) => {
    const names = aliases({ path, imports, passedOn }).filter((line) => new RegExp(`\\b${/import (\S+) =/.exec(line)![1]!}\\b`).test(text));
    return `declare module '${types}' {\n  namespace ${idOf(to)} {\n${names.map((line) => `    ${line}\n`).join('')}${text}  }\n}`;
  }).join('\n\n'));
  const names = entry.imports.filter(({ isReexport }) => isReexport).flatMap((one) => {
    const from = idOf(posix.join(posix.dirname(entry.path), one.specifier).replace(/[jt]s$/, 'd.ts'));
    return one.names.map(([imported, exported]) => `export import ${exported} = ${from}.${imported};`);
  });
  if (own.length > 0) used.add(idOf(entry.path));
  names.push(...own.map((name) => `export import ${name} = ${idOf(entry.path)}.${name};`));
  return `${[`import { ${[...used].sort().join(', ')} } from '${types}';`, ...names, ...augmentations].join('\n')}\n`;
}

/** Every file below the compiled modules with this ending, sorted. */
function filesOf(ending: string): string[] {
  return readdirSync(MODULES, { recursive: true, encoding: 'utf8' }).map((path) => path.replaceAll('\\', '/')).filter((path) => path.endsWith(ending)).sort();
}

if (import.meta.main) build();
