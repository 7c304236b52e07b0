import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { SvcError } from '../../../src/base/errors.ts';
import { OAuthProvider, githubProvider, googleProvider } from '../../../src/oauth/provider/presets.ts';
import { issueInProduction, settingsOf } from '../../../src/oauth/provider/options.ts';
import { joinClaims, postedName, standardUser, userInfoOf } from '../../../src/oauth/provider/user-info.ts';
import { ProviderFault } from '../../../src/auth/provider/failure.ts';
import { AUTHORITY_PEM } from '../support/tls.ts';
import type { OAuthProviderOptions } from '../../../src/oauth/provider/presets.ts';

const BASE: OAuthProviderOptions = {
  name: 'own',
  clientId: 'client',
  clientSecret: 'very-secret-value',
  authorizeUrl: 'https://own.test/authorize',
  tokenUrl: 'https://own.test/token',
  userinfoUrl: 'https://own.test/userinfo',
};

function refused(
  options: Partial<Record<keyof OAuthProviderOptions, unknown>>,
  problem: RegExp,
  code = 'E_OAUTH_PROVIDER',
): void {
  assert.throws(
    () => new OAuthProvider({ ...BASE, ...options } as OAuthProviderOptions),
    (error) => {
      assert.ok(error instanceof SvcError, String(error));
      assert.equal(error.code, code);
      assert.match(error.message, problem);
      assert.ok(!error.message.includes('very-secret-value'));
      return true;
    },
  );
}

test('OAuthProvider has the properties name, clientId, issuer and scopes, and default values for all other options', () => {
  const provider = new OAuthProvider(BASE);
  assert.deepEqual({ ...provider }, { name: 'own', clientId: 'client', issuer: undefined, scopes: [] });
  const {
    clientAuth,
    idTokenAlgorithms,
    tokenTypes,
    tokenAnswer,
    timeoutMs,
    leewaySeconds,
    allowInsecure,
    usesOpenId,
    ca,
  } = settingsOf(provider);
  assert.deepEqual(
    [
      clientAuth,
      idTokenAlgorithms,
      tokenTypes,
      tokenAnswer,
      timeoutMs,
      leewaySeconds,
      allowInsecure,
      usesOpenId,
      ca,
    ],
    [undefined, ['RS256'], ['bearer'], 'json', 10_000, 60, false, false, undefined],
  );
  assert.ok(Object.isFrozen(provider.scopes));
  const byIssuer = new OAuthProvider({
    name: 'own',
    clientId: 'client',
    clientSecret: 's',
    issuer: 'https://own.test/',
  });
  assert.deepEqual(
    [byIssuer.scopes, settingsOf(byIssuer).discoveryUrl, settingsOf(byIssuer).usesOpenId],
    [['openid', 'email', 'profile'], 'https://own.test/.well-known/openid-configuration', true],
  );
  const byDiscovery = new OAuthProvider({
    name: 'own',
    clientId: 'client',
    clientSecret: 's',
    discoveryUrl: 'https://own.test/realm/.well-known/openid-configuration',
  });
  assert.equal(byDiscovery.issuer, 'https://own.test/realm');
  const other = new OAuthProvider({
    ...BASE,
    issuer: 'https://own.test',
    discoveryUrl: 'https://own.test/.well-known/oauth-authorization-server',
    scopes: ['a'],
    tokenTypes: ['Bearer', 'N_A'],
  });
  assert.deepEqual(
    [other.issuer, other.scopes, settingsOf(other).tokenTypes],
    ['https://own.test', ['a'], ['bearer', 'n_a']],
  );
});

test('OAuthProvider with allowInsecure accepts URLs without TLS for the listed hosts, but not in production', () => {
  const compose = (allowInsecure: boolean | readonly string[], host = 'keycloak:8080'): OAuthProvider =>
    new OAuthProvider({
      name: 'kc',
      clientId: 'client',
      clientSecret: 's',
      issuer: `http://${host}/realms/x`,
      allowInsecure,
    });
  assert.match(issueInProduction(compose(['keycloak']))!, /allowInsecure/);
  compose(['keycloak', 'other.internal'], '127.0.0.1:8080');
  for (const [allowed, host] of [
    [true, 'keycloak:8080'],
    [['other'], 'keycloak:8080'],
    [['keycloak'], 'keycloak.evil.example'],
    [['keycloak'], 'evil-keycloak'],
  ] as const)
    assert.throws(() => compose(allowed, host), { code: 'E_OAUTH_PROVIDER' });
  for (const bad of [['http://keycloak'], ['keycloak:8080'], ['*'], [''], 'keycloak'])
    assert.throws(() => compose(bad as never), { code: 'E_OPTION_RANGE' });
});

