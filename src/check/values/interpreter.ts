/**
 * Follows values through the sources of an application: from the inputs of its handlers through statements,
 * branches and calls. Nothing of the application runs. Listeners receive every call with the values of its
 * arguments, and every assignment.
 */
import { functionAround, isWithin } from '../reader/nodes.ts';
import { FUNCTIONS, METHODS, among, constantIn, itemOf, memberOfAddress } from './effects.ts';
import { inputValue, memberOfInput, readInput, requestValue } from './inputs.ts';
import { Path, Scope } from './scope.ts';
import { NO_FACTS, allFacts, hasClient, sharedFacts } from './text.ts';
import * as values from './value.ts';
import type { Project, SourceModule } from '../reader/modules.ts';
import type { Assign, Block, Call, Entry, Fn, Node } from '../reader/nodes.ts';
import type { Handlers, Role, RouteCall } from '../source/routes.ts';
import type { TypeOfInput } from './inputs.ts';
import type { Facts } from './text.ts';
import type { ClassValue, Closure, Given, Value } from './value.ts';

const { ABSENT, KNOWN } = values;

/** A call with the values of its arguments on one path through the code. */
export interface Site {
  readonly call: Call;
  readonly module: SourceModule;
  /** Import of the called function, such as `fs.readFile`; the type of its object and the method, else ''. */
  readonly meaning: string;
  readonly receiver: Value | undefined;
  /** Returns the value of an argument, or of an expression in it. */
  value(node: Node | undefined): Value | undefined;
  /** Returns the origin of the value of an expression; undefined if no client sent a part of it. */
  given(node: Node | undefined): Given | undefined;
  /** Returns the expression that a caller passed for a parameter. Other expressions are returned unchanged. */
  written(node: Node): { readonly node: Node; readonly module: SourceModule };
}

/** An assignment, with the assigned value. */
export interface Kept {
  readonly assign: Assign;
  readonly module: SourceModule;
  readonly value: Given;
}

export interface Listeners {
  onCall(site: Site): void;
  onAssign(kept: Kept): void;
  readonly typeOf: TypeOfInput;
}

interface Frame {
  readonly fn: Fn;
  readonly call: Call | undefined;
  readonly module: SourceModule;
}
interface Result {
  readonly value: Value;
  readonly facts: Facts;
  readonly path: Path;
}
interface Pending {
  readonly closure: Closure;
  readonly args: readonly Value[];
}

const MAX_DEPTH = 10;
/** Expressions that are evaluated for one handler. A handler beyond it is analysed in part. */
const MAX_STEPS = 60_000;

export class Interpreter {
  readonly #project: Project;
  readonly #handlers: Handlers;
  readonly #listeners: Listeners;
  readonly #scopes = new Map<SourceModule, Scope>();
  readonly #closures = new Map<Fn, Closure>();
  readonly #pending: Pending[] = [];
  readonly #done = new Set<Fn>();
  readonly #summaries = new WeakMap<Fn, Map<string, { readonly value: Value; readonly facts: Facts }>>();
  readonly #root = new Path();
  #stack: Frame[] = [];
  #path = this.#root;
  #scope = new Scope();
  #module!: SourceModule; // run() sets `#module` before other methods read it
  #results: Result[] = [];
  #seen = new Map<Node, Value>();
  #steps = 0;

  constructor(project: Project, handlers: Handlers, listeners: Listeners) {
    this.#project = project;
    this.#handlers = handlers;
    this.#listeners = listeners;
  }

  run(): void {
    for (const module of this.#project.modules.toReversed()) this.#scopeOf(module);
    this.#runPending();
    for (const fn of this.#handlers.all) {
      if (this.#done.has(fn)) continue;
      // no call reached the function around the handler, so it runs with unknown arguments
      const outer = this.#outermost(fn);
      if (!this.#closures.has(fn) && outer !== undefined) this.#start({ closure: outer, args: [] });
      const closure = this.#closures.get(fn);
      if (closure !== undefined) this.#queue(closure, undefined, undefined);
      this.#runPending();
    }
  }

  #runPending(): void {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) this.#start(next);
  }

  #start({ closure, args }: Pending): void {
    this.#steps = 0;
    this.#seen = new Map();
    this.#path = new Path(this.#root);
    this.#stack = [];
    this.#invoke(closure, args, undefined);
  }

  #outermost(fn: Fn): Closure | undefined {
    let found: Closure | undefined;
    for (let at = functionAround(fn); at !== undefined; at = functionAround(at))
      found = this.#closures.get(at) ?? found;
    return found;
  }

