/**
 * The findings of rules that judge values do not depend on names, nor on the file of a helper: locals, parameters, private
 * functions and import aliases get random names, and helpers move to another file.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { readProject } from '../../../src/check/reader/modules.ts';
import { eachChild, walk } from '../../../src/check/reader/nodes.ts';
import { seeded } from '../../support/random.ts';
import { folder } from '../../support/run.ts';
import { filesOf } from '../rules/cases/all.ts';
import { CALLS } from '../rules/cases/calls.ts';
import { INJECTION } from '../rules/cases/injection.ts';
import { PROGRAMS } from './programs.ts';
import type { TestContext } from 'node:test';
import type { SourceModule } from '../../../src/check/reader/modules.ts';
import type { Fn, Node } from '../../../src/check/reader/nodes.ts';

type Files = Readonly<Record<string, string>>;

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Rules that judge values only. */
const JUDGED = /^SVC(?:60[1-8]|206|207|628|629|637|638|639)$/;

const PROGRAMS_OF_ALL: Readonly<Record<string, Files>> = {
  ...Object.fromEntries(
    Object.entries({ ...INJECTION, ...CALLS }).map(([name, text]) => [name, filesOf(text, 'app.ts')]),
  ),
  ...PROGRAMS,
};

/** Rules and severities of the findings, in the order of the rules. Moved code has other lines. */
function found(t: TestContext, files: Files): string[] {
  const cwd = folder(t, files);
  const entry = Object.keys(files).find((name) => name.startsWith('app.'))!;
  const { findings, project } = examineSources(readProject([join(cwd, entry)]), CORE_RULES);
  assert.deepEqual(project.unread, []);
  return findings
    .filter(({ rule }) => JUDGED.test(rule))
    .map(({ rule, severity }) => `${severity} ${rule}`)
    .sort();
}

/** Changes each module of a program. The result is JavaScript. */
function changed(
  t: TestContext,
  files: Files,
  edit: (module: SourceModule) => readonly Edit[],
): Record<string, string> {
  const cwd = folder(t, files);
  const entry = Object.keys(files).find((name) => name.startsWith('app.'))!;
  const { modules } = readProject([join(cwd, entry)]);
  return Object.fromEntries(
    modules.map((module) => {
      const edits = [...edit(module)].sort((a, b) => b.start - a.start);
      const text = edits.reduce(
        (code, { start, end, text }) => code.slice(0, start) + text + code.slice(end),
        module.source,
      );
      return [
        module.file.slice(cwd.length + 1).replace(/\.ts$/, '.js'),
        text.replace(/(from '\.[^']*)\.ts'/g, "$1.js'"),
      ];
    }),
  );
}

/** Names that a module declares and does not export. */
function privateNames(module: SourceModule): Set<string> {
  const names = new Set<string>();
  walk(module.body, (node) => {
    if (node.type === 'name' && isBound(module, node)) names.add(node.name);
    if ((node.type === 'function' || node.type === 'class') && isDeclaration(node)) names.add(node.name!);
    if (node.type === 'import') for (const { local } of node.names) names.add(local);
  });
  for (const statement of module.body.body) {
    if (statement.type !== 'export') continue;
    const { declared } = statement;
    if (declared?.type === 'declare')
      for (const { target } of declared.items) if (target.type === 'name') names.delete(target.name);
    if (declared?.type === 'function' || declared?.type === 'class') names.delete(declared.name!);
    for (const { local } of statement.names) names.delete(local);
  }
  names.delete('this');
  names.delete('arguments');
  return names;
}

function isBound(module: SourceModule, node: Extract<Node, { type: 'name' }>): boolean {
  const binding = module.lookup(node.name, node);
  return binding !== undefined && !(binding.kind === 'declared' && binding.module !== module);
}

/** Whether a function or class declares its name as a variable. The name of a method is a key. */
function isDeclaration(node: Extract<Node, { type: 'function' | 'class' }>): boolean {
  return node.name !== undefined && node.parent?.type !== 'entry';
}

