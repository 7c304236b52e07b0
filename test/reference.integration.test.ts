/** src/REFERENCE.md is what `npm run docs` writes: it describes every exported name and has every table. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { build } from './support/build.ts';
import { manual } from './support/manuals.ts';
import { declarationsOf } from './support/reference/declarations.ts';
import { nameOf, reference } from './support/reference/render.ts';

test('src/REFERENCE.md is exactly the text that is generated from the source code', async () => {
  build();
  const expected = (await reference()).split('\n');
  const actual = manual('src/REFERENCE.md').split('\n');
  const at = expected.findIndex((line, index) => line !== actual[index]);
  assert.equal(at, -1, `write it with "npm run docs"; line ${at + 1} is to be: ${expected[at] ?? 'the end'}`);
  assert.equal(actual.length, expected.length, 'write it with "npm run docs"');
});

test('src/REFERENCE.md has a description for each method and each overload', () => {
  let name = '';
  const empty: string[] = [];
  for (const line of manual('src/REFERENCE.md').split('\n')) {
    name = /^### (.*)/.exec(line)?.[1] ?? name;
    const [start, member = '', ...cells] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const isMethod = nameOf({ text: member.replace(/^`+ ?/, ''), doc: '' }) !== undefined;
    if (start === '' && isMethod && cells.at(-2) === '') empty.push(`${name}: ${member}`);
  }
  assert.deepEqual(empty, [], 'give the first overload a doc comment');
});

test('declarationsOf() returns the declarations, members, overloads and doc comments of a .d.ts file', () => {
  const text = [
    "import type { X } from './x.ts';",
    '/** A. */',
    'export interface A<T extends { readonly a: string } = { readonly a: "}" }> {',
    '    /** Takes "}". Default 5. */',
    '    readonly size?: number | undefined;',
    '    load(name: string): { readonly ok: true; };',
    '    /** Hidden. @internal */',
    '    readonly hidden: X;',
    '}',
    '/** One. */',
    'export declare function f(a: string): void;',
    'export declare function f(a: number): void;',
    'export declare class C {',
    '    #private;',
    '    private x;',
    '    constructor(a: string);',
    '    get b(): string;',
    '}',
    'type Own = { a: 1; };',
    'export {};',
  ].join('\n');
  assert.deepEqual(
    declarationsOf(text).map(({ kind, name, doc, members }) => [
      kind,
      name,
      doc,
      members.map((each) => each.text),
    ]),
    [
      [
        'interface',
        'A',
        'A.',
        ['readonly size?: number | undefined', 'load(name: string): { readonly ok: true; }'],
      ],
      ['function', 'f', 'One.', []],
      ['function', 'f', '', []],
      ['class', 'C', '', ['constructor(a: string)', 'get b(): string']],
      ['type', 'Own', '', []],
    ],
  );
});
