import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Config, keyOf, variableOf, type Env } from '../../src/base/config.ts';
import { SvcError } from '../../src/base/errors.ts';

const cast =
  (pattern: RegExp) =>
  (error: unknown): boolean =>
    error instanceof SvcError && error.code === 'E_CONFIG_CAST' && pattern.test(error.message);

test('Config.get() takes a value from the first source that has one: environment, loadDict(), "values", "defaults", fallback', () => {
  const layers = { defaults: { a: 1, b: 1, c: 1, d: 1 }, values: { b: 2, c: 2, d: 2 } };
  const config = new Config({ ...layers, environment: { SVC_D: '4' } }).loadDict({ c: 3, d: 3 });
  assert.deepEqual(
    ['a', 'b', 'c', 'd', 'e'].map((key) => config.get(key, 0)),
    [1, 2, 3, 4, 0],
  );
  assert.deepEqual(
    [...config.reads().values()].map((read) => read.source),
    ['default', 'argument', 'dict', 'environment', 'none'],
  );
});

test('a second call of Config.loadDict() replaces the values of the first call, but not environment variables', () => {
  const config = new Config({ environment: { SVC_B: 'env' } });
  config.loadDict({ a: 'one', b: 'one' }).loadDict({ a: 'two', b: 'two' });
  assert.deepEqual([config.get('a', ''), config.get('b', '')], ['two', 'env']);
});

test('Config copies the values of all its sources, so later changes to the sources have no effect', () => {
  const [values, environment, dict] = [{ a: 1 }, { SVC_B: '1' }, { c: 1 }];
  const config = new Config({ values, environment }).loadDict(dict);
  values.a = 2;
  environment.SVC_B = '2';
  dict.c = 2;
  assert.deepEqual(
    ['a', 'b', 'c'].map((key) => config.get(key, 0)),
    [1, 1, 1],
  );
});

test('Config reads process.env if the option "environment" is not given', (t) => {
  process.env['SVC_CONFIG_TEST_ONLY'] = '5';
  t.after(() => {
    delete process.env['SVC_CONFIG_TEST_ONLY'];
  });
  assert.equal(new Config().get('configTestOnly', 0), 5);
});

test('Config treats undefined as absent, but treats null and the empty string as values', () => {
  const config = new Config({
    defaults: { a: 1, b: 1 },
    values: { a: undefined, b: null },
    environment: { SVC_C: '', SVC_D: undefined, SVC_: 'x', OTHER: 'x' },
  });
  assert.deepEqual(
    [config.get('a', 0), config.get('b'), config.get('c', 'x'), config.get('d', 'x'), config.get('e')],
    [1, null, '', 'x', undefined],
  );
});

for (const [key, variable] of [
  ['pageSize', 'SVC_PAGE_SIZE'],
  ['env', 'SVC_ENV'],
  ['baseUrl', 'SVC_BASE_URL'],
  ['oauth2Scopes', 'SVC_OAUTH2_SCOPES'],
  ['int8', 'SVC_INT8'],
  ['s3Bucket', 'SVC_S3_BUCKET'],
  ['maxBodyBytes', 'SVC_MAX_BODY_BYTES'],
  ['x509Cert', 'SVC_X509_CERT'],
] as const) {
  test(`Config maps the key ${key} to the environment variable ${variable}, and vice versa`, () => {
    assert.equal(variableOf(key), variable);
    assert.equal(keyOf(variable), key);
  });
}

test('variableOf() returns the same environment variable for every spelling of a config key', () => {
  for (const key of ['pageSize', 'page_size', 'PAGE_SIZE', 'SVC_PAGE_SIZE', 'PageSize', 'page-size'])
    assert.equal(variableOf(key), 'SVC_PAGE_SIZE', key);
  assert.equal(variableOf('baseURL'), 'SVC_BASE_URL');
  assert.equal(variableOf('HTTPServer'), 'SVC_HTTP_SERVER');
  const config = new Config({ environment: {} }).loadDict({ page_size: 20, SVC_BASE_URL: 'x' });
  assert.deepEqual([config.get('pageSize', 0), config.get('base_url', '')], [20, 'x']);
});

