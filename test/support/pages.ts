/**
 * Writes src/openapi/docs/page.generated.ts from the files of the docs page: `npm run pages`. The page is a
 * module, so that a bundler takes it along; test/openapi/docs/script.test.ts compares the module with the
 * files.
 *
 *   page.html ← page.css, page.js and the other scripts in one function; comments and indentation are left out
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './build.ts';

const FOLDER = join(ROOT, 'src/openapi/docs');
export const SCRIPTS: readonly string[] = ['page', 'sample', 'pattern', 'auth', 'try', 'code', 'answer'].map(
  (name) => join(FOLDER, `${name}.js`),
);
export const GENERATED: string = join(FOLDER, 'page.generated.ts');

/**
 * Returns the text of page.generated.ts.
 * @throws Error for text that looks like a slot, and for templates of several lines
 */
export function generatedPage(): string {
  const html = lean(read('page.html').replace(/<!-- [^]*? -->\n/, ''));
  const style = lean(read('page.css').replace(/\/\*[^]*?\*\/\n?/g, '')).replace(
    / \{\n|;\n\}|;\n|: |,\n/g,
    joined,
  );
  const script = SCRIPTS.map((path) => lean(withoutComments(readFileSync(path, 'utf8')))).join('');
  if (script.split('\n').some((line) => line.split('`').length % 2 === 0))
    throw new Error('A template of several lines would lose its indentation');
  if (/\{\{/.test(style + script)) throw new Error('Two opening braces in a row are for slots of page.html');
  const page = html
    .replace(/\s*\{\{style\}\}\s*/, () => style)
    .replace(/\s*\{\{script\}\}\s*/, () => `(() => {\n'use strict';\n${script}})();`);
  const text = page.replace(/[\\`]|\$(?=\{)/g, '\\$&');
  return `/**
 * The docs page, made by "npm run pages" from page.html, page.css and the scripts beside it.
 */

/** The page, with slots in double braces. */
export const PAGE: string = \`${text}\`;
`;
}

function read(name: string): string {
  return readFileSync(join(FOLDER, name), 'utf8');
}

/** Returns the lines without indentation, and without empty lines. */
function lean(text: string): string {
  return text.replace(/^[ \t]+/gm, '').replace(/\n{2,}/g, '\n');
}

/** Comments stand on lines of their own, at the end of a line, or as the type before a parenthesis. */
function withoutComments(script: string): string {
  return script
    .replace(/^ *\/\*[^]*?\*\/\n/gm, '')
    .replace(/\/\*\* @type [^\n]*?\*\/ /g, '')
    .replace(/(?:^| ) *\/\/ .*$/gm, '');
}

/** Returns a style sheet without white space around punctuation. */
function joined(signs: string): string {
  return signs.replace(/\s|;(?=\n\})/g, '');
}

if (process.argv[1] === import.meta.filename) writeFileSync(GENERATED, generatedPage());
