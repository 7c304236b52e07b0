/**
 * Index of a parsed project. Lists all nodes by type, finds the functions that requests reach, and resolves
 * the original names of imports.
 */
import { basename, dirname } from 'node:path';
import { variableOf } from '../base/config.ts';
import { namesSecretVariable } from './names.ts';
import { Functions } from './values/functions.ts';
import { FALLBACK } from './values/marks.ts';
import { WrittenColumns } from './statements/sending.ts';
import { tablesIn } from './statements/written-schema.ts';
import { madeIn } from './values/value.ts';
import { calledName, functionAround, isWithin, nodesAround, partsIn, pathOf, walk } from './reader/nodes.ts';
import type { Project, SourceModule, Spot } from './reader/modules.ts';
import type { RouteCall } from './values/functions.ts';
import type { Call, Node } from './reader/nodes.ts';
import type { About, Place, Severity } from '../base/findings.ts';
import type { CoreRule } from './check.ts';
import type { Sending } from './statements/sending.ts';
import type { KnownTable } from './statements/written-schema.ts';
import type { Run, Trace } from './statements/trace.ts';
import type { Site, ValueListeners } from './values/calls.ts';
import type { Made } from './values/text.ts';
import type { Value } from './values/value.ts';

/** A search of the sources, for the rule with this id. */
export interface SourcePart {
  readonly id: `SVC${number}`;
  /** Searches the syntax trees of a project. */
  find?(sources: Sources, report: ReportAt): void;
  /** Judges one call, with the values of its arguments. */
  onCall?(site: Site, report: ReportAt, sources: Sources): void;
  /** Judges what one handler does, after all of them have run. */
  onRun?(run: Run, trace: Trace, report: ReportAt, sources: Sources): void;
  /** Judges what the handlers do, after all of them have run. */
  judge?(trace: Trace, report: ReportAt, sources: Sources): void;
  /** Returns the listeners of a search that needs more than one call. */
  watch?(report: ReportAt, sources: Sources): Watch;
}

/** A rule of the phase `source`: it reads sources only. */
export interface SourceRule extends Omit<CoreRule, 'id' | 'run' | 'phase'>, SourcePart {}

/** Listeners for what the analysis of values meets. `finish` comes last. */
export interface Watch extends Partial<Omit<ValueListeners, 'typeOf'>> {
  onStatement?(sending: Sending): void;
  finish?(): void;
}

/** Function with which a rule reports a finding at a node or call. Default severity and remedy: those of the rule. */
export type ReportAt = (
  at: Spot | RouteCall,
  message: string,
  more?: { readonly severity?: Severity; readonly remedy?: string; readonly about?: About },
) => void;

interface Located<T extends Node['type']> {
  readonly module: SourceModule;
  readonly node: Extract<Node, { type: T }>;
}

/** A call that may be dangerous, and the reason for which no rule judged it. */
export interface Unjudged {
  readonly place: Place;
  readonly why: string;
}

/** Settings about the processes of an application. */
export interface Deployment {
  /** Whether a setting such as `SVC_WORKERS` starts several processes. */
  readonly isServedByMany: boolean;
  /** Whether all processes have one `authSecret`. */
  readonly hasAuthSecret: boolean;
}

const NO_SETTINGS: Deployment = { isServedByMany: false, hasAuthSecret: false };

/** A text in the sources. */
interface Definition extends Spot {
  readonly text: string;
}

const DEFINES = /\bcreate\s|\balter\s+table/i;

const OF_BROWSERS = /^(?:window|document|localStorage|sessionStorage)$/;

/** A parsed project in which rules look up nodes and names. */
export class Sources {
  readonly project: Project;
  readonly deployment: Deployment;
  readonly handlers: Functions = new Functions();
  readonly variables: Variables = new Variables();
  readonly columns: WrittenColumns = new WrittenColumns();
  /** Texts of the migrations. */
  readonly migrations: readonly string[];
  /** Texts in the sources that create or change tables. A template has a space in place of each value. */
  readonly definitions: readonly Definition[];
  /** Nodes by their types, and the module of each node. */
  readonly #nodes = new Map<Node['type'], { readonly nodes: Node[]; readonly homes: SourceModule[] }>();
  readonly #unjudged = new Map<string, Unjudged>();
  #tables: ReadonlyMap<string, KnownTable> | undefined;
  #ofBrowsers: Set<SourceModule> | undefined;

