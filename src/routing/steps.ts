/**
 * Plans the steps of a route before its handler, when the application compiles: resolve early dependencies,
 * read text inputs, read the body or form, resolve late dependencies. Reports mistakes in schemas.
 */
import { planOfShape, readTextInputs } from './di.ts';
import { surrounded } from './di-plan.ts';
import { isTypeSource, typesByStatus } from './spec.ts';
import { SvcError } from '../base/errors.ts';
import { multipartForms } from '../http/request/body.ts';
import {
  compileBody,
  compileType,
  fileLimit,
  planOf,
  plansOf,
  plansWithin,
  textIssue,
} from '../schema/schema.ts';
import type { BackgroundRunner } from './background.ts';
import type { DependencyGraph, PlannedDependency } from './di-plan.ts';
import type { TextInputPlan } from './di.ts';
import type { Declared, Finding } from '../base/findings.ts';
import type { Logger } from '../observability/log.ts';
import type { FlatRoute } from './route.ts';
import type { SentRequest } from './spec.ts';
import type { CompiledBody, CompiledType, ObjectPlan, SchemaPlan, TypeNode } from '../schema/schema.ts';
import type { Middleware, SecurityRequirement, Services } from '../http/contracts.ts';
import type { FileKeeper } from '../http/request/form.ts';
import type { CoreEdge, ErrorRenderer } from '../http/pipeline.ts';
import type { ReplyPlan } from '../http/reply.ts';

/** Objects that all routes share when they are compiled. */
export interface RouteDeps {
  readonly errors: ErrorRenderer;
  readonly graph: DependencyGraph;
  readonly tasks: BackgroundRunner;
  readonly log: Logger;
  readonly report: (finding: Finding) => void;
  /** Middleware of the application, which surrounds every route. */
  readonly middleware: readonly Middleware[];
  readonly services: Services;
  /** Converts return values of handlers into responses, for routes without `response`. */
  readonly usualEdge: CoreEdge;
}

/** The compiled steps of a route, and everything else that is needed to call its handler. */
export interface RoutePlan extends Steps {
  readonly deps: RouteDeps;
  readonly handler: (context: object) => unknown;
  readonly reply: ReplyPlan;
}

/** Compiled steps of a route before its handler. */
interface Steps {
  readonly early: readonly PlannedDependency[];
  readonly late: readonly PlannedDependency[];
  /** Dependencies that surround the call of the handler, such as a transaction. */
  readonly around: readonly PlannedDependency[];
  readonly size: number;
  readonly inputs: readonly TextInputPlan[];
  readonly body: CompiledBody | undefined;
  readonly form: SchemaPlan | undefined;
  readonly keeper: FileKeeper | undefined;
  /** Name of each dependency that the handler receives, and index of its value in `Resolution.values`. */
  readonly names: readonly (readonly [name: string, slot: number])[];
  readonly security: readonly SecurityRequirement[];
}

/** Returns undefined for a route without inputs and dependencies. */
export function planSteps(route: FlatRoute, subject: string, deps: RouteDeps): Steps | undefined {
  const { spec } = route;
  if (spec.body !== undefined && spec.form !== undefined)
    throw new SvcError('E_ROUTE_SPEC', [
      subject,
      'form',
      'cannot be used together with "body": a request has one body',
    ]);
  const ordering = deps.graph.order(subject, route.declared);
  const { planned } = ordering;
  const slotOf = ([name, dependency]: FlatRoute['routerDeps'][number]): readonly [string, number] => [
    name,
    deps.graph.plan(ordering, dependency, name),
  ];
  const routerNames = route.routerDeps.map(slotOf);
  const ofRouter = planned.length;
  const ownNames = Object.entries(route.deps).map(slotOf);
  const { params, query, headers, cookies } = spec;
  const inputs = readTextInputs({ params, query, headers, cookies });
  assertParams(subject, route.template, inputs);
  const body = spec.body === undefined ? undefined : compileBody(spec.body, `the body of ${subject}`);
  const form = spec.form === undefined ? undefined : planOfShape(spec.form, `the form of ${subject}`);
  for (const [name, callback] of Object.entries(spec.callbacks ?? {}))
    planSent(callback, `callback ${name} of ${subject}`);
  if (form !== undefined) multipartForms.want();
  if (planned.length === 0 && inputs.length === 0 && body === undefined && form === undefined)
    return undefined;
  const { order, inside } = surrounded(planned);
  const isEarly = earlySlots(planned, ofRouter, inside);
  const texts = [
    ...inputs,
    ...planned.flatMap((dependency) => dependency.inputs),
    ...(form === undefined ? [] : [{ key: 'form', plan: form }]),
  ];
  const read = plansRead(subject, texts, body);
  reportPatterns(read, subject, route.declared, deps.report);
  return {
    names: [...new Map([...routerNames, ...ownNames])],
    inputs,
    body,
    form,
    size: planned.length,
    early: order.filter((dependency) => isEarly.has(dependency.slot)),
    late: order.filter((dependency) => !isEarly.has(dependency.slot)),
    around: planned.filter(({ surround }) => surround !== undefined),
    keeper: form === undefined ? undefined : keeperOf(form),
    security: planned.flatMap((dependency) => dependency.security),
  };
}