  /** Returns the variables of a module. Runs its statements first. */
  #scopeOf(module: SourceModule): Scope {
    const known = this.#scopes.get(module);
    if (known !== undefined) return known;
    const scope = new Scope();
    this.#scopes.set(module, scope);
    const before = [this.#module, this.#scope, this.#path, this.#stack, this.#steps] as const;
    [this.#module, this.#scope, this.#path, this.#stack, this.#steps] = [module, scope, this.#root, [], 0];
    this.#statements(module.body.body);
    this.#root.end = undefined;
    [this.#module, this.#scope, this.#path, this.#stack, this.#steps] = before;
    return scope;
  }

  // -- functions --

  /** Adds a handler to the functions that run later, with the inputs of its role. */
  #queue(closure: Closure, spec: Value | undefined, deps: Value | undefined): void {
    const roles = this.#handlers.rolesOf(closure.fn);
    if (roles.length === 0 || this.#done.has(closure.fn)) return;
    this.#done.add(closure.fn);
    const args = closure.fn.params.map((_, index) => this.#inputOf(roles[index], spec, deps));
    this.#pending.push({ closure, args });
  }

  #inputOf(role: Role | undefined, spec: Value | undefined, deps: Value | undefined): Value {
    if (role === undefined) return KNOWN;
    if (role.kind === 'request') return this.#context(role.route, spec, deps);
    return inputValue({
      id: 'message',
      origin: { what: 'the message', input: 'message' },
      route: role.route,
    });
  }

  /** Returns the context of a handler: its inputs, and the results of its dependencies. */
  #context(route: RouteCall | undefined, spec: Value | undefined, deps?: Value): Value {
    if (route?.isValidated === true) return KNOWN;
    const members = new Map<string, Value>();
    for (const [key, { gives }] of [...(deps?.members ?? []), ...(spec?.members ?? [])])
      if (gives !== undefined) members.set(key, gives);
    return { ...requestValue(route), members };
  }

  /** Returns the result of a dependency: of a function, a class, or a function of a package. */
  #provided(source: Value): Value {
    const context = this.#context(undefined, source.spec);
    if (source.of !== undefined) return this.#instance(source.of, [context], undefined);
    if (source.fn === undefined) return { texts: KNOWN.texts, type: source.meaning };
    this.#done.add(source.fn.fn);
    return this.#invoke(source.fn, [context], undefined);
  }

  #invoke(closure: Closure, args: readonly Value[], call: Call | undefined): Value {
    const { fn } = closure;
    if (this.#stack.length >= MAX_DEPTH || this.#stack.some((frame) => frame.fn === fn)) return KNOWN;
    const isShared = functionAround(fn) === undefined && this.#stack.length > 0;
    const key = isShared ? [...args, closure.self ?? KNOWN].map((value) => signatureOf(value)).join(';') : '';
    let summaries = this.#summaries.get(fn);
    if (summaries === undefined) this.#summaries.set(fn, (summaries = new Map()));
    const known = isShared ? summaries.get(key) : undefined;
    if (known !== undefined) {
      this.#path.facts = allFacts(this.#path.facts, known.facts);
      return known.value;
    }
    const { value, facts } = this.#run(closure, args, call);
    if (isShared) summaries.set(key, { value, facts });
    return value;
  }

