/** Rule about identifiers that a number does not hold (SVC660). */
import { isStored } from '../values/text.ts';
import { clientIn, madeIn } from '../values/value.ts';
import type { ReportAt, SourcePart, Watch } from '../sources.ts';
import type { Spot } from '../reader/modules.ts';
import type { Site } from '../values/calls.ts';
import type { Binding } from '../statements/sending.ts';

/** Searches for rounded numbers. */
export const NUMBER_PARTS: readonly SourcePart[] = [{ id: 'SVC660', watch: watchRounded }];

const READS = /^(?:Number\.)?parse(?:Int|Float)$|^Number$/;

/** SVC660: a text of a client that becomes a number, for a column to which other code writes a `bigint`. */
function watchRounded(report: ReportAt): Watch {
  const read = new Map<string, Spot>();
  const tested = new Set<string>();
  const used: (Pick<Binding, 'table' | 'column'> & { readonly by: string })[] = [];
  const large = new Set<string>();
  return {
    onCall({ call, meaning, module, value }: Site) {
      const [first] = call.args;
      const part = READS.test(meaning) ? clientIn(value(first)) : undefined;
      if (part !== undefined && !isStored(part))
        read.set(`input ${part.origin.what}`, { node: call, module });
      if (meaning === 'Number.isSafeInteger') for (const { by } of madeIn(value(first))) tested.add(by);
    },
    onStatement({ equal, written }) {
      for (const { table, column, value, use } of [...equal, ...written]) {
        const marks = madeIn(value);
        const isLarge = marks.some(({ by }) => by === 'BigInt');
        if (isLarge && use === 'written') large.add(`${table}.${column}`);
        if (!isLarge && clientIn(value) === undefined)
          for (const { by } of marks) used.push({ table, column, by });
      }
    },
    finish() {
      for (const { table, column, by } of used) {
        const at = large.has(`${table}.${column}`) && !tested.has(by) ? read.get(by) : undefined;
        if (at !== undefined)
          report(
            at,
            `the number is rounded above 2 ** 53, but the column "${column}" of the table "${table}" has larger ones, so the statement finds another row`,
            { remedy: 'Read it as it was written: BigInt(params.id)' },
          );
      }
    },
  };
}
