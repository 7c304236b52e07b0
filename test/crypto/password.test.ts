import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { pbkdf2Sync } from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { hashesOf } from '../support/counted-hashes.ts';
import { BadRequest, SvcError, Unavailable } from '../../src/base/errors.ts';
import { checkPassword, hashPassword, needsRehash } from '../../src/crypto/password.ts';
import { seeded } from '../support/random.ts';
import type { CheckPasswordOptions, PasswordOptions } from '../../src/crypto/password.ts';

/** Few iterations, so that the tests can make hundreds of hashes. */
const QUICK = { iterations: 10, unsafeForTests: true } as const;
const PEPPER = 'a pepper of these tests, with more than 32 bytes';
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64').replace(/=+$/, '');
/** Computes a stored hash without the tested code. */
const stored = (
  password: string,
  { iterations = 10, salt = Buffer.from('0123456789abcdef'), algorithm = 'sha256', bytes = 32 } = {},
): string =>
  `$pbkdf2-${algorithm}$i=${iterations}$${base64(salt)}$${base64(pbkdf2Sync(password, salt, iterations, bytes, algorithm))}`;

test('hashPassword() returns one string with algorithm, iterations, 16 bytes of salt and 32 bytes of hash', async () => {
  const hash = await hashPassword('correct horse');
  const [, salt, output] =
    /^\$pbkdf2-sha256\$i=600000\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/.exec(hash) ?? assert.fail(hash);
  assert.deepEqual(
    Buffer.from(output!, 'base64'),
    pbkdf2Sync('correct horse', Buffer.from(salt!, 'base64'), 600_000, 32, 'sha256'),
  );
  assert.equal(await checkPassword('correct horse', hash), true);
  assert.equal(await checkPassword('correct horsf', hash), false);
  assert.equal(needsRehash(hash), false);
});

