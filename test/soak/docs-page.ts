/**
 * The page at `/docs` of 500 operations in Chromium, compared with a list of 20,000 items that a script creates
 * in the same page.
 *
 *   node --conditions=svc-source test/soak/docs-page.ts
 *
 * Asserted: the page is there before the list would be, and the first search takes less than a second. The
 * least of five loads counts. Without Chromium nothing is measured, unless REQUIRE_BROWSER=1. SOAK_SECONDS has
 * no effect.
 */
import assert from 'node:assert/strict';
import { Svc, createLogger } from 'svc';
import { DocsPage } from '../../src/openapi/docs/page.ts';
import { Chromium, chromiumProgram, type Page } from '../support/chromium.ts';
import { largeDocument } from '../support/openapi-documents.ts';
import { scoped } from '../support/soak.ts';

const LOADS = 5;
const SEARCH_MS = 1_000;

const LIST =
  '(() => { const started = performance.now(); const list = document.createElement("ul"); for (let n = 0; n < 20000; n++) { const item = document.createElement("li"); item.textContent = "item " + n; list.append(item); } document.body.append(list); list.getBoundingClientRect(); list.remove(); return performance.now() - started; })()';
const LOAD =
  '(() => { const [{ domContentLoadedEventEnd, responseStart }] = performance.getEntriesByType("navigation"); return domContentLoadedEventEnd - responseStart; })()';
const SEARCH =
  '(() => { const started = performance.now(); const input = document.getElementById("search"); input.value = "amount"; input.dispatchEvent(new Event("input")); return performance.now() - started; })()';

async function measure(page: Page): Promise<void> {
  let [pageMs, listMs] = [Infinity, Infinity];
  for (let load = 0; load < LOADS; load++) {
    await page.reload();
    listMs = Math.min(listMs, await page.run<number>(LIST));
    pageMs = Math.min(pageMs, await page.run<number>(LOAD));
  }
  const searchMs = await page.run<number>(SEARCH);
  const [shown, list, search] = [pageMs, listMs, searchMs].map(Math.round);
  console.log(`page ${shown} ms, list ${list} ms, first search ${search} ms`);
  assert.ok(pageMs < listMs, 'the page takes longer than the list');
  assert.ok(searchMs < SEARCH_MS, 'the first search takes too long');
}

if (chromiumProgram() === undefined && process.env['REQUIRE_BROWSER'] !== '1') {
  console.log('SKIPPED: there is no Chromium');
} else {
  await scoped(async (scope) => {
    const docs = new DocsPage(() => largeDocument(500));
    const app = new Svc({ env: 'test', logger: createLogger({ level: 'silent' }) });
    app.get('/large/docs', { public: true, meta: { docs: false } }, ({ req }) => docs.respond(req));
    const server = await app.run({ port: 0, handleSignals: false });
    scope.after(() => server.close());
    const page = await (await Chromium.start(scope)).visitor();
    await page.open(`${server.url}/large/docs`);
    await measure(page);
  });
  console.log('ok');
}
