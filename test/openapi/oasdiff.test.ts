/**
 * The manual judges each check of oasdiff. Here every check that has an example is compared, and gets the level
 * that the manual names.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { compareOpenapi } from '../../src/openapi/compare.ts';

const CHECKS = readFileSync(new URL('../support/oasdiff-checks.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const MANUAL = readFileSync(new URL('../../src/openapi/README.md', import.meta.url), 'utf8');

const ROWS = [...MANUAL.matchAll(/^\| (`.*`) \| (breaking|risky|notice|safe|not compared) \|/gm)].map(
  ([, patterns = '', level = '']) => ({
    patterns: patterns
      .matchAll(/`([^`]+)`/g)
      .map(matching)
      .toArray(),
    level,
  }),
);

function matching([, pattern = '']: readonly string[]): RegExp {
  const source = pattern
    .replaceAll('*', '.*')
    .replace(/\{([^}]*)\}/g, (_, words: string) => `(?:${words.replaceAll(',', '|')})`);
  return new RegExp(`^${source}$`);
}
const rowOf = (check: string): (typeof ROWS)[number] | undefined =>
  ROWS.find(({ patterns }) => patterns.some((pattern) => pattern.test(check)));

test('the manual judges each check of oasdiff, and has no row without one', () => {
  assert.deepEqual(
    CHECKS.filter((check) => rowOf(check) === undefined),
    [],
  );
  assert.deepEqual(
    ROWS.filter((row) => !CHECKS.some((check) => rowOf(check) === row)),
    [],
  );
});

type Pair = readonly [before: object, after: object];
const number = (more: object): object => ({ type: 'number', ...more });
const string = (more: object): object => ({ type: 'string', ...more });
const array = (more: object): object => ({ type: 'array', ...more });
const object = (more: object): object => ({ type: 'object', ...more });
const cat = { type: 'object', required: ['kind'], properties: { kind: { const: 'cat' } } };
const dog = { type: 'object', required: ['kind'], properties: { kind: { const: 'dog' } } };

/** Schemas before and after a change, by the end of the check's name. */
const SCHEMAS: Readonly<Record<string, Pair>> = {
  'type-changed': [string({}), object({})],
  'type-generalized': [{ type: 'integer' }, { type: 'number' }],
  'type-specialized': [{ type: 'number' }, { type: 'integer' }],
  'list-of-types-widened': [{ type: ['string', 'null'] }, { type: ['string', 'null', 'boolean'] }],
  'list-of-types-narrowed': [{ type: ['array', 'null', 'object'] }, { type: ['array', 'null'] }],
  'became-nullable': [string({}), { type: ['string', 'null'] }],
  'became-not-nullable': [{ type: ['string', 'null'] }, string({})],
  'became-enum': [string({}), string({ enum: ['a'] })],
  'enum-value-added': [string({ enum: ['a', 'b'] }), string({ enum: ['a', 'b', 'c'] })],
  'enum-value-removed': [string({ enum: ['a', 'b'] }), string({ enum: ['a'] })],
  'const-added': [string({}), string({ const: 'a' })],
  'const-removed': [string({ const: 'a' }), string({})],
  'const-changed': [string({ const: 'a' }), string({ const: 'b' })],
  'default-value-added': [string({}), string({ default: 'a' })],
  'default-value-changed': [string({ default: 'a' }), string({ default: 'b' })],
  'default-value-removed': [string({ default: 'a' }), string({})],
  'pattern-added': [string({}), string({ pattern: '^a' })],
  'pattern-changed': [string({ pattern: '^a' }), string({ pattern: '^b' })],
  'pattern-generalized': [string({ pattern: '^a' }), string({ pattern: '.*' })],
  'pattern-removed': [string({ pattern: '^a' }), string({})],
  'one-of-added': [{ oneOf: [cat] }, { oneOf: [cat, dog] }],
  'one-of-removed': [{ oneOf: [cat, dog] }, { oneOf: [cat] }],
  'any-of-added': [{ anyOf: [cat] }, { anyOf: [cat, dog] }],
  'any-of-removed': [{ anyOf: [cat, dog] }, { anyOf: [cat] }],
  'all-of-added': [number({}), number({ allOf: [{ minimum: 1 }] })],
  'all-of-removed': [number({ allOf: [{ minimum: 1 }] }), number({})],
  'all-of-added-annotation-only': [number({}), number({ allOf: [{ description: 'A' }] })],
  'all-of-removed-annotation-only': [number({ allOf: [{ description: 'A' }] }), number({})],
  'wrapped-in-one-of': [cat, { oneOf: [dog, string({})] }],
  'prefix-items-added': [tuple(1), tuple(2)],
  'prefix-items-removed': [tuple(2), tuple(1)],
  'content-encoding-changed': [string({ contentEncoding: 'base64' }), string({ contentEncoding: 'base32' })],
  'content-media-type-changed': [
    string({ contentMediaType: 'text/csv' }),
    string({ contentMediaType: 'text/xml' }),
  ],
  'dependent-required-changed': [
    object({ dependentRequired: { a: ['b'] } }),
    object({ dependentRequired: { a: ['c'] } }),
  ],
  ...Object.fromEntries(
    [
      ['pattern-property', object({ patternProperties: { '^x': string({}) } })],
      ['property-names', object({ propertyNames: { maxLength: 3 } })],
      ['contains', array({ contains: string({}) })],
      ['content-schema', string({ contentSchema: object({}) })],
      ['if', { if: string({}) }],
      ['then', { then: string({}) }],
      ['else', { else: string({}) }],
      ['dependent-required', object({ dependentRequired: { a: ['b'] } })],
      ['dependent-schema', object({ dependentSchemas: { a: {} } })],
      ['unevaluated-items', array({ unevaluatedItems: false })],
      ['unevaluated-properties', object({ unevaluatedProperties: false })],
    ].flatMap(([name, schema]) => {
      const plain = Object.fromEntries(Object.entries(schema as object).filter(([key]) => key === 'type'));
      return [
        [`${String(name)}-added`, [plain, schema]],
        [`${String(name)}-removed`, [schema, plain]],
      ];
    }),
  ),
  ...bounds('max', 'maximum', number),
  ...bounds('min', 'minimum', number),
  ...bounds('exclusive-max', 'exclusiveMaximum', number),
  ...bounds('exclusive-min', 'exclusiveMinimum', number),
  ...bounds('max-length', 'maxLength', string),
  ...bounds('min-length', 'minLength', string),
  ...bounds('max-items', 'maxItems', array),
  ...bounds('min-items', 'minItems', array),
  ...bounds('max-contains', 'maxContains', array),
  ...bounds('min-contains', 'minContains', array),
};

