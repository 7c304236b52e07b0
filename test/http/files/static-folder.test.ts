/** The cache of a static folder: how long an entry is used, and when it is removed. */
import assert from 'node:assert/strict';
import { linkSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { StaticFolder, TRUSTED_MS } from '../../../src/http/files/static-folder.ts';
import { folder as newFolder } from '../../support/run.ts';

/** Bytes that an entry takes in addition to the content of its file. */
const ENTRY_BYTES = 2 * 1_024;
const FILE_BYTES = 65_536 - ENTRY_BYTES;
/** Number of files with FILE_BYTES that fit into the cache. */
const MOST = 33_554_432 / (FILE_BYTES + ENTRY_BYTES);

interface Opened {
  readonly path: string;
  readonly clock: ManualClock;
  readonly folder: StaticFolder;
  look(name: string): Promise<boolean>;
  isCached(name: string): boolean;
}

/** Opens a folder with these files. */
function opened(t: TestContext, files: Readonly<Record<string, string>>): Opened {
  const path = newFolder(t, files);
  for (const name of Object.keys(files)) utimesSync(join(path, name), 784_111_777, 784_111_777);
  const folder = new StaticFolder(path, {
    index: ['index.html'],
    allowsDotfiles: false,
    followsSymlinks: false,
    isPrecompressed: false,
    cacheControl: () => 'no-cache',
  });
  folder.open(TRUSTED_MS);
  const clock = new ManualClock();
  return {
    path,
    clock,
    folder,
    look: async (name) => (await folder.look(name, name.split('/').filter(Boolean), clock)) !== undefined,
    isCached: (name) => folder.recent(name, clock) !== undefined,
  };
}

/** Gives a file further names. Returns all names. */
function linked(path: string, name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const other = `${index}-${name}`;
    linkSync(join(path, name), join(path, other));
    return other;
  });
}

test('StaticFolder caches files of together 32 MiB, and removes the least recently used file first', async (t) => {
  const { path, look, isCached } = opened(t, { 'a.txt': 'a'.repeat(FILE_BYTES) });
  const names = linked(path, 'a.txt', MOST + 2);
  const filling = names.slice(0, MOST);
  for (const name of filling) assert.ok(await look(name));
  assert.deepEqual(filling.filter(isCached), filling); // the last name that is asked for is used last
  assert.ok(isCached(names[0]!)); // now the second one is the least recently used
  assert.ok(await look(names[MOST]!));
  assert.deepEqual([names[0]!, names[1]!, names[2]!, names[MOST]!].map(isCached), [true, false, true, true]);
});

test('StaticFolder counts a file once, however often it is looked up, and no more after it was removed', async (t) => {
  const { path, look, isCached } = opened(t, { 'a.txt': 'a'.repeat(FILE_BYTES), 'small.txt': 'small' });
  assert.ok(await look('small.txt'));
  for (let count = 0; count < 2 * MOST; count++) assert.ok(await look('a.txt'));
  assert.deepEqual([isCached('a.txt'), isCached('small.txt')], [true, true]);
  for (let count = 0; count < 2 * MOST; count++) {
    const [name] = linked(path, 'a.txt', 1) as [string];
    assert.ok(await look(name));
    rmSync(join(path, name));
    assert.equal(await look(name), false);
    assert.equal(isCached(name), false);
  }
  assert.deepEqual([isCached('a.txt'), isCached('small.txt')], [true, true]);
});

test('StaticFolder uses an entry without looking at the file for the time that open() got', async (t) => {
  const { path, clock, look, isCached } = opened(t, { 'a.txt': 'a', 'docs/index.html': 'docs' });
  for (const name of ['a.txt', 'docs', 'docs/', 'docs/index.html']) {
    assert.equal(isCached(name), false, name);
    assert.equal(await look(name), true, name);
    await clock.advance(TRUSTED_MS - 1);
    assert.equal(isCached(name), true, name);
    await clock.advance(1);
    assert.equal(isCached(name), false, name);
  }
  writeFileSync(join(path, 'b.txt'), 'b');
  assert.equal(await look('b.txt'), true);
  assert.equal(isCached('b.txt'), true);
});
