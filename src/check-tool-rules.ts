/**
 * Rules about the tools of an application (a part of SVC305): two that want one name, and writes that models are offered and that do
 * not say what they do.
 */
import { isWrite, subjectOf } from './check-routes.ts';
import { McpGuard } from './mcp-guard.ts';
import { planNames } from './mcp-tools.ts';
import type { ApplicationView, Tell } from './check.ts';
import type { RouteDetail } from './compile.ts';

/** SVC305, as far as it is about tools. */
export function findToolFlaws({ details, tools }: ApplicationView, tell: Tell): void {
  const isMounted = details.some(({ declared }) => declared.use.some((layer) => layer instanceof McpGuard));
  const first = new Map<string, RouteDetail>();
  for (const { detail, wanted, name } of planNames(details, tools)) {
    const { mcp, description = typeof mcp === 'object' ? mcp.description : undefined, summary } = detail.declared.spec;
    if (isWrite(detail) && (isMounted || mcp !== undefined) && description === undefined && summary === undefined) {
      tell(subjectOf(detail), 'it is a tool that changes something, and does not say what', detail.route.place, { severity: 'warning', remedy: 'Give it a description: clients of the Model Context Protocol choose tools by what they say' });
    }
    const earlier = first.get(wanted);
    const isMeant = typeof mcp === 'object' && mcp.name !== undefined;
    if (earlier === undefined) first.set(wanted, detail);
    else if (isMeant || isMounted) { // names that are made of paths matter to nobody where there is no endpoint
      tell(subjectOf(detail), `as a tool it would be called "${wanted}", as ${subjectOf(earlier)} is: clients find it as "${name}"`, detail.route.place, { severity: isMeant ? 'error' : 'warning', remedy: 'Give it a name of its own: mcp: { name: \'…\' }, or mcp: false' });
    }
  }
}
