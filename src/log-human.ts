/**
 * Log lines for people: time of day, level, logger, event and fields, the stack of an error below.
 */
import { safeText, visible, type JsonEntry } from './redact-values.ts';

/** How severe an event is. */
export type EventLevel = 'debug' | 'info' | 'warn' | 'error';

/** An event, its fields written and redacted already. */
export interface LogEvent {
  readonly timeMs: number;
  readonly level: EventLevel;
  readonly logger: string;
  readonly event: string;
  readonly fields: readonly JsonEntry[];
}

const COLOURS: Readonly<Record<EventLevel, string>> = { debug: '\x1b[2m', info: '\x1b[36m', warn: '\x1b[33m', error: '\x1b[31m' };
const PLAIN = '\x1b[0m';

/** `time` is that of the event in RFC 3339. */
export function humanLine({ level, logger, event, fields }: LogEvent, time: string, isColoured: boolean): string {
  const label = level.toUpperCase().padEnd(5);
  let line = `${time.slice(11, 23)} ${isColoured ? COLOURS[level] + label + PLAIN : label} ${unquoted(safeText(logger))} ${unquoted(safeText(event))}`;
  let stack = '';
  for (const [key, json] of fields) {
    const value: unknown = JSON.parse(json);
    if (isErrorRecord(value)) stack += errorLines(value, key);
    else line += ` ${unquoted(safeText(key))}=${unquoted(json)}`;
  }
  return line + stack;
}

interface ErrorRecord { readonly message: unknown; readonly stack: string; readonly remedy?: unknown; readonly cause?: unknown }

function isErrorRecord(value: unknown): value is ErrorRecord {
  return typeof value === 'object' && value !== null && 'stack' in value && typeof value.stack === 'string' && 'message' in value;
}

/** Stack and causes below the line; every line of them is indented, so none can pass for an event. */
function errorLines(error: ErrorRecord, label: string): string {
  const remedy = typeof error.remedy === 'string' ? `\nRemedy: ${error.remedy}` : '';
  const text = `${label}: ${error.stack}${remedy}`.split('\n').map((row) => `\n    ${visible(row)}`).join('');
  return isErrorRecord(error.cause) ? text + errorLines(error.cause, 'cause') : text;
}

/** Text that could be mistaken for something else stays quoted. */
function unquoted(json: string): string {
  return /^"[\w.:/@+-]+"$/.test(json) ? json.slice(1, -1) : json;
}
