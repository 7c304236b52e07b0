/**
 * Restricts a module while svc imports it for inspection: denies connecting and listening, and reports the
 * resources that the module leaves open.
 *
 * For a child process only: `denyNetwork()` replaces parts of node:net, node:dgram and node:dns.
 */
import { createHook } from 'node:async_hooks';
import dgram from 'node:dgram';
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import { systemClock } from '../base/clock.ts';
import { placeOf } from '../base/findings.ts';
import type { Place } from '../base/findings.ts';

/** A denied operation, or a resource left open, with its place in the code. */
export interface Trespass {
  readonly what: string;
  readonly place: Place;
}

/** Error thrown by a denied operation. */
export class Denied extends Error {
  constructor(what: string) {
    super(`svc allows no network access while a module is imported, but the import ${what}`);
    this.name = 'Denied';
  }
}

/** Whether an error is a {@link Denied}, or has one as a cause. */
export function isDenied(error: unknown): boolean {
  for (
    let current = error, depth = 0;
    current instanceof Error && depth < 10;
    current = current.cause, depth++
  ) {
    if (current instanceof Denied || (current instanceof AggregateError && current.errors.some(isDenied)))
      return true;
  }
  return false;
}

/** Denied attempts to use the network, and a function that allows later attempts. */
interface DeniedNetwork {
  readonly tried: readonly Trespass[];
  allow(): void;
}

/** Replaces the functions of Node.js that use the network by functions that throw {@link Denied}. */
export function denyNetwork(): DeniedNetwork {
  const tried: Trespass[] = [];
  const undo: (() => void)[] = [];
  const deny = (
    owner: object,
    names: readonly string[],
    what: (args: readonly unknown[]) => string,
  ): void => {
    for (const name of names) {
      if (typeof (owner as Record<string, unknown>)[name] !== 'function') continue;
      const before = Object.getOwnPropertyDescriptor(owner, name);
      undo.push(() =>
        before === undefined
          ? Reflect.deleteProperty(owner, name)
          : Object.defineProperty(owner, name, before),
      );
      Object.defineProperty(owner, name, {
        configurable: true,
        writable: true,
        enumerable: true,
        value: function (this: unknown, ...args: unknown[]): never {
          // closes the unused socket, because its handle would keep the process alive
          if (this instanceof net.Socket) this.destroy();
          const denied = new Denied(what(args));
          tried.push({ what: what(args), place: placeOf(denied.stack ?? '') });
          throw denied;
        },
      });
    }
  };
  deny(net.Server.prototype, ['listen'], () => 'listens');
  deny(net.Socket.prototype, ['connect'], (args) => `connects to ${addressOf(args)}`);
  deny(dgram.Socket.prototype, ['bind', 'connect', 'send'], () => 'uses a datagram socket');
  const asked = (args: readonly unknown[]): string => `looks up the name ${String(args[0])}`;
  for (const resolver of [dns, dns.promises, dns.Resolver.prototype, dns.promises.Resolver.prototype]) {
    const names = Object.getOwnPropertyNames(resolver).concat(
      Object.getOwnPropertyNames(Object.getPrototypeOf(resolver) as object),
    );
    deny(
      resolver,
      names.filter((name) => /^(?:lookup|resolve|reverse)/.test(name)),
      asked,
    );
  }
  syncBuiltinESMExports();
  const allow = (): void => {
    for (const restore of undo) restore();
    syncBuiltinESMExports();
  };
  return { tried, allow };
}

/** Returns the address in the arguments of connect(), which may have several forms. */
function addressOf(args: readonly unknown[]): string {
  const [first] = args.flat();
  if (typeof first === 'object' && first !== null) {
    const { path, host, port } = first as { path?: unknown; host?: unknown; port?: unknown };
    return typeof path === 'string' && port === undefined
      ? 'a local socket'
      : `${String(host ?? 'localhost')}:${String(port)}`;
  }
  return typeof first === 'number'
    ? `${typeof args[1] === 'string' ? args[1] : 'localhost'}:${first}`
    : 'a local socket';
}

/** Descriptions of resources. The keys are the type names of Node.js in lower case. */
const HANDLES: Readonly<Record<string, string>> = {
  timeout: 'a timer',
  immediate: 'an immediate',
  tcpserverwrap: 'a server',
  tcpsocketwrap: 'a connection',
  tcpwrap: 'a connection',
  pipewrap: 'a pipe',
  pipeserverwrap: 'a local server',
  fseventwrap: 'a file watcher',
  statwatcher: 'a file watcher',
  processwrap: 'a child process',
  worker: 'a worker thread',
  messageport: 'a message port',
  udpwrap: 'a datagram socket',
  signalwrap: 'a signal handler',
  fsreqcallback: 'a file operation',
  fsreqpromise: 'a file operation',
  filehandle: 'an open file',
  ttywrap: 'a terminal',
};
/**
 * Requests of a handle that Node.js lists beside the handle. The output of the module is such a request while
 * the reader of standard error is slow; its handle is older than the import.
 */
const REQUESTS: ReadonlySet<string> = new Set(['writewrap', 'simplewritewrap', 'shutdownwrap']);
/** Number of times that leftOpen() waits for resources that end by themselves, such as a file read. */
const SETTLE_ROUNDS = 10;
const SETTLE_MS = 10;

interface Kept {
  readonly type: string;
  readonly handle: WeakRef<object>;
  readonly place: Place;
}

/** Records where code opens each handle, such as a socket or a timer. */
export class HandleWatch {
  readonly #kept = new Map<number, Kept>();
  readonly #before: readonly string[] = process.getActiveResourcesInfo();
  readonly #hook = createHook({
    init: (id, type, _trigger, handle) => {
      if (Object.hasOwn(HANDLES, type.toLowerCase()))
        this.#kept.set(id, {
          type: type.toLowerCase(),
          handle: new WeakRef(handle),
          place: placeOf(new Error('handle').stack ?? ''),
        });
    },
    destroy: (id) => {
      this.#kept.delete(id);
    },
  });

  constructor() {
    this.#hook.enable();
  }

  /** Returns resources that keep the process alive, after a wait for those that end by themselves. */
  async leftOpen(): Promise<Trespass[]> {
    this.#hook.disable();
    for (let round = 0; round < SETTLE_ROUNDS && this.#more().length > 0; round++)
      await systemClock.sleep(SETTLE_MS);
    const open = [...this.#kept.values()].filter(({ handle }) => {
      const kept = handle.deref() as { hasRef?(): boolean } | undefined;
      return kept !== undefined && kept.hasRef?.() !== false;
    });
    const named = this.#more().map((type) => type.toLowerCase());
    // getActiveResourcesInfo() does not list worker threads
    const workers = open.filter(({ type }) => type === 'worker').map(({ type }) => type);
    return [...named, ...workers].map((type) => {
      const index = open.findIndex((kept) => kept.type === type);
      const place = index === -1 ? undefined : open.splice(index, 1)[0]!.place;
      return { what: `leaves ${HANDLES[type] ?? 'a handle'} open (${type})`, place: place ?? placeOf('') };
    });
  }

  /** Returns the type names of new resources that keep the process alive. */
  runningNow(): string[] {
    return [...new Set(this.#more())];
  }

  #more(): string[] {
    const more = process.getActiveResourcesInfo().filter((type) => !REQUESTS.has(type.toLowerCase()));
    for (const type of this.#before) {
      const index = more.indexOf(type);
      if (index !== -1) more.splice(index, 1);
    }
    return more;
  }
}
