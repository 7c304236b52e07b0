/**
 * Converts the inputs of a route to OpenAPI parameters and request bodies.
 *
 * Inputs that are sent as text are described by their value: `page` in `?page=2` is an integer. Their schemas
 * exclude values that cannot be sent as text, such as null.
 *
 * The application itself sends webhooks and callbacks, so their bodies are described as output, and their
 * responses as input.
 */
import { hasNoContent } from '../http/response.ts';
import { planSent } from '../routing/steps.ts';
import { within } from '../schema/nodes.ts';
import { responseTypes } from '../routing/spec.ts';
import { compileType, fileLimit, foreignWithin, standardDocument, textIssue } from '../schema/schema.ts';
import { titleOf } from './documented-responses.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { TextInputPlan } from '../routing/di.ts';
import type { JsonSchema, JsonSchemas } from '../schema/json-schema.ts';
import type { SentRequest } from '../routing/spec.ts';
import type {
  DocumentedResponse,
  Encoding,
  MediaType,
  Parameter,
  RequestBody,
  SentItem,
  SentOperation,
} from './document.ts';
import type {
  CompiledType,
  Direction,
  FieldPlan,
  SchemaPlan,
  StandardSchema,
  TypeNode,
} from '../schema/schema.ts';
import type { Converter, ConverterName, PathParameter } from '../http/path.ts';

type TextPlace = TextInputPlan['from'] | 'form';

const SAFE = Number.MAX_SAFE_INTEGER;
const OF_CONVERTERS: Readonly<Record<ConverterName, JsonSchema>> = {
  str: { type: 'string', minLength: 1 },
  int: { type: 'integer', minimum: -SAFE, maximum: SAFE },
  float: { type: 'number' },
  uuid: { type: 'string', format: 'uuid' },
  path: { type: 'string', minLength: 1 },
  'path?': { type: 'string' },
};

/** Rules of path parameters that a JSON Schema cannot express, by type. */
const HINTS: Readonly<Partial<Record<ConverterName, string>>> = {
  float: 'Without exponent',
  path: 'The rest of the path, in which slashes need no escape',
};

/** Returns the schema of a path parameter, as a new object. */
export function pathSchema({ name }: Converter): JsonSchema {
  return { ...OF_CONVERTERS[name] };
}

/** Returns a path parameter as OpenAPI describes it. `documented` is its name in the path of the document. */
export function pathParameter(
  { converter, name }: PathParameter,
  documented: string,
  inputs: readonly TextInputPlan[],
  schemas: JsonSchemas,
): Parameter {
  for (const { from, plan } of inputs) {
    const field = from === 'path' ? plan.fields.find(({ wireName }) => wireName === name) : undefined;
    if (field !== undefined) return { ...textParameter(documented, 'path', field, schemas), required: true };
  }
  const description = HINTS[converter.name];
  return {
    name: documented,
    in: 'path',
    required: true,
    ...(description === undefined ? {} : { description }),
    schema: { ...pathSchema(converter), ...(converter.name === 'int' ? { format: 'int64' } : {}) },
  };
}

/**
 * Header fields that OpenAPI describes elsewhere, so that parameters with these names are ignored (OpenAPI
 * 3.1 §4.8.12.2).
 */
const ELSEWHERE: ReadonlySet<string> = new Set(['accept', 'authorization', 'content-type']);

/**
 * Returns parameters for query, headers and cookies, one for each name. If two inputs of a route read the
 * same name, their parameters are combined.
 */
export function textParameters(inputs: readonly TextInputPlan[], schemas: JsonSchemas): Parameter[] {
  const found = new Map<string, Parameter>();
  for (const input of inputs) {
    for (const field of input.plan.fields) {
      const name = input.nameOf(field.wireName);
      if (
        input.from === 'path' ||
        !isSendable(field, false) ||
        (input.from === 'header' && ELSEWHERE.has(name))
      )
        continue;
      const parameter = textParameter(name, input.from, field, schemas);
      const key = `${input.from} ${name}`;
      const earlier = found.get(key);
      found.set(key, earlier === undefined ? parameter : both(earlier, parameter));
    }
  }
  return [...found.values()];
}