function bounds(
  name: string,
  keyword: string,
  make: (more: object) => object,
): Readonly<Record<string, Pair>> {
  const [none, low, high] = [make({}), make({ [keyword]: 3 }), make({ [keyword]: 4 })];
  return {
    [`${name}-increased`]: [low, high],
    [`${name}-decreased`]: [high, low],
    [`${name}-set`]: [none, low],
    [`${name}-unset`]: [low, none],
  };
}

function tuple(length: number): object {
  return array({ prefixItems: Array(length).fill(string({})), maxItems: length });
}

const json = (schema: object): object => ({ content: { 'application/json': { schema } } });
const member = (schema: object): object => object({ properties: { a: schema }, required: ['a'] });
const documentOf = (operation: object, more: object = {}): object => ({
  openapi: '3.1.1',
  paths: { '/a': { post: { responses: { 200: {} }, ...operation } } },
  ...more,
});
const responding = (response: object): object => documentOf({ responses: { 200: response } });

/** Documents with a schema at the place that a check begins with. */
const PLACES: Readonly<Record<string, (schema: object) => object>> = {
  'request-body-': (schema) => documentOf({ requestBody: json(schema) }),
  'request-property-': (schema) => documentOf({ requestBody: json(member(schema)) }),
  'request-parameter-': (schema) => documentOf({ parameters: [{ name: 'a', in: 'query', schema }] }),
  'request-parameter-property-': (schema) =>
    documentOf({ parameters: [{ name: 'a', in: 'query', schema: member(schema) }] }),
  'request-read-only-property-': (schema) =>
    documentOf({ requestBody: json(member({ ...schema, readOnly: true })) }),
  'response-body-': (schema) => responding(json(schema)),
  'response-property-': (schema) => responding(json(member(schema))),
  'response-mediatype-': (schema) => responding(json(schema)),
  'response-write-only-property-': (schema) => responding(json(member({ ...schema, writeOnly: true }))),
  'response-header-': (schema) => responding({ headers: { A: { required: true, schema } } }),
};

