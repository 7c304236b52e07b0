/**
 * What `npm pack` would publish, by content: a line `<SHA-256>  <path>` for each file, as `sha256sum -c` reads it, and at the end the
 * SHA-256 of those lines. It is the same on every machine, whatever packs and compresses; `npm run build` comes first.
 */
import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');

const { status, stdout, stderr } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: ROOT, encoding: 'utf8', shell: process.platform === 'win32' });
if (status !== 0) throw new Error(`npm cannot say what it would pack:\n${stderr}`);
const parsed = JSON.parse(stdout) as unknown;
const [packed] = (Array.isArray(parsed) ? parsed : Object.values(parsed as object)) as { files: { path: string }[] }[]; // by name since npm 11
const paths = packed!.files.map(({ path }) => path).sort();
const lines = paths.map((path) => `${hash('sha256', readFileSync(join(ROOT, path)))}  ${path}\n`).join('');
process.stdout.write(`${lines}${hash('sha256', lines)}  ${paths.length} files\n`);