test('OAuthProvider does not show its client secret in inspect(), JSON.stringify() or string conversion', () => {
  for (const provider of [
    new OAuthProvider(BASE),
    githubProvider('id', 'very-secret-value'),
    googleProvider('id', 'very-secret-value'),
  ]) {
    for (const text of [
      inspect(provider, { depth: 9, showHidden: true, getters: true }),
      JSON.stringify(provider),
      String(provider),
    ])
      assert.ok(!text.includes('very-secret'), text);
  }
});

test('OAuthProvider refuses every configured URL that is not https', () => {
  for (const name of [
    'authorizeUrl',
    'tokenUrl',
    'userinfoUrl',
    'jwksUrl',
    'emailsUrl',
    'discoveryUrl',
    'issuer',
  ] as const) {
    for (const url of [
      'http://own.test/x',
      'ftp://own.test/x',
      'javascript:x',
      'relative',
      'https://u:p@own.test/',
      'https://own.test/#f',
      'http://127.0.0.1/x',
    ])
      refused({ issuer: 'https://own.test', [name]: url }, new RegExp(`the ${name} `));
  }
  new OAuthProvider({ ...BASE, allowInsecure: true, tokenUrl: 'http://127.0.0.1:9000/token' });
  refused({ allowInsecure: true, tokenUrl: 'http://10.0.0.1/token' }, /another machine/);
});

test('OAuthProvider refuses invalid options, and the error message names the option or the broken rule', () => {
  refused({ name: 'Own' }, /the name/);
  refused({ name: '' }, /the name/);
  refused({ name: 'a'.repeat(33) }, /the name/);
  refused({ clientId: '' }, /the clientId/);
  refused({ clientId: 'a\r\nb' }, /the clientId/);
  refused({ clientSecret: undefined }, /the clientSecret/);
  refused({ clientSecret: 'a b' }, /the clientSecret/);
  refused({ clientAuth: 'none' }, /although clientAuth is "none"/);
  refused({ scopes: ['openid'] }, /needs an issuer/);
  refused({ scopes: ['a b'] }, /the scopes/);
  refused({ scopes: ['a"b'] }, /the scopes/);
  refused({ issuer: 'https://own.test/?a=1' }, /issuer has a query/);
  refused({ discoveryUrl: 'https://own.test/metadata' }, /the issuer is missing/);
  refused({ authorizeUrl: undefined }, /endpoints are missing/);
  refused({ tokenUrl: undefined }, /endpoints are missing/);
  refused({ userinfoUrl: undefined }, /nothing identifies the user/);
  refused(
    { tenants: ['9188040d-6c67-4c5b-b112-36a304b66dad'], issuer: 'https://own.test' },
    /does not contain \{tenantid\}/,
  );
  refused({ authorizeParams: { state: 'x' } }, /include "state"/);
  refused({ authorizeParams: { response_mode: 'fragment' } }, /include "response_mode"/);
  for (const max_age of ['', '-1', '1.5', '1e3', ' 60', 'day', '9'.repeat(10)])
    refused({ authorizeParams: { max_age } }, /max_age that is not a whole number/);
  refused(
    { metadata: { issuer: 'https://other.test' }, issuer: 'https://own.test' },
    /issuer is not the one configured/,
  );
  refused({ metadata: { issuer: 'https://own.test', jwks_uri: 'http://own.test' } }, /jwks_uri is not https/);
  refused(
    { metadata: { issuer: 'https://own.test', token_endpoint: 5 } },
    /token_endpoint is not an absolute URL/,
  );
  refused(
    { metadata: { issuer: 'https://own.test', jwks_uri: 'https://keys.test' }, requireSameSite: true },
    /within the issuer's site/,
  );
  refused({ metadata: { issuer: 'https://own.test' } }, /keys of the provider are missing/);
  refused({ metadata: { issuer: 'https://own.test' }, authorizeUrl: undefined }, /endpoints are missing/);
  refused(
    { metadata: { issuer: 'https://own.test' }, userinfoUrl: undefined, scopes: ['a'] },
    /nothing identifies/,
  );
  refused({ caFile: join(tmpdir(), 'svc-there-is-no-such-file.pem') }, /the caFile/);
  new OAuthProvider({ ...BASE, clientSecret: undefined, clientAuth: 'none' });
});