test('hashPassword() with algorithm sha512 uses 220,000 iterations', async () => {
  const hash = await hashPassword('p', { algorithm: 'sha512' });
  assert.match(hash, /^\$pbkdf2-sha512\$i=220000\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  assert.equal(await checkPassword('p', hash), true); // verifiable whatever the default is
  assert.equal(needsRehash(hash), true);
  assert.equal(needsRehash(hash, { algorithm: 'sha512' }), false);
});

test('hashPassword() returns two different hashes for the same password, and checkPassword() accepts both', async () => {
  const [first, second] = [await hashPassword('p', QUICK), await hashPassword('p', QUICK)];
  assert.notEqual(first, second);
  assert.notEqual(first.split('$')[3], second.split('$')[3]);
  for (const hash of [first, second]) assert.equal(await checkPassword('p', hash, QUICK), true);
});

test('checkPassword() accepts the PBKDF2 test vectors in RFC 7914 §11', async () => {
  for (const [password, salt, iterations, output] of [
    [
      'passwd',
      'salt',
      1,
      '55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783',
    ],
    [
      'Password',
      'NaCl',
      80_000,
      '4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d',
    ],
  ] as const) {
    assert.equal(pbkdf2Sync(password, salt, iterations, 64, 'sha256').toString('hex'), output);
    const hash = `$pbkdf2-sha256$i=${iterations}$${base64(Buffer.from(salt))}$${base64(Buffer.from(output, 'hex').subarray(0, 32))}`;
    assert.equal(await checkPassword(password, hash), true);
    assert.equal(needsRehash(hash), true);
  }
});

for (const [password, salt, iterations, bytes, output] of [
  ['password', 'salt', 1, 20, '0c60c80f961f0e71f3a9b524af6012062fe037a6'],
  ['password', 'salt', 2, 20, 'ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957'],
  ['password', 'salt', 4_096, 20, '4b007901b765489abead49d926f721d065a429c1'],
  [
    'passwordPASSWORDpassword',
    'saltSALTsaltSALTsaltSALTsaltSALTsalt',
    4_096,
    25,
    '3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038',
  ],
  ['pass\0word', 'sa\0lt', 4_096, 16, '56fa6aa75548099dcc37d7f03425e0c3'],
] as const) {
  test(`pbkdf2Sync() gives the result in RFC 6070 for ${iterations} iterations of the password ${JSON.stringify(password)}`, () =>
    assert.equal(pbkdf2Sync(password, salt, iterations, bytes, 'sha1').toString('hex'), output));
}

test('hashPassword() refuses fewer iterations than OWASP recommends, unless the option "unsafeForTests" is set', async () => {
  for (const [options, least] of [
    [{ iterations: 599_999 }, 600_000],
    [{ iterations: 1 }, 600_000],
    [{ iterations: 219_999, algorithm: 'sha512' }, 220_000],
    [{ iterations: 0, unsafeForTests: true }, 1],
    [{ iterations: -5, unsafeForTests: true }, 1],
  ] as const) {
    const expected = {
      code: 'E_OPTION_RANGE',
      message: new RegExp(`option "iterations" must be an integer from ${least} to 5000000 for sha`),
    };
    await assert.rejects(hashPassword('p', options), expected);
    await assert.rejects(checkPassword('p', stored('p'), options), expected);
    assert.throws(() => needsRehash(stored('p'), options), expected);
  }
  for (const iterations of [NaN, 1.5, Infinity, '600000', 2 ** 60])
    await assert.rejects(hashPassword('p', { iterations: iterations as number }), { code: 'E_OPTION_RANGE' });
  await assert.rejects(hashPassword('p', { iterations: 5_000_001 }), { code: 'E_OPTION_RANGE' });
  await assert.rejects(hashPassword('p', { maxIterations: 500_000 }), { code: 'E_OPTION_RANGE' });
  assert.match(await hashPassword('p', { iterations: 600_001 }), /i=600001\$/);
  assert.match(await hashPassword('p', { iterations: 1, unsafeForTests: true }), /i=1\$/);
});

test('hashPassword() refuses options that are unknown or out of range', async () => {
  await assert.rejects(hashPassword('p', { rounds: 5 } as object), { code: 'E_OPTION_UNKNOWN' });
  await assert.rejects(hashPassword('p', { rehash: () => undefined } as object), {
    code: 'E_OPTION_UNKNOWN',
  });
  for (const bad of [
    { algorithm: 'sha1' },
    { maxIterations: 0 },
    { unsafeForTests: 1 },
    { pepper: 'x' },
    { pepper: { id: '', secret: PEPPER } },
    { pepper: { id: 'a$b', secret: PEPPER } },
    { pepper: { id: 'a' } },
    { pepper: [null] },
    { rehash: 'yes' },
  ]) {
    await assert.rejects(
      checkPassword('p', stored('p'), bad as CheckPasswordOptions),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(bad),
    );
  }
});

test('checkPassword() accepts an old hash with fewer than the recommended iterations, and calls rehash() with a new hash', async () => {
  const old = stored('p', { iterations: 100_000 });
  assert.equal(needsRehash(old), true);
  const fresh: string[] = [];
  assert.equal(
    await checkPassword('p', old, {
      rehash: async (hash) => {
        await Promise.resolve();
        fresh.push(hash);
      },
    }),
    true,
  );
  assert.equal(fresh.length, 1); // the callback is awaited
  assert.match(fresh[0]!, /^\$pbkdf2-sha256\$i=600000\$/);
  assert.equal(needsRehash(fresh[0]!), false);
  assert.equal(
    await checkPassword('p', fresh[0]!, { rehash: () => assert.fail('the hash is up to date') }),
    true,
  );
});

test('checkPassword() does not call rehash() for a wrong password, and rejects with an error that rehash() throws', async () => {
  const old = stored('p', { iterations: 9 });
  assert.equal(
    await checkPassword('q', old, { ...QUICK, rehash: () => assert.fail('wrong password') }),
    false,
  );
  await assert.rejects(
    checkPassword('p', old, {
      ...QUICK,
      rehash: () => {
        throw new Error('disk full');
      },
    }),
    /disk full/,
  );
  await assert.rejects(
    checkPassword('p', old, { ...QUICK, rehash: () => Promise.reject(new Error('disk full')) }),
    /disk full/,
  );
  assert.equal(await checkPassword('p', old, QUICK), true);
});

test('needsRehash() returns true if a stored hash has another algorithm, a shorter salt or hash, or fewer iterations than required', () => {
  assert.equal(needsRehash(stored('p'), QUICK), false);
  assert.equal(needsRehash(stored('p', { iterations: 11 }), QUICK), false); // a stronger hash needs no rehash
  assert.equal(needsRehash(stored('p', { iterations: 9 }), QUICK), true);
  assert.equal(needsRehash(stored('p', { algorithm: 'sha512' }), QUICK), true);
  assert.equal(needsRehash(stored('p', { salt: Buffer.alloc(15) }), QUICK), true);
  assert.equal(needsRehash(stored('p', { bytes: 31 }), QUICK), true);
  assert.equal(
    needsRehash(stored('p', { algorithm: 'sha512', bytes: 64 }), { ...QUICK, algorithm: 'sha512' }),
    false,
  );
  for (const other of ['', '$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy', 'x'])
    assert.equal(needsRehash(other), true);
});

test('for an invalid hash or a hash with too many iterations, checkPassword() does the usual amount of work and returns false', async () => {
  const right = stored('p');
  for (const parameter of [
    'i=1000000000',
    'i=5000001',
    'i=9999999999',
    'i=99999999999999999999',
    'i=-10',
    'i=10.5',
    'i=0x0a',
    'i=0',
    'i=010',
    'i=1e1',
    'i=',
    'i',
    '',
    'i=10 ',
    'I=10',
    'i=10,',
    'i=10,x=1',
    'rounds=10',
    '10',
  ]) {
    const hash = right.replace('i=10', parameter);
    const { inThreadPool } = await hashesOf(async () =>
      assert.equal(await checkPassword('p', hash, QUICK), false, parameter),
    );
    assert.deepEqual(inThreadPool, [10], parameter);
  }
  assert.equal(
    await checkPassword('p', stored('p', { iterations: 20 }), { ...QUICK, maxIterations: 19 }),
    false,
  );
  assert.equal(
    await checkPassword('p', stored('p', { iterations: 20 }), { ...QUICK, maxIterations: 20 }),
    true,
  );
});

test('checkPassword() returns false for every malformed hash', async () => {
  const right = stored('p');
  const [, scheme, parameters, salt, hash] = right.split('$') as [string, string, string, string, string];
  const wrong: unknown[] = [
    '',
    '$',
    '$$$$',
    null,
    undefined,
    5,
    {},
    [right],
    'p',
    'x'.repeat(1_000_000),
    `${right}${'A'.repeat(1_000_000)}`,
    right.slice(1),
    `$${right}`,
    `${right}$`,
    `${right} `,
    `${right}\n`,
    ` ${right}`,
    right.toUpperCase(),
    `${right}=`,
    '$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy',
    '$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
    'pbkdf2_sha256$600000$salt$hash',
    'sha256:5e884898da28',
    `$pbkdf2-sha1$${parameters}$${salt}$${hash}`,
    `$pbkdf2$${parameters}$${salt}$${hash}`,
    `$${scheme}$${parameters}$$${hash}`,
    `$${scheme}$${parameters}$${salt}$`,
    `$${scheme}$${parameters}$${salt}`,
    `$${scheme}$${salt}$${hash}`,
    `$${scheme}$${parameters}$${salt}$${hash.slice(0, 20)}`,
    `$${scheme}$${parameters}$${salt}$${hash}A`,
    `$${scheme}$${parameters}$${salt.slice(0, -1)}h$${hash}`,
    `$${scheme}$${parameters}$${salt}==$${hash}`,
    `$${scheme}$${parameters}$${salt}$${hash.replace(/.$/, '!')}`,
    stored('p', { bytes: 33 }),
    stored('p', { bytes: 15 }),
    stored('p', { salt: Buffer.alloc(3) }),
    stored('p', { salt: Buffer.alloc(65) }),
    stored('p', { algorithm: 'sha512', bytes: 65 }),
  ];
  for (const value of wrong)
    assert.equal(await checkPassword('p', value as string, QUICK), false, String(value).slice(0, 80));
  assert.equal(await checkPassword('p', right, QUICK), true);
});

test('checkPassword() returns false for two thousand mutations of a stored hash, and does not throw', async () => {
  const random = seeded(7);
  const right = stored('p');
  for (let round = 0; round < 2_000; round++) {
    const at = random(right.length);
    const character = String.fromCharCode(random(128));
    const mutated =
      round % 3 === 0
        ? right.slice(0, at) + right.slice(at + 1)
        : right.slice(0, at) + character + right.slice(round % 3 === 1 ? at : at + 1);
    if (mutated !== right)
      assert.equal(await checkPassword('p', mutated, { ...QUICK, maxIterations: 1_000 }), false, mutated);
  }
});

test('checkPassword() treats passwords as different if letter case, white space, NUL or any other character differs', async () => {
  const passwords = [
    'pass',
    'pass ',
    ' pass',
    'Pass',
    'pass\0word',
    '\0pass',
    'pass\n',
    '😀',
    '😁',
    'é',
    'ﬁ',
    'fi',
    'x'.repeat(64),
    'x'.repeat(65),
    'x'.repeat(72),
    'x'.repeat(73),
    'x'.repeat(4_095),
    'x'.repeat(4_096),
    '日本語'.repeat(20),
    '\u200b',
    '\u00a0',
  ];
  const hashes = await Promise.all(passwords.map((password) => hashPassword(password, QUICK)));
  for (const [index, hash] of hashes.entries()) {
    for (const [other, password] of passwords.entries())
      assert.equal(await checkPassword(password, hash, QUICK), index === other, `${index} ${other}`);
  }
});

test('hashPassword() accepts passwords of 64 characters, and refuses passwords of more than 4,096 bytes before it computes a hash', async () => {
  assert.equal(await checkPassword('😀'.repeat(64), await hashPassword('😀'.repeat(64), QUICK), QUICK), true);
  for (const password of [
    'x'.repeat(4_097),
    'é'.repeat(2_049),
    'x'.repeat(10_000_000),
    '\u0958'.repeat(1_200),
  ]) {
    // the last password exceeds the limit only in normal form C
    assert.ok(Buffer.byteLength(password.normalize('NFC')) > 4_096);
    const { started } = await watched(async () => {
      await assert.rejects(
        hashPassword(password),
        (error) => error instanceof BadRequest && error.status === 400 && !inspect(error).includes('xxxx'),
      );
      assert.equal(await checkPassword(password, stored('p')), false);
      assert.equal(await checkPassword(password, undefined), false);
    });
    assert.equal(started, 1); // stored() above has called it once for its salt
  }
});

test('hashPassword() refuses an invalid password, and checkPassword() returns false for an invalid password', async () => {
  for (const password of [
    '',
    undefined,
    null,
    5,
    {},
    ['p'],
    'half \ud800 of a pair',
    'p\0',
    `${'p'.repeat(64)}\0`,
  ]) {
    // HMAC gives the same result for 'p' and 'p\0'
    await assert.rejects(hashPassword(password as string, QUICK), { name: 'BadRequest', status: 400 });
    assert.equal(await checkPassword(password as string, stored('p'), QUICK), false);
  }
});

test('checkPassword() treats composed and decomposed characters of a password as equal (NFC), but not compatible characters (NFKC)', async () => {
  const hash = await hashPassword('cr\u00e8me br\u00fbl\u00e9e \uac00', QUICK);
  assert.equal(await checkPassword('cre\u0300me bru\u0302le\u0301e \u1100\u1161', hash, QUICK), true);
  assert.equal(await checkPassword('creme brulee \uac00', hash, QUICK), false);
  assert.equal(await checkPassword('ﬁ', await hashPassword('fi', QUICK), QUICK), false);
});

test('checkPassword() compares hashes with timingSafeEqual()', async () => {
  const { readFile } = await import('node:fs/promises');
  assert.match(
    await readFile(new URL('../../src/crypto/password.ts', import.meta.url), 'utf8'),
    /timingSafeEqual\(\s*await derive\(/,
  );
});

test('checkPassword() runs as many iterations for an unknown user or an invalid hash as for a valid hash', async () => {
  const options = { iterations: 2_000, unsafeForTests: true };
  for (const hash of [stored('p', options), undefined, null, '', '!', '$2b$10$x']) {
    const hashes = await hashesOf(async () => assert.equal(await checkPassword('q', hash, options), false));
    assert.deepEqual(hashes, { inThreadPool: [2_000], inEventLoop: [] }, String(hash));
  }
});

/** Returns how many hashes a call has started, and how many of them ran at the same time at most. */
async function watched(call: () => Promise<unknown>): Promise<{ started: number; most: number }> {
  const running = new Set<number>();
  let [started, most] = [0, 0];
  const hook = createHook({
    init(id, type) {
      if (type !== 'PBKDF2REQUEST') return;
      running.add(id);
      started++;
      most = Math.max(most, running.size);
    },
    before(id) {
      running.delete(id);
    },
  }).enable();
  try {
    await call();
  } finally {
    hook.disable();
  }
  return { started, most };
}

test('hashPassword() and checkPassword() hash in the thread pool, never in the thread of the event loop', async () => {
  const hash = stored('p');
  const { inThreadPool, inEventLoop } = await hashesOf(() =>
    Promise.all([hashPassword('p', QUICK), checkPassword('p', hash, QUICK), checkPassword('p', '', QUICK)]),
  );
  assert.deepEqual([inThreadPool, inEventLoop], [[10, 10, 10], []]);
});

test('hashPassword() computes at most three hashes at once, and starts queued calls in order', async () => {
  const order: number[] = [];
  const { started, most } = await watched(() =>
    Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        await hashPassword('p', { iterations: 2_000, unsafeForTests: true });
        order.push(index);
      }),
    ),
  );
  assert.equal(started, 40);
  assert.equal(most, 3); // one of the pool's four threads remains free for files and host names
  // hashes start in order, but a thread may be slow, so a hash may end up to two places later
  for (const [place, index] of order.entries()) assert.ok(index <= place + 2, order.join(' '));
});

