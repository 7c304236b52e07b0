/**
 * Requests that a running handler sends to the MCP client: a form for the user (elicitation), a message from
 * the client's model (sampling), or the list of the client's folders (roots).
 *
 * A request to the client is sent in one of two ways:
 *   - Before protocol version 2026-07-28, the server sends a JSON-RPC request before it responds to the call.
 *     The handler waits for the client's response. See WaitingCall and SentRequests.
 *   - Since 2026-07-28, the call ends with the result "input_required", which contains the requests to the
 *     client. The client repeats the call with its responses, and the handler runs again from its start. See
 *     RepeatedCall.
 *
 * A client may repeat a call several times. The client's earlier responses are in `requestState`, which the
 * client sends back. `requestState` is encrypted, expires, and is valid only for the same caller and the same
 * call. The client's responses are validated like arguments.
 */
import { createHash, randomBytes } from 'node:crypto';
import { BadRequest, HTTPException, SvcError, withoutStack } from '../base/errors.ts';
import { defined, given, int, isObject, isRecord, isTextList, readOptions, text } from '../base/options.ts';
import { handled } from '../base/promises.ts';
import { ringOf } from '../crypto/keys.ts';
import { ProtectedValues } from '../crypto/protected-values.ts';
import { planOfShape } from '../routing/di.ts';
import { JsonSchemas } from '../schema/json-schema.ts';
import { any, compileType } from '../schema/schema.ts';
import { MISSING_CAPABILITY, RpcError, invalidParams } from './messages.ts';
import type { Services } from '../http/contracts.ts';
import type { InputOf, InputShape } from '../routing/di.ts';
import type { JsonSchema } from '../schema/json-schema.ts';
import type { JsonObject } from './messages.ts';
import type { ToolContentPart } from './results.ts';

/**
 * A kind of request that a client may support. `elicit` shows a form to the user, and `elicit-url` opens a
 * URL. `sample` asks the client's model for a message, and `sample-tools` also gives it tools. `roots` lists
 * the client's folders.
 */
export type ClientAbility = 'elicit' | 'elicit-url' | 'sample' | 'sample-tools' | 'roots';

/** The capability that a client must declare for each kind of request. */
const CAPABILITIES: Readonly<Record<ClientAbility, JsonObject>> = {
  elicit: { elicitation: { form: {} } },
  'elicit-url': { elicitation: { url: {} } },
  sample: { sampling: {} },
  'sample-tools': { sampling: { tools: {} } },
  roots: { roots: {} },
};
export const ABILITIES: readonly ClientAbility[] = Object.keys(CAPABILITIES) as ClientAbility[];

/**
 * Converts the declared capabilities of a client to the kinds of requests that it supports. An empty object
 * `elicitation` means forms only (MCP 2025-11-25, elicitation).
 */
export function abilitiesOf({ elicitation, sampling, roots }: JsonObject): ReadonlySet<ClientAbility> {
  const abilities = new Set<ClientAbility>();
  if (isRecord(elicitation)) {
    if (isRecord(elicitation['form']) || !isRecord(elicitation['url'])) abilities.add('elicit');
    if (isRecord(elicitation['url'])) abilities.add('elicit-url');
  }
  if (isRecord(sampling)) {
    abilities.add('sample');
    if (isRecord(sampling['tools'])) abilities.add('sample-tools');
  }
  if (isRecord(roots)) abilities.add('roots');
  return abilities;
}

export interface ClientRequest {
  readonly key: string;
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list';
  readonly params: JsonObject;
  readonly timeoutMs: number;
  /** Aborts when the call that sent this request ends. */
  readonly signal: AbortSignal;
}

/** Sends the requests of a handler to the client that made the call. @internal */
export interface Asker {
  readonly abilities: ReadonlySet<ClientAbility>;
  /** Keys of the requests that the handler has sent so far. Each key is unique within a call. */
  readonly keys: Set<string>;
  /** Returns the client's response without validation. Throws if there is none. */
  ask(request: ClientRequest): unknown;
  /** Called if the handler makes a request that the client does not support. */
  lacks?(ability: ClientAbility): void;
}

