/**
 * Prompts: message templates that a person chooses. A prompt is a function of the application, which is
 * called as a route handler.
 */
import { defined, isRecord } from '../base/options.ts';
import { INTERNAL_ERROR, INVALID_PARAMS, RpcError, invalidParams } from './messages.ts';
import { headerFieldsOf } from './tools.ts';
import type { RouteDetail } from '../routing/compile.ts';
import type { ToolContentPart } from './results.ts';
import type { Dialect, JsonObject } from './messages.ts';
import type { FieldPlan, TypeNode } from '../schema/schema.ts';

/** A message of a prompt. */
export interface PromptMessage {
  readonly role: 'user' | 'assistant';
  readonly content: ToolContentPart;
}

/** A prompt that clients request by its name. */
export class PlannedPrompt {
  readonly name: string;
  readonly detail: RouteDetail;
  readonly #fields: readonly FieldPlan[];

  constructor(name: string, detail: RouteDetail) {
    this.name = name;
    this.detail = detail;
    this.#fields = detail.inputs.texts
      .filter(({ from }) => from === 'query')
      .flatMap(({ plan }) => plan.fields);
  }

  /** Header fields that the dependencies of the prompt read. */
  get fields(): readonly string[] {
    return headerFieldsOf(this.detail.inputs);
  }

  /** Returns the prompt as clients of this protocol version see it. */
  definition({ hasStructure }: Dialect): JsonObject {
    const { summary, description } = this.detail.declared.spec;
    const fields = this.#fields.map(({ wireName, isRequired, about }) =>
      defined({
        name: wireName,
        title: hasStructure ? about.title : undefined,
        description: about.description,
        required: isRequired,
      }),
    );
    return defined({
      name: this.name,
      title: hasStructure ? summary : undefined,
      description,
      arguments: fields.length === 0 ? undefined : fields,
    });
  }

  /** Returns path and query of the request that runs the prompt. */
  target(given: JsonObject): string {
    for (const [name, value] of Object.entries(given)) {
      if (!this.#fields.some((field) => field.wireName === name))
        throw invalidParams(`The prompt "${this.name}" has no argument "${name}"`);
      if (typeof value !== 'string') throw invalidParams(`The argument "${name}" must be a string`);
    }
    const query = String(new URLSearchParams(given as Record<string, string>));
    return this.detail.declared.template.template + (query === '' ? '' : `?${query}`);
  }

  /**
   * Returns the allowed values of an argument that begin with the text `begun`; none if the argument has no
   * list of allowed values.
   */
  complete(argument: string, begun: string): readonly string[] {
    const field = this.#fields.find(({ wireName }) => wireName === argument);
    return field === undefined
      ? []
      : wordsOf(field.node).filter((word) => word.toLowerCase().startsWith(begun.toLowerCase()));
  }
}

/** Converts the response of a prompt's function to the messages for the client. */
export async function messagesOf(response: Response): Promise<JsonObject> {
  const document: unknown = await response.json().catch(() => undefined);
  if (response.ok && isRecord(document)) return document;
  throw refusalOf(response.status, document);
}

/**
 * Converts an error response of the application to a JSON-RPC error. Its message contains the problem details
 * (RFC 9457).
 */
export function refusalOf(status: number, document: unknown): RpcError {
  const { title = 'Error', detail, errors } = isRecord(document) ? document : {};
  const problems = Array.isArray(errors)
    ? errors
        .filter(isRecord)
        .map(({ loc, message }) => `${String([loc].flat().at(-1))} ${String(message)}`)
        .join('; ')
    : '';
  const said = [String(title), detail, problems]
    .filter((part) => typeof part === 'string' && part !== '')
    .join(': ');
  const data = isRecord(document) ? document : undefined;
  return new RpcError(status < 500 ? INVALID_PARAMS : INTERNAL_ERROR, said, data);
}

function wordsOf(node: TypeNode): readonly string[] {
  if (node.kind === 'literal') return node.values.filter((value) => typeof value === 'string');
  if (node.kind === 'nullable') return wordsOf(node.inner);
  return node.kind === 'bool' ? ['true', 'false'] : [];
}
