/** Statements: branches, loops, and the ways in which a function ends. */
import { leaveIn } from '../reader/nodes.ts';
import { typeAfter } from './annotations.ts';
import { anyError, itemOf, keyOf } from './inputs.ts';
import { Evaluation } from './evaluation.ts';
import { equality } from './tests.ts';
import { Path } from './path.ts';
import { NO_FACTS, allFacts } from './text.ts';
import * as values from './value.ts';
import type { Node, NodeOf } from '../reader/nodes.ts';
import type { Facts } from './text.ts';
import type { Value } from './value.ts';

const { ABSENT, KNOWN } = values;

/** A result of a function, with the facts that hold when the function returns it. */
interface Result {
  readonly value: Value;
  readonly facts: Facts;
  readonly path: Path;
  /** Whether the result follows an error, under no further condition. */
  readonly isFallback: boolean;
}

/** Returns the facts about the texts of a value. */
function factsAbout(value: Value, facts: Facts): Facts {
  const ids = new Set(values.idsIn(value));
  return new Map([...facts].filter(([id]) => ids.has(id)));
}

export const NO_SHIELD = { tries: 0, isCatching: false } as const;

export abstract class ControlFlow extends Evaluation {
  /** Results of the function that is being evaluated. */
  protected results: Result[] = [];
  /**
   * Number of `try` blocks with a `catch` around the statement that is being evaluated, and whether it is in a `catch`
   * block. Promises that a `catch` block awaits count as safe, but not those that it throws.
   */
  protected shield: { readonly tries: number; readonly isCatching: boolean } = NO_SHIELD;
  /** Whether an error may leave the function that is being evaluated. */
  protected fails = false;

  protected mayThrow(): void {
    if (this.shield.tries === 0) this.fails = true;
  }

  protected addResult(value: Value, isFallback = false): void {
    this.results.push({ value, facts: this.path.facts, path: this.path, isFallback });
  }

  /** Returns the result of a function after an error, which takes the place of a result that it computes. */
  protected fallbackIn(results: readonly Result[]): Value | undefined {
    const isComputed = results.some(({ value, isFallback }) => !isFallback && value.constant === undefined);
    const fallbacks = results.filter(({ isFallback }) => isFallback).map(({ value }) => value);
    return isComputed && fallbacks.length > 0 ? values.oneOf(fallbacks) : undefined;
  }

  protected statements(body: readonly Node[]): void {
    for (const node of body) this.#hoist(node.type === 'export' ? node.declared : node);
    for (const node of body) {
      if (this.path.end !== undefined) return;
      this.#statement(node);
    }
  }

