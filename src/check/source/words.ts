/** Reads the words in the names of expressions, values and functions. Rules compare these words. */
import { calledName, pathOf, walk } from '../reader/nodes.ts';
import type { Fn, Node } from '../reader/nodes.ts';

/**
 * Returns the last name of an expression in lower case and without punctuation: `xapikey` for
 * `req.headers['x-api-key']`.
 */
export function wordOf(node: Node): string {
  if (node.type === 'await') return wordOf(node.value);
  if (node.type === 'call') {
    const [first] = node.args;
    const isRead = /^(?:get|header|field)$/.test(calledName(node) ?? '') && first?.type === 'text';
    return isRead ? bare(first.value) : '';
  }
  const path = pathOf(node);
  return path === undefined ? '' : bare(path.slice(path.lastIndexOf('.') + 1));
}

export function bare(name: string): string {
  return name.replace(/[^A-Za-z\d]/g, '').toLowerCase();
}

export function wordOfTarget(target: Node): string | undefined {
  const path = pathOf(target);
  return path?.slice(path.lastIndexOf('.') + 1);
}

export function mentions(node: Node, test: (word: string) => boolean): boolean {
  let found = false;
  walk(node, (part) => {
    if ((part.type === 'name' || part.type === 'member') && test(wordOf(part))) found = true;
    return !found && part.type !== 'function';
  });
  return found;
}

export function nameOfCallback(fn: Fn): string | undefined {
  return (
    fn.name ??
    (fn.parent?.type === 'entry'
      ? fn.parent.key
      : fn.parent?.type === 'declarator'
        ? wordOfTarget(fn.parent.target)
        : undefined)
  );
}
