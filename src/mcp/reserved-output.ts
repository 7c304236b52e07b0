/**
 * Reserves standard output for MCP messages. Other writes to the stream or its file descriptor go to another
 * stream.
 *
 * Some loggers write to the descriptor instead of the stream, and child processes inherit the descriptor.
 * Child processes do not inherit standard input, because they would consume messages. Node.js cannot exchange
 * a descriptor, so this module replaces the functions that take one:
 *   - fs.write(1, ...), writeSync, writev, writevSync, writeFileSync and appendFileSync write to descriptor
 *     2.
 *   - spawn(..., { stdio: 'inherit' }) and similar functions give a child process ['ignore', 2, 'inherit'].
 *   - new Worker(file) starts a worker thread that imports a module, which replaces its functions of node:fs.
 *
 * Not covered: native code, worker threads created from text (`eval`) or by other worker threads, and
 * processes with flags that workers reject.
 */
import childProcess from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import workerThreads from 'node:worker_threads';
import { isObject, isRecord } from '../base/options.ts';
import type { Writable } from 'node:stream';
import type { Worker, WorkerOptions } from 'node:worker_threads';

const WRITERS = ['write', 'writeSync', 'writev', 'writevSync', 'writeFileSync', 'appendFileSync'] as const;
const STDIN = 0;
/**
 * Functions that create a process without calling ChildProcess.spawn(). All other functions of
 * node:child_process call this method.
 */
const SYNCHRONOUS = ['spawnSync', 'execSync', 'execFileSync'] as const;

/**
 * Key of the stream's original write(). It is stored on the stream, so that all copies of this package share
 * it.
 */
const RESERVED: unique symbol = Symbol.for('svc.mcp.reserved');

/** Returns the stream's original write(), or undefined when the stream is not reserved. */
export function reservedWrite(
  output: Writable & { readonly [RESERVED]?: Writable['write'] },
): Writable['write'] | undefined {
  return output[RESERVED];
}

/**
 * Redirects everything that is written to `output`, except messages, to `elsewhere`. Disposing the result
 * restores the stream. A stream that is already reserved stays as it is.
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

/** Redirects writes to the file descriptor `from` to `to`, until the result is disposed. */
function leadDescriptor(from: number, to: number): Disposable {
  const undo: (() => void)[] = [];
  const replace = (
    owner: object,
    name: string,
    change: (args: readonly unknown[]) => readonly unknown[],
  ): void => {
    // defined, because every supported version of Node.js has these properties
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
          const fd = one === 'inherit' ? index : fdOf(one);
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
 * Returns a class of worker threads that start with `flags`. A worker that rejects the flags of this process
 * starts without `flags`, so its output is not redirected.
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
        if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_INVALID_EXEC_ARGV') throw error;
        return Reflect.construct(target, [file, options], newTarget) as Worker;
      }
    },
  });
}

/**
 * Returns the address of a module that replaces the functions of node:fs in a worker thread. The module's
 * text is generated here, because a bundled program has no separate file for it.
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

/** Returns the file descriptor that an item of `stdio` means: a number, or the descriptor of a stream. */
function fdOf(value: unknown): unknown {
  return isObject(value) ? (value as { readonly fd?: unknown }).fd : value;
}
