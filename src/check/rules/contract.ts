/**
 * Rules about the contract with clients. Schemas: bodies and responses without a schema, responses that a
 * route can never send, and unlimited input from clients without a credential. The OpenAPI document and MCP tools:
 * duplicate names, missing descriptions, and parts of the application that the document cannot express.
 */
import { callsOfRequest, codeOf, repliesWithObject } from '../reader/functions.ts';
import { isAboutSecrets, isIssuing, plansOfInputs } from './access.ts';
import { aboutRoute, isGuarded, isPublic, isWrite, ownRoutes, shapeOf, subjectOf } from '../check.ts';
import { abouts, fileOfPlace } from '../../base/findings.ts';
import { FetchMount } from '../../http/fetch-mount.ts';
import { McpGuard } from '../../mcp/mount.ts';
import { planNames } from '../../mcp/tools.ts';
import { undescribedParts } from '../../openapi/inputs.ts';
import { openapiFindings } from '../../openapi/openapi.ts';
import { JsonSchemas } from '../../schema/json-schema.ts';
import { responseTypes } from '../../routing/spec.ts';
import { hasNoContent } from '../../http/response.ts';
import {
  compileSerializer,
  compileType,
  exampleFindings,
  exampleProblem,
  foreignWithin,
  plansOf,
  plansWithin,
} from '../../schema/schema.ts';
import type { ApplicationView, CoreRule, ReportFinding, Tell } from '../check.ts';
import type { Finding } from '../../base/findings.ts';
import type { RouteDetail } from '../../routing/compile.ts';
import type { JsonSchema } from '../../schema/json-schema.ts';
import type { ObjectPlan, TypeSource } from '../../schema/schema.ts';

/** Rules about schemas and the OpenAPI document, sorted by id. */
export const CONTRACT_RULES: readonly CoreRule[] = [
  {
    id: 'SVC109',
    severity: 'info',
    phase: 'graph',
    why: 'A mounted handler checks access and input itself. Rules, the OpenAPI document and MCP know only routes of svc',
    remedy: 'Move the routes of the handler to svc one by one, or allow the finding with a reason',
    wrong: "app.mount('/legacy', legacy.fetch);",
    right: "app.get('/legacy/notes', notes);",
    run: findOpaque,
  },
  {
    id: 'SVC301',
    severity: 'warning',
    phase: 'contract',
    cwe: [20],
    why: 'A request body without a schema reaches the handler unchecked, and the OpenAPI document does not describe it',
    remedy: 'Declare a schema of the body: body: User, or form: { name: Field(str, { maxLength: 40 }) }',
    wrong: "app.post('/a', async ({ req }) => await req.json());",
    right: "app.post('/a', { body: Note }, ({ body }) => body);",
    onRoute: findUndescribedBodies,
  },
  {
    id: 'SVC302',
    severity: 'error',
    phase: 'contract',
    cwe: [201],
    why: 'The response schema decides which fields the server sends to clients',
    remedy:
      'Declare response: User without secret fields, or mark a field that must not be sent: Field(str, { secret: true })',
    wrong: "app.get('/me', ({ me }) => ({ ...me }));",
    right: "app.get('/me', { response: Me }, ({ me }) => me);",
    onRoute: findUndescribedReplies,
  },
  {
    id: 'SVC303',
    severity: 'error',
    phase: 'contract',
    sources: ['RFC 9110 §15.3.5'],
    why: 'If a route declares a response that it can never send, the OpenAPI document and generated clients are wrong',
    remedy: 'Declare the status and the schema of the response that the handler sends',
    wrong: '{ status: 204, response: Note }',
    right: '{ response: Note }',
    onRoute: findImpossibleReplies,
  },
  {
    id: 'SVC304',
    severity: 'warning',
    phase: 'contract',
    cwe: [770, 1333],
    why: 'Input of unlimited length can use up memory, time or storage',
    remedy: 'Limit texts and lists with maxLength, and write regular expressions without nested repetitions',
    wrong: 'Field(str)',
    right: 'Field(str, { maxLength: 200 })',
    onRoute: findUnbounded,
  },
  {
    id: 'SVC305',
    severity: 'error',
    phase: 'contract',
    why: 'Programs generate clients from the OpenAPI document, and AI models choose tools by their descriptions. Ambiguous names or texts lead to wrong calls',
    remedy: 'Give each route a unique path, and each schema and tool a unique name',
    wrong: 'two schema classes named Note in one document',
    right: 'schema classes named Note and Draft',
    run: reportDocument,
  },
  {
    id: 'SVC306',
    severity: 'error',
    phase: 'contract',
    why: 'Clients written for the earlier version of the API fail if the new version accepts or returns less',
    remedy: 'Keep the old route or field beside the new one, or publish a new version of the API',
    wrong: 'Field(str), after Field(str, { optional: true }) in the baseline',
    right: 'Field(str, { optional: true })',
  },
];

