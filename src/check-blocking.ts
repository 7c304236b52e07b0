/**
 * The names of functions that stop the whole process while they work. A file of its own, for it needs much of Node, and few
 * programs have a name that looks like one of these.
 */
import * as childProcess from 'node:child_process';
import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as zlib from 'node:zlib';

/** These are over in microseconds, as `createHmac()` is. */
const QUICK: ReadonlySet<string> = new Set(['randomFillSync', 'hkdfSync', 'generateKeySync']);
/** Those of Node, and of libraries that hash passwords. Others are called so for what they synchronize. */
const NAMES: ReadonlySet<string> = new Set([...[fs, crypto, zlib, childProcess].flatMap((module) => Object.keys(module)).filter((name) => name.endsWith('Sync') && !QUICK.has(name)), 'hashSync', 'compareSync', 'genSaltSync']);

/** Whether everybody waits for what is called so. */
export function isBlocking(name: string): boolean {
  return NAMES.has(name);
}
