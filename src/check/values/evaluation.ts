/**
 * Evaluates expressions: names, members, objects, operators and branches. Calls and functions follow in
 * invocation.ts, which extends this class.
 */
import { unescaped } from '../reader/expressions.ts';
import { functionAround } from '../reader/nodes.ts';
import { SQL, characterAt } from './effects.ts';
import { isLeftOut, isWorthFinding } from './calls.ts';
import { Classes } from './classes.ts';
import { inputValue, itemOf, makerOf, mayHave, memberOfAddress, memberOfInput } from './inputs.ts';
import { claimOf, isRouter, typeOfMember } from './ours.ts';
import { Path } from './path.ts';
import { calculated, columnOfRow, enteredColumn, givenByPrincipal, isSumOfRows } from './marks.ts';
import { sqlTemplate } from './sql-texts.ts';
import { awaited, isCaught } from './promises.ts';
import { NO_FACTS, allFacts, hasClient, hasMarkup, sharedFacts } from './text.ts';
import * as tests from './tests.ts';
import * as values from './value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Assign, Call, ClassNode, Fn, Node, NodeOf } from '../reader/nodes.ts';
import type { ValueListeners } from './calls.ts';
import type { PromiseUse } from './promises.ts';
import type { Functions } from './functions.ts';
import type { Facts } from './text.ts';
import type { ClassValue, Closure, Value } from './value.ts';

const { ABSENT, KNOWN } = values;
/** An object of whose members nothing is known. */
const OPEN: Value = { texts: KNOWN.texts, items: KNOWN };

/** Expressions that are evaluated for one handler. A handler beyond it is analysed in part. */
const MAX_STEPS = 60_000;

export abstract class Evaluation extends Classes {
  protected readonly functions: Functions;
  protected readonly listeners: ValueListeners;
  protected readonly closures: Map<Fn, Closure> = new Map();
  /** The path of the modules. Variables of modules keep what handlers assign to them here. */
  protected readonly root: Path = new Path();
  protected path: Path = this.root;
  /** Whether a handler put a value of a client into state of the process, where another handler may find it. */
  protected isStored = false;
  protected seen: Map<Node, Value> = new Map();
  protected steps = 0;
  /** The handler or dependency that runs, directly or through other functions. */
  protected handler: Fn | undefined;

  constructor(functions: Functions, listeners: ValueListeners) {
    super();
    this.functions = functions;
    this.listeners = listeners;
  }

  /** Returns the result of a call. */
  protected abstract call(call: Call): Value;
  /** Returns an object, with the expression that made it if it lives as long as the process. */
  protected abstract made(made: Value, node: Node): Value;
  /** Notes that an error may leave the function that is being evaluated. */
  protected abstract mayThrow(): void;
  /** Adds a result of the function that is being evaluated. */
  protected abstract addResult(value: Value): void;

  protected tested(value: Value, node: Node): Value {
    this.listeners.onTest({ value, node, module: this.module, handler: this.handler });
    return value;
  }

  protected define(name: string, value: Value): void {
    this.path.set(this.scope.declare(name), value);
  }

  protected inScope(work: () => void): void {
    const scope = this.scope;
    this.scope = new values.Scope(scope);
    work();
    this.scope = scope;
  }

  /** Runs work on a path of its own, on which these facts hold. */
  protected branch<T>(facts: Facts, work: () => T): { readonly path: Path; readonly result: T } {
    const around = this.path;
    const path = new Path(around, facts);
    this.path = path;
    const result = work();
    this.path = around;
    return { path, result };
  }

  /** Runs the branches of a condition that may be met, on paths of their own. */
  protected branches<T>(
    test: Node,
    work: (isTrue: boolean) => T,
  ): readonly { readonly path: Path; readonly result: T }[] {
    const value = this.tested(this.value(test), test);
    this.misuse('condition', value, test);
    const decided = tests.decidedBy(test, this.module, this.seen);
    return [true, false]
      .filter((isTrue) => decided === undefined || decided === isTrue)
      .map((isTrue) => this.branch(values.factsIf(value, isTrue), () => work(isTrue)));
  }

