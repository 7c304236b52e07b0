/**
 * Objects of known members: built by a constructor of their own, so that V8 gives all of them one hidden class.
 */

/** Makes an object from the values of its members, in their order. */
export type Builder = new (values: readonly unknown[]) => object;

/**
 * A constructor of objects with these members, in this order, by assignment: a fifth of what running initialisers costs
 * (test/bench/validate.ts). The first eight are written out: a place of its own for each member, rather than one place for
 * all, is five times as fast, because V8 learns by the place which member is set there. No name is one of the prototype's.
 */
export function builderOf(names: readonly string[], prototype: object): Builder {
  const count = names.length;
  const [name0, name1, name2, name3, name4, name5, name6, name7] = names as [string, string, string, string, string, string, string, string]; // as far as `count` goes
  function Instance(this: Record<string, unknown>, values: readonly unknown[]): void {
    if (count === 0) return;
    this[name0] = values[0];
    if (count === 1) return;
    this[name1] = values[1];
    if (count === 2) return;
    this[name2] = values[2];
    if (count === 3) return;
    this[name3] = values[3];
    if (count === 4) return;
    this[name4] = values[4];
    if (count === 5) return;
    this[name5] = values[5];
    if (count === 6) return;
    this[name6] = values[6];
    if (count === 7) return;
    this[name7] = values[7];
    for (let index = 8; index < count; index++) this[names[index]!] = values[index];
  }
  Instance.prototype = prototype;
  return Instance as unknown as Builder; // a function used as a constructor has no type of its own
}
