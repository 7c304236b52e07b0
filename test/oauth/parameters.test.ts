/** Parameters of requests under /oauth: which values are accepted, and what the caller gets for absent ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bodyParameters,
  clientOf,
  extraOf,
  isLook,
  linkClientOf,
  parametersOf,
  returnToOf,
  scopesOf,
  subjectOf,
} from '../../src/oauth/parameters.ts';
import { fakeRequest } from '../support/transport.ts';
import { parsePairs } from '../../src/http/request/query.ts';
import type { HttpRequest } from '../../src/http/contracts.ts';
import type { Parameters } from '../../src/oauth/parameters.ts';

const REDIRECT = 'com.example.app:/callback';
const CHALLENGE = 'c'.repeat(43);

/** Returns a function that reads these parameters, as parametersOf() does. */
const given = (values: Readonly<Record<string, string>>): Parameters => {
  return (name) => values[name];
};

const invalid = (message: RegExp | string) => (error: unknown) => {
  const { code, description } = error as { code?: string; description?: string };
  const text = `${code} ${description ?? ''} ${(error as Error).message}`;
  assert.match(text, /invalid_/);
  return typeof message === 'string' ? text.includes(message) : message.test(text);
};

test('absent parameters of a login are null, undefined or an empty object', () => {
  const none = given({});
  assert.deepEqual(
    [returnToOf(none), subjectOf(none), extraOf(none), clientOf(none, []), linkClientOf(none, [])],
    [null, undefined, {}, null, null],
  );
  assert.equal(scopesOf(undefined, ['a']), undefined);
});

for (const [what, read, values, expected] of [
  ['a local path', returnToOf, { return_to: '/account?a=1' }, '/account?a=1'],
  [
    'the URL of another site',
    returnToOf,
    { return_to: '//evil.example' },
    /return_to must be a path of this application/,
  ],
  ['a subject', subjectOf, { subject: 'user 1' }, 'user 1'],
  ['a subject of 255 characters', subjectOf, { subject: 's'.repeat(255) }, 's'.repeat(255)],
  [
    'a subject of 256 characters',
    subjectOf,
    { subject: 's'.repeat(256) },
    /subject must be a text of 1 to 255/,
  ],
  ['a subject with a control character', subjectOf, { subject: 'a\n' }, /subject must be a text/],
  [
    'a login hint of 200 characters',
    extraOf,
    { login_hint: 'h'.repeat(200) },
    { login_hint: 'h'.repeat(200) },
  ],
  [
    'a login hint of 201 characters',
    extraOf,
    { login_hint: 'h'.repeat(201) },
    /login_hint must be a text of 1 to 200/,
  ],
  ['a login hint with a control character', extraOf, { login_hint: 'a\t' }, /login_hint must be a text/],
  ['the prompt "none"', extraOf, { prompt: 'none' }, { prompt: 'none' }],
  ['the prompt "login"', extraOf, { prompt: 'login' }, { prompt: 'login' }],
  ['the prompt "consent"', extraOf, { prompt: 'consent' }, { prompt: 'consent' }],
  [
    'the prompt "select_account"',
    extraOf,
    { prompt: 'select_account', login_hint: 'a' },
    { prompt: 'select_account', login_hint: 'a' },
  ],
  [
    'another prompt',
    extraOf,
    { prompt: 'create' },
    /prompt must be one of none, login, consent, select_account/,
  ],
] as readonly (readonly [string, (parameter: Parameters) => unknown, Record<string, string>, unknown])[])
  test(`a login ${expected instanceof RegExp ? 'refuses' : 'accepts'} ${what}`, () => {
    if (expected instanceof RegExp) assert.throws(() => read(given(values)), invalid(expected));
    else assert.deepEqual(read(given(values)), expected);
  });