/** Matches calls that read a JSON body or a form. */
const READS_BODY = String.raw`(?:json|form)\s*\(`;

/** SVC301: handlers that read a body without a schema. */
function findUndescribedBodies(detail: RouteDetail, tell: Tell): void {
  const { spec, handler } = detail.declared;
  const isDeclared = spec.body !== undefined || spec.form !== undefined;
  if (isWrite(detail) && !isDeclared && callsOfRequest(handler, READS_BODY))
    tell('the handler reads the request body, but the route declares no schema for the body');
}

/** Matches response objects that need no schema, such as streams and files. */
const OTHER_REPLY = /\bnew\s+(?:\w+Response|Response)\b/;
const REVEALING_NAMES =
  /^(?:.*_)?(?:password|passwd|pwd|passphrase|secret|token|hash|private_key|password_(?:digest|salt))$|^(?:.*P|p)assword(?:Digest|Salt)$|^privateKey$|^.*(?:Password|Passphrase|Secret|Token|Hash|PrivateKey)$/;
/** Names that look like secrets but are harmless: page tokens, CSRF tokens and hashes of public content. */
const HARMLESS_NAMES =
  /(?:^|_)(?:next|prev|previous|(?:next|prev|previous)_?page|page|continuation|cursor|sync|csrf|xsrf)_?token$|(?:^|_)(?:content|file|blob|commit|tree|git|block|parent|tx|transaction|merkle|root|image|blur|asset|chunk|build|schema|source|geo)_?hash$/i;
/** Members of the response to a login (RFC 6749 §5.1), which a client gets for its secret. */
const TOKEN_NAMES = /^(?:access|refresh|id)_?token$/i;

/** SVC302: responses without a schema, and response fields named like secrets. */
function findUndescribedReplies(detail: RouteDetail, tell: Tell): void {
  const { spec, handler } = detail.declared;
  if (spec.response === undefined && !OTHER_REPLY.test(codeOf(handler)) && repliesWithObject(handler))
    tell(UNDESCRIBED.message, { ...UNDESCRIBED, about: { lacks: 'response schema' } });
  if (responseTypes(spec.response).some(([, type]) => foreignWithin(compileType(type).node).size > 0))
    tell('the response schema is made by another library, so it cannot mark a field as secret', {
      severity: 'info',
      why: 'The response contains every member of the validated value; some libraries keep undeclared members',
      remedy:
        'Check that the schema removes undeclared members, or use a class that extends Schema for secret fields',
    });
  // logins and routes that create keys return secrets on purpose
  if (!isAboutSecrets(detail) && !isIssuing(detail)) findRevealingFields(detail, tell);
}

const UNDESCRIBED = {
  severity: 'warning',
  message: 'the handler responds with JSON, but the route declares no response schema',
  why: 'Without a response schema, clients receive every field of the object, also fields that are added later',
  remedy: 'Declare a response schema in the options of the route, for example response: User',
} as const;

/**
 * SVC302: routes without a schema whose handlers hand on an object of other functions. `objects` has the file and line of
 * each route that responds with an object.
 */
