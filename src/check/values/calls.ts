/** Calls, as the interpreter knows them: results of statements, lists, packages, and the arguments of callers. */
import { isBuiltin } from 'node:module';
import { literal } from '../reader/constants.ts';
import { isWithin, returnsOf } from '../reader/nodes.ts';
import { FALLBACK, GUARDS, OWN_CHANGE, OWN_ROW, PRINCIPAL, isOfPrincipal } from './marks.ts';
import { constantIn } from './tests.ts';
import { boundMarks } from './sql-texts.ts';
import * as values from './value.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Assign, Call, Fn, Node } from '../reader/nodes.ts';
import type { RouteCall } from './functions.ts';
import type { TypeOfInput } from './inputs.ts';
import type { MisusedPromise } from './promises.ts';
import { isLasting } from './text.ts';
import type { Made, Part, Text } from './text.ts';
import type { ClassValue, Given, Value } from './value.ts';

/** A function that runs, and the call that started it. */
export interface Frame {
  readonly fn: Fn;
  readonly call: Call | undefined;
  readonly module: SourceModule;
}

/** A transaction whose callback runs: the database, the session that the callback receives, and the callback. */
export interface OpenTransaction {
  readonly owner: Value;
  readonly session: Value;
  readonly work: Fn;
}

/** A call after the evaluation of its parts. */
export interface Called {
  readonly called: Value;
  readonly receiver: Value | undefined;
  readonly args: readonly Value[];
  readonly method: string;
  readonly meaning: string;
}

/** A call with the values of its arguments on one path through the code. */
export interface Site {
  readonly call: Call;
  readonly module: SourceModule;
  /** Import of the called function, such as `fs.readFile`; the type of its object and the method, else ''. */
  readonly meaning: string;
  readonly receiver: Value | undefined;
  /** The function of the project that the call runs. */
  readonly fn: Fn | undefined;
  /** The route whose handler makes the call. */
  readonly route: RouteCall | undefined;
  /** The transaction whose callback makes the call: the database, and the session that the callback received. */
  readonly transaction: OpenTransaction | undefined;
  /** The functions that run, the innermost one last. */
  readonly stack: readonly Frame[];
  /** The call in this callback that leads here through functions of the project, without callbacks. */
  readonly led: Frame | undefined;
  /** Whether the route requires a credential. */
  readonly isGuarded: boolean;
  /** The handler or dependency that makes the call, directly or through other functions. */
  readonly handler: Fn | undefined;
  /** Returns the value of an argument, or of an expression in it. */
  value(node: Node | undefined): Value | undefined;
  /** Returns the result of a function of the project that an expression gives, for arguments of a rule. */
  run(node: Node | undefined, args: readonly Value[]): Value | undefined;
  /** Returns the origin of the value of an expression; undefined if no client sent a part of it. */
  given(node: Node | undefined): Given | undefined;
  /** Returns the expression with which a caller builds the value of a parameter. Other expressions are returned unchanged. */
  written(node: Node): Spot;
  /** Returns the expression that a caller passed for a parameter, or the nearest caller did. Other expressions are returned unchanged. */
  passed(node: Node, isNearest?: boolean): Spot;
}

/** A handler of a route, with the dependencies that it receives. */
interface Begun {
  readonly handler: Fn;
  readonly route: RouteCall | undefined;
  /** Results of `Depends(…)`, also those of the router. */
  readonly dependencies: readonly Value[];
}

/** The result of a handler. */
interface Sent {
  readonly value: Value;
  readonly route: RouteCall | undefined;
}

/** An assignment, with the assigned value. */
interface Kept {
  readonly assign: Assign;
  readonly module: SourceModule;
  readonly value: Given;
  /** Whether the variable or member lives as long as the process. */
  readonly isLasting: boolean;
}

/** A comparison of two values. */
export interface Compared extends Spot {
  /** The handler or dependency that runs, directly or through other functions. */
  readonly handler: Fn | undefined;
  readonly sides: readonly [Value, Value];
}