test('OAuthProvider refuses unknown options and options of a wrong type, and has no option that disables certificate verification', () => {
  for (const [name, values, needs] of [
    ['clientSecret', [5, {}], 'a string, or a function (nowSeconds) => string'],
    ['clientAuth', ['jwt', 5], 'one of "post", "basic", "private_key_jwt", "none"'],
    ['clientKey', ['pem', {}, { privateKey: 'pem', keyId: 5 }], 'an object { privateKey, keyId }'],
    ['discoveryUrl', [5, {}], 'a URL'],
    ['authorizeUrl', [5, {}], 'a URL'],
    ['metadata', [[], 'x'], 'an object'],
    ['jwks', [[], 'x', {}, { keys: {} }], 'an object { keys: [ … ] }'],
    ['scopes', ['openid', [5]], 'a list of strings'],
    ['tokenTypes', [[''], 'x'], 'a list of strings'],
    ['idTokenAlgorithms', [['HS512'], ['none'], [], 'RS256'], 'a list of '],
    ['tenants', [['x'], [], 'x'], 'a list of lower-case GUIDs'],
    ['mapUser', [5, {}], 'a function (raw) => user'],
    ['authorizeParams', [{ a: 1 }, 'x'], 'an object of strings'],
    ['allowInsecure', ['x', [5], ['a b']], 'true, false or a list of hosts'],
    ['timeoutMs', [99, 60_001], 'an integer 100 … 60000'],
    ['leewaySeconds', [-1, 301], 'an integer 0 … 300'],
    ['tokenAnswer', ['xml', 5], ''],
  ] as const)
    for (const value of values)
      refused(
        { [name]: value },
        new RegExp(`option "${name}" (?:needs|must be) ${needs.replace(/[|\\{}()[\]^$+*?.]/g, '\\$&')}`),
        'E_OPTION_RANGE',
      );
  for (const name of ['rejectUnauthorized', 'insecure', 'verifyTls', 'agent'])
    refused({ [name]: false } as never, new RegExp(name), 'E_OPTION_UNKNOWN');
});

test('OAuthProvider reads caFile once, and refuses a file that contains no certificate', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-ca-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'ca.pem');
  writeFileSync(file, AUTHORITY_PEM);
  assert.equal(settingsOf(new OAuthProvider({ ...BASE, caFile: file })).ca, AUTHORITY_PEM);
  writeFileSync(file, 'nothing');
  refused({ caFile: file }, /cannot be read as PEM/);
});

test('githubProvider() returns a provider with the endpoints, scopes and special settings of GitHub', () => {
  const provider = githubProvider('id', 'secret');
  assert.deepEqual(
    { ...provider },
    {
      name: 'github',
      clientId: 'id',
      issuer: 'https://github.com/login/oauth',
      scopes: ['read:user', 'user:email'],
    },
  );
  const { authorizeUrl, tokenUrl, userinfoUrl, emailsUrl, clientAuth, usesOpenId, mapUser } =
    settingsOf(provider);
  assert.deepEqual(
    [authorizeUrl, tokenUrl, userinfoUrl, emailsUrl, clientAuth, usesOpenId],
    [
      'https://github.com/login/oauth/authorize',
      'https://github.com/login/oauth/access_token',
      'https://api.github.com/user',
      'https://api.github.com/user/emails',
      'post',
      false,
    ],
  );
  assert.deepEqual(
    mapUser({
      id: 583231,
      login: 'octocat',
      name: null,
      email: 'octocat@example.test',
      avatar_url: 'https://example.test/u.png',
    }),
    {
      subject: '583231',
      email: 'octocat@example.test',
      name: 'octocat',
      picture: 'https://example.test/u.png',
    },
  );
  assert.equal(mapUser({ id: 1, login: 'l', name: 'Mona' }).name, 'Mona');
  for (const id of ['583231', 1.5, 0, -1, null, undefined, 2 ** 53, {}])
    assert.equal(mapUser({ id }).subject, undefined, String(id));
});