/**
 * Returns the parts of a route that have a foreign schema without JSON Schema, such as `the body`. The document
 * cannot describe them.
 */
export function undescribedParts({ inputs, declared: { spec } }: RouteDetail): string[] {
  const { body, form, texts } = inputs;
  const found = new Set<string>();
  const look = (part: string, direction: Direction, schemas: Iterable<StandardSchema>): void => {
    for (const schema of schemas) if (standardDocument(schema, direction) === undefined) found.add(part);
  };
  for (const { from, plan } of texts) look(`the ${from}`, 'input', foreignIn(plan));
  if (form !== undefined) look('the form', 'input', foreignIn(form));
  if (body !== undefined) look('the body', 'input', foreignWithin(body.node));
  for (const [status, type] of responseTypes(spec.response)) {
    const part = status === undefined ? 'the response' : `the response ${status}`;
    look(part, 'output', foreignWithin(compileType(type).node));
  }
  return [...found];
}

function foreignIn({ foreign, fields }: SchemaPlan): readonly StandardSchema[] {
  return foreign === undefined ? fields.flatMap(({ node }) => [...foreignWithin(node)]) : [foreign];
}

export function requestBody(
  { body, form }: RouteDetail['inputs'],
  schemas: JsonSchemas,
): RequestBody | undefined {
  if (body !== undefined)
    return { required: true, content: { 'application/json': { schema: schemas.type(body.node, 'input') } } };
  return form === undefined ? undefined : { required: true, content: formContent(form, schemas) };
}

/** Describes a webhook or callback: a request that the application sends. */
export function sentItem(
  name: string,
  sent: SentRequest,
  operationId: string,
  schemas: JsonSchemas,
): SentItem {
  const { method = 'POST', summary = name, description = summary, deprecated = false } = sent;
  const { texts, body, replies } = planSent(sent, name);
  const parameters = textParameters(texts, schemas);
  const json = (
    type: Pick<CompiledType, 'node'>,
    direction: 'input' | 'output',
  ): Record<string, MediaType> => ({ 'application/json': { schema: schemas.type(type.node, direction) } });
  const accepted = replies.map(([status, type]): [number | string, DocumentedResponse] => [
    status,
    { description: titleOf(status), ...(hasNoContent(status) ? {} : { content: json(type, 'input') }) },
  ]);
  if (accepted.length === 0)
    accepted.push(['2XX', { description: 'The receiver has accepted the webhook or callback' }]);
  const operation: SentOperation = {
    operationId,
    summary,
    description,
    ...(deprecated ? { deprecated } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: json(body, 'output') } }),
    responses: {
      ...Object.fromEntries(accepted),
      '4XX': { description: 'The receiver has refused the webhook or callback' },
    },
    security: [],
  };
  return { [method.toLowerCase()]: operation };
}

/**
 * Describes the content of a form. A form with required files needs multipart. Other forms may also be sent
 * URL-encoded.
 */
function formContent(form: SchemaPlan, schemas: JsonSchemas): Record<string, MediaType> {
  const fields = form.fields.filter((field) => isSendable(field, true));
  const files = fields.filter(isFile);
  const content: Record<string, MediaType> = {};
  if (!files.some((field) => field.isRequired)) {
    const texts = fields.filter((field) => !isFile(field));
    const encoding = texts
      .filter((field) => isSeparated(field.node))
      .map((field) => [field.wireName, BY_COMMA] as const);
    content['application/x-www-form-urlencoded'] = formMedia(formSchema(form, texts, schemas), encoding);
  }
  const encoding = fields.flatMap((field) => {
    const contentType = partTypes(field.node);
    return contentType === undefined ? [] : [[field.wireName, { contentType }] as const];
  });
  content['multipart/form-data'] = formMedia(formSchema(form, fields, schemas), encoding);
  return content;
}

function formMedia(schema: JsonSchema, encoding: readonly (readonly [string, Encoding])[]): MediaType {
  return encoding.length === 0 ? { schema } : { schema, encoding: Object.fromEntries(encoding) };
}

