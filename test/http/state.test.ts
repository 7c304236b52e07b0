import assert from 'node:assert/strict';
import test from 'node:test';
import { AppState, RequestState, stateKey } from '../../src/http/state.ts';
import type { Context } from '../../src/http/contracts.ts';

test('stateKey() returns a different key for each call, even if the names are equal', () => {
  const one = stateKey<number>('n');
  const other = stateKey<number>('n');
  const state = new AppState();
  state.set(one, 1);
  assert.equal(one.name, 'n');
  assert.ok(state.has(one));
  assert.ok(!state.has(other));
  assert.throws(() => state.get(other), { code: 'E_STATE_UNSET', message: /"n"/ });
});

test('stateKey() returns a function that reads its value from the context of a request', () => {
  const key = stateKey<string>('k');
  const state = new AppState();
  state.set(key, 'value');
  assert.equal(key({ state } as unknown as Context), 'value');
});

test('AppState.provide() calls the given function at each read, and set() replaces the function with a value', () => {
  const key = stateKey<number>('n');
  const state = new AppState();
  let reads = 0;
  state.provide(key, () => ++reads);
  assert.deepEqual([state.get(key), state.get(key)], [1, 2]);
  state.set(key, 9);
  assert.equal(state.get(key), 9);
});

test('RequestState prefers its own values to those of the application, and never changes the state of the application', () => {
  const key = stateKey<number | undefined>('n');
  const app = new AppState();
  const request = new RequestState(app);
  assert.ok(!request.has(key));
  assert.throws(() => request.get(key), { code: 'E_STATE_UNSET' });
  app.set(key, 1);
  assert.equal(request.get(key), 1);
  request.set(key, undefined);
  assert.equal(request.get(key), undefined);
  assert.ok(request.has(key));
  assert.equal(app.get(key), 1);
  assert.equal(new RequestState(app).get(key), 1);
});

test('RequestState stores several values separately, and can store undefined', () => {
  const keys = Array.from({ length: 4 }, () => stateKey<number | undefined>('same'));
  const app = new AppState();
  app.set(keys[0]!, -1);
  app.set(keys[3]!, -4);
  const state = new RequestState(app);
  assert.deepEqual(
    keys.map((key) => state.has(key)),
    [true, false, false, true],
  );
  state.set(keys[0]!, undefined);
  state.set(keys[1]!, 2);
  state.set(keys[2]!, undefined);
  assert.deepEqual(
    keys.map((key) => state.get(key)),
    [undefined, 2, undefined, -4],
  );
  state.set(keys[0]!, 1);
  state.set(keys[2]!, 3);
  assert.deepEqual(
    keys.map((key) => state.get(key)),
    [1, 2, 3, -4],
  );
  assert.deepEqual(
    keys.map((key) => state.has(key)),
    [true, true, true, true],
  );
  assert.throws(() => state.get(stateKey('other')), { code: 'E_STATE_UNSET' });
});