test('googleProvider() returns a provider with the endpoints of Google that requests no refresh token', () => {
  const provider = googleProvider('id', 'secret');
  assert.deepEqual(
    { ...provider },
    {
      name: 'google',
      clientId: 'id',
      issuer: 'https://accounts.google.com',
      scopes: ['openid', 'email', 'profile'],
    },
  );
  const { authorizeParams, jwksUrl, usesOpenId, mapUser, idTokenAlgorithms } = settingsOf(provider);
  assert.deepEqual(
    [authorizeParams, jwksUrl, usesOpenId, idTokenAlgorithms],
    [{ access_type: 'online' }, 'https://www.googleapis.com/oauth2/v3/certs', true, ['RS256']],
  );
  assert.equal(mapUser({ sub: '1', email: 'a@example.test', email_verified: 'true' }).emailVerified, false);
});

test('githubProvider() accepts any option of OAuthProvider as an override, and ignores options whose value is undefined', () => {
  const provider = githubProvider('id', 'secret', {
    name: 'work',
    tokenUrl: 'https://git.example.test/token',
    scopes: undefined,
  });
  assert.deepEqual(
    [provider.name, provider.scopes, settingsOf(provider).tokenUrl, settingsOf(provider).userinfoUrl],
    ['work', ['read:user', 'user:email'], 'https://git.example.test/token', 'https://api.github.com/user'],
  );
  assert.throws(
    () => githubProvider('', 'secret'),
    (error) => error instanceof SvcError && error.code === 'E_OAUTH_PROVIDER',
  );
  assert.throws(
    () => googleProvider('id', ''),
    (error) => error instanceof SvcError && error.code === 'E_OAUTH_PROVIDER',
  );
});

test('standardUser() treats an e-mail as verified if email_verified is true, or is the string "true" and an option allows strings', () => {
  for (const value of ['true', 1, 'TRUE', null, undefined, {}, false])
    assert.equal(standardUser({ sub: 'a', email_verified: value }).emailVerified, false);
  assert.equal(standardUser({ sub: 'a', email_verified: true }).emailVerified, true);
  const lenient = new OAuthProvider({ ...BASE, acceptsTextVerified: true });
  assert.equal(settingsOf(lenient).mapUser({ sub: 'a', email_verified: 'true' }).emailVerified, true);
  assert.equal(settingsOf(lenient).mapUser({ sub: 'a', email_verified: 'yes' }).emailVerified, false);
});

test('postedName() joins the first and last name in a posted form, and returns null if the form contains no valid name', () => {
  const named = (name: unknown): string | null => postedName(JSON.stringify({ name }));
  assert.equal(named({ firstName: ' Ada', lastName: 'Lovelace ' }), 'Ada Lovelace');
  assert.deepEqual(
    [named({ firstName: 'Ada' }), named({ lastName: 'Lovelace' }), named({ firstName: 'Ada', lastName: 7 })],
    ['Ada', 'Lovelace', 'Ada'],
  );
  assert.equal(named({ firstName: 'a'.repeat(255) }), 'a'.repeat(255));
  for (const odd of [
    undefined,
    null,
    'Ada',
    [],
    {},
    { firstName: ' ' },
    { firstName: 'a'.repeat(256) },
    { firstName: 'a\nb' },
    { firstName: '\ud800' },
  ])
    assert.equal(named(odd), null);
  for (const text of [
    undefined,
    '',
    'Ada',
    '[]',
    'null',
    '{"name":{"firstName":"A"},"name":{"firstName":"B"}}',
    `{"name":{"firstName":"Ada"}}${' '.repeat(4_096)}`,
  ])
    assert.equal(postedName(text), null);
});

test('userInfoOf() sets every member of its result, treats a missing e-mail as not verified, and freezes the result', () => {
  const raw = JSON.parse('{"sub":"a","__proto__":{"admin":true}}') as Record<string, unknown>;
  const info = userInfoOf({ subject: 'a', emailVerified: true }, raw);
  assert.deepEqual(
    { ...info, raw: undefined },
    { subject: 'a', email: null, emailVerified: false, name: null, picture: null, raw: undefined },
  );
  assert.ok(Object.isFrozen(info) && Object.isFrozen(info.raw));
  assert.equal((info.raw as { admin?: unknown }).admin, undefined);
  assert.deepEqual(Object.keys(info.raw), ['sub', '__proto__']);
  const odd = userInfoOf(
    { subject: 'a', email: 5, emailVerified: 'true', name: {}, picture: '' } as never,
    {},
  );
  assert.deepEqual(
    { ...odd },
    { subject: 'a', email: null, emailVerified: false, name: null, picture: null, raw: {} },
  );
  for (const mapped of [
    undefined,
    null,
    {},
    { subject: '' },
    { subject: 5 },
    { subject: 'a\nb' },
    { subject: 'x'.repeat(256) },
  ]) {
    assert.throws(
      () => userInfoOf(mapped as never, {}),
      (error) => error instanceof ProviderFault && error.reason === 'user_subject',
    );
  }
});

