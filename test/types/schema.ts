/**
 * Types of schemas. Compiled by `npm run typecheck`, never run: `@ts-expect-error` marks what must not compile.
 */
import {
  any,
  bool,
  bytes,
  date,
  datetime,
  Field,
  file,
  float,
  int,
  intersection,
  lazy,
  list,
  literal,
  nullable,
  record,
  Schema,
  str,
  tuple,
  union,
  uuid,
} from '../../src/schema/schema.ts';
import type { Infer, Result, UploadFile, Wire } from '../../src/schema/schema.ts';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** Compiles only when both types are the same. */
function same<A, B>(..._proof: Same<A, B> extends true ? [] : ['these types differ', A, B]): void {}

class Address extends Schema {
  city = Field(str, { minLength: 1 });
  zip = Field(str, { optional: true });
}
class Cat extends Schema {
  kind = Field(literal('cat'));
  lives = Field(9, { ge: 0 });
}
class Dog extends Schema {
  kind = Field(literal('dog'));
  isGood = Field(true);
}
class Node extends Schema {
  value = Field(int);
  children: Node[] = Field(list(lazy(() => Node)), { default: () => [] });
  parent: Node | undefined = Field(
    lazy(() => Node),
    { optional: true },
  );
}
class User extends Schema {
  #visits = 0;
  name = Field(str, { minLength: 2, maxLength: 40, pattern: /^\S+$/ });
  email = Field(String, { email: true });
  age = Field(int, { ge: 0, le: 150 });
  score = Field(Number, { gt: 0, multipleOf: 0.5 });
  ratio = Field(float);
  active = Field(Boolean);
  on = Field(bool, { default: true });
  born = Field(Date);
  seen = Field(datetime, { default: () => new Date() });
  day = Field(date);
  id = Field(uuid, { readOnly: true });
  nick = Field('anon', { maxLength: 20 });
  page = Field(1, { ge: 1 });
  factor = Field(1.5);
  dry = Field(false);
  role = Field(literal('admin', 'user'), { default: 'user' });
  mixed = Field(literal('a', 1, true, null));
  tags = Field(list(str, { maxLength: 10 }), { default: () => [], maxLength: 5 });
  grid = Field(list(list(int)));
  home = Field(Address);
  homes = Field(list(Address));
  spare = Field(Address, { optional: true });
  note = Field(nullable(str), { maxLength: 3 });
  maybe = Field(nullable(int), { optional: true });
  pet = Field(union('kind', Cat, Dog));
  extra = Field(record(int, { ge: 0 }));
  blob = Field(bytes, { maxLength: 100 });
  photo = Field(file);
  anything = Field(any);
  secret = Field(str, { secret: true, alias: 'pass_word' });
  full = this.name + ' ' + this.nick;
  get domain() {
    return this.email.split('@')[1]!;
  }
  visit(): number {
    return ++this.#visits;
  }
}
class Admin extends User {
  level = Field(int, { default: 1 });
}
declare const user: User;
declare const admin: Admin;

// ── values of fields ──
same<User['name'], string>();
same<User['email'], string>();
same<User['age'], number>();
same<User['score'], number>();
same<User['ratio'], number>();
same<User['active'], boolean>();
same<User['on'], boolean>();
same<User['born'], Date>();
same<User['seen'], Date>();
same<User['day'], string>();
same<User['id'], string | undefined>();
same<User['nick'], string>();
same<User['page'], number>();
same<User['factor'], number>();
same<User['dry'], boolean>();
same<User['role'], 'admin' | 'user'>();
same<User['mixed'], 'a' | 1 | true | null>();
same<User['tags'], string[]>();
same<User['grid'], number[][]>();
same<User['home'], Address>();
same<User['homes'], Address[]>();
same<User['spare'], Address | undefined>();
same<User['note'], string | null>();
same<User['maybe'], number | null | undefined>();
same<User['pet'], Cat | Dog>();
same<User['extra'], Record<string, number>>();
same<User['blob'], Uint8Array>();
same<User['photo'], UploadFile>();
same<User['anything'], unknown>();
same<User['full'], string>();
same<User['domain'], string>();
same<Address['zip'], string | undefined>();
same<Node['children'], Node[]>();
same<typeof admin.level, number>();
same<typeof admin.name, string>();
if (user.pet.kind === 'cat') same<typeof user.pet.lives, number>();
else same<typeof user.pet.isGood, boolean>();

// ── functions ──
same<Infer<typeof int>, number>();
same<Infer<typeof str>, string>();
same<Infer<typeof User>, User>();
same<Infer<StringConstructor>, string>();
same<Infer<DateConstructor>, Date>();
same<Infer<typeof Address | typeof int | boolean>, Address | number | boolean>();
same<Infer<'anon'>, string>();
const users = list(User);
same<Infer<typeof users>, User[]>();
same<ReturnType<typeof User.parse<User>>, User>();
const parsed = User.parse({}),
  tried = User.safeParse({}),
  made = new User({});