function renamed(module: SourceModule, nameFor: (name: string) => string): Edit[] {
  const names = new Map([...privateNames(module)].map((name) => [name, nameFor(name)]));
  const edits: Edit[] = [];
  walk(module.body, (node) => {
    if (node.type === 'import') {
      const parts = node.names.map(({ imported, local }) =>
        imported === '*' ? `* as ${names.get(local)!}` : `${imported} as ${names.get(local)!}`,
      );
      const whole = parts.find((part) => part.startsWith('*'));
      if (parts.length > 0)
        edits.push({
          ...rangeOf(node),
          text: `import ${whole ?? `{ ${parts.join(', ')} }`} from '${node.from}';`,
        });
      return false;
    }
    if ((node.type === 'function' || node.type === 'class') && isDeclaration(node) && names.has(node.name!)) {
      const start = module.source.indexOf(node.name!, node.start + (node.type === 'class' ? 5 : 8));
      edits.push({ start, end: start + node.name!.length, text: names.get(node.name!)! });
    }
    if (node.type !== 'name' || !names.has(node.name)) return true;
    const key = keyOf(node);
    edits.push({ ...rangeOf(node), text: `${key === undefined ? '' : `${key}: `}${names.get(node.name)!}` });
    return true;
  });
  return edits;
}

/** The key of a shorthand member, which stays: `query` of `{ query }` becomes `query: a1`. */
function keyOf(node: Node): string | undefined {
  const { parent } = node;
  const entry = parent?.type === 'assign' && parent.target === node ? parent.parent : parent;
  return entry?.type === 'entry' && entry.isShorthand && (entry.value === node || entry.value === parent)
    ? entry.key
    : undefined;
}

function rangeOf({ start, end }: Node): { start: number; end: number } {
  return { start, end };
}

test('findings about values do not change if locals, parameters, private functions and import aliases are renamed', (t) => {
  const random = seeded(20_261_129);
  let renames = 0;
  for (const [title, files] of Object.entries(PROGRAMS_OF_ALL)) {
    const expected = found(t, files);
    const other = changed(t, files, (module) =>
      renamed(module, () => `${'abcxyz'[random(6)]!}${String(++renames)}_${String(random(1_000))}`),
    );
    assert.deepEqual(found(t, other), expected, `${title}\n${Object.values(other).join('\n')}`);
  }
  assert.ok(renames > 200);
});

/** Declared functions of a module that use nothing of it but imports. */
function movable(module: SourceModule): Fn[] {
  return module.body.body.filter((node): node is Fn => {
    if (node.type !== 'function') return false;
    let isFree = true;
    walk(node, (part) => {
      if (part.type !== 'name') return;
      const binding = module.lookup(part.name, part);
      const owner = binding?.kind === 'declared' ? binding.node : undefined;
      if (owner !== undefined && !(owner.start >= node.start && owner.end <= node.end)) isFree = false;
    });
    let hasParts = false;
    eachChild(node, () => {
      hasParts = true;
    });
    return isFree && hasParts;
  });
}

test('findings about values do not change if helpers move to another file', (t) => {
  let moves = 0;
  for (const [title, files] of Object.entries(PROGRAMS_OF_ALL)) {
    const more: Record<string, string> = {};
    const other = changed(t, files, (module) => {
      const imports = module.body.body
        .filter(({ type }) => type === 'import')
        .map(({ start, end }) => module.source.slice(start, end));
      return movable(module).flatMap((fn) => {
        const file = `moved${String(++moves)}.js`;
        more[file] = [...imports, `export ${module.source.slice(fn.start, fn.end)}`]
          .join('\n')
          .replace(/(from '\.[^']*)\.ts'/g, "$1.js'");
        return [
          { start: fn.start, end: fn.end, text: '' },
          { start: 0, end: 0, text: `import { ${fn.name!} } from './${file}';\n` },
        ];
      });
    });
    if (Object.keys(more).length > 0)
      assert.deepEqual(found(t, { ...other, ...more }), found(t, files), title);
  }
  assert.ok(moves > 4);
});