  #run(
    { fn, module, scope, self }: Closure,
    args: readonly Value[],
    call: Call | undefined,
  ): Omit<Result, 'path'> {
    const before = [this.#module, this.#scope, this.#path, this.#results] as const;
    const around = this.#path;
    this.#stack.push({ fn, call, module: this.#module });
    this.#module = module;
    this.#scope = new Scope(scope, self);
    this.#path = new Path(around);
    this.#results = [];
    fn.params.forEach((param, index) => {
      const value =
        param.type === 'spread'
          ? listOf(args.slice(index))
          : (args[index] ?? (call === undefined ? KNOWN : ABSENT));
      this.#bind(param.type === 'spread' ? param.value : param, value);
    });
    const [only] = fn.body;
    if (fn.isExpression && only !== undefined) this.#return(this.#value(only));
    else {
      this.#statements(fn.body);
      if (this.#path.end === undefined) this.#return(ABSENT);
    }
    const results = this.#results;
    this.#stack.pop();
    [this.#module, this.#scope, this.#path, this.#results] = before;
    if (results.length > 0) around.continueAfter(results.map(({ path }) => path));
    const value = values.oneOf(results.map((result) => result.value));
    const facts = results
      .map((result) => result.facts)
      .reduce<Facts | undefined>(
        (all, each) => (all === undefined ? each : sharedFacts(all, each)),
        undefined,
      );
    return { value: { ...value, ...values.judgedResults(results) }, facts: facts ?? NO_FACTS };
  }

  #return(value: Value): void {
    this.#results.push({ value, facts: this.#path.facts, path: this.#path });
  }

  // -- statements --

  #statements(body: readonly Node[]): void {
    for (const node of body) this.#hoist(node.type === 'export' ? node.declared : node);
    for (const node of body) {
      if (this.#path.end !== undefined) return;
      this.#statement(node);
    }
  }

  #hoist(node: Node | undefined): void {
    if (node?.type === 'function' && node.name !== undefined) this.#declare(node.name, this.#value(node));
    if (node?.type === 'class' && node.name !== undefined) this.#declare(node.name, this.#value(node));
  }

  #declare(name: string, value: Value): void {
    this.#path.set(this.#scope.declare(name), value);
  }

  #statement(node: Node): void {
    switch (node.type) {
      case 'declare':
        for (const { target, value } of node.items)
          this.#bind(target, value === undefined ? ABSENT : this.#value(value));
        return;
      case 'leave':
        return this.#leave(node);
      case 'if':
        return this.#if(node);
      case 'loop':
        return this.#loop(node);
      case 'block':
        return this.#inScope(() => this.#statements(node.body));
      case 'try':
        return this.#try(node);
      case 'switch':
        return this.#switch(node);
      case 'export':
        if (node.declared !== undefined) this.#statement(node.declared);
        return;
      case 'statement':
        return this.#asserted(this.#value(node.value), node.value);
      case 'function':
      case 'class':
      case 'import':
        return;
      default:
        this.#value(node);
    }
  }

  #inScope(work: () => void): void {
    const scope = this.#scope;
    this.#scope = new Scope(scope);
    work();
    this.#scope = scope;
  }

  /** A call of an undeclared function as a statement may throw for texts that are not known. */
  #asserted({ keys }: Value, node: Node): void {
    const call = node.type === 'await' ? node.value : node;
    if (keys === undefined || call.type !== 'call' || call.callee.type !== 'name') return;
    const known = new Map(keys.map((id) => [id, { isKnown: true }]));
    this.#path.facts = allFacts(this.#path.facts, known);
  }

  #leave({ how, value }: Extract<Node, { type: 'leave' }>): void {
    const result = value === undefined ? ABSENT : this.#value(value);
    if (how === 'return') this.#return(result);
    this.#path.end = how === 'return' || how === 'throw' ? 'exit' : 'break';
  }

  /** Runs work on a path of its own, on which these facts hold. */
  #branch<T>(facts: Facts, work: () => T): { readonly path: Path; readonly result: T } {
    const around = this.#path;
    const path = new Path(around, facts);
    this.#path = path;
    const result = work();
    this.#path = around;
    return { path, result };
  }

  #if({ test, yes, no }: Extract<Node, { type: 'if' }>): void {
    const value = this.#value(test);
    const branches = [
      this.#branch(values.factsIf(value, true), () => this.#statement(yes)),
      this.#branch(values.factsIf(value, false), () => no && this.#statement(no)),
    ];
    this.#path.join(branches.map(({ path }) => path));
  }

  #loop({ kind, head, body }: Extract<Node, { type: 'loop' }>): void {
    this.#inScope(() => {
      const isOver = kind === 'of' || kind === 'in';
      const over = isOver && head[1] !== undefined ? this.#value(head[1]) : undefined;
      let test = KNOWN;
      if (!isOver)
        for (const part of head)
          if (part.type === 'declare') this.#statement(part);
          else test = this.#value(part);
      const around = this.#path;
      const { path } = this.#branch(values.factsIf(test, true), () => {
        const [target] = head;
        if (over !== undefined && target !== undefined)
          for (const each of target.type === 'declare' ? target.items.map((item) => item.target) : [target])
            this.#bind(each, kind === 'of' ? itemOf(over) : keyOf(over));
        this.#statement(body);
      });
      path.end = undefined;
      around.join([path, new Path(around)]);
    });
  }

  #try({ block, param, handler, finalizer }: Extract<Node, { type: 'try' }>): void {
    const branches = [this.#branch(NO_FACTS, () => this.#statement(block)).path];
    if (handler !== undefined) {
      const caught = this.#branch(NO_FACTS, () =>
        this.#inScope(() => {
          if (param !== undefined) this.#bind(param, KNOWN);
          this.#statement(handler);
        }),
      );
      branches.push(caught.path);
    }
    this.#path.join(branches);
    const { end } = this.#path;
    this.#path.end = undefined;
    if (finalizer !== undefined) this.#statement(finalizer);
    this.#path.end ??= end;
  }

  #switch({ value, cases }: Extract<Node, { type: 'switch' }>): void {
    const subject = this.#value(value);
    const hasDefault = cases.some(({ test }) => test === undefined);
    const branches = cases.map(({ test, body }) => {
      const equal = test === undefined ? KNOWN : equality(subject, this.#value(test));
      // an empty case falls through to the next one
      const facts = values.factsIf(equal, true);
      const { path } = this.#branch(facts, () => this.#inScope(() => this.#statements(body)));
      if (path.end === 'break') path.end = undefined;
      return path;
    });
    this.#path.join(hasDefault ? branches : [...branches, new Path(this.#path)]);
  }

  #bind(target: Node, value: Value): void {
    switch (target.type) {
      case 'name':
        return this.#declare(target.name, value);
      case 'assign':
        return this.#bind(
          target.target,
          value === ABSENT ? this.#value(target.value) : this.#orDefault(value, target.value),
        );
      case 'list':
        return target.items.forEach((item, index) =>
          item.type === 'spread'
            ? this.#bind(item.value, value)
            : this.#bind(item, value.members?.get(String(index)) ?? itemOf(value)),
        );
      case 'object':
        for (const entry of target.entries) {
          if (entry.type === 'spread') this.#bind(entry.value, withoutWhole(value));
          else if (entry.value !== undefined) this.#bind(entry.value, this.#member(value, entry.key));
        }
        return;
      default:
        this.#assign(target, value);
    }
  }

  #orDefault(value: Value, fallback: Node): Value {
    return values.oneOf([value, this.#value(fallback)]);
  }

  #assign(target: Node, value: Value): void {
    if (target.type === 'name') {
      const variable = this.#scope.find(target.name);
      if (variable !== undefined) this.#path.set(variable, value);
    } else if (target.type === 'member') {
      const object = this.#value(target.object);
      const key = target.property ?? constantIn(target.index && this.#value(target.index));
      if (object.source !== undefined && key !== undefined)
        this.#path.replaced.set(`${object.source.id}.${key}`, value);
      if (object.members !== undefined && key !== undefined) object.members.set(key, value);
      else if (key === undefined && object.source === undefined && object !== KNOWN)
        object.items = object.items === undefined ? value : values.oneOf([object.items, value]);
    } else this.#bind(target, value);
  }

  // -- expressions --

  #value(node: Node): Value {
    if (++this.#steps > MAX_STEPS) return KNOWN;
    const value = values.withFacts(this.#evaluate(node), this.#path.facts);
    this.#seen.set(node, value);
    return value;
  }

  #evaluate(node: Node): Value {
    switch (node.type) {
      case 'name':
        return this.#named(node);
      case 'text':
        return values.literal(node.value);
      case 'value':
        return node.raw === 'null'
          ? ABSENT
          : { ...values.literal(node.raw), constant: !/^(?:false|0)$/.test(node.raw) };
      case 'pattern':
        return { ...KNOWN, pattern: node };
      case 'template':
        return this.#template(node);
      case 'member':
        return this.#memberNode(node);
      case 'call':
        return this.#call(node);
      case 'function':
        return this.#closure(node);
      case 'class':
        return { texts: KNOWN.texts, of: { node, module: this.#module, scope: this.#scope } };
      case 'await':
      case 'spread':
        return this.#value(node.value);
      case 'assign':
        return this.#assignment(node);
      case 'unary':
        return this.#unary(node);
      case 'binary':
        return this.#binary(node);
      case 'choice':
        return this.#choice(node);
      case 'sequence':
        return node.items.map((item) => this.#value(item)).at(-1) ?? KNOWN;
      case 'list':
        return this.#list(node);
      case 'object':
        return this.#object(node);
      default:
        return KNOWN;
    }
  }

  #closure(fn: Fn): Value {
    const closure: Closure = { fn, module: this.#module, scope: this.#scope, self: this.#scope.self };
    this.#closures.set(fn, closure);
    return { texts: KNOWN.texts, fn: closure };
  }

  #named(node: Extract<Node, { type: 'name' }>): Value {
    if (node.name === 'this') return this.#scope.self ?? KNOWN;
    if (node.name === 'undefined') return ABSENT;
    const variable = this.#scope.find(node.name);
    if (variable !== undefined) return this.#path.get(variable) ?? variable.last ?? KNOWN;
    return this.#binding(this.#module.lookup(node.name, node), node.name);
  }

  #binding(binding: ReturnType<SourceModule['lookup']>, name: string): Value {
    if (binding === undefined)
      return {
        ...KNOWN,
        meaning: name in globalThis || /^(?:require|import)$/.test(name) ? name : `svc.${name}`,
      };
    if (binding.kind === 'module') return { texts: KNOWN.texts, module: binding.module };
    if (binding.kind === 'external') {
      const isWhole = binding.imported === '*' || binding.imported === 'default';
      return { texts: KNOWN.texts, meaning: isWhole ? binding.from : `${binding.from}.${binding.imported}` };
    }
    if (binding.kind === 'parameter') return KNOWN;
    const { node, module } = binding;
    const scope = this.#scopeOf(module);
    const own =
      node.type === 'declarator'
        ? node.target.type === 'name'
          ? node.target.name
          : name
        : (node.name ?? name);
    const variable = scope.find(own);
    if (variable !== undefined) return this.#path.get(variable) ?? variable.last ?? KNOWN;
    return node.type === 'function' ? { texts: KNOWN.texts, fn: { fn: node, module, scope } } : KNOWN;
  }

  #template({ tag, texts, values: inner }: Extract<Node, { type: 'template' }>): Value {
    const parts = inner.map((each) => this.#value(each));
    const tagged = tag === undefined ? undefined : this.#value(tag);
    if (tagged?.fn !== undefined)
      return this.#invoke(tagged.fn, [listOf(texts.map(values.literal)), ...parts], undefined);
    if (tagged !== undefined && tagged.meaning !== 'String.raw')
      return { texts: KNOWN.texts, type: tagged.meaning };
    return values.joined(
      texts.flatMap((text, index) => [
        ...(text === '' ? [] : [values.literal(text)]),
        ...parts.slice(index, index + 1),
      ]),
    );
  }

  #memberNode({ object, property, index }: Extract<Node, { type: 'member' }>): Value {
    const value = this.#value(object);
    if (property !== undefined) return this.#member(value, property);
    const key = index === undefined ? undefined : this.#value(index);
    return this.#member(value, constantIn(key), key);
  }

  #member(value: Value, key: string | undefined, index?: Value): Value {
    if (key === undefined) {
      const item = itemOf(value);
      const ids = index === undefined ? [] : values.idsIn(index);
      return item.source === undefined
        ? {
            texts: item.texts,
            items: item.items,
            members: item.members,
            ...(ids.length > 0 && { keys: ids }),
          }
        : withoutWhole(item);
    }
    const own = value.members?.get(key) ?? this.#method(value, key);
    if (own !== undefined) return own;
    if (value.type === 'URL') return memberOfAddress(value, key) ?? KNOWN;
    if (value.source !== undefined) {
      const replaced = this.#path.replaced.get(`${value.source.id}.${key}`);
      return replaced ?? memberOfInput(value.source, key, this.#listeners.typeOf) ?? KNOWN;
    }
    if (value.module !== undefined) return this.#binding(value.module.exported(key), key);
    if (value.meaning !== undefined) return { texts: KNOWN.texts, meaning: `${value.meaning}.${key}` };
    if (value.members !== undefined && value.items === undefined && value.of === undefined) return ABSENT;
    if (key === 'length' || /^\d+$/.test(key))
      return key === 'length' ? { ...KNOWN, keys: value.keys } : { ...itemOf(value), keys: value.keys };
    return { texts: value.items === undefined ? value.texts : itemOf(value).texts, keys: value.keys };
  }

  /** Returns a method or static member of a class, bound to its object. */
  #method(value: Value, key: string): Value | undefined {
    for (let of = value.of; of !== undefined; of = this.#baseOf(of)) {
      const found = of.node.members.find(
        (member): member is Entry =>
          member.type === 'entry' && member.key === key && member.isStatic !== (value.isInstance === true),
      );
      if (found?.value === undefined) continue;
      const scope = new Scope(of.scope, value);
      if (found.value.type === 'function')
        return { texts: KNOWN.texts, fn: { fn: found.value, module: of.module, scope, self: value } };
      return this.#in(of, scope, () => this.#value(found.value!)); // found.value is defined: see above
    }
    return undefined;
  }

  #in<T>({ module }: ClassValue, scope: Scope, work: () => T): T {
    const before = [this.#module, this.#scope] as const;
    [this.#module, this.#scope] = [module, scope];
    const result = work();
    [this.#module, this.#scope] = before;
    return result;
  }

  #baseOf(of: ClassValue): ClassValue | undefined {
    const { base } = of.node;
    return base === undefined ? undefined : this.#in(of, of.scope, () => this.#value(base)).of;
  }

  #instance(of: ClassValue, args: readonly Value[], call: Call | undefined): Value {
    const self: Value = { texts: KNOWN.texts, members: new Map(), of, isInstance: true };
    for (let at: ClassValue | undefined = of; at !== undefined; at = this.#baseOf(at)) {
      const { node } = at;
      this.#in(at, new Scope(at.scope, self), () => this.#fields(node.members, self));
    }
    const constructor = this.#method(self, 'constructor');
    if (constructor?.fn !== undefined) this.#invoke(constructor.fn, args, call);
    return self;
  }

  #fields(members: readonly (Entry | Block)[], self: Value): void {
    for (const member of members)
      if (
        member.type === 'entry' &&
        !member.isStatic &&
        member.key !== undefined &&
        member.value?.type !== 'function'
      ) {
        if (self.members?.has(member.key) === false)
          self.members.set(member.key, member.value === undefined ? KNOWN : this.#value(member.value));
      }
  }

  #assignment(node: Assign): Value {
    const { operator, target } = node;
    const right = this.#value(node.value);
    const value =
      operator === '='
        ? right
        : operator === '+='
          ? values.joined([this.#value(target), right])
          : /^(?:\?\?|\|\||&&)=$/.test(operator)
            ? values.oneOf([this.#value(target), right])
            : KNOWN;
    const given = values.givenOf(right);
    if (given !== undefined) this.#listeners.onAssign({ assign: node, module: this.#module, value: given });
    this.#assign(target, value);
    return value;
  }

  #unary({ operator, value }: Extract<Node, { type: 'unary' }>): Value {
    const inner = value === undefined ? KNOWN : this.#value(value);
    if (operator === 'yield') this.#return({ texts: inner.texts, items: inner });
    return operator === '!' ? values.negation(inner) : operator === 'void' ? ABSENT : KNOWN;
  }

  #binary({ operator, left, right }: Extract<Node, { type: 'binary' }>): Value {
    const first = this.#value(left);
    if (operator === '&&' || operator === '||' || operator === '??')
      return this.#logical(operator, first, right);
    const second = this.#value(right);
    switch (operator) {
      case '+':
        return values.joined([first, second]);
      case '===':
      case '==':
        return equality(first, second);
      case '!==':
      case '!=':
        return values.negation(equality(first, second));
      case 'in':
        return among(first);
      default:
        return first.keys === undefined
          ? KNOWN
          : { ...KNOWN, keys: operator === '>' ? first.keys : undefined };
    }
  }

  #logical(operator: '&&' | '||' | '??', first: Value, right: Node): Value {
    const facts = operator === '??' ? NO_FACTS : values.factsIf(first, operator === '&&');
    const { path, result } = this.#branch(facts, () => this.#value(right));
    this.#path.join([path, new Path(this.#path)]);
    const [yes, no] = [true, false].map(
      (isTrue) => [values.factsIf(first, isTrue), values.factsIf(result, isTrue)] as const,
    );
    if (operator === '&&')
      return { ...result, yes: allFacts(...yes!), no: sharedFacts(...no!), keys: undefined };
    return { ...values.oneOf([first, result]), yes: sharedFacts(...yes!), no: allFacts(...no!) };
  }

  #choice({ test, yes, no }: Extract<Node, { type: 'choice' }>): Value {
    const value = this.#value(test);
    const branches = [
      this.#branch(values.factsIf(value, true), () => this.#value(yes)),
      this.#branch(values.factsIf(value, false), () => this.#value(no)),
    ];
    this.#path.continueAfter(branches.map(({ path }) => path));
    return values.oneOf(branches.map(({ result }) => result));
  }

  #list({ items }: Extract<Node, { type: 'list' }>): Value {
    const members = new Map<string, Value>();
    let rest: Value | undefined;
    items.forEach((item, index) => {
      const value = this.#value(item);
      if (item.type === 'spread')
        rest = rest === undefined ? itemOf(value) : values.oneOf([rest, itemOf(value)]);
      else members.set(String(index), value);
    });
    return {
      texts: values.textsOf([...members.values(), ...(rest === undefined ? [] : [rest])]),
      members,
      items: rest,
    };
  }

  #object({ entries }: Extract<Node, { type: 'object' }>): Value {
    const members = new Map<string, Value>();
    let spread: Value | undefined;
    for (const entry of entries) {
      if (entry.type === 'spread') {
        const value = this.#value(entry.value);
        for (const [key, member] of value.members ?? []) members.set(key, member);
        if (value.source !== undefined || value.items !== undefined) spread = value;
      } else if (entry.value !== undefined) {
        const key = entry.key ?? constantIn(entry.computed && this.#value(entry.computed));
        if (key !== undefined) members.set(key, this.#value(entry.value));
        else this.#value(entry.value);
      }
    }
    return { texts: KNOWN.texts, members, source: spread?.source, items: spread?.items };
  }

  // -- calls --

  #call(call: Call): Value {
    const { callee } = call;
    const receiver = callee.type === 'member' ? this.#value(callee.object) : undefined;
    const called =
      callee.type === 'member' && callee.property !== undefined
        ? this.#member(receiver!, callee.property)
        : this.#value(callee);
    const args = call.args.flatMap((arg) => {
      const value = this.#value(arg);
      return arg.type === 'spread' && value.members !== undefined ? [...value.members.values()] : [value];
    });
    const method = callee.type === 'member' ? (callee.property ?? '') : '';
    const meaning = called.meaning ?? (receiver?.type === undefined ? '' : `${receiver.type}.${method}`);
    for (const arg of args) this.#register(arg, method, args, receiver);
    this.#visit(call, meaning, receiver);
    return this.#resultOf(call, { called, receiver, args, method });
  }

  #visit(call: Call, meaning: string, receiver: Value | undefined): void {
    const [seen, module, stack] = [this.#seen, this.#module, [...this.#stack]];
    this.#listeners.onCall({
      call,
      module,
      meaning,
      receiver,
      value: (node) => (node === undefined ? undefined : seen.get(node)),
      given: (node) => (node === undefined ? undefined : values.givenOf(seen.get(node))),
      written: (node) => writtenAt(node, module, stack),
    });
  }

  /** Queues handlers among the arguments of a call, such as those of a route, and middleware objects. */
  #register(arg: Value, method: string, args: readonly Value[], receiver: Value | undefined): void {
    const spec = args.find((each) => each.members !== undefined && each.of === undefined);
    const deps = receiver?.members?.get('deps');
    if (arg.fn !== undefined) this.#queue(arg.fn, spec, deps);
    for (const item of arg.members?.values() ?? [])
      if (item.fn !== undefined) this.#queue(item.fn, spec, deps);
    const handle = method === 'use' && arg.of !== undefined ? this.#method(arg, 'handle')?.fn : undefined;
    if (handle === undefined || this.#done.has(handle.fn)) return;
    this.#done.add(handle.fn);
    this.#pending.push({ closure: handle, args: [requestValue(), KNOWN] });
  }

  #resultOf(
    call: Call,
    {
      called,
      receiver,
      args,
      method,
    }: { called: Value; receiver: Value | undefined; args: readonly Value[]; method: string },
  ): Value {
    const [first = KNOWN] = args;
    const { meaning = '' } = called;
    if (called.of !== undefined && call.isNew) return this.#instance(called.of, args, call);
    if (called.fn !== undefined) return this.#invoke(called.fn, args, call);
    if (meaning === 'svc.Depends') return { texts: KNOWN.texts, gives: this.#provided(first) };
    if (meaning === 'svc.provide') return { ...(args[1] ?? KNOWN), spec: first };
    if (meaning === 'util.promisify') return first;
    if (/^(?:require|import)$/.test(meaning)) return this.#imported(constantIn(first));
    if (call.isNew && /^(?:Set|Map|WeakMap|Array)$/.test(meaning)) return { ...KNOWN, items: itemOf(first) };
    const run = (callback: Value, values_: readonly Value[]): Value =>
      callback.fn === undefined ? KNOWN : this.#invoke(callback.fn, values_, undefined);
    const operation = { args, receiver: receiver ?? KNOWN, at: call.start, run };
    const effect = FUNCTIONS[meaning];
    if (effect !== undefined) return effect(operation);
    const read =
      receiver?.source === undefined
        ? undefined
        : readInput(receiver.source, method, constantIn(first), this.#listeners.typeOf);
    if (read !== undefined) return read;
    if (receiver?.type === 'svc.BackgroundTasks' && method === 'add') return run(first, args.slice(1));
    if (receiver !== undefined && Object.hasOwn(METHODS, method)) return METHODS[method]!(operation);
    return this.#resultOfUnknown(called, receiver, args, method, run);
  }

  /** Returns the module that `require()` or `import()` loads. */
  #imported(from: string | undefined): Value {
    const module = from === undefined ? undefined : this.#module.resolved.get(from);
    if (module === undefined) return from === undefined ? KNOWN : { texts: KNOWN.texts, meaning: from.replace(/^node:/, '') };
    this.#scopeOf(module);
    return { texts: KNOWN.texts, module };
  }

  #resultOfUnknown(
    { meaning }: Value,
    receiver: Value | undefined,
    args: readonly Value[],
    method: string,
    run: (callback: Value, args: readonly Value[]) => Value,
  ): Value {
    // a callback may receive the object itself, as the one of transaction() receives a session
    for (const arg of args)
      if (arg.fn !== undefined && !this.#handlers.isHandler(arg.fn.fn))
        run(arg, [receiver?.type === undefined ? KNOWN : { ...receiver }]);
    if (method === 'get' && receiver !== undefined)
      return { ...itemOf(receiver), keys: args.flatMap((arg) => values.idsIn(arg)) };
    const type = meaning ?? (receiver?.type === undefined ? undefined : `${receiver.type}.${method}`);
    const deps = /^svc\.(?:Router|Svc)$/.test(type ?? '') ? args[0]?.members : undefined;
    if (meaning !== undefined && isOfPackage(meaning)) {
      const part = args
        .map((arg) => values.clientIn({ texts: arg.texts }))
        .find((each) => each !== undefined);
      if (part !== undefined)
        return { ...values.textValue({ ...part, id: `${part.id} ${meaning}`, unknown: meaning }), type };
    }
    const keys = isBuiltIn(meaning) ? [] : args.flatMap((arg) => values.idsIn(arg));
    return { texts: KNOWN.texts, type, members: deps, ...(keys.length > 0 && { keys }) };
  }
}

