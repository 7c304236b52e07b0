/**
 * The files of test/types as a user of the package would have them: beside an installed package, whose
 * declarations they are checked against.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './build.ts';

const TYPES = join(ROOT, 'test/types');

/** Texts of the files by name, unchanged. */
export const TYPE_ASSERTIONS: Readonly<Record<string, string>> = Object.fromEntries(
  readdirSync(TYPES)
    // without the file whose types are not exported
    .filter((file) => file.endsWith('.ts') && file !== 'schema-inside.ts')
    .map((file) => [file, readFileSync(join(TYPES, file), 'utf8')]),
);

/** Returns the texts with imports of sources replaced by imports of the built declarations. */
export function typeAssertionsOutside(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(TYPE_ASSERTIONS).map(([file, text]) => [
      file,
      text.replace(/ from '\.\.\/\.\.\/src\/(.+)\.ts';/g, " from './node_modules/svc/dist/$1.js';"),
    ]),
  );
}
