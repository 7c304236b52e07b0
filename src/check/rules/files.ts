/** Rule about files that change between a test and their use (SVC652). */
import { constantIn } from '../values/tests.ts';
import { signatureOf } from '../values/value.ts';
import type { Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Watch } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';
import type { Value } from '../values/value.ts';

/** Rules about files. */
export const FILE_RULES: readonly SourceRule[] = [
  {
    id: 'SVC652',
    severity: 'warning',
    phase: 'source',
    cwe: [367],
    sources: ['CWE-367 Time-of-check Time-of-use'],
    why: 'Between the test and the use of a path, another request or process may create, replace or remove the file',
    remedy: "Let one call do both: writeFile(path, text, { flag: 'wx' }), or open the file and use handle.stat()",
    wrong: 'if (!existsSync(path)) await writeFile(path, text);',
    right: "await writeFile(path, text, { flag: 'wx' });",
    watch: watchPaths,
  },
];

/** Functions that tell whether a path exists. */
const ASKS = /^fs(?:\/promises|\.promises)?\.(?:exists|access|stat)(?:Sync)?$/;
/** Functions that tell what a path is, without following links: code asks for safety. */
const ASKS_KIND = /^fs(?:\/promises|\.promises)?\.(?:lstat|readlink)(?:Sync)?$/;
const WRITES = /^fs(?:\/promises|\.promises)?\.(?:writeFile|appendFile|createWriteStream|open)(?:Sync)?$/;
const READS = /^fs(?:\/promises|\.promises)?\.(?:readFile|createReadStream|open|rm|unlink|chmod|chown)(?:Sync)?$/;

/** SVC652: a path that a handler tests, and then writes or reads by its name. */
function watchPaths(report: ReportAt): Watch {
  const asked = new Map<Fn, { readonly path: string; readonly isOfKind: boolean }[]>();
  const judged = new Set<Node>();
  return {
    onCall(site) {
      const { call, meaning, module, handler, value } = site;
      const path = pathIn(value(call.args[0]));
      if (handler === undefined || path === undefined || !meaning.startsWith('fs')) return;
      const before = asked.get(handler) ?? [];
      const isOfKind = ASKS_KIND.test(meaning);
      if (isOfKind || ASKS.test(meaning)) asked.set(handler, [...before, { path, isOfKind }]);
      const isUse = (each: { readonly path: string; readonly isOfKind: boolean }): boolean =>
        each.path === path && (each.isOfKind ? READS.test(meaning) : WRITES.test(meaning) && makes(site));
      if (!before.some(isUse) || judged.has(call)) return;
      judged.add(call);
      report(
        module,
        call,
        'the path is used by its name after a test of it: in between, another request or process may have changed what it names',
      );
    },
  };
}

/** Returns a text that is equal for equal paths; undefined for a path of which nothing is known. */
function pathIn(value: Value | undefined): string | undefined {
  if (value === undefined || value.texts.every((text) => text.every((part) => part.kind === 'own' && part.made === undefined)))
    return undefined;
  return signatureOf({ texts: value.texts });
}

/** Whether a call makes the file if it is missing, and overwrites it if it exists. */
function makes({ call, meaning, value }: Site): boolean {
  const [, second, third] = call.args;
  const isOpen = /\.open(?:Sync)?$/.test(meaning);
  const options = value(isOpen || /createWriteStream/.test(meaning) ? second : third);
  const flags = options?.members?.get('flag') ?? options?.members?.get('flags') ?? options;
  const text = constantIn(flags);
  return isOpen ? text !== undefined && /[wa]/.test(text) && !text.includes('x') : text?.includes('x') !== true;
}