/** Options of every request to the client. */
export interface QuestionOptions {
  /** Name of the request, unique within a call. Default: its kind and number, such as `elicit-1`. */
  readonly key?: string | undefined;
  /**
   * Time in milliseconds for the client to respond, 1 ... 86_400_000. Default 300_000. It has no effect with
   * protocol 2026-07-28, where no handler waits for a response.
   */
  readonly timeoutMs?: number | undefined;
}
/**
 * Shows a form to the user. The fields are text, numbers, booleans, choices (`literal`) or lists of choices.
 */
export interface FormQuestion<S extends InputShape = InputShape> extends QuestionOptions {
  /** Text that explains to the user why the form is shown. */
  readonly message: string;
  /**
   * The fields of the form, as an object of `Field()` members or a schema class. They also validate the
   * response.
   */
  readonly schema: S;
}
/**
 * Shows a form that is given as JSON Schema, for example to give titles to choices. The response is not
 * validated.
 */
export interface RawFormQuestion extends QuestionOptions {
  readonly message: string;
  /** JSON Schema of the form, for the member `requestedSchema` of `elicitation/create`. */
  readonly jsonSchema: {
    readonly type: 'object';
    readonly properties: Readonly<Record<string, object>>;
    readonly required?: readonly string[] | undefined;
  };
}
/**
 * Asks the user to open a URL. Use a URL for secrets and payments, which must not pass through the client.
 */
export interface UrlQuestion extends QuestionOptions {
  readonly message: string;
  /** Absolute URL. */
  readonly url: string;
}
/** The user's response to an elicitation. `content` has the values of an accepted form. */
export type Elicited<T> =
  | { readonly action: 'accept'; readonly content: T }
  | { readonly action: 'decline' | 'cancel'; readonly content?: undefined };
/** Values of a form that was given as JSON Schema, by field name. */
export type FormValues = Readonly<Record<string, string | number | boolean | readonly string[]>>;

/** A message to a model, or from a model. */
export interface SampledMessage {
  /** Author of the message. */
  readonly role: 'user' | 'assistant';
  /** Content of the message. */
  readonly content: ToolContentPart | JsonObject | readonly (ToolContentPart | JsonObject)[];
}
/** Sampling: a request for a message of the client's model (`sampling/createMessage`). */
export interface SampleQuestion extends QuestionOptions {
  /** The messages for the model. A string is one message with the role `user`. */
  readonly messages: string | readonly SampledMessage[];
  /** Maximum number of tokens in the model's message, 1 or more. */
  readonly maxTokens: number;
  /** Instructions for the model. */
  readonly systemPrompt?: string | undefined;
  /** Randomness of the message, as the model defines it. */
  readonly temperature?: number | undefined;
  /** Texts at which the model stops. */
  readonly stopSequences?: readonly string[] | undefined;
  /** Hints and priorities for the choice of a model. */
  readonly modelPreferences?: object | undefined;
  /** Data for the provider of the model. */
  readonly metadata?: object | undefined;
  /** Tools for the model. The client must have the ability `sample-tools`. */
  readonly tools?: readonly object[] | undefined;
  /** How the model uses the tools. The client must have the ability `sample-tools`. */
  readonly toolChoice?: object | undefined;
}
/** The result of sampling: a message of the client's model. */
export interface Sampled extends SampledMessage {
  /** Name of the model that responded. */
  readonly model: string;
  /** Why the model stopped. */
  readonly stopReason?: string | undefined;
}
/** A root: a folder or file with which the client allows servers to work. */
export interface ClientRoot {
  /** `file:` URI of the folder. */
  readonly uri: string;
  /** Name to show to users. */
  readonly name?: string | undefined;
}