/** An assignment to a member that a value chooses: `object[key] = …`. */
interface Indexed {
  readonly target: Node;
  readonly module: SourceModule;
  readonly handler: Fn | undefined;
  readonly object: Value;
  readonly key: Value;
}

/** A condition of a branch. */
interface Tested extends Spot {
  readonly value: Value;
  readonly handler: Fn | undefined;
}

/** Receivers of what an interpreter meets, and the types of declared inputs. */
export interface ValueListeners {
  onHandler(begun: Begun): void;
  onCall(site: Site): void;
  onReply(sent: Sent): void;
  onAssign(kept: Kept): void;
  onCompare(compared: Compared): void;
  /** Two values that code adds, subtracts, multiplies, or compares by size. */
  onSum(compared: Compared): void;
  onTest(tested: Tested): void;
  onPromise(misused: MisusedPromise): void;
  onIndexed(written: Indexed): void;
  readonly typeOf: TypeOfInput;
}

/** Functions whose results rules recognise again. */
export const MAKERS: RegExp =
  /^crypto\.(?:randomBytes|randomUUID|randomInt|getRandomValues|create(?:Hmac|Hash)\.[^]*digest|hash)$|^(?:BigInt|Math\.random|Date\.now|performance\.now|svc\.Clock\.nowMs)$|^svc\.(?:createToken|hashPassword)$|^jsonwebtoken\.sign$|^jose\.SignJWT\.(?:[^]*\.)?sign$|^(?:bcrypt|bcryptjs)\.hash(?:Sync)?$|^argon2\.hash$|^crypto\.(?:scrypt|pbkdf2|hkdf)(?:Sync)?$|^svc\/db\.[Rr]edis\.command$/;
/** Functions whose results others can compute: of chance that no attacker may know, and of the time. */
export const GUESSABLE: RegExp = /^(?:Math\.random|Date|Date\.now|performance\.now|svc\.Clock\.nowMs)$/;

/** Mark of a number that the program draws: one of few. */
export const DRAWN = 'crypto.randomInt';

/** Returns the marks of the principal in a text of which each part is of the principal, or the same for each request. */
function principalIn(text: Text): readonly Part[] {
  const marks = text.filter((part) => part.kind === 'own' && part.made?.by === PRINCIPAL);
  const isOfOne = text.every(
    (part, index) =>
      isLasting([[part]]) ||
      marks.includes(part) ||
      (part.kind === 'own' && part.made === undefined && marks.includes(text[index + 1]!)),
  );
  return isOfOne ? marks : [];
}

/** Returns the text of a value that a call made of others: a digest is as easy to guess as its message, and lasts as long. */
export function textsMadeOf(
  type: string | undefined,
  { receiver, args }: Pick<Called, 'receiver' | 'args'>,
  made: Spot,
): readonly Text[] {
  const by = type ?? '';
  if (!/^crypto\.(?:create(?:Hash|Hmac)|hash|hkdf|scrypt|pbkdf2)/.test(by)) return values.KNOWN.texts;
  // a derived key differs for each salt and purpose
  const given = by.startsWith('crypto.hkdf') ? args.slice(2, 4) : args;
  const sources = receiver?.type === undefined ? given : [receiver, ...given];
  // a secret key hides the message
  const isKeyed = /^crypto\.(?:createHmac\.|hkdf|scrypt|pbkdf2)/.test(by);
  const parts = (isKeyed ? [receiver ?? values.KNOWN] : sources)
    .flatMap(({ texts }) => texts.flat())
    .filter(
      (part) => part.kind === 'own' && (GUESSABLE.test(part.made?.by ?? '') || part.made?.by === DRAWN),
    );
  if (parts.length > 0) return [parts];
  const ofOne = sources.flatMap(({ texts }) => texts.flatMap(principalIn));
  if (
    ofOne.length > 0 &&
    sources.every(({ texts }) => isLasting(texts) || texts.every((text) => principalIn(text).length > 0))
  )
    return [ofOne];
  const isFixed = sources.every(({ texts }) => isLasting(texts) || texts.flat().length === 0);
  return isFixed ? [[{ kind: 'own', made: { ...made, by, isLasting: true } }]] : values.KNOWN.texts;
}

