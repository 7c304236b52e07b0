/**
 * A release: what the section "Without a network" of the manual of operations says, with its commands, and what publint and
 * "Are the types wrong?" say about the package.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, readFileSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ROOT } from './support/build.ts';
import { installPackage } from './support/installed.ts';
import { manual } from './support/manuals.ts';
import { folder, run, write } from './support/run.ts';
import { npmEnvironment, scratch } from './support/scratch.ts';
import type { Ended } from './support/run.ts';

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
/** A project that has installed the package. */
const consumer = folder({ after });
let tarball = '';

before(async () => {
  tarball = await installPackage(consumer);
});

/** Environment of an npm that can reach no registry. */
const OFFLINE = {
  ...npmEnvironment(),
  npm_config_registry: 'http://127.0.0.1:1',
  npm_config_loglevel: 'notice',
};

/** Commands of the section of the manual, by the title in bold before them. */
const COMMANDS = new Map(
  [
    .../^## Without a network\n[^]*?(?=^## )/m
      .exec(manual('src/operations/README.md'))![0]
      .matchAll(/^\*\*([^*]+)\.\*\*(?:(?!^\*\*)[^])*?^```sh\n([^]*?)^```$/gm),
  ].map(([, title, text]) => [title!, text!.trim()]),
);

async function succeeds(command: string, cwd: string): Promise<Ended> {
  const ended = await run('bash', ['-ec', command], { cwd, env: OFFLINE });
  assert.equal(ended.status, 0, ended.stderr);
  return ended;
}

test('the manual of operations has commands for origin, bill of materials and registry', () => {
  assert.deepEqual([...COMMANDS.keys()], ['Origin', 'Bill of materials', 'A registry of your own']);
});

test('publint and "Are the types wrong?" find nothing in the npm package', async (t) => {
  const tools = scratch(t, 'release', { publint: '0.3.25', '@arethetypeswrong/cli': '0.18.5' });
  if (tools === undefined) return;
  for (const args of [
    ['publint/src/cli.js', '--strict', tarball],
    ['@arethetypeswrong/cli/dist/index.js', '--profile', 'esm-only', tarball],
  ]) {
    const [file = '', ...rest] = args;
    const { status, stdout, stderr } = await run(process.execPath, [
      join(tools, 'node_modules', file),
      ...rest,
    ]);
    assert.equal(status, 0, stdout + stderr);
    assert.doesNotMatch(stdout, /Suggestions|Warnings|Errors/);
  }
});

test('a build of the sources in another folder is the npm package byte for byte', async (t) => {
  const clone = folder(t);
  for (const name of ['.github', 'bin', 'src', 'LICENSE', 'README.md', 'package.json', 'tsconfig.json'])
    cpSync(join(ROOT, name), join(clone, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  const commands = COMMANDS.get('Origin')!;
  assert.match(commands, /^npm ci$/m);
  await succeeds(commands.replace('npm ci', ''), clone);
  const packed = readFileSync(join(clone, `svc-${version}.tgz`));
  if (process.umask() === 0o022) assert.ok(packed.equals(readFileSync(tarball)));
});

test('the bill of materials of a project has svc as its only component, with the checksum of the package', async () => {
  await succeeds(`npm pkg set version=1.0.0\n${COMMANDS.get('Bill of materials')!}`, consumer);
  const { components } = JSON.parse(readFileSync(join(consumer, 'sbom.json'), 'utf8')) as {
    components: {
      name: string;
      version: string;
      hashes: { alg: string; content: string }[];
      licenses: unknown;
    }[];
  };
  const content = createHash('sha512').update(readFileSync(tarball)).digest('hex');
  assert.deepEqual(
    components.map(({ name, version, hashes, licenses }) => ({ name, version, hashes, licenses })),
    [{ name: 'svc', version, hashes: [{ alg: 'SHA-512', content }], licenses: [{ license: { id: 'MIT' } }] }],
  );
});

test('the package is published under a scope without a correction by npm, and a project that installs it as "svc" makes such projects', async (t) => {
  const path = folder(t, { 'project/package.json': '{"private":true,"type":"module"}' });
  cpSync(tarball, join(path, `svc-${version}.tgz`));
  const { stderr } = await succeeds(
    COMMANDS.get('A registry of your own')!.replace('npm publish', 'npm publish --dry-run'),
    path,
  );
  assert.match(stderr, new RegExp(`name: @acme/svc\\n.*version: ${version}\\n`));
  assert.doesNotMatch(
    stderr,
    /auto-corrected|npm warn (?!publish This command requires you to be logged in)/,
  );

  const project = join(path, 'project');
  await succeeds('cd ../package && npm pack --ignore-scripts --pack-destination ..', project);
  await succeeds(`npm install --offline --no-audit svc@file:../acme-svc-${version}.tgz`, project);
  await succeeds('npx --no svc new shop --registry', project);
  const shop = JSON.parse(readFileSync(join(project, 'shop/package.json'), 'utf8')) as {
    dependencies: object;
  };
  assert.deepEqual(shop.dependencies, { svc: `npm:@acme/svc@${version}` });
  write(project, { 'app.ts': "import { Svc } from 'svc';\nexport const app = new Svc();\n" });
  await succeeds('npx --no svc check app.ts --env test', project);
  assert.deepEqual(
    readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['svc'],
  );
});
