/**
 * Plain English (.github/CONTRIBUTING.md, "Style"): comments, messages, test names and manuals avoid words and
 * openings that hide the subject of a sentence.
 *
 * Words are refused anywhere in a passage. Openings are refused at the start of
 *
 *   - a comment, and of each of its paragraphs, list items and doc tags; adjacent line comments are one comment
 *   - a message or test name
 *   - a paragraph, list item, table cell or HTML comment of a manual; a heading may open as it likes
 *   - each further sentence of these
 *
 * A question may open with "Who" or "What". Inline code is not prose. The fenced code of a manual has comments,
 * messages and test names as a file of its language has.
 *
 * A string literal is a message when it is
 *
 *   - an argument of `new …Error(…)` or of another error class, of `super(…)`, or of a call that logs or reports
 *   - the value of a key or variable with a name such as `message`, `remedy`, `summary`, `description`, `title`
 *
 * The first argument of `test`, `describe` or a similar function is a test name. Every other literal is data; this
 * includes templates that hold a program.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { problemsOf, projectProblems } from './support/style.ts';

test("no file breaks the project's rules for plain English", () => {
  assert.deepEqual(projectProblems(), [], 'reword these passages: see "Style" in .github/CONTRIBUTING.md');
});

const WORDS = ['whoever', 'Nobody', 'somebody', 'anybody', 'told', 'hears', 'hear'];
for (const word of WORDS) {
  test(`the check for plain English refuses the word "${[...word].join(' ')}" in comments, messages, test names and manuals`, () => {
    const sources = [
      `// a ${word} b`,
      `/** A ${word} b. */`,
      `throw new SvcError('E_X', 'a ${word} b');`,
      `test('a ${word} b', () => {});`,
    ];
    for (const source of sources) assertProblems('src/x.ts', source, [`has the word "${word}"`]);
    assertProblems('x.md', `A ${word} b.\n`, [`has the word "${word}"`]);
    assertProblems('.ci/run', `true # a ${word} b`, [`has the word "${word}"`]);
  });
}

const OPENINGS = ['Those', 'The same', 'As above', 'See above', 'Of', 'Who', 'What'];
for (const opening of OPENINGS) {
  test(`the check for plain English refuses comments, messages, test names and paragraphs that begin with "${opening}"`, () => {
    const text = `${opening} it has`;
    const sources = [
      `x; // ${text.toLowerCase()}`,
      `/** ${text}. */`,
      `/**\n * A.\n *\n * ${text}.\n */`,
      `/** A. @returns ${text} */`,
      `const a = { message: \`${text} \${x}\` };`,
      `await t.test('${text}', () => {});`,
    ];
    const lower = opening.toLowerCase();
    for (const source of sources)
      assertProblems('src/x.ts', source, [
        source.startsWith('x') ? `opens with "${lower}"` : `opens with "${opening}"`,
      ]);
    for (const manual of [`${text}.\n`, `A.\n\n${text}.\n`, `- A.\n- **${text}.**\n`, `| a | ${text} |\n`]) {
      assertProblems('x.md', manual, [`opens with "${opening}"`]);
    }
  });
}

test('the check for plain English reports the line number of each problem', () => {
  const source = 'const a = 1;\n\n// Of x.\nfail(\n  `${b} is told`,\n);\n';
  const expected = ['src/x.ts:3: comment opens with "Of"', 'src/x.ts:5: message has the word "told"'];
  assert.deepEqual(problemsOf('src/x.ts', source), expected);
});

test('the check for plain English finds messages in concatenations, templates, conditions and arrow functions', () => {
  for (const source of [
    "new BadRequest('a ' + 'b told');",
    'new Error(`a ${b ? "told" : `c`}`);',
    "new Error(isA ? 'told' : 'b');",
    'const f = { describe: (a: string): string => `told ${a}` };',
    "const message = 'told';",
    "process.stderr.write('told');",
    "new errors.ConnectionLost('told');",
  ])
    assertProblems('src/x.ts', source, ['has the word "told"']);
});

test('the check for plain English accepts questions, inline code, data, and text without forbidden words', () => {
  for (const source of [
    '/** Offset of the page. Offsets begin at 0. Who sends them? */',
    '// What does a peer send?\n// A frame.',
    '// a comment\n// of two lines',
    '// `told` is the old name, and so is `those`',
    "new SvcError('E_X', 'a sentence ' + 'of two literals');",
    "const names = ['nobody', 'told', 'Of these'];",
    "send({ user: 'nobody' }, 'told'); // data",
    "assert.equal(name, 'nobody');",
    'const code = `// told\n${x}`;',
    "const pattern = x.match(/['\"`]told/); test('a name', () => read('nobody'));",
    '// The same-origin policy\nconst untold = 1;',
  ])
    assertProblems('src/x.ts', source, []);
  const manual =
    '# What it does\n\nText\nof two lines, `told` and [x](#told). See `a`: of two.\n\n```ts\nsend(`told`, "Of x");\n```\n\n```text\nWhat the program prints\n```\n\n<!-- POST /x {"text":"told"} -> 200 -->\n\n| key | what |\n|---|---|\n| `Of` | Offset |\n';
  assertProblems('x.md', manual, []);
  assertProblems('.ci/run', '#!/bin/sh\nx="nobody" # a comment\n', []);
});

