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

test('if the response is already set, LateAnswer.giveTo() calls its callback at once', () => {
  const response = new HttpResponse();
  const given: HttpResponse[] = [];
  new Settled().now(response).giveTo((answer) => given.push(answer));
  assert.deepEqual(given, [response]);
});

test('if the response is set later, LateAnswer.giveTo() calls its callback synchronously when the response is set', () => {
  const response = new HttpResponse();
  const given: HttpResponse[] = [];
  const late = new Settled();
  late.giveTo((answer) => given.push(answer));
  assert.deepEqual(given, []);
  late.now(response);
  assert.deepEqual(given, [response]);
});

test('if LateAnswer is settled with a promise, giveTo() calls its callback with the response of the promise', async () => {
  const response = new HttpResponse();
  const { promise, resolve } = Promise.withResolvers<HttpResponse>();
  const late = new Settled().now(promise);
  const given = new Promise((done) => late.giveTo(done));
  resolve(response);
  assert.equal(await given, response);
});

test('LateAnswer can be awaited before and after it is settled', async () => {
  const response = new HttpResponse();
  const late = new Settled();
  const waiting = (async () => late)();
  late.now(response);
  assert.equal(await waiting, response);
  assert.equal(await new Settled().now(response), response);
  assert.ok(late.promise instanceof Promise);
});
