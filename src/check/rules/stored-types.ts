/** Media types that a client stored with an upload, and that a later reply repeats (SVC609). */
import { entryOf } from '../reader/nodes.ts';
import { constantIn } from '../values/tests.ts';
import { hasAny, isStored, literalOf } from '../values/text.ts';
import { WrittenColumns, columnOf } from '../statements/sending.ts';
import { fieldsOf } from './replies.ts';
import type { Node } from '../reader/nodes.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { ReportAt, SourcePart, Watch } from '../sources.ts';
import type { RowColumn } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';
import type { Field } from './replies.ts';

/** Searches for the rule SVC609. */
export const STORED_TYPE_PARTS: readonly SourcePart[] = [
  { id: 'SVC609', watch: watchStoredTypes },
  { id: 'SVC609', watch: watchUploads },
];

const WRITES = /^fs(?:\/promises|\.promises)?\.(?:writeFile|createWriteStream|rename|copyFile|cp)(?:Sync)?$/;

/** SVC609: files in a folder that the application serves, with the extension that a client chose. */
function watchUploads(report: ReportAt): Watch {
  const folders: string[] = [];
  const written: { readonly path: string; readonly node: Node; readonly module: SourceModule }[] = [];
  return {
    onCall({ call, meaning, module, value }) {
      const folder = /^svc\.(?:Svc|Router)\.mountStatic$/.test(meaning)
        ? constantIn(value(call.args[1]))
        : undefined;
      if (folder !== undefined) folders.push(folder.replace(/\/*$/, '/'));
      const path = /(?:rename|copyFile|cp)/.test(meaning) ? call.args[1] : call.args[0];
      if (!WRITES.test(meaning) || path === undefined) return;
      for (const text of value(path)?.texts ?? []) {
        const last = text.at(-1);
        if (last?.kind === 'client' && hasAny(last.may, '.') && !isStored(last))
          written.push({ path: literalOf(text), node: call, module });
      }
    },
    finish() {
      for (const { path, node, module } of written)
        if (folders.some((folder) => path.startsWith(folder)))
          report(
            module,
            node,
            'a client chooses the extension of a file in a folder that the application serves, so browsers run an uploaded page on this site',
            {
              remedy:
                'Choose the extension from a list by the content of the file, or serve uploads as attachments',
            },
          );
    },
  };
}

/** A reply with the media type of a column, and the class of the row. */
interface Shown extends RowColumn {
  readonly node: Node;
  readonly module: SourceModule;
}

/** SVC609: a column that an upload filled names the media type of a reply that browsers show. */
function watchStoredTypes(report: ReportAt): Watch {
  const shown: Shown[] = [];
  const written = new WrittenColumns('/');
  return {
    onCall: (site) => {
      written.visit(site);
      const fields = fieldsOf(site);
      const type = fields.find(({ name }) => name === 'content-type');
      const column = type === undefined ? undefined : columnIn(type.value);
      if (type !== undefined && column !== undefined && !isAttachment(site, fields))
        shown.push({ ...column, node: type.node, module: site.module });
    },
    onStatement: (sending) => written.add(sending),
    finish: () => {
      for (const { node, module, ...column } of shown)
        if (written.has(column))
          report(
            module,
            node,
            `the column "${column.name}" has the media type that a client sent with an upload: with text/html or image/svg+xml, scripts in the upload run on this site`,
            {
              remedy:
                'Compare the type with a list of images, and send every other file with Content-Disposition: attachment and application/octet-stream',
            },
          );
    },
  };
}

/** Returns the column of a row that a value holds unchanged. */
function columnIn({ texts }: Value): RowColumn | undefined {
  const [part, ...more] = texts.flat().filter(({ kind }) => kind === 'client');
  return part?.kind !== 'client' || more.length > 0 || !hasAny(part.may, '/') ? undefined : columnOf(part);
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
