import assert from 'node:assert/strict';
import test from 'node:test';
import { ExceptionHandlers } from '../../src/http/pipeline.ts';
import { BadRequest, HTTPException, NotFound } from '../../src/base/errors.ts';
import type { HttpRequest } from '../../src/http/contracts.ts';

class Base extends Error {}
class Middle extends Base {}
class Leaf extends Middle {}

function found(handlers: ExceptionHandlers, error: unknown): unknown {
  return handlers.find(error)?.handler(error, {} as HttpRequest);
}

test('ExceptionHandlers.find() returns the handler for the most specific class of an error, whatever the order of registration', () => {
  for (const order of [
    [Error, Base, Middle],
    [Middle, Base, Error],
  ]) {
    const handlers = new ExceptionHandlers();
    for (const errorClass of order) handlers.add(errorClass, () => errorClass.name);
    assert.equal(found(handlers, new Leaf()), 'Middle');
    assert.equal(found(handlers, new Middle()), 'Middle');
    assert.equal(found(handlers, new Base()), 'Base');
    assert.equal(found(handlers, new TypeError()), 'Error');
    assert.equal(handlers.size, 3);
  }
});

test('ExceptionHandlers.add() refuses a value that is not a class, such as a status, and a handler that is not a function', () => {
  const handlers = new ExceptionHandlers();
  for (const given of [404, '404', undefined, {}, () => undefined])
    assert.throws(() => handlers.add(given as never, () => 1), {
      code: 'E_EXCEPTION_HANDLER',
      message: /is not a class$/,
    });
  assert.throws(() => handlers.add(NotFound, undefined as never), {
    code: 'E_EXCEPTION_HANDLER',
    message: /the handler is not a function$/,
  });
  assert.equal(handlers.size, 0);
});

test('ExceptionHandlers.find() returns the handler for HTTPException also for subclasses of HTTPException', () => {
  const handlers = new ExceptionHandlers();
  handlers.add(HTTPException, (error) => error.status);
  handlers.add(NotFound, () => 'none');
  assert.equal(found(handlers, new BadRequest()), 400);
  assert.equal(found(handlers, new NotFound()), 'none');
  assert.equal(handlers.find(new Error()), undefined);
});

test('ExceptionHandlers.find() returns no handler for primitives and for objects without a class', () => {
  const handlers = new ExceptionHandlers();
  assert.equal(handlers.find(new Error()), undefined);
  handlers.add(Error, () => 'x');
  for (const thrown of [undefined, null, 'text', 5, Symbol('s'), {}, Object.create(null), [], () => 1])
    assert.equal(handlers.find(thrown), undefined);
});

test('ExceptionHandlers.find() uses the prototype chain, as instanceof does, and ignores the property "constructor"', () => {
  function Old(this: { message: string }): void {
    this.message = 'old';
  }
  Old.prototype = Object.create(Error.prototype) as object;
  const OldError = Old as unknown as new () => Error;
  const handlers = new ExceptionHandlers();
  handlers.add(OldError, () => 'old');
  handlers.add(Error, () => 'error');
  assert.equal(found(handlers, new OldError()), 'old');
  const forged = Object.create({ constructor: OldError }) as object;
  assert.equal(handlers.find(forged), undefined);
});

test('ExceptionHandlers.add() adds or replaces the handler of a class, and returns whether the class is new', () => {
  const handlers = new ExceptionHandlers();
  assert.equal(
    handlers.add(Base, () => 1),
    true,
  );
  assert.equal(
    handlers.add(Base, () => 2),
    false,
  );
  assert.equal(found(handlers, new Base()), 2);
  assert.equal(handlers.size, 1);
});
