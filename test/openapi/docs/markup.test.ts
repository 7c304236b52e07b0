import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escape, html, joined } from '../../../src/openapi/docs/markup.ts';
import { seeded } from '../../support/random.ts';

test('html`` escapes text, also in lists, and leaves markup and numbers unchanged', () => {
  assert.equal(
    html`<p title="${'"x"'}">${"<b>&'"}${html`<b>`}${3}${['<', html`>`]}${false}${undefined}</p>`.text,
    '<p title="&#34;x&#34;">&lt;b&gt;&amp;&#39;<b>3&lt;></p>',
  );
});

test('escape() escapes every character that could end a text or an attribute, and keeps all text', () => {
  const below = seeded(7);
  const alphabet = ['<', '>', '"', "'", '&', '&amp;', 'a', ' ', '\n', 'é', '😀', '/', '-', '!', '\0'];
  for (let round = 0; round < 2_000; round++) {
    const text = Array.from({ length: below(13) }, () => alphabet[below(alphabet.length)]!).join('');
    const escaped = escape(text);
    assert.doesNotMatch(escaped, /[<>"'\0]|&(?!amp;|lt;|gt;|#34;|#39;)/);
    assert.equal(
      escaped
        .replaceAll('&lt;', '<')
        .replaceAll('&gt;', '>')
        .replaceAll('&#34;', '"')
        .replaceAll('&#39;', "'")
        .replaceAll('&amp;', '&'),
      text.replaceAll('\0', '\ufffd'),
    );
  }
});

test('joined() joins texts and markup by a separator, and escapes the separator', () => {
  assert.equal(joined(['a', html`<i>`], ' & ').text, 'a &amp; <i>');
});