const parameter = (more: object): object =>
  documentOf({ parameters: [{ in: 'query', name: 'a', schema: {}, ...more }] });
const properties = (
  place: 'request' | 'response',
  schema: object,
  required: readonly string[] = [],
): object => {
  const body = json(object({ properties: { b: {}, ...schema }, required }));
  return place === 'request' ? documentOf({ requestBody: body }) : responding(body);
};
const body = (more: object): object => documentOf({ requestBody: { ...json({}), ...more } });
const secured = (scopes: readonly string[] | undefined, scheme: object = { type: 'oauth2' }): object =>
  documentOf(
    { security: scopes === undefined ? [] : [{ login: scopes }] },
    { components: { securitySchemes: { login: scheme } } },
  );
const header = (headers: object): object => responding({ headers });
const typed = (...types: string[]): object =>
  responding({ content: Object.fromEntries(types.map((type) => [type, {}])) });
const access = (place: 'request' | 'response', required: readonly string[], keyword: string): Pair => [
  properties(place, { a: {} }, required),
  properties(place, { a: { [keyword]: true } }, required),
];
const back = ([before, after]: Pair): Pair => [after, before];
const plain = documentOf({});

/** Documents before and after other changes. */
const DOCUMENTS: Readonly<Record<string, Pair>> = {
  'api-removed-without-deprecation': [plain, { paths: { '/a': { get: {} } } }],
  'api-path-removed-without-deprecation': [plain, { paths: {} }],
  'api-path-removed-with-deprecation': [documentOf({ deprecated: true }), { paths: {} }],
  'webhook-removed': [{ webhooks: { a: { post: {} } } }, {}],
  'webhook-added': [{}, { webhooks: { a: { post: {} } } }],
  'endpoint-added': [{}, plain],
  'endpoint-deprecated': [plain, documentOf({ deprecated: true })],
  'endpoint-reactivated': [documentOf({ deprecated: true }), plain],
  'api-operation-id-removed': [documentOf({ operationId: 'a' }), documentOf({ operationId: 'b' })],
  'api-operation-id-added': [plain, documentOf({ operationId: 'a' })],
  'api-tag-added': [plain, documentOf({ tags: ['a'] })],
  'api-security-added': [secured(undefined), secured([])],
  'api-security-scope-added': [secured([]), secured(['a'])],
  'api-security-scope-removed': [secured(['a']), secured([])],
  'api-security-component-type-changed': [secured([]), secured([], { type: 'http', scheme: 'basic' })],
  'new-request-path-parameter': [plain, { paths: { '/a/{b}': { post: {} } } }],
  'new-required-request-parameter': [plain, parameter({ required: true })],
  'new-required-request-property': [properties('request', {}), properties('request', { a: {} }, ['a'])],
  'new-optional-request-parameter': [plain, parameter({})],
  'new-optional-request-property': [properties('request', {}), properties('request', { a: {} })],
  'request-parameter-removed': [parameter({}), plain],
  'request-parameter-became-required': [parameter({}), parameter({ required: true })],
  'request-parameter-became-optional': [parameter({ required: true }), parameter({})],
  'request-parameter-deprecated': [parameter({}), parameter({ deprecated: true })],
  'request-property-removed': [properties('request', { a: {} }), properties('request', {})],
  'request-property-became-required': [
    properties('request', { a: {} }),
    properties('request', { a: {} }, ['a']),
  ],
  'request-property-deprecated': [
    properties('request', { a: {} }),
    properties('request', { a: { deprecated: true } }),
  ],
  'request-body-removed': [body({}), plain],
  'request-body-added-optional': [plain, body({})],
  'request-body-added-required': [plain, body({ required: true })],
  'request-body-became-required': [body({}), body({ required: true })],
  'request-body-became-optional': [body({ required: true }), body({})],
  'request-body-media-type-added': [body({ content: { a: {} } }), body({ content: { a: {}, b: {} } })],
  'request-body-media-type-removed': [body({ content: { a: {}, b: {} } }), body({ content: { a: {} } })],
  'request-body-media-type-schema-added': [body({}), body(json(string({})))],
  'request-body-media-type-schema-removed': [body(json(string({}))), body({})],
  'response-success-status-removed': [plain, documentOf({ responses: { 204: {} } })],
  'response-success-status-added': [plain, documentOf({ responses: { 200: {}, 202: {} } })],
  'response-non-success-status-added': [
    documentOf({ responses: { 200: {}, '4XX': {} } }),
    documentOf({ responses: { 200: {}, '4XX': {}, 409: {} } }),
  ],
  'response-non-success-status-removed': [documentOf({ responses: { 200: {}, 409: {} } }), plain],
  'response-media-type-added': [typed('a/b'), typed('a/b', 'c/d')],
  'response-media-type-removed': [typed('a/b', 'c/d'), typed('a/b')],
  'response-media-type-name-changed': [typed('a/b'), typed('a/b; charset=utf-8')],
  'response-media-type-name-generalized': [typed('a/b+json'), typed('application/json')],
  'response-body-media-type-schema-added': [responding(json({})), responding(json(string({})))],
  'response-body-media-type-schema-removed': [responding(json(string({}))), responding(json({}))],
  'response-header-added': [plain, header({ A: {} })],
  'optional-response-header-removed': [header({ A: {} }), header({ B: {} })],
  'required-response-header-removed': [header({ A: { required: true } }), plain],
  'response-header-became-optional': [header({ A: { required: true } }), header({ a: {} })],
  'response-property-became-optional': [
    properties('response', { a: {} }, ['a']),
    properties('response', { a: {} }),
  ],
  'response-property-became-required': [
    properties('response', { a: {} }),
    properties('response', { a: {} }, ['a']),
  ],
  'response-optional-property-added': [properties('response', {}), properties('response', { a: {} })],
  'response-optional-property-removed': [properties('response', { a: {} }), properties('response', {})],
  'response-required-property-added': [properties('response', {}), properties('response', { a: {} }, ['a'])],
  'response-required-property-removed': [
    properties('response', { a: {} }, ['a']),
    properties('response', {}),
  ],
  ...Object.fromEntries(
    (['request', 'response'] as const).flatMap((place) =>
      (
        [
          ['optional', []],
          ['required', ['a']],
        ] as const
      ).flatMap(([presence, required]) =>
        (['read', 'write'] as const).flatMap((kind) => {
          const pair = access(place, required, `${kind}Only`);
          const name = `${place}-${presence}-property-became`;
          return [[`${name}-${kind}-only`, pair] as const, [`${name}-not-${kind}-only`, back(pair)] as const];
        }),
      ),
    ),
  ),
};