/** Maximum number of requests to the client in one run of a handler. */
const MAX_CLIENT_REQUESTS = 100;
const isShape = (value: unknown): boolean => isRecord(value) || typeof value === 'function';
const ASKING = { key: text(), timeoutMs: int(300_000, 1, 86_400_000) };
const FORM = {
  ...ASKING,
  message: text(),
  schema: given<InputShape>('an object of fields, or a schema class', isShape),
  jsonSchema: given<RawFormQuestion['jsonSchema']>('an object schema', isRecord),
  url: given<string>('an absolute URL', (value) => typeof value === 'string' && URL.canParse(value)),
};
const SAMPLE = {
  ...ASKING,
  messages: given<SampleQuestion['messages']>(
    'a text or a list of messages',
    (value) => typeof value === 'string' || Array.isArray(value),
  ),
  maxTokens: int(0, 1, Number.MAX_SAFE_INTEGER),
  systemPrompt: text(),
  temperature: given<number>('a number', Number.isFinite),
  stopSequences: given<readonly string[]>('a list of strings', isTextList),
  modelPreferences: given<object>('an object', isRecord),
  metadata: given<object>('an object', isRecord),
  tools: given<readonly object[]>('a list of tools', Array.isArray),
  toolChoice: given<object>('an object', isRecord),
};

/**
 * The client that called a tool, prompt or resource: `{ client: Depends(toolClient) }`. Its methods send
 * requests to the client.
 *
 * With protocol 2026-07-28, a request to the client ends the handler by an exception. After the client has
 * responded, the handler runs again from its start, and gets the response. So send these requests before you
 * change data, and do not catch the exception. Requests in one `Promise.all()` reach the client together.
 */
export class ToolClient {
  readonly #asker: Asker;
  readonly #signal: AbortSignal;

  /** @internal */
  constructor(asker: Asker, signal: AbortSignal) {
    this.#asker = asker;
    this.#signal = signal;
  }

  /** Whether the client supports this kind of request. Always false outside of an MCP call. */
  can(ability: ClientAbility): boolean {
    return this.#asker.abilities.has(ability);
  }

  /**
   * Elicitation: asks the user to fill in a form, or to open a URL. If the user accepts a URL, the user has
   * agreed to open the page, but may not have finished there.
   *
   * @throws HTTPException 400 `client_capability` when the client does not support this elicitation, 400
   * `client_answer` when the response is invalid, 408 `client_timeout` when no response arrives in time, 424
   * `client_refused` when the response is an error
   * @throws ClientDisconnected when the client has disconnected
   * @throws SvcError `E_MCP_QUESTION` or `E_OPTION_RANGE` when the arguments are invalid
   */
  elicit<S extends InputShape>(request: FormQuestion<S>): Promise<Elicited<InputOf<S>>>;
  elicit(request: RawFormQuestion): Promise<Elicited<FormValues>>;
  elicit(request: UrlQuestion): Promise<Elicited<undefined>>;
  elicit(request: FormQuestion | RawFormQuestion | UrlQuestion): Promise<Elicited<unknown>> {
    return handled(this.#elicit(request));
  }

  /** Sampling: asks the client's model for a message. @throws the errors of {@link elicit} */
  sample(request: SampleQuestion): Promise<Sampled> {
    return handled(this.#sample(request));
  }

  /**
   * Requests the client's list of roots: the folders and files with which the client allows servers to work.
   * @throws the errors of {@link elicit}
   */
  roots(options: QuestionOptions = {}): Promise<readonly ClientRoot[]> {
    return handled(this.#roots(options));
  }

  async #elicit(request: object): Promise<Elicited<unknown>> {
    const { message = '', schema, jsonSchema, url, ...rest } = readOptions('elicit()', request, FORM);
    const key = this.#keyOf('elicit', rest.key);
    if ([schema, jsonSchema, url].filter((form) => form !== undefined).length !== 1)
      throw mistaken(key, 'must have exactly one of "schema", "jsonSchema" and "url"');
    const plan = schema === undefined ? undefined : planOfShape(schema, `the elicitation "${key}"`);
    const requestedSchema = plan === undefined ? jsonSchema : formOf(key, plan);
    const answer = await this.#ask(url === undefined ? 'elicit' : 'elicit-url', {
      ...rest,
      key,
      method: 'elicitation/create',
      params: url === undefined ? { message, requestedSchema } : { mode: 'url', message, url },
    });
    const { action, content } = isRecord(answer) ? answer : {};
    if (action === 'decline' || action === 'cancel') return { action };
    if (action !== 'accept' || (url === undefined && !isRecord(content))) throw unusable(key);
    if (plan === undefined) return { action, content: url === undefined ? content : undefined };
    const read = plan.parseJson(content, key);
    if (read.ok) return { action, content: read.value };
    throw new BadRequest(
      `The client's response to the elicitation "${key}" has ${read.issues.length} problem${read.issues.length === 1 ? '' : 's'}`,
      { code: 'client_answer', issues: read.issues },
    );
  }