test('while 64 hashes are queued, hashPassword() and checkPassword() throw an exception with status 503 and Retry-After', async () => {
  const results = await Promise.allSettled(
    Array.from({ length: 100 }, (_, index) =>
      index % 2 === 0
        ? hashPassword('p', QUICK)
        : checkPassword('p', index % 3 === 0 ? undefined : stored('p'), QUICK),
    ),
  );
  const refused = results.filter((result) => result.status === 'rejected');
  assert.equal(refused.length, 100 - 3 - 64);
  for (const { reason } of refused) {
    assert.ok(reason instanceof Unavailable); // ordinary overload, which writes no unhandled_error
    assert.equal(reason.status, 503);
    assert.match(reason.headers!['Retry-After']!, /^\d+$/);
  }
  assert.equal(await checkPassword('p', await hashPassword('p', QUICK), QUICK), true);
  const again = await Promise.allSettled(Array.from({ length: 67 }, () => hashPassword('p', QUICK)));
  assert.ok(again.every(({ status }) => status === 'fulfilled'));
});

test('while the queue is full, checkPassword() still accepts a correct password that is already being checked, and skips rehash()', async () => {
  const outdated = stored('p', { iterations: 9 });
  const flood: Promise<unknown>[] = [];
  const another = (): void => {
    flood.push(hashPassword('p', QUICK).catch(() => undefined));
  };
  // keeps the queue full: when a hash ends, the next one takes its place before checkPassword() continues
  const refill = async (): Promise<void> => {
    for (let turn = 0; turn < 12; turn++) {
      await undefined;
      another();
    }
  };
  const hashes = new Set<number>();
  const hook = createHook({
    init(id, type) {
      if (type === 'PBKDF2REQUEST') hashes.add(id);
    },
    before(id) {
      if (hashes.has(id)) void refill();
    },
  }).enable();
  const checks = Array.from({ length: 3 }, () =>
    checkPassword('p', outdated, { ...QUICK, rehash: () => assert.fail('the queue has no room') }),
  );
  for (let index = 0; index < 64; index++) another();
  try {
    assert.deepEqual(await Promise.all(checks), [true, true, true]);
  } finally {
    hook.disable();
  }
  while (flood.length > 0) await Promise.all(flood.splice(0));
});

