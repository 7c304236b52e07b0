/** Applies every source rule to the modules of a project. */
import { basename } from 'node:path';
import { findUnpacked, reportAsync } from './async-rules.ts';
import { CallRules } from './call-rules.ts';
import { reportDeclared } from './declaration-rules.ts';
import { findVariables } from './environment-rules.ts';
import { findInjection } from './injection-rules.ts';
import { DeclaredInputs, typeOfDeclaration, typeOfParameters } from '../values/inputs.ts';
import { Interpreter } from '../values/interpreter.ts';
import { entryOf, functionAround, nameAround } from '../reader/nodes.ts';
import { isOnlyInDevelopment } from './once.ts';
import { reportPromises } from './promise-rules.ts';
import { isRouteCall, specOf } from './routes.ts';
import {
  LoggedPasswords,
  RevealedValues,
  findLoggedRequests,
  findRevealing,
  findAbsentRows,
} from './reveal-rules.ts';
import { reportSecrets } from './secret-rules.ts';
import { findWrittenSettings } from './settings-rules.ts';
import { Sources, isInPage, meaningOfCall } from './sources.ts';
import { findUnverified } from './unverified-rules.ts';
import { findWrittenSecrets } from './written-secrets.ts';
import { findKeptRequests, findMerged, findSlowMatches, reportState } from './state-rules.ts';
import type { SourceModule } from '../reader/modules.ts';
import type { Node } from '../reader/nodes.ts';
import type { ReportNode } from './sources.ts';
import type { Finding, Place } from '../../base/findings.ts';
import type { RuleText } from '../check.ts';
import type { Project } from '../reader/modules.ts';

/** Findings in the sources of a project, its modules, and the index of their nodes. */
export interface SourceReport {
  readonly findings: readonly Finding[];
  readonly project: Project;
  readonly sources: Sources;
}

/** Returns the findings of a project. Does not throw for files that could not be read or parsed. */
export function examineSources(
  project: Project,
  rules: readonly RuleText[],
  inputs: DeclaredInputs = new DeclaredInputs(),
): SourceReport {
  const sources = new Sources(project);
  const texts = new Map(rules.map((rule) => [rule.id, rule]));
  const findings = new Map<string, Finding>();
  const report: ReportNode = (rule, module, node, message, more = {}) => {
    const { severity, remedy } = texts.get(rule)!; // `texts` holds every rule of the catalogue
    const key = `${rule} ${module.file} ${node.start}`;
    if (findings.has(key) || sources.isOfBrowser(module)) return;
    if (isInPage(node) || isOnlyInDevelopment(node, module)) return;
    const place = module.placeAt(node.start);
    findings.set(key, { rule, severity, subject: subjectOf(node, module), message, remedy, ...more, place });
  };
  const notes: (() => void)[] = [];
  const calls = new CallRules(sources, report);
  const passwords = new LoggedPasswords(report);
  const revealed = new RevealedValues(sources, report);
  new Interpreter(project, sources.handlers, {
    onCall: (site) => {
      findInjection(site, (...args) =>
        args[4]?.severity === undefined ? report(...args) : void notes.push(() => report(...args)),
      );
      calls.visit(site);
      revealed.visit(site);
      passwords.visit(site);
      findLoggedRequests(site, report);
      findMerged(site, report);
      findSlowMatches(site, report);
      findUnpacked(site, report);
    },
    onReply: (sent) => revealed.judge(sent.value, sent.route),
    onCompare: (compared) => calls.compare(compared),
    onAssign: (kept) => findKeptRequests(kept, sources, report),
    typeOf: (route, input) => {
      const written = typeOfDeclaration(entryOf(specOf(route), input), route.module);
      return (
        inputs.typeOf(route, input) ?? written ?? (input === 'params' ? typeOfParameters(route) : undefined)
      );
    },
  }).run();
  reportPromises(sources, report);
  reportAsync(sources, report);
  reportSecrets(sources, report);
  findUnverified(sources, report);
  findRevealing(sources, report);
  findAbsentRows(sources, report);
  findWrittenSecrets(sources, report);
  reportState(sources, report);
  reportDeclared(sources, report);
  findWrittenSettings(sources, report);
  findVariables(sources, report);
  calls.finish();
  passwords.finish();
  for (const note of notes) note(); // an error at the same place counts
  return { findings: [...findings.values()], project, sources };
}

const OPENS = /(?:^|\.)(?:openDatabase|openMigrator|createConnection|createPool|createClient|connect|open)$/;

/**
 * Returns the place of the first call that opens a connection while the module is imported. Searches the
 * source, because the stack trace of a connecting driver does not contain the code of the application.
 */
export function openedAtImport(project: Project): Place | undefined {
  const sources = new Sources(project);
  for (const { module, node } of sources.all('call'))
    if (functionAround(node) === undefined && OPENS.test(meaningOfCall(node, module)))
      return module.placeAt(node.start);
  return undefined;
}

/** Returns the subject of a finding: the route, the function or the file that contains the node. */
function subjectOf(node: Node, module: SourceModule): string {
  for (let at: Node | undefined = node; at !== undefined; at = at.parent) {
    if (at.type !== 'call' || !isRouteCall(at)) continue;
    const [path] = at.args;
    // isRouteCall() accepts only calls of a member, such as `app.get`
    const method = at.callee.type === 'member' ? at.callee.property! : '';
    if (path?.type === 'text') return `${method.toUpperCase()} ${path.value}`;
  }
  const name = nameAround(node);
  return name === undefined ? `module ${basename(module.file)}` : `function ${name}`;
}
