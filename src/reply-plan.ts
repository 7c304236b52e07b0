/**
 * How the replies of a route with a schema become text: through the serialiser of their status.
 */
import { SvcError } from './errors.ts';
import { FieldType, compileSerializer } from './schema.ts';
import type { RouteSpec } from './route-spec.ts';
import type { Serializer, TypeSource } from './schema.ts';
import type { ReplyPlan } from './http/reply.ts';

/** How what `response` says becomes text. @throws SvcError for mistakes in its schemas */
export function replyPlanOf(response: NonNullable<RouteSpec['response']>, { status, tuple }: RouteSpec, subject: string): ReplyPlan {
  const byStatus = new Map<number, Serializer>();
  let usual: Serializer | undefined;
  let isList = false;
  if (isTypeSource(response)) {
    usual = compileSerializer(response, `the response of ${subject}`);
    isList = isListType(response);
  } else {
    for (const [key, source] of Object.entries(response)) {
      if (!/^[2-5]\d\d$/.test(key)) throw new SvcError('E_ROUTE_SPEC', [subject, 'response', `has the key "${key}", which is no status 200 … 599: it is a type or a class that extends Schema, or one for each status, { 200: User }`]);
      byStatus.set(Number(key), compileSerializer(source as TypeSource, `the response ${key} of ${subject}`));
    }
  }
  const serializerFor = (of: number): Serializer | undefined => {
    const found = byStatus.get(of) ?? (of < 300 ? usual : undefined);
    if (found === undefined && of < 400) throw new SvcError('E_RESPONSE_MISMATCH', [subject, `the status ${of} is not declared`]);
    return found;
  };
  return {
    status: status ?? [...byStatus.keys()].filter((key) => key < 300).sort((left, right) => left - right)[0],
    readsTuples: tuple !== false && !isList,
    encode(body, of) {
      const result = serializerFor(of)?.toJson(body === undefined ? null : body);
      if (result === undefined || result.ok) return result?.value;
      throw new SvcError('E_RESPONSE_MISMATCH', [subject, result.issues.slice(0, 10).map((issue) => `${issue.loc.join('.') || 'the value'} ${issue.message}`).join('; ')]);
    },
  };
}

function isTypeSource(response: NonNullable<RouteSpec['response']>): response is TypeSource {
  return typeof response === 'function' || response instanceof FieldType;
}

/** A list, or null in its place. */
function isListType(source: TypeSource): boolean {
  if (!(source instanceof FieldType)) return false;
  const { shape } = source;
  return shape.kind === 'list' || (shape.kind === 'nullable' && isListType(shape.inner)) || (shape.kind === 'lazy' && isListType(shape.get()));
}
