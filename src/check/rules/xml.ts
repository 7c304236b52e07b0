/** Rule about XML whose entities a client declares (SVC651). */
import { functionAround, pathOf, walk } from '../reader/nodes.ts';
import { clientIn } from '../values/value.ts';
import type { Call, Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourceRule, Watch } from '../sources.ts';
import type { Site } from '../values/interpreter.ts';

/** Rules about XML. */
export const XML_RULES: readonly SourceRule[] = [
  {
    id: 'SVC651',
    severity: 'error',
    phase: 'source',
    cwe: [776, 611],
    sources: ['OWASP Cheat Sheet: XML External Entity Prevention'],
    why: 'Entities that name other entities make gigabytes of a message of one kilobyte, and entities with an address read files of the server',
    remedy: 'Refuse messages with a document type: if (xml.includes("<!DOCTYPE")) throw new BadRequest(). Replace the five entities of XML only',
    wrong: 'libxml.parseXml(text, { noent: true })',
    right: 'libxml.parseXml(text, { noent: false, nonet: true })',
    watch: watchEntities,
  },
];

const PARSES = /^(?:libxmljs2?|libxml2-wasm|libxml-wasm|node-libxml)\./;

function watchEntities(report: ReportAt): Watch {
  const replaced: Site[] = [];
  return {
    onCall(site) {
      const { call, meaning, module, value } = site;
      const method = call.callee.type === 'member' ? (call.callee.property ?? '') : '';
      if (PARSES.test(meaning) && clientIn(value(call.args[0])) !== undefined && expands(site))
        report(module, call, 'the parser expands the entities that a client declares in its document');
      if (/^replace(?:All)?$/.test(method)) replaced.push(site);
      if (isRepeated(site))
        report(module, call, REPEATED);
    },
    finish() {
      for (const site of replaced) if (isInLoop(site)) report(site.module, site.call, REPEATED);
    },
  };
}

const REPEATED =
  'texts that a client declares are replaced by each other again and again: a short message becomes gigabytes';

/** Whether the options of a parser expand entities, or remove its limits. */
function expands({ call, value }: Site): boolean {
  const options = value(call.args[1])?.members;
  return ['noent', 'replaceEntities', 'dtdload', 'huge'].some((key) => options?.get(key)?.constant === true);
}

/** Whether a function calls itself in a callback of `replace()`, with a text of a client. */
function isRepeated({ call, fn, value }: Site): boolean {
  if (fn === undefined || !call.args.some((arg) => clientIn(value(arg)) !== undefined)) return false;
  for (let at = functionAround(call); at !== undefined; at = functionAround(at)) {
    const callee = at.parent?.type === 'call' ? at.parent.callee : undefined;
    if (callee?.type === 'member' && /^replace(?:All)?$/.test(callee.property ?? ''))
      return isWithinFunction(at, fn) && !counts(fn);
  }
  return false;
}

function isWithinFunction(node: Node, fn: Fn): boolean {
  for (let at = functionAround(node); at !== undefined; at = functionAround(at)) if (at === fn) return true;
  return false;
}

/** Whether a function compares a number: a depth, or a length. */
function counts(within: Node): boolean {
  let found = false;
  walk(within, (node) => {
    if (node.type === 'binary' && /^[<>]=?$/.test(node.operator)) found = true;
    return !found;
  });
  return found;
}

/** Whether a loop replaces parts of a text of a client by texts of this client. */
function isInLoop({ call, value }: Site): boolean {
  const { callee, args } = call;
  const target = assignedTo(call);
  if (callee.type !== 'member' || target === undefined || target !== pathOf(callee.object)) return false;
  const by = args[1];
  const made = by?.type === 'function' ? resultOf(by) : by;
  if (clientIn(value(callee.object)) === undefined || clientIn(value(made)) === undefined) return false;
  for (let at = call.parent; at !== undefined && at.type !== 'function'; at = at.parent)
    if (at.type === 'loop') return !counts(at);
  return false;
}

function resultOf(fn: Fn): Node | undefined {
  const last = fn.body.at(-1);
  const result = fn.isExpression ? last : last?.type === 'leave' ? last.value : undefined;
  return result?.type === 'binary' ? result.left : result;
}

function assignedTo(call: Call): string | undefined {
  return call.parent?.type === 'assign' ? pathOf(call.parent.target) : undefined;
}
