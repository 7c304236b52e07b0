/**
 * Supervision: a parent that owns the port, children that run the application, and their messages.
 *
 *   child -> parent    file* -> wants (address) -> [address] -> ready -> took* ... room*, snapshot, metrics, leaving -> final        or: failed
 *   parent -> child    address, socket*, room*, snapshot, metrics, drain
 *
 * Messages are JSON marked by the key `svc`: a program's own messages on the channel are passed through.
 */
import { isMainThread } from 'node:worker_threads';
import { programBeside } from '../base/package-root.ts';
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Env } from '../base/config.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { MetricSnapshot } from '../observability/metrics.ts';

/** Where a server listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

/**
 * How a child ends: `stop` finishes requests, `retire` also lets idle connections close by themselves, because other children continue.
 */
export type Leave = 'stop' | 'retire';

/** Messages of a parent. A `socket` comes with its handle. */
export type ToChild =
  | { readonly svc: 'address'; readonly address: Address }
  | { readonly svc: 'socket'; readonly id: number }
  | { readonly svc: 'drain'; readonly how: Leave }
  | { readonly svc: 'snapshot'; readonly id: number }
  | { readonly svc: 'metrics'; readonly id: number; readonly metrics: readonly MetricSnapshot[] }
  | RoomMessage;

/** Messages of a child. */
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

/** A message to a room of WebSockets, bytes in base64. From a child to all others. */
export interface RoomMessage {
  readonly svc: 'room';
  readonly room: string;
  readonly frame: string;
  readonly isText: boolean;
}

/** How a process ended. */
export interface ProcessEnd {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A child, for its parent. */
export interface Child {
  readonly pid: number;
  /** Resolves when the process has exited and all its messages were received. */
  readonly ended: Promise<ProcessEnd>;
  /** Whether messages can be sent. */
  readonly isConnected: boolean;
  listen(onMessage: (message: ToParent) => void): void;
  /** Sends a message; without effect after the child's exit, see `ended`. `onSent`: called when it is on its way. */
  send(message: ToChild, socket?: Socket, onSent?: () => void): void;
  kill(signal: NodeJS.Signals): void;
}

/** A process started with a channel, as a {@link Child}. */
export class ChildLink implements Child {
  readonly #process: ChildProcess;
  readonly ended: Promise<ProcessEnd>;

  constructor(child: ChildProcess) {
    this.#process = child;
    // 'exit' may come before the last messages were read, 'disconnect' after them
    const isSilent = new Promise<void>((resolve) => {
      child.once('disconnect', resolve);
    });
    this.ended = new Promise((resolve) => {
      child.once('error', () => {
        if (child.pid === undefined) resolve({ status: null, signal: null });
      }); // it could not be started
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
    }); // the other end is this package
  }

  send(message: ToChild, socket?: Socket, onSent?: () => void): void {
    if (this.#process.connected) this.#process.send(message, socket, { keepOpen: true }, () => onSent?.()); // 'exit' reports a child that is gone
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}

/** Role of a child: one of several workers, or the one that is restarted when a file changes. */
export type Role = 'worker' | 'reload';

const ROLE_VARIABLE = 'SVC_SUPERVISED';
/** The parent's own word for its children; {@link takeRole} removes it, so that nothing they start believes itself supervised. */
export const roleEnvironment = (role: Role): Record<string, string> => ({ [ROLE_VARIABLE]: role });

/** Role of this process as a child. */
interface Childhood {
  role: Role | undefined;
  onOrphaned: () => void;
}

/** Stored on `process`, for all copies of this package: a bundled program has one beside the command's. */
const CHILDHOOD: unique symbol = Symbol.for('svc.childhood');
const own: Childhood = ((process as { [CHILDHOOD]?: Childhood })[CHILDHOOD] ??= {
  role: undefined,
  onOrphaned: () => process.exit(0),
});

/** Detects, before anything else runs, whether a parent supervises this process. */
export function takeRole(): Role | undefined {
  const word = process.env[ROLE_VARIABLE];
  if (!isMainThread || word === undefined) return own.role;
  delete process.env[ROLE_VARIABLE];
  if (!process.connected || (word !== 'worker' && word !== 'reload')) return undefined;
  own.role = word;
  process.once('disconnect', () => own.onOrphaned());
  process.channel!.unref(); // until it serves, an event loop without work is a hanging program: see settling() in cli/command.ts
  return word;
}

/** Called when the parent is gone; without it the process exits at once. It keeps the process alive. */
export function attend(onParentGone: () => void): void {
  own.onOrphaned = onParentGone;
  if (process.connected) process.channel!.ref();
  else onParentGone();
}

/** Role of this process; undefined if unsupervised. */
export function ownRole(): Role | undefined {
  if (own.role === undefined && takeRole() === 'reload')
    void sendToParent({ svc: 'file', path: process.argv[1]! }); // it was forked, so it is a script; nothing was loaded before it that tells of files: see preload()
  return own.role;
}

/** Sends a message to the supervising parent, if there is one. Resolves when it is on its way, or failed. */
export function sendToParent(message: ToParent): Promise<void> {
  return new Promise((resolve) => {
    if (own.role === undefined || !process.connected) resolve();
    else process.send!(message, undefined, {}, () => resolve());
  });
}

/** Receives the parent's messages. */
export function onParentMessage(onMessage: (message: ToChild, socket: Socket | undefined) => void): void {
  process.on('message', (message, handle) => {
    if (isOurs(message)) onMessage(message as ToChild, handle as Socket | undefined);
  }); // as in ChildLink; sockets are the only handles sent
}

function isOurs(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'svc' in message;
}

/** Node arguments that give a child its role before it loads anything. Children of a bundle request their role when they run. */
export function preload(): string[] {
  const program = programBeside(import.meta.url, 'supervised-preload');
  return [...process.execArgv, ...(program === undefined ? [] : ['--import', program.href])];
}
