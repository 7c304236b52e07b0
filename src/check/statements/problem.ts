/** A problem of one statement, before it becomes a finding. */
import type { Severity } from '../../base/findings.ts';

/** A problem at a place in the text of a statement, or at the value of a placeholder. */
export interface Problem {
  readonly rule: `SVC${number}`;
  readonly message: string;
  readonly remedy?: string | undefined;
  readonly severity?: Severity | undefined;
  /** Offset in the text of the statement. */
  readonly start: number;
}