test('Config converts text to a number only if it is a finite decimal number', () => {
  for (const [text, value] of [
    ['20', 20],
    ['-1', -1],
    ['+0.5', 0.5],
    ['.5', 0.5],
    ['1.', 1],
    ['1e3', 1000],
    [' 7 ', 7],
    ['007', 7],
  ] as const) {
    assert.equal(new Config({ environment: { SVC_N: text } }).get('n', 0), value);
    assert.equal(new Config({ environment: { SVC_N: text } }).get('n', undefined, { cast: Number }), value);
  }
  for (const text of [
    '',
    ' ',
    'abc',
    '0x10',
    '1_000',
    '1,5',
    'NaN',
    'Infinity',
    '1e999',
    '5 apples',
    '--1',
  ]) {
    assert.throws(
      () => new Config({ environment: { SVC_N: text } }).get('n', 0),
      cast(/^Cannot read SVC_N: a finite decimal number is needed, found a string of \d+ characters?$/),
      text,
    );
  }
});

test('Config converts true, false, 1, 0, yes, no, on and off to booleans, in any letter case, and refuses other text', () => {
  for (const [value, words] of [
    [true, ['true', '1', 'yes', 'on', 'TRUE', 'Yes', ' on ']],
    [false, ['false', '0', 'no', 'off', 'Off']],
  ] as const) {
    for (const text of words) {
      assert.equal(new Config({ environment: { SVC_B: text } }).get('b', !value), value, text);
      assert.equal(
        new Config({ environment: { SVC_B: text } }).get('b', !value, { cast: Boolean }),
        value,
        text,
      );
    }
  }
  for (const text of ['', '2', 'y', 'enabled', 'null'])
    assert.throws(() => new Config({ environment: { SVC_B: text } }).get('b', false), cast(/SVC_B/), text);
});

test('Config.get() returns text unchanged if the cast is String, the fallback is a string, or neither is given', () => {
  const config = new Config({ environment: { SVC_S: ' 20 ' } });
  assert.deepEqual(
    [config.get('s', ''), config.get('s'), config.get('s', null), config.get('s', '', { cast: String })],
    [' 20 ', ' 20 ', ' 20 ', ' 20 '],
  );
});

test('Config.get() applies a cast only to strings, not to values of other types', () => {
  const list = (text: string): string[] => text.split(',');
  assert.deepEqual(new Config({ environment: { SVC_HOSTS: 'a,b' } }).get('hosts', [], { cast: list }), [
    'a',
    'b',
  ]);
  assert.deepEqual(
    new Config({ values: { hosts: ['c'] }, environment: {} }).get('hosts', [], { cast: list }),
    ['c'],
  );
  assert.deepEqual(new Config({ environment: {} }).get('hosts', ['d'], { cast: list }), ['d']);
});

test('if a cast throws, Config.get() throws an error that does not contain the text of the setting', () => {
  const config = new Config({ environment: { SVC_URL: 'hunter2', SVC_NAN: 'hunter2', SVC_NONE: 'hunter2' } });
  for (const read of [
    () => config.get('url', undefined, { cast: (text) => new URL(text), needs: 'a URL' }),
    () => config.get('nan', 0, { cast: Number.parseFloat }),
    () => config.get('none', 0, { cast: () => undefined as unknown as number }),
    () => config.get('url', ['a']),
    () => config.get('url', { a: 1 }),
  ]) {
    assert.throws(
      read,
      (error) =>
        cast(/^Cannot read SVC_(?:URL|NAN|NONE): /)(error) &&
        ![(error as Error).stack, (error as Error).cause, (error as SvcError).remedy]
          .join()
          .includes('hunter2'),
    );
  }
  assert.throws(
    () => config.get('url', undefined, { cast: (text) => new URL(text), needs: 'a URL' }),
    cast(/a URL is needed/),
  );
});