  async #sample(request: object): Promise<Sampled> {
    const { key: wanted, timeoutMs, messages = [], ...params } = readOptions('sample()', request, SAMPLE);
    const key = this.#keyOf('sample', wanted);
    if (params.maxTokens === 0 || messages.length === 0)
      throw mistaken(key, 'must have "messages" and "maxTokens"');
    const hasTools = (params.tools ?? params.toolChoice) !== undefined;
    const answer = await this.#ask(hasTools ? 'sample-tools' : 'sample', {
      key,
      timeoutMs,
      method: 'sampling/createMessage',
      params: {
        messages:
          typeof messages === 'string'
            ? [{ role: 'user', content: { type: 'text', text: messages } }]
            : messages,
        ...defined(params),
      },
    });
    if (
      !isRecord(answer) ||
      typeof answer['role'] !== 'string' ||
      typeof answer['model'] !== 'string' ||
      !isObject(answer['content'])
    )
      throw unusable(key);
    // the value of `role` and the parts of `content` are not checked, because later protocol versions may
    // allow more values
    return answer as unknown as Sampled;
  }

  async #roots(options: object): Promise<readonly ClientRoot[]> {
    const { key: wanted, timeoutMs } = readOptions('roots()', options, ASKING);
    const key = this.#keyOf('roots', wanted);
    const answer = await this.#ask('roots', { key, timeoutMs, method: 'roots/list', params: {} });
    const roots = isRecord(answer) ? answer['roots'] : undefined;
    if (!Array.isArray(roots) || !roots.every((root) => isRecord(root) && typeof root['uri'] === 'string'))
      throw unusable(key);
    return roots as ClientRoot[];
  }

  #keyOf(kind: string, wanted: string | undefined): string {
    const { keys } = this.#asker;
    const key = wanted ?? `${kind}-${keys.size + 1}`;
    if (keys.has(key)) throw mistaken(key, 'has the key of another request in this call');
    if (keys.size >= MAX_CLIENT_REQUESTS)
      throw mistaken(key, `exceeds the limit of ${MAX_CLIENT_REQUESTS} requests to the client in one call`);
    keys.add(key);
    return key;
  }

  async #ask(ability: ClientAbility, request: Omit<ClientRequest, 'signal'>): Promise<unknown> {
    const { key, params } = request;
    if (!JSON_VALUE.parseJson(params).ok)
      throw mistaken(key, 'has a value that is not JSON, or is nested too deeply');
    if (this.can(ability)) {
      const answer = await this.#asker.ask({ ...request, signal: this.#signal });
      if (JSON_VALUE.parseJson(answer).ok) return answer;
      throw unusable(key);
    }
    this.#asker.lacks?.(ability);
    throw withoutStack(
      () =>
        new BadRequest(
          `Cannot send a request to the client: the client does not declare the capability ${JSON.stringify(CAPABILITIES[ability])}`,
          { code: 'client_capability' },
        ),
    );
  }
}

/** Any JSON value of limited depth. */
const JSON_VALUE = compileType(any);

