/**
 * Named loggers: one event, one line on standard error. Standard output belongs to MCP.
 *
 *   {"time":"2026-01-31T09:30:00.000Z","level":"info","logger":"svc","event":"server_listening","port":8000}
 *   09:30:00.000 INFO  svc server_listening port=8000                                              on a terminal
 *
 * A call never throws and never waits. What may stand in a line is decided by redact.ts, where it goes by log-sink.ts; what it looks
 * like on a terminal is in log-sink.ts.
 */
import { fstatSync } from 'node:fs';
import { systemClock, type Clock } from '../base/clock.ts';
import {
  type EventLevel,
  type LogEvent,
  type LogSink,
  humanLine,
  isTerminal,
  stderrSink,
} from './log-sink.ts';
import { given, oneOf, readOptions, text } from '../base/options.ts';
import { type JsonEntry, safeEntries, safeError, safeText } from './redact.ts';

export { flush, stderrSink, type LogSink } from './log-sink.ts';

/** Writes events of one named part. Events are snake_case; fields are redacted by key and by type. */
export interface Logger {
  /** A logger called `name`, not `parent.name`, that adds `fields` to every event beside those of this one. */
  child(name: string, fields?: Record<string, unknown>): Logger;
  debug(event: string, fields?: Record<string, unknown>): void;
  info(event: string, fields?: Record<string, unknown>): void;
  warn(event: string, fields?: Record<string, unknown>): void;
  /** `error` is what was thrown, whatever it is; it becomes the field `error`. */
  error(event: string, error: unknown, fields?: Record<string, unknown>): void;
}

/** The least severe event that is written; `silent` writes none. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** What a logger is made from. */
export interface LoggerOptions {
  /** The field `logger`. Default `svc`. */
  readonly name?: string | undefined;
  /** Default `info`. */
  readonly level?: LogLevel | undefined;
  /** `auto`, the default: `human` when the sink is standard error and that is a terminal, else `json`. */
  readonly format?: 'json' | 'human' | 'auto' | undefined;
  /** Where lines go. Default {@link stderrSink}. */
  readonly sink?: LogSink | undefined;
  readonly clock?: Clock | undefined;
  /** Fields of every event. */
  readonly fields?: Record<string, unknown> | undefined;
  /** Colour in the human form. Default: on a terminal, unless NO_COLOR is set or TERM is `dumb`. */
  readonly colour?: boolean | undefined;
}

/** Makes a logger. @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
export function createLogger(options: LoggerOptions = {}): Logger {
  const { name, level, format, sink, clock, fields, colour } = readOptions('createLogger', options, {
    name: text('svc'),
    level: oneOf(LEVELS, 'info'),
    format: oneOf(['json', 'human', 'auto'], 'auto'),
    sink: given<LogSink>('a function (line: string) => void', (value) => typeof value === 'function'),
    clock: given<Clock>('a clock', (value) => typeof value === 'object' && value !== null),
    fields: given<Record<string, unknown>>(
      'an object',
      (value) => typeof value === 'object' && value !== null,
    ),
    colour: given<boolean>('true or false', (value) => typeof value === 'boolean'),
  });
  const isShown = sink === undefined && isDevice(2) && isTerminal(2);
  const isHuman = format === 'human' || (format === 'auto' && isShown);
  const isColoured = colour ?? (isShown && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb');
  return new EventLogger(
    {
      threshold: LEVELS.indexOf(level),
      sink: sink ?? stderrSink(),
      clock: clock ?? systemClock,
      layout: isHuman ? (event) => humanLine(event, isoTime(event.timeMs), isColoured) : jsonLine,
    },
    name,
    safeEntries(fields ?? {}),
  );
}

/** What is no device is no terminal: a look at it spares a server what log-sink.ts loads. */
function isDevice(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isCharacterDevice();
  } catch {
    return true; // log-sink.ts tells what is the matter
  }
}

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
const DEBUG = 0;
const INFO = 1;
const WARN = 2;
const ERROR = 3;

interface Settings {
  /** Index into LEVELS. */
  readonly threshold: number;
  readonly sink: LogSink;
  readonly clock: Clock;
  readonly layout: (event: LogEvent) => string;
}

class EventLogger implements Logger {
  readonly #settings: Settings;
  readonly #name: string;
  readonly #bound: readonly JsonEntry[];

  constructor(settings: Settings, name: string, bound: readonly JsonEntry[]) {
    this.#settings = settings;
    this.#name = name;
    this.#bound = bound;
  }

  child(name: string, fields?: Record<string, unknown>): Logger {
    return new EventLogger(
      this.#settings,
      name,
      fields === undefined ? this.#bound : merged(this.#bound, safeEntries(fields)),
    );
  }

  debug(event: string, fields?: Record<string, unknown>): void {
    if (this.#settings.threshold <= DEBUG) this.#write('debug', event, fields);
  }

  info(event: string, fields?: Record<string, unknown>): void {
    if (this.#settings.threshold <= INFO) this.#write('info', event, fields);
  }

  warn(event: string, fields?: Record<string, unknown>): void {
    if (this.#settings.threshold <= WARN) this.#write('warn', event, fields);
  }

  error(event: string, error: unknown, fields?: Record<string, unknown>): void {
    if (this.#settings.threshold <= ERROR) this.#write('error', event, fields, ['error', safeError(error)]);
  }

  #write(
    level: EventLevel,
    event: string,
    given: Record<string, unknown> | undefined,
    error?: JsonEntry,
  ): void {
    const { sink, clock, layout } = this.#settings;
    try {
      let fields =
        given === undefined || given === null ? this.#bound : merged(this.#bound, safeEntries(given));
      if (error !== undefined) fields = [...fields.filter(([key]) => key !== 'error'), error];
      sink(layout({ timeMs: clock.nowMs(), level, logger: this.#name, event: String(event), fields }));
    } catch {
      // a sink, a clock or an event that throws: whoever logs has work to do that matters more than its log
    }
  }
}

/** Both, the later one winning. */
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

/** Names of fields are written in programs, so they are few; those that a client made up must not fill the memory. */
const MOST_REMEMBERED = 1_000;
const MEMBER_STARTS = new Map<string, string>();

/** `,"name":`; a field must not pass for the line's own: it gets an underscore. */
function memberStart(key: string): string {
  let start = MEMBER_STARTS.get(key);
  if (start === undefined) {
    start = `,${RESERVED.has(key) ? `"${key}_"` : safeText(key)}:`;
    if (MEMBER_STARTS.size < MOST_REMEMBERED) MEMBER_STARTS.set(key, start);
  }
  return start;
}

let lastMs = Number.NaN;
let lastTime = '';

/** RFC 3339 in UTC; most events of a busy server share their millisecond with the one before. */
function isoTime(ms: number): string {
  if (ms !== lastMs) [lastMs, lastTime] = [ms, new Date(ms).toISOString()];
  return lastTime;
}
