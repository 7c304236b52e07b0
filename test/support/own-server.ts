/**
 * What servers of one's own have in common: data that is made once per machine, whom they run as, where they listen.
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

/** Whom a program runs as: nobody in particular, or a user of fewer rights than root. */
export interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

/** Whom a server runs as that refuses root. */
export function account(server: string, user: string): Account {
  if (process.getuid?.() !== 0) return {};
  for (const name of [user, 'nobody']) {
    try {
      return { uid: Number(execFileSync('id', ['-u', name])), gid: Number(execFileSync('id', ['-g', name])) };
    } catch {
      // the next one
    }
  }
  throw new Error(`${server} does not run as root, and there is no user "${user}" or "nobody"`);
}

/**
 * The data of a server that nobody has started yet: made once per machine by what `of` says, and to be copied for each server, which
 * takes a fraction of the time. `make` makes it in a folder that is `as`'s, under the name that it is given.
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

/** A port that nobody uses. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Whether a port of this machine takes connections. */
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

/** Kills a server with its whole process group, and waits until its port is free. Does nothing when it has ended. */
export async function killGroup(child: ChildProcess | undefined, port: number): Promise<void> {
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  child.ref();
  const ended = once(child, 'exit');
  process.kill(-child.pid, 'SIGKILL');
  await ended;
  while (await isListening(port)) await systemClock.sleep(5);
}