  constructor(project: Project, migrations: readonly string[] = [], deployment: Deployment = NO_SETTINGS) {
    this.project = project;
    this.migrations = migrations;
    this.deployment = deployment;
    const definitions: Definition[] = [];
    for (const module of project.modules) {
      walk(module.body, (node) => {
        let same = this.#nodes.get(node.type);
        if (same === undefined) this.#nodes.set(node.type, (same = { nodes: [], homes: [] }));
        same.nodes.push(node);
        same.homes.push(module);
        if (node.type === 'function') this.handlers.add(node, module);
        const text = node.type === 'text' ? node.value : node.type === 'template' ? node.texts.join(' ') : '';
        if (DEFINES.test(text)) definitions.push({ module, node, text });
      });
    }
    this.definitions = definitions;
  }

  /** Texts of the statements that make tables, in the sources and in migrations. */
  get tableTexts(): readonly string[] {
    const written = this.definitions.map(({ text }) => text).filter((text) => /\bcreate\s/i.test(text));
    return [...written, ...this.migrations];
  }

  /** Tables that migrations and texts in the sources create, by their names. */
  get tables(): ReadonlyMap<string, KnownTable> {
    return (this.#tables ??= tablesIn(this.tableTexts));
  }

  /** Calls that no rule could judge, by place. */
  get unjudged(): readonly Unjudged[] {
    return [...this.#unjudged.values()];
  }

  /** Notes a call that no rule can judge, with the reason. */
  noteUnjudged(module: SourceModule, { start }: Node, why: string): void {
    this.#unjudged.set(`${module.file}:${start}`, { place: module.placeAt(start), why });
  }

  /** Returns every node of a type, with its module. */
  *all<T extends Node['type']>(type: T): Generator<Located<T>, undefined> {
    const { nodes = [], homes = [] } = this.#nodes.get(type) ?? {};
    for (let index = 0; index < nodes.length; index++)
      // each list holds nodes of one type only, and as many modules, so the casts are correct
      yield { module: homes[index]!, node: nodes[index] as Located<T>['node'] };
    return undefined;
  }

  /**
   * Whether a module runs in a browser, because it uses globals such as `document`. The rules report nothing
   * in such a module.
   */
  isOfBrowser(module: SourceModule): boolean {
    this.#ofBrowsers ??= new Set(
      this.all('member').flatMap(({ module, node: { object } }) =>
        object.type === 'name' &&
        OF_BROWSERS.test(object.name) &&
        module.lookup(object.name, object) === undefined
          ? [module]
          : [],
      ),
    );
    return this.#ofBrowsers.has(module);
  }

  /** Whether requests reach the code of a node. */
  isReached(node: Node): boolean {
    return this.handlers.reachedFrom(functionAround(node)) !== undefined;
  }

  /** Returns the calls of functions with such an original name; see {@link meaningOfCall}. */
  called(meaning: RegExp): IteratorObject<Located<'call'>, undefined> {
    return this.all('call').filter(({ module, node }) => meaning.test(meaningOfCall(node, module)));
  }

  /** Returns the names that refer to a variable, without its declaration. With `name`, only those of this spelling. */
  usesOf(declarator: Node, name?: string): readonly Located<'name'>[] {
    return this.all('name')
      .filter(({ module, node }) => {
        if ((name !== undefined && node.name !== name) || node.parent === declarator) return false;
        const binding = module.lookup(node.name, node);
        return binding?.kind === 'declared' && binding.node === declarator;
      })
      .toArray();
  }
}

/**
 * Returns the original name of an expression: `child_process.exec` for `run` after `import { exec as run }
 * from 'node:child_process'`. Also resolves `cp.exec` and `promisify(exec)`. A name without an import stays
 * as it is: `db.execute`.
 */
export function meaningOf(node: Node, module: SourceModule, depth = 0): string | undefined {
  if (depth > 4) return undefined;
  if (node.type === 'call') {
    const wrapper = meaningOf(node.callee, module, depth + 1);
    return wrapper === 'util.promisify' && node.args[0] !== undefined
      ? meaningOf(node.args[0], module, depth + 1)
      : undefined;
  }
  if (node.type === 'member') {
    const object = meaningOf(node.object, module, depth + 1);
    return object === undefined || node.property === undefined ? undefined : `${object}.${node.property}`;
  }
  if (node.type !== 'name') return undefined;
  const binding = module.lookup(node.name, node);
  if (binding?.kind === 'external')
    return binding.imported === '*' || binding.imported === 'default'
      ? binding.from
      : `${binding.from}.${binding.imported}`;
  if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return node.name;
  const { value, target } = binding.node;
  if (value?.type === 'call' && target.type === 'name')
    return meaningOf(value, binding.module, depth + 1) ?? node.name;
  return node.name;
}

const meanings = new WeakMap<Call, string>();

/** Returns the original name of the called function; see {@link meaningOf}. */
export function meaningOfCall(call: Call, module: SourceModule): string {
  let meaning = meanings.get(call);
  if (meaning === undefined)
    meanings.set(call, (meaning = meaningOf(call.callee, module) ?? pathOf(call.callee) ?? ''));
  if (meaning === 'fetch' && module.lookup('fetch', call) !== undefined) return 'own fetch';
  return meaning;
}

/** Functions are followed to this depth. */
const MAX_DEPTH = 5;

/** Returns the calls in a node, and in the functions of the project that it calls. */
export function* callsIn(
  node: Node,
  module: SourceModule,
  sources: Sources,
  depth = 0,
): Generator<{ readonly call: Call; readonly module: SourceModule }, undefined> {
  for (const call of partsIn(node)) {
    if (call.type !== 'call') continue;
    yield { call, module };
    const fn = depth > MAX_DEPTH ? undefined : sources.handlers.resolve(call.callee, module);
    if (fn === undefined || isWithin(node, fn)) continue;
    for (const part of fn.body) yield* callsIn(part, sources.handlers.homeOf(fn), sources, depth + 1);
  }
  return undefined;
}

/** Returns the source text of a node on one line, shortened if it is long. */
export function writtenOf(module: SourceModule, { start, end }: Node): string {
  const text = module.source.slice(start, end).replace(/\s+/g, ' ');
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** Whether a module is a command-line program. Such a program may print a secret as its result. */
export function isCommand({ file, source }: SourceModule): boolean {
  if (/^(?:bin|cli|commands|scripts|tools|tasks)$/.test(basename(dirname(file)))) return true;
  return /^#!|\bprocess\.argv\b|['"](?:node:)?(?:readline|inquirer|prompts|commander|yargs)\b/.test(source);
}

/** Whether code runs in a page that the program opens in a browser: `page.evaluate(() => fetch('/'))`. */
export function isInPage(node: Node): boolean {
  return nodesAround(node).some(
    (around) =>
      around.type === 'function' &&
      around.parent?.type === 'call' &&
      /^(?:evaluate\w*|\$\$?eval|waitForFunction)$/.test(calledName(around.parent) ?? ''),
  );
}

/** Environment variables and settings, by what the program does with their values. */
export class Variables {
  readonly #uses = new Map<string, boolean>();

  /** Notes that the program uses a value as a secret, or as something that is none. One use as a secret decides. */
  note(value: Value | undefined, isSecret: boolean): void {
    for (const made of madeIn(value)) {
      const name = variableIn(made);
      if (name !== undefined) this.#uses.set(name, isSecret || this.#uses.get(name) === true);
    }
  }

  /**
   * Whether a variable holds a secret. The name decides only about a variable that the program never uses in a way that
   * tells. Known once all handlers have run.
   */
  isSecret(name: string): boolean {
    return this.#uses.get(name) ?? namesSecretVariable(name);
  }

  /** Whether a mark is that of a variable, or setting, that holds a secret. */
  isSecretMark(made: Made): boolean {
    const name = variableIn(made);
    return name !== undefined && this.isSecret(name);
  }
}

/** Returns the name of the variable that has made a value: of `process.env`, or that of a setting. */
function variableIn({ by, node }: Made): string | undefined {
  const [, variable, setting] = /^(?:process\.env\.(.+)|setting (.+))$/.exec(by) ?? [];
  const [key] = by === FALLBACK && node.type === 'call' ? node.args : [];
  const name = key?.type === 'text' ? key.value : setting;
  return name === undefined ? variable : variableOf(name);
}
