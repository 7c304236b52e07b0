import assert from 'node:assert/strict';
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
    ['ftp://provider.test/', /is not https/],
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
