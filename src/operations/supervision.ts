/**
 * Supervision: a parent that owns the port, children that own the application, and what they say to each other.
 *
 *   child -> parent    file* -> wants (address) -> [address] -> ready -> took* ... room*, snapshot, metrics, leaving -> final        or: failed
 *   parent -> child    address, socket*, room*, snapshot, metrics, drain
 *
 * Messages are plain JSON marked by the key `svc`: a program's own messages on the same channel are let through.
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
 * How a child goes: `stop` answers what it has begun, `retire` also lets connections without a request end by themselves,
 * for others go on serving.
 */
export type Leave = 'stop' | 'retire';

/** What a parent says. A `socket` comes with its handle. */
export type ToChild =
  | { readonly svc: 'address'; readonly address: Address }
  | { readonly svc: 'socket'; readonly id: number }
  | { readonly svc: 'drain'; readonly how: Leave }
  | { readonly svc: 'snapshot'; readonly id: number }
  | { readonly svc: 'metrics'; readonly id: number; readonly metrics: readonly MetricSnapshot[] }
  | RoomMessage;

/** What a child says. */
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

/** What is sent to a room of WebSockets; bytes in base64. From a child to all others. */
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

/** A child as its parent sees it. */
export interface Child {
  readonly pid: number;
  /** Settles when the process is gone and everything it has said was heard. */
  readonly ended: Promise<ProcessEnd>;
  /** Whether it can be spoken to. */
  readonly isConnected: boolean;
  listen(onMessage: (message: ToParent) => void): void;
  /** Says something; in vain where the child is gone, which `ended` tells. `onSent`: it is on its way. */
  send(message: ToChild, socket?: Socket, onSent?: () => void): void;
  kill(signal: NodeJS.Signals): void;
}

/** A process started with a channel, as a {@link Child}. */
export class ChildLink implements Child {
  readonly #process: ChildProcess;
  readonly ended: Promise<ProcessEnd>;

  constructor(child: ChildProcess) {
    this.#process = child;
    // 'exit' may come before the last messages have been read, 'disconnect' after them
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
    }); // it is this package that speaks at the other end
  }

  send(message: ToChild, socket?: Socket, onSent?: () => void): void {
    if (this.#process.connected) this.#process.send(message, socket, { keepOpen: true }, () => onSent?.()); // a child that is gone is told of by 'exit'
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}

/** What a child is: one of several workers, or the one that is started anew when a file changes. */
export type Role = 'worker' | 'reload';

const ROLE_VARIABLE = 'SVC_SUPERVISED';
/** The parent's own word for its children; {@link takeRole} removes it, so that nothing they start believes itself supervised. */
export const roleEnvironment = (role: Role): Record<string, string> => ({ [ROLE_VARIABLE]: role });

/** What this process knows of itself as a child. */
interface Childhood {
  role: Role | undefined;
  onOrphaned: () => void;
}

/** On `process`, for all copies of this package in it: a program in one file brings one of its own, beside that of the command. */
const CHILDHOOD: unique symbol = Symbol.for('svc.childhood');
const own: Childhood = ((process as { [CHILDHOOD]?: Childhood })[CHILDHOOD] ??= {
  role: undefined,
  onOrphaned: () => process.exit(0),
});

/** Finds out, once and before anything else runs, whether this process has a parent that supervises it. */
export function takeRole(): Role | undefined {
  const word = process.env[ROLE_VARIABLE];
  if (!isMainThread || word === undefined) return own.role;
  delete process.env[ROLE_VARIABLE];
  if (!process.connected || (word !== 'worker' && word !== 'reload')) return undefined;
  own.role = word;
  process.once('disconnect', () => own.onOrphaned());
  process.channel!.unref(); // until it serves, an event loop with nothing else to do is one that hangs: see settling() in cli/command.ts
  return word;
}

/** What happens when the parent is gone; without it the process ends at once. Keeps the process alive for the parent's sake. */
export function attend(onParentGone: () => void): void {
  own.onOrphaned = onParentGone;
  if (process.connected) process.channel!.ref();
  else onParentGone();
}

/** What this process is to its parent; undefined for one that nobody supervises. */
export function ownRole(): Role | undefined {
  if (own.role === undefined && takeRole() === 'reload')
    void sendToParent({ svc: 'file', path: process.argv[1]! }); // it was forked, so it is a script; nothing was loaded before it that tells of files: see preload()
  return own.role;
}

/** Speaks to the parent that supervises this process, if there is one. Resolves when it is on its way, or in vain. */
export function sendToParent(message: ToParent): Promise<void> {
  return new Promise((resolve) => {
    if (own.role === undefined || !process.connected) resolve();
    else process.send!(message, undefined, {}, () => resolve());
  });
}

/** Hears the parent. */
export function onParentMessage(onMessage: (message: ToChild, socket: Socket | undefined) => void): void {
  process.on('message', (message, handle) => {
    if (isOurs(message)) onMessage(message as ToChild, handle as Socket | undefined);
  }); // as in ChildLink; sockets are the only handles sent
}

function isOurs(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'svc' in message;
}

/** Arguments for Node that give a child its role before it loads anything. Children of a bundle ask for their role when they run. */
export function preload(): string[] {
  const program = programBeside(import.meta.url, 'supervised-preload');
  return [...process.execArgv, ...(program === undefined ? [] : ['--import', program.href])];
}
