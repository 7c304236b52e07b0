import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inline, prose } from '../../../src/openapi/docs/markdown.ts';
import { seeded } from '../../support/random.ts';

const LINK = (url: string, label = url): string => `<a href="${url}" rel="noopener noreferrer">${label}</a>`;

for (const [text, expected] of [
  [
    'One\nline.\n\nTwo `a<b` and `c`.\n \n- x\n* y `z`',
    '<p>One\nline.</p><p>Two <code>a&lt;b</code> and <code>c</code>.</p><ul><li>x<li>y <code>z</code></ul>',
  ],
  ['# Head #\ntext\n---\nnext', '<p><b>Head</b></p><p>text</p><hr><p>next</p>'],
  ['> a\n> b\n>\n> > c', '<blockquote><p>a\nb</p><blockquote><p>c</p></blockquote></blockquote>'],
  ['1. a\n2. b\n   - c\n\n   d\n3) e', '<ol><li>a<li>b<ul><li>c</ul><p>d</p></ol><ol start="3"><li>e</ol>'],
  ['x\n- y\n  z\nlazy', '<p>x</p><ul><li>y\nz\nlazy</ul>'],
  [
    '| a | |\n|---|--:|\n| `x` | y \\| z |\n| 1 |\nafter',
    '<div class="g" tabindex="0"><table><thead><tr><th scope="col">a<td><tbody><tr><td><code>x</code><td class="ar">y | z<tr><td>1<td class="ar"></table></div><p>after</p>',
  ],
  [
    '```js\nlet a = "<b>";\n\n```\nafter',
    '<pre tabindex="0">let a = &#34;&lt;b&gt;&#34;;\n</pre><p>after</p>',
  ],
  ['~~~\nnever closed', '<pre tabindex="0">never closed</pre>'],
  ['a  \nb\\\nc', '<p>a  <br>b<br>c</p>'],
  ['a | b\nc', '<p>a | b\nc</p>'],
] as const) {
  test(`prose() converts ${JSON.stringify(text)}`, () => assert.equal(prose(text).text, expected));
}

for (const [text, expected] of [
  ['*it* _it_ **b *i* b** __b__ ~~x~~', '<i>it</i> <i>it</i> <b>b <i>i</i> b</b> <b>b</b> <del>x</del>'],
  ['snake_case_name 2 * 3 * 4 **a \\*no\\* _a', 'snake_case_name 2 * 3 * 4 **a *no* _a'],
  ['a `b` c ` d', 'a <code>b</code> c ` d'],
  ['`', '`'],
  ['`` a`b `` `*x*`', '<code>a`b</code> <code>*x*</code>'],
  ['[a *b* [c]](/d#e "title")', LINK('/d#e', 'a *b* [c]')],
  ['[a](<x>) ![pic](https://p.example/a.png)', `${LINK('x', 'a')} ${LINK('https://p.example/a.png', 'pic')}`],
  [
    'see https://a.example/x?y=1. <mailto:a@b.example> <a@b.example>',
    `see ${LINK('https://a.example/x?y=1')}. ${LINK('mailto:a@b.example')} ${LINK('mailto:a@b.example', 'a@b.example')}`,
  ],
  ['<b>no</b> <!-- x --> &amp;', '&lt;b&gt;no&lt;/b&gt; &lt;!-- x --&gt; &amp;amp;'],
] as const) {
  test(`inline() converts the Markdown ${JSON.stringify(text)} to HTML`, () =>
    assert.equal(inline(text).text, expected));
}

for (const url of [
  'javascript:alert(1)',
  'JaVaScRiPt:alert`1`',
  ' javascript:1',
  'java\tscript:1',
  '\u0001javascript:1',
  'data:text/html,x',
  'vbscript:x',
  'blob:x',
  'file:///etc',
  'java\\\nscript:x',
  ':x',
]) {
  test(`inline() does not create a link to the invalid or unsafe address ${JSON.stringify(url)}`, () => {
    for (const text of [`[a](${url})`, `[a](<${url}>)`, `![a](${url})`, `<${url}>`])
      assert.doesNotMatch(inline(text).text, /<a /, text);
  });
}

test('prose() returns empty HTML for missing or blank Markdown', () => {
  for (const nothing of [undefined, '', ' \n\n ']) assert.equal(prose(nothing).text, '');
});

test('prose() closes every HTML element that it opens, and Markdown text cannot end an enclosing element', () => {
  const below = seeded(11);
  const alphabet = [
    '<',
    '>',
    '"',
    "'",
    '&',
    '*',
    '_',
    '`',
    '[',
    ']',
    '(',
    ')',
    '!',
    '|',
    '-',
    '\n',
    ' ',
    '\\',
    '#',
    '1.',
    '~~',
    'a',
    'x:',
    'https://',
    '<script>',
    '---',
    '|-|',
    '```',
    '  ',
  ];
  const tags =
    /<\/?(?:p|b|i|del|code|pre|ul|ol|li|hr|br|blockquote|table|thead|tbody|tr|th|td|div|a)(?: (?:href="[^"<>]*" rel="noopener noreferrer"|tabindex="0"|start="\d+"|scope="col"(?: class="a[cr]")?|class="a[cr]"|class="g" tabindex="0"))?>/g;
  for (let round = 0; round < 5_000; round++) {
    const text = Array.from({ length: below(30) }, () => alphabet[below(alphabet.length)]!).join('');
    assert.doesNotMatch(prose(text).text.replace(tags, ''), /[<>"']|&(?!amp;|lt;|gt;|#34;|#39;)/, text);
    for (const [, url] of prose(text).text.matchAll(/href="([^"]*)"/g))
      assert.match(url!, /^(?:https?:|mailto:|[^:]*$|[^:]*[/?#])/i, text);
  }
});
