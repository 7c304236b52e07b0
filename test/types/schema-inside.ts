/**
 * Types of schemas inside the package. Compiled by `npm run typecheck` against the sources alone: the declarations
 * that are published have no names for it.
 */
import {
  Field,
  Schema,
  compileSerializer,
  compileType,
  fieldsOf,
  int,
  lazy,
  list,
  planOf,
  record,
  str,
} from '../../src/schema/schema.ts';
import type { FieldType, Infer, PlainOptions, SchemaPlan } from '../../src/schema/schema.ts';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** Compiles only when both types are the same. */
function same<A, B>(..._proof: Same<A, B> extends true ? [] : ['these types differ', A, B]): void {}

class User extends Schema {
  name = Field(str, { minLength: 2 });
  age = Field(int, { ge: 0 });
}
declare const user: User;
const users = list(User);

const plan = planOf(User),
  query = fieldsOf({
    page: Field(1, { ge: 1 }),
    size: Field(int, { default: 20 }),
    q: Field(str, { optional: true }),
  });
same<typeof plan, SchemaPlan<User>>();
const read = query.parseText({});
if (read.ok) same<typeof read.value, { page: number; size: number; q: string | undefined }>();
const typed = compileType(users).parseJson([]);
if (typed.ok) same<typeof typed.value, User[]>();
compileSerializer(User).toJson(user);
compileSerializer(users);
type Tree = { [name: string]: Tree };
const tree: FieldType<Tree, PlainOptions> = lazy(() => record(tree)) as FieldType<Tree, PlainOptions>;
same<Infer<typeof tree>, Tree>();
