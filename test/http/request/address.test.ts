import assert from 'node:assert/strict';
import { BlockList, isIP } from 'node:net';
import { test } from 'node:test';
import {
  clientOf,
  contains,
  formatAddress,
  parseAddress,
  parseNetwork,
  peerAddress,
  withoutZone,
} from '../../../src/http/request/proxy.ts';
import { seeded } from '../../support/random.ts';

for (const [text, canonical] of [
  ['1.2.3.4', '1.2.3.4'],
  ['::ffff:1.2.3.4', '1.2.3.4'],
  ['::FFFF:102:304', '1.2.3.4'],
  ['0:0:0:0:0:ffff:1.2.3.4', '1.2.3.4'],
  ['255.255.255.255', '255.255.255.255'],
  ['::', '::'],
  ['::1', '::1'],
  ['1::', '1::'],
  ['2001:DB8::8:800:200C:417A', '2001:db8::8:800:200c:417a'],
  ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
  ['1:0:3:4:5:6:7:8', '1:0:3:4:5:6:7:8'],
  ['64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
] as const) {
  test(`parseAddress() and formatAddress() write an IP address in the canonical form of RFC 5952 §4 (${text} becomes ${canonical})`, () =>
    assert.equal(formatAddress(parseAddress(text)!), canonical));
}

for (const text of [
  '',
  '1.2.3',
  '1.2.3.4.5',
  '01.2.3.4',
  '256.1.1.1',
  '1.2.3.4 ',
  ' 1.2.3.4',
  '0x1.2.3.4',
  '1.2.3.4:80',
  '[::1]',
  ':',
  ':::',
  '1::2::3',
  '1:2:3:4:5:6:7',
  '1:2:3:4:5:6:7:8:9',
  '1:2:3:4:5:6:7:8::',
  '12345::',
  'g::',
  '::1.2.3',
  '1.2.3.4::',
  '::1.2.3.4:5',
  'fe80::1%eth0',
  '::ffff:1.2.3.256',
  '0000:0000:0000:0000:0000:ffff:255.255.255.2555',
  'localhost',
]) {
  test(`parseAddress() refuses text that is not an IP address: ${JSON.stringify(text)}`, () =>
    assert.equal(parseAddress(text), undefined));
}

test('for 20,000 mutated addresses, parseAddress() accepts exactly the addresses that node:net accepts, and reads its own output as the same address', () => {
  const random = seeded(7);
  const alphabet = '0123456789abcdefF:.::..%[] g';
  const seeds = [
    '1.2.3.4',
    '::ffff:1.2.3.4',
    '2001:db8::1',
    '::',
    '1:2:3:4:5:6:7:8',
    'fe80::a:b',
    '255.0.10.199',
  ];
  let good = 0;
  for (let round = 0; round < 20_000; round++) {
    const letters = [...seeds[random(seeds.length)]!];
    for (let change = random(3); change >= 0; change--)
      letters.splice(random(letters.length + 1), random(2), alphabet[random(alphabet.length)]!);
    const text = letters.join('');
    const address = parseAddress(text);
    assert.equal(address !== undefined, isIP(text) !== 0 && !text.includes('%'), text);
    if (address === undefined) continue;
    good++;
    assert.deepEqual(parseAddress(formatAddress(address)), address, text);
  }
  assert.ok(good > 2_000, String(good));
});

test('for generated networks and addresses, contains() returns the same as a BlockList of node:net', () => {
  const random = seeded(11);
  for (let round = 0; round < 3_000; round++) {
    const isFour = random(2) === 0;
    const base = isFour
      ? [0, 0, 0, 0, 0, 0xffff, random(65_536), random(65_536)]
      : Array.from({ length: 8 }, () => random(65_536) | 1);
    const near = [...base];
    near[isFour ? 6 + random(2) : random(8)]! ^= 1 << random(16);
    const bits = random(isFour ? 33 : 129);
    const [from, candidate, type] = [
      formatAddress(base),
      formatAddress(near),
      isFour ? 'ipv4' : 'ipv6',
    ] as const;
    const reference = new BlockList();
    reference.addSubnet(from, bits, type);
    assert.equal(
      contains(parseNetwork(`${from}/${bits}`)!, near),
      reference.check(candidate, type),
      `${from}/${bits} ${candidate}`,
    );
  }
});

test('parseNetwork() reads a single address as a network with one address, and refuses invalid texts', () => {
  assert.equal(parseNetwork('10.0.0.1')!.bits, 128);
  assert.equal(parseNetwork('10.0.0.0/8')!.bits, 104);
  for (const text of [
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/',
    '10.0.0.0/08',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    'x/8',
    '/8',
    '',
  ])
    assert.equal(parseNetwork(text), undefined, text);
});

test('clientOf() returns the network of an IPv6 address, and converts an IPv4-mapped address to IPv4', () => {
  assert.equal(clientOf('2001:db8:1:2:aaaa::1', 64), '2001:db8:1:2::/64');
  assert.equal(clientOf('2001:db8:1:2:bbbb::2', 64), clientOf('2001:DB8:1:2:ffff:0:0:1', 64));
  assert.notEqual(clientOf('2001:db8:1:3::1', 64), clientOf('2001:db8:1:2::1', 64));
  assert.equal(clientOf('2001:db8:1:ff02::1', 56), '2001:db8:1:ff00::/56');
  assert.equal(clientOf('2001:db8::1', 128), '2001:db8::1');
  assert.equal(clientOf('2001:db8:ffff::1', 33), '2001:db8:8000::/33');
  assert.equal(clientOf('::ffff:192.0.2.1', 64), '192.0.2.1');
  assert.equal(clientOf('::ffff:c000:201', 64), '192.0.2.1');
  assert.equal(clientOf('192.0.2.1', 64), '192.0.2.1');
  assert.equal(clientOf('fe80::1%eth0', 64), 'fe80::/64');
  assert.equal(clientOf('a:b', 64), 'a:b');
  assert.equal(clientOf('', 64), '');
});

test('peerAddress() returns an IPv4-mapped address as IPv4, and withoutZone() removes the zone of an address', () => {
  assert.equal(peerAddress('::ffff:127.0.0.1'), '127.0.0.1');
  assert.equal(peerAddress('::1'), '::1');
  assert.equal(withoutZone('fe80::1%eth0'), 'fe80::1');
  assert.equal(withoutZone('::1'), '::1');
});
