/**
 * Rules about the OpenAPI document and about MCP tools (SVC109, SVC305): duplicate names, missing descriptions,
 * and parts of the application that the document cannot express.
 */
import { FetchMount } from '../http/fetch-mount.ts';
import { isWrite, ownRoutes, shapeOf, subjectOf } from './check.ts';
import { undescribedParts } from '../openapi/inputs.ts';
import { openapiFindings } from '../openapi/openapi.ts';
import { responseTypes } from '../routing/spec.ts';
import { compileType, plansOf, plansWithin } from '../schema/schema.ts';
import { McpGuard } from '../mcp/mount.ts';
import { planNames } from '../mcp/tools.ts';
import type { ApplicationView, ReportFinding } from './check.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { ObjectPlan } from '../schema/schema.ts';

/** SVC305: problems of the OpenAPI document and of MCP tools. */
export function reportDocument(view: ApplicationView, report: ReportFinding): void {
  const problems = openapiFindings(view);
  const counts = problems.length === 0 ? new Map<string, number>() : countsOf(view);
  for (const { subject, message, detail } of problems)
    if ((counts.get(`${detail.route.method} ${shapeOf(detail)}`) ?? 0) < 2)
      report(subject, message, detail.route.place, {
        severity: 'info',
        remedy:
          'If you generate clients from the OpenAPI document, add a fixed word to one of the two paths, such as /users/by-name/{name}',
      });
  for (const detail of ownRoutes(view)) {
    const parts = undescribedParts(detail);
    if (parts.length > 0)
      report(
        subjectOf(detail),
        `the schema of ${parts.join(' and of ')} has no JSON Schema, so documents and tools cannot describe it`,
        detail.route.place,
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

/** Counts the routes of each method and path. Ignores the names of path parameters. */
function countsOf({ details }: ApplicationView): Map<string, number> {
  const counts = new Map<string, number>();
  for (const detail of details) {
    const key = `${detail.route.method} ${shapeOf(detail)}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** Reports two schema classes of the same name, because the OpenAPI document must rename one of them. */
function findNamesakes(view: ApplicationView, report: ReportFinding): void {
  const first = new Map<string, unknown>();
  const reported = new Set<unknown>();
  for (const detail of ownRoutes(view)) {
    for (const { name, schema } of plansOfRoute(detail)) {
      if (schema === undefined) continue;
      if (!first.has(name)) first.set(name, schema);
      if (first.get(name) === schema || reported.has(schema)) continue;
      reported.add(schema);
      report(
        subjectOf(detail),
        `two schema classes have the name ${name}, so the OpenAPI document calls the second class ${name}2`,
        detail.route.place,
        { severity: 'warning', remedy: 'Give one of the two classes another name' },
      );
    }
  }
}

function plansOfRoute({
  inputs: { body, form },
  declared: {
    spec: { response },
  },
}: RouteDetail): ReadonlySet<ObjectPlan> {
  const plans = new Set<ObjectPlan>();
  if (body !== undefined) plansWithin(body.node, plans);
  if (form !== undefined) plansOf(form, plans);
  for (const [, type] of responseTypes(response)) plansWithin(compileType(type).node, plans);
  return plans;
}

/** SVC305 for MCP tools: two tools of the same name, and tools that change data but have no description. */
function reportTools({ details, tools }: ApplicationView, report: ReportFinding): void {
  const isMounted = details.some(({ declared }) => declared.use.some((layer) => layer instanceof McpGuard));
  const first = new Map<string, RouteDetail>();
  for (const { detail, wanted, name } of planNames(details, tools)) {
    const {
      mcp,
      description = typeof mcp === 'object' ? mcp.description : undefined,
      summary,
    } = detail.declared.spec;
    if (
      isWrite(detail) &&
      (isMounted || mcp !== undefined) &&
      description === undefined &&
      summary === undefined
    ) {
      report(
        subjectOf(detail),
        'the MCP tool of the route changes data, but has no description',
        detail.route.place,
        {
          severity: 'warning',
          remedy: 'Add a description to the route: MCP clients choose tools by their descriptions',
        },
      );
    }
    const earlier = first.get(wanted);
    const isMeant = typeof mcp === 'object' && mcp.name !== undefined;
    if (earlier === undefined) first.set(wanted, detail);
    else if (isMeant || isMounted) {
      // clients see generated names only at an MCP endpoint, so without an endpoint they are not reported
      report(
        subjectOf(detail),
        `${subjectOf(earlier)} already has the tool name "${wanted}", so MCP clients see the tool of this route as "${name}"`,
        detail.route.place,
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
export function findOpaque({ details }: ApplicationView, report: ReportFinding): void {
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