test('Config refuses a value in the option "values" whose type differs from the type of the fallback', () => {
  const config = new Config({ values: { n: true, s: 1234, b: 'maybe', nan: Number.NaN }, environment: {} });
  assert.throws(
    () => config.get('n', 0),
    cast(/^Cannot read the setting "n" \(SVC_N\): .* found a value of type boolean$/),
  );
  assert.throws(() => config.get('s', ''), cast(/found a value of type number$/));
  assert.throws(() => config.get('b', false), cast(/found a string of 5 characters$/));
  assert.throws(() => config.get('nan', 0), cast(/SVC_NAN/));
});

test('the TypeScript type of Config.get() is the type of the fallback or cast, never a literal type', () => {
  const config = new Config({ environment: {} });
  let size = config.get('pageSize', 20);
  size = 21;
  let name = config.get('name', 'x');
  name = 'y';
  let isOn = config.get('on', false);
  isOn = true;
  const url: URL | undefined = config.get('url', undefined, { cast: (text) => new URL(text) });
  let cast = config.get('n', 5, { cast: Number });
  cast = 6;
  const anything: unknown = config.get('x');
  // @ts-expect-error: unknown is not a number
  const wrong: number = config.get('x');
  assert.deepEqual(
    [size, name, isOn, url, cast, anything, wrong],
    [21, 'y', true, undefined, 6, undefined, undefined],
  );
});

test('Config.env is "development", "test" or "production", and is "production" by default', () => {
  assert.equal(new Config({ environment: {} }).env, 'production');
  for (const env of ['production', 'development', 'test'] satisfies Env[])
    assert.equal(new Config({ environment: { SVC_ENV: env } }).env, env);
  assert.equal(
    new Config({ values: { env: 'test' }, environment: { SVC_ENV: 'development' } }).env,
    'development',
  );
  for (const text of ['', 'prod', 'Production'])
    assert.throws(
      () => new Config({ environment: { SVC_ENV: text } }).env,
      cast(/^Cannot read SVC_ENV: "production" or "development" or "test" is needed/),
    );
  assert.throws(() => new Config({ values: { env: 5 }, environment: {} }).env, cast(/the setting "env"/));
});

test('Config.loadDict() is refused after freeze()', () => {
  const config = new Config({ environment: {} });
  config.freeze();
  assert.throws(
    () => config.loadDict({ a: 1 }),
    (error) => error instanceof SvcError && error.code === 'E_APP_FROZEN',
  );
  assert.equal(config.get('a', 0), 0);
});

test('Config.reads() lists every setting that was read, with its type and its default', () => {
  const config = new Config({ environment: { SVC_PAGE_SIZE: '5' } });
  config.get('pageSize');
  config.get('page_size', 20);
  config.get('pageSize', 20);
  config.get('url', undefined, { cast: (text) => new URL(text) });
  assert.deepEqual(
    [...config.reads()],
    [
      [
        'pageSize',
        { key: 'pageSize', variable: 'SVC_PAGE_SIZE', cast: 'number', fallback: 20, source: 'environment' },
      ],
      ['url', { key: 'url', variable: 'SVC_URL', cast: 'custom', fallback: undefined, source: 'none' }],
    ],
  );
});

test('Config.unknownVariables() lists SVC_ variables that were never read, each with the most similar known name', () => {
  const config = new Config({
    defaults: { host: '' },
    values: { port: 1 },
    environment: {
      SVC_PAGESIZE: '',
      SVC_HOST: '',
      SVC_PROT: '',
      SVC_ENV: 'test',
      SVC_QUITE_ANOTHER: '',
      SVC_LOADED: '',
    },
  });
  config.get('pageSize', 20);
  config.loadDict({ loaded: 1 });
  assert.deepEqual(config.unknownVariables(), [
    { variable: 'SVC_PAGESIZE', suggestion: 'SVC_PAGE_SIZE' },
    { variable: 'SVC_PROT', suggestion: 'SVC_PORT' },
    { variable: 'SVC_QUITE_ANOTHER', suggestion: undefined },
  ]);
});
