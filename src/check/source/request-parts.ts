/**
 * Members of a request that hold text of a client, and methods and functions whose result contains that text.
 */
import { REST } from '../reader/modules.ts';
import { calledName, pathOf } from '../reader/nodes.ts';
import { isHarmless } from './routes.ts';
import type { Call } from '../reader/nodes.ts';
import type { Given } from './values.ts';

const PARTS =
  /^(?:params|pathParams|query|body|form|headers|cookies|args|rawBody|files|searchParams|rawHeaders)$/;
export const READERS: RegExp =
  /^(?:json|text|form|body|parts|stream|formData|param|queries|header|get|query|leadingFields)$/;
/** Members of a request that cannot hold client text. */
const HARMLESS_MEMBERS = /^(?:length|size|byteLength|constructor)$/;
/** Names of headers that rules do not treat as client input. */
export const HARMLESS_HEADERS: RegExp = /^(?:host|accept|accept-encoding|content-type|content-length)$/;
const HARMLESS_OF_ADDRESS = /^(?:pathname|protocol)$/;
/**
 * Members that say little about a value. A test of such a member does not validate the value: `url.protocol
 * === 'https:'`, `name.length < 100`.
 */
export const WEAK_MEMBERS: RegExp = /^(?:length|size|byteLength|protocol|port)$/;
/**
 * Fixed beginnings of texts and patterns. A test for such a beginning does not validate the rest of the
 * value: `next.startsWith('/')`, `/^https?:/.test(url)`.
 */
const WEAK_BEGINNING = /^(?:\/|https?:?(?:\/\/)?|\^https\??:?(?:\\?\/){0,2}|\^\\\/)$/;
/** Names of methods whose result contains the value that they are called on, such as `trim`. */
export const PASSING: RegExp =
  /^(?:toString|valueOf|trim|trimStart|trimEnd|toLowerCase|toUpperCase|normalize|slice|substring|substr|split|join|concat|padStart|padEnd|at|get|getAll|charAt|repeat|map|filter|flatMap|find|reverse|sort|flat|values|entries|keys|pop|shift|then|json|text|toSorted|with|first|last|bytes)$/;
/** Names of functions whose result contains their arguments, such as `decodeURIComponent`. */
export const PASSING_FUNCTIONS: RegExp =
  /^(?:String|decodeURIComponent|decodeURI|unescape|JSON\.(?:parse|stringify)|structuredClone|Object\.(?:values|entries|fromEntries|assign|freeze)|Array\.from|Buffer\.from|URL|Promise\.(?:all|resolve)|(?:path\.|posix\.|path\.posix\.)?(?:join|resolve|normalize)|fileURLToPath|pathToFileURL|String\.raw|format|util\.format)$/;
export const KEEPING: RegExp = /^(?:push|unshift|append|add|concat)$/;
export const ASSERTING: RegExp =
  /(?:assert|check|enforce|ensure|valid|safeParse|verify|must|guard|require|expect|allow|reject|refuse)/i;

/** Names of functions that return harmless text: `sanitize`, `cleanName`, `toSafePath`. */
export const CLEANING: RegExp =
  /^(?:sanit|clean|escape|encode|basename|validat|whitelist|allowlist|safe|slug|purify|normali[sz]e[A-Z])|(?:Saniti[sz]ed?|Clean|Escape[ds]?|Safe[A-Z]?\w*|Slug)$|^to(?:Safe|Slug|Int|Number)/;

/** Names of functions that validate a whole input: `const { error } = schema.validate(body)`. */
export const VALIDATES: RegExp = /^(?:validate\w*|safeParse\w*)$/;

/** Names of functions that throw if they find nothing: `findOneOrFail`. */
export const FAILS_WITHOUT: RegExp = /Or(?:Fail|Throw|404)\w*$/;
/**
 * Names of functions whose promise rejects for an unknown key, such as `getUser`. In a callback of `then()`,
 * the arguments of these functions count as validated.
 */
export const LOOKS_UP: RegExp =
  /^(?:get|find|load|lookup|decode|verify|check|ensure|validate|assert)|by_?id$/i;

/** Names of methods that look up records and pass them to a callback: `db.query(text, values, callback)`. */
export const QUERIES: RegExp = /^(?:find|get|load|lookup|query|retrieve|select|fetch|sql)|quer(?:y|ies)$/i;

/**
 * Returns a member of a request, or of a value in it. Undefined if the member cannot contain harmful text.
 */
export function memberOf(object: Given, property: string): Given | undefined {
  // `...rest` lacks some members of the input, so its value is not the whole input
  if (property === REST) return object.kind === 'outside' ? { ...object, part: undefined } : object;
  if (object.kind === 'members') return object.members?.get(property);
  const made = (what: string, more: Partial<Given> = {}): Given => ({
    kind: 'outside',
    what,
    route: object.route,
    checked: object.checked,
    lead: '',
    text: '',
    ...more,
  });
  if (object.kind === 'request') {
    if (property === 'req' || property === 'request') return object;
    if (property === 'args' && !isOfTool(object.route)) return undefined;
    if (property === 'params' && isHarmless(object.route, property, '')) return undefined;
    return PARTS.test(property) ? made(property, { part: property }) : undefined;
  }
  if (HARMLESS_MEMBERS.test(property)) return undefined;
  if (object.part === 'params' && object.checked?.has(property) === true) return undefined;
  if (object.part === 'headers' && HARMLESS_HEADERS.test(property)) return undefined;
  if (object.part === undefined && HARMLESS_OF_ADDRESS.test(property)) return undefined;
  if (object.part !== undefined && isHarmless(object.route, object.part, property)) return undefined;
  return made(`${object.what}.${property}`);
}

/** Whether a route is an MCP tool, prompt or resource. A client sends their arguments. */
function isOfTool(route: Given['route']): boolean {
  return route !== undefined && /^(?:tool|prompt|resource)$/.test(calledName(route.call) ?? '');
}

/** Functions that test whether a file exists. Such a test does not keep a path inside of a folder. */
const PROBES =
  /(?:^|\.)(?:(?:fs\w*|promises)\.(?:exists|access|l?stat)|(?:exists|access|l?stat)Sync|pathExists)$/;

/**
 * Whether a test says little about a value: it tests only the beginning, as `next.startsWith('/')`, or
 * whether a file exists.
 */
export function isWeakTest({ callee, args }: Call): boolean {
  if (PROBES.test(pathOf(callee) ?? '')) return true;
  if (callee.type !== 'member') return false;
  const [arg] = args;
  if (callee.property === 'startsWith') return arg?.type === 'text' && WEAK_BEGINNING.test(arg.value);
  return (
    callee.property === 'test' &&
    callee.object.type === 'pattern' &&
    WEAK_BEGINNING.test(callee.object.source)
  );
}