/** Returns the result of a call with its mark. */
export function madeBy(made: Made, result: Value): Value {
  const { texts } = result;
  const own = {
    kind: 'own',
    made: { ...made, isLasting: made.isLasting === true || isLasting(texts) },
  } as const;
  return { ...result, texts: texts === values.KNOWN.texts ? [[own]] : texts.map((text) => [...text, own]) };
}

/** Whether a map may hand a value to another handler that rules follow: of a client, or one that others can compute. */
export function isWorthFinding(value: Value | undefined): boolean {
  return values.clientIn(value) !== undefined || values.hasMark(value, GUESSABLE);
}

/** Methods that send a statement, and return its result. */
export const SENDS: RegExp = /^svc\/db\.[^]*\.(?:fetch(?:All|One|Arrays|Sets)?|execute|scalar|stream)$/;
/** Methods of lists that test the result of a callback, or compare by it. */
export const TESTS: RegExp = /^(?:filter|some|every|find|findIndex|findLast|findLastIndex|sort|toSorted)$/;
/** Methods that return rows as the database has them. */
const ROWS = /^svc\/db\.[^]*\.(?:fetchAll|fetchOne)$/;

/** Returns the result of a statement, with its marks and those of the principal whose rows it selects. */
export function answerOf(
  row: Made,
  result: Value,
  { args, meaning }: { readonly args: readonly Value[]; readonly meaning: string },
): Value {
  const isWhole = ROWS.test(meaning) && !args.some(({ members }) => members?.has('as') === true);
  const answer = values.marked(result, row);
  const principal = args.flatMap((arg) => [...values.madeIn(arg), ...boundMarks(arg)]).find(isOfPrincipal);
  const by = meaning.endsWith('.execute') ? OWN_CHANGE : OWN_ROW;
  return {
    ...(principal === undefined ? answer : values.marked(answer, { ...principal, by })),
    ...(isWhole && { whole: { ...row, by: meaning } }),
  };
}

/** Whether a value is certainly a list: of known items, of rows, or a declared input. */
export function isList(value: Value | undefined): boolean {
  if (value?.items !== undefined || value?.whole?.by.endsWith('.fetchAll') === true) return true;
  if (value?.source !== undefined) return value.source.isRequest !== true;
  return (
    value?.members !== undefined &&
    [...value.members.keys()].every((key) => /^\d+$/.test(key)) &&
    value.of === undefined
  );
}

/** Returns the class of the option `as`: the type of the rows of a query. */
export function classIn(args: readonly Value[]): ClassValue | undefined {
  return args.map(({ members }) => members?.get('as')?.of).find((of) => of !== undefined);
}