function mistaken(key: string, issue: string): SvcError {
  return new SvcError('E_MCP_QUESTION', [key, issue]);
}

function unusable(key: string): HTTPException {
  return new BadRequest(
    `The client's response to the request "${key}" does not have the form that the protocol defines`,
    { code: 'client_answer' },
  );
}

export function noAsker(): Asker {
  return { abilities: new Set(), keys: new Set(), ask: () => undefined };
}

/** Keywords of JSON Schema that the protocol allows in a form field. */
const KEYWORDS: readonly string[] = [
  ...['type', 'title', 'description', 'default', 'enum', 'items', 'format'],
  ...['minLength', 'maxLength', 'minimum', 'maximum', 'minItems', 'maxItems'],
];
const FORMATS: ReadonlySet<unknown> = new Set(['email', 'uri', 'date', 'date-time']);
const TYPES: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean']);

/**
 * Converts the fields of a form to the subset of JSON Schema that the protocol allows. Rules that this subset
 * lacks are checked only in the client's response.
 */
function formOf(key: string, { fields }: ReturnType<typeof planOfShape>): JsonObject {
  const schemas = new JsonSchemas();
  const properties = fields.map(({ wireName, ...field }) => {
    const property = propertyOf(schemas.field({ wireName, ...field }, 'input'));
    if (property === undefined || field.isSecret)
      throw mistaken(
        key,
        `has the field "${wireName}", which is secret, or is not text, a number, a boolean, a choice, or a list of choices`,
      );
    return [wireName, property] as const;
  });
  const required = fields.filter(({ isRequired }) => isRequired).map(({ wireName }) => wireName);
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    ...(required.length === 0 ? {} : { required }),
  };
}

function propertyOf({ const: only, ...schema }: JsonSchema): JsonObject | undefined {
  const all: JsonSchema = only === undefined ? schema : { ...schema, enum: [only] };
  const { type, items, format } = all;
  const item = isRecord(items) ? propertyOf(items) : undefined;
  const isChoices = type === 'array' && item?.['type'] === 'string' && Array.isArray(item['enum']);
  if (!TYPES.has(type) && !isChoices) return undefined;
  return Object.fromEntries(
    Object.entries(all)
      .filter(([keyword]) => KEYWORDS.includes(keyword))
      .filter(([keyword]) => keyword !== 'format' || FORMATS.has(format))
      .filter(([keyword]) => keyword !== 'enum' || type === 'string')
      .map(([keyword, value]) => [keyword, keyword === 'items' ? item : value] as const),
  );
}

/** Sends requests while the handler waits. Version 2025-11-25 requires an `elicitationId`. */
export class WaitingCall implements Asker {
  readonly abilities: ReadonlySet<ClientAbility>;
  readonly keys: Set<string> = new Set();
  readonly #send: (request: Omit<ClientRequest, 'key'>) => Promise<unknown>;
  readonly #ended = new AbortController();

  constructor(
    abilities: ReadonlySet<ClientAbility>,
    send: (request: Omit<ClientRequest, 'key'>) => Promise<unknown>,
  ) {
    this.abilities = abilities;
    this.#send = send;
  }

  ask({ key: _, params, signal, ...request }: ClientRequest): Promise<unknown> {
    return this.#send({
      ...request,
      signal: AbortSignal.any([signal, this.#ended.signal]),
      params:
        params['mode'] === 'url' ? { ...params, elicitationId: randomBytes(16).toString('hex') } : params,
    });
  }

  /** Cancels the requests to the client that have no response yet, because the client's call has ended. */
  outcome(): undefined {
    this.#ended.abort();
    return undefined;
  }
}

/** Lifetime of a `requestState` in seconds: the client must repeat the call within this time. */
const STATE_SECONDS = 3_600;
/** Maximum length of a `requestState` in characters. It contains the client's responses, such as images. */
const MAX_STATE_CHARACTERS = 4_000_000;

