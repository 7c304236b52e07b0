import assert from 'node:assert/strict';
import { isIPv4 } from 'node:net';
import { test } from 'node:test';
import { isPrivateAddress, isWithinSite, issueOfUrl } from '../../../src/auth/provider/addresses.ts';

test('isPrivateAddress() returns true for loopback, link-local and private addresses, also for IPv4 addresses inside IPv6', () => {
  const privates = [
    '127.0.0.1',
    '127.255.255.254',
    '0.0.0.0',
    '10.0.0.1',
    '10.255.255.255',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '240.0.0.1',
    '192.0.2.1',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
    '::ffff:0:127.0.0.1',
    '::ffff:0:a9fe:a9fe',
    '64:ff9b::10.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::',
    '64:ff9b::1',
    '64:ff9b::c633:64ff',
    'fc00::1',
    'fd00::1',
    'fe80::1',
    'fe80::1%eth0',
    'ff02::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '[::1]',
    '',
    'localhost',
    '1.2.3',
    '0x7f.1',
  ];
  const publics = [
    '8.8.8.8',
    '172.15.255.255',
    '172.32.0.1',
    '11.0.0.1',
    '192.167.255.255',
    '169.253.1.1',
    '100.63.255.255',
    '100.128.0.1',
    '223.255.255.255',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
    '64:ff9b::c633:6500',
    '64:ff9b::1:7f00:1',
    '64:ff9b::8.8.8.8',
    '2606:4700::1111',
    '[2606:4700::1111]',
  ];
  assert.deepEqual(
    privates.filter((address) => !isPrivateAddress(address)),
    [],
  );
  assert.deepEqual(publics.filter(isPrivateAddress), []);
});

/** First and last address of each network that is not public, and the public addresses beside it. */
const NETWORKS: readonly (readonly [
  first: string,
  last: string,
  before?: string | undefined,
  after?: string,
])[] = [
  ['0.0.0.0', '0.255.255.255', undefined, '1.0.0.0'],
  ['10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
  ['100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
  ['127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
  ['169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
  ['172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
  ['192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
  ['192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
  ['192.88.99.0', '192.88.99.255', '192.88.98.255', '192.88.100.0'],
  ['192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
  ['198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
  ['198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
  ['203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
  ['224.0.0.0', '255.255.255.255', '223.255.255.255'],
  ['64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff', undefined, '64:ff9b:2::'],
  ['100::', '100::ffff:ffff:ffff:ffff', 'ff:ffff::', '100:0:0:1::'],
  ['2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff', '2000:ffff::', '2001:200::'],
  ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db7:ffff::', '2001:db9::'],
  ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2001:ffff::', '2003::'],
  ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff', '3ffe:ffff::', '3fff:1000::'],
  ['5f00::', '5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '5eff:ffff::', '5f01::'],
  ['fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fbff:ffff::', 'fe00::'],
  ['fe80::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fe7f:ffff::'],
  ['ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
];

for (const [first, last, before, after] of NETWORKS)
  test(`isPrivateAddress() returns true from ${first} to ${last}, and false beside this network`, () => {
    const inside = [first, last];
    const outside = [before, after].filter((address) => address !== undefined);
    if (isIPv4(first)) {
      inside.push(`64:ff9b::${first}`, `64:ff9b::${last}`, `::ffff:${first}`, `::ffff:${last}`);
      outside.push(...outside.map((address) => `64:ff9b::${address}`));
    }
    assert.deepEqual(
      inside.filter((address) => !isPrivateAddress(address)),
      [],
    );
    assert.deepEqual(outside.filter(isPrivateAddress), []);
  });

test('issueOfUrl() accepts https URLs, and accepts http URLs of the loopback interface if its option allows them', () => {
  for (const url of ['https://provider.test/authorize?x=1', 'https://[2606:4700::1111]:8443/'])
    assert.equal(issueOfUrl(url, false), undefined);
  for (const url of ['http://127.0.0.1:9000/', 'http://localhost/', 'http://[::1]:80/', 'http://0x7f.1/']) {
    assert.equal(issueOfUrl(url, true), undefined);
    assert.match(issueOfUrl(url, false)!, /allowInsecure/);
  }
  const wrong: readonly (readonly [url: unknown, problem: RegExp])[] = [
    ['http://provider.test/', /leads to another machine/],
    ['http://127.0.0.1.evil.test/', /another machine/],
    ['http://10.0.0.1/', /another machine/],
    ['ftp://provider.test/', /^is not https$/],
    ['ftp://127.0.0.1/', /^is not https$/],
    ['file:///etc/passwd', /is not https/],
    ['javascript:alert(1)', /is not https/],
    ['data:,x', /is not https/],
    ['/token', /not an absolute URL/],
    ['', /not an absolute URL/],
    [5, /not an absolute URL/],
    [undefined, /not an absolute URL/],
    ['https://user:pw@provider.test/', /a user name or a password/],
    ['https://provider.test/#x', /fragment/],
    ['https://provider.test/a b', /spaces/],
    ['https:\\\\provider.test', /backslashes/],
    ['https://provider.test/\u00e4', /escape/],
  ];
  for (const [url, problem] of wrong) assert.match(issueOfUrl(url as string, true)!, problem);
});

test('isWithinSite() returns true for the given host and its subdomains', () => {
  assert.deepEqual(
    [
      ['a.test', 'a.test'],
      ['x.a.test', 'a.test'],
      ['xa.test', 'a.test'],
      ['a.test', 'x.a.test'],
      ['b.test', 'a.test'],
    ].map(([host, site]) => isWithinSite(host!, site!)),
    [true, true, false, false, false],
  );
});
