/**
 * Reserves standard output for MCP messages. All other output goes to another stream, such as standard error.
 *
 * Node.js cannot redirect a file descriptor, so this module replaces functions that use one:
 *   - fs.write(1, ...), writeSync, writev, writevSync, writeFileSync and appendFileSync write to descriptor 2
 *     instead.
 *   - spawn(..., { stdio: 'inherit' }) and similar functions give a child process ['ignore', 2, 'inherit'],
 *     so that it cannot consume messages from standard input.
 *   - new Worker(file) makes the worker thread import a module that replaces the functions of node:fs there.
 *
 * The output of native code is not redirected, nor the output of worker threads that were created from text
 * (`eval`) or by other worker threads.
 */
import childProcess from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import workerThreads from 'node:worker_threads';
import { errorCode } from '../base/errors.ts';
import { isObject, isRecord } from '../base/options.ts';
import type { Writable } from 'node:stream';
import type { Worker, WorkerOptions } from 'node:worker_threads';

const WRITERS = ['write', 'writeSync', 'writev', 'writevSync', 'writeFileSync', 'appendFileSync'] as const;
const STDIN = 0;
/**
 * Functions that create a process without calling ChildProcess.spawn(). The other functions of
 * node:child_process call ChildProcess.spawn().
 */
const SYNCHRONOUS = ['spawnSync', 'execSync', 'execFileSync'] as const;

/**
 * Property of a reserved stream that holds the stream's original write(). All copies of this package in a
 * process share this symbol.
 */
const RESERVED: unique symbol = Symbol.for('svc.mcp.reserved');

/** Returns the stream's original write(), or undefined when the stream is not reserved. */
export function reservedWrite(
  output: Writable & { readonly [RESERVED]?: Writable['write'] },
): Writable['write'] | undefined {
  return output[RESERVED];
}

/**
 * Redirects writes on `output` to `elsewhere`, except MCP messages. Disposing the result ends the
 * redirection. Does nothing if the stream is already reserved.
 */
export function reserveOutput(output: Writable, elsewhere: Writable): Disposable {
  if (reservedWrite(output) !== undefined) return { [Symbol.dispose]: () => undefined };
  const own = Object.getOwnPropertyDescriptor(output, 'write');
  Object.defineProperty(output, RESERVED, { configurable: true, value: output.write.bind(output) });
  Object.defineProperty(output, 'write', {
    configurable: true,
    writable: true,
    value: elsewhere.write.bind(elsewhere),
  });
  const [from, to] = [output, elsewhere].map((stream) => (stream as { readonly fd?: unknown }).fd);
  const descriptor =
    typeof from === 'number' && typeof to === 'number' ? leadDescriptor(from, to) : undefined;
  return {
    [Symbol.dispose]() {
      descriptor?.[Symbol.dispose]();
      delete (output as { [RESERVED]?: unknown })[RESERVED];
      if (own === undefined)
        // removes the own property, so that write() of the class is used again
        delete (output as { write?: unknown }).write;
      else Object.defineProperty(output, 'write', own);
    },
  };
}

/** Redirects writes from the file descriptor `from` to the descriptor `to`, until the result is disposed. */
function leadDescriptor(from: number, to: number): Disposable {
  const undo: (() => void)[] = [];
  const replace = (
    owner: object,
    name: string,
    change: (args: readonly unknown[]) => readonly unknown[],
  ): void => {
    // defined, because these properties exist in every supported version of Node.js
    const before = Object.getOwnPropertyDescriptor(owner, name)!;
    const own = before.value as (...args: readonly unknown[]) => unknown;
    const value = function led(this: unknown, ...args: readonly unknown[]): unknown {
      return Reflect.apply(own, this, change(args));
    };
    // copies all properties of the function, such as the symbol that promisify() looks for
    Object.defineProperties(value, Object.getOwnPropertyDescriptors(own));
    Object.defineProperty(owner, name, { ...before, value });
    undo.push(() => Object.defineProperty(owner, name, before));
  };
  const led = (stdio: unknown): unknown => {
    const list: unknown = stdio === 'inherit' ? [stdio, stdio, stdio] : stdio;
    return Array.isArray(list)
      ? list.map((one: unknown, index) => {
          const fd = one === 'inherit' ? index : isObject(one) ? (one as { readonly fd?: unknown }).fd : one;
          return fd === from ? to : fd === STDIN ? 'ignore' : one;
        })
      : list;
  };
  for (const name of WRITERS) replace(fs, name, ([fd, ...rest]) => [fd === from ? to : fd, ...rest]);
  const children = (args: readonly unknown[]): readonly unknown[] =>
    args.map((arg) => (isRecord(arg) && 'stdio' in arg ? { ...arg, stdio: led(arg['stdio']) } : arg));
  for (const name of SYNCHRONOUS) replace(childProcess, name, children);
  replace(childProcess.ChildProcess.prototype, 'spawn', children);
  const { Worker: own } = workerThreads;
  workerThreads.Worker = ledWorker(own, ['--import', leadModule(from, to)]);
  undo.push(() => {
    workerThreads.Worker = own;
  });
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]() {
      for (const restore of undo) restore();
      syncBuiltinESMExports();
    },
  };
}

/**
 * Returns a Worker class whose threads start with the additional `flags`. If Node.js rejects these flags, a
 * thread starts without them, and its output is not redirected.
 */
function ledWorker(own: typeof Worker, flags: readonly string[]): typeof Worker {
  return new Proxy(own, {
    construct(target, [file, options = {}]: [unknown, WorkerOptions?], newTarget) {
      try {
        return Reflect.construct(
          target,
          [file, { ...options, execArgv: [...(options.execArgv ?? process.execArgv), ...flags] }],
          newTarget,
        ) as Worker;
      } catch (error) {
        if (errorCode(error) !== 'ERR_WORKER_INVALID_EXEC_ARGV') throw error;
        return Reflect.construct(target, [file, options], newTarget) as Worker;
      }
    },
  });
}

/**
 * Returns the URL of a module that replaces the functions of node:fs in a worker thread. It is a `data:` URL,
 * because a bundled program has no separate file for the module.
 */
function leadModule(from: number, to: number): string {
  const text = `import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
for (const name of ${JSON.stringify(WRITERS)}) {
  const own = fs[name];
  fs[name] = Object.defineProperties(function led(fd, ...rest) { return Reflect.apply(own, this, [fd === ${from} ? ${to} : fd, ...rest]); }, Object.getOwnPropertyDescriptors(own));
}
syncBuiltinESMExports();`;
  return `data:text/javascript,${encodeURIComponent(text)}`;
}
