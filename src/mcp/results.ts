/**
 * Converts responses of routes to results of tools:
 *   - JSON with a 2xx status becomes text, and `structuredContent` if the protocol version has that member.
 *   - Text, images and audio with a 2xx status become content of this type. Any other media type becomes an
 *     embedded resource in base64.
 *   - A 4xx or 5xx status becomes an error (`isError`): a summary that a model can act on, then the problem
 *     details.
 *   - If the tool has an output schema, a response other than JSON is an error, because clients reject
 *     results that do not match the schema.
 */

import { http } from '../base/node-http.ts';
import { defined, isRecord, jsonOf } from '../base/options.ts';
import { JSONResponse } from '../http/response.ts';
import type { Issue } from '../base/errors.ts';
import type { Dialect, JsonObject } from './messages.ts';
import type { PlannedTool } from './tools.ts';

/** The result of a tool call. */
export interface ToolResult {
  /** Content for the model. */
  readonly content: readonly ToolContentPart[];
  /** The result as data, by `outputSchema`. */
  readonly structuredContent?: unknown;
  /** Whether the call has failed. */
  readonly isError?: boolean;
  /** Metadata of the result. The member `svc/status` is the HTTP status of the response. */
  readonly _meta?: JsonObject;
}

/** Converts the response of a route to the result of a tool. Reads at most `maxBytes` of the body. */
export async function resultOf(
  response: Response,
  tool: PlannedTool,
  dialect: Dialect,
  maxBytes: number,
): Promise<ToolResult> {
  const result = await bareResult(response, tool, dialect, maxBytes);
  return { ...result, _meta: { 'svc/status': response.status } };
}

async function bareResult(
  response: Response,
  tool: PlannedTool,
  dialect: Dialect,
  maxBytes: number,
): Promise<ToolResult> {
  const type = (response.headers.get('content-type') ?? '').split(';', 1)[0]!.trim().toLowerCase();
  if (type === 'text/event-stream') {
    await response.body?.cancel();
    return failed('The route answers with a stream of events that has no end: a tool cannot wait for it');
  }
  const bytes = await readBody(response, maxBytes);
  if (bytes === undefined)
    return failed(
      `The answer is larger than ${maxBytes} bytes: ask for less of it, or raise the option maxResultBytes`,
    );
  if (response.status >= 400) return refusal(response, type, bytes, tool);
  const result =
    type === CONTENT_TYPE ? ownContent(bytes, dialect) : plain(response, type, bytes, tool, dialect);
  const isIncomplete = result.structuredContent === undefined && tool.output.schema(dialect) !== undefined;
  return isIncomplete ? { ...result, isError: true } : result;
}

export function misunderstood(issues: readonly Issue[], tool: PlannedTool): ToolResult {
  const detail = `The arguments have ${issues.length} problem${issues.length === 1 ? '' : 's'}`;
  return { ...failed(summary(400, { detail, errors: issues }, tool)), _meta: { 'svc/status': 400 } };
}

export function failed(text: string): ToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

function plain(
  response: Response,
  type: string,
  bytes: Buffer,
  tool: PlannedTool,
  dialect: Dialect,
): ToolResult {
  if (bytes.length === 0) return { content: [{ type: 'text', text: emptyAnswer(response) }] };
  if (isJson(type)) {
    const text = bytes.toString();
    const value = jsonOf(text);
    const structuredContent = value === undefined ? undefined : tool.output.structure(value, dialect);
    return defined({ content: [{ type: 'text', text }], structuredContent });
  }
  return { content: [partOf(type, bytes, tool, dialect)] };
}

function emptyAnswer({ status, headers }: Response): string {
  const location = headers.get('location');
  return `${status} ${http.STATUS_CODES[status] ?? ''}`.trim() + (location === null ? '' : `: ${location}`);
}

function partOf(type: string, bytes: Buffer, tool: PlannedTool, dialect: Dialect): ToolContentPart {
  if (type.startsWith('image/') && type !== 'image/svg+xml')
    return { type: 'image', data: bytes.toString('base64'), mimeType: type };
  if (type.startsWith('audio/') && dialect.hasAnnotations)
    return { type: 'audio', data: bytes.toString('base64'), mimeType: type };
  if (type === '' || type.startsWith('text/') || TEXTS.test(type))
    return { type: 'text', text: bytes.toString() };
  return {
    type: 'resource',
    resource: { uri: `svc://results/${tool.name}`, mimeType: type, blob: bytes.toString('base64') },
  };
}

