/**
 * What others may watch of statements: the tracing channel `svc:db:query` of node:diagnostics_channel. Costs nothing while nobody does.
 *
 *   start → end → [error →] asyncStart → asyncEnd        src/traced.ts; without the last two where the engine answers at once, as SQLite does
 */
import { tracingChannel, type TracingChannel } from 'node:diagnostics_channel';
import type { Failable } from '../traced.ts';
import type { Dialect } from './driver.ts';

/** @internal */
export const queries: TracingChannel<unknown, object> = tracingChannel('svc:db:query');

/** One statement, in the events of `svc:db:query`. OpenTelemetry's names are beside each. */
export class QueryEvent implements Failable {
  /** What the database, or the verb, has refused it with. */
  error?: unknown;
  /** `db.system.name` */
  readonly system: Dialect;
  /** The name of its plugin; `database` for one that has no other. */
  readonly database: string;
  /** `db.query.text`: as it is sent, with placeholders where values are. What a program writes into the text itself is in it. */
  readonly text: string;

  /** @internal */
  constructor(system: Dialect, database: string, text: string) {
    this.system = system;
    this.database = database;
    this.text = text;
  }

  /** `db.operation.name`: the first word in capitals, comments before it left out; empty where there is none. */
  get operation(): string {
    return FIRST_WORD.exec(this.text)?.[1]?.toUpperCase() ?? '';
  }
}

const FIRST_WORD = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*([a-z]+)/i;
