/**
 * Places in sources as people write them.
 */
import { fileURLToPath } from 'node:url';

/** The path of a file, where the frame of a stack has told its address: without `%20`. */
export function fileOfPlace({ file }: { readonly file: string }): string {
  return file.startsWith('file:') ? fileURLToPath(file) : file;
}