/** Returns what encrypts `requestState`, with `authSecret` for every process. */
export function stateSeal(services: Services | undefined): ProtectedValues {
  return new ProtectedValues(ringOf(services?.config), 'mcp questions', 'sealed', MAX_STATE_CHARACTERS);
}

interface RepeatedDeps {
  readonly capabilities: JsonObject;
  readonly params: JsonObject;
  /**
   * Method, name and arguments of the call, and the caller's identity and credentials. A `requestState` is
   * valid only if all of them are unchanged.
   */
  readonly subject: readonly unknown[];
  readonly nowSeconds: number;
  seal(): ProtectedValues;
}

/**
 * Handles the requests to the client in one call of protocol 2026-07-28. Reads the client's responses from a
 * repeated call, and collects the requests without a response.
 */
export class RepeatedCall implements Asker {
  readonly abilities: ReadonlySet<ClientAbility>;
  readonly keys: Set<string> = new Set();
  readonly #deps: RepeatedDeps;
  readonly #answers: ReadonlyMap<string, unknown>;
  readonly #open = new Map<string, JsonObject>();
  #lacking: ClientAbility | undefined;

  constructor(deps: RepeatedDeps) {
    this.#deps = deps;
    this.abilities = abilitiesOf(deps.capabilities);
    const { inputResponses = {}, requestState } = deps.params;
    if (
      !isRecord(inputResponses) ||
      !Object.values(inputResponses).every((result) => isRecord(result) && JSON_VALUE.parseJson(result).ok)
    )
      throw invalidParams(
        '"inputResponses" must be an object whose values are objects, nested at most 64 levels',
      );
    const known = requestState === undefined ? [] : this.#opened(requestState);
    this.#answers = new Map([...known, ...Object.entries(inputResponses)]);
  }

  ask({ key, method, params }: ClientRequest): unknown {
    if (this.#answers.has(key)) return this.#answers.get(key);
    this.#open.set(key, { method, params });
    throw withoutStack(
      () =>
        new HTTPException(
          428,
          'The call can continue only after the client has responded to the requests of the server',
          { code: 'input_required' },
        ),
    );
  }

  lacks(ability: ClientAbility): void {
    this.#lacking ??= ability;
  }

  /**
   * Returns the result "input_required" for the client's call. It contains the requests to the client that
   * have no response yet. Returns undefined if all have responses.
   */
  outcome(isRefused: boolean): JsonObject | undefined {
    if (this.#lacking !== undefined && isRefused) {
      const requiredCapabilities = CAPABILITIES[this.#lacking];
      throw new RpcError(
        MISSING_CAPABILITY,
        'The client does not declare a capability that this call requires',
        { requiredCapabilities },
      );
    }
    if (this.#open.size === 0) return undefined;
    const { nowSeconds, seal } = this.#deps;
    const used = [...this.#answers].filter(([key]) => this.keys.has(key));
    const requestState = seal().write(this.#name(), JSON.stringify(used), {
      issuedSeconds: nowSeconds,
      expiresSeconds: nowSeconds + STATE_SECONDS,
    });
    if (requestState.length > MAX_STATE_CHARACTERS)
      throw invalidParams(
        'The responses to the requests of the server are too large in total: send shorter responses',
      );
    return { resultType: 'input_required', inputRequests: Object.fromEntries(this.#open), requestState };
  }

  #opened(state: unknown): readonly (readonly [string, unknown])[] {
    const { nowSeconds, seal } = this.#deps;
    const read = typeof state === 'string' ? seal().read(this.#name(), state, nowSeconds) : undefined;
    if (read?.kind === 'valid') return JSON.parse(read.payload) as (readonly [string, unknown])[];
    throw invalidParams(
      '"requestState" is invalid, expired, or belongs to another call: repeat the call without "requestState"',
    );
  }

  #name(): string {
    try {
      return createHash('sha256').update(JSON.stringify(this.#deps.subject)).digest('base64url');
    } catch {
      throw invalidParams('The arguments are too large, or nested too deeply');
    }
  }
}