export function findObjectsOfOthers(view: ApplicationView, objects: ReadonlySet<string>): readonly Finding[] {
  const found = new Map<string, Finding>();
  for (const detail of ownRoutes(view)) {
    const { spec, handler, declared } = detail.declared;
    const line = `${fileOfPlace(declared.place)}:${declared.place.line}`;
    const isReported = OTHER_REPLY.test(codeOf(handler)) || repliesWithObject(handler);
    const isAllowed = spec.allow?.some(({ rule }) => rule === 'SVC302') === true;
    if (spec.response !== undefined || isReported || isAllowed || !objects.has(line)) continue;
    const { place } = detail.route;
    const finding: Finding = { ...UNDESCRIBED, rule: 'SVC302', subject: subjectOf(detail), place };
    abouts.set(finding, { lacks: 'response schema' });
    found.set(line, finding);
  }
  return [...found.values()];
}

function findRevealingFields(detail: RouteDetail, tell: Tell): void {
  const inputs = isWrite(detail) ? [...plansOfInputs(detail.inputs)] : [];
  const takesSecret = inputs.some(({ fields }) => fields.some(({ isSecret }) => isSecret));
  const names = responseTypes(detail.declared.spec.response).flatMap(([, type]) => namesIn(type));
  for (const name of new Set(names)) {
    const isExpected = HARMLESS_NAMES.test(name) || (takesSecret && TOKEN_NAMES.test(name));
    if (REVEALING_NAMES.test(name) && !isExpected)
      tell(`the response schema has the field "${name}", whose name suggests a secret`, {
        why: 'Every client of the route receives this field',
        // a program makes tokens for the client; a password or a hash is one that is stored
        about: { ...(/token$/i.test(name) && { field: name }) },
        remedy: `Remove the field, or keep the field out of responses: Field(str, { secret: true }). Or allow the finding: allow: [{ rule: 'SVC302', reason: '…' }]`,
      });
  }
}

/** Returns the names of all members of a response, including nested members, that may contain text. */
function namesIn(type: TypeSource): string[] {
  const schemas = new JsonSchemas();
  const schema = schemas.type(compileType(type).node, 'output');
  const names: string[] = [];
  walk([schema, ...Object.values(schemas.components())], (part) => {
    for (const [name, member] of Object.entries(part['properties'] ?? {}))
      if (mayBeText(member as JsonSchema)) names.push(name);
  });
  return names;
}

/** Whether a value of a schema may contain text. Numbers, booleans and times cannot reveal a secret. */
function mayBeText(schema: JsonSchema): boolean {
  const types = [schema['type'] ?? []].flat();
  const isOther =
    types.length > 0 && !types.some((type) => type === 'string' || type === 'array' || type === 'object');
  return !isOther && schema['format'] !== 'date-time' && schema['format'] !== 'date';
}

/** Calls `visit` for every schema and nested schema. */
function walk(schemas: readonly unknown[], visit: (schema: JsonSchema) => void): void {
  for (const schema of schemas) {
    if (typeof schema !== 'object' || schema === null) continue;
    if (!Array.isArray(schema)) visit(schema as JsonSchema);
    walk(Object.values(schema), visit);
  }
}

/** SVC303: responses that the route can never send, and examples that do not match their schema. */
function findImpossibleReplies(detail: RouteDetail, tell: Tell): void {
  const { status, response } = detail.declared.spec;
  const responses = responseTypes(response);
  const statuses = responses.map(([of]) => of ?? status ?? 200);
  const bodiless = statuses.find((of) => of === 204 || of === 205 || of === 304);
  if (bodiless !== undefined)
    tell(`the response of status ${bodiless} has a schema, but responses with this status have no body`);
  const plans = plansOfRoute(detail);
  for (const { plan } of detail.inputs.texts) plansOf(plan, plans);
  for (const plan of plans)
    for (const { field, message } of exampleFindings(plan))
      tell(`the example of "${field}" in ${plan.name} does not match the schema of the field: ${message}`);
  tellLostExamples(detail, tell);
  const all = status === undefined ? statuses : [...statuses, status];
  if (all.length > 0 && all.every((of) => of >= 400))
    tell(
      `the route declares only error statuses (${[...new Set(all)].join(', ')}), and no status of a successful response`,
    );
}

const REMEDY_OF_EXAMPLES = {
  remedy:
    'Write each example as a value that the handler may return with this status, such as new Date("2026-01-01") for a datetime',
} as const;