  protected bind(target: Node, value: Value): void {
    switch (target.type) {
      case 'name':
        return this.define(target.name, value);
      case 'assign':
        return this.bind(
          target.target,
          value === ABSENT ? this.value(target.value) : values.oneOf([value, this.value(target.value)]),
        );
      case 'list':
        return target.items.forEach((item, index) =>
          item.type === 'spread'
            ? this.bind(item.value, value)
            : this.bind(item, value.members?.get(String(index)) ?? values.pieceAt(itemOf(value), index)),
        );
      case 'object':
        for (const entry of target.entries) {
          if (entry.type === 'spread') this.bind(entry.value, values.restOf(value, target.entries));
          else if (entry.value !== undefined) this.bind(entry.value, this.#read(value, entry.key, entry));
        }
        return;
      default:
        this.#assign(target, value);
    }
  }

  #assign(target: Node, value: Value): void {
    if (target.type === 'name') {
      const variable = this.scope.find(target.name);
      if (variable === undefined) return;
      this.path.set(variable, value);
      if (!isWorthFinding(value) || !this.#isLasting(target)) return;
      this.root.set(variable, values.oneOf([this.root.get(variable) ?? value, value]));
      this.isStored = true;
    } else if (target.type === 'member') {
      const object = this.value(target.object);
      const index = target.index && this.value(target.index);
      const key = target.property ?? tests.constantIn(index);
      const { module, handler } = this;
      if (index !== undefined) this.listeners.onIndexed({ target, module, handler, object, key: index });
      if (object.source !== undefined && key !== undefined)
        this.path.replaced.set(`${object.source.id}.${key}`, value);
      this.#keepPart(target, object);
      this.stores(object, value);
      if (object.members !== undefined && key !== undefined)
        object.members.set(key, this.#withBefore(object, key, value));
      else if (key === undefined && object.source === undefined && object !== KNOWN)
        object.items = object.items === undefined ? value : values.oneOf([object.items, value]);
    } else this.bind(target, value);
  }

  /** Returns a value that code assigns to a member. State of the process also keeps what other handlers assigned. */
  #withBefore({ members, lasting }: Value, key: string, value: Value): Value {
    const before = lasting === undefined || this.handler === undefined ? undefined : members?.get(key);
    return before === undefined ? value : values.oneOf([before, value]);
  }

  /** Notes that an object which lives as long as the process gets a value that another handler may find. */
  protected stores({ lasting }: Value, value: Value | undefined): void {
    if (lasting !== undefined && isWorthFinding(value)) this.isStored = true;
  }

  /** Notes that a variable holds a row or environment without a member, once code replaces or deletes the member. */
  #keepPart(target: Node, object: Value, source = object.source): void {
    if (target.type !== 'member' || target.object.type !== 'name') return;
    if (object.whole === undefined && source === object.source) return;
    const variable = this.scope.find(target.object.name);
    const lacks = target.property === undefined ? undefined : [...(object.lacks ?? []), target.property];
    const rest: Value = { ...object, whole: lacks && object.whole, lacks, source };
    if (variable !== undefined) this.path.set(variable, rest);
  }

  protected value(node: Node): Value {
    if (++this.steps > MAX_STEPS) return KNOWN;
    const value = this.#made(node, values.withFacts(this.#evaluate(node), this.path.facts));
    this.seen.set(node, value);
    if (value.fn !== undefined) this.functions.note(node, value.fn.fn);
    return value;
  }

