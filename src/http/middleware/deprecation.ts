/**
 * Announces deprecations in the header of responses: `Deprecation` contains the date of the deprecation (RFC
 * 9745), `Sunset` the date of the removal (RFC 8594), and `Link` the address of an explanation. These fields
 * are sent in all responses of a deprecated route, and in responses to requests with a deprecated input.
 *
 * Example:
 *   Deprecation: @1767225600
 *   Sunset: Thu, 31 Dec 2026 00:00:00 GMT
 *   Link: <https://api.example/changes>; rel="deprecation"
 */
import { httpDate } from '../headers.ts';
import { whenReady } from '../../base/promises.ts';
import type { Awaitable, HttpRequest, Middleware, Next } from '../contracts.ts';
import { deprecationMs } from '../../schema/declarations.ts';
import { plansWithin } from '../../schema/kinds.ts';
import type { FieldPlan, ObjectPlan, TypeNode } from '../../schema/nodes.ts';
import type { Deprecation, Literal } from '../../schema/types.ts';
import type { HttpResponse } from '../response.ts';

/** A deprecation, with dates in milliseconds since 1970. */
interface Mark {
  readonly sinceMs: number;
  /** Date of the removal; Infinity if no date is set. */
  readonly sunsetMs: number;
  readonly link: string | undefined;
}

function markOf({ since, sunset, link }: Deprecation): Mark {
  return {
    sinceMs: deprecationMs(since),
    sunsetMs: sunset === undefined ? Infinity : deprecationMs(sunset),
    link,
  };
}

/** Sends the earliest dates of several deprecations, and every link. */
function mark(response: HttpResponse, marks: Iterable<Mark>): HttpResponse {
  const all = [...marks];
  if (all.length === 0) return response;
  const [sinceMs, sunsetMs] = [
    Math.min(...all.map((one) => one.sinceMs)),
    Math.min(...all.map((one) => one.sunsetMs)),
  ];
  response.headers.set('Deprecation', `@${Math.floor(sinceMs / 1_000)}`);
  if (sunsetMs !== Infinity) response.headers.set('Sunset', httpDate(sunsetMs));
  for (const link of new Set(all.map((one) => one.link)))
    if (link !== undefined) response.headers.append('Link', `<${link}>; rel="deprecation"`);
  return response;
}

/** Adds `Deprecation`, `Sunset` and `Link` to every response of a deprecated route. @internal */
export class DeprecationMiddleware implements Middleware {
  readonly #marks: readonly Mark[];

  constructor(deprecation: Deprecation) {
    this.#marks = [markOf(deprecation)];
  }

  handle(_: HttpRequest, next: Next): Awaitable<HttpResponse> {
    return whenReady(next(), (response) => mark(response, this.#marks));
  }
}

interface DeprecatedInputs {
  readonly texts: readonly {
    readonly from: TextPlace;
    readonly plan: ObjectPlan;
    nameOf(wireName: string): string;
  }[];
  readonly body: { readonly node: TypeNode } | undefined;
  readonly form: ObjectPlan | undefined;
}

/** Returns undefined if no field has a deprecation with dates. */
export function fieldDeprecations({ texts, body, form }: DeprecatedInputs): Middleware | undefined {
  const plans = [
    ...texts.map(({ plan }) => plan),
    ...(form === undefined ? [] : [form]),
    ...(body === undefined ? [] : plansWithin(body.node)),
  ];
  const marks = new Map<FieldPlan, Mark>();
  const isDated = (plan: ObjectPlan): boolean => plan.fields.some((field) => marks.has(field));
  for (const field of plans.flatMap(({ fields }) => fields)) {
    const { deprecated } = field.about;
    if (typeof deprecated === 'object') marks.set(field, markOf(deprecated));
  }
  return marks.size === 0
    ? undefined
    : new FieldDeprecationMiddleware(marks, {
        texts: texts.filter(({ plan }) => isDated(plan)),
        form: form !== undefined && isDated(form) ? form : undefined,
        body: body !== undefined && [...plansWithin(body.node)].some(isDated) ? body : undefined,
      });
}

class FieldDeprecationMiddleware implements Middleware {
  readonly #marks: ReadonlyMap<FieldPlan, Mark>;
  readonly #inputs: DeprecatedInputs;

  constructor(marks: ReadonlyMap<FieldPlan, Mark>, inputs: DeprecatedInputs) {
    this.#marks = marks;
    this.#inputs = inputs;
  }

  async handle(req: HttpRequest, next: Next): Promise<HttpResponse> {
    const response = await next();
    const found = new Set<Mark>();
    for (const text of this.#inputs.texts)
      this.#add(text.plan, found, (wireName) => isSent(req, text.from, text.nameOf(wireName)));
    const { body, form } = this.#inputs;
    // req.json() does not wait for bytes here: a handler that succeeds has already read the body
    if (response.status < 400 && body !== undefined) this.#addValue(body.node, await req.json(), found);
    if (response.status < 400 && form !== undefined) {
      const fields = await req.form();
      this.#add(form, found, (wireName) => fields.has(wireName));
    }
    return mark(response, found);
  }

  #add({ fields }: ObjectPlan, found: Set<Mark>, isUsed: (wireName: string) => boolean): void {
    for (const field of fields) {
      const used = this.#marks.get(field);
      if (used !== undefined && isUsed(field.wireName)) found.add(used);
    }
  }

  /** Finds none in an untagged union, because nothing shows which variant the value belongs to. */
  #addValue(node: TypeNode, value: unknown, found: Set<Mark>): void {
    if (typeof value !== 'object' || value === null) return;
    switch (node.kind) {
      case 'nullable':
        return this.#addValue(node.inner, value, found);
      case 'lazy':
        return this.#addValue(node.resolve(), value, found);
      case 'list':
      case 'record':
        return Object.values(value).forEach((item) => this.#addValue(node.item, item, found));
      case 'tuple':
        return node.members.forEach((member, index) =>
          this.#addValue(member, (value as readonly unknown[])[index], found),
        );
      case 'object':
        return this.#addMembers(node.plan(), value as Members, found);
      case 'union': {
        const members = value as Members;
        const variant = node
          .variants()
          .find(({ values, tagWire }) => values.includes(members[tagWire] as Literal));
        return variant === undefined ? undefined : this.#addMembers(variant.plan, members, found);
      }
      default:
        return;
    }
  }

  #addMembers(plan: ObjectPlan, value: Members, found: Set<Mark>): void {
    this.#add(plan, found, (wireName) => Object.hasOwn(value, wireName));
    for (const { wireName, node } of plan.fields)
      if (Object.hasOwn(value, wireName)) this.#addValue(node, value[wireName], found);
  }
}

type Members = Readonly<Record<string, unknown>>;

/** Part of a request that has text inputs. */
type TextPlace = 'path' | 'query' | 'header' | 'cookie';

function isSent(req: HttpRequest, from: TextPlace, name: string): boolean {
  if (from === 'path') return true;
  if (from === 'query') return req.query.has(name);
  return (from === 'header' ? req.headers[name] : req.cookies[name]) !== undefined;
}
