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
    .filter((file) => file.endsWith('.ts') && file !== 'schema-inside.ts') // its types are not exported
    .map((file) => [file, readFileSync(join(TYPES, file), 'utf8')]),
);

/** Variant whose imports of sources are replaced by the built declarations. */
export function typeAssertionsOutside(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(TYPE_ASSERTIONS).map(([file, text]) => [
      file,
      text.replace(/ from '\.\.\/\.\.\/src\/(.+)\.ts';/g, " from './node_modules/svc/dist/$1.js';"),
    ]),
  );
}