/** Compiled schemas of a {@link SentRequest}. */
interface SentPlan {
  readonly texts: readonly TextInputPlan[];
  readonly body: CompiledBody | undefined;
  readonly replies: readonly (readonly [status: number, type: CompiledType])[];
}

export function planSent({ query, headers, body, response = {} }: SentRequest, subject: string): SentPlan {
  const replies = typesByStatus(isTypeSource(response) ? { 200: response } : response, subject);
  return {
    texts: readTextInputs({ query, headers }),
    body: body === undefined ? undefined : compileBody(body, `the body of ${subject}`),
    replies: replies.map(([status, source]) => [
      status,
      compileType(source, `the response ${status} of ${subject}`),
    ]),
  };
}

function assertParams(
  subject: string,
  { parameters }: FlatRoute['template'],
  inputs: readonly TextInputPlan[],
): void {
  for (const { from, plan } of inputs) {
    const absent = plan.fields.find(
      ({ isRequired, wireName }) => isRequired && !parameters.some(({ name }) => name === wireName),
    );
    if (from === 'path' && absent !== undefined)
      throw new SvcError('E_ROUTE_SPEC', [
        subject,
        'params',
        `has the field "${absent.name}", but the path has no parameter of that name`,
      ]);
  }
}

/** Returns all object schemas of a route. Refuses schemas that do not suit what they read. */
function plansRead(
  subject: string,
  texts: readonly { readonly key: string; readonly plan: SchemaPlan }[],
  body: CompiledBody | undefined,
): ReadonlySet<ObjectPlan> {
  const read = new Set<ObjectPlan>();
  for (const { key, plan } of texts) {
    assertText(subject, key, plan);
    plansOf(plan, read);
  }
  if (body !== undefined) for (const plan of assertJson(subject, body.node)) read.add(plan);
  return read;
}

function assertText(subject: string, key: string, plan: SchemaPlan): void {
  for (const field of plan.fields) {
    const problem = textIssue(field.node, key === 'form');
    if (problem === undefined || !field.isRequired) continue;
    throw new SvcError('E_ROUTE_SPEC', [subject, key, `cannot have the field "${field.name}": ${problem}`]);
  }
}

/** Returns all object schemas within a body. */
function assertJson(subject: string, body: TypeNode): ReadonlySet<ObjectPlan> {
  const plans = plansWithin(body);
  const needsFile =
    fileLimit(body) !== undefined ||
    [...plans].some((plan) =>
      plan.fields.some((field) => field.isRequired && fileLimit(field.node) !== undefined),
    );
  if (needsFile)
    throw new SvcError('E_ROUTE_SPEC', [
      subject,
      'body',
      'cannot contain a file, because only forms can transfer files: use "form" instead of "body"',
    ]);
  return plans;
}

function keeperOf(form: SchemaPlan): FileKeeper {
  const limits = new Map(
    form.fields.filter((field) => !field.isReadOnly).map((field) => [field.wireName, fileLimit(field.node)]),
  );
  return (field) => limits.get(field);
}

/**
 * Reports regular expressions that may take exponential or polynomial time. Validation matches them only with
 * short texts, and refuses longer texts.
 */
function reportPatterns(
  plans: Iterable<ObjectPlan>,
  subject: string,
  declared: Declared,
  report: (finding: Finding) => void,
): void {
  for (const of of plans) {
    const { name, hazards } = of.schema === undefined ? (of as SchemaPlan) : planOf(of.schema);
    for (const { field, message } of hazards) {
      report({
        rule: 'SVC304',
        severity: 'warning',
        subject,
        place: declared.place,
        message: `the regular expression of the field "${field}" in ${name} can take very long to match: ${message}`,
        remedy:
          'Write the regular expression without nested repetitions; until then, only short texts are tested, and longer texts are refused',
      });
    }
  }
}

/**
 * Returns the `slot` of each dependency that is resolved before the body is read: dependencies of routers,
 * dependencies with security, and all that they need. Transactions of routers come later, so that a slow
 * client cannot keep them open.
 */
function earlySlots(
  planned: readonly PlannedDependency[],
  ofRouter: number,
  inside: ReadonlySet<number>,
): ReadonlySet<number> {
  const early = new Set<number>();
  const add = (slot: number): void => {
    if (early.has(slot)) return;
    early.add(slot);
    planned[slot]!.needs.forEach(add);
  };
  for (const { slot, security } of planned)
    if ((slot < ofRouter && !inside.has(slot)) || security.length > 0) add(slot);
  return early;
}