/** Whether a name is imported from a package that is neither of Node.js nor this one. */
export function isOfPackage(meaning: string): boolean {
  const [name] = meaning.split('.') as [string];
  return !isBuiltIn(meaning) && !/^(?:svc(?:[/.]|$)|[./#])/.test(meaning) && name !== '';
}

/** Whether a name is a global, or a module of Node.js. */
export function isBuiltIn(meaning = ''): boolean {
  const [name] = meaning.split('.') as [string];
  return name !== '' && (name in globalThis || isBuiltin(name));
}

/** Returns the call in a function that leads to the last frame, if no function on the way is a callback. */
export function ledFrom(work: Fn | undefined, stack: readonly Frame[]): Frame | undefined {
  const at = stack.findLastIndex(({ fn }) => fn === work);
  const after = at === -1 ? [] : stack.slice(at + 1);
  return after.every(({ call }) => call !== undefined) ? after[0] : undefined;
}

/**
 * Returns the argument of a caller if a node is a parameter of a function around it, and the caller builds the text. A
 * function that receives an input as it is decides itself what it does with it.
 */
export function writtenAt(node: Node, module: SourceModule, stack: readonly Frame[]): Spot {
  const built = argumentAt(node, module, stack);
  const plain = built.node.type === 'await' ? built.node.value : built.node;
  const list = built.node === node ? undefined : literal(plain, built.module);
  if (list?.type === 'list') return { node: list, module: built.module };
  const isPlain = /^(?:name|member)$/.test(plain.type) || (plain.type === 'call' && plain.args.length === 0);
  return isPlain ? { node, module } : built;
}

/** Returns the argument of a caller if a node is a parameter of a function around it: the first one, or that of the nearest caller. */
export function argumentAt(
  node: Node,
  module: SourceModule,
  stack: readonly Frame[],
  isNearest = false,
): Spot {
  if (node.type !== 'name') return { node, module };
  const placeIn = ({ fn }: Frame): number =>
    fn.params.findIndex((param) => param.type === 'name' && param.name === node.name);
  const at = stack.findLastIndex((frame) => isWithin(node, frame.fn) && placeIn(frame) !== -1);
  const frame = stack[at];
  const arg = frame?.call?.args[placeIn(frame)];
  return frame === undefined || arg === undefined || arg.type === 'spread'
    ? { node, module }
    : isNearest
      ? { node: arg, module: frame.module }
      : argumentAt(arg, frame.module, stack.slice(0, at));
}

/** Returns the call whose caller receives the result: that of the outermost function which only returns it. */
export function givenTo({ call, module, stack }: Site): Pick<Site, 'call' | 'module'> {
  let given = { call, module };
  for (const { fn, call: outer, module: at } of stack.toReversed()) {
    const result = given.call.parent?.type === 'await' ? given.call.parent : given.call;
    if (outer === undefined || !returnsOf(fn).includes(result)) return given;
    given = { call: outer, module: at };
  }
  return given;
}

/**
 * Whether a condition asks for a member that a caller has certainly left out: `match.id !== undefined` for `{ name }`. Other
 * variables without a value may have one later.
 */
export function isLeftOut(test: Node, seen: ReadonlyMap<Node, Value>): boolean {
  if (test.type === 'unary' && test.operator === '!' && test.value?.type === 'unary')
    return test.value.operator === '!' && test.value.value !== undefined && isLeftOut(test.value.value, seen);
  const asked = test.type === 'binary' && /^!==?$/.test(test.operator) ? test : undefined;
  const member = asked?.left ?? test;
  const isOfAbsence = asked === undefined || seen.get(asked.right) === values.ABSENT;
  return member.type === 'member' && isOfAbsence && seen.get(member) === values.ABSENT;
}

/** Whether a dependency lets in only clients that it knows: a guard, or one of the project that declares `security` or needs such a one. */
export function isGuard({ gives, depends }: Value, depth = 0): boolean {
  if (GUARDS.test(gives?.type ?? '') || depends?.spec?.members?.has('security') === true) return true;
  return (
    depth < 6 && [...(depends?.spec?.members?.values() ?? [])].some((inner) => isGuard(inner, depth + 1))
  );
}

/** Whether a function calls a callback later, and drops its result. */
export function isTimer(meaning: string): boolean {
  return /^(?:timers\.)?set(?:Interval|Timeout|Immediate)$/.test(meaning);
}

/** Whether a method adds a listener, whose result an emitter of Node.js drops. */
export function addsListener(meaning: string): boolean {
  return /^(?:events|net|tls|http|child_process|process)\b[^]*\.(?:on|once|addListener|prependListener)$/.test(
    meaning,
  );
}

/** Returns a setting. A text that it has if no variable sets it leaves a mark. */
export function settingOf(node: Call, module: SourceModule, fallback: Value | undefined): Value {
  const [key] = node.args;
  const by =
    (constantIn(fallback) ?? '') === '' ? `setting ${key?.type === 'text' ? key.value : ''}` : FALLBACK;
  return { texts: [[{ kind: 'own', made: { by, node, module, isLasting: true } }]] };
}
