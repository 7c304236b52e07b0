/**
 * Documents before others' eyes: the meta-schema of OpenAPI 3.1, and two linters at their strictest, must find nothing.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { before, test } from 'node:test';
import { BIN, build } from './support/build.ts';
import { generatedApp } from './support/openapi-app.ts';
import { folder as temporary, write } from './support/run.ts';
import { npmEnvironment, scratch } from './support/scratch.ts';
import type { TestContext } from 'node:test';
import type { OpenApiDocument } from '../src/index.ts';

before(build);

const TOOLS = { '@seriousme/openapi-schema-validator': '2.11.0', '@redocly/cli': '2.77.0', '@stoplight/spectral-cli': '6.16.3' };

/** What each of the tools says of all of the files. */
async function verdicts(tools: string, files: readonly string[], cwd: string): Promise<Record<string, unknown>> {
  const { resolve } = createRequire(join(tools, 'package.json'));
  const { Validator } = await import(pathToFileURL(join(tools, 'node_modules/@seriousme/openapi-schema-validator/index.js')).href) as { Validator: new () => { validate(document: object): Promise<{ valid: boolean; errors?: unknown }> } };
  const validated = await Promise.all(files.map((file) => new Validator().validate(JSON.parse(readFileSync(file, 'utf8')) as object)));
  const tool = (path: string, args: readonly string[]): { status: number | null; stdout: string; stderr: string } => spawnSync(process.execPath, [resolve(path), ...args], {
    cwd, encoding: 'utf8', maxBuffer: 50_000_000, env: { ...process.env, ...npmEnvironment(), REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', NO_COLOR: '1' },
  });
  const redocly = tool('@redocly/cli/bin/cli.js', ['lint', '--extends', 'recommended-strict', '--format', 'json', '--max-problems', '20', ...files]);
  write(cwd, { 'spectral.json': '{"extends":["spectral:oas"]}' });
  const spectral = tool('@stoplight/spectral-cli/dist/index.js', ['lint', '--ruleset', join(cwd, 'spectral.json'), '--format', 'json', '--quiet', '--fail-severity', 'hint', ...files]);
  return {
    metaSchema: validated.flatMap(({ valid, errors }) => valid ? [] : [errors]),
    redocly: redocly.status === 0 ? problemsIn(redocly.stdout, files.length) : redocly.stdout + redocly.stderr,
    spectral: spectral.status === 0 ? JSON.parse(spectral.stdout) as unknown : spectral.stdout + spectral.stderr,
  };
}

/** It prints an object for each document. */
function problemsIn(stdout: string, count: number): unknown {
  const objects = stdout.match(/\{$[^]*?^\}/gm) ?? [];
  assert.equal(objects.length, count, stdout);
  return objects.flatMap((json) => (JSON.parse(json) as { problems: unknown[] }).problems);
}

const NOTHING = { metaSchema: [], redocly: [], spectral: [] };

/** Where the tools are; undefined where they are not to be had, or not wanted. */
function toolsFor(t: TestContext): string | undefined {
  if (process.env['FAST_TESTS'] === '1') return void t.skip('FAST_TESTS=1');
  return scratch(t, 'openapi-validators', TOOLS);
}

/** The tools take longer to start than to look at a document: they get all that a test has at once. */
async function mustBeClean(t: TestContext, documents: readonly OpenApiDocument[]): Promise<void> {
  const tools = toolsFor(t);
  if (tools === undefined) return;
  const cwd = temporary(t, Object.fromEntries(documents.map((document, index) => [`${index}.json`, JSON.stringify(document)])));
  assert.deepEqual(await verdicts(tools, documents.map((_document, index) => join(cwd, `${index}.json`)), cwd), NOTHING);
}

test('validators find nothing in the documents of 300 routes that a seed has made, and of a new project in any environment', async (t) => {
  const generated = generatedApp(300, 300).openapi();
  assert.equal(Object.keys(generated.paths).length, 300);
  const cwd = temporary(t, {});
  assert.equal(spawnSync(process.execPath, [BIN, 'new', 'shop', '--link'], { cwd, encoding: 'utf8' }).status, 0);
  const written = ['development', 'production'].map((env) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, 'openapi', 'src/app.ts', '--env', env, '--env-file', '.env'], {
      cwd: join(cwd, 'shop'), encoding: 'utf8', env: { ...process.env, NODE_V8_COVERAGE: '', SVC_GITHUB_CLIENT_ID: 'id', SVC_GITHUB_CLIENT_SECRET: 'github-client-secret', SVC_BASE_URL: 'https://notes.example' },
    });
    assert.equal(status, 0, stderr);
    const document = JSON.parse(stdout) as OpenApiDocument;
    assert.deepEqual(Object.keys(document.paths), ['/api/notes', '/api/notes/{id}', '/oauth/login', '/oauth/callback', '/oauth/token', '/oauth/revoke']);
    return document;
  });
  await mustBeClean(t, [generated, ...written]);
});

test('validators do find something: what they say is heard', async (t) => {
  const tools = toolsFor(t);
  if (tools === undefined) return;
  const document = generatedApp(1, 3).openapi();
  const [path] = Object.keys(document.paths);
  const wrong = { ...document, paths: { [path!]: { get: { operationId: 'x y', responses: {}, parameters: [{ name: 'a', in: 'nowhere' }] } } } };
  const cwd = temporary(t, { 'good.json': JSON.stringify(document), 'wrong.json': JSON.stringify(wrong) }); // of several documents each is looked at
  for (const [tool, verdict] of Object.entries(await verdicts(tools, [join(cwd, 'good.json'), join(cwd, 'wrong.json')], cwd))) {
    assert.notDeepEqual(verdict, [], tool);
    if (typeof verdict === 'string') assert.match(verdict, /wrong\.json/, tool);
  }
});
