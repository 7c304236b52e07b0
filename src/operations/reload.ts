/**
 * Reload during development: the parent process owns the port, and a child process runs the application. When
 * a file is saved, the child is replaced.
 *
 * States of the parent:
 *   starting   a child starts; connections wait until it is ready
 *   serving    the child serves, until a file is saved
 *   ending     the child exits, and the next one starts afterwards; connections wait
 *   broken     the child has exited by itself; until a file is saved, the parent responds with 503
 *
 * The parent watches all files that the child has imported, except files in node_modules. It also watches the
 * file of `--env-file`.
 */
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { unavailablePage } from './unavailable-page.ts';
import { SocketHandoff } from './socket-handoff.ts';
import { SvcError } from '../base/errors.ts';
import { exitAfterLog } from '../observability/log.ts';
import { announceStop, delayAfter, onSignals } from './signals.ts';
import { ChildLink, preload, roleEnvironment } from './supervision.ts';
import { FileWatch } from './watch.ts';
import type { Clock } from '../base/clock.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { Logger } from '../observability/log.ts';
import type { StopTimes } from './signals.ts';
import type { SupervisedServer } from './supervised.ts';
import type { Address, Child, ProcessEnd, ToParent } from './supervision.ts';

interface ReloadOptions {
  /**
   * Address on which the parent serves an error page if the first child fails before it reports an address.
   */
  readonly place: ListenOptions;
  /** File with environment variables (`--env-file`). Each new child reads it again. */
  readonly envFile?: string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly handleSignals: boolean;
  /** Called each time a child starts. */
  readonly onStart?: (() => void) | undefined;
}

/** Time in milliseconds after which a stopped child is killed, if it has not exited. */
const END_MS = 4_000;

class Reloader {
  readonly #options: ReloadOptions;
  readonly #fork: () => Child;
  readonly #handoff: SocketHandoff;
  readonly #watch: FileWatch;
  readonly #started = Promise.withResolvers<Address>();
  readonly #over = Promise.withResolvers<void>();
  #state: 'starting' | 'serving' | 'ending' | 'broken' | 'stopping' = 'starting';
  #child: Child | undefined;
  #files = new Set<string>();
  #startedMs = 0;
  #beganMs = 0;
  /** Error text that the current child reported before it exited. */
  #failure: string | undefined;
  #reason = '';
  #url: string | undefined;
  /** Times of the stop that the current child has reported. */
  #stopTimes: StopTimes | undefined;

