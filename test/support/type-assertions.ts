/**
 * test/types as a user of the package would have them: beside an installed package, whose declarations they are held against.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './build.ts';

const TYPES = join(ROOT, 'test/types');

/** By the name of the file, as they stand. */
export const TYPE_ASSERTIONS: Readonly<Record<string, string>> = Object.fromEntries(readdirSync(TYPES)
  .filter((file) => file.endsWith('.ts') && file !== 'schema-inside.ts') // nobody outside can name what is in there
  .map((file) => [file, readFileSync(join(TYPES, file), 'utf8')]));

/** The same, but what a file takes from a source it takes from the namespace that was built of it. */
export function typeAssertionsOutside(): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(TYPE_ASSERTIONS).map(([file, text]) => [file, fromNamespaces(text)]));
}

function fromNamespaces(text: string): string {
  const ids = new Set<string>();
  const rewritten = text.replace(/^import (?:type )?\{([^}]+)\} from '\.\.\/\.\.\/src\/(.+)\.ts';$/gm, (_all, names: string, path: string) => {
    const id = `$${path.replace(/\W/g, '_')}`;
    ids.add(id);
    return names.split(',').map((name) => name.trim()).filter((name) => name !== '').map((name) => `import ${name} = ${id}.${name};`).join('\n');
  });
  return ids.size === 0 ? text : `import { ${[...ids].join(', ')} } from './node_modules/svc/dist/types.js';\n${rewritten}`;
}
