/**
 * Rule SVC401 in the sources: environment variables that code reads and that are misspelt or not set.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileOfPlace } from '../../base/findings.ts';
import { calledName, entryOf, functionAround, nameOf, pathOf } from '../reader/nodes.ts';
import { endsBefore } from '../reader/once.ts';
import type { Place } from '../../base/findings.ts';
import type { SourceModule, Spot } from '../reader/modules.ts';
import type { Fn, Node } from '../reader/nodes.ts';
import type { ReportAt, SourcePart, Sources } from '../sources.ts';

/** The search for environment variables in the sources. */
export const VARIABLE_RULES: readonly SourcePart[] = [{ id: 'SVC401', find: findVariables }];

/**
 * Environment variables that the operating system, Node.js, a service manager, a CI system or a hosting
 * platform sets.
 */
const FOREIGN = new RegExp(
  `^(?:${[
    'PORT|HOST|HOSTNAME|HOME|PATH|PWD|USER|USERNAME|LOGNAME|SHELL|TZ|LANG|TERM|COLUMNS|LINES|EDITOR|DEBUG|LOG_LEVEL',
    'TMPDIR|TEMP|TMP|APPDATA|LOCALAPPDATA|USERPROFILE|PROGRAMDATA|SYSTEMROOT|COMPUTERNAME|(?:LC|XDG|SSH|SSL)_\\w+',
    'NODE_\\w+|npm_\\w+|SVC_\\w+|NO_COLOR|FORCE_COLOR|INIT_CWD|WEB_CONCURRENCY|OTEL_\\w+|\\w*_?proxy|\\w+_PROXY',
    'INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET|LISTEN_\\w+|WATCHDOG_\\w+|(?:CACHE|CONFIGURATION|CREDENTIALS|LOGS|RUNTIME|STATE)_DIRECTORY',
    'CI|(?:CI|GIT|GITHUB|GITLAB|RUNNER|JENKINS|CIRCLE|TRAVIS|BUILDKITE|BITBUCKET|BUILD|COMMIT|SOURCE|RELEASE)_\\w+',
    'DYNO|VERCEL\\w*|NETLIFY\\w*|RENDER\\w*|(?:AWS|ECS|LAMBDA|AZURE|WEBSITE|CONTAINER_APP|GOOGLE|GCP|GCLOUD|GAE|K|FUNCTION|CLOUD_RUN)_\\w+',
    '(?:FLY|HEROKU|RAILWAY|KOYEB|COOLIFY|SCALINGO|CC|CF|VCAP|PLATFORM|DIGITALOCEAN|KUBERNETES|POD|NOMAD)_\\w+',
  ].join('|')})$`,
);

/** Words in the names of functions that handle a missing environment variable themselves. */
const TOLERANT = /env|require|default|bool|optional|flag|parse|string|has|is[A-Z]|assert|must/i;

/** Names of methods that validate an object against a schema. */
const VALIDATES = /^(?:safe)?(?:parse|validate|decode|assert|check)(?:Sync|Async)?$/i;

interface Read extends Spot {
  readonly name: string;
}

/** SVC401 for environment variables that the sources read through `process.env` and that nothing sets. */
function findVariables(sources: Sources, report: ReportAt): void {
  const reads = readsOf(sources).filter(({ name }) => !FOREIGN.test(name) && process.env[name] === undefined);
  if (reads.length === 0) return;
  const named = namesInFiles(sources);
  const tested = new Set(
    reads
      .filter(({ node, module }) => node.type === 'text' || mayBeAbsent(node, module))
      .map(({ name }) => name),
  );
  const known = new Set([...named, ...Object.keys(process.env)]);
  for (const { module, node, name } of reads) {
    if (named.has(name)) continue;
    const near = [...known].find((other) => isMisspelt(name, other));
    if (near !== undefined)
      report({ module, node }, `process.env.${name} is not set: did you mean ${near}, which is set?`, {
        severity: 'warning',
        remedy: `Change the name in the code to ${near}, or set the environment variable ${name}`,
      });
    else if (tested.has(name) || isValidated(node, module)) continue;
    else if (isTakenForGranted(node, module) && !isAlternative(node, sources))
      report(
        { module, node },
        `nothing sets the environment variable ${name}, and the code reads it without a default`,
        {
          // a project whose files list no variables may set them anywhere
          severity: named.size > 0 ? 'warning' : 'info',
          remedy: `Set ${name} for the application and for svc check (--env-file), or give the variable a default in the code`,
        },
      );
  }
}

