/**
 * Shared parts of private database servers: data that is created once for each machine, users and ports.
 */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exclusively } from './build.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { ChildProcess } from 'node:child_process';
import type { AddressInfo } from 'node:net';

/** User of a program: the current one, or one with fewer rights than root. */
export interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

/** Returns the account for a server that refuses to run as root. */
export function account(server: string, user: string): Account {
  if (process.getuid?.() !== 0) return {};
  for (const name of [user, 'nobody']) {
    try {
      return { uid: Number(execFileSync('id', ['-u', name])), gid: Number(execFileSync('id', ['-g', name])) };
    } catch {
      // try the next name
    }
  }
  throw new Error(`${server} does not run as root, and there is no user "${user}" or "nobody"`);
}

/**
 * Returns the folder with data of a server that was never started. It is created once for each machine and
 * value of `of`, and copied for each server, which takes a fraction of the time. `make` creates the data in a
 * folder of the account `as`.
 */
export function installed(
  server: string,
  of: unknown,
  as: Account,
  make: (folder: string, data: string) => void,
): string {
  const name = `svc-${server}-${hash('sha256', JSON.stringify([of, as])).slice(0, 12)}`;
  const folder = join(tmpdir(), 'svc-scratch', name);
  const data = join(folder, 'data');
  exclusively(name, () => {
    if (existsSync(data)) return;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    if (as.uid !== undefined) chownSync(folder, as.uid, as.gid!);
    const making = join(folder, 'making');
    make(folder, making);
    renameSync(making, data);
  });
  return data;
}

/** Returns a free port. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Returns whether a port of this machine accepts connections. */
export async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/**
 * Kills a server with its process group, and waits until its port is free. Does nothing when the server has
 * ended.
 */
export async function killGroup(child: ChildProcess | undefined, port: number): Promise<void> {
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  child.ref();
  const ended = once(child, 'exit');
  process.kill(-child.pid, 'SIGKILL');
  await ended;
  while (await isListening(port)) await systemClock.sleep(5);
}
