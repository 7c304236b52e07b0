/**
 * src → dist: compiled by TypeScript, then joined, so that the package has few files to look at, to vendor and to load.
 *
 *   src/**.ts ─ tsc ─→ .build/**.js, .d.ts      a file of each source: for stack traces of this repository, tests and benches
 *   .build    ─ join → dist/index.js …          the entry points, and whatever else is loaded by its own name
 *                      dist/core.js             what every program needs that imports the package
 *                      dist/part-1.js …         what other entry points share: modules that the same of them need are in one file
 *                      dist/later-1.cjs …       what a program loads when it calls one of its functions first: see LATER
 *                      dist/*.bundled.js        the entry points for bundlers
 *                      dist/types.d.ts          the declarations that the entry points reach
 *
 * A module becomes a function that runs once: names never meet, and nothing is renamed. Comments stay behind, and texts are in
 * ASCII: V8 keeps the source of what it runs, in one byte a character instead of two. What is of db/ lies in db/, for stack
 * traces are told from those of applications by the folder. A line that this file does not understand ends it. In the end a small
 * program is started with what has been made, on 127.0.0.1: functions of core.js that it calls are compiled as the file is loaded.
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
  const core = join(fresh, CORE);
  try {
    writeFileSync(core, compiledAtOnce(readFileSync(core, 'utf8'), calledAtStart(fresh)));
  } catch (error) {
    rmSync(fresh, { recursive: true });
    throw error;
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
  /** Its text without imports, comments and the word `export`. */
  readonly body: string;
  /** That, with blanks in the place of texts. */
  readonly mask: string;
  /** Files that it names: loaded when they are needed, or processes of their own. */
  readonly later: readonly string[];
}

interface Token {
  readonly kind: 'comment' | 'space' | 'string' | 'regex' | 'word' | 'sign' | 'template' | 'tagged';
  readonly text: string;
}

