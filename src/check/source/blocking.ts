/**
 * Calls that block the whole process: synchronous functions of Node.js and of packages that hash passwords.
 */
import * as childProcess from 'node:child_process';
import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as zlib from 'node:zlib';

/** Synchronous functions that take only microseconds, as `createHmac()` does. */
const QUICK: ReadonlySet<string> = new Set(['randomFillSync', 'hkdfSync', 'generateKeySync']);
const NAMES: ReadonlySet<string> = new Set([
  ...[fs, crypto, zlib, childProcess]
    .flatMap((module) => Object.keys(module))
    .filter((name) => name.endsWith('Sync') && !QUICK.has(name)),
  'hashSync',
  'compareSync',
  'genSaltSync',
]);

/** Whether a function of this name blocks the event loop. */
export function isBlockingName(name: string): boolean {
  return NAMES.has(name);
}
