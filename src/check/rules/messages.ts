/**
 * Rules about messages to other services: payments that a retry repeats (SVC657), jobs that are lost (SVC659), and
 * secrets for an address that only looks like the stored one (SVC639).
 */
import { entryOf, isWithin, leaveIn, loopAround, nodesAround, partsIn, pathOf } from '../reader/nodes.ts';
import { rowsIn } from '../statements/trace.ts';
import { ROW } from '../values/marks.ts';
import { constantIn } from '../values/tests.ts';
import { hasAny, isStored } from '../values/text.ts';
import { clientsIn, madeIn } from '../values/value.ts';
import { ASKS } from './availability.ts';
import type { Node } from '../reader/nodes.ts';
import type { Spot } from '../reader/modules.ts';
import type { ReportAt, SourcePart, Watch } from '../sources.ts';
import type { Sending } from '../statements/sending.ts';
import type { Site } from '../values/calls.ts';
import type { Value } from '../values/value.ts';

/** Searches for messages, sorted by the ids of their rules. */
export const MESSAGE_PARTS: readonly SourcePart[] = [
  { id: 'SVC639', watch: watchAddressees },
  { id: 'SVC657', onCall: findRepeatedPayments },
  { id: 'SVC659', watch: watchJobs },
];

const SENDS_MAIL = /\.(?:sendMail|send|messages\.create)$/;

/** An input of a client in a value. */
interface Input {
  readonly name: string;
  readonly isFolded: boolean;
}

/** SVC639: a secret for the address that a client has typed, although the account was found by a folded form of it. */
function watchAddressees(report: ReportAt): Watch {
  const sent = new Map<Site['handler'], Sending[]>();
  const mails: (Spot & Pick<Site, 'handler'> & { readonly inputs: readonly Input[] })[] = [];
  return {
    onStatement(sending) {
      sent.set(sending.handler, [...(sent.get(sending.handler) ?? []), sending]);
    },
    onCall({ call, meaning, module, handler, isGuarded, value }) {
      if (isGuarded || handler === undefined || !(ASKS.test(meaning) || SENDS_MAIL.test(meaning))) return;
      const inputs = call.args.flatMap(partsIn).flatMap((part) => inputsIn(value(part)));
      mails.push({ node: call, module, handler, inputs: inputs.filter(({ isFolded }) => !isFolded) });
    },
    finish() {
      for (const { inputs, handler, ...at } of mails) {
        const all = sent.get(handler) ?? [];
        const written = all.flatMap((each) => each.written.map(({ value }) => value));
        const isOfSecret = written.some((value) => madeIn(value).some(({ by }) => by.startsWith('crypto.')));
        const found = all
          .filter(({ outline }) => outline.verb === 'select')
          .flatMap(({ equal }) => equal.flatMap(({ value }) => foldedIn(value)));
        const input = inputs.find(
          ({ name }) =>
            found.includes(name) &&
            // the program may keep the address as the client has typed it
            !written.some((value) => inputsIn(value).some((each) => each.name === name && !each.isFolded)),
        );
        if (isOfSecret && input !== undefined)
          report(
            at,
            `the secret goes to ${input.name} as the client has typed it, although the account was found by a folded form: another mailbox whose address folds to the same text gets the secret`,
            {
              severity: 'warning',
              remedy: 'Send it to the address in the row: select id, email from account where folded = ?',
            },
          );
      }
    },
  };
}

function inputsIn(value: Value | undefined): readonly Input[] {
  const parts = value === undefined ? [] : clientsIn(value).filter((part) => !isStored(part));
  const marks = madeIn(value).filter(({ by }) => by.startsWith('input '));
  return [
    ...parts.map(({ origin, isFolded = false }) => ({ name: origin.what, isFolded })),
    ...marks.map(({ by, isFolded = false }) => ({ name: by.slice('input '.length), isFolded })),
  ];
}

/** Returns the names of folded inputs in a value. Only letters outside of ASCII fold to others. */
function foldedIn(value: Value | undefined): readonly string[] {
  const parts = value === undefined ? [] : clientsIn(value);
  return parts
    .filter((part) => part.isFolded === true && !isStored(part) && hasAny(part.may, '\u0080'))
    .map(({ origin }) => origin.what);
}