function readsOf(sources: Sources): Read[] {
  const reads: Read[] = [];
  for (const { module, node } of sources.all('member')) {
    const name = /^process\.env\.(\w+)$/.exec(pathOf(node) ?? '')?.[1];
    const isWritten = node.parent?.type === 'assign' && node.parent.target === node;
    if (name !== undefined && !isWritten) reads.push({ module, node, name });
  }
  for (const { module, node } of sources.all('declarator')) {
    if (node.value === undefined || pathOf(node.value) !== 'process.env' || node.target.type !== 'object')
      continue;
    for (const entry of node.target.entries)
      if (entry.type === 'entry' && entry.key !== undefined && entry.value?.type === 'name')
        reads.push({ module, node: entry, name: entry.key });
  }
  return [...reads, ...readsThroughHelpers(sources)];
}

/**
 * Returns the environment variables that code reads through helper functions such as `(name) =>
 * process.env[name] ?? ''`.
 */
export function readsThroughHelpers(sources: Sources): Read[] {
  const positions = new Map<Fn, number>();
  for (const { node } of sources.all('member')) {
    const fn = functionAround(node);
    const { index } = node;
    if (fn === undefined || index?.type !== 'name' || pathOf(node.object) !== 'process.env') continue;
    const position = fn.params.findIndex((param) => param.type === 'name' && param.name === index.name);
    if (position !== -1) positions.set(fn, position);
  }
  if (positions.size === 0) return [];
  return [...sources.all('call')].flatMap(({ module, node: call }) => {
    const fn = sources.handlers.resolve(call.callee, module);
    const arg = fn === undefined ? undefined : call.args[positions.get(fn) ?? -1];
    return arg?.type === 'text' ? [{ module, node: arg, name: arg.value }] : [];
  });
}

/**
 * Returns the names of the variables in files such as `.env.example`, and in the files of containers. Reads the
 * working folder, the folder of the entry module and the two folders above it.
 */
function namesInFiles(sources: Sources): ReadonlySet<string> {
  const folders = new Set([process.cwd()]);
  const [entry] = sources.project.modules;
  for (let at = entry === undefined ? '' : dirname(entry.file), depth = 0; at !== '' && depth < 3; depth++) {
    folders.add(at);
    at = dirname(at) === at ? '' : dirname(at);
  }
  const names = new Set<string>();
  for (const folder of folders)
    for (const file of filesIn(folder))
      for (const [, name] of readText(join(folder, file)).matchAll(SETS)) names.add(name!); // SETS has a group
  return names;
}

/** Files that set environment variables: `.env`, a Dockerfile, or a file of Docker Compose. */
const SETTING_FILE =
  /^(?:\.?env(?:\.\w+)*|(?:Docker|Container)file(?:\.\w+)?|(?:docker-)?compose(?:\.\w+)*\.ya?ml)$/;

/** Matches `NAME=value` and `NAME: value`, also after `export`, `ENV`, `ARG`, `-` and `#`. */
const SETS = /^\s*(?:[#-]\s*)?(?:(?:export|ENV|ARG)\s+)?["']?(\w+)["']?\s*(?:[=:]|$)/gm;

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => SETTING_FILE.test(name));
  } catch {
    return []; // a folder that cannot be listed has no files
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return ''; // the path is a folder, or the process may not read the file
  }
}

/**
 * Whether two names differ in one word by one letter, or by two swapped letters. A difference in a plural `S`
 * or in a digit is not a misspelling.
 */
function isMisspelt(name: string, other: string): boolean {
  const [left, right] = [name.split('_'), other.split('_')];
  if (left.length !== right.length || name === other) return false;
  const differing = left.flatMap((word, index) =>
    word === right[index] ? [] : [[word, right[index]!] as const],
  );
  const [only] = differing;
  if (only === undefined || differing.length > 1) return false;
  const [one, two] = only;
  if (Math.min(one.length, two.length) < 4 || /\d/.test(one + two)) return false;
  if (`${one}S` === two || `${two}S` === one) return false;
  return isOneEditAway(one, two);
}

function isOneEditAway(one: string, two: string): boolean {
  let start = 0;
  while (start < one.length && one[start] === two[start]) start++;
  let end = 0;
  while (end < Math.min(one.length, two.length) - start && one.at(-1 - end) === two.at(-1 - end)) end++;
  const [left, right] = [one.slice(start, one.length - end), two.slice(start, two.length - end)];
  const isSwapped = left.length === 2 && right.length === 2 && left[0] === right[1] && left[1] === right[0];
  return isSwapped || (left.length <= 1 && right.length <= 1);
}

/**
 * Whether code handles a missing environment variable: it sets a default, tests the variable, or passes it to
 * a function that handles this case.
 */