test('userInfoOf() accepts only an e-mail of a plausible form, a name of one line, and a picture that is an http URL', () => {
  const info = (member: string, text: string): [string | null, boolean, string[]] => {
    const refused: string[] = [];
    const mapped = { subject: 'a', emailVerified: true, [member]: text };
    const user = userInfoOf(mapped, {}, (claim) => refused.push(claim));
    return [user[member as 'email'], user.emailVerified, refused];
  };
  const accepted: Readonly<Record<string, readonly string[]>> = {
    email: [
      'ada@example.test',
      'a@localhost',
      "o'hara+tag=1.x_y%z@sub.example-site.test",
      'ä.ö@bücher.example',
      'δοκιμή@παράδειγμα.δοκιμή',
      `${'x'.repeat(64)}@${'y'.repeat(63)}.test`,
    ],
    name: ['Ada Lovelace', 'אדה', '艾达 👩‍💻', "O'Hara <ada>"],
    picture: ['https://x.test/a.png', 'http://x.test/a?b=c#d', 'https://x.test/%0A'],
  };
  for (const [member, texts] of Object.entries(accepted))
    for (const text of texts) assert.deepEqual(info(member, text), [text, member === 'email', []]);
  const odd = Array.from({ length: 0xa0 }, (_, code) => String.fromCharCode(code))
    .filter((each) => /\p{Cc}/u.test(each))
    .concat('\u2028', '\u2029', '\ud800');
  const refused: Readonly<Record<string, readonly string[]>> = {
    email: [
      ...odd.flatMap((each) => [`a${each}@x.test`, `a@x${each}.test`, `a@x.test${each}`, `${each}a@x.test`]),
      'a@x.test\r\nBcc: b@x.test',
      'a@x.test,b@x.test',
      'a@b@x.test',
      '"a b"@x.test',
      'a;b@x.test',
      'Ada <a@x.test>',
      'a b@x.test',
      'a\u00a0b@x.test',
      'a\u202eb@x.test',
      'a\u200b@x.test',
      'a@x..test',
      'a@.test',
      'a@x.test.',
      'a@[127.0.0.1]',
      'a@',
      '@x.test',
      'ada',
      `${'x'.repeat(65)}@x.test`,
      `a@${'y'.repeat(253)}`,
    ],
    name: odd.map((each) => `Ada${each}Lovelace`),
    picture: [
      ...odd.map((each) => `https://x.test/${each}`),
      'javascript:alert(1)',
      'data:image/png;base64,AAAA',
      '//x.test/a.png',
      '/a.png',
      'https:x.test/a.png',
      'https://x test/a.png',
      'https://x.test:99999/a.png',
    ],
  };
  for (const [member, texts] of Object.entries(refused))
    for (const text of texts)
      assert.deepEqual(info(member, text), [null, false, [member]], JSON.stringify(text));
  assert.throws(() => userInfoOf({ subject: 'a\u0085b' }, {}), { reason: 'user_subject' });
});

test('joinClaims() takes "email" and "email_verified" either both from the id_token or both from the user info', () => {
  assert.deepEqual(
    joinClaims(
      { sub: 'a', email: 'a@x.test', email_verified: true, hd: 'x' },
      { sub: 'a', email: 'b@x.test' },
    ),
    { sub: 'a', hd: 'x', email: 'b@x.test' },
  );
  assert.deepEqual(
    joinClaims({ sub: 'a', email: 'a@x.test', email_verified: false }, { sub: 'a', email_verified: true }),
    { sub: 'a', email_verified: true },
  );
  assert.deepEqual(
    joinClaims({ sub: 'a', email: 'a@x.test', email_verified: true }, { sub: 'a', name: 'A' }),
    { sub: 'a', email: 'a@x.test', email_verified: true, name: 'A' },
  );
});
