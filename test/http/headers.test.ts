import assert from 'node:assert/strict';
import test from 'node:test';
import {
  HeaderList,
  bare,
  elementsOf,
  findField,
  isFieldValue,
  isToken,
  itemsOf,
  viewOf,
} from '../../src/http/headers.ts';

test('isToken() accepts exactly the characters of RFC 9110 §5.6.2', () => {
  const tchar = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  for (let code = 0; code < 0x180; code++)
    assert.equal(
      isToken(`a${String.fromCharCode(code)}`),
      tchar.includes(String.fromCharCode(code)),
      String(code),
    );
  for (const text of ['', 'a\n', ' a', 'a b']) assert.ok(!isToken(text));
});

test('isFieldValue() accepts exactly tab, printable ASCII and U+0080 to U+00FF', () => {
  for (let code = 0; code < 0x180; code++)
    assert.equal(
      isFieldValue(`a${String.fromCharCode(code)}`),
      code === 9 || (code >= 32 && code !== 127 && code < 256),
      String(code),
    );
  assert.ok(isFieldValue(''));
  assert.ok(!isFieldValue('a\n'));
});

test('viewOf() returns header names in lower case, and joins lists with commas and cookies with semicolons', () => {
  const view = viewOf(['Accept', 'a', 'ACCEPT', 'b', 'Cookie', 'x=1', 'cookie', 'y=2', 'X-Empty', '']);
  assert.deepEqual({ ...view }, { accept: 'a, b', cookie: 'x=1; y=2', 'x-empty': '' });
});

test('viewOf() keeps the first field if a field that may occur only once is repeated', () => {
  for (const name of ['Host', 'Content-Type', 'Content-Length', 'User-Agent', 'If-Modified-Since', 'Range'])
    assert.equal(viewOf([name, 'a', name, 'b'])[name.toLowerCase()], 'a');
});

test('viewOf() joins repeated Authorization fields to one invalid value, so that neither field is accepted', () => {
  for (const name of ['Authorization', 'Proxy-Authorization'])
    assert.equal(viewOf([name, 'Bearer a', name, 'Bearer b'])[name.toLowerCase()], 'Bearer a, Bearer b');
});

test('viewOf() returns an object without a prototype, so fields named "__proto__" or "constructor" are ordinary properties', () => {
  const view = viewOf(['__proto__', 'a', 'constructor', 'b']);
  assert.deepEqual(Object.keys(view), ['__proto__', 'constructor']);
  assert.equal(view['__proto__'], 'a');
  assert.equal(viewOf([])['toString'], undefined);
  assert.equal(viewOf([])['__proto__'], undefined);
  assert.equal(({} as Record<string, unknown>)['a'], undefined);
});

test('bare() returns a new object that inherits no members', () => {
  const one = bare<Record<string, number>>();
  one['a'] = 1;
  assert.equal(bare<Record<string, number>>()['a'], undefined);
  assert.ok(!('toString' in one));
});

test('findField() returns the first field with a name, whatever the case of the name', () => {
  assert.equal(findField(['X-A', '1', 'x-a', '2'], 'x-a'), '1');
  assert.equal(findField(['X-AB', '1'], 'x-a'), undefined);
  assert.equal(findField(['a', 'x-a'], 'x-a'), undefined);
});

test('HeaderList compares names without regard to case, and preserves the order and spelling of its fields', () => {
  const list = new HeaderList();
  list.set('X-One', '1');
  list.append('x-one', '2');
  list.append('Set-Cookie', 'a=1');
  list.append('set-cookie', 'b=2');
  assert.equal(list.get('X-ONE'), '1, 2');
  assert.equal(list.get('Set-Cookie'), 'a=1');
  assert.deepEqual(list.getSetCookie(), ['a=1', 'b=2']);
  assert.deepEqual(
    [...list],
    [
      ['X-One', '1'],
      ['x-one', '2'],
      ['Set-Cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ],
  );
  list.set('x-One', '3');
  assert.equal(list.get('x-one'), '3');
  assert.ok(list.has('X-ONE'));
  list.delete('SET-cookie');
  list.delete('absent');
  assert.deepEqual(list.flat, ['x-One', '3']);
  assert.ok(!list.has('set-cookie'));
  assert.equal(list.get('set-cookie'), undefined);
});

for (const [name, value] of [
  ['X', 'a\r\nSet-Cookie: b=c'],
  ['X', 'a\n'],
  ['X', 'a\0'],
  ['X', '\x7f'],
  ['X', 'Ā'],
  ['X\r\nY', 'a'],
  ['X Y', 'a'],
  ['', 'a'],
  ['X:', 'a'],
  ['Content-Length', '5'],
  ['transfer-encoding', 'chunked'],
  ['CONNECTION', 'close'],
  ['X', 5 as unknown as string],
  ['X', undefined as unknown as string],
  [5 as unknown as string, 'a'],
] as const) {
  test(`HeaderList refuses a field that is invalid or managed by the server, and stays unchanged (name: ${JSON.stringify(name)}, value: ${JSON.stringify(value)})`, () => {
    const list = new HeaderList();
    list.set('X', 'before');
    const code = /^(?:content-length|transfer-encoding|connection)$/i.test(name)
      ? 'E_HEADER_OWNED'
      : 'E_HEADER';
    assert.throws(() => list.set(name, value), { code });
    assert.throws(() => list.append(name, value), { code });
    assert.deepEqual(list.flat, ['X', 'before']);
  });
}

test('HeaderList.vary() adds each name only once, and leaves "*" unchanged', () => {
  const list = new HeaderList();
  list.vary();
  assert.deepEqual(list.flat, []);
  list.vary('Origin');
  list.vary('origin', 'Accept');
  assert.deepEqual(list.get('vary')!.toLowerCase().split(', '), ['origin', 'accept']);
  list.vary('Cookie', '*');
  assert.equal(list.get('vary'), '*');
  list.vary('Origin');
  assert.equal(list.get('vary'), '*');
  const other = new HeaderList();
  other.set('Vary', '');
  other.append('vary', 'A,B');
  other.vary('b', 'C');
  assert.deepEqual(other.flat, ['Vary', 'A, b, C']);
  const repeated = new HeaderList(['Vary', 'Origin', 'Vary', 'origin']);
  repeated.vary('Cookie');
  assert.deepEqual(repeated.flat, ['Vary', 'origin, Cookie']);
});

test('elementsOf() splits a list at its commas, except in quoted strings (RFC 9110 §5.6.1 and §5.6.4)', () => {
  for (const [list, ...items] of [
    [''],
    [' , ,'],
    ['a, b,,c ', 'a', 'b', 'c'],
    ['"a,b", W/"c,d"', '"a,b"', 'W/"c,d"'],
    ['a;q="1,2";r=3, b', 'a;q="1,2";r=3', 'b'],
    ['"a\\",b", c', '"a\\",b"', 'c'],
    ['"", ","', '""', '","'],
    ['a, "b, c', 'a', '"b, c'], // without an end
    ['a, "b, c\\', 'a', '"b, c\\'],
  ] as const) {
    assert.deepEqual(elementsOf(list), items, list);
  }
  // a client must not hide the address that a proxy appends
  assert.deepEqual(itemsOf('"x, 192.0.2.1'), ['"x', '192.0.2.1']);
});

test('elementsOf() reads any list in time proportional to its length', () => {
  for (const part of ['"', '\\"', '",', 'a"\\', ',"']) {
    const list = part.repeat(500_000);
    assert.ok(elementsOf(`"${list}`).join('').length <= list.length + 1);
  }
});
