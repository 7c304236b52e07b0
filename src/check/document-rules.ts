/**
 * Rules about the document of an application: what it cannot say (SVC305), and what clients of an earlier one can no longer do
 * (SVC306).
 */
import { isWrite, ownRoutes, shapeOf, subjectOf } from './check.ts';
import { openapiDocument, openapiFindings } from '../openapi/openapi.ts';
import { compareOpenapi } from '../openapi/compare.ts';
import { compileType, plansOf, plansWithin } from '../schema/schema.ts';
import { McpGuard } from '../mcp/mount.ts';
import { planNames } from '../mcp/tools.ts';
import type { ApplicationView, ReportFinding } from './check.ts';
import type { CompilationView, RouteDetail } from '../routing/compile.ts';
import type { Finding } from '../base/findings.ts';
import type { ObjectPlan, TypeSource } from '../schema/schema.ts';

/** SVC305 */
export function reportDocument(view: ApplicationView, report: ReportFinding): void {
  const problems = openapiFindings(view);
  const counts = problems.length === 0 ? new Map<string, number>() : countsOf(view);
  for (const { subject, message, detail } of problems)
    if ((counts.get(`${detail.route.method} ${shapeOf(detail)}`) ?? 0) < 2)
      report(subject, message, detail.route.place, {
        severity: 'info',
        remedy: 'Tell them apart by a segment of text, where clients are made from the document',
      });
  findNamesakes(view, report);
  reportTools(view, report);
}

/** How many routes there are of each method and shape: SVC101 reports more than one. */
function countsOf({ details }: ApplicationView): Map<string, number> {
  const counts = new Map<string, number>();
  for (const detail of details) {
    const key = `${detail.route.method} ${shapeOf(detail)}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** Two classes of one name: a document has to call one of them something else. */
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
        `its schema ${name} is not that of an earlier route, so documents have to call it ${name}2`,
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
  const types =
    response === undefined
      ? []
      : Object.getPrototypeOf(response) === Object.prototype
        ? Object.values(response as Readonly<Record<number, TypeSource>>)
        : [response as TypeSource];
  for (const type of types) plansWithin(compileType(type).node, plans);
  return plans;
}

/** SVC306: what breaks clients of an earlier document, at the routes that do. */
export function findBreakingChanges(
  view: CompilationView,
  baseline: Readonly<Record<string, unknown>>,
): readonly Finding[] {
  const places = new Map(
    view.routes.map(({ method, template, place }) => [
      `${method} ${shape(template)}`,
      { method, template, place },
    ]),
  );
  return compareOpenapi(baseline, openapiDocument(view)).map(({ subject, message }) => {
    const route = places.get(shape(subject));
    return {
      rule: 'SVC306',
      severity: 'error',
      subject: route === undefined ? subject : `${route.method} ${route.template}`,
      message: `clients of the baseline break: ${message}`,
      remedy:
        'Keep what was, beside what is new; or publish a new version, and commit its document as the baseline: svc openapi',
      place: route?.place,
    };
  });
}

function shape(path: string): string {
  return path.replace(/\{[^}]*\}/g, '{}');
}

/*
 * Rules about the tools of an application (a part of SVC305): two that want one name, and writes that models are offered and that do
 * not say what they do.
 */

/** SVC305, as far as it is about tools. */
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
        'it is a tool that changes data, and has no description',
        detail.route.place,
        {
          severity: 'warning',
          remedy:
            'Give it a description: clients of the Model Context Protocol choose tools by what they say',
        },
      );
    }
    const earlier = first.get(wanted);
    const isMeant = typeof mcp === 'object' && mcp.name !== undefined;
    if (earlier === undefined) first.set(wanted, detail);
    else if (isMeant || isMounted) {
      // without an endpoint no client sees names that are made of paths
      report(
        subjectOf(detail),
        `as a tool it would be called "${wanted}", as ${subjectOf(earlier)} is: clients find it as "${name}"`,
        detail.route.place,
        {
          severity: isMeant ? 'error' : 'warning',
          remedy: "Give it a name of its own: mcp: { name: '…' }, or mcp: false",
        },
      );
    }
  }
}
