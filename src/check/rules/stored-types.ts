/** Media types that a client stored with an upload, and that a later reply repeats (SVC609). */
import { entryOf } from '../reader/nodes.ts';
import { constantIn } from '../values/tests.ts';
import { hasAny, isStored } from '../values/text.ts';
import { clientIn } from '../values/value.ts';
import { fieldsOf } from './replies.ts';
import type { Node } from '../reader/nodes.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { ReportAt, SourcePart, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Site } from '../values/interpreter.ts';
import type { ClassValue, Value } from '../values/value.ts';
import type { Field } from './replies.ts';

/** Searches for the rule SVC609. */
export const STORED_TYPE_PARTS: readonly SourcePart[] = [{ id: 'SVC609', watch: watchStoredTypes }];

/** A reply with the media type of a column, and the class of the row. */
interface Shown {
  readonly of: string;
  readonly name: string;
  readonly node: Node;
  readonly module: SourceModule;
}

/** SVC609: a column that an upload filled names the media type of a reply that browsers show. */
function watchStoredTypes(report: ReportAt): Watch {
  const shown: Shown[] = [];
  const written = new Set<string>();
  const tables = new Map<string, Set<string>>();
  return {
    onCall: (site) => {
      const of = asOf(site);
      if (of !== undefined) classes.set(site.call, idOf(of));
      const fields = fieldsOf(site);
      const type = fields.find(({ name }) => name === 'content-type');
      const column = type === undefined ? undefined : columnIn(type.value);
      if (type !== undefined && column !== undefined && !isAttachment(site, fields))
        shown.push({ ...column, node: type.node, module: site.module });
    },
    onStatement: (sending) => {
      for (const column of columnsOfClients(sending)) written.add(column);
      const of = classes.get(sending.call);
      if (of === undefined) return;
      const known = tables.get(of) ?? new Set();
      for (const table of sending.tables) known.add(table);
      tables.set(of, known);
    },
    finish: () => {
      for (const { of, name, node, module } of shown)
        if ([...(tables.get(of) ?? [])].some((table) => written.has(`${table}.${name}`)))
          report(
            module,
            node,
            `the column "${name}" has the media type that a client sent with an upload: with text/html or image/svg+xml, scripts in the upload run on this site`,
            {
              remedy:
                'Compare the type with a list of images, and send every other file with Content-Disposition: attachment and application/octet-stream',
            },
          );
    },
  };
}

/** Classes of the option `as`, by the calls that send statements. */
const classes = new WeakMap<Node, string>();

/** Returns the columns to which a statement writes a text of a client that may be any media type. */
function columnsOfClients({ bindings = [] }: Sending): readonly string[] {
  return bindings
    .filter(({ use, value }) => {
      const part = use === 'written' ? clientIn(value && { texts: value.texts }) : undefined;
      return part !== undefined && !isStored(part) && hasAny(part.may, '/');
    })
    .map(({ table, column }) => `${table}.${plain(column)}`);
}

function asOf({ call, value }: Site): ClassValue | undefined {
  return call.args.map((arg) => value(arg)?.members?.get('as')?.of).find((of) => of !== undefined);
}

function idOf({ node, module }: ClassValue): string {
  return `${module.file}:${node.start}`;
}

/** Returns the column of a row that a value holds unchanged. rowValue() makes the ids of such parts. */
function columnIn({ texts }: Value): { readonly of: string; readonly name: string } | undefined {
  const [part, ...more] = texts.flat().filter(({ kind }) => kind === 'client');
  if (part?.kind !== 'client' || more.length > 0 || !isStored(part) || !hasAny(part.may, '/'))
    return undefined;
  const [, of, name] = /^(.*:\d+)\.(\w+)$/.exec(part.id) ?? [];
  return of === undefined || name === undefined ? undefined : { of, name: plain(name) };
}

function plain(column: string): string {
  return column.replaceAll('_', '').toLowerCase();
}

/** Whether browsers save the reply, or show it without scripts. */
function isAttachment({ call, value }: Site, fields: readonly Field[]): boolean {
  const policy = fields.find(({ name }) => name === 'content-security-policy');
  if (policy !== undefined) return true;
  const disposition = fields.find(({ name }) => name === 'content-disposition');
  if (disposition === undefined) return false;
  const node = valueNode(disposition.node, call);
  const isBuilt = node?.type === 'call' && value(node.callee)?.meaning === 'svc.contentDisposition';
  const kind = isBuilt
    ? node.args[1] === undefined
      ? 'attachment'
      : constantIn(value(node.args[1]))
    : constantIn(disposition.value);
  return kind?.startsWith('inline') !== true;
}

function valueNode(node: Node, call: Node): Node | undefined {
  if (node.type === 'entry') return node.value;
  return node === call ? entryOf(node, 'value') : node;
}