  #hoist(node: Node | undefined): void {
    if ((node?.type === 'function' || node?.type === 'class') && node.name !== undefined)
      this.define(node.name, this.value(node));
  }

  #statement(node: Node): void {
    switch (node.type) {
      case 'declare':
        for (const { target, value } of node.items) this.#declare(target, value);
        return;
      case 'leave':
        return this.#leave(node);
      case 'if':
        return this.#ifStatement(node);
      case 'loop':
        return this.#loopStatement(node);
      case 'block':
        return this.inScope(() => this.statements(node.body));
      case 'try':
        return this.#tryStatement(node);
      case 'switch':
        return this.#switchStatement(node);
      case 'export':
        if (node.declared !== undefined) this.#statement(node.declared);
        return;
      case 'statement':
        return this.#expression(node.value);
      case 'function':
      case 'class':
      case 'import':
        return;
      default:
        this.value(node);
    }
  }

  #declare(target: Node, node: Node | undefined): void {
    const value = node === undefined ? ABSENT : this.value(node);
    const isOpen = node === undefined || values.isBare(value);
    const typed = isOpen ? this.typed(typeAfter(target, this.module), this.module) : undefined;
    this.bind(
      target,
      typed === undefined
        ? value
        : { ...values.ofType(value, typed), texts: [...typed.texts, ...value.texts] },
    );
  }

  #expression(node: Node): void {
    const value = this.value(node);
    this.misuse('dropped', value.promise === undefined ? (value.items ?? value) : value, node);
    this.#asserted(value, node);
  }

  /** A call of an undeclared function as a statement may throw for texts that are not known. */
  #asserted({ keys }: Value, node: Node): void {
    const call = node.type === 'await' ? node.value : node;
    if (keys === undefined || call.type !== 'call' || call.callee.type !== 'name') return;
    const known = new Map(keys.map((id) => [id, { isKnown: true }]));
    this.path.facts = allFacts(this.path.facts, known);
  }

  #leave({ how, value, parent }: NodeOf<'leave'>): void {
    const result = value === undefined ? ABSENT : this.value(value);
    const isFallback = parent?.parent?.type === 'try' && parent.parent.handler === parent;
    if (how === 'return') this.addResult(result, isFallback);
    if (how === 'throw' && this.shield.tries === Number(this.shield.isCatching)) this.fails = true;
    this.path.end = how === 'return' || how === 'throw' ? 'exit' : 'break';
  }

  #ifStatement({ test, yes, no }: NodeOf<'if'>): void {
    const branches = this.branches(test, (isTrue) => {
      const branch = isTrue ? yes : no;
      if (branch !== undefined) this.#statement(branch);
    });
    this.path.join(branches.map(({ path }) => path));
  }

  #loopStatement({ kind, head, body }: NodeOf<'loop'>): void {
    this.inScope(() => {
      const isOver = kind === 'of' || kind === 'in';
      const over = isOver && head[1] !== undefined ? this.value(head[1]) : undefined;
      let test = KNOWN;
      if (!isOver)
        for (const part of head)
          if (part.type === 'declare') this.#statement(part);
          else test = this.tested(this.value(part), part);
      if (over !== undefined) this.misuse('value', over, head[1] ?? body);
      else this.misuse('condition', test, body);
      const around = this.path;
      const run = (): Path =>
        this.branch(values.factsIf(test, true), () => {
          const [target] = head;
          if (over !== undefined && target !== undefined)
            for (const each of target.type === 'declare' ? target.items.map((item) => item.target) : [target])
              this.bind(each, kind === 'of' ? itemOf(over) : keyOf(over));
          this.#statement(body);
        }).path;
      // a second run meets the values that the first one left
      for (let isAgain = false, path = run(); ; path = run(), isAgain = true) {
        path.end = undefined;
        const hasChanged = path.hasChanged(around);
        const kept =
          over !== undefined && this.#isWhole(head[1]) && leaveIn(body, /^(?:break|continue)$/) === undefined
            ? factsAbout(itemOf(over), path.facts)
            : NO_FACTS;
        // the number of rounds is not known
        around.join([path, new Path(around)], values.inexact);
        // each item has passed the tests of a body that runs to its end
        around.facts = allFacts(around.facts, kept);
        if (isAgain || !hasChanged) break;
      }
    });
  }

  /** Whether an expression names a list, so that it is no part of another one. */
  #isWhole(list: Node | undefined): boolean {
    if (list?.type === 'member') return this.#isWhole(list.object);
    const binding = list?.type === 'name' ? this.module.lookup(list.name, list) : undefined;
    if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return binding !== undefined;
    return binding.node.target.type === 'name' && this.#isWhole(binding.node.value);
  }

  #tryStatement({ block, param, handler, finalizer }: NodeOf<'try'>): void {
    const before = this.shield;
    const tries = before.tries + 1;
    if (handler !== undefined) this.shield = { tries, isCatching: false };
    const branches = [this.branch(NO_FACTS, () => this.#statement(block)).path];
    if (handler !== undefined) {
      this.shield = { tries, isCatching: true };
      const caught = this.branch(NO_FACTS, () =>
        this.inScope(() => {
          if (param !== undefined) this.bind(param, anyError({ node: handler, module: this.module }));
          this.#statement(handler);
        }),
      );
      branches.push(caught.path);
    }
    this.shield = before;
    const kept = branches[1]?.keptBeside(branches[0]!) ?? [];
    this.path.join(branches);
    for (const [variable, fallback] of kept)
      this.path.set(variable, { ...(this.path.get(variable) ?? ABSENT), fallback });
    const { end } = this.path;
    this.path.end = undefined;
    if (finalizer !== undefined) this.#statement(finalizer);
    this.path.end ??= end;
  }

  #switchStatement({ value, cases }: NodeOf<'switch'>): void {
    const subject = this.tested(this.value(value), value);
    const hasDefault = cases.some(({ test }) => test === undefined);
    const branches = cases.map(({ test, body }) => {
      const tested = test === undefined ? KNOWN : this.value(test);
      if (test !== undefined) {
        const sides = [subject, tested] as const;
        this.listeners.onCompare({ node: test, module: this.module, handler: this.handler, sides });
      }
      const equal = test === undefined ? KNOWN : equality(subject, tested);
      // an empty case falls through to the next one
      const facts = values.factsIf(equal, true);
      const { path } = this.branch(facts, () => this.inScope(() => this.statements(body)));
      if (path.end === 'break') path.end = undefined;
      return path;
    });
    this.path.join(hasDefault ? branches : [...branches, new Path(this.path)]);
  }
}