function formSchema(form: SchemaPlan, fields: readonly FieldPlan[], schemas: JsonSchemas): JsonSchema {
  const properties = Object.fromEntries(
    fields.map((field) => [field.wireName, schemas.field(asText(field, 'form'), 'input')] as const),
  );
  const required = fields.filter((field) => field.isRequired).map((field) => field.wireName);
  return {
    type: 'object',
    properties,
    ...(required.length === 0 ? {} : { required }),
    ...(form.extra === 'forbid' ? { additionalProperties: false } : {}),
  };
}

function isFile(field: FieldPlan): boolean {
  return fileLimit(field.node) !== undefined;
}

function isSendable(field: FieldPlan, isForm: boolean): boolean {
  return !field.isReadOnly && textIssue(field.node, isForm) === undefined;
}

/**
 * Returns the media types of a field in a multipart form, unless its schema implies them (OpenAPI 3.1
 * §4.8.15).
 */
function partTypes(given: TypeNode): string | undefined {
  const { node } = within(given);
  if (node.kind === 'list') return partTypes(node.item);
  if (node.kind === 'file') return (node.constraints.contentTypes ?? ['application/octet-stream']).join(', ');
  return node.kind === 'bytes' ? 'text/plain' : undefined; // bytes are sent as base64 text
}

function textParameter(
  name: string,
  from: TextInputPlan['from'],
  field: FieldPlan,
  schemas: JsonSchemas,
): Parameter {
  const { description, examples, writeOnly: _, ...schema } = schemas.field(asText(field, from), 'input');
  return {
    name,
    in: from,
    ...(field.isRequired ? { required: true } : {}),
    ...(typeof description === 'string' ? { description } : {}),
    schema,
    ...(from !== 'header' && isSeparated(field.node) ? BY_COMMA : {}),
    ...(Array.isArray(examples) ? { example: examples[0] as unknown } : {}),
  };
}

/** Serialisation of a list as one comma-separated text (OpenAPI 3.1 §4.8.12.2). */
const BY_COMMA: Encoding = { style: 'form', explode: false };

/** Whether the type is a list whose items are sent as one comma-separated text. */
function isSeparated(given: TypeNode): boolean {
  const { node } = within(given);
  return node.kind === 'list' && node.constraints.separator !== undefined;
}

/**
 * Combines two parameters with the same name. If both schemas have the same type, the value must match both.
 */
function both(first: Parameter, second: Parameter): Parameter {
  const isSame = JSON.stringify(first.schema) === JSON.stringify(second.schema);
  const hasOneType = first.schema['type'] === second.schema['type'];
  return {
    ...second,
    ...first,
    schema: !isSame && hasOneType ? { allOf: [first.schema, second.schema] } : first.schema,
    ...(first.required === true || second.required === true ? { required: true } : {}),
  };
}

/** Restricts a field to values that can be sent as text. */
function asText(field: FieldPlan, place: TextPlace): FieldPlan {
  const node = textNode(field.node, place, field.isRequired);
  return { ...field, node, hasDefault: field.hasDefault && field.default !== null };
}

function textNode(given: TypeNode, place: TextPlace, isRequired: boolean): TypeNode {
  const { node } = within(given);
  switch (node.kind) {
    case 'any':
      return { ...node, kind: 'str' };
    case 'choice':
      return { ...node, members: node.members.map((member) => textNode(member, place, isRequired)) };
    case 'literal':
      return node.values.some((value) => value !== null)
        ? { ...node, values: node.values.filter((value) => value !== null) }
        : node;
    case 'list': {
      const { minLength = 0, maxLength = 1 } = node.constraints;
      // an empty list cannot be sent: without items, the request does not contain the parameter
      const least = isRequired && minLength === 0 ? { minLength: 1 } : {};
      // browsers send one value for a cookie, so a list in a cookie has at most one item
      const most = place === 'cookie' && !isSeparated(node) ? { maxLength: Math.min(1, maxLength) } : {};
      return {
        ...node,
        item: textNode(node.item, place, true),
        constraints: { ...node.constraints, ...least, ...most },
      };
    }
    default:
      return node;
  }
}