for (const [what, values, expected] of [
  [
    'a redirect with a challenge',
    { client_redirect_uri: REDIRECT, code_challenge: CHALLENGE, code_challenge_method: 'S256' },
    { redirectUri: REDIRECT, challenge: CHALLENGE, state: null },
  ],
  [
    'a redirect with a challenge and a state',
    {
      client_redirect_uri: REDIRECT,
      code_challenge: CHALLENGE,
      code_challenge_method: 'S256',
      client_state: ' ~',
    },
    { redirectUri: REDIRECT, challenge: CHALLENGE, state: ' ~' },
  ],
  [
    'a challenge alone',
    { code_challenge: CHALLENGE },
    /code_challenge requires the parameter client_redirect_uri/,
  ],
  ['a state alone', { client_state: 'a' }, /client_state requires the parameter client_redirect_uri/],
  ['a redirect without a challenge', { client_redirect_uri: REDIRECT }, /code_challenge of 43 characters/],
  [
    'a challenge of 42 characters',
    { client_redirect_uri: REDIRECT, code_challenge: 'c'.repeat(42), code_challenge_method: 'S256' },
    /code_challenge of 43 characters/,
  ],
  [
    'the challenge method "plain"',
    { client_redirect_uri: REDIRECT, code_challenge: CHALLENGE, code_challenge_method: 'plain' },
    /code_challenge_method=S256/,
  ],
  [
    'a state that is not ASCII',
    {
      client_redirect_uri: REDIRECT,
      code_challenge: CHALLENGE,
      code_challenge_method: 'S256',
      client_state: 'ü',
    },
    /client_state must consist of printable ASCII/,
  ],
  ['an unknown redirect', { client_redirect_uri: 'com.other:/' }, /invalid_redirect_uri/],
] as readonly (readonly [string, Record<string, string>, unknown])[])
  test(`a login of a native client ${expected instanceof RegExp ? 'refuses' : 'accepts'} ${what}`, () => {
    if (expected instanceof RegExp)
      assert.throws(() => clientOf(given(values), [REDIRECT]), invalid(expected));
    else assert.deepEqual(clientOf(given(values), [REDIRECT]), expected);
  });

test('linkClientOf() needs no challenge', () => {
  assert.deepEqual(linkClientOf(given({ client_redirect_uri: REDIRECT, client_state: 'a' }), [REDIRECT]), {
    redirectUri: REDIRECT,
    challenge: null,
    state: 'a',
  });
});

test('scopesOf() splits a list of scopes, and refuses a scope that is not configured', () => {
  assert.deepEqual(scopesOf('a  b', ['a', 'b', 'c']), ['a', 'b']);
  assert.deepEqual(scopesOf('', ['a']), []);
  assert.throws(() => scopesOf('a d', ['a']), invalid('a scope that is not configured for this provider'));
});

test('isLook() returns true for HEAD requests and prefetches only', () => {
  const look = (method: string, headers: Record<string, string> = {}): boolean =>
    isLook({ method, headers } as unknown as HttpRequest);
  assert.deepEqual(
    [
      look('GET'),
      look('POST'),
      look('HEAD'),
      look('GET', { 'sec-purpose': 'prefetch;prerender' }),
      look('GET', { purpose: 'Prefetch' }),
      look('GET', { 'x-moz': 'prefetch' }),
      look('GET', { purpose: 'preview' }),
      look('GET', { purpose: 'previews' }),
    ],
    [false, false, true, true, true, true, true, false],
  );
});

/** Returns a function that reads these parameters of a query, a form, or a JSON object. */
const READERS: Readonly<Record<string, (values: Readonly<Record<string, string>>) => Promise<Parameters>>> = {
  query: async (values) => parametersOf(parsePairs(new URLSearchParams(values).toString())!),
  form: (values) => posted('application/x-www-form-urlencoded', new URLSearchParams(values).toString()),
  'JSON object': (values) => posted('application/json', JSON.stringify(values)),
};

function posted(type: string, body: string): Promise<Parameters> {
  const headers = ['Content-Type', type, 'Content-Length', String(Buffer.byteLength(body))];
  return bodyParameters(fakeRequest({ method: 'POST', headers, body }).req);
}

for (const [what, read] of Object.entries(READERS))
  test(`a parameter in a ${what} has at most 4,096 characters, or the number that the caller allows`, async () => {
    const parameter = await read({
      a: 'x'.repeat(4_096),
      b: 'x'.repeat(4_097),
      c: 'x'.repeat(10),
      d: 'x'.repeat(11),
      empty: '',
    });
    assert.equal(parameter('a')?.length, 4_096);
    assert.throws(() => parameter('b'), invalid(/parameter b .*4096 characters/));
    assert.equal(parameter('b', 5_000)?.length, 4_097);
    assert.equal(parameter('c', 10)?.length, 10);
    assert.throws(() => parameter('d', 10), invalid(/parameter d .*10 characters/));
    assert.deepEqual(
      [parameter('empty'), parameter('absent'), parameter('toString')],
      [undefined, undefined, undefined],
    );
  });

test('a parameter must occur once in a query, and be a string in a JSON object', async () => {
  assert.throws(
    () => parametersOf(parsePairs('a=1&a=2')!)('a'),
    invalid('The parameter a occurs more than once'),
  );
  const parameter = await posted('application/json', '{"number":1,"null":null,"list":["a"]}');
  assert.equal(parameter('null'), undefined);
  for (const name of ['number', 'list'])
    assert.throws(() => parameter(name), invalid(`${name} must be a string`));
  await assert.rejects(posted('application/json', '{"a":"1","a":"2"}'), invalid('without duplicate members'));
});
