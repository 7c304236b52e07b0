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

/** What each of the tools says. */
async function verdicts(tools: string, file: string, cwd: string): Promise<Record<string, unknown>> {
  const { resolve } = createRequire(join(tools, 'package.json'));
  const { Validator } = await import(pathToFileURL(join(tools, 'node_modules/@seriousme/openapi-schema-validator/index.js')).href) as { Validator: new () => { validate(document: object): Promise<{ valid: boolean; errors?: unknown }> } };
  const { valid, errors } = await new Validator().validate(JSON.parse(readFileSync(file, 'utf8')) as object);
  const tool = (path: string, args: readonly string[]): { status: number | null; stdout: string; stderr: string } => spawnSync(process.execPath, [resolve(path), ...args], {
    cwd, encoding: 'utf8', maxBuffer: 50_000_000, env: { ...process.env, ...npmEnvironment(), REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', NO_COLOR: '1' },
  });
  const redocly = tool('@redocly/cli/bin/cli.js', ['lint', '--extends', 'recommended-strict', '--format', 'json', '--max-problems', '20', file]);
  write(cwd, { 'spectral.json': '{"extends":["spectral:oas"]}' });
  const spectral = tool('@stoplight/spectral-cli/dist/index.js', ['lint', '--ruleset', join(cwd, 'spectral.json'), '--format', 'json', '--quiet', '--fail-severity', 'hint', file]);
  return {
    metaSchema: valid ? [] : errors,
    redocly: redocly.status === 0 ? problemsIn(redocly.stdout) : redocly.stdout + redocly.stderr,
    spectral: spectral.status === 0 ? JSON.parse(spectral.stdout) as unknown : spectral.stdout + spectral.stderr,
  };
}

function problemsIn(json: string): unknown {
  return (JSON.parse(json.slice(json.indexOf('{'))) as { problems: unknown }).problems;
}

const NOTHING = { metaSchema: [], redocly: [], spectral: [] };

/** Where the tools are; undefined where they are not to be had, or not wanted. */
function toolsFor(t: TestContext): string | undefined {
  if (process.env['FAST_TESTS'] === '1') return void t.skip('FAST_TESTS=1');
  return scratch(t, 'openapi-validators', TOOLS);
}

async function mustBeClean(t: TestContext, document: OpenApiDocument): Promise<void> {
  const tools = toolsFor(t);
  if (tools === undefined) return;
  const cwd = temporary(t, { 'openapi.json': JSON.stringify(document) });
  assert.deepEqual(await verdicts(tools, join(cwd, 'openapi.json'), cwd), NOTHING);
}

test('validators find nothing in the document of 300 routes that a seed has made', async (t) => {
  const document = generatedApp(300, 300).openapi();
  assert.equal(Object.keys(document.paths).length, 300);
  await mustBeClean(t, document);
});

test('validators find nothing in the document of a new project, in any environment', async (t) => {
  const cwd = temporary(t, {});
  assert.equal(spawnSync(process.execPath, [BIN, 'new', 'shop', '--link'], { cwd, encoding: 'utf8' }).status, 0);
  for (const env of ['development', 'production']) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, 'openapi', 'src/app.ts', '--env', env, '--env-file', '.env'], {
      cwd: join(cwd, 'shop'), encoding: 'utf8', env: { ...process.env, NODE_V8_COVERAGE: '', SVC_GITHUB_CLIENT_ID: 'id', SVC_GITHUB_CLIENT_SECRET: 'github-client-secret', SVC_BASE_URL: 'https://notes.example' },
    });
    assert.equal(status, 0, stderr);
    const document = JSON.parse(stdout) as OpenApiDocument;
    assert.deepEqual(Object.keys(document.paths), ['/api/notes', '/api/notes/{id}', '/oauth/login', '/oauth/callback', '/oauth/token', '/oauth/revoke']);
    await mustBeClean(t, document);
  }
});

test('validators do find something: what they say is heard', async (t) => {
  const tools = toolsFor(t);
  if (tools === undefined) return;
  const document = generatedApp(1, 3).openapi();
  const [path] = Object.keys(document.paths);
  const cwd = temporary(t, { 'openapi.json': JSON.stringify({ ...document, paths: { [path!]: { get: { operationId: 'x y', responses: {}, parameters: [{ name: 'a', in: 'nowhere' }] } } } }) });
  for (const [tool, verdict] of Object.entries(await verdicts(tools, join(cwd, 'openapi.json'), cwd))) assert.notDeepEqual(verdict, [], tool);
});
