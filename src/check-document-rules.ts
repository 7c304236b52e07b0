/**
 * Rules about the document of an application: what it cannot say (SVC305), and what clients of an earlier one can no longer do
 * (SVC306).
 */
import { ownRoutes, shapeOf, subjectOf } from './check-routes.ts';
import { findToolFlaws } from './check-tool-rules.ts';
import { openapiDocument, openapiProblems } from './openapi.ts';
import { compareOpenapi } from './openapi-compare.ts';
import { compileType, plansOf, plansWithin } from './schema.ts';
import type { ApplicationView, Tell } from './check.ts';
import type { CompilationView, RouteDetail } from './compile.ts';
import type { Finding } from './findings.ts';
import type { ObjectPlan, TypeSource } from './schema.ts';

/** SVC305 */
export function findDocumentFlaws(view: ApplicationView, tell: Tell): void {
  const problems = openapiProblems(view);
  const counts = problems.length === 0 ? new Map<string, number>() : countsOf(view);
  for (const { subject, message, detail } of problems) if ((counts.get(`${detail.route.method} ${shapeOf(detail)}`) ?? 0) < 2) tell(subject, message, detail.route.place, { severity: 'info', remedy: 'Tell them apart by a segment of text, where clients are made from the document' });
  findNamesakes(view, tell);
  findToolFlaws(view, tell);
}

/** How many routes there are of each method and shape: of more than one SVC101 tells. */
function countsOf({ details }: ApplicationView): Map<string, number> {
  const counts = new Map<string, number>();
  for (const detail of details) {
    const key = `${detail.route.method} ${shapeOf(detail)}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** Two classes of one name: a document has to call one of them something else. */
function findNamesakes(view: ApplicationView, tell: Tell): void {
  const first = new Map<string, unknown>();
  const told = new Set<unknown>();
  for (const detail of ownRoutes(view)) {
    for (const { name, schema } of plansOfRoute(detail)) {
      if (schema === undefined) continue;
      if (!first.has(name)) first.set(name, schema);
      if (first.get(name) === schema || told.has(schema)) continue;
      told.add(schema);
      tell(subjectOf(detail), `its schema ${name} is another one than that of an earlier route, so that documents have to call it ${name}2`, detail.route.place, { severity: 'warning', remedy: 'Give one of the two classes another name' });
    }
  }
}

function plansOfRoute({ inputs: { body, form }, declared: { spec: { response } } }: RouteDetail): ReadonlySet<ObjectPlan> {
  const plans = new Set<ObjectPlan>();
  if (body !== undefined) plansWithin(body.node, plans);
  if (form !== undefined) plansOf(form, plans);
  const types = response === undefined ? [] : Object.getPrototypeOf(response) === Object.prototype ? Object.values(response as Readonly<Record<number, TypeSource>>) : [response as TypeSource];
  for (const type of types) plansWithin(compileType(type).node, plans);
  return plans;
}

/** SVC306: what breaks clients of an earlier document, at the routes that do. */
export function findBreakingChanges(view: CompilationView, baseline: Readonly<Record<string, unknown>>): readonly Finding[] {
  const places = new Map(view.routes.map(({ method, template, place }) => [`${method} ${shape(template)}`, { method, template, place }]));
  return compareOpenapi(baseline, openapiDocument(view)).map(({ subject, message }) => {
    const route = places.get(shape(subject));
    return {
      rule: 'SVC306', severity: 'error', subject: route === undefined ? subject : `${route.method} ${route.template}`, message: `clients of the baseline break: ${message}`,
      remedy: 'Keep what was, beside what is new; or publish a new version, and commit its document as the baseline: svc openapi', place: route?.place,
    };
  });
}

function shape(path: string): string {
  return path.replace(/\{[^}]*\}/g, '{}');
}
