/**
 * Named loggers, which write each event as one line to standard error. Standard output is not used, because
 * an MCP server sends its messages there.
 *
 * The formats `json` and `human`:
 *   {"time":"2026-01-31T09:30:00.000Z","level":"info","logger":"svc","event":"server_listening","port":8000}
 *   09:30:00.000 INFO  svc server_listening port=8000
 *
 * Logging never throws and never waits. redact.ts decides which values may appear in a log.
 */
import { fstatSync, write, writeSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { isatty } from 'node:tty';
import { errorCode } from '../base/errors.ts';
import { systemClock } from '../base/clock.ts';
import { ignore, within } from '../base/promises.ts';
import { bool, given, isFunction, isObject, isRecord, oneOf, readOptions, text } from '../base/options.ts';
import { safeEntries, safeError, safeText, visible } from './redact.ts';
import type { Clock } from '../base/clock.ts';
import type { JsonEntry } from './redact.ts';

/** Writes the events of one part of a program. Event names are snake_case. Secrets in fields are redacted. */
export interface Logger {
  /** Returns a logger with the name `name`, which adds `fields` to every event. */
  child(name: string, fields?: Record<string, unknown>): Logger;
  /** Logs an event that helps developers find mistakes. */
  debug(event: string, fields?: Record<string, unknown>): void;
  /** Logs an event of normal operation. */
  info(event: string, fields?: Record<string, unknown>): void;
  /** Logs an event that an operator should examine. */
  warn(event: string, fields?: Record<string, unknown>): void;
  /** Logs a failure. `error` is the thrown value, and becomes the field `error`. */
  error(event: string, error: unknown, fields?: Record<string, unknown>): void;
  /** Resolves when all lines are written. Awaited before the process exits, for at most two seconds. */
  flush?(): void | Promise<void>;
  /** Opens the log file again. Called on SIGHUP, which then does not stop the process. */
  reopen?(): void | Promise<void>;
}

/** Lowest level that is written. `silent` writes no events. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Options of {@link createLogger}. An option that is `undefined` has its default. */
export interface LoggerOptions {
  /** Name of the logger: the field `logger` of each event. Default `svc`. */
  readonly name?: string | undefined;
  /** Lowest level that is written. Default `info`. */
  readonly level?: LogLevel | undefined;
  /**
   * `json` or `human`, a form for terminals. Default `auto`: `human` if the lines go to a terminal, otherwise
   * `json`.
   */
  readonly format?: 'json' | 'human' | 'auto' | undefined;
  /** Function or object that receives each line. The default writes to standard error. */
  readonly sink?: LogSink | LogOutput | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
  /** Fields of every event. */
  readonly fields?: Record<string, unknown> | undefined;
  /**
   * Whether the form for terminals has colours. Default: true if standard error is a terminal, NO_COLOR is
   * not set, and TERM is not `dumb`.
   */
  readonly colour?: boolean | undefined;
}

/**
 * Creates a logger.
 * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for a value that is not allowed
 */
export function createLogger(options: LoggerOptions = {}): Logger {
  const { name, level, format, sink, clock, fields, colour } = readOptions('createLogger', options, {
    name: text('svc'),
    level: oneOf(LEVELS, 'info'),
    format: oneOf(['json', 'human', 'auto'], 'auto'),
    sink: given<LogSink | LogOutput>(
      'a function (line: string) => void, or an object with write()',
      isOutput,
    ),
    clock: given<Clock>('a clock', isObject),
    fields: given<Record<string, unknown>>('an object', isObject),
    colour: bool(),
  });
  const isShown = sink === undefined && isatty(2);
  const isHuman = format === 'human' || (format === 'auto' && isShown);
  const isColoured = colour ?? (isShown && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb');
  return new EventLogger(
    {
      threshold: LEVELS.indexOf(level),
      output: typeof sink === 'object' ? sink : { write: sink ?? stderrSink() },
      clock: clock ?? systemClock,
      layout: isHuman ? (event) => humanLine(event, isColoured) : jsonLine,
    },
    name,
    safeEntries(fields ?? {}),
  );
}

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
const DEBUG = 0;
const INFO = 1;
const WARN = 2;
const ERROR = 3;

interface LoggerDeps {
  /** Lowest level that is written, as an index into LEVELS. */
  readonly threshold: number;
  readonly output: LogOutput;
  readonly clock: Clock;
  readonly layout: (event: LogEvent) => string;
}

class EventLogger implements Logger {
  readonly #deps: LoggerDeps;
  readonly #name: string;
  readonly #bound: readonly JsonEntry[];
  readonly flush?: () => void | Promise<void>;
  readonly reopen?: () => void | Promise<void>;

  constructor(deps: LoggerDeps, name: string, bound: readonly JsonEntry[]) {
    this.#deps = deps;
    this.#name = name;
    this.#bound = bound;
    const { output } = deps;
    if (output.flush !== undefined) this.flush = () => output.flush!();
    if (output.reopen !== undefined) this.reopen = () => output.reopen!();
  }

  child(name: string, fields?: Record<string, unknown>): Logger {
    return new EventLogger(
      this.#deps,
      name,
      fields === undefined ? this.#bound : merged(this.#bound, safeEntries(fields)),
    );
  }

  debug(event: string, fields?: Record<string, unknown>): void {
    if (this.#deps.threshold <= DEBUG) this.#write('debug', event, fields);
  }

  info(event: string, fields?: Record<string, unknown>): void {
    if (this.#deps.threshold <= INFO) this.#write('info', event, fields);
  }

  warn(event: string, fields?: Record<string, unknown>): void {
    if (this.#deps.threshold <= WARN) this.#write('warn', event, fields);
  }

  error(event: string, error: unknown, fields?: Record<string, unknown>): void {
    if (this.#deps.threshold <= ERROR) this.#write('error', event, fields, ['error', safeError(error)]);
  }

  #write(
    level: EventLevel,
    event: string,
    given: Record<string, unknown> | undefined,
    error?: JsonEntry,
  ): void {
    const { output, clock, layout } = this.#deps;
    try {
      let fields =
        given === undefined || given === null ? this.#bound : merged(this.#bound, safeEntries(given));
      if (error !== undefined) fields = [...fields.filter(([key]) => key !== 'error'), error];
      output.write(
        layout({ timeMs: clock.nowMs(), level, logger: this.#name, event: String(event), fields }),
      );
    } catch {
      // logging must not fail, so errors of the sink, the clock or a field are ignored
    }
  }
}

/** Merges two lists of fields. If both contain a name, the value in `fields` wins. */
function merged(bound: readonly JsonEntry[], fields: readonly JsonEntry[]): readonly JsonEntry[] {
  if (bound.length === 0) return fields;
  const isReplaced = ([key]: JsonEntry): boolean => fields.some(([other]) => other === key);
  return bound.some(isReplaced)
    ? [...bound.filter((entry) => !isReplaced(entry)), ...fields]
    : [...bound, ...fields];
}

const RESERVED: ReadonlySet<string> = new Set(['time', 'level', 'logger', 'event']);

function jsonLine({ timeMs, level, logger, event, fields }: LogEvent): string {
  let line = `{"time":"${isoTime(timeMs)}","level":"${level}","logger":${safeText(logger)},"event":${safeText(event)}`;
  for (const [key, json] of fields) line += memberStart(key) + json;
  return `${line}}`;
}

/**
 * Returns the start of a JSON member: `,"name":`. Names that the logger itself uses get an underscore: `time`
 * becomes `time_`.
 */
function memberStart(key: string): string {
  return `,${RESERVED.has(key) ? `"${key}_"` : safeText(key)}:`;
}

let lastMs = Number.NaN;
let lastTime = '';

/**
 * Returns the time in RFC 3339, in UTC. It keeps the last result, because a busy server logs many events in
 * the same millisecond.
 */
function isoTime(ms: number): string {
  if (ms !== lastMs) [lastMs, lastTime] = [ms, new Date(ms).toISOString()];
  return lastTime;
}

/** Receives each log line, without its line end. Must neither throw nor wait. */
export type LogSink = (line: string) => void;

/** Receives log lines, for example a file. */
export interface LogOutput {
  /** Receives one line, without its line end. Must neither throw nor wait. */
  write(line: string): void;
  /** Resolves when all lines are written. Awaited before the process exits, for at most two seconds. */
  flush?(): void | Promise<void>;
  /** Opens the file again, after logrotate has renamed it. Called on SIGHUP. */
  reopen?(): void | Promise<void>;
}

function isOutput(value: unknown): boolean {
  return isFunction(value) || (isObject(value) && isFunction((value as Partial<LogOutput>).write));
}

/** Writes to a file descriptor. `offset` is the number of bytes that are already written. */
interface LogDevice {
  /** Whether write(2) may wait for a reader or a disk. */
  readonly canBlock: boolean;
  /**
   * Writes synchronously. Returns the number of written bytes. Throws errors with a `code` such as EAGAIN.
   */
  writeNow(bytes: Uint8Array, offset: number): number;
  /** Writes in the thread pool, and calls `done` afterwards. */
  write(
    bytes: Uint8Array,
    offset: number,
    done: (error: NodeJS.ErrnoException | null, written: number) => void,
  ): void;
  /** Blocks this thread for `ms` milliseconds. Only used when the process is about to exit. */
  pause(ms: number): void;
}

const MAX_QUEUED_CHARACTERS = 1_048_576;
const BATCH_CHARACTERS = 16_384;
const RETRY_MS = 10;
const DISK_FULL_RETRY_MS = 1_000;
const EXIT_PAUSE_MS = 5;
/** Maximum number of pauses at the exit of the process: a slow reader delays the exit by at most 0.5 s. */
const MAX_EXIT_PAUSES = 100;
const TRY_LATER: ReadonlySet<string | undefined> = new Set(['EAGAIN', 'EWOULDBLOCK', 'EINTR']);
const DISK_FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);
const LINE_FEED = 0x0a;

/** A line that reports how many lines are missing at its place. If it is dropped, they count again. */
interface DroppedLines {
  readonly text: string;
  readonly count: number;
}

type QueuedLine = string | DroppedLines;

function textOf(line: QueuedLine): string {
  return typeof line === 'string' ? line : line.text;
}

/**
 * Queue that writes log lines to a file descriptor without blocking the caller.
 *
 * Lines wait in a queue of 1 MiB, and are written in batches of 16 KiB. When the queue is full, further lines
 * are dropped and counted. After EAGAIN, the next attempt follows after 10 ms. When the pipe is closed, all
 * further lines are dropped.
 *
 * Pipes and sockets are non-blocking, so they are written synchronously: a batch takes about 3 µs. Other
 * descriptors (files, terminals, pipes on Windows) can block, so the thread pool writes to them.
 *
 * If several processes share a full pipe, their lines can mix, because write(2) may accept only a part of a
 * batch.
 */
export class LineQueue {
  readonly #open: () => LogDevice;
  readonly #clock: Clock;
  #device: LogDevice | undefined;
  #lines: QueuedLine[] = [];
  #characters = 0;
  #dropped = 0;
  #batch: Buffer | undefined;
  #batchLines: readonly QueuedLine[] = [];
  #offset = 0;
  #state: 'idle' | 'scheduled' | 'writing' | 'waiting' | 'exiting' | 'closed' = 'idle';

  /** `open` is called when the first line is written. */
  constructor(open: () => LogDevice, clock: Clock) {
    this.#open = open;
    this.#clock = clock;
  }

  /** Appends a line. If the queue is full, the line is dropped and counted. */
  push(line: string): void {
    if (this.#state === 'closed') return;
    if (this.#characters + line.length >= MAX_QUEUED_CHARACTERS) {
      this.#dropped++;
      return;
    }
    this.#lines.push(line);
    this.#characters += line.length + 1;
    if (this.#state === 'exiting') this.#writeOut();
    else if (this.#state === 'idle') {
      this.#state = 'scheduled';
      setImmediate(() => this.#run());
    }
  }

  /**
   * Writes all queued lines before it returns. Gives up after half a second, so that a pipe without a reader
   * does not block the process.
   */
  flush(): void {
    if (this.#state === 'closed') return;
    // waits briefly for the thread pool, so that its batch is written before the queued lines
    if (this.#state === 'writing') this.#device!.pause(EXIT_PAUSE_MS);
    this.#writeOut();
  }

  /**
   * Writes all queued lines like flush(). After that, each new line is written at once, because the event
   * loop no longer runs.
   */
  exit(): void {
    this.flush();
    this.#state = this.#state === 'closed' || this.#batch !== undefined ? 'closed' : 'exiting';
  }

  #run(): void {
    if (this.#state === 'closed' || this.#state === 'exiting') return;
    this.#state = 'idle';
    const device = (this.#device ??= this.#open());
    while (this.#nextBatch()) {
      if (device.canBlock) return this.#writeElsewhere(device);
      try {
        this.#advance(device.writeNow(this.#batch!, this.#offset));
      } catch (error) {
        this.#onFailure(error as NodeJS.ErrnoException);
        if (this.#state !== 'idle') return;
      }
    }
  }

  #writeElsewhere(device: LogDevice): void {
    const [bytes, offset, lines] = [this.#batch!, this.#offset, this.#batchLines];
    this.#batch = undefined; // `#batch` is cleared first, so that flush() does not write this batch again
    this.#state = 'writing';
    device.write(bytes, offset, (error, written) => {
      if (this.#state !== 'writing') return;
      this.#state = 'idle';
      if (error !== null || offset + written < bytes.length)
        [this.#batch, this.#offset, this.#batchLines] = [
          bytes,
          offset + (error === null ? written : 0),
          lines,
        ];
      if (error !== null) this.#onFailure(error);
      if (this.#state === 'idle') this.#run();
    });
  }

  #writeOut(): void {
    const device = (this.#device ??= this.#open());
    let pauses = MAX_EXIT_PAUSES;
    while (this.#nextBatch()) {
      try {
        this.#advance(device.writeNow(this.#batch!, this.#offset));
      } catch (error) {
        const code = errorCode(error);
        if (!TRY_LATER.has(code)) return this.#onFailure(error as NodeJS.ErrnoException);
        if (pauses-- === 0) {
          if (this.#state === 'exiting') this.#state = 'closed';
          return;
        }
        device.pause(EXIT_PAUSE_MS);
      }
    }
  }

  /** Encodes the next batch, unless the last one is unfinished. Returns whether there is one. */
  #nextBatch(): boolean {
    if (this.#batch !== undefined) return true;
    if (this.#dropped > 0) this.#lines.push(this.#takeDropped());
    if (this.#lines.length === 0) return false;
    let count = 0;
    for (let characters = 0; count < this.#lines.length && characters < BATCH_CHARACTERS; count++)
      characters += textOf(this.#lines[count]!).length + 1;
    const lines = count === this.#lines.length ? this.#lines : this.#lines.slice(0, count);
    this.#lines = count === this.#lines.length ? [] : this.#lines.slice(count);
    const texts = lines.map(textOf);
    for (const text of texts) this.#characters -= text.length + 1;
    this.#batch = Buffer.from(`${texts.join('\n')}\n`);
    this.#batchLines = lines;
    this.#offset = 0;
    return true;
  }

  /** Returns a log line with the number of dropped lines, and resets this number. */
  #takeDropped(): DroppedLines {
    const count = this.#dropped;
    const text = JSON.stringify({
      time: new Date(this.#clock.nowMs()).toISOString(),
      level: 'warn',
      logger: 'svc',
      event: 'log_lines_dropped',
      count,
    });
    this.#dropped = 0;
    this.#characters += text.length + 1;
    return { text, count };
  }

  #advance(written: number): void {
    this.#offset += written;
    if (this.#offset >= this.#batch!.length) this.#batch = undefined;
  }

  #onFailure(error: NodeJS.ErrnoException): void {
    const isDiskFull = DISK_FULL.has(error.code);
    if (isDiskFull) this.#dropBatch();
    if (isDiskFull || TRY_LATER.has(error.code)) {
      this.#state = 'waiting';
      this.#clock.after(isDiskFull ? DISK_FULL_RETRY_MS : RETRY_MS, () => {
        if (this.#state === 'waiting') this.#run();
      });
    } else {
      // EPIPE, EBADF or EIO: the pipe or terminal is closed. The process continues without a log.
      this.#state = 'closed';
      this.#lines = [];
      this.#batch = undefined;
    }
  }

  /** Drops and counts the lines of the batch of which no byte is written. The rest of a begun line stays. */
  #dropBatch(): void {
    const batch = this.#batch!;
    const end = this.#offset === 0 ? 0 : batch.indexOf(LINE_FEED, this.#offset - 1) + 1;
    let kept = 0;
    for (let at = batch.indexOf(LINE_FEED); at !== -1 && at < end; at = batch.indexOf(LINE_FEED, at + 1))
      kept++;
    for (const line of this.#batchLines.slice(kept))
      this.#dropped += typeof line === 'string' ? 1 : line.count;
    this.#batchLines = this.#batchLines.slice(0, kept);
    this.#batch = end > this.#offset ? batch.subarray(0, end) : undefined;
  }
}

let queue: LineQueue | undefined;

/**
 * Returns the default sink, which appends lines to the queue for standard error. At the exit of the process,
 * all queued lines are written.
 */
function stderrSink(): LogSink {
  if (queue === undefined) {
    queue = new LineQueue(stderrDevice, systemClock);
    process.once('exit', () => queue?.exit());
  }
  const lines = queue;
  return (line) => lines.push(line);
}

/**
 * Writes all queued log lines of standard error before it returns. Needed before a signal ends the process;
 * `process.exit()` writes them by itself.
 */
export function flush(): void {
  queue?.flush();
}

/** Time in milliseconds that the output of a logger has to write its lines before the process exits. */
export const FLUSH_MS = 2_000;

/** Resolves when a logger has written its lines, at the latest after `limitMs`. Never rejects. */
export async function flushed(
  log: Logger | undefined,
  clock: Clock,
  limitMs: number = FLUSH_MS,
): Promise<void> {
  flush();
  if (log?.flush === undefined) return;
  const written = Promise.try(() => log.flush!());
  await within(clock, limitMs, written, ignore).catch(ignore);
}

/** Ends the process when a logger has written its lines, at the latest after `limitMs`. */
export async function exitAfterLog(
  status: number,
  log: Logger | undefined,
  limitMs: number = FLUSH_MS,
): Promise<never> {
  await flushed(log, systemClock, limitMs);
  process.exit(status);
}

function stderrDevice(): LogDevice {
  return {
    canBlock: !isNonBlocking(),
    writeNow: (bytes, offset) => writeSync(2, bytes, offset),
    write: (bytes, offset, done) => write(2, bytes, offset, done),
    pause: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  };
}

function isNonBlocking(): boolean {
  if (process.platform === 'win32' || !isMainThread) return false;
  try {
    const kind = fstatSync(2);
    if (!kind.isFIFO() && !kind.isSocket()) return false;
    // reading `process.stderr` makes Node set O_NONBLOCK on descriptor 2 until the process exits
    return process.stderr.writable;
  } catch {
    return false;
  }
}

type EventLevel = 'debug' | 'info' | 'warn' | 'error';

/** An event whose fields are already redacted and encoded. */
interface LogEvent {
  readonly timeMs: number;
  readonly level: EventLevel;
  readonly logger: string;
  readonly event: string;
  readonly fields: readonly JsonEntry[];
}

const COLOURS: Readonly<Record<EventLevel, string>> = {
  debug: '\x1b[2m',
  info: '\x1b[36m',
  warn: '\x1b[33m',
  error: '\x1b[31m',
};
const PLAIN = '\x1b[0m';

/** Formats an event for a terminal, possibly with colours. */
function humanLine({ timeMs, level, logger, event, fields }: LogEvent, isColoured: boolean): string {
  const time = isoTime(timeMs).slice(11);
  const label = level.toUpperCase().padEnd(5);
  let line = `${time} ${isColoured ? COLOURS[level] + label + PLAIN : label} ${unquoted(safeText(logger))} ${unquoted(safeText(event))}`;
  let stack = '';
  for (const [key, json] of fields) {
    const value: unknown = JSON.parse(json);
    if (isErrorRecord(value)) stack += errorLines(value, key);
    else line += ` ${unquoted(safeText(key))}=${unquoted(json)}`;
  }
  return line + stack;
}

interface ErrorRecord {
  readonly message: unknown;
  readonly stack: string;
  readonly remedy?: unknown;
  readonly cause?: unknown;
}

function isErrorRecord(value: unknown): value is ErrorRecord {
  return isRecord(value) && typeof value['stack'] === 'string' && 'message' in value;
}

/** Returns stack, remedy and causes of an error as indented lines, so that they cannot look like events. */
function errorLines(error: ErrorRecord, label: string): string {
  const remedy = typeof error.remedy === 'string' ? `\nRemedy: ${error.remedy}` : '';
  const text = `${label}: ${error.stack}${remedy}`
    .split('\n')
    .map((row) => `\n    ${visible(row)}`)
    .join('');
  return isErrorRecord(error.cause) ? text + errorLines(error.cause, 'cause') : text;
}

/** Removes the quotes of a JSON string that is a single word. */
function unquoted(json: string): string {
  return /^"[\w.:/@+-]+"$/.test(json) ? json.slice(1, -1) : json;
}
