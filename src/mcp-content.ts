/**
 * Content of a tool's result: text, pictures, sounds, files and links, where a reply of its own does not say it all.
 */
import { JSONResponse } from './http/response.ts';

/** One part of a result. Binary `data` and `blob` are base64. */
export type ToolContentPart =
  | { readonly type: 'text'; readonly text: string; readonly annotations?: ToolAudience }
  | { readonly type: 'image' | 'audio'; readonly data: string; readonly mimeType: string; readonly annotations?: ToolAudience }
  | { readonly type: 'resource_link'; readonly uri: string; readonly name: string; readonly description?: string; readonly mimeType?: string; readonly annotations?: ToolAudience }
  | { readonly type: 'resource'; readonly resource: { readonly uri: string; readonly mimeType?: string; readonly text: string } | { readonly uri: string; readonly mimeType?: string; readonly blob: string }; readonly annotations?: ToolAudience };

/** For whom a part is, and how much it matters. */
export interface ToolAudience {
  readonly audience?: readonly ('user' | 'assistant')[];
  /** 0 … 1. */
  readonly priority?: number;
}

/** What marks such a reply on its way through the pipeline. @internal */
export const CONTENT_TYPE = 'application/vnd.svc.tool-content+json';

/**
 * A reply whose content a tool gives as it is: `return new ToolContent([{ type: 'image', data, mimeType: 'image/png' }])`. Whoever
 * calls the route as a route gets the same as JSON.
 */
export class ToolContent extends JSONResponse {
  constructor(content: readonly ToolContentPart[]) {
    super({ content }, { mediaType: CONTENT_TYPE });
  }
}