function mayBeAbsent(node: Node, module: SourceModule): boolean {
  const { parent } = node;
  switch (parent?.type) {
    case 'binary':
      return parent.operator !== '+';
    case 'assign':
      return parent.operator !== '='; // `??=` and `||=` set a default
    case 'if':
    case 'choice':
      return parent.test === node;
    case 'unary':
    case 'switch':
    case 'loop':
      return true;
    case 'member':
      return module.source.startsWith('?.', node.end);
    case 'call':
      if (/^(?:Number|parseInt|parseFloat)$/.test(calledName(parent) ?? ''))
        return mayBeAbsent(parent, module);
      return TOLERANT.test(calledName(parent) ?? '');
    case 'object':
      return entryOf(parent, 'default') !== undefined;
    default:
      return node.type === 'entry' && node.value?.type === 'assign';
  }
}

/** Whether the default of a variable is the empty text: `process.env['URL'] ?? ''`. */
function isEmptyByDefault({ parent }: Node): boolean {
  return parent?.type === 'binary' && parent.right.type === 'text' && parent.right.value === '';
}

/**
 * Whether a schema validates the variable: `schema.parse({ URL: process.env.URL })`. The object may also be a
 * constant that code passes to the schema.
 */
function isValidated(node: Node, { source }: SourceModule): boolean {
  const object = node.parent?.type === 'entry' ? node.parent.parent : undefined;
  const around = object?.type === 'object' ? object.parent : undefined;
  const call = around?.type === 'call' ? calledName(around) : undefined;
  if (call !== undefined) return VALIDATES.test(call);
  if (around?.type !== 'declarator' || around.target.type !== 'name') return false;
  const given = new RegExp(`\\b(\\w+)\\(\\s*${around.target.name.replaceAll('$', '\\$')}\\s*[,)]`, 'g');
  // every match of the regular expression above contains a name
  return [...source.matchAll(given)].some(([, name]) => VALIDATES.test(name!));
}

/**
 * Whether code takes for granted that an environment variable is set: `!` or `as string` follows the
 * variable, or the variable is part of a longer text.
 */
function isTakenForGranted(node: Node, { text }: SourceModule): boolean {
  return (
    node.parent?.type === 'template' ||
    node.parent?.type === 'binary' ||
    text?.[node.end] === '!' ||
    /^\s+as string\b/.test(text?.slice(node.end, node.end + 20) ?? '')
  );
}

/**
 * Whether code that reads a variable runs only on a condition, such as that another variable is not set. Also
 * true if each call of the function around the code runs only on a condition.
 */
function isAlternative(node: Node, sources: Sources, depth = 0): boolean {
  let at = node;
  for (; at.parent !== undefined && at.type !== 'function'; at = at.parent) {
    const { parent } = at;
    if ((parent.type === 'if' || parent.type === 'choice') && parent.test !== at) return true;
    if (parent.type === 'binary' && parent.right === at && /^(?:\?\?|\|\||&&)$/.test(parent.operator))
      return true;
    if (endsBefore(at).length > 0) return true;
  }
  const name = at.type === 'function' ? nameOf(at) : undefined;
  if (name === undefined || depth > 2) return false;
  const calls = [...sources.all('call')].filter(({ node: call }) => calledName(call) === name);
  return calls.length > 0 && calls.every(({ node: call }) => isAlternative(call, sources, depth + 1));
}

/**
 * Returns the variables that are not set and that an error of the import is about. The message names them, or
 * they are the nearest to the error that its file takes for granted, or that it replaces by an empty text.
 */
export function absentVariables(sources: Sources, message: string, place: Place | undefined): string[] {
  const isAbsent = (name: string): boolean => process.env[name] === undefined && !FOREIGN.test(name);
  const reads = readsOf(sources).filter(({ name }) => isAbsent(name));
  const isRead = (word: string): boolean =>
    reads.some(({ name }) => name === word) ||
    (/^(?!E(?:RR)?_)\w+_/.test(word) && sources.project.modules.some(({ source }) => source.includes(word)));
  const named = new Set(
    message.match(/\b[A-Z][A-Z\d_]*\b/g)?.filter((word) => isAbsent(word) && isRead(word)),
  );
  if (named.size > 0 || place === undefined) return [...named];
  const file = fileOfPlace(place);
  const beside = reads
    .filter(
      ({ module, node }) => module.file === file && (isEmptyByDefault(node) || !mayBeAbsent(node, module)),
    )
    .map(({ name, node, module }) => ({
      name,
      distance: Math.abs(module.placeAt(node.start).line - place.line),
    }));
  const nearest = Math.min(...beside.map(({ distance }) => distance));
  if (beside.length > 0)
    return [...new Set(beside.filter(({ distance }) => distance === nearest).map(({ name }) => name))];
  // variables of settings, which the configuration reads
  return [...new Set(message.match(/\bSVC_[A-Z\d_]+\b/g)?.filter((name) => process.env[name] === undefined))];
}
