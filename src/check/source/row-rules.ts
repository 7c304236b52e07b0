/**
 * Rules about database rows: rows sent to clients with a secret column (SVC626), and rows that may be missing
 * (SVC615).
 */
import { calledName, functionAround, pathOf, walk } from './nodes.ts';
import { isReturned } from './reveal-rules.ts';
import { literal } from './routes.ts';
import type { SourceModule } from './modules.ts';
import type { Call, Node } from './nodes.ts';
import type { ReportNode, Sources } from './sources.ts';

/** Runs every rule of this file. */
export function reportRows(sources: Sources, report: ReportNode): void {
  findRevealedRows(sources, report);
  findAbsentRows(sources, report);
}

// -- SVC626: secret columns in replies --

const SECRET_COLUMN =
  /(?:^|[\s,."`])(\w*(?:password|passwd)(?:_?hash)?|\w*(?:secret|api_?key|private_?key|_hash|passwordhash))(?=[\s,"`]|$)/i;
const READS = /^(?:fetchAll|fetchOne|query|all|get|any|one|many|oneOrNone|manyOrNone)$/;

/**
 * SVC626: rows with a secret column that a handler returns directly, without a response schema that would
 * remove the column.
 */
function findRevealedRows(sources: Sources, report: ReportNode): void {
  const secretTables = tablesWithSecrets(sources);
  for (const { module, node: call } of sources.all('call')) {
    if (!READS.test(calledName(call) ?? '')) continue;
    const text = statementOf(call.args[0], module);
    const [, columns, table] = /^\s*select\s+([^]*?)\s+from\s+["`]?(\w+)/i.exec(text) ?? [];
    if (columns === undefined || table === undefined) continue;
    const named = SECRET_COLUMN.exec(columns)?.[1];
    const starred = /^(?:\w+\.)?\*$/.test(columns.trim()) ? secretTables.get(table.toLowerCase()) : undefined;
    const column = named ?? starred;
    if (column === undefined || /csrf|file_?hash|content_?hash|block_?hash|commit_?hash/i.test(column))
      continue;
    const sent = sentRows(call, sources);
    if (sent !== undefined)
      report(
        'SVC626',
        module,
        sent,
        `the reply holds the rows of "${table}" with their "${column}": every client receives the value`,
      );
  }
}

/** Returns the SQL text of an expression, or an empty text if the source does not contain it. */
function statementOf(node: Node | undefined, module: SourceModule): string {
  const value = node === undefined ? undefined : literal(node, module);
  return value?.type === 'text' ? value.value : value?.type === 'template' ? value.texts.join('?') : '';
}

/** Returns the tables of the project that have a secret column, each with the name of that column. */
function tablesWithSecrets(sources: Sources): Map<string, string> {
  const found = new Map<string, string>();
  for (const { source } of sources.project.modules)
    for (const [, table, columns] of source.matchAll(
      /(?:insert\s+into|create\s+table(?:\s+if\s+not\s+exists)?)\s+["`]?(\w+)["`]?\s*\(([^()]*)\)?/gi,
    )) {
      const column = SECRET_COLUMN.exec(columns!)?.[1];
      if (column !== undefined) found.set(table!.toLowerCase(), column);
    }
  return found;
}

/** Returns where a handler returns the rows: the call itself, or the variable that holds them. */
function sentRows(call: Call, sources: Sources): Node | undefined {
  if (isReturned(call.parent?.type === 'await' ? call.parent : call, sources)) return call;
  const declarator = call.parent?.type === 'await' ? call.parent.parent : call.parent;
  const fn = functionAround(call);
  if (declarator?.type !== 'declarator' || declarator.target.type !== 'name' || fn === undefined)
    return undefined;
  const { name } = declarator.target;
  let found: Node | undefined;
  walk(fn, (node) => {
    if (node.type !== 'name' || node.name !== name || node === declarator.target || found !== undefined)
      return;
    if (node.parent?.type !== 'member' && isReturned(node, sources)) found = node;
  });
  return found;
}

// -- SVC615: rows that may be missing --

const DATABASE = /(?:^|\.)#?_?(?:db|tx|database)$/i;
/** Statements that always return a row. */
const ALWAYS_ONE = /\b(?:count|sum|max|min|avg|exists|coalesce)\s*\(|\breturning\b|^\s*select\s+\d/i;

/**
 * SVC615: use of a row that is undefined when nothing matches:
 * `const user = await db.fetchOne(…); return user.name`.
 */
function findAbsentRows(sources: Sources, report: ReportNode): void {
  for (const { module, node: call } of sources.all('call')) {
    if (call.callee.type !== 'member' || call.callee.property !== 'fetchOne') continue;
    if (!DATABASE.test(pathOf(call.callee.object) ?? '')) continue;
    const text = statementOf(call.args[0], module);
    const declarator = call.parent?.type === 'await' ? call.parent.parent : undefined;
    if (text === '' || ALWAYS_ONE.test(text) || declarator?.type !== 'declarator') continue;
    const use = unprovedUse(declarator, module);
    if (use !== undefined)
      report(
        'SVC615',
        module,
        use,
        'fetchOne() returns undefined when no row matches, but the code reads a member of the row: the client gets a 500',
      );
  }
}

/** Returns the first read of a member of a row, if the function never tests whether there is a row. */
function unprovedUse(
  declarator: Extract<Node, { type: 'declarator' }>,
  module: SourceModule,
): Node | undefined {
  const { target } = declarator;
  const fn = functionAround(declarator);
  if (target.type === 'object') return target;
  if (target.type !== 'name' || fn === undefined) return undefined;
  let first: Node | undefined;
  let isProved = false;
  walk(fn, (node) => {
    if (node.type !== 'name' || node.name !== target.name || node === target) return;
    const { parent } = node;
    const isRead = parent?.type === 'member' && parent.object === node;
    if (!isRead || module.source.startsWith('?.', node.end))
      isProved = true; // code tests the row, or passes it to a function that may test it
    else first ??= parent;
  });
  return isProved ? undefined : first;
}
