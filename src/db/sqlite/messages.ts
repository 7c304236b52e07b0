/**
 * What a program and its reader processes say to one another. Everything survives a structured clone.
 */
import type { BeginOptions, Int8 } from '../driver.ts';
import type { DatabaseErrorDetails } from '../errors.ts';
import type { SqliteInput } from './values.ts';

/** What a reader is asked to do; the answers are in the order of the questions. */
export type ReaderVerb =
  | 'open'
  | 'execute'
  | 'fetchOne'
  | 'fetchArrays'
  | 'scalar'
  | 'stream'
  | 'next'
  | 'end'
  | 'script'
  | 'begin'
  | 'commit'
  | 'rollback'
  | 'savepoint'
  | 'releaseSavepoint'
  | 'rollbackTo'
  | 'close';

/** How a reader is started. */
export interface ReaderData {
  readonly path: string;
  readonly busyTimeoutMs: number;
  readonly statementCache: number;
  readonly int8: Int8;
}

/** A question. */
export interface ReaderRequest {
  readonly id: number;
  readonly verb: ReaderVerb;
  /** The statement, or the name of a savepoint. */
  readonly sql?: string | undefined;
  readonly inputs?: readonly SqliteInput[] | undefined;
  /** The number of a stream that is open. */
  readonly stream?: number | undefined;
  readonly begin?: BeginOptions | undefined;
  /** For `open`. */
  readonly data?: ReaderData | undefined;
}

/** Its answer. */
export interface ReaderReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?:
    { readonly name: string; readonly message: string; readonly details: DatabaseErrorDetails } | undefined;
}
