/**
 * Supervision: a parent process that owns the port, child processes that run the application, and the
 * messages between them.
 *
 * Messages in their order:
 *   child -> parent    file* -> wants (address) -> [address] -> ready -> took* ... room*, snapshot, metrics, leaving -> final        or: failed
 *   parent -> child    address, socket*, room*, snapshot, metrics, drain
 *
 * Messages are objects with the key `svc`. Other messages on the channel belong to the program.
 */
import { isMainThread } from 'node:worker_threads';
import { programBeside } from '../base/package-root.ts';
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Env } from '../base/config.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { MetricSnapshot } from '../observability/metrics.ts';

/** Address where a server listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

/**
 * How a child ends. `stop` finishes its requests. `retire` also lets idle connections close by themselves,
 * because other children serve.
 */
export type Leave = 'stop' | 'retire';

/** Messages from the parent to a child. A `socket` message carries the handle of the socket. */
export type ToChild =
  | { readonly svc: 'address'; readonly address: Address }
  | { readonly svc: 'socket'; readonly id: number }
  | { readonly svc: 'drain'; readonly how: Leave }
  | { readonly svc: 'snapshot'; readonly id: number }
  | { readonly svc: 'metrics'; readonly id: number; readonly metrics: readonly MetricSnapshot[] }
  | RoomMessage;

/** Messages from a child to the parent. */
export type ToParent =
  | { readonly svc: 'file'; readonly path: string }
  | { readonly svc: 'failed'; readonly text: string }
  | {
      readonly svc: 'wants';
      readonly place: ListenOptions;
      readonly isSecure: boolean;
      readonly env: Env;
      readonly drainMs: number;
    }
  | { readonly svc: 'ready' }
  | { readonly svc: 'took'; readonly id: number }
  | { readonly svc: 'leaving' }
  | { readonly svc: 'snapshot'; readonly id: number; readonly metrics: readonly MetricSnapshot[] }
  | { readonly svc: 'metrics'; readonly id: number }
  | { readonly svc: 'final'; readonly metrics: readonly MetricSnapshot[] }
  | RoomMessage;

/** A message to a room of WebSockets, with bytes in base64. The parent forwards it to all other children. */
export interface RoomMessage {
  readonly svc: 'room';
  readonly room: string;
  readonly frame: string;
  readonly isText: boolean;
}

/** Exit status or signal of a process. */
export interface ProcessEnd {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A child process, as the parent sees it. */
export interface Child {
  readonly pid: number;
  /** Resolves when the process has exited and all its messages were received. */
  readonly ended: Promise<ProcessEnd>;
  /** Whether messages can be sent. */
  readonly isConnected: boolean;
  listen(onMessage: (message: ToParent) => void): void;
  /**
   * Sends a message. Without effect after the child's exit, which `ended` reports. Calls `onSent` when the
   * message is written.
   */
  send(message: ToChild, socket?: Socket, onSent?: () => void): void;
  kill(signal: NodeJS.Signals): void;
}

/** A child process that was started with a channel. */
export class ChildLink implements Child {
  readonly #process: ChildProcess;
  readonly ended: Promise<ProcessEnd>;

  constructor(child: ChildProcess) {
    this.#process = child;
    // "exit" may be emitted before the last messages are read; "disconnect" follows them
    const isSilent = new Promise<void>((resolve) => {
      child.once('disconnect', resolve);
    });
    this.ended = new Promise((resolve) => {
      child.once('error', () => {
        if (child.pid === undefined) resolve({ status: null, signal: null });
      }); // without this listener, a child that cannot be started would end this process
      child.once('exit', (status, signal) => {
        if (!child.connected) resolve({ status, signal });
        else void isSilent.then(() => resolve({ status, signal }));
      });
    });
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  get isConnected(): boolean {
    return this.#process.connected;
  }

  listen(onMessage: (message: ToParent) => void): void {
    this.#process.on('message', (message) => {
      if (isOurs(message)) onMessage(message as ToParent);
    }); // this package is at the other end of the channel, so the message has this type
  }

  send(message: ToChild, socket?: Socket, onSent?: () => void): void {
    // if the child has exited, "exit" reports it
    if (this.#process.connected) this.#process.send(message, socket, { keepOpen: true }, () => onSent?.());
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}

/** Role of a child: one of several workers, or the only child, which is restarted when a file changes. */
export type Role = 'worker' | 'reload';

const ROLE_VARIABLE = 'SVC_SUPERVISED';
/**
 * Environment variable that marks children. {@link takeRole} removes it, so that their own child processes do
 * not inherit it.
 */
export const roleEnvironment = (role: Role): Record<string, string> => ({ [ROLE_VARIABLE]: role });

/** State of this process as a child of a supervisor. */
interface Childhood {
  role: Role | undefined;
  onOrphaned: () => void;
}

/**
 * A property of `process`, so that all copies of this package share it: a bundled program contains its own
 * copy.
 */
const CHILDHOOD: unique symbol = Symbol.for('svc.childhood');
const own: Childhood = ((process as { [CHILDHOOD]?: Childhood })[CHILDHOOD] ??= {
  role: undefined,
  onOrphaned: () => process.exit(0),
});

/**
 * Returns the role that the parent has given to this process; undefined without a supervising parent. Call it
 * before any other module runs.
 */
export function takeRole(): Role | undefined {
  const word = process.env[ROLE_VARIABLE];
  if (!isMainThread || word === undefined) return own.role;
  delete process.env[ROLE_VARIABLE];
  if (!process.connected || (word !== 'worker' && word !== 'reload')) return undefined;
  own.role = word;
  process.once('disconnect', () => own.onOrphaned());
  // unreferenced, so that the channel does not keep a program alive that waits for a promise that never
  // settles: see settling() in cli/command.ts
  process.channel!.unref();
  return word;
}

/**
 * Sets the function that is called when the parent has exited. Without it, the process exits at once. From
 * now on, the channel to the parent keeps the process alive.
 */
export function attend(onParentGone: () => void): void {
  own.onOrphaned = onParentGone;
  if (process.connected) process.channel!.ref();
  else onParentGone();
}

/** Role of this process; undefined if it has no supervisor. */
export function ownRole(): Role | undefined {
  if (own.role === undefined && takeRole() === 'reload')
    // a bundle runs without --import, so no earlier module has reported its file: see preload()
    void sendToParent({ svc: 'file', path: process.argv[1]! });
  return own.role;
}

/**
 * Sends a message to the supervising parent, if there is one. Resolves when the message is written or has
 * failed.
 */
export function sendToParent(message: ToParent): Promise<void> {
  return new Promise((resolve) => {
    if (own.role === undefined || !process.connected) resolve();
    else process.send!(message, undefined, {}, () => resolve());
  });
}

/** Listens to the parent's messages. */
export function onParentMessage(onMessage: (message: ToChild, socket: Socket | undefined) => void): void {
  process.on('message', (message, handle) => {
    if (isOurs(message)) onMessage(message as ToChild, handle as Socket | undefined);
  }); // the types are those of ChildLink; sockets are the only handles that a parent sends
}

function isOurs(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'svc' in message;
}

/**
 * Arguments for Node that give a child its role before it loads other modules. A bundle has no separate
 * module for this, so a child of it takes its role when it calls run().
 */
export function preload(): string[] {
  const program = programBeside(import.meta.url, 'supervised-preload');
  return [...process.execArgv, ...(program === undefined ? [] : ['--import', program.href])];
}