function exampleOf(check: string): Pair | undefined {
  const own = DOCUMENTS[check];
  if (own !== undefined) return own;
  const places = Object.keys(PLACES).filter((place) => check.startsWith(place));
  for (const place of places.sort((left, right) => right.length - left.length)) {
    const [pair, make] = [SCHEMAS[check.slice(place.length)], PLACES[place]];
    if (pair !== undefined && make !== undefined) return [make(pair[0]), make(pair[1])];
  }
  return undefined;
}

test('compareOpenapi() gives each example of a check the level that the manual names', (t) => {
  const wrong: string[] = [];
  let count = 0;
  for (const check of CHECKS) {
    const pair = exampleOf(check);
    const level = rowOf(check)?.level;
    if (pair === undefined || level === undefined || level === 'not compared') continue;
    count++;
    const changes = compareOpenapi(...pair);
    const found = ['breaking', 'risky', 'notice'].find((one) =>
      changes.some((change) => change.level === one),
    );
    if ((found ?? 'safe') !== level)
      wrong.push(`${check}: ${found ?? 'safe'} instead of ${level}: ${JSON.stringify(changes)}`);
  }
  t.diagnostic(`${count} of ${CHECKS.length} checks have an example`);
  assert.deepEqual(wrong, []);
  assert.ok(count > 350, `${count} examples`);
});
