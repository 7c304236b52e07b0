/**
 * Messages between a supervising parent process, which owns the port, and its child processes, which run the
 * application.
 *
 * Messages are objects with the key `svc`. Other messages between the processes belong to the program.
 */
import { isMainThread } from 'node:worker_threads';
import { programBeside } from '../base/package-root.ts';
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Env } from '../base/config.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { StopTimes } from './signals.ts';
import type { MetricSnapshot } from '../observability/metrics.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

/**
 * How a child ends. With `stop`, it finishes its requests and closes idle connections. With `retire`, it
 * leaves idle connections open until clients close them, because other children serve.
 */
export type Leave = 'stop' | 'retire';

/** Message from the parent to a child. The message `socket` also carries a connection. */
export type ToChild =
  | { readonly svc: 'address'; readonly address: Address }
  | { readonly svc: 'socket'; readonly id: number }
  // comes before `drain` if the stop has a delay: `/readyz` responds with 503, and each response ends its
  // connection
  | { readonly svc: 'announce' }
  // stops the child
  | { readonly svc: 'drain'; readonly how: Leave }
  // requests the metrics of the child
  | { readonly svc: 'snapshot'; readonly id: number }
  // contains the metrics of all workers
  | { readonly svc: 'metrics'; readonly id: number; readonly metrics: readonly MetricSnapshot[] }
  | RoomMessage;

/** Message from a child to the parent. */
export type ToParent =
  // reports an imported file
  | { readonly svc: 'file'; readonly path: string }
  // reports that the application does not start
  | { readonly svc: 'failed'; readonly text: string }
  // asks the parent to listen on `place`
  | {
      readonly svc: 'wants';
      readonly place: ListenOptions;
      readonly isSecure: boolean;
      readonly env: Env;
      readonly stop: StopTimes;
    }
  | { readonly svc: 'ready' }
  // confirms that the child serves a connection
  | { readonly svc: 'took'; readonly id: number }
  // reports that the child wants to stop
  | { readonly svc: 'leaving' }
  | { readonly svc: 'snapshot'; readonly id: number; readonly metrics: readonly MetricSnapshot[] }
  // requests the metrics of all workers
  | { readonly svc: 'metrics'; readonly id: number }
  // contains the last metrics of the child
  | { readonly svc: 'final'; readonly metrics: readonly MetricSnapshot[] }
  | RoomMessage;

/** Message to a WebSocket room, with its bytes in base64. The parent passes it on to all other children. */
export interface RoomMessage {
  readonly svc: 'room';
  readonly room: string;
  readonly frame: string;
  readonly isText: boolean;
}

/** Exit status of a process, or the signal that ended it. */
export interface ProcessEnd {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A child process, as its parent uses it. */
export interface Child {
  readonly pid: number;
  /** Resolves when the process has exited, and all its messages have been received. */
  readonly ended: Promise<ProcessEnd>;
  /** Whether the child can receive messages. */
  readonly isConnected: boolean;
  listen(onMessage: (message: ToParent) => void): void;
  /** Sends a message, or does nothing if the child has exited. Calls `onSent` when the message is written. */
  send(message: ToChild, socket?: Socket, onSent?: () => void): void;
  kill(signal: NodeJS.Signals): void;
}

/** A child process that node:child_process or node:cluster has started. */
export class ChildLink implements Child {
  readonly #process: ChildProcess;
  readonly ended: Promise<ProcessEnd>;

  constructor(child: ChildProcess) {
    this.#process = child;
    // "exit" may come before the last messages, but "disconnect" comes after them
    const isSilent = new Promise<void>((resolve) => {
      child.once('disconnect', resolve);
    });
    this.ended = new Promise((resolve) => {
      // without this listener, a child that cannot start would end this process
      child.once('error', () => {
        if (child.pid === undefined) resolve({ status: null, signal: null });
      });
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
    });
  }

  send(message: ToChild, socket?: Socket, onSent?: () => void): void {
    if (this.#process.connected) this.#process.send(message, socket, { keepOpen: true }, () => onSent?.());
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}

/**
 * Role of a child process: one of several workers, or the single child that is replaced when a file changes.
 */
export type Role = 'worker' | 'reload';

const ROLE_VARIABLE = 'SVC_SUPERVISED';
/**
 * Returns the environment variable that gives a child its role. {@link takeRole} removes the variable, so
 * that processes that the child starts do not inherit it.
 */
export const roleEnvironment = (role: Role): Record<string, string> => ({ [ROLE_VARIABLE]: role });

interface Childhood {
  role: Role | undefined;
  onOrphaned: () => void;
}

/**
 * Property of `process` that all copies of this package share. A bundled program, for example, contains a
 * copy of its own.
 */
const CHILDHOOD: unique symbol = Symbol.for('svc.childhood');
const own: Childhood = ((process as { [CHILDHOOD]?: Childhood })[CHILDHOOD] ??= {
  role: undefined,
  onOrphaned: () => process.exit(0),
});

/**
 * Returns the role that the parent gave to this process; undefined if no parent supervises it. Must be called
 * before any other module runs.
 */
export function takeRole(): Role | undefined {
  const word = process.env[ROLE_VARIABLE];
  if (!isMainThread || word === undefined) return own.role;
  delete process.env[ROLE_VARIABLE];
  if (!process.connected || (word !== 'worker' && word !== 'reload')) return undefined;
  own.role = word;
  process.once('disconnect', () => own.onOrphaned());
  // the channel must not keep the process alive if an `await` of the program never settles
  process.channel!.unref();
  return word;
}

/**
 * Sets the function to call when the parent exits; by default, this process exits, too. After attend(), the
 * channel to the parent keeps this process alive.
 */
export function attend(onParentGone: () => void): void {
  own.onOrphaned = onParentGone;
  if (process.connected) process.channel!.ref();
  else onParentGone();
}

/** Returns the role of this process; undefined if no parent supervises it. */
export function ownRole(): Role | undefined {
  if (own.role === undefined && takeRole() === 'reload')
    // a bundled program runs without supervised-preload.ts, which would have reported its file
    void sendToParent({ svc: 'file', path: process.argv[1]! });
  return own.role;
}

/**
 * Sends a message to the supervising parent, if there is one. Resolves when the message is written, or cannot
 * be written.
 */
export function sendToParent(message: ToParent): Promise<void> {
  return new Promise((resolve) => {
    if (own.role === undefined || !process.connected) resolve();
    else process.send!(message, undefined, {}, () => resolve());
  });
}

/** Adds a listener for messages from the parent. */
export function onParentMessage(onMessage: (message: ToChild, socket: Socket | undefined) => void): void {
  process.on('message', (message, handle) => {
    if (isOurs(message)) onMessage(message as ToChild, handle as Socket | undefined);
  });
}

function isOurs(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'svc' in message;
}

/**
 * Returns arguments for Node by which a child imports supervised-preload.ts before other modules. A bundled
 * program has no such file, so its child takes its role in run().
 */
export function preload(): string[] {
  const program = programBeside(import.meta.url, 'supervised-preload');
  return [...process.execArgv, ...(program === undefined ? [] : ['--import', program.href])];
}
