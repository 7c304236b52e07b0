/**
 * Follows request values through functions, up to the calls that receive them. A value counts as validated
 * once code compares or tests it. Results of unknown functions count as safe, to avoid false findings.
 */
import { boundIn } from '../reader/modules.ts';
import {
  ASSERTING,
  CLEANING,
  FAILS_WITHOUT,
  LOOKS_UP,
  HARMLESS_HEADERS,
  KEEPING,
  PASSING,
  PASSING_FUNCTIONS,
  QUERIES,
  READERS,
  VALIDATES,
  isWeakTest,
  WEAK_MEMBERS,
  memberOf,
} from './request-parts.ts';
import { calledName, childrenOf, pathOf, walk } from '../reader/nodes.ts';
import {
  appended,
  assigns,
  conditionOf,
  endsFunction,
  isDenial,
  first,
  givenBy,
  isBehindSchema,
  isOneCharacter,
  isPresence,
  isUsed,
  isZero,
  leadOf,
  literalTextOf,
  Names,
  outsideOf,
  passedBy,
  requestByName,
  OWN,
  returnsOf,
} from './values.ts';
import type { Project, SourceModule } from '../reader/modules.ts';
import type { Assign, Call, Fn, Node } from '../reader/nodes.ts';
import type { Handlers, Role } from './routes.ts';
import type { Given } from './values.ts';

/** A call in the analysed code. `given` returns the request value that an argument contains. */
export interface Visit {
  readonly call: Call;
  readonly module: SourceModule;
  given(node: Node | undefined): Given | undefined;
}

const MAX_DEPTH = 2;
/** An assignment of a request value to a variable. */
export interface Kept {
  readonly assign: Assign;
  readonly module: SourceModule;
  readonly value: Given;
}

/** Passes every call in a project to `visit`, and every assignment of a request value to `onKept`. */
export class Flow {
  readonly #handlers: Handlers;
  readonly #visit: (visit: Visit) => void;
  readonly #onKept: (kept: Kept) => void;
  #module!: SourceModule; // run() sets `#module` before other methods read it
  readonly #stack: Fn[] = [];
  #returned: Given | undefined;

  constructor(handlers: Handlers, visit: (visit: Visit) => void, onKept: (kept: Kept) => void) {
    this.#handlers = handlers;
    this.#visit = visit;
    this.#onKept = onKept;
  }

  run({ modules }: Project): void {
    for (const module of modules) {
      this.#module = module;
      this.#statements(module.body.body, new Names());
    }
  }

