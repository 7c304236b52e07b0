/**
 * The manuals: README.md, and the README.md of each folder that has one.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './build.ts';

export interface Manual {
  /** Path from the root of the repository, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** Paths of the manuals: README.md first, the others sorted. */
export const MANUAL_PATHS: readonly string[] = [
  'README.md',
  ...readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .map((file) => `src/${file.replaceAll('\\', '/')}`)
    .filter((file) => file.endsWith('.md') && !file.startsWith('src/cli/starter/'))
    .sort(),
  'test/README.md',
];

/** Reads a manual. */
export function manual(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Reads all manuals. */
export function manuals(): readonly Manual[] {
  return MANUAL_PATHS.map((path) => ({ path, text: manual(path) }));
}
