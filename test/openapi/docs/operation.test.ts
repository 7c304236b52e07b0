import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDocument } from '../../../src/openapi/docs/document.ts';
import { operationMarkup, pathMarkup } from '../../../src/openapi/docs/operation.ts';
import { SchemaWriter } from '../../../src/openapi/docs/schema.ts';
import { LIBRARY } from '../../support/openapi-documents.ts';

const document = readDocument(LIBRARY);
const writer = new SchemaWriter(document);

/** Returns the markup of one operation. */
function written(id: string): string {
  return operationMarkup(
    document.sections.flatMap(({ operations }) => operations).find((operation) => operation.id === id)!,
    writer,
  ).text;
}

test("operationMarkup() returns a details element, and the content of the element has the operation's id", () => {
  assert.match(
    written('readBook'),
    /^<details class="op get"><summary><h3><b class="m">GET<\/b> <code>\/books\/<i>\{id\}<\/i><\/code><\/h3><span class="s">Read a book<\/span><\/summary><div class="b" id="readBook">/,
  );
});

test('operationMarkup() marks deprecated operations, and lists the required security schemes with their scopes', () => {
  assert.match(written('removeBook'), /<s>deprecated<\/s><span class="l"/);
  assert.match(
    written('addBook'),
    /<p class="a">.*<code>bearerAuth<\/code> <code>books:write<\/code> or <code>apiKey<\/code><\/p>/,
  );
  assert.match(written('payFine'), /<code>session<\/code> \+ <code>csrf<\/code><\/p>/);
  assert.match(written('listLoans'), /<code>bearerAuth<\/code>, or none<\/p>/);
  for (const open of ['listLoans', 'listBooks'])
    assert.doesNotMatch(written(open).split('</summary>')[0]!, /class="l"/);
});

test('operationMarkup() groups parameters into query, path, header and cookie, and only links to named schemas', () => {
  const text = written('listBooks');
  assert.match(
    text,
    /<h4>Query parameters<\/h4><ul class="f"><li><code>page<\/code> <span class="t">integer<\/span><p>Counts from one\.<\/p><p class="k">1 … 1,000,000 · default <code>1<\/code><\/p><li>/,
  );
  assert.match(
    written('changeBook'),
    /<h4>Path parameters<\/h4>.*<h4>Headers<\/h4>.*<h4>Request body <em>required<\/em><\/h4><p class="t"><code>application\/merge-patch\+json<\/code> object<\/p><p class="k">no additional properties<\/p><ul class="f"><li><code>title<\/code>/,
  );
});

test('operationMarkup() shows success responses expanded, and groups error responses with equal content', () => {
  const text = written('addBook');
  assert.match(
    text,
    /<details class="r" open><summary><b class="c2">201<\/b> The book as it is kept<\/summary><p class="t"><code>application\/json<\/code> <a href="#schema-Book">Book<\/a><\/p><ul class="f">/,
  );
  assert.match(
    text,
    /<details class="r"><summary><b class="c4">400<\/b> <b class="c4">401<\/b> <b class="c4">403<\/b> <b class="c4">409<\/b><\/summary><dl><dt><b class="c4">400<\/b><dd>The cause of the error/,
  );
  assert.match(
    written('removeBook'),
    /<p class="r"><b class="c2">204<\/b> It is gone<\/p><details class="r"><summary><b class="c4">404<\/b> The cause of the error<\/summary>/,
  );
  assert.match(
    written('listBooks'),
    /<p class="k">Headers<\/p><ul class="f"><li><code>X-Request-Id<\/code> <span class="t">string<small>uuid<\/small><\/span>/,
  );
});

test('operationMarkup() shows an example of a request body or response', () => {
  assert.match(
    written('readBook'),
    /<details class="e"><summary>Example<\/summary><pre tabindex="0">\{\n {2}&#34;id&#34;: 7,\n/,
  );
});

test('pathMarkup() highlights path parameters, and tolerates an opening brace without a closing brace', () => {
  assert.equal(pathMarkup('/a/{b}.{c}/{<d').text, '/a/<i>{b}</i>.<i>{c}</i>/{&lt;d');
});

test('operationMarkup() shows callbacks with their bodies, and marks webhooks, because the docs page cannot call them', () => {
  const body = { requestBody: { content: { 'application/json': { schema: { type: 'integer' } } } } };
  const hooked = readDocument({
    paths: { '/a': { post: { callbacks: { paid: { '{$request.body#/url}': { put: body } } } } } },
    webhooks: { shipped: { post: body } },
  });
  const [call, hook] = hooked.sections.map(
    ({ operations }) => operationMarkup(operations[0]!, new SchemaWriter(hooked)).text,
  );
  assert.match(
    call!,
    /<h4>Callbacks<\/h4><p>paid: <b>PUT<\/b> <code>\{\$request\.body#\/url\}<\/code><\/p><p class="t"><code>application\/json<\/code> integer<\/p>/,
  );
  assert.match(
    hook!,
    /^<details class="op post hook"><summary><h3><b class="m">POST<\/b> <code>shipped<\/code>/,
  );
});
