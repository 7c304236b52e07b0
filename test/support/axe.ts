/**
 * Runs the accessibility checker axe-core on a page in Chromium. It is installed from a registry; without
 * one, tests that need it are skipped.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratch } from './scratch.ts';
import type { TestContext } from 'node:test';
import type { Page } from './chromium.ts';

/** Returns the source of axe-core, to be run in a page. Undefined when the test has been skipped. */
export function axeSource(t: TestContext): string | undefined {
  const folder = scratch(t, 'axe', { 'axe-core': '~4.11.0' });
  return folder === undefined
    ? undefined
    : readFileSync(join(folder, 'node_modules', 'axe-core', 'axe.min.js'), 'utf8');
}

/** Fails with each accessibility problem and its place. The page must contain axe-core. */
export async function assertAccessible(
  page: Page,
  t: TestContext,
  when: string,
  leastPasses = 20,
): Promise<void> {
  await page.run(
    'new Promise((resolve) => { document.documentElement.style.setProperty("transition", "none"); requestAnimationFrame(() => requestAnimationFrame(resolve)); })',
  );
  const { violations, passes } = await page.run<{ violations: string[]; passes: number }>(
    `axe.run(document, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then(({ violations, passes }) => ({ passes: passes.length, violations: violations.flatMap(({ id, nodes }) => nodes.map((node) => id + ': ' + node.target.join(' ') + ' ' + node.html.slice(0, 150) + ' ' + (node.any[0]?.message ?? node.all[0]?.message ?? node.none[0]?.message ?? ''))) }))`,
  );
  assert.ok(passes > leastPasses, 'the checker has looked');
  assert.deepEqual(violations, [], when);
  t.diagnostic(`${when}: ${passes} rules pass`);
}