/** Reports the examples of a route that the OpenAPI document leaves out. */
function tellLostExamples({ declared: { spec } }: RouteDetail, tell: Tell): void {
  const { status: usual = 200, response, examples = {} } = spec;
  const types = new Map(responseTypes(response).map(([of, type]) => [of ?? usual, type]));
  for (const [key, named] of Object.entries(examples)) {
    const status = Number(key);
    const type = types.get(status);
    if (type === undefined) {
      tell(
        `the OpenAPI document leaves out the examples of the response ${key}, because the route declares no schema for this status`,
      );
      continue;
    }
    if (hasNoContent(status)) continue; // the schema itself is a finding
    const serializer = compileSerializer(type);
    for (const [name, example] of Object.entries(named)) {
      const problem = exampleProblem(serializer, example);
      if (problem !== undefined)
        tell(
          `the OpenAPI document leaves out the example "${name}" of the response ${key}: ${problem}`,
          REMEDY_OF_EXAMPLES,
        );
    }
  }
}

/** SVC304: strings and lists without a maximum length in the input of routes that have no guard. */
function findUnbounded(detail: RouteDetail, tell: Tell): void {
  const { body, form, texts } = detail.inputs;
  if (isGuarded(detail) && !isPublic(detail)) return;
  const schemas = new JsonSchemas();
  const inputs: (readonly [where: string, schema: JsonSchema])[] = [];
  if (body !== undefined) inputs.push(['body', schemas.type(body.node, 'input')]);
  if (form !== undefined) inputs.push(['form', schemas.object(form, 'input')]);
  for (const { from, plan } of texts) inputs.push([from, schemas.object(plan, 'input')]);
  const components = schemas.components();
  for (const [where, schema] of inputs) {
    const found = unboundedIn(schema, where, components).join(' and ');
    if (found === '') continue;
    if (where === 'body' || where === 'form') tell(`every client may send ${found} of any length`);
    else
      tell(`every client may send ${found} of up to "maxHeaderBytes" bytes`, {
        severity: 'info',
        why: 'A search for a text of several kilobytes is slow, and no row has such a text',
      });
  }
}

/** Keywords that limit texts. */
const BOUNDS = /^(?:maxLength|enum|const|format|pattern|contentEncoding|contentMediaType)$/;

/** Returns the paths of strings and lists without a maximum length, such as `body.tags[]`. */
function unboundedIn(
  schema: JsonSchema,
  path: string,
  components: Readonly<Record<string, JsonSchema>>,
  seen: Set<string> = new Set<string>(),
): string[] {
  const ref = schema['$ref'] as string | undefined;
  if (ref !== undefined) {
    const name = ref.slice(ref.lastIndexOf('/') + 1);
    if (seen.has(name)) return [];
    seen.add(name);
    return unboundedIn(components[name]!, path, components, seen);
  }
  if (schema['readOnly'] === true) return [];
  const types = [schema['type']].flat();
  const isBounded = Object.keys(schema).some((keyword) => BOUNDS.test(keyword));
  const found =
    (types.includes('string') && !isBounded) || (types.includes('array') && !('maxItems' in schema))
      ? [path]
      : [];
  const within = (at: string, members: unknown): string[] =>
    [members ?? []]
      .flat()
      .flatMap((member) =>
        typeof member === 'object' ? unboundedIn(member as JsonSchema, at, components, seen) : [],
      );
  const inside = [
    ...Object.entries(schema['properties'] ?? {}).flatMap(([name, each]) => within(`${path}.${name}`, each)),
    ...within(`${path}[]`, schema['items']),
    ...within(`${path}.*`, schema['additionalProperties']),
    ...['oneOf', 'anyOf', 'allOf'].flatMap((keyword) => within(path, schema[keyword])),
  ];
  return [...new Set([...found, ...inside])];
}