/** Whether a name is imported from a package that is neither of Node.js nor this one. */
function isOfPackage(meaning: string): boolean {
  const [name] = meaning.split('.') as [string];
  return !isBuiltIn(meaning) && !/^(?:svc(?:[/.]|$)|[./#])/.test(meaning) && name !== '';
}

function isBuiltIn(meaning = ''): boolean {
  const [name] = meaning.split('.') as [string];
  return name in globalThis || process.getBuiltinModule(name) !== undefined;
}

/** Returns a comparison of two values: where it is true, a part of a client equals a text of the program. */
function equality(left: Value, right: Value): Value {
  for (const [one, other] of [
    [left, right],
    [right, left],
  ] as const) {
    const constant = constantIn(other);
    if (other === ABSENT || constant === '' || constant === '0') {
      const keys = new Map((one.keys ?? []).map((id) => [id, { isKnown: true }]));
      return values.judged(NO_FACTS, keys);
    }
    if (constant === 'true' || constant === 'false') return constant === 'true' ? one : values.negation(one);
    if (one.texts.some(hasClient) && !other.texts.some(hasClient)) return among(one);
  }
  return KNOWN;
}

function listOf(items: readonly Value[]): Value {
  return {
    texts: values.textsOf(items),
    members: new Map(items.map((item, index) => [String(index), item])),
  };
}

function keyOf(value: Value): Value {
  return value.source === undefined ? KNOWN : { texts: itemOf(value).texts };
}

/** Returns an input of which some members are missing, so that it no longer counts as the whole input. */
function withoutWhole(value: Value): Value {
  return value.source?.whole === undefined
    ? value
    : { ...value, source: { ...value.source, whole: undefined } };
}

/** Returns the argument of a caller if a node is a parameter of a function around it. */
function writtenAt(node: Node, module: SourceModule, stack: readonly Frame[]): { node: Node; module: SourceModule } {
  if (node.type !== 'name') return { node, module };
  const at = stack.findLastIndex(
    ({ fn }) => isWithin(node, fn) && fn.params.some((param) => param.type === 'name' && param.name === node.name),
  );
  const frame = stack[at];
  const index = frame?.fn.params.findIndex((param) => param.type === 'name' && param.name === node.name) ?? -1;
  const arg = frame?.call?.args[index];
  return frame === undefined || arg === undefined || arg.type === 'spread'
    ? { node, module }
    : writtenAt(arg, frame.module, stack.slice(0, at));
}

const functions = new WeakMap<Fn, number>();
let count = 0;

/** Returns a text that is equal for values with the same contents. */
function signatureOf(value: Value, depth = 0): string {
  if (depth > 3) return '';
  const texts = value.texts.map((text) =>
    text
      .map((part) =>
        part.kind === 'client'
          ? JSON.stringify([
              part.id,
              String(part.may),
              part.lacks,
              part.begins,
              part.unknown,
              part.isInside,
              part.hasKnownHost,
            ])
          : part.kind === 'own'
            ? '~'
            : JSON.stringify(part.text),
      )
      .join('+'),
  );
  const members = [...(value.members ?? [])].map(
    ([key, member]) => `${key}:${signatureOf(member, depth + 1)}`,
  );
  const items = value.items === undefined ? '' : signatureOf(value.items, depth + 1);
  if (value.fn !== undefined && !functions.has(value.fn.fn)) functions.set(value.fn.fn, ++count);
  const fn = value.fn === undefined ? '' : `f${functions.get(value.fn.fn)}`;
  return `${texts.join('|')}{${members.join(',')}}[${items}]${fn}${value.type ?? ''}${value.meaning ?? ''}${value.source?.id ?? ''}`;
}
