import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escape, html, joined } from '../../../src/openapi/docs/markup.ts';
import { seeded } from '../../support/random.ts';

test('the template tag html escapes strings, also in lists, and does not escape markup and numbers', () => {
  assert.equal(
    html`<p title="${'"x"'}">${"<b>&'"}${html`<b>`}${3}${['<', html`>`]}${false}${undefined}</p>`.text,
    '<p title="&#34;x&#34;">&lt;b&gt;&amp;&#39;<b>3&lt;></p>',
  );
});

test('escape() replaces every character that could end an HTML text or attribute, and loses no character', () => {
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

test('joined() joins strings and markup by a separator, and escapes the separator as HTML', () => {
  assert.equal(joined(['a', html`<i>`], ' & ').text, 'a &amp; <i>');
});