/** Signs and words that a value comes after. */
const BEFORE_VALUES = /^(?:|[([{,;:=!&|?+\-*%~^<>]|return|typeof|case|in|of|yield|await|void|delete|=>)$/;

/** A text in its parts, in order. A template comes in pieces: backticks and what encloses an expression are signs. A tag sees how it is written. */
function* tokensOf(text: string): Generator<Token, void> {
  const outer: { depth: number; kind: 'template' | 'tagged' }[] = []; // where a template goes on, at which depth of braces
  let at = 0;
  let depth = 0;
  let last = ''; // the last word or sign
  const template = function* (kind: 'template' | 'tagged'): Generator<Token, void> { // from behind ` or }
    const start = at;
    while (at < text.length && text[at] !== '`' && !(text[at] === '$' && text[at + 1] === '{')) at += text[at] === '\\' ? 2 : 1;
    yield { kind, text: text.slice(start, at) };
    if (text[at] === '`') { yield { kind: 'sign', text: '`' }; at += 1; } else { yield { kind: 'sign', text: '${' }; at += 2; outer.push({ depth, kind }); depth = 0; }
  };
  while (at < text.length) {
    const rest = (pattern: RegExp): string | undefined => { pattern.lastIndex = at; return pattern.exec(text)?.[0]; };
    const comment = rest(/\/\/[^\n]*|\/\*[^]*?\*\//y);
    if (comment !== undefined) { yield { kind: 'comment', text: comment }; at += comment.length; continue; }
    const space = rest(/\s+/y);
    if (space !== undefined) { yield { kind: 'space', text: space }; at += space.length; continue; }
    const string = rest(/'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"/y);
    if (string !== undefined) { yield { kind: 'string', text: string }; at += string.length; last = "'"; continue; }
    const regex = text[at] === '/' && BEFORE_VALUES.test(last) ? rest(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y) : undefined;
    if (regex !== undefined) { yield { kind: 'regex', text: regex }; at += regex.length; last = "'"; continue; }
    const word = rest(/[\w$#]+/y);
    if (word !== undefined) { yield { kind: 'word', text: word }; at += word.length; last = word; continue; }
    const sign = text[at]!;
    at += 1;
    if (sign === '`') { yield { kind: 'sign', text: sign }; yield* template(/[\w$)\]]$/.test(last) && !BEFORE_VALUES.test(last) ? 'tagged' : 'template'); last = '`'; continue; }
    const from = sign === '}' && depth === 0 ? outer.pop() : undefined;
    if (from !== undefined) { yield { kind: 'sign', text: sign }; depth = from.depth; yield* template(from.kind); last = '`'; continue; }
    if (sign === '{') depth += 1;
    if (sign === '}') depth -= 1;
    yield { kind: 'sign', text: sign };
    last = sign;
  }
}

/** The same text with blanks in the place of comments and of what is in strings and templates: as long, line by line. */
export function masked(text: string): string {
  const blank = (part: string): string => part.replace(/[^\n]/g, ' ');
  return [...tokensOf(text)].map(({ kind, text: part }) => {
    if (kind === 'comment' || kind === 'template' || kind === 'tagged') return blank(part);
    return kind === 'string' || kind === 'regex' ? part[0]! + blank(part.slice(1, -1)) + part.at(-1)! : part;
  }).join('');
}

/** The same program without comments and empty lines, indented by one space where the compiler has four, its texts in ASCII. */
export function bare(text: string): string {
  const out: string[] = [];
  for (const { kind, text: part } of tokensOf(text)) {
    if (kind === 'comment' || kind === 'space') {
      const line = part.lastIndexOf('\n');
      let last = '';
      while (/^\s*$/.test(out.at(-1) ?? 'x')) last = out.pop()! + last;
      if (line !== -1) out.push(kind === 'space' ? `\n${part.slice(line + 1).replaceAll('    ', ' ')}` : '\n'); // a statement may end there
      else out.push(last === '' ? kind === 'space' ? part : ' ' : last);
    } else out.push(kind === 'string' || kind === 'regex' || kind === 'template' ? inAscii(part) : part);
  }
  return out.join('');
}

const inAscii = (text: string): string => text.replace(/[^\0-\x7f]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);

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
  const text_ = bare(body).trim();
  return { path, imports, exports, body: text_, mask: masked(text_), later };
}

function fail(problem: string): never {
  throw new Error(`Cannot join: ${problem}`);
}

// ── programs ──

function joinedModules(): Output[] {
  const modules = new Map(filesOf('.js').map((path) => [path, readModule(path)]));
  const { entries, processes } = rootsOf(modules);
  const features = Object.entries(LATER).map(([feature, pattern]): Root => ({ name: feature, modules: [...modules.keys()].filter((path) => pattern.test(path)) }));
  const edges = new Edges(modules, new Map(features.flatMap(({ name, modules: of }) => of.map((path) => [path, name] as const))));
  const roots = [...entries.map((path): Root => ({ name: path, modules: [path] })), ...features];
  const parts = partsOf(sorted(modules, roots.flatMap((root) => root.modules), edges), roots, features, edges);
  const alone = processes.map((path): Part => ({ path, kind: 'process', modules: sorted(modules, [path], EVERYTHING(modules)) }));
  const partOf = new Map(parts.flatMap((part) => part.modules.map(({ path }) => [path, part] as const)));
  return [
    ...[...parts, ...alone].map((part) => ({ path: part.path, text: partText(part, partOf, part.kind === 'process' ? EVERYTHING(modules) : edges) })),
    ...[...entries, ...MEASURED].map((path) => ({ path, text: rootText(modules.get(path)!, partOf.get(path)!) })),
    ...bundled(parts),
  ];
}

/**
 * What bundlers take in place of the entry points (the condition `module` of package.json, which Node has not): they follow imports,
 * and a file that is loaded by its name would not be in what they write. So all of them are imported, and handed in.
 */
function bundled(parts: readonly Part[]): Output[] {
  const later = parts.filter(({ kind }) => kind === 'later');
  const given = [...later.map(({ path }, index) => `import later${index} from './${path}';`), `import { $give } from './core.js';`, `$give({ ${later.map((part, index) => `'${laterName(part)}': later${index}`).join(', ')} });`];
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
  const entries = Object.values(exports).flatMap((target) => typeof target === 'string' ? [] : [posix.relative('./dist', target.default)]);
  return [
    { path: 'bundled.js', text: `${given.join('\n')}\n` },
    ...entries.map((path) => ({ path: path.replace(/\.js$/, '.bundled.js'), text: `import '${relative(path, 'bundled.js')}';\nexport * from './${posix.basename(path)}';\n` })),
  ];
}

/**
 * What a server that is started need not have: a line is a file, which is loaded when one of its functions is first called, or one
 * of its classes first made. For the others such a name stands for it until then, so a function can be called, and a class be made,
 * extended and asked for by `instanceof`; nor may anything in there be needed by what is imported at once. The end of the build
 * tells what does not fit. What writes the log is not among them: an error must not go unseen because a file cannot be read.
 */
const LATER: Readonly<Record<string, RegExp>> = {
  docs: /^docs-page/,
  openapi: /^(?:openapi|json-schema)/,
  mcp: /^mcp-(?:arguments|calls|conversation|fields|guard|http|lines|messages|output|prompts|resources|results|server|sessions|stdio|stream|tools)\.js$/,
  checks: /^(?:check\.js|check-(?:access|blocking|code|contract|deploy|document|handler|live|rules|secrets|source|tool)|node-range)/,
  rules: /^(?:check-(?:graph-rules|needed-secrets|routes)|http\/exemptions)\.js$/,
  migrations: /^db\/migrations/,
  schemas: /^schema-(?:builder|compile|construct|formats|nodes|output|pattern|plan|run|text|verdict)\.js$/,
  sockets: /^(?:ws-route|http\/(?:websocket|ws-(?:frames|mask|text|deflate|sender|shared|batch|handshake|origin)))\.js$/,
  forms: /^http\/(?:form|form-parts|form-text|multipart|part-head|delimiter-search|spool|save-file)\.js$/,
  sessions: /^http\/(?:session-(?:keepers|records|caching|cookie)|signed-values|idempotency-record)\.js$/,
  files: /^http\/(?:date-reading|static-(?:folder|cache|path)|ranges|preconditions|media-types|disposition)\.js$/,
  auth: /^(?:auth|auth-(?:keys|require|session|source)|hmac|jwt|jwt-json|password)\.js$/,
  cached: /^(?:cached|cache-key|flights|clone|cache|lru)\.js$/,
  middleware: /^http\/(?:cors|origins|security-headers|content-security-policy|trusted-host|timeout|etag|compression|concurrency-limit|rate-limit|rate-limiter|idempotency|csrf|request-id-middleware|sessions|session-values)\.js$/,
  faults: /^faults\.js$/,
  stores: /^stores\.js$/,
  events: /^http\/(?:event-stream|event-format|event-broadcast|ndjson|heartbeat)\.js$/,
  addresses: /^(?:ops-private|http\/(?:address|kernel-queues|proxy))\.js$/,
  dependencies: /^di-(?:plan|resolution|text)\.js$/,
  calls: /^(?:route-(?:call|spec|steps)|reply-plan)\.js$/,
  mounts: /^(?:mcp|http\/(?:ws-upgrade|accept|client-errors|traced|static))\.js$/,
  sending: /^http\/(?:files|file-body|open-file)\.js$/,
  requests: /^http\/(?:parameters|request-body|body|counted-pieces|uploads|cookies|query)\.js$/,
  memory: /^http\/memory\.js$/,
  pieces: /^http\/(?:pull|send)-pieces\.js$/,
  upgrades: /^http\/ws-server\.js$/,
  tools: /^mcp-toolbox\.js$/,
  plugins: /^plugin\.js$/,
  unmatched: /^(?:closest|compile-(?:findings|unmatched)|http\/problem)\.js$/,
  locations: /^http\/local-path\.js$/,
  watched: /^(?:traced|http\/request-event)\.js$/,
  numbers: /^metrics-text\.js$/,
  deadlines: /^http\/body-deadlines\.js$/,
  early: /^http\/lingering\.js$/,
  replies: /^http\/(?:reply-unusual|slow-json)\.js$/,
  urls: /^http\/path-filling\.js$/,
  terminal: /^(?:log-human|terminal)\.js$/,
  bodies: /^http\/(?:compressed-pieces|body-codings|trace-context)\.js$/,
};

/** A file, or a line of LATER. */
interface Root {
  readonly name: string;
  readonly modules: readonly string[];
}

/** Loaded by name by test/bench/http.ts, which measures what is published. */
const MEASURED: readonly string[] = ['http/server.js'];

/** Entry points of the package and of the command; what modules load by name; and programs of their own. */
function rootsOf(modules: ReadonlyMap<string, Module>): { entries: readonly string[]; processes: readonly string[] } {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
  const entries = Object.values(exports).flatMap((entry) => typeof entry === 'string' ? [] : [entry.default.replace('./dist/', '')]);
  const named = [...modules.values()].flatMap((each) => each.later).filter((path) => modules.has(path));
  return { entries: [...new Set([...entries, 'cli.js', ...named])].filter((path) => !PROCESSES.includes(path)).sort(), processes: PROCESSES };
}

/** Programs that run where nothing else of the package does: each is a whole file. */
const PROCESSES: readonly string[] = ['db/sqlite-reader-process.js'];

const targetOf = ({ path }: Module, { specifier }: Import): string => posix.join(posix.dirname(path), specifier);

/** Which modules a module has at once, and which ones later. */
class Edges {
  readonly #modules: ReadonlyMap<string, Module>;
  readonly #features: ReadonlyMap<string, string>;

  constructor(modules: ReadonlyMap<string, Module>, features: ReadonlyMap<string, string>) {
    this.#modules = modules;
    this.#features = features;
  }

  /** Modules that it needs when it is made. */
  of(each: Module): Module[] {
    return each.imports.filter((one) => one.specifier.startsWith('.') && !this.isLater(each, one)).map((one) => this.#modules.get(targetOf(each, one)) ?? fail(`${each.path}: there is no ${one.specifier}`));
  }

  isLater(each: Module, one: Import): boolean {
    const feature = this.#features.get(targetOf(each, one));
    return feature !== undefined && feature !== this.#features.get(each.path) && one.names.length > 0 && one.names.every(([imported, local]) => this.#obstacle(each, one, imported, local) === undefined);
  }

  /** `function` or `class` when that is what the module exports under a name. */
  kindOf(path: string, exported: string): string | undefined {
    const { exports, imports, mask } = this.#modules.get(path)!;
    const local = exports.find(([, name]) => name === exported)?.[0];
    const from = imports.find(({ isReexport, names }) => isReexport && names.some(([, name]) => name === exported));
    if (from !== undefined) return this.kindOf(targetOf(this.#modules.get(path)!, from), from.names.find(([, name]) => name === exported)![0]);
    return new RegExp(String.raw`^(?:async )?(function|class)\*? ${local?.replaceAll('$', '\\$')}\b`, 'm').exec(mask)?.[1];
  }

  /** Why a name cannot be loaded later; undefined when it can. */
  #obstacle(each: Module, one: Import, imported: string, local: string): string | undefined {
    const kind = this.kindOf(targetOf(each, one), imported);
    if (kind === undefined) return 'is neither function nor class';
    if (kind === 'function' || !one.isReexport && this.isOnlyMade(each, local)) return undefined;
    if (one.isReexport && this.#isError(targetOf(each, one), imported)) return 'is an error: exception handlers go by the prototype of its class, which must be the very one';
    return this.#hasStatics(targetOf(each, one), imported) ? 'is a class with static members, which may be asked for before one is made' : undefined;
  }

  #isError(path: string, exported: string): boolean {
    const { exports, imports, mask } = this.#modules.get(path)!;
    const local = exports.find(([, name]) => name === exported)![0];
    const base = new RegExp(String.raw`^class ${local.replaceAll('$', '\\$')} extends ([\w$]+)`, 'm').exec(mask)?.[1];
    return base === 'Error' || imports.some(({ specifier, names }) => /(?:^|\/)errors\.js$/.test(specifier) && names.some(([, name]) => name === base));
  }

  /** Whether nothing is done with a class but to make it: then no stand-in for it is needed. */
  isOnlyMade(each: Module, local: string): boolean {
    const uses = [...each.mask.matchAll(new RegExp(String.raw`(?<![\w$.#])${local.replaceAll('$', '\\$')}(?![\w$])`, 'g'))];
    return uses.every(({ index }) => /\bnew $/.test(each.mask.slice(0, index)));
  }

  #hasStatics(path: string, exported: string): boolean {
    const { exports, mask } = this.#modules.get(path)!;
    const local = exports.find(([, name]) => name === exported)![0];
    const text = new RegExp(String.raw`^class ${local.replaceAll('$', '\\$')}\b[^]*?^\}`, 'm').exec(mask)?.[0] ?? fail(`${path}: ${exported} is a class of another module`);
    return /^ +static (?![{#])/m.test(text);
  }

  /** Why a module of a feature is needed at once by another one, a line for each name. */
  obstacles(each: Module): string[] {
    return each.imports.filter((one) => one.specifier.startsWith('.') && this.#features.has(targetOf(each, one)) && this.#features.get(targetOf(each, one)) !== this.#features.get(each.path))
      .flatMap((one) => one.names.flatMap(([imported, local]) => {
        const obstacle = this.#obstacle(each, one, imported, local);
        return obstacle === undefined ? [] : [`${each.path}: ${imported} of ${targetOf(each, one)} ${obstacle}`];
      }));
  }
}

/** Of a program of its own: it has all at once. */
const EVERYTHING = (modules: ReadonlyMap<string, Module>): Edges => new Edges(modules, new Map());

/** Each module behind those that it needs. */
function sorted(modules: ReadonlyMap<string, Module>, roots: readonly string[], edges: Edges): Module[] {
  const order: Module[] = [];
  const state = new Map<string, 'open' | 'done'>();
  const visit = (each: Module): void => {
    if (state.get(each.path) === 'done') return;
    if (state.get(each.path) === 'open') fail(`${each.path} imports itself in a circle`);
    state.set(each.path, 'open');
    edges.of(each).forEach(visit);
    state.set(each.path, 'done');
    order.push(each);
  };
  for (const path of roots) visit(modules.get(path) ?? fail(`there is no ${path}`));
  return order;
}

/** Modules in one file. */
interface Part {
  readonly path: string;
  readonly kind: 'core' | 'part' | 'later' | 'process';
  readonly modules: Module[];
}

const MAIN = 'index.js';
/** One file: each one more costs 0.5 ms to find, read and link. */
const CORE = 'core.js';

/** By the roots that need them, and by how often db/ is entered or left on the way down: so parts never import each other in a circle. */
function partsOf(order: readonly Module[], roots: readonly Root[], features: readonly Root[], edges: Edges): Part[] {
  const needed = new Map<Module, Set<string>>(order.map((each) => [each, new Set()]));
  const byPath = new Map(order.map((each) => [each.path, each]));
  const mark = (each: Module, root: string): void => {
    const by = needed.get(each)!;
    if (by.has(root)) return;
    by.add(root);
    for (const next of edges.of(each)) mark(next, root);
  };
  for (const { name, modules } of roots) for (const path of modules) mark(byPath.get(path)!, name);
  const lazy = new Set(features.flatMap(({ modules }) => modules));
  const tooEarly = order.filter((each) => lazy.has(each.path) && needed.get(each)!.has(MAIN));
  if (tooEarly.length > 0) fail(`${tooEarly.map(({ path }) => path).join(', ')} should be loaded later, but\n${order.filter((each) => needed.get(each)!.has(MAIN)).flatMap((each) => edges.obstacles(each)).join('\n')}`);
  const names = new Set(features.map(({ name }) => name));
  const setOf = (each: Module): string => needed.get(each)!.has(MAIN) ? 'core' : [...needed.get(each)!].sort().join(' ');
  const folderOf = ({ path }: Module): string => path.startsWith('db/') ? 'db' : '.';
  const layers = new Map<Module, number>();
  const parts = new Map<string, Part>();
  const counts = new Map<string, number>();
  for (const each of order) {
    const [set, folder] = [setOf(each), folderOf(each)];
    const isCore = set === 'core';
    layers.set(each, Math.max(0, ...edges.of(each).filter((one) => setOf(one) === set).map((one) => layers.get(one)! + (folderOf(one) === folder ? 0 : 1))));
    const key = isCore ? set : [folder, layers.get(each), set].join('|');
    let part = parts.get(key);
    if (part === undefined) {
      const kind = isCore ? 'core' : [...needed.get(each)!].some((root) => names.has(root)) ? 'later' : 'part';
      const row = isCore ? kind : folder + kind;
      const number = (counts.get(row) ?? 0) + 1;
      counts.set(row, number);
      parts.set(key, part = { path: isCore ? CORE : posix.join(folder, `${kind}-${number}.${kind === 'later' ? 'cjs' : 'js'}`), kind, modules: [] });
    }
    part.modules.push(each);
  }
  return [...parts.values()];
}

const idOf = (path: string): string => `$${path.replace(/\.(?:js|d\.ts)$/, '').replace(/\W/g, '_')}`;
const relative = (from: string, to: string): string => posix.relative(posix.dirname(from), to).replace(/^(?!\.)/, './');
/** What `$later()` knows a file by. */
const laterName = ({ path }: Part): string => path.replace(/\.cjs$/, '');

/**
 *   core.js     puts what it has into `$core`, and offers that, `$later`, which loads the file of a name, once, `$give`, which hands
 *               it the files instead, and `$class`, which makes what stands for a class of such a file. Its modules are no exports of
 *               their own: whenever V8 compiles a function, it looks for names among all exports of the file, one after the other
 *   later-*.cjs is a function of `$core`, all that is in core.js, of `$later` and `$class`, and of where it lies: so there is one of
 *               each module, however it is loaded
 */
function partText(part: Part, partOf: ReadonlyMap<string, Part>, edges: Edges): string {
  const own = new Set(part.modules.map(({ path }) => path));
  const outside = new Map<Part, Set<string>>();
  let usesLater = false;
  for (const each of part.modules) {
    usesLater ||= each.imports.some((one) => edges.isLater(each, one));
    for (const { path } of edges.of(each)) {
      if (own.has(path)) continue;
      const from = partOf.get(path)!;
      outside.set(from, (outside.get(from) ?? new Set()).add(idOf(path)));
    }
  }
  const builtins = builtinsOf(part);
  const bodies = part.modules.map((each) => moduleText(each, part, builtins, edges, partOf));
  const ids = part.modules.map(({ path }) => idOf(path));
  const listed = (names: Iterable<string>): string => `{ ${[...names].sort().join(', ')} }`;
  const needed = [...outside].filter(([{ kind }]) => kind === 'later');
  const isImported = part.kind === 'part'; // by a part, as it is loaded: a bundler that splits runs parts before bundled.js
  const later = needed.map(([from, names], index) => `const ${listed(names)} = $later('${laterName(from)}'${isImported ? `, $file${index}` : ''});`);
  if (part.kind === 'later') {
    const core = [...outside].filter(([{ kind }]) => kind === 'core').map(([, names]) => `const ${listed(names)} = $core;`);
    return `'use strict';\n${[...builtins.lines, `module.exports = (($core, $later, $class, $url) => {`, ...core, ...later, ...bodies, `return { ${ids.join(', ')} };`, '});'].join('\n')}\n`;
  }
  const isCore = part.kind === 'core';
  const lines = [...outside].flatMap(([from, names]) => {
    if (from.kind === 'later') return [];
    const path = relative(part.path, from.path);
    if (from.kind !== 'core') return [`import ${listed(names)} from '${path}';`];
    return [`import { $class, $core, $later } from '${path}';`, `const ${listed(names)} = $core;`];
  });
  if (isImported && !lines.some((line) => line.includes('$core')) && (usesLater || later.length > 0)) lines.push(`import { $class, $later } from '${relative(part.path, CORE)}';`);
  if (isImported) lines.push(...needed.map(([from], index) => `import $file${index} from '${relative(part.path, from.path)}';`));
  const loader = isCore ? [LOADER] : [];
  const end = part.kind === 'process' ? [] : [isCore ? `Object.assign($core, ${listed(ids)});\nexport { $class, $core, $give, $later };` : `export ${listed(ids)};`];
  return `${[...lines, ...builtins.lines, ...loader, ...later, ...bodies, ...end].join('\n')}\n`;
}

/** Where a file is. Bundlers that make CommonJS of it leave `import.meta` empty, and what they have made has `__filename`. */
const OWN_URL = "(import.meta.url ?? process.getBuiltinModule('node:url').pathToFileURL(__filename).href)";

/**
 * What is in core.js to load others. `$class` makes a class that is another one from when one is made: the prototype that it has had
 * from the start, and others may have extended, then stands before that of the other one. Whoever has both, inside of the file and
 * outside, finds that what is of one is of the other, too.
 *
 * A file may be asked for first while a server has no descriptor left, by the first request that is none, for example: whoever
 * opens as many connections as there may be files would end the process. So one descriptor is kept for that, as libuv keeps one to
 * refuse connections. Where /dev/null cannot be opened (Windows, the permission model) there is none.
 *
 * A bundler that does not know of the condition `module` leaves out what nobody imports, and its program finds it missing.
 */
const LOADER: string = `const $core = {};
const $loaded = new Map();
let $given = {};
const $give = (files) => { $given = files; };
const { closeSync, openSync } = process.getBuiltinModule('node:fs');
const $spared = () => { try { return openSync('/dev/null'); } catch { return undefined; } };
let $spare = $spared();
const $read = (read) => {
try {
return read();
} catch (error) {
if ($spare === undefined || error?.code !== 'EMFILE' && error?.code !== 'ENFILE') throw error;
closeSync($spare);
$spare = undefined;
return read();
} finally {
$spare ??= $spared();
}
};
const $required = (url, file) => {
try {
return $read(() => process.getBuiltinModule('node:module').createRequire(url)(file));
} catch (error) {
if (error?.code !== 'MODULE_NOT_FOUND') throw error;
throw new Error(\`Cannot load "\${file}" of the package "svc": it does not lie beside \${url}. Let the bundler take entry points by the condition "module" beside its others, or leave the package out of the bundle; what copies the package copies its whole folder\`, { cause: error });
}
};
const $later = (name, known = $given[name]) => {
let all = $loaded.get(name);
if (all === undefined) {
const file = \`./\${name}.cjs\`;
const url = ${OWN_URL};
$loaded.set(name, all = (known ?? $required(url, file))($core, $later, $class, new URL(file, url).href));
}
return all;
};
const $classes = new Map();
const $class = (name, module, exported) => {
const key = \`\${module} \${exported}\`;
let it = $classes.get(key);
if (it === undefined) {
let real;
const load = () => {
real = $later(name)[module][exported];
Object.setPrototypeOf(it, real);
Object.setPrototypeOf(it.prototype, real.prototype);
return real;
};
it = { [exported]: class {
constructor(...given) { return Reflect.construct(real ?? load(), given, new.target); }
static [Symbol.hasInstance](value) { return Function.prototype[Symbol.hasInstance].call(this, value) || this === it && (real !== undefined || $loaded.has(name)) && value instanceof (real ?? load()); }
} }[exported];
$classes.set(key, it);
}
return it;
};`;

/** What the quarantine of `svc check` replaces while it imports an application: whoever has it must see that. */
const REPLACED: ReadonlySet<string> = new Set(['net', 'tls', 'dgram', 'dns', 'dns/promises', 'https', 'http2', 'child_process', 'worker_threads', 'cluster'].map((name) => `node:${name}`));

/** What of those modules it leaves alone. */
const LASTING: ReadonlySet<string> = new Set(['BlockList', 'isIP', 'isMainThread', 'STATUS_CODES']);

/** What a part imports from Node. */
interface Builtins {
  readonly lines: readonly string[];
  /** The name in the part of what a module knows by another one, which would be two things there. */
  renamed(specifier: string, imported: string, local: string): string | undefined;
}

/**
 * What modules take from Node is taken by the part under the same name. What may be replaced is imported, for imports see that
 * (`syncBuiltinESMExports`). All else is asked for: an import reads every property, and of node:http one loads all of `fetch`,
 * 25 ms and 13 MB. A name that would be two things in the part, or hide a global one, gets another there.
 */
function builtinsOf({ path, kind, modules }: Part): Builtins {
  const meanings = new Map<string, Set<string>>();
  const all = modules.flatMap(({ imports }) => imports.filter(({ specifier }) => !specifier.startsWith('.')).flatMap(({ specifier, whole, names }) => (whole === undefined ? names : [['*', whole] as const]).map(([imported, local]) => ({ specifier, imported, local }))));
  for (const { specifier, imported, local } of all) meanings.set(local, (meanings.get(local) ?? new Set()).add(`${specifier} ${imported}`));
  const renamed = (specifier: string, imported: string, local: string): string | undefined => {
    const isFree = meanings.get(local)!.size === 1 && (!(local in globalThis) || SAME.has(local));
    if (isFree) return undefined;
    if (REPLACED.has(specifier)) fail(`${path}: "${local}" of ${specifier} is another thing elsewhere: give it another name where it is imported`);
    return `${nodeId(specifier)}_${imported === '*' ? 'all' : imported}`;
  };
  const specifiers = [...new Set(all.map(({ specifier }) => specifier))].sort();
  return {
    renamed,
    lines: specifiers.flatMap((specifier) => {
      const isLive = REPLACED.has(specifier) && kind !== 'later' && all.some((one) => one.specifier === specifier && !LASTING.has(one.imported));
      const taken = new Map(all.filter((one) => one.specifier === specifier).map(({ imported, local }) => [renamed(specifier, imported, local) ?? local, imported] as const));
      const items = [...taken].filter(([, imported]) => imported !== '*' && (isLive || imported !== 'default')).map(([name, imported]) => imported === name ? name : `${imported}${isLive ? ' as' : ':'} ${name}`).sort();
      const wholes = [...taken].filter(([, imported]) => imported === '*' || !isLive && imported === 'default').map(([name]) => name);
      const from = isLive ? `from '${specifier}'` : `= process.getBuiltinModule('${specifier}')`;
      if (kind === 'later' && REPLACED.has(specifier) && items.some((item) => !/^(?:isIP|BlockList|Socket: NetSocket|isMainThread|STATUS_CODES)$/.test(item))) fail(`${path}: ${items.join(', ')} of ${specifier} may be replaced: take all of it, by its own name`);
      const verb = isLive ? 'import' : 'const';
      return [...wholes.map((name) => `${verb} ${isLive ? '* as ' : ''}${name} ${from};`), ...items.length === 0 ? [] : [`${verb} { ${items.join(', ')} } ${from};`]];
    }),
  };
}

/** Globals that a module imports by name, and that are the same thing. */
const SAME: ReadonlySet<string> = new Set(['Buffer', 'URL', 'performance', 'crypto']);

function moduleText(each: Module, part: Part, builtins: Builtins, edges: Edges, partOf: ReadonlyMap<string, Part>): string {
  const { path, imports, exports } = each;
  const passedOn = new Map<string, string>();
  const lines = imports.flatMap((one) => {
    if (!one.specifier.startsWith('.')) {
      return (one.whole === undefined ? one.names : [['*', one.whole] as const]).flatMap(([imported, local]) => {
        const name = builtins.renamed(one.specifier, imported, local);
        return name === undefined ? [] : [`const ${local} = ${name};`];
      });
    }
    const target = targetOf(each, one);
    const isLater = edges.isLater(each, one);
    const from = isLater ? `$later('${laterName(partOf.get(target)!)}').${idOf(target)}` : idOf(target);
    const standIn = (imported: string): string => `$class('${laterName(partOf.get(target)!)}', '${idOf(target)}', '${imported}')`;
    if (one.whole !== undefined) return [`const ${one.whole} = ${from};`];
    if (one.isReexport) {
      for (const [imported, exported] of one.names) passedOn.set(exported, !isLater ? `${from}.${imported}` : edges.kindOf(target, imported) === 'class' ? standIn(imported) : `(...given) => ${from}.${imported}(...given)`);
      return [];
    }
    if (!isLater) return one.names.length === 0 ? [] : [`const { ${one.names.map(([imported, local]) => imported === local ? local : `${imported}: ${local}`).join(', ')} } = ${from};`];
    return one.names.map(([imported, local]) => {
      const loaded = `(${local} = ${from}.${imported})(...given)`; // from then on the name is the thing itself
      if (edges.kindOf(target, imported) !== 'class') return `let ${local} = (...given) => ${loaded};`;
      return edges.isOnlyMade(each, local) ? `let ${local} = function (...given) { return new ${loaded}; };` : `const ${local} = ${standIn(imported)};`;
    });
  });
  const offered = exports.map(([local, exported]) => passedOn.has(exported) ? `${exported}: ${passedOn.get(exported)!}` : local === exported ? exported : `${exported}: ${local}`);
  return `// ${path.replace(/\.js$/, '.ts')}\nconst ${idOf(path)} = (() => {\n${[...lines, placed(each, part), `return { ${offered.join(', ')} };`].filter((line) => line !== '').join('\n')}\n})();`;
}

/** Other words in the place of some, but for those that are in texts: these are for people. */
function replaced(body: string, mask: string, words: RegExp, by: string): string {
  return [...mask.matchAll(words)].reduceRight((text, { 0: { length }, index }) => text.slice(0, index) + by + text.slice(index + length), body);
}

/** What a module says of its own place, as seen from where it now is. */
function placed({ path, body, mask }: Module, part: Part): string {
  if (posix.dirname(path) === posix.dirname(part.path)) return replaced(body, mask, /\bimport\.meta\.url\b/g, part.kind === 'later' ? '$url' : OWN_URL);
  if (/\bimport\.meta\b/.test(mask)) fail(`${path} asks where it is, and will be in ${part.path}`);
  return body.replace(/\bimport\('(\.[^']+)'\)/g, (_all, specifier: string) => `import('${relative(part.path, posix.join(posix.dirname(path), specifier))}')`);
}

function rootText({ path, exports }: Module, part: Part): string {
  const from = relative(path, part.path);
  const names = exports.map(([, exported]) => exported).sort();
  if (names.length === 0) return `import '${from}';\n`;
  const [it, holder] = part.kind === 'core' ? [`$core.${idOf(path)}`, '$core'] : [idOf(path), idOf(path)];
  return `import { ${holder} } from '${from}';\n\nexport const {\n${names.map((name) => `  ${name},\n`).join('')}} = ${it};\n`;
}

// ── start ──

/** What a program does until its first answer, as a module beside the entry points. */
const START = `import { Svc } from './index.js';
const app = new Svc();
app.get('/', () => ({ ok: true }));
app.get('/things/{id}', ({ params }) => params);
const { url } = await app.run({ port: 0 });
if (!(await fetch(url)).ok) throw new Error('No answer');
process.exit();
`;

/** It takes a tenth of a second. */
const START_LIMIT_MS = 60_000;

interface Coverage {
  readonly result: readonly { readonly url: string; readonly functions: readonly { readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[] }[] }[];
}

/** Where the functions of core.js are that such a program calls. */
function calledAtStart(folder: string): { readonly start: number; readonly end: number }[] {
  const [program, reports] = [join(folder, 'start.js'), join(MODULES, 'start')];
  writeFileSync(program, START);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:NODE|SVC)_/i.test(name))); // what is built depends on no setting of the builder
  const { status, signal, error, stderr } = spawnSync(process.execPath, [program], { env: { ...env, NODE_V8_COVERAGE: reports }, encoding: 'utf8', timeout: START_LIMIT_MS });
  rmSync(program);
  if (status !== 0) throw new Error(`The package does not start and answer on 127.0.0.1: ${error?.message ?? `status ${status ?? signal}`}\n${stderr}`);
  const all = readdirSync(reports).flatMap((name) => (JSON.parse(readFileSync(join(reports, name), 'utf8')) as Coverage).result);
  const core = all.find(({ url }) => url.endsWith(`/${CORE}`)) ?? fail(`nothing of ${CORE} has been called`);
  return core.functions.flatMap(({ ranges: [whole] }) => whole!.count === 0 ? [] : [{ start: whole!.startOffset, end: whole!.endOffset }]);
}

/**
 * V8 reads a function only for its end, and once more when it is first called; one in brackets it compiles at once. So those of
 * modules that every program calls are in brackets. They stand first in their module, where others may call them from the start, as
 * they may call functions that are declared.
 */
export function compiledAtOnce(text: string, called: readonly { readonly start: number; readonly end: number }[]): string {
  const modules = [...text.matchAll(/^const \$\w+ = \(\(\) => \{\n/gm)].map(({ 0: { length }, index }) => index + length);
  const moved = called.flatMap(({ start, end }) => {
    const name = /^(?:async )?function\*? ([\w$]+)\(/.exec(text.slice(start, end))?.[1];
    const module = modules.findLast((at) => at <= start);
    if (name === undefined || module === undefined || text[start - 1] !== '\n') return []; // a method, or a function in another one
    if (text[end] !== '\n') fail(`something stands behind the function ${name}`);
    return [{ start, end: end + 1, module, text: `const ${name} = (${text.slice(start, end)});\n` }];
  });
  const edits = [...moved.map(({ start, end }) => ({ start, end, by: '' })), ...modules.map((start) => ({ start, end: start, by: moved.filter(({ module }) => module === start).map((one) => one.text).join('') }))];
  return edits.sort((one, other) => other.start - one.start || other.end - one.end).reduce((result, { start, end, by }) => result.slice(0, start) + by + result.slice(end), text);
}

// ── declarations ──

/** One file of what the entry points reach, and the entry points, which say what of it is public. */
function joinedTypes(): Output[] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
  const entries = Object.values(exports).flatMap((entry) => typeof entry === 'string' ? [] : [entry.types.replace('./dist/', '')]);
  const all = new Map<string, Declarations>();
  const visit = (path: string): void => {
    if (all.has(path)) return;
    const each = readDeclarations(path);
    all.set(path, each);
    each.needs.forEach(visit);
  };
  entries.forEach(visit);
  const modules = reached(all, entries);
  const names = typeNames(modules, entries);
  const text = [
    '/// <reference types="node" />', // TypeScript 6 and later take no types of Node but where somebody asks for them
    [...names.ofNode].sort().map(([specifier, taken]) => `import { ${listed(taken)} } from '${specifier}';`).join('\n'),
    ...[...modules.values()].filter(({ body }) => body !== '').sort((one, other) => one.path < other.path ? -1 : 1).map(({ path, body }) =>
      `// ── ${path.replace(/\.d\.ts$/, '.ts')} ──\n${names.within(path, body.replace(/^(?:export )?(?=(?:abstract )?(?:class|interface|type|function|const) )/gm, 'export '))}`),
  ].join('\n\n');
  return [{ path: 'types.d.ts', text: `${text}\n` }, ...entries.map((path) => ({ path, text: entryText(modules.get(path)!, modules, names) }))];
}

/** `a, b as c`. */
const listed = (names: Iterable<readonly [string, string]>): string => [...names].map(([one, other]) => one === other ? one : `${one} as ${other}`).sort().join(', ');

/** What declarations are called where all of them are in one file, and their text with these names. */
interface TypeNames {
  /** The name of what a module declares, imports or passes on. */
  of(path: string, name: string): string;
  /** A text of a module, which may add to another one. */
  within(path: string, text: string, to?: string): string;
  /** What is taken of each module of Node, and under which name. */
  readonly ofNode: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/**
 * Names as they are in their modules; where two have one, the public one keeps it, and the other is told from it by its module.
 *
 * They stand beside each other in one module, not in namespaces: for only then does TypeScript write the public name of a type,
 * `import('svc').StateKey`, into the declarations of programs that export a value of it without naming it.
 */
function typeNames(modules: ReadonlyMap<string, Declarations>, entries: readonly string[]): TypeNames {
  const declared = new Map([...modules].map(([path, { body }]) => [path, new Set(statementsOf(path, body).map(({ name }) => name))]));
  /** Where something is declared, or the module of Node that it is of. */
  const placeOf = (path: string, name: string): readonly [path: string, name: string] | undefined => {
    if (declared.get(path)!.has(name)) return [path, name];
    for (const { specifier, names } of modules.get(path)!.imports) {
      const found = names.find(([, local]) => local === name);
      if (found !== undefined) return specifier.startsWith('.') ? placeOf(typesAt(path, specifier), found[0]) : [specifier, found[0]];
    }
    return undefined;
  };
  const called = new Map<string, string>();
  const taken = new Set<string>();
  const call = (path: string, name: string): string => {
    const key = `${path} ${name}`;
    const known = called.get(key);
    if (known !== undefined) return known;
    if (taken.has(name) && !/^[A-Z]/.test(name)) fail(`${path}: another module declares ${name}, too`); // which cannot be told from members of that name
    const free = taken.has(name) ? `${name}${idOf(path)}` : name;
    called.set(key, free);
    taken.add(free);
    return free;
  };
  for (const path of entries) for (const name of publicNames(modules.get(path)!)) call(...placeOf(path, name)!);
  for (const path of [...declared.keys()].sort()) for (const name of declared.get(path)!) call(path, name);
  const ofNode = new Map<string, Map<string, string>>();
  for (const { specifier, names } of [...modules.values()].flatMap(({ imports }) => imports)) {
    if (specifier.startsWith('.')) continue;
    const of = ofNode.get(specifier) ?? new Map<string, string>();
    for (const [imported] of names) of.set(imported, call(specifier, imported));
    ofNode.set(specifier, of);
  }
  const of = (path: string, name: string): string => call(...placeOf(path, name) ?? fail(`${path}: what is ${name}?`));
  const within = (path: string, text: string, to = path): string => {
    let result = text;
    for (const word of new Set(masked(text).match(/(?<=typeof )[\w$]+|(?<![.\w$])[A-Z][\w$]*(?![\w$]|\??:|\()/g))) { // no members
      const place = placeOf(path, word) ?? placeOf(to, word);
      if (place === undefined && taken.has(word)) fail(`${path}: ${word} is not what is called so in another module`);
      if (place !== undefined && call(...place) !== word) result = replaced(result, masked(result), new RegExp(`(?<![.\\w$])${word}(?![\\w$]|\\??:)`, 'g'), call(...place));
    }
    return result;
  };
  return { of, within, ofNode };
}

/** The declarations that a module imports from. */
const typesAt = (path: string, specifier: string): string => posix.join(posix.dirname(path), specifier).replace(/\.[jt]s$/, '.d.ts');

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
    if (local === null) imports.push(namedImportOf(statement.text, path));
    else for (const [name, exported] of namesOf(local[1]!)) name === exported ? passedOn.add(name) : fail(`${path}: ${statement.text}`);
  }
  body += text.slice(at);
  const additions: [string, string][] = [];
  body = body.replace(/^declare module '(\.[^']+)' \{\n([^]*?)^\}\n/gm, (_all, specifier: string, inside: string) => {
    additions.push([resolveIn(specifier), inside]);
    return '';
  });
  const mask = masked(body);
  for (const { index } of [...mask.matchAll(/^(?:export )?declare /gm)].reverse()) {
    const start = mask.indexOf('declare ', index);
    body = body.slice(0, start) + body.slice(start + 'declare '.length);
  }
  if (/^(?:import|export (?:default|\*|=|\{))|\bimport\(/m.test(masked(body))) fail(`${path}: a declaration that cannot be joined`);
  const needs = [...imports.filter(({ specifier }) => specifier.startsWith('.')).map(({ specifier }) => resolveIn(specifier)), ...additions.map(([to]) => to)];
  return { path, imports, body: body.trim(), needs, additions, passedOn };
}

/** Declarations take nothing whole from another module: in one file there would be no name for that. */
function namedImportOf(statement: string, path: string): Import {
  const one = importOf(statement, path);
  return one.whole === undefined ? one : fail(`${path}: ${statement}`);
}

/** A statement with the comment before it, and its name in the module. */
interface Declaration {
  readonly name: string;
  readonly text: string;
  readonly words: ReadonlySet<string>;
}

function statementsOf(path: string, body: string): Declaration[] {
  const mask = masked(body);
  const found = [...mask.matchAll(/^(?:export )?(?:abstract )?(?:class|interface|type|function|const) ([\w$]+)/gm)];
  if (found.length !== [...mask.matchAll(/^[a-z]/gm)].length) fail(`${path}: a declaration of another kind`);
  const starts = found.map(({ index }) => mask.slice(0, index).trimEnd().length); // behind the statement before
  return found.map(([, name], index) => {
    const text = body.slice(starts[index], starts[index + 1]);
    return { name: name!, text, words: new Set(mask.slice(starts[index], starts[index + 1]).match(/[\w$]+/g)) };
  });
}

/** The same modules with nothing but what the entry points lead to, by names: what nobody can name is no part of the package. */
function reached(modules: ReadonlyMap<string, Declarations>, entries: readonly string[]): Map<string, Declarations> {
  const statements = new Map([...modules].map(([path, { body }]) => [path, statementsOf(path, body)]));
  const names = new Map([...modules.keys()].map((path) => [path, new Set<string>()]));
  const visit = (path: string, name: string): void => {
    const known = names.get(path)!;
    if (known.has(name)) return;
    const own = statements.get(path)!.filter((one) => one.name === name);
    const from = modules.get(path)!.imports.find((one) => one.names.some(([, local]) => local === name));
    if (own.length === 0 && from === undefined) return;
    known.add(name);
    for (const { words } of own) visitAll(path, words);
    if (from === undefined || !from.specifier.startsWith('.')) return;
    visit(typesAt(path, from.specifier), from.names.find(([, local]) => local === name)![0]);
  };
  const visitAll = (path: string, words: Iterable<string>): void => {
    for (const word of words) visit(path, word);
  };
  for (const path of entries) {
    visitAll(path, ownNames(modules.get(path)!));
    for (const { names: taken } of modules.get(path)!.imports.filter(({ isReexport }) => isReexport)) for (const [, local] of taken) visit(path, local);
  }
  for (const [path, { additions }] of modules) {
    for (const [to, text] of additions) {
      const words = masked(text).match(/[\w$]+/g) ?? [];
      visitAll(path, words);
      visitAll(to, words);
    }
  }
  return new Map([...modules].map(([path, each]) => {
    const known = names.get(path)!;
    const imports = each.imports.map((one) => ({ ...one, names: one.names.filter(([, local]) => known.has(local)) })).filter((one) => one.names.length > 0);
    const kept = statements.get(path)!.filter(({ name }) => known.has(name));
    const needs = [...imports.filter(({ specifier }) => specifier.startsWith('.')).map(({ specifier }) => typesAt(path, specifier)), ...each.additions.map(([to]) => to)];
    return [path, { ...each, imports, needs, body: kept.map(({ text }) => text).join('').trim() }] as const;
  }).filter(([path, { additions, imports, body, passedOn }]) => entries.includes(path) || body !== '' || additions.length > 0 || imports.some(({ isReexport, names: taken }) => isReexport || taken.some(([, local]) => passedOn.has(local)))));
}

/** What a module declares and exports, once each. */
function ownNames({ body }: Declarations): string[] {
  return [...new Set([...masked(body).matchAll(/^export (?:abstract )?(?:class|interface|type|function|const) ([\w$]+)/gm)].map(([, name]) => name!))];
}

/** What an entry point offers, sorted. */
function publicNames(entry: Declarations): string[] {
  return [...ownNames(entry), ...entry.imports.filter(({ isReexport }) => isReexport).flatMap(({ names }) => names.map(([, exported]) => exported))].sort();
}

function entryText(entry: Declarations, modules: ReadonlyMap<string, Declarations>, names: TypeNames): string {
  const reachable = new Set<string>();
  const visit = (path: string): void => {
    if (reachable.has(path)) return;
    reachable.add(path);
    modules.get(path)!.needs.forEach(visit);
  };
  visit(entry.path);
  const types = relative(entry.path, 'types.js');
  const augmentations = [...reachable].sort().flatMap((path) => modules.get(path)!.additions.map(([to, text]) => `declare module '${types}' {\n${names.within(path, text, to)}}\n`));
  return [`export {\n${publicNames(entry).map((name) => `  ${listed([[names.of(entry.path, name), name]])},\n`).join('')}} from '${types}';\n`, ...augmentations].join('');
}

/** Every file below the compiled modules with this ending, sorted. */
function filesOf(ending: string): string[] {
  return readdirSync(MODULES, { recursive: true, encoding: 'utf8' }).map((path) => path.replaceAll('\\', '/')).filter((path) => path.endsWith(ending)).sort();
}

if (import.meta.main) build();