/** Ten sentences for each word or opening: it is a word of the sentence, or its first. */
const SENTENCES: readonly ((forbidden: string) => string)[] = [
  (word) => `${word} has it`,
  (word) => `${word} comes too late`,
  (word) => `${word} a client sends twice`,
  (word) => `${word} no one reads, and no one writes`,
  (word) => `${word} **all** servers know`,
  (word) => `${word} [manuals](x.md) say more`,
  (word) => `A server answers. ${word} it sends`,
  (word) => `See \`a\`: b. ${word} is the rest`,
  (word) => `Is it open? ${word} waits`,
  (word) => `(It closes.) ${word} is left`,
];

/** Files with a sentence in a place. */
const PLACES: Readonly<
  Record<string, readonly ((sentence: string) => readonly [path: string, text: string])[]>
> = {
  list: [
    (text) => ['x.md', `- A.\n- ${text}.\n`],
    (text) => ['x.md', `1. A:\n   - [x] ${text}.\n`],
    (text) => ['x.md', `3. \`\`\`ts\n   const a = '\`';\n   \`\`\`\n4. **${text}.**\n`],
    (text) => ['x.md', `- A:\n\n  ~~~~sh\n  ~~~\n  ~~~~\n\n  ${text}.\n`],
    (text) => ['x.md', `> - \`a\n>   b\` c.\n> - ${text}.\n`],
  ],
  table: [
    (text) => ['x.md', `| a | ${text} |\n|---|---|\n`],
    (text) => ['x.md', `A.\n| a | b |\n|---|---|\n| \`a \\| b\` | c<br>${text} |\n`],
    (text) => ['x.md', `1. A:\n\n   | a | b |\n   |---|---|\n   | ${text} | b |\n`],
  ],
  fence: [
    (text) => ['x.md', `\`\`\`ts\nconst a = 1; // ${text}\n\`\`\`\n`],
    (text) => ['x.md', `1. \`\`\`js\n   /** ${text}. */\n   \`\`\`\n`],
    (text) => ['x.md', `- A:\n  \`\`\`\`ts\n  fail('${text}');\n  \`\`\`\`\n`],
    (text) => ['x.md', `~~~sh\nnpm test # ${text}\n~~~\n`],
    (text) => ['x.md', `\`\`\`sql\nselect 1 -- ${text}\n\`\`\`\n`],
    (text) => ['x.md', `\`\`\`dockerfile\n# ${text}\n\`\`\`\n`],
  ],
  'HTML comment': [
    (text) => ['x.md', `<!-- ${text}. -->\n`],
    (text) => ['x.md', `A.\n\n<!--\n\n${text}.\n\n-->\n\nB.\n`],
  ],
  paragraph: [
    (text) => ['x.md', `A.\n\n${text}.\n`],
    (text) => ['x.md', `1. \`\`\`ts\n   a;\n   \`\`\`\n\n${text}.\n`],
    (text) => ['x.md', `# A\n${text}.\n`],
    (text) => ['x.md', `<!-- a -->\n${text}.\n`],
  ],
  'doc comment': [
    (text) => ['src/x.ts', `/** ${text}. */`],
    (text) => ['src/x.ts', `/**\n * A.\n *\n * ${text}.\n */`],
    (text) => ['src/x.ts', `/**\n * A:\n * - b\n * - ${text}.\n */`],
    (text) => ['src/x.ts', `/**\n * A.\n * @returns ${text}\n */`],
  ],
  message: [
    (text) => ['src/x.ts', `throw new SvcError('E_X', ['${text}']);`],
    (text) => ['src/x.ts', `const a = { remedy: \`${text.replaceAll('`', '')}\` };`],
    (text) => ['.ci/run', `echo "${text.replaceAll('`', '')}"`],
  ],
  'test name': [
    (text) => ['test/x.test.ts', `test('${text}', () => {});`],
    (text) => ['test/x.test.ts', `describe("${text}", () => {});`],
  ],
};

for (const [place, files] of Object.entries(PLACES)) {
  test(`the check for plain English finds ten sentences with each forbidden word or opening in each kind of ${place}`, () => {
    for (const forbidden of [...WORDS, ...OPENINGS])
      for (const sentence of SENTENCES)
        for (const file of files) {
          const [path, text] = file(sentence(forbidden));
          assert.equal(problemsOf(path, text).length, 1, text);
        }
  });
}

test('the check for plain English throws an error for source code with unmatched brackets', () => {
  for (const source of ['f(', 'f(]', 'f)', '`${a'])
    assert.throws(() => problemsOf('src/x.ts', source), Error);
});

function assertProblems(path: string, text: string, expected: readonly string[]): void {
  const found = problemsOf(path, text).map((problem) => /(?:has|opens).*/.exec(problem)![0]);
  assert.deepEqual(found, expected, `in ${path}: ${text}`);
}
