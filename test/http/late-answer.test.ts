/** Responses that are made when a body is complete. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpResponse, LateAnswer } from '../../src/http/response.ts';
import type { Awaitable } from '../../src/http/contracts.ts';

class Settled extends LateAnswer {
  now(answer: Awaitable<HttpResponse>): this {
    this.settle(answer);
    return this;
  }
}

test('LateAnswer gives what is there already at once', () => {
  const response = new HttpResponse();
  const given: HttpResponse[] = [];
  new Settled().now(response).giveTo((answer) => given.push(answer));
  assert.deepEqual(given, [response]);
});

test('LateAnswer gives what comes later in the breath in which it comes', () => {
  const response = new HttpResponse();
  const given: HttpResponse[] = [];
  const late = new Settled();
  late.giveTo((answer) => given.push(answer));
  assert.deepEqual(given, []);
  late.now(response);
  assert.deepEqual(given, [response]);
});

test('LateAnswer whose answer is a promise gives what that resolves with', async () => {
  const response = new HttpResponse();
  const { promise, resolve } = Promise.withResolvers<HttpResponse>();
  const late = new Settled().now(promise);
  const given = new Promise((done) => late.giveTo(done));
  resolve(response);
  assert.equal(await given, response);
});

test('LateAnswer can be awaited, before it is settled and after', async () => {
  const response = new HttpResponse();
  const late = new Settled();
  const waiting = (async () => late)();
  late.now(response);
  assert.equal(await waiting, response);
  assert.equal(await new Settled().now(response), response);
  assert.ok(late.promise instanceof Promise);
});