const TEXTS =
  /^(?:application\/(?:xml|javascript|yaml|x-ndjson|jsonl|x-www-form-urlencoded)|[a-z]+\/[\w.-]+\+(?:xml|yaml))$/;

/** Converts a {@link ToolContent}. Types that the protocol version lacks become text. */
function ownContent(bytes: Buffer, dialect: Dialect): ToolResult {
  const { content } = JSON.parse(bytes.toString()) as { content: readonly ToolContentPart[] };
  return {
    content: content.map((part) =>
      (part.type === 'audio' && !dialect.hasAnnotations) ||
      (part.type === 'resource_link' && !dialect.hasStructure)
        ? { type: 'text', text: JSON.stringify(part) }
        : part,
    ),
  };
}

function refusal(response: Response, type: string, bytes: Buffer, tool: PlannedTool): ToolResult {
  const text = bytes.toString();
  const document = isJson(type) ? jsonOf(text) : undefined;
  if (!isRecord(document))
    return failed([summary(response.status, {}, tool), text].filter((part) => part !== '').join('\n'));
  const retry = response.headers.get('retry-after');
  const head =
    summary(response.status, document, tool) + (retry === null ? '' : `\nTry again in ${retry} seconds`);
  const result = failed(head);
  return { ...result, content: [...result.content, { type: 'text', text }] };
}

/** Returns one line for the error, then one line for each invalid argument. */
function summary(status: number, document: JsonObject, tool: PlannedTool): string {
  const { title = http.STATUS_CODES[status] ?? 'Error', detail, errors } = document;
  const head = `${status} ${String(title)}` + (typeof detail === 'string' ? `: ${detail}` : '');
  const lines = Array.isArray(errors)
    ? errors
        .filter(isIssue)
        .slice(0, MAX_ISSUES)
        .map(({ loc, message }) => `- ${tool.arguments.placeOf(loc)}: ${message}`)
    : [];
  return [head, ...lines].join('\n');
}

const MAX_ISSUES = 50;

function isIssue(value: unknown): value is Issue {
  return isRecord(value) && Array.isArray(value['loc']) && typeof value['message'] === 'string';
}

function isJson(type: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json$/.test(type);
}

/** Returns the whole body, or undefined when it is larger than `maxBytes`. */
async function readBody(response: Response, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (response.body === null) return Buffer.alloc(0);
  for await (const chunk of response.body) {
    length += chunk.length;
    if (length > maxBytes) return undefined; // leaving the loop cancels the body
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

/** One part of a result. The binary values `data` and `blob` are base64. */
export type ToolContentPart =
  | { readonly type: 'text'; readonly text: string; readonly annotations?: ToolAudience }
  | {
      readonly type: 'image' | 'audio';
      readonly data: string;
      readonly mimeType: string;
      readonly annotations?: ToolAudience;
    }
  | {
      readonly type: 'resource_link';
      readonly uri: string;
      readonly name: string;
      readonly description?: string;
      readonly mimeType?: string;
      readonly annotations?: ToolAudience;
    }
  | {
      readonly type: 'resource';
      readonly resource:
        | { readonly uri: string; readonly mimeType?: string; readonly text: string }
        | { readonly uri: string; readonly mimeType?: string; readonly blob: string };
      readonly annotations?: ToolAudience;
    };

/** The audience and the priority of a content part. */
export interface ToolAudience {
  /** For whom the content is. */
  readonly audience?: readonly ('user' | 'assistant')[];
  /** Importance of the part, from 0 to 1. */
  readonly priority?: number;
}

/** Media type of a {@link ToolContent} response. @internal */
const CONTENT_TYPE = 'application/vnd.svc.tool-content+json';

/**
 * A response whose content becomes the tool's result unchanged:
 * `return new ToolContent([{ type: 'image', data, mimeType: 'image/png' }])`. A request over HTTP gets the
 * content as JSON.
 */
export class ToolContent extends JSONResponse {
  constructor(content: readonly ToolContentPart[]) {
    super({ content }, { mediaType: CONTENT_TYPE });
  }
}