  /** Adds the place of a value that rules ask for. */
  #made(node: Node, value: Value): Value {
    const { meaning = '', whole } = value;
    const made = { by: meaning, node, module: this.module };
    if (meaning.startsWith('process.env.') && value.texts === KNOWN.texts)
      return { ...value, texts: [[{ kind: 'own', made: { ...made, isLasting: true } }]] };
    return meaning !== 'process.env' || whole !== undefined ? value : { ...value, whole: made };
  }

  #evaluate(node: Node): Value {
    switch (node.type) {
      case 'name':
        return this.#named(node);
      case 'template':
        return this.#template(node);
      case 'member':
        return this.#memberNode(node);
      case 'call':
        return this.call(node);
      case 'function':
        return this.#closure(node);
      case 'class':
        return this.#classOf(node);
      case 'await':
        return this.#awaited(node.value);
      case 'spread':
        return this.value(node.value);
      case 'assign':
        return this.#assignment(node);
      case 'unary':
        return this.#unary(node);
      case 'binary':
        return this.#binary(node);
      case 'choice':
        return this.#choice(node);
      case 'sequence':
        return node.items.map((item) => this.value(item)).at(-1) ?? KNOWN;
      case 'list':
        return this.made(this.#listOf(node), node);
      case 'object':
        return this.made(this.#objectOf(node), node);
      default:
        return this.#literal(node);
    }
  }

  #awaited(node: Node): Value {
    const value = this.value(node);
    // a call of an unknown function may return any promise
    if (value.promise?.mayFail ?? (node.type === 'call' && !isCaught(node))) this.mayThrow();
    return awaited(value);
  }

  /** Tells the listener of a promise that code uses without `await`. */
  protected misuse(use: PromiseUse, { promise }: Value, node: Node): void {
    if (promise !== undefined) this.listeners.onPromise({ promise, use, node, module: this.module });
  }

  #closure(fn: Fn): Value {
    const closure: Closure = { fn, module: this.module, scope: this.scope, self: this.scope.self };
    this.closures.set(fn, closure);
    return { texts: KNOWN.texts, fn: closure };
  }

  #classOf(node: ClassNode): Value {
    const of: ClassValue = { node, module: this.module, scope: this.scope };
    this.classes.set(node, of);
    return { texts: KNOWN.texts, of };
  }

  #named(node: NodeOf<'name'>): Value {
    if (node.name === 'this') return this.scope.self ?? KNOWN;
    if (node.name === 'undefined') return ABSENT;
    const variable = this.scope.find(node.name);
    if (variable !== undefined) return this.path.get(variable) ?? variable.last ?? KNOWN;
    return this.binding(this.module.lookup(node.name, node), node.name);
  }

  protected binding(binding: ReturnType<SourceModule['lookup']>, name: string): Value {
    if (binding === undefined)
      return name in globalThis || /^(?:require|import)$/.test(name) ? { ...KNOWN, meaning: name } : KNOWN;
    if (binding.kind === 'module') return { texts: KNOWN.texts, module: binding.module };
    if (binding.kind === 'external') {
      const isWhole = binding.imported === '*' || binding.imported === 'default';
      return { texts: KNOWN.texts, meaning: isWhole ? binding.from : `${binding.from}.${binding.imported}` };
    }
    if (binding.kind === 'parameter') return KNOWN;
    const { node, module } = binding;
    const scope = this.scopeOf(module);
    const own =
      node.type === 'declarator'
        ? node.target.type === 'name'
          ? node.target.name
          : name
        : (node.name ?? name);
    const variable = scope.find(own);
    if (variable !== undefined) return this.path.get(variable) ?? variable.last ?? KNOWN;
    return node.type === 'function' ? { texts: KNOWN.texts, fn: { fn: node, module, scope } } : KNOWN;
  }

  #template(node: NodeOf<'template'>): Value {
    const { tag, texts, starts, values: inner } = node;
    const { module } = this;
    const parts = inner.map((each) => this.value(each));
    parts.forEach((part, index) => {
      if (tag === undefined) this.misuse('value', part, inner[index]!); // each part has its node
    });
    const tagged = tag && this.value(tag);
    const literals = tagged?.meaning === 'String.raw' ? texts : texts.map(unescaped);
    if (tagged?.fn !== undefined)
      return this.invoke(
        tagged.fn,
        [values.listOf(literals.map((text) => values.literal(text))), ...parts],
        undefined,
      );
    const written = literals.map((text, index) =>
      values.literal(text, { text, module, node, start: starts[index]! }),
    );
    if (tagged?.meaning === SQL)
      return sqlTemplate(
        written,
        parts.map((value, index) => ({ value, node: inner[index]!, module })),
      );
    if (tagged !== undefined && tagged.meaning !== 'String.raw')
      return { texts: KNOWN.texts, type: tagged.meaning };
    return this.#joined(
      literals.flatMap((text, index) => [
        ...(text === '' ? [] : [written[index]!]),
        ...parts.slice(index, index + 1),
      ]),
      texts.flatMap((text, index) => [...(text === '' ? [] : [undefined]), inner[index]]),
    );
  }

  /** Joins values as texts. Parts of clients keep the expression that brought them into the text, or into markup. */
  #joined(parts: readonly Value[], nodes: readonly (Node | undefined)[]): Value {
    const { module } = this;
    const isMarkup = values.joined(parts).texts.some(hasMarkup);
    return values.joined(
      parts.map((each, index) => {
        const node = nodes[index];
        const entry = node && { node, module };
        const value = node === undefined ? each : this.textOf(each, node);
        if (!value.texts.some(hasClient) || entry === undefined) return enteredColumn(value, entry);
        const isNew = isMarkup && !value.texts.some(hasMarkup);
        return values.mapParts(value, (part) =>
          isNew || part.entry === undefined ? { ...part, entry } : part,
        );
      }),
    );
  }

  /** Returns a value as a text: that of an error has its message. */
  protected textOf(value: Value, node: Node): Value {
    const by = value.type === 'Error' ? makerOf(value, 'message', this.path.facts) : undefined;
    return by === undefined ? value : { texts: [[{ kind: 'own', made: { by, node, module: this.module } }]] };
  }

  /** Returns a value whose parts of clients keep the expression that first brought them into a longer text. */
  protected entered(value: Value, node: Node): Value {
    const entry = { node, module: this.module };
    return { ...value, ...values.mapParts(value, (part) => ({ ...part, entry: part.entry ?? entry })) };
  }

  #memberNode(node: NodeOf<'member'>): Value {
    const { object, property, index } = node;
    const value = this.value(object);
    const key = index === undefined ? undefined : this.value(index);
    const member = this.#read(value, property ?? tests.constantIn(key), node, key);
    const chosen = key === undefined ? member : (characterAt(value, key) ?? member);
    const free = tests.freeKeyIn(key);
    return free === undefined ? chosen : { ...chosen, byKey: free };
  }

  /** Returns a member, with its place if rules ask where it comes from. */
  #read(object: Value, key: string | undefined, node: Node, index?: Value): Value {
    if (!/^(?:then|catch|finally)$/.test(key ?? '')) this.misuse('value', object, node);
    const by = key === undefined ? undefined : makerOf(object, key, this.path.facts);
    return by === undefined
      ? this.member(object, key, index)
      : {
          texts: [[{ kind: 'own', made: { by, node, module: this.module } }]],
          declared: key === undefined ? undefined : object.source?.type?.member(key),
        };
  }

  protected member(value: Value, key: string | undefined, index?: Value): Value {
    if (key === 'length' && value.texts.some(hasClient)) return tests.lengthOf(value);
    if (key === undefined) {
      const item = itemOf(tests.chosenOf(value, index));
      const ids = tests.isMadeHere(value) ? [] : values.idsIn(index);
      const { texts, items, members, fn, fns } = item;
      return item.source === undefined
        ? { texts, items, members, fn, fns, ...(ids.length > 0 && { keys: ids }) }
        : inputValue({ ...item.source, id: `${item.source.id}.*`, whole: undefined });
    }
    const type = typeOfMember(value.source?.isRequest === true ? 'svc.Context' : value.type, key);
    // the members of an application are its options, such as "config"
    const hasOptions = type !== undefined && isRouter(value.type);
    const own = hasOptions
      ? undefined
      : (value.members?.get(key) ?? this.method(value, key) ?? claimOf(value, key));
    if (own !== undefined) return own;
    if (type !== undefined) return { texts: KNOWN.texts, type };
    if (value.type === 'URL') return memberOfAddress(value, key);
    if (value.source?.lacks?.includes(key) === true) return ABSENT;
    if (value.source !== undefined) {
      const replaced = this.path.replaced.get(`${value.source.id}.${key}`);
      return replaced ?? memberOfInput(value.source, key, this.listeners.typeOf) ?? KNOWN;
    }
    if (value.module !== undefined) return this.binding(value.module.exported(key), key);
    if (value.meaning !== undefined) return { texts: KNOWN.texts, meaning: `${value.meaning}.${key}` };
    const isSize = /^(?:length|size)$/.test(key);
    const isOpen =
      value.items !== undefined || value.of !== undefined || (isSize && value.lasting !== undefined);
    if (value.members !== undefined && !isOpen) return ABSENT;
    if (isSize) return { ...KNOWN, keys: value.keys, lasting: value.lasting };
    if (/^\d+$/.test(key)) return { ...values.pieceAt(itemOf(value), key), keys: value.keys };
    const item = value.items === undefined ? value : itemOf(value);
    return columnOfRow({ texts: item.texts, keys: value.keys }, value.whole && key);
  }

  #literal(node: Node): Value {
    const { module } = this;
    if (node.type === 'text')
      return values.literal(node.value, { text: node.value, module, node, start: node.start + 1 });
    if (node.type === 'pattern') return { ...KNOWN, pattern: node };
    if (node.type !== 'value') return KNOWN;
    if (node.raw === 'null') return ABSENT;
    const { raw, start } = node;
    return {
      ...values.literal(raw, { text: raw, module, node, start }),
      constant: !/^(?:false|0)$/.test(raw),
    };
  }

  #assignment(node: Assign): Value {
    const { operator, target } = node;
    const right = this.value(node.value);
    const before = operator === '=' ? right : this.value(target);
    const value =
      operator === '='
        ? right
        : /^(?:\?\?|\|\||&&)=$/.test(operator)
          ? values.oneOf([before, right])
          : (this.#calculated(operator.slice(0, -1), [before, right], [target, node.value]) ?? KNOWN);
    const isLasting = this.#isLasting(target);
    if (isLasting && /^(?:(?:\?\?|\|\|)?=)$/.test(operator)) this.misuse('kept', right, node);
    const given = values.givenOf(right) ?? givenByPrincipal(right);
    const { module } = this;
    if (given !== undefined) this.listeners.onAssign({ assign: node, module, value: given, isLasting });
    this.#assign(target, value);
    return value;
  }

  /** Whether a variable or member lives as long as the process: of a module, or of an object that a module makes. */
  #isLasting(target: Node): boolean {
    if (target.type === 'member') return this.value(target.object).lasting !== undefined;
    const binding = target.type === 'name' ? this.module.lookup(target.name, target) : undefined;
    return binding?.kind === 'declared' && functionAround(binding.node) === undefined;
  }

  #unary(node: NodeOf<'unary'>): Value {
    const { operator, value } = node;
    const inner = value === undefined ? KNOWN : this.value(value);
    if (/^(?:!|void)$/.test(operator)) this.misuse(operator === '!' ? 'condition' : 'dropped', inner, node);
    if (operator === 'delete' && value?.type === 'member') {
      const object = this.value(value.object);
      this.#keepPart(value, object, object.source && { ...object.source, whole: undefined });
    }
    if (operator === 'yield') this.addResult({ texts: inner.texts, items: inner });
    if (operator === '!' && value !== undefined) this.tested(inner, value);
    const number = operator === '-' ? tests.constantIn(inner) : undefined;
    if (number !== undefined) return values.literal(`-${number}`);
    if (operator === '-' && value !== undefined)
      return calculated(operator, [inner], [value, value], this.module);
    if (operator === '+') return values.numberFrom(inner);
    return operator === '!' ? values.negation(inner) : operator === 'void' ? ABSENT : KNOWN;
  }

  #binary(node: NodeOf<'binary'>): Value {
    const { operator, left, right } = node;
    const first = this.value(left);
    if (operator === '&&' || operator === '||' || operator === '??') return this.#logical(node, first);
    const second = this.value(right);
    if (operator === '+' || tests.constantIn(second) !== undefined || second === ABSENT)
      this.misuse(operator === '+' ? 'value' : 'condition', first, left);
    if (operator === '+') this.misuse('value', second, right);
    const { module, handler } = this;
    if (/^(?:[!=]==?|[<>]=?)$/.test(operator))
      this.listeners.onCompare({ node, module, handler, sides: [first, second] });
    if (/^(?:[-+*]|[<>]=?)$/.test(operator))
      this.listeners.onSum({ node, module, handler, sides: [first, second] });
    if (/^[!=]==?$/.test(operator)) {
      const asked = left.type === 'unary' && left.operator === 'typeof' ? left.value : undefined;
      const isTextAsked = asked !== undefined && tests.constantIn(second) === 'string';
      // a value that is no text has no characters
      const test = isTextAsked
        ? tests.tested(this.value(asked), undefined, { isKnown: true })
        : tests.equality(first, second);
      return operator.startsWith('=') ? test : values.negation(test);
    }
    if (operator === 'in') return tests.isMadeHere(second) ? KNOWN : tests.among(first);
    const keys = values.isProof(operator, second) ? first.keys : undefined;
    return this.#calculated(operator, [first, second], [left, right]) ?? { ...KNOWN, keys };
  }

  /** Returns the result of arithmetic, or of the concatenation of texts; undefined for any other operator. */
  #calculated(operator: string, sides: readonly Value[], nodes: readonly [Node, Node]): Value | undefined {
    if (operator === '+' && !isSumOfRows(sides)) return tests.placeAfter(sides) ?? this.#joined(sides, nodes);
    return /^(?:[-+*/%&|^]|\*\*|<<|>>>?)$/.test(operator)
      ? calculated(operator, sides, nodes, this.module)
      : undefined;
  }

  #logical({ operator, left, right }: NodeOf<'binary'>, first: Value): Value {
    this.misuse('condition', first, left);
    this.tested(first, left);
    if (operator === '&&' && isLeftOut(left, this.seen)) return ABSENT;
    const facts = operator === '??' ? NO_FACTS : values.factsIf(first, operator === '&&');
    const { path, result } = this.branch(facts, () => this.tested(this.value(right), right));
    this.path.join([path, new Path(this.path)]);
    const [yes, no] = [true, false].map(
      (isTrue) => [values.factsIf(first, isTrue), values.factsIf(result, isTrue)] as const,
    );
    if (operator === '&&')
      return { ...result, yes: allFacts(...yes!), no: sharedFacts(...no!), keys: undefined };
    // (count ?? 0) is true only where the count is
    const keys = result.constant === false ? first.keys : undefined;
    return { ...values.either(first, result), yes: sharedFacts(...yes!), no: allFacts(...no!), keys };
  }

  #choice({ test, yes, no }: NodeOf<'choice'>): Value {
    const branches = this.branches(test, (isTrue) => this.value(isTrue ? yes : no));
    this.path.continueAfter(branches.map(({ path }) => path));
    return values.oneOf(branches.map(({ result }) => result));
  }

  #listOf({ items }: NodeOf<'list'>): Value {
    const known: Value[] = [];
    const rest: Value[] = [];
    for (const item of items) {
      const value = this.value(item);
      const isSpread = item.type === 'spread';
      if (isSpread && (value.items !== undefined || value.members === undefined)) rest.push(itemOf(value));
      else known.push(...(isSpread ? values.innerOf(value) : [value]));
    }
    const list = { ...values.listOf(known), items: rest.length === 0 ? undefined : values.oneOf(rest) };
    return { ...list, texts: values.textsOf(values.innerOf(list)) };
  }

  #objectOf({ entries }: NodeOf<'object'>): Value {
    const members = new Map<string, Value>();
    let spread: Value | undefined;
    for (const entry of entries) {
      if (entry.type === 'spread') {
        const value = this.value(entry.value);
        for (const [key, member] of value.members ?? []) members.set(key, member);
        // a client may send each member that stands before the copy of its input
        if (value.source !== undefined)
          for (const [key, member] of members)
            if (value.members?.has(key) !== true && mayHave(value.source, key))
              members.set(key, values.oneOf([member, this.member(value, key)]));
        if (value.source !== undefined || value.items !== undefined || value.whole !== undefined)
          spread = value;
        else if (value.members === undefined && value !== ABSENT) spread ??= OPEN;
      } else if (entry.value !== undefined) {
        const key = entry.key ?? tests.constantIn(entry.computed && this.value(entry.computed));
        if (key !== undefined) members.set(key, this.value(entry.value));
        else this.value(entry.value);
      }
    }
    const { source, items, whole, lacks } = spread ?? KNOWN;
    return { texts: KNOWN.texts, members, source, items, whole, lacks };
  }
}
