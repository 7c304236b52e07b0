/**
 * test/types as a user of the package would have them: beside an installed package, whose declarations they are held against.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './build.ts';

const TYPES = join(ROOT, 'test/types');

/** By the name of the file, as they stand. */
export const TYPE_ASSERTIONS: Readonly<Record<string, string>> = Object.fromEntries(
  readdirSync(TYPES)
    .filter((file) => file.endsWith('.ts') && file !== 'schema-inside.ts') // nobody outside can name what is in there
    .map((file) => [file, readFileSync(join(TYPES, file), 'utf8')]),
);

/** The same, but what a file takes from a source it takes from the declarations that were built of it. */
export function typeAssertionsOutside(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(TYPE_ASSERTIONS).map(([file, text]) => [
      file,
      text.replace(/ from '\.\.\/\.\.\/src\/(.+)\.ts';/g, " from './node_modules/svc/dist/$1.js';"),
    ]),
  );
}