  /** Analyses a function. `given` contains the known values of its parameters. */
  #enter(
    fn: Fn,
    around: Names,
    roles: readonly (Role | undefined)[],
    given: readonly (Given | undefined)[] = [],
    keys: readonly string[] = [],
  ): void {
    const names = new Names(around);
    const returned = this.#returned;
    fn.params.forEach((param, index) => {
      const role = roles[index];
      const [{ checked }, { source }] = [this.#handlers, this.#module];
      const own = role === undefined ? requestByName(param, fn, source, checked) : givenBy(role, checked);
      this.#bind(
        param,
        given[index] ?? (isBehindSchema(fn) || role?.route?.isValidated === true ? undefined : own),
        names,
      );
    });
    // in `find(id, (error, row) => …)`, a test such as `if (!row)` also validates `id`
    for (const { local } of keys.length > 0 ? fn.params.flatMap((param) => boundIn(param)) : [])
      names.setKeys(local, keys);
    this.#body(fn, names);
    this.#returned = returned;
  }

  #body(fn: Fn, names: Names): void {
    const [only] = fn.body;
    if (fn.isExpression && only !== undefined) {
      this.#scan(only, names);
      this.#returned ??= this.#value(only, names);
    } else this.#statements(fn.body, names);
  }

  /** Analyses a call of a project function. Returns the request data that its result contains, if any. */
  #call(fn: Fn, args: readonly (Given | undefined)[], hasSpread: boolean): Given | undefined {
    if (
      this.#stack.length >= MAX_DEPTH ||
      this.#stack.includes(fn) ||
      hasSpread ||
      args.every((arg) => arg === undefined)
    )
      return undefined;
    const [module, returned] = [this.#module, this.#returned];
    this.#module = this.#handlers.homeOf(fn);
    this.#returned = undefined;
    this.#stack.push(fn);
    const names = new Names();
    fn.params.forEach((param, index) => this.#bind(param, args[index], names));
    this.#body(fn, names);
    const result: Given | undefined = this.#returned;
    this.#stack.pop();
    this.#module = module;
    this.#returned = returned;
    return result;
  }

  #bind(target: Node, value: Given | undefined, names: Names): void {
    for (const { local, path } of boundIn(target)) {
      const given = path.reduce<Given | undefined>((at, key) => at && memberOf(at, key), value);
      names.set(local, given);
    }
  }

  #statements(body: readonly Node[], names: Names): void {
    for (const statement of body) this.#statement(statement, names);
  }

  #statement(node: Node, names: Names): void {
    switch (node.type) {
      case 'declare':
        for (const { target, value } of node.items) {
          if (value !== undefined) this.#scan(value, names);
          const given = value === undefined ? undefined : this.#value(value, names);
          this.#bind(target, given, names);
          if (value !== undefined && given === undefined) this.#lookedUp(target, value, names);
        }
        return;
      case 'leave':
        if (node.value === undefined) return;
        this.#scan(node.value, names);
        if (node.how === 'return') this.#returned ??= this.#value(node.value, names);
        return;
      case 'if':
        return this.#if(node, names);
      case 'loop':
        return this.#loop(node, names);
      case 'block':
        return this.#statements(node.body, names);
      case 'try':
        for (const part of [node.block, node.handler, node.finalizer])
          if (part !== undefined) this.#statement(part, names);
        return;
      case 'switch': {
        this.#scan(node.value, names);
        const paths = [...this.#pathsOf(node.value, names), ...names.keysOf(node.value)];
        for (const { test, body } of node.cases)
          names.during(test === undefined ? [] : paths, () => this.#statements(body, names));
        return;
      }
      case 'export':
        if (node.declared !== undefined) this.#statement(node.declared, names);
        return;
      case 'statement':
        this.#scan(node.value, names);
        this.#asserted(node.value, names);
        return this.#narrowed(node.value, names);
      default:
        this.#scan(node, names);
    }
  }

  #if({ test, yes, no }: Extract<Node, { type: 'if' }>, names: Names): void {
    this.#scan(test, names);
    const judged = this.#judgedIn(test, names);
    names.during(judged.yes, () => this.#statement(yes, names));
    if (no !== undefined) names.during(judged.no, () => this.#statement(no, names));
    const replaced = [...judged.yes, ...judged.no].filter((path) => assigns(yes, path));
    const known = [
      ...(endsFunction(yes) ? judged.no : []),
      ...(no !== undefined && endsFunction(no) ? judged.yes : []),
    ];
    for (const path of [...known, ...replaced]) names.check(path);
  }

  #loop({ kind, head, body }: Extract<Node, { type: 'loop' }>, names: Names): void {
    if (kind === 'of' || kind === 'in') {
      const [target, over] = head as [Node, Node]; // a for-of or for-in loop has two parts
      this.#scan(over, names);
      const value = this.#value(over, names);
      for (const each of target.type === 'declare' ? target.items.map((item) => item.target) : [target])
        this.#bind(each, value, names);
    } else for (const part of head) this.#statement(part, names);
    this.#statement(body, names);
  }

  /** Marks arguments as validated if the call throws for bad values, as `assertKnown(a)` does. */
  #asserted(node: Node, names: Names): void {
    const call = node.type === 'await' ? node.value : node;
    const name = call.type === 'call' ? (calledName(call) ?? '') : '';
    if (call.type !== 'call' || !(ASSERTING.test(name) || (call !== node && LOOKS_UP.test(name)))) return;
    for (const arg of call.args) for (const path of this.#pathsOf(arg, names)) names.check(path);
  }

  /** Remembers that a test of `user` also validates `params.id`, after `user = await find(params.id)`. */
  #lookedUp(target: Node, value: Node, names: Names): void {
    const call = value.type === 'await' ? value.value : value;
    if (call.type !== 'call') return;
    if (VALIDATES.test(calledName(call) ?? '')) return this.#asserted(call, names);
    const keys = this.#keysWithin(call, names);
    for (const { local } of boundIn(target)) names.setKeys(local, keys);
    if (FAILS_WITHOUT.test(calledName(call) ?? '')) for (const key of keys) names.check(key);
  }

  /** Remembers that a test of `query` also validates `params.id`, after `query.equalTo('id', params.id);`. */
  #narrowed(node: Node, names: Names): void {
    if (node.type !== 'call' || node.callee.type !== 'member' || node.callee.object.type !== 'name') return;
    const { name } = node.callee.object;
    const binding = this.#module.lookup(name, node);
    if (binding?.kind !== 'declared' || binding.node.type !== 'declarator') return;
    if (binding.node.value?.type !== 'call' || names.get(name) !== undefined) return;
    names.setKeys(name, this.#keysWithin(node, names));
  }

  /**
   * Returns the paths of the request values in a node, such as `params.id`. For `user` after `user = await
   * find(params.id)`, also returns `params.id`.
   */
  #keysWithin(node: Node, names: Names, isOfCalls = false): string[] {
    const found = new Set<string>();
    const add = (keys: readonly string[]): void => keys.forEach((key) => found.add(key));
    walk(node, (part) => {
      if (isOfCalls && part.type === 'call' && LOOKS_UP.test(calledName(part) ?? ''))
        part.args.forEach((arg) => add(this.#keysWithin(arg, names)));
      else if (part.type === 'name') add(names.keysOf(part));
      if (isOfCalls) return true;
      const value = part.type === 'name' || part.type === 'member' ? this.#value(part, names) : undefined;
      if (value?.kind === 'outside' && value.part === undefined)
        add([value.what, pathOf(part) ?? value.what]);
      return part.type !== 'function';
    });
    return [...found];
  }

  /**
   * Returns the paths of values that are valid where a condition is true (`yes`), and where it is false
   * (`no`). For the condition `id === '1'`, `yes` contains `id`. For `id !== '1'`, `no` contains `id`.
   */
  #judgedIn(test: Node, names: Names, isNegated = false): { yes: string[]; no: string[] } {
    const yes: string[] = [];
    const no: string[] = [];
    const add = (found: readonly string[], isIn: 'yes' | 'no' | 'both'): void => {
      if (isIn !== 'no') yes.push(...found);
      if (isIn !== 'yes') no.push(...found);
    };
    const visit = (node: Node, negated: boolean): void => {
      if (node.type === 'function') return;
      const keys = names.keysOf(node);
      if (keys.length > 0) add(keys, negated ? 'no' : 'yes');
      const condition = node.type === 'name' ? conditionOf(node, this.#module) : undefined;
      if (condition !== undefined) return visit(condition, negated);
      if (node.type === 'unary' && node.operator === '!' && node.value !== undefined)
        return visit(node.value, !negated);
      if (node.type === 'member' && WEAK_MEMBERS.test(node.property ?? '')) return;
      if (node.type === 'call') {
        if (isWeakTest(node)) return;
        if (/^(?:isArray|isNaN|Boolean|isInteger|get|getAll)$/.test(calledName(node) ?? '')) return;
        // `!isKnown(value)` is true for unknown values, so the value is valid only where the condition is
        // false
        const isIn = negated && !isDenial(node) ? 'no' : 'both';
        for (const arg of node.args) add(this.#pathsWithin(arg, names), isIn);
        if (node.callee.type === 'member') add(this.#pathsWithin(node.callee.object, names), isIn);
        return;
      }
      if (node.type === 'binary' && node.operator === 'in')
        return add(this.#pathsWithin(node.left, names), 'both');
      if (node.type === 'binary' && /^[!=]==?$/.test(node.operator)) {
        const sides = [node.left, node.right];
        const isEqual = node.operator.startsWith('=') !== negated;
        if (sides.some((side) => isPresence(side) || isZero(side)))
          add(
            sides.flatMap((side) => names.keysOf(side)),
            isEqual ? 'no' : 'yes',
          );
        if (sides.some(isPresence)) return;
        for (const side of sides) add(this.#pathsWithin(side, names), isEqual ? 'yes' : 'no');
        return;
      }
      for (const child of childrenOf(node)) visit(child, negated);
    };
    visit(test, isNegated);
    return { yes, no };
  }

  #pathsWithin(node: Node, names: Names): string[] {
    const found: string[] = [];
    walk(node, (part) => {
      if (part.type === 'member' && WEAK_MEMBERS.test(part.property ?? '')) return false;
      found.push(...this.#pathsOf(part, names), ...names.keysOf(part));
      return part.type !== 'function';
    });
    return found;
  }

  /** Returns the paths that a test of this expression validates. For `url.host`: `url.host` and `url`. */
  #pathsOf(node: Node, names: Names): string[] {
    if (node.type !== 'name' && node.type !== 'member' && node.type !== 'call') return [];
    const path = pathOf(node);
    const object = node.type === 'member' ? this.#value(node.object, names) : undefined;
    const value =
      this.#value(node, names) ??
      (object?.kind === 'outside' && object.part === undefined ? object : undefined);
    if (value?.kind !== 'outside') return [];
    const beginning =
      path?.includes('.') === true && object?.part === undefined && object?.kind === 'outside'
        ? path.slice(0, path.lastIndexOf('.'))
        : undefined;
    return [path, beginning, value.part === undefined ? value.what : undefined].filter(
      (each) => each !== undefined,
    );
  }

  /** Visits every call in an expression, in the order in which the calls run. */
  #scan(node: Node, names: Names): void {
    switch (node.type) {
      case 'function':
        return this.#enter(node, names, this.#handlers.rolesOf(node));
      case 'call':
        return this.#scanCall(node, names);
      case 'assign': {
        this.#scan(node.value, names);
        const path = pathOf(node.target);
        const value = this.#value(node.value, names);
        if (value?.kind === 'outside') this.#onKept({ assign: node, module: this.#module, value });
        if (path === undefined) this.#bind(node.target, value, names);
        else if (node.operator === '=' || value !== undefined)
          names.set(path, node.operator === '+=' ? appended(names.get(path), value!) : value);
        // `body.name` counts as validated after `body.name = clean(body.name)`
        if (path?.includes('.') === true && value === undefined && node.operator === '=') names.check(path);
        return;
      }
      case 'choice': {
        this.#scan(node.test, names);
        const judged = this.#judgedIn(node.test, names);
        names.during(judged.yes, () => this.#scan(node.yes, names));
        names.during(judged.no, () => this.#scan(node.no, names));
        return;
      }
      case 'binary': {
        this.#scan(node.left, names);
        const paths = this.#judgedIn(node.left, names)[node.operator === '||' ? 'no' : 'yes'];
        names.during(paths, () => this.#scan(node.right, names));
        return;
      }
      case 'class':
        for (const member of node.members) {
          if (member.type === 'block') this.#statements(member.body, names);
          else if (member.value !== undefined) this.#scan(member.value, new Names(names));
        }
        return;
      case 'declare':
      case 'leave':
      case 'if':
      case 'loop':
      case 'try':
      case 'switch':
      case 'block':
      case 'statement':
        return this.#statement(node, names);
      default:
        for (const child of childrenOf(node)) this.#scan(child, names);
    }
  }

  #scanCall(call: Call, names: Names): void {
    this.#scan(call.callee, names);
    const receiver = call.callee.type === 'member' ? this.#value(call.callee.object, names) : undefined;
    const isRoute = call.args.some((arg) => arg.type === 'function' && this.#handlers.isHandler(arg));
    const keys = QUERIES.test(calledName(call) ?? '') ? this.#keysWithin(call, names) : [];
    const isThen = call.callee.type === 'member' && call.callee.property === 'then';
    names.during(isThen ? this.#keysWithin(call.callee, names, true) : [], () => {
      for (const arg of call.args) {
        if (arg.type !== 'function') this.#scan(arg, names);
        else {
          const element =
            !isRoute && receiver?.kind === 'outside' ? { ...receiver, part: undefined } : undefined;
          this.#enter(arg, names, this.#handlers.rolesOf(arg), [element], isRoute ? [] : keys);
        }
      }
    });
    if (call.callee.type === 'member' && KEEPING.test(call.callee.property ?? '')) {
      const kept = call.args.map((arg) => this.#value(arg, names)).find((value) => value?.kind === 'outside');
      const path = pathOf(call.callee.object);
      if (kept !== undefined && path !== undefined && names.get(path) === undefined) names.set(path, kept);
    }
    this.#visit({
      call,
      module: this.#module,
      given: (node) => (node === undefined ? undefined : this.#outside(node, names)),
    });
    // #value() also analyses the called function. A call whose result is used is analysed with the expression
    // around it.
    if (!isUsed(call)) this.#value(call, names);
  }

  #outside(node: Node, names: Names): Given | undefined {
    const value = this.#value(node, names);
    return value?.kind === 'outside' ? value : undefined;
  }

  /** Returns the request value that an expression contains, unless code has validated the value. */
  #value(node: Node, names: Names): Given | undefined {
    const path = node.type === 'await' ? undefined : pathOf(node);
    if (path !== undefined && names.isChecked(path)) return undefined;
    const value = this.#uncheckedValue(node, path, names);
    return value?.kind === 'outside' && value.part === undefined && names.isChecked(value.what)
      ? undefined
      : value;
  }

  #uncheckedValue(node: Node, path: string | undefined, names: Names): Given | undefined {
    switch (node.type) {
      case 'name':
        return names.get(node.name);
      case 'member': {
        const known = path === undefined ? undefined : names.get(path);
        if (known !== undefined) return known;
        const object = this.#value(node.object, names);
        if (object === undefined) return undefined;
        const property = node.property ?? (node.index?.type === 'text' ? node.index.value : undefined);
        return property === undefined
          ? object.kind === 'outside'
            ? { ...object, part: undefined }
            : undefined
          : memberOf(object, property);
      }
      case 'call':
        return this.#valueOfCall(node, names);
      case 'await':
      case 'spread':
      case 'assign':
        return this.#value(node.value, names);
      case 'template':
        return node.tag === undefined || pathOf(node.tag) === 'String.raw'
          ? this.#template(node, names)
          : undefined;
      case 'binary':
        return this.#binary(node, names);
      case 'choice': {
        let value: Given | undefined;
        const judged = this.#judgedIn(node.test, names);
        names.during(judged.yes, () => {
          value = this.#value(node.yes, names);
        });
        names.during(judged.no, () => {
          value ??= this.#value(node.no, names);
        });
        return value;
      }
      case 'sequence':
        return node.items.length === 0 ? undefined : this.#value(node.items.at(-1)!, names);
      case 'list':
        return first(node.items, (item) => this.#outside(item, names));
      case 'object':
        return (
          first(node.entries, (entry) => (entry.type === 'spread' ? this.#value(entry, names) : undefined)) ??
          this.#members(node, names)
        );
      default:
        return undefined;
    }
  }

  /** Returns the members of an object that contain request values: `text` of `{ db, text: query.q }`. */
  #members({ entries }: Extract<Node, { type: 'object' }>, names: Names): Given | undefined {
    const members = new Map<string, Given>();
    for (const entry of entries) {
      if (entry.type !== 'entry' || entry.key === undefined || entry.value === undefined) continue;
      const value = this.#value(entry.value, names);
      if (value !== undefined) members.set(entry.key, value);
    }
    return members.size === 0
      ? undefined
      : { kind: 'members', what: 'an object', members, lead: '', text: '' };
  }

  #valueOfCall(call: Call, names: Names): Given | undefined {
    const { callee, args } = call;
    const path = pathOf(callee);
    if (CLEANING.test(calledName(call) ?? '')) return undefined;
    if (callee.type === 'member' && callee.property !== undefined) {
      const receiver = this.#value(callee.object, names);
      if (receiver?.kind === 'request') {
        if (!READERS.test(callee.property)) return undefined;
        const name = args[0]?.type === 'text' ? `.${args[0].value}` : '';
        if (/^(?:get|header)$/.test(callee.property) && HARMLESS_HEADERS.test(name.slice(1).toLowerCase()))
          return undefined;
        const isWhole = /^(?:json|form)$/.test(callee.property);
        return {
          ...receiver,
          kind: 'outside',
          what: isWhole ? 'body' : `${callee.property}${name}`,
          part: isWhole ? 'body' : undefined,
        };
      }
      if (receiver?.kind === 'outside') {
        if (!PASSING.test(callee.property) || isOneCharacter(call)) return undefined;
        const [arg] = args;
        if (/^(?:get|getAll)$/.test(callee.property) && arg?.type === 'text')
          return memberOf(receiver, arg.value);
        if (/^(?:map|flatMap)$/.test(callee.property) && arg?.type === 'function')
          return this.#mapped(arg, receiver, names);
        return { ...receiver, part: undefined };
      }
    }
    if (path !== undefined && PASSING_FUNCTIONS.test(path)) {
      // `new URL('/notes/' + id, base)` has the host of `base`, so `id` cannot choose the host
      const [relative] = path === 'URL' && args.length > 1 ? args : [];
      if (relative !== undefined && /^\.{0,2}\/?[\w-]/.test(leadOf(relative))) return undefined;
      const values = args.map((arg) => outsideOf(this.#value(arg, names)));
      const texts = args.map((arg, at) => values[at]?.text ?? literalTextOf(arg, this.#module));
      return passedBy(path, values, texts);
    }
    const fn = this.#handlers.resolve(callee, this.#module);
    if (fn === undefined || fn.isGenerator) return undefined;
    return this.#call(
      fn,
      args.map((arg) => this.#value(arg, names)),
      args.some(({ type }) => type === 'spread'),
    );
  }

  /** Returns the request value in the list that map() or flatMap() creates with a callback. */
  #mapped(fn: Fn, list: Given, around: Names): Given | undefined {
    const names = new Names(around);
    const [param] = fn.params;
    if (param !== undefined) this.#bind(param, { ...list, part: undefined }, names);
    const results = fn.isExpression ? fn.body : returnsOf(fn);
    return first(results, (result) => this.#value(result, names));
  }

  #template(node: Extract<Node, { type: 'template' }>, names: Names): Given | undefined {
    const values = node.values.map((value) => this.#value(value, names));
    const index = values.findIndex((value) => value?.kind === 'outside');
    if (index === -1) return undefined;
    const known = (at: number): string => values[at]?.text ?? literalTextOf(node.values[at], this.#module);
    const text = node.texts.map((part, at) => (at === 0 ? part : `${known(at - 1)} ${part}`)).join(' ');
    const before = node.texts.slice(0, index + 1).join(OWN);
    const value = values[index]!;
    if (before !== '' && value.isRooted === true) return undefined;
    return { ...value, part: undefined, lead: before + value.lead, text };
  }

  #binary({ operator, left, right }: Extract<Node, { type: 'binary' }>, names: Names): Given | undefined {
    if (/^(?:&&|\|\||\?\?)$/.test(operator)) {
      let value = operator === '&&' ? undefined : this.#value(left, names);
      const judged = this.#judgedIn(left, names)[operator === '&&' ? 'yes' : 'no'];
      names.during(operator === '??' ? [] : judged, () => (value ??= this.#value(right, names)));
      return value;
    }
    if (operator !== '+') return undefined;
    const [before, after] = [this.#outside(left, names), this.#outside(right, names)];
    const given = before ?? after;
    if (given === undefined || (before === undefined && given.isRooted === true)) return undefined;
    const text = `${before?.text ?? literalTextOf(left, this.#module)} ${after?.text ?? literalTextOf(right, this.#module)}`;
    const lead = before?.lead ?? leadOf(left);
    return { ...given, part: undefined, lead, text };
  }
}
