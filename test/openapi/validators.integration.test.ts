/**
 * The OpenAPI 3.1 meta-schema and two linters with their strictest rules find no problem in the documents.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { generatedApp } from '../support/openapi-app.ts';
import { folder, write } from '../support/run.ts';
import { npmEnvironment, scratch } from '../support/scratch.ts';
import type { TestContext } from 'node:test';
import type { OpenApiDocument } from '../../src/index.ts';

before(build);

const TOOLS = {
  '@seriousme/openapi-schema-validator': '2.11.0',
  '@redocly/cli': '2.77.0',
  '@stoplight/spectral-cli': '6.16.3',
};

/** Problems that the three validators report. */
interface Objections {
  readonly metaSchema: readonly unknown[];
  readonly redocly: readonly unknown[];
  readonly spectral: readonly unknown[];
}

const cwd = folder({ after });

/**
 * Returns each tool's problems for each file. The tools start slowly, so each checks all files in one run.
 */
async function objections(tools: string, files: readonly string[]): Promise<Record<string, Objections>> {
  const { resolve } = createRequire(join(tools, 'package.json'));
  const { Validator } = (await import(
    pathToFileURL(join(tools, 'node_modules/@seriousme/openapi-schema-validator/index.js')).href
  )) as {
    Validator: new () => { validate(document: object): Promise<{ valid: boolean; errors?: unknown }> };
  };
  const tool = (path: string, args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [resolve(path), ...args, ...files], {
      cwd,
      encoding: 'utf8',
      maxBuffer: 50_000_000,
      env: {
        ...process.env,
        ...npmEnvironment(),
        REDOCLY_TELEMETRY: 'off',
        REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true',
        NO_COLOR: '1',
      },
    });
    assert.equal(status, 1, `it objects to something\n${stdout}${stderr}`);
    return stdout;
  };
  const redocly =
    tool('@redocly/cli/bin/cli.js', [
      'lint',
      '--extends',
      'recommended-strict',
      '--format',
      'json',
      '--max-problems',
      '20',
    ]).match(/\{$[^]*?^\}/gm) ?? []; // one object for each document
  assert.equal(redocly.length, files.length);
  write(cwd, { 'spectral.json': '{"extends":["spectral:oas"]}' });
  const spectral = JSON.parse(
    tool('@stoplight/spectral-cli/dist/index.js', [
      'lint',
      '--ruleset',
      'spectral.json',
      '--format',
      'json',
      '--quiet',
      '--fail-severity',
      'hint',
    ]),
  ) as { source: string }[];
  const found = await Promise.all(
    files.map(async (file, index) => {
      const { valid, errors } = await new Validator().validate(
        JSON.parse(readFileSync(join(cwd, file), 'utf8')) as object,
      );
      return [
        file,
        {
          metaSchema: valid ? [] : [errors],
          redocly: (JSON.parse(redocly[index]!) as { problems: unknown[] }).problems,
          spectral: spectral.filter(({ source }) => basename(source) === file),
        },
      ] as const;
    }),
  );
  assert.equal(
    found.reduce((sum, [, each]) => sum + each.spectral.length, 0),
    spectral.length,
    'each is about one of the files',
  );
  return Object.fromEntries(found);
}

/**
 * Returns documents of 300 generated routes, of a new project in each environment, and one invalid document.
 */
function documents(): Record<string, object> {
  const generated = generatedApp(300, 300).openapi();
  assert.equal(Object.keys(generated.paths).length, 300);
  assert.equal(
    spawnSync(process.execPath, [BIN, 'new', 'shop', '--link'], { cwd, encoding: 'utf8' }).status,
    0,
  );
  const written = ['development', 'production'].map((env) => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [BIN, 'openapi', 'src/app.ts', '--env', env, '--env-file', '.env'],
      {
        cwd: join(cwd, 'shop'),
        encoding: 'utf8',
        env: {
          ...process.env,
          NODE_V8_COVERAGE: '',
          SVC_GITHUB_CLIENT_ID: 'id',
          SVC_GITHUB_CLIENT_SECRET: 'github-client-secret',
          SVC_BASE_URL: 'https://notes.example',
        },
      },
    );
    assert.equal(status, 0, stderr);
    const document = JSON.parse(stdout) as OpenApiDocument;
    assert.deepEqual(Object.keys(document.paths), [
      '/api/notes',
      '/api/notes/{id}',
      '/oauth/login',
      '/oauth/callback',
      '/oauth/token',
      '/oauth/revoke',
      '/oauth/logout',
      '/oauth/{provider}/link',
      '/oauth/{provider}/unlink',
    ]);
    return document;
  });
  const small = generatedApp(1, 3).openapi();
  const wrong = {
    ...small,
    paths: {
      [Object.keys(small.paths)[0]!]: {
        get: { operationId: 'x y', responses: {}, parameters: [{ name: 'a', in: 'nowhere' }] },
      },
    },
  };
  return {
    'generated.json': generated,
    'development.json': written[0]!,
    'production.json': written[1]!,
    'small.json': small,
    'wrong.json': wrong,
  };
}

let judged: Promise<Record<string, Objections>> | undefined;

/** Returns the problems of each document; undefined if the tools cannot be installed. */
function judgedBy(t: TestContext): Promise<Record<string, Objections>> | undefined {
  const tools = scratch(t, 'openapi-validators', TOOLS);
  if (tools === undefined) return undefined;
  const judge = (): Promise<Record<string, Objections>> => {
    const all = documents();
    write(
      cwd,
      Object.fromEntries(Object.entries(all).map(([file, document]) => [file, JSON.stringify(document)])),
    );
    return objections(tools, Object.keys(all));
  };
  return (judged ??= judge());
}

test('OpenAPI validators accept the documents of 300 generated routes, and of a new project in each environment', async (t) => {
  const verdicts = await judgedBy(t);
  if (verdicts === undefined) return;
  const nothing = { metaSchema: [], redocly: [], spectral: [] };
  for (const file of ['generated.json', 'development.json', 'production.json'])
    assert.deepEqual(verdicts[file], nothing, file);
});

test('OpenAPI validators report the problems of an invalid document', async (t) => {
  const verdicts = await judgedBy(t);
  if (verdicts === undefined) return;
  for (const [tool, found] of Object.entries(verdicts['wrong.json']!)) assert.notDeepEqual(found, [], tool);
});