const AMOUNT = /cents|amount|price|total|balance|credits?$/i;
/** Names of a field by which the receiver recognises a repeated message. */
const KEYS =
  /idempot|^x?-?request-?id$|^(?:id|key|nonce|reference)$|(?:request|payment|charge|transaction|transfer|order|invoice)_?(?:id|key|reference)$/i;

/** SVC657: a payment that is sent again after an error, without a key by which the receiver recognises it. */
function findRepeatedPayments({ call, meaning, module, stack, value }: Site, report: ReportAt): void {
  if (!ASKS.test(meaning) || ![call, ...stack.map((frame) => frame.call)].some(isRetried)) return;
  const isPost = meaning.endsWith('.post');
  const [, second, third] = call.args;
  const options = value(isPost ? third : second)?.members;
  const headers = options?.get('headers');
  const body = isPost ? second : entryOf(second, 'body');
  const content = body?.type === 'call' && pathOf(body.callee) === 'JSON.stringify' ? body.args[0] : body;
  const names = [...(value(content)?.members?.keys() ?? [])];
  const isOpen = headers !== undefined && (headers.members === undefined || headers.items !== undefined);
  const isKeyed = [...names, ...(headers?.members?.keys() ?? [])].some((name) => KEYS.test(name));
  if (!isPost && !/^post$/i.test(constantIn(options?.get('method')) ?? '')) return;
  if (isOpen || isKeyed || !names.some((name) => AMOUNT.test(name))) return;
  report(
    { module, node: call },
    'the payment is sent again after an error, although the first one may have arrived, and nothing tells the receiver that both are one',
    {
      severity: 'warning',
      remedy:
        "Send one key with each attempt, such as the id of the order: headers: { 'Idempotency-Key': id }",
    },
  );
}

/** Whether a call runs again after an error: in the block of a `try` that leaves a loop, and whose `catch` does not. */
function isRetried(call: Node | undefined): boolean {
  return (
    call !== undefined &&
    nodesAround(call).some(
      (around) =>
        around.type === 'try' &&
        around.handler?.type === 'block' &&
        isWithin(call, around.block) &&
        loopAround(around) !== undefined &&
        leaveIn(around.block, /^(?:return|break)$/) !== undefined &&
        around.handler.body.at(-1)?.type !== 'leave',
    )
  );
}

/** SVC659: a row that is deleted before the request that uses its columns has succeeded. */
function watchJobs(report: ReportAt): Watch {
  /** Statements that read rows without an input of a client. */
  const read = new Set<Node>();
  /** Deletions by the calls that read the deleted rows. */
  const deleted = new Map<Node, Sending>();
  /** Tables into which a `catch` inserts. */
  const restored = new Set<string>();
  const lost = new Set<Sending>();
  return {
    onStatement(sending) {
      const { outline, call, equal, isByInput, isTied, way, target = '' } = sending;
      if (outline.verb === 'insert' && way.some(({ node }) => isInCatch(node))) restored.add(target);
      if (!isByInput && !isTied) read.add(call);
      if (outline.verb !== 'delete' || sending.isInTransaction) return;
      const rows = equal.flatMap(({ value }) => (value === undefined ? [] : rowsIn(value, [ROW])));
      for (const node of outline.has(/^returning$/, 0) ? [call, ...rows] : rows)
        if (read.has(node)) deleted.set(node, sending);
    },
    onCall({ call, meaning, value }) {
      if (!ASKS.test(meaning) || deleted.size === 0) return;
      for (const part of call.args.flatMap(partsIn))
        for (const { by, node } of madeIn(value(part))) {
          const sending = by === ROW ? deleted.get(node) : undefined;
          if (sending !== undefined) lost.add(sending);
        }
    },
    finish() {
      for (const sending of lost)
        if (!restored.has(sending.target ?? ''))
          report(
            sending.nodeAt(undefined),
            'the row is deleted before the request that needs it has succeeded: an error or a restart between the two loses it',
            {
              remedy:
                'Delete it after the request. Before, set when another attempt is due: update job set due_ms = ? where id = ? and due_ms = ?',
            },
          );
    },
  };
}

function isInCatch(node: Node): boolean {
  return nodesAround(node).some(
    (around) => around.parent?.type === 'try' && around.parent.handler === around,
  );
}
