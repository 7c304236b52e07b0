/**
 * Finds the exported names of the package in its sources.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { ROOT } from '../build.ts';

export interface Exported {
  readonly name: string;
  readonly isType: boolean;
  /** File from which the name is exported again, and its name there; undefined when it is declared here. */
  readonly from: { readonly file: string; readonly name: string } | undefined;
}

/** Returns the entry points of package.json and their source files. */
export function entryPoints(): [name: string, file: string][] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { 'svc-source': string }>;
  };
  return Object.entries(exports).flatMap(([path, entry]) =>
    typeof entry === 'string' ? [] : [[path.replace('.', 'svc'), join(ROOT, entry['svc-source'])]],
  );
}

/**
 * Returns the exports of a file: `export { … } from`, `export { … }` and exported declarations. Throws for
 * `export *`, which names nothing.
 */
export function exportsOf(file: string): Exported[] {
  const text = readFileSync(file, 'utf8');
  assert.doesNotMatch(text, /^export \*/m, `${file}: name what is exported`);
  const lists = [...text.matchAll(/^export (type )?\{([^}]*)\}(?: from '([^']+)')?/gm)].flatMap(
    ([, type, names, from]) =>
      names!
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '')
        .map((item): Exported => {
          const [, inlineType, here, alias] = /^(type )?([\w$]+)(?: as ([\w$]+))?$/.exec(item)!;
          return {
            name: alias ?? here!,
            isType: type !== undefined || inlineType !== undefined,
            from: from === undefined ? undefined : { file: resolve(dirname(file), from), name: here! },
          };
        }),
  );
  const declared = [
    ...text.matchAll(
      /^export (?:declare )?(?:abstract )?(?:async )?(class|function\*?|const|let|interface|type) ([\w$]+)/gm,
    ),
  ].map(([, kind, name]): Exported => ({
    name: name!,
    isType: kind === 'interface' || kind === 'type',
    from: undefined,
  }));
  // list overloads once
  return [...new Map([...lists, ...declared].map((each) => [`${each.name} ${each.isType}`, each])).values()];
}

/** Returns the source file that declares an exported name, and its name there. */
export function declarationOf(file: string, { name, from }: Exported): { file: string; name: string } {
  if (from === undefined) {
    const text = readFileSync(file, 'utf8');
    const imported = new RegExp(
      `^import (?:type )?\\{[^}]*\\b${name.replace('$', '\\$')}\\b[^}]*\\} from '([^']+)'`,
      'm',
    ).exec(text);
    if (imported === null) return { file, name };
    return declarationOf(resolve(dirname(file), imported[1]!), { name, isType: false, from: undefined });
  }
  const next = exportsOf(from.file).find((each) => each.name === from.name);
  return declarationOf(from.file, next ?? assert.fail(`${from.file} exports no ${from.name}`));
}
