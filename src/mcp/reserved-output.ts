/**
 * Standard output reserved for messages: other writers to the stream, and to its file descriptor, are led to another one.
 *
 * Some loggers write to the descriptor and not to the stream, and child processes inherit it. They do not inherit standard input: they
 * would read the messages of this process. Node.js cannot exchange a descriptor, so the functions that take one are replaced.
 *
 *   fs.writeSync(1, ...), write, writev, writevSync      write to 2
 *   fs.writeFileSync(1, ...), appendFileSync             write to 2, though text not by writeSync
 *   spawn(..., { stdio: 'inherit' }) and the like        [ 'ignore', 2, 'inherit' ]
 *   new Worker(file), which has functions of its own     --import a module that replaces those of node:fs there
 *
 * Not led: native code, worker threads made of text (`eval`) or by worker threads, and those of a process whose flags workers do not take.
 */
import childProcess from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import workerThreads from 'node:worker_threads';
import type { Writable } from 'node:stream';
import type { Worker, WorkerOptions } from 'node:worker_threads';

const WRITERS = ['write', 'writeSync', 'writev', 'writevSync', 'writeFileSync', 'appendFileSync'] as const;
const STDIN = 0;
/** All others begin by the method of ChildProcess. */
const SYNCHRONOUS = ['spawnSync', 'execSync', 'execFileSync'] as const;

/** Key of the stream's own write(): on the stream, for all copies of this package in the process. */
const RESERVED: unique symbol = Symbol.for('svc.mcp.reserved');

/** Returns the stream's own write(), undefined unless it is reserved. */
export function reservedWrite(
  output: Writable & { readonly [RESERVED]?: Writable['write'] },
): Writable['write'] | undefined {
  return output[RESERVED];
}

/** Sends all output but messages elsewhere. Disposing gives the stream back; reserving it twice changes nothing. */
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
        delete (output as { write?: unknown }).write; // its class has one
      else Object.defineProperty(output, 'write', own);
    },
  };
}

/** Leads output for the descriptor `from` to `to`, until it is disposed. */
function leadDescriptor(from: number, to: number): Disposable {
  const undo: (() => void)[] = [];
  const replace = (
    owner: object,
    name: string,
    change: (args: readonly unknown[]) => readonly unknown[],
  ): void => {
    const before = Object.getOwnPropertyDescriptor(owner, name)!; // Node.js has each of them
    const own = before.value as (...args: readonly unknown[]) => unknown;
    const value = function led(this: unknown, ...args: readonly unknown[]): unknown {
      return Reflect.apply(own, this, change(args));
    };
    Object.defineProperties(value, Object.getOwnPropertyDescriptors(own)); // among them what promisify() looks for
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
    args.map((arg) => (hasStdio(arg) ? { ...arg, stdio: led(arg.stdio) } : arg));
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

/** The class of worker threads, each of which begins by `flags`. Those that are inherited may be none for workers if they are named: then it is as it would be. */
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

/** The address of a module that does in a worker thread what is done here to node:fs. It is its own text, for a program in one file has no other. */
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

/** The descriptor that a child process gets by a number or a stream. */
function fdOf(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? (value as { readonly fd?: unknown }).fd : value;
}

function hasStdio(value: unknown): value is { readonly stdio: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && 'stdio' in value;
}