  constructor(options: ReloadOptions, start: () => Child) {
    this.#options = options;
    this.#fork = start;
    const { clock, log } = options;
    this.#handoff = new SocketHandoff({
      clock,
      log,
      unavailablePage: (req) =>
        unavailablePage(req, {
          title: 'The application does not start',
          text: this.#reason,
          hint: 'The application is started again as soon as a file is saved.',
        }),
    });
    this.#watch = new FileWatch({
      clock,
      log,
      onChange: (file) => {
        if (this.#state === 'stopping') return;
        log.info('changed', { file: relative(process.cwd(), file) });
        this.#restart();
      },
    });
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Starts a child. Resolves with the address as soon as the port is open. */
  start(): Promise<Address> {
    this.#beganMs = this.#options.clock.monotonicMs();
    this.#startChild();
    return this.#started.promise;
  }

  /**
   * Stops watching, and after the delay of this signal also listening. The child finishes its requests, and
   * exits.
   */
  async stop(signal?: NodeJS.Signals): Promise<void> {
    if (this.#state === 'stopping') return this.over;
    const state = this.#state;
    this.#state = 'stopping';
    this.#watch.close();
    // both are defined, because the child serves
    const delayMs = state === 'serving' ? delayAfter(signal, this.#stopTimes!) : 0;
    if (delayMs > 0) await announceStop(delayMs, this.#options, () => this.#child!.send({ svc: 'announce' }));
    this.#handoff.close();
    if (this.#child === undefined) void this.#finish();
    else void this.#endChild(this.#child, state !== 'starting');
    return this.over;
  }

  /** Kills the child without waiting for its requests. */
  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  #startChild(): void {
    this.#state = 'starting';
    this.#failure = undefined;
    this.#files = new Set();
    this.#startedMs = this.#options.clock.nowMs();
    this.#handoff.expect();
    const { envFile, onStart } = this.#options;
    if (envFile !== undefined) this.#addFile(resolve(envFile));
    const child = (this.#child = this.#fork());
    child.listen((message) => this.#onMessage(child, message));
    void child.ended.then((end) => this.#onEnd(child, end));
    onStart?.();
  }

  #onMessage(child: Child, message: ToParent): void {
    if (child !== this.#child) return;
    switch (message.svc) {
      case 'file':
        return this.#addFile(message.path);
      case 'failed':
        this.#failure = message.text;
        return;
      case 'wants':
        return void this.#open(child, message);
      case 'ready':
        return this.#onReady(child);
      case 'took':
        return this.#handoff.onTaken(child, message.id);
      case 'leaving':
        return this.#restart();
      default: // messages about metrics and rooms are ignored, because there is only one child
    }
  }

  #addFile(path: string): void {
    this.#files.add(path);
    this.#watch.add(path, this.#startedMs);
  }

  async #open(child: Child, { place, isSecure, stop }: Extract<ToParent, { svc: 'wants' }>): Promise<void> {
    this.#stopTimes = stop;
    const address = await this.#openHandoff(place, isSecure);
    if (address !== undefined) child.send({ svc: 'address', address });
    else child.kill('SIGKILL');
  }

  async #openHandoff(place: ListenOptions, isSecure = false): Promise<Address | undefined> {
    const { log } = this.#options;
    try {
      const address = await this.#handoff.open(place, isSecure);
      if (this.#url !== address.url) log.info('listening', { url: address.url, reload: true });
      this.#url = address.url;
      this.#started.resolve(address);
      return address;
    } catch (error) {
      if (this.#url === undefined) this.#started.reject(error as Error);
      else log.error('listen_failed', error);
      this.#failure = (error as Error).message;
      return undefined;
    }
  }

  #onReady(child: Child): void {
    if (this.#state !== 'starting') return;
    const { clock, log } = this.#options;
    this.#state = 'serving';
    this.#watch.keepOnly(this.#files);
    log.info('reloaded', {
      pid: child.pid,
      ms: Math.round(clock.monotonicMs() - this.#beganMs),
      files: this.#files.size,
    });
    this.#handoff.admit(child);
  }

  #restart(): void {
    if (this.#state === 'ending' || this.#state === 'stopping') return; // the child is already exiting
    this.#beganMs = this.#options.clock.monotonicMs();
    if (this.#child === undefined) this.#startChild();
    else {
      const child = this.#child;
      const hasServed = this.#state === 'serving';
      this.#state = 'ending';
      void this.#endChild(child, hasServed);
    }
  }

  async #endChild(child: Child, hasServed: boolean): Promise<void> {
    const { clock, log } = this.#options;
    this.#handoff.dismiss(child);
    child.send({ svc: 'drain', how: 'stop' });
    // a child that does not serve yet might not read the message, so it also gets SIGTERM
    if (!hasServed) child.kill('SIGTERM');
    using _limit = clock.after(END_MS, () => {
      log.warn('child_killed', { pid: child.pid, after_ms: END_MS });
      child.kill('SIGKILL');
    });
    await child.ended;
  }

  #onEnd(child: Child, { status, signal }: ProcessEnd): void {
    this.#handoff.onGone(child);
    this.#child = undefined;
    if (this.#state === 'stopping') return void this.#finish();
    if (this.#state === 'ending') return this.#startChild();
    const { log } = this.#options;
    const how = signal === null ? `status ${status}` : signal;
    this.#reason = this.#failure ?? `It ended with ${how}: see what it has printed`;
    log.warn('child_ended', { pid: child.pid, status, signal, files: this.#files.size });
    this.#state = 'broken';
    this.#handoff.answerUnavailable();
    if (this.#url === undefined) void this.#openHandoff(this.#options.place);
  }

  async #finish(): Promise<void> {
    await this.#handoff.farewell();
    this.#over.resolve();
  }
}

/**
 * Runs this program in a child process, and replaces the child after each change of a file.
 * @throws SvcError `E_LISTEN` when the address cannot be opened, `E_WORKERS` when there is no script to run
 */
export async function superviseReload(options: ReloadOptions): Promise<SupervisedServer> {
  const { log, handleSignals, envFile } = options;
  const script = process.argv[1];
  if (script === undefined)
    throw new SvcError('E_WORKERS', [
      'the child process needs a script file to run, but this process was started without a script file',
    ]);
  const env = { ...environmentWithout(envFile), ...roleEnvironment('reload') };
  const reloader = new Reloader(
    options,
    () => new ChildLink(fork(script, process.argv.slice(2), { execArgv: preload(), env })),
  );
  const end = (signal: NodeJS.Signals): void => void reloader.stop(signal).then(() => exitAfterLog(0, log));
  const signals = handleSignals ? onSignals({ log, end, kill: () => reloader.kill() }) : undefined;
  const close = async (): Promise<void> => {
    await reloader.stop();
    signals?.[Symbol.dispose]();
  };
  try {
    return { ...(await reloader.start()), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Returns the environment variables of this process without variables from `envFile`, because each child
 * reads the file again.
 */
function environmentWithout(envFile: string | undefined): NodeJS.ProcessEnv {
  if (envFile === undefined) return { ...process.env };
  const given = parseEnv(readFileSync(envFile, 'utf8'));
  return Object.fromEntries(Object.entries(process.env).filter(([name, value]) => given[name] !== value));
}
