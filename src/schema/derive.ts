/**
 * Schema classes derived from others: `User.partial()`, `pick()`, `omit()`, `extend()`, `intersection(A, B)`.
 * The result is a class with a name for documents; `class UserPatch extends User.partial() {}` gives it
 * another name.
 *
 * Except for extend(), a derived class has only fields. Methods, getters, computed members and rules stay
 * with the class that declares them.
 */
import { FieldMarker, fieldFault } from './nodes.ts';
import { FieldType } from './types.ts';
import type { Declaration } from './nodes.ts';
import type { FieldSource, SchemaClass } from './types.ts';

type Declarations = ReadonlyMap<string, Declaration>;

/** Returns a class with these fields in addition to those of `base`. */
export function classOfFields(
  base: SchemaClass,
  name: string,
  fields: Declarations,
  field: (source: FieldSource, options: object | undefined) => unknown,
  extra?: unknown,
): SchemaClass {
  // the constructors of schema classes accept members
  const Base = base as unknown as new (data: never) => object;
  const Derived = class extends Base {
    constructor(data: never) {
      super(data);
      const members = this as Record<string, unknown>;
      for (const [member, { source, options }] of fields) members[member] = field(source, options);
    }
  };
  Object.defineProperty(Derived, 'name', { value: name, configurable: true });
  if (extra !== undefined)
    Object.defineProperty(Derived, 'extra', { value: extra, writable: true, configurable: true });
  return Derived as unknown as SchemaClass;
}

/**
 * Returns the fields as optional ones, without defaults, which would replace members that a client did not
 * send.
 */
export function partialOf(fields: Declarations): Declarations {
  return new Map(
    [...fields].map(([name, { source, options }]) => {
      const { default: _, optional: __, ...rest } = (options ?? {}) as Readonly<Record<string, unknown>>;
      return [name, { source: withoutDefault(source), options: { ...rest, optional: true } }] as const;
    }),
  );
}

/** Returns the type of a field that is declared by its default. */
function withoutDefault(source: FieldSource): FieldSource {
  switch (typeof source) {
    case 'string':
      return String;
    case 'boolean':
      return Boolean;
    case 'number':
      return new FieldType({ kind: Number.isInteger(source) ? 'int' : 'float' });
    default:
      return source;
  }
}

/** Returns the named fields, or all others. @throws SvcError `E_SCHEMA_FIELD` for a name that no field has */
export function chosenOf(
  owner: string,
  fields: Declarations,
  names: readonly string[],
  isKept: boolean,
): Declarations {
  for (const name of names)
    if (!fields.has(name))
      throw fieldFault(name, owner, `there is no such field: ${[...fields.keys()].join(', ')}`);
  return new Map([...fields].filter(([name]) => names.includes(name) === isKept));
}

/**
 * Returns the fields of a shape.
 * @throws SvcError `E_SCHEMA_FIELD` for a member that is not made by Field()
 */
export function shapeFields(owner: string, shape: object): Declarations {
  return new Map(
    Object.entries(shape).map(([name, marker]) => {
      if (!(marker instanceof FieldMarker)) throw fieldFault(name, owner, 'its value is not made by Field()');
      return [name, marker] as const;
    }),
  );
}

/**
 * Returns the fields of several classes together.
 *
 * @throws SvcError `E_SCHEMA_FIELD` for a name that two of them have
 */
export function joinedFields(owner: string, each: readonly Declarations[]): Declarations {
  const joined = new Map<string, Declaration>();
  for (const fields of each) {
    for (const [name, declaration] of fields) {
      if (joined.has(name)) throw fieldFault(name, owner, 'two of its schemas have a field of that name');
      joined.set(name, declaration);
    }
  }
  return joined;
}
