/**
 * HTML escaping of text.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escapeHtml } from 'svc';

test('escapeHtml() escapes exactly the characters that end text, attributes or character references', () => {
  assert.equal(
    escapeHtml(`<a href="x" title='y'>é & 1</a>`),
    '&#60;a href=&#34;x&#34; title=&#39;y&#39;&#62;é &#38; 1&#60;/a&#62;',
  );
  assert.equal(escapeHtml(''), '');
});
