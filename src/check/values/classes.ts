/** Objects of classes of the project, and values of the types that TypeScript declares. */
import { typeAfter, typeNamed } from './annotations.ts';
import { requestValue } from './inputs.ts';
import { isOfRequest } from './ours.ts';
import { constantIn } from './tests.ts';
import * as values from './value.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Block, Call, ClassNode, Entry, Node } from '../reader/nodes.ts';
import type { WrittenType } from './annotations.ts';
import type { ClassValue, Closure, Value } from './value.ts';

const { KNOWN } = values;
/** Types within types are followed to this depth. */
const MAX_TYPES = 4;

export abstract class Classes {
  protected readonly classes: Map<ClassNode, ClassValue> = new Map();
  protected scope: values.Scope = new values.Scope();
  protected module!: SourceModule; // run() of the interpreter sets `module` before other methods read it

  protected abstract value(node: Node): Value;
  protected abstract invoke(closure: Closure, args: readonly Value[], call: Call | undefined): Value;
  /** Returns the variables of a module. Runs its statements first. */
  protected abstract scopeOf(module: SourceModule): values.Scope;

  /** Returns a method or static member of a class, bound to its object. */
  protected method(value: Value, key: string): Value | undefined {
    for (let of = value.of; of !== undefined; of = this.#baseOf(of)) {
      const found = of.node.members.find(
        (member): member is Entry =>
          member.type === 'entry' && member.key === key && member.isStatic !== (value.isInstance === true),
      );
      if (found?.value === undefined) continue;
      const scope = new values.Scope(of.scope, value);
      if (found.value.type === 'function') {
        const closure = { fn: found.value, module: of.module, scope, self: value };
        const isGetter = /^(?:static\s+)?get\s+[^\s(=]/.test(of.module.source.slice(found.start, found.end));
        return isGetter ? this.invoke(closure, [], undefined) : { texts: KNOWN.texts, fn: closure };
      }
      return this.within(of, scope, () => this.value(found.value!)); // found.value is defined: see above
    }
    return undefined;
  }

  protected within<T>({ module }: ClassValue, scope: values.Scope, work: () => T): T {
    const before = [this.module, this.scope] as const;
    [this.module, this.scope] = [module, scope];
    const result = work();
    [this.module, this.scope] = before;
    return result;
  }

  /** Returns a class and the classes of the project from which it inherits, the nearest first. */
  protected lineOf(of: ClassValue): readonly [ClassValue, ...ClassValue[]] {
    const base = this.#baseOf(of);
    return base === undefined ? [of] : [of, ...this.lineOf(base)];
  }

  #baseOf(of: ClassValue): ClassValue | undefined {
    const { base } = of.node;
    return base === undefined ? undefined : this.within(of, of.scope, () => this.value(base)).of;
  }

  /** Returns the class of a package that a class of the project extends. */
  #packageOf(of: ClassValue): string | undefined {
    const { base } = of.node;
    const value = base === undefined ? undefined : this.within(of, of.scope, () => this.value(base));
    return value?.of === undefined ? value?.meaning : this.#packageOf(value.of);
  }

  protected instance(of: ClassValue, args: readonly Value[], call: Call | undefined): Value {
    const type = this.#packageOf(of);
    const self: Value = {
      texts: KNOWN.texts,
      members: new Map(),
      of,
      isInstance: true,
      ...(type && { type }),
    };
    for (let at: ClassValue | undefined = of; at !== undefined; at = this.#baseOf(at)) {
      const { node } = at;
      this.within(at, new values.Scope(at.scope, self), () => this.#fields(node.members, self));
    }
    const constructor = this.method(self, 'constructor');
    if (constructor?.fn !== undefined) this.invoke(constructor.fn, args, call);
    if (call !== undefined) this.#instances.set(of, self);
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
        if (self.members?.has(member.key) === false) self.members.set(member.key, this.#field(member));
      }
  }

  #field({ start, key = '', value }: Entry): Value {
    if (value !== undefined) return this.value(value);
    // the name of a field without a value ends the text before its type
    const end =
      start +
      (/^(?:static\s+|readonly\s+|declare\s+)*/.exec(this.module.source.slice(start))?.[0].length ?? 0) +
      key.length;
    return this.typed(typeAfter({ end } as Entry, this.module), this.module) ?? KNOWN;
  }

  /** Returns a value of a written type; undefined if the type says nothing of the value. */
  protected typed(type: WrittenType | undefined, module: SourceModule, depth = 0): Value | undefined {
    if (type === undefined || depth > MAX_TYPES) return undefined;
    if (type.kind === 'list')
      return { texts: KNOWN.texts, items: this.typed(type.item, module, depth + 1) ?? { ...KNOWN } };
    if (type.kind === 'object') {
      const members = new Map<string, Value>();
      for (const [key, member] of type.members)
        members.set(key, this.typed(member, module, depth + 1) ?? KNOWN);
      return members.size === 0 ? undefined : { texts: KNOWN.texts, members };
    }
    const [first] = type.args;
    if (/^(?:Promise|Awaited|Readonly|Partial|Required)$/.test(type.name))
      return this.typed(first, module, depth + 1);
    if (/^(?:Readonly)?Array$/.test(type.name) && first !== undefined)
      return this.typed({ kind: 'list', item: first }, module, depth);
    return this.#ofTypeName(type.name, module, depth + 1);
  }

  #ofTypeName(name: string, module: SourceModule, depth: number): Value | undefined {
    const [root = '', member] = name.split('.');
    const imported = module.typeImport(root);
    if (imported !== undefined && imported.module === undefined) {
      const path = imported.imported === '*' ? member : imported.imported;
      const meaning = `${imported.from}.${path}`;
      return isOfRequest(meaning) ? requestValue() : { texts: KNOWN.texts, type: meaning };
    }
    const home = imported?.module ?? module;
    const own =
      imported === undefined ? name : imported.imported === '*' ? (member ?? '') : imported.imported;
    const binding = imported === undefined ? home.lookup(own, home.body) : home.exported(own);
    if (binding?.kind === 'declared' && binding.node.type === 'class') {
      this.scopeOf(binding.module);
      const of = this.classes.get(binding.node);
      return of && this.unknownInstance(of);
    }
    return this.typed(typeNamed(own, home), home, depth);
  }

  /** An instance of each class: one that a call made, or else one whose constructor got unknown arguments. */
  readonly #instances = new Map<ClassValue, Value>();

  /** Returns an instance that a call made, or else one whose constructor gets arguments of which only the types are known. */
  protected unknownInstance(of: ClassValue): Value {
    const known = this.#instances.get(of);
    if (known !== undefined) return known;
    this.#instances.set(of, { texts: KNOWN.texts, of, isInstance: true });
    const made = this.instance(of, [], undefined);
    this.#instances.set(of, made);
    return made;
  }
}

/** Returns the class that `pick()`, `omit()`, `partial()` or `extend()` of a schema makes; undefined for any other call. */
export function classMadeBy(
  { of, isInstance }: Value,
  method: string,
  args: readonly Value[],
): Value | undefined {
  if (of === undefined || isInstance === true || !/^(?:pick|omit|partial|extend)$/.test(method))
    return undefined;
  const { keeps } = of;
  const names = new Set(args.map(constantIn));
  const isNamed = (field: string): boolean => names.has(field) === (method === 'pick');
  const own = /^(?:pick|omit)$/.test(method) ? isNamed : undefined;
  const both = own && keeps && ((field: string): boolean => own(field) && keeps(field));
  return { texts: KNOWN.texts, of: { ...of, keeps: both ?? own ?? keeps } };
}