test('hashPassword() writes the id of its pepper into the hash, and checkPassword() calls rehash() for a hash that uses a previous pepper', async () => {
  const old = { id: '2026', secret: PEPPER };
  const current = { id: '2027', secret: `${PEPPER}, the next` };
  const before: PasswordOptions = { ...QUICK, pepper: old };
  const both: PasswordOptions = { ...QUICK, pepper: [current, old] };
  const hash = await hashPassword('p', before);
  assert.match(hash, /^\$pbkdf2-sha256\$i=10,keyid=2026\$/);
  assert.equal(await checkPassword('p', hash, before), true);
  assert.equal(await checkPassword('q', hash, before), false);
  assert.equal(needsRehash(hash, before), false);
  assert.equal(needsRehash(hash, both), true);
  let fresh = '';
  assert.equal(
    await checkPassword('p', hash, {
      ...both,
      rehash: (text) => {
        fresh = text;
      },
    }),
    true,
  );
  assert.match(fresh, /,keyid=2027\$/);
  assert.equal(await checkPassword('p', fresh, { ...QUICK, pepper: current }), true);
  // the pepper of the hash is not in the options
  assert.equal(await checkPassword('p', hash, { ...QUICK, pepper: current }), false);
  assert.equal(await checkPassword('p', fresh, QUICK), false);
  assert.equal(needsRehash(fresh, QUICK), true);
});

test('with a pepper, checkPassword() accepts a hash that was made without a pepper, and needsRehash() returns true for this hash', async () => {
  const options: PasswordOptions = { ...QUICK, pepper: { id: 'a', secret: PEPPER } };
  const plain = await hashPassword('p', QUICK);
  assert.equal(await checkPassword('p', plain, options), true);
  assert.equal(needsRehash(plain, options), true);
  const peppered = await hashPassword('p', options);
  // without its key id the hash is one of a password without pepper
  assert.equal(await checkPassword('p', peppered.replace(',keyid=a', ''), options), false);
  assert.equal(
    await checkPassword('p', peppered, { ...QUICK, pepper: { id: 'a', secret: `${PEPPER}!` } }),
    false,
  );
});

test('hashPassword() refuses a pepper that is too short or is a public key, and the error does not show the pepper', async () => {
  for (const [secret, code] of [
    ['too short', 'E_SECRET_WEAK'],
    ['-----BEGIN PUBLIC KEY-----', 'E_SECRET_FORM'],
  ] as const) {
    await assert.rejects(
      hashPassword('p', { pepper: { id: 'a', secret } }),
      (error) => error instanceof SvcError && error.code === code && !inspect(error).includes(secret),
    );
  }
});
