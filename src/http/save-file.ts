/**
 * Saving pieces as a file that is there whole or not at all.
 */
import { randomBytes } from 'node:crypto';
import { link, open, rename, rm, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SvcError } from '../errors.ts';

/** Writes a file beside its place, and puts it there when it is complete. @throws SvcError `E_UPLOAD_EXISTS`, or what the file system says */
export async function saveTo(path: string, pieces: AsyncIterable<Uint8Array>, overwrite: boolean): Promise<void> {
  const beside = join(dirname(path), `.svc-${randomBytes(12).toString('hex')}.part`);
  const handle = await open(beside, 'wx');
  try {
    try {
      await handle.writeFile(pieces);
      await handle.datasync(); // or a name could outlive a crash that its content does not
    } finally {
      await handle.close();
    }
    if (overwrite) await rename(beside, path);
    else await publish(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? new SvcError('E_UPLOAD_EXISTS', [], { cause: error }) : error;
  }
}

/** rename() replaces what is there, link() does not; some file systems have no links. */
async function publish(beside: string, path: string): Promise<void> {
  try {
    await link(beside, path);
    await unlink(beside);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP' && code !== 'ENOSYS') throw error;
    await open(path, 'wx').then((reserved) => reserved.close());
    await rename(beside, path);
  }
}
