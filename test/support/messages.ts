/**
 * Messages of findings as the rules write them, read from the sources of the rules: a message without a test fails a test.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readProject } from '../../src/check/reader/modules.ts';
import { walk } from '../../src/check/reader/nodes.ts';
import { ROOT } from './build.ts';
import type { Call, Node } from '../../src/check/reader/nodes.ts';

/** The messages of findings in the files of a folder: of rules that read sources, or of the other ones. */
export function messagesIn(folder: string, isOfSources: boolean): Node[] {
  const path = join(ROOT, folder);
  const files = readdirSync(path)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(path, name));
  const messages: Node[] = [];
  for (const { body, text } of readProject(files).modules)
    if (text?.includes('ReportAt') === isOfSources)
      walk(body, (node) => {
        const message = node.type === 'call' ? messageOf(node) : undefined;
        if (message !== undefined) messages.push(message);
      });
  return messages;
}

/** The literal parts of a message: several messages where a condition chooses, none where a name holds the message. */
export function textsOf(message: Node | undefined): (readonly string[])[] {
  if (message?.type === 'choice') return [...textsOf(message.yes), ...textsOf(message.no)];
  if (message?.type === 'text') return [[message.value]];
  return message?.type === 'template' ? [message.texts] : [];
}

/** A pattern of all texts that have these literal parts. */
export function patternOf(texts: readonly string[]): string {
  return texts.map((text) => RegExp.escape(text)).join('[^]*');
}

/** The message of `report(place, message)` or `tell(message)`. */
function messageOf({ callee, args }: Call): Node | undefined {
  if (callee.type === 'member') return callee.property === '#report' ? args[1] : undefined;
  const name = callee.type === 'name' ? callee.name : '';
  return name === 'tell' ? args[0] : name === 'report' ? args[1] : undefined;
}