/** SVC305: problems of the OpenAPI document and of MCP tools. */
function reportDocument(view: ApplicationView, report: ReportFinding): void {
  const problems = openapiFindings(view);
  // ignores the names of path parameters
  const keyOf = (detail: RouteDetail): string => `${detail.route.method} ${shapeOf(detail)}`;
  const same = Map.groupBy(problems.length === 0 ? [] : view.details, keyOf);
  for (const { subject, message, detail } of problems)
    if ((same.get(keyOf(detail))?.length ?? 0) < 2)
      report(subject, message, detail.route.place, {
        severity: 'info',
        remedy:
          'If you generate clients from the OpenAPI document, add a fixed word to one of the two paths, such as /users/by-name/{name}',
        about: { lacks: 'operation' },
      });
  for (const detail of ownRoutes(view)) {
    const tell = aboutRoute(detail, report);
    const parts = undescribedParts(detail);
    if (parts.length > 0)
      tell(
        `the schema of ${parts.join(' and of ')} has no JSON Schema, so documents and tools cannot describe it`,
        {
          severity: 'info',
          remedy:
            'Use a library with Standard JSON Schema, such as zod 4.2 or toStandardJsonSchema() of valibot, and types that JSON has',
        },
      );
  }
  findNamesakes(view, report);
  reportTools(view, report);
}

/** Reports two schema classes of the same name, because the OpenAPI document must rename one of them. */
function findNamesakes(view: ApplicationView, report: ReportFinding): void {
  const first = new Map<string, unknown>();
  const reported = new Set<unknown>();
  for (const detail of ownRoutes(view)) {
    const tell = aboutRoute(detail, report);
    for (const { name, schema } of plansOfRoute(detail)) {
      if (schema === undefined) continue;
      if (!first.has(name)) first.set(name, schema);
      if (first.get(name) === schema || reported.has(schema)) continue;
      reported.add(schema);
      tell(
        `two schema classes have the name ${name}, so the OpenAPI document calls the second class ${name}2`,
        { severity: 'warning', remedy: 'Give one of the two classes another name' },
      );
    }
  }
}

/** Returns the objects in the body, the form and the responses of a route. */
function plansOfRoute({ inputs, declared }: RouteDetail): Set<ObjectPlan> {
  const plans = plansOfInputs(inputs);
  for (const [, type] of responseTypes(declared.spec.response)) plansWithin(compileType(type).node, plans);
  return plans;
}

/** SVC305 for MCP tools: two tools of the same name, and tools that change data but have no description. */
function reportTools({ details, tools }: ApplicationView, report: ReportFinding): void {
  const isMounted = details.some(({ declared }) => declared.use.some((layer) => layer instanceof McpGuard));
  const first = new Map<string, RouteDetail>();
  for (const { detail, wanted, name } of planNames(details, tools)) {
    const tell = aboutRoute(detail, report);
    const {
      mcp,
      description = typeof mcp === 'object' ? mcp.description : undefined,
      summary,
    } = detail.declared.spec;
    if (isWrite(detail) && (isMounted || mcp !== undefined) && (description ?? summary) === undefined)
      tell('the MCP tool of the route changes data, but has no description', {
        severity: 'warning',
        remedy: 'Add a description to the route: MCP clients choose tools by their descriptions',
      });
    const earlier = first.get(wanted);
    const isMeant = typeof mcp === 'object' && mcp.name !== undefined;
    if (earlier === undefined) first.set(wanted, detail);
    else if (isMeant || isMounted) {
      // clients see generated names only at an MCP endpoint, so without an endpoint they are not reported
      tell(
        `${subjectOf(earlier)} already has the tool name "${wanted}", so MCP clients see the tool of this route as "${name}"`,
        {
          severity: isMeant ? 'error' : 'warning',
          remedy:
            "Give the tool another name: mcp: { name: '…' }, or exclude the route from the tools: mcp: false",
        },
      );
    }
  }
}

/** SVC109: mounted handlers, whose routes are unknown. */
function findOpaque({ details }: ApplicationView, report: ReportFinding): void {
  const seen = new Set<FetchMount>();
  for (const { route, declared } of details) {
    const { mount } = declared;
    if (!(mount instanceof FetchMount) || seen.has(mount)) continue;
    seen.add(mount);
    report(
      `mount ${mount.prefix || '/'}`,
      'the routes of the mounted handler are unknown, so no rule examines them, and the OpenAPI document leaves them out',
      route.place,
    );
  }
}
