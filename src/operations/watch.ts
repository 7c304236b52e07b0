/**
 * Watches files through their directories. So it also detects files that an editor replaces by renaming, and
 * missing files that are created.
 */
import { existsSync, statSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { FSWatcher } from 'node:fs';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';

/** Milliseconds without a further event, because editors save in several steps. */
const SILENCE_MS = 50;

interface Directory {
  readonly watcher: FSWatcher;
  /** Inode of the directory, which shows whether another directory has replaced it. */
  readonly inode: number;
  readonly names: Set<string>;
}

interface FileWatchDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly onChange: (file: string) => void;
}

/** Reports when one of the files of a program changes. */
export class FileWatch {
  readonly #deps: FileWatchDeps;
  readonly #directories = new Map<string, Directory>();
  #silence: Disposable | undefined;

  constructor(deps: FileWatchDeps) {
    this.#deps = deps;
  }

  /** Watched directories, for tests. */
  get directories(): string[] {
    return [...this.#directories.keys()].sort();
  }

  /**
   * Adds a file. If its directory does not exist, the creation of this directory or of a parent directory
   * counts as a change.
   *
   * `sinceMs` is when the program read the file. A file that was modified later counts as changed, because
   * the program may have read the old content.
   */
  add(file: string, sinceMs: number): void {
    let path = file;
    let folder = dirname(path);
    while (!existsSync(folder) && dirname(folder) !== folder) [path, folder] = [folder, dirname(folder)];
    const isNew = this.#open(folder);
    const directory = this.#directories.get(folder);
    directory?.names.add(basename(path));
    if (isNew && path === file && (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > sinceMs)
      this.#onEvent(file);
  }

  keepOnly(files: Iterable<string>): void {
    const names = new Map<string, Set<string>>();
    for (const file of files) {
      const folder = dirname(file);
      names.set(folder, (names.get(folder) ?? new Set()).add(basename(file)));
    }
    for (const [folder, directory] of this.#directories) {
      const kept = names.get(folder);
      for (const name of directory.names) if (kept?.has(name) !== true) directory.names.delete(name);
      if (directory.names.size > 0) continue;
      directory.watcher.close();
      this.#directories.delete(folder);
    }
  }

  close(): void {
    this.#silence?.[Symbol.dispose]();
    this.keepOnly([]);
  }

  #open(folder: string): boolean {
    const inode = statSync(folder, { throwIfNoEntry: false })?.ino ?? 0;
    const known = this.#directories.get(folder);
    if (known?.inode === inode) return false;
    known?.watcher.close();
    try {
      const names = known?.names ?? new Set<string>();
      const watcher = watch(folder, { persistent: false }, (_, name) => {
        if (name === null || names.has(name)) this.#onEvent(`${folder}/${name ?? ''}`);
      });
      watcher.on('error', (error) => this.#deps.log.error('watch_failed', error, { folder }));
      this.#directories.set(folder, { watcher, inode, names });
      return true;
    } catch (error) {
      this.#deps.log.error('watch_failed', error, { folder });
      return false;
    }
  }

  #onEvent(file: string): void {
    this.#silence?.[Symbol.dispose]();
    this.#silence = this.#deps.clock.after(SILENCE_MS, () => this.#deps.onChange(file));
  }
}