same<typeof parsed, User>();
same<typeof tried, Result<User>>();
same<typeof made, User>();
if (tried.ok) same<typeof tried.value, User>();

// ── replies ──
same<keyof Wire<Address>, 'city' | 'zip'>();
const reply: Wire<Address> = { city: 'Paris' };
const replies: Wire<Address[]> = [{ city: 'Paris', zip: '75001' }];
const instance: Wire<Address> = new Address({ city: 'Paris' });
const order: Wire<Cat> = { kind: 'cat', lives: 3 };
class Shape extends Schema {
  kind = Field(str);
  get area(): number {
    return 1;
  }
}
same<Wire<Cat>, { kind: 'cat'; lives: number }>();
same<Wire<Shape>, { kind: string } & { area?: number }>();
same<
  Wire<Cat | Address>,
  { kind: 'cat'; lives: number } | ({ city: string } & { zip?: string | undefined })
>();
declare const wire: Wire<User>;
same<typeof wire.anything, unknown>();
same<typeof wire.home.city, string>();
const noMethods: Extract<keyof Wire<User>, 'visit' | 'toJSON'> extends never ? true : false = true;
void [reply, replies, instance, order, noMethods];

// ── errors of the compiler ──
// @ts-expect-error a bound of numbers on text
Field(str, { ge: 1 });
// @ts-expect-error a length on a number
Field(int, { minLength: 1 });
// @ts-expect-error an unknown option
Field(str, { minLenght: 1 });
// @ts-expect-error a constraint of text on a default that is a number
Field(1, { pattern: /a/ });
// @ts-expect-error a default of another type
Field(str, { default: 1 });
// @ts-expect-error a default that is none of the literals
Field(literal('a', 'b'), { default: 'c' });
// @ts-expect-error a function that makes another type
Field(list(str), { default: () => [1] });
// @ts-expect-error a field that begins with its default takes no second one
Field('anon', { default: 'x' });
class Plain {
  a = 1;
}
// @ts-expect-error a class that is no schema
Field(Plain);
// @ts-expect-error a native constructor that is no type
Field(Map);
// @ts-expect-error an object is no type
Field({ type: 'string' });
// @ts-expect-error no type at all
Field();
// @ts-expect-error an unknown format
Field(str, { format: 'phone' });
// @ts-expect-error options of text on a schema
Field(Address, { minLength: 1 });
// @ts-expect-error options of numbers on a list
Field(list(int), { ge: 1 });
// @ts-expect-error options of the items are those of their type
list(int, { maxLength: 1 });
// @ts-expect-error presence is a matter of fields, not of items
list(str, { optional: true });
// @ts-expect-error the tag is no field of Address
union('kind', Cat, Address);
// @ts-expect-error objects are no literals
literal({ a: 1 });
// @ts-expect-error the name of a type is no default
Field('string');
// @ts-expect-error the name of a type is no default
Field('number', { optional: true });
Field(str, { default: 'string' });
// @ts-expect-error at least one literal
literal();
// @ts-expect-error an optional value may be undefined
user.spare.city;
// @ts-expect-error a nullable value may be null
user.note.length;
// @ts-expect-error a required member is missing in the reply
const missing: Wire<Address> = { zip: '1' };
// @ts-expect-error members that the schema does not have
const surplus: Wire<Address> = { city: 'Paris', country: 'FR' };
// @ts-expect-error a result must be looked at first
tried.value;
// @ts-expect-error data are needed
new User();
void [missing, surplus];

// ── schemas made of schemas ──
class UserPatch extends User.partial() {}
class Login extends User.pick('name', 'secret') {}
class Rest extends Cat.omit('kind') {}
class Big extends Cat.extend({ size: Field(int), lives: Field(str) }) {}
class Joint extends intersection(Address, Cat) {}
declare const made2: { patch: UserPatch; login: Login; rest: Rest; big: Big; joint: Joint };
same<typeof made2.patch.name, string | undefined>();
same<Exclude<keyof Login, 'toJSON'>, 'name' | 'secret'>();
same<Exclude<keyof Rest, 'toJSON'>, 'lives'>();
same<typeof made2.big.lives, string>();
same<typeof made2.joint.zip, string | undefined>();
same<Infer<typeof Login>, Login>();
const pairOf = tuple(int, list(str));
same<Infer<typeof pairOf>, [number, string[]]>();
same<Wire<[number, string[]]>, readonly [number, readonly string[]]>();
const eitherOf = union(int, Cat, literal('x'));
same<Infer<typeof eitherOf>, number | Cat | 'x'>();
// @ts-expect-error a union has two members at least
union(int);
// @ts-expect-error no field of that name
User.pick('nmae');
// @ts-expect-error a method is no field
User.omit('visit');
void [made2, pairOf, eitherOf];
