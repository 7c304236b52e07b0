/**
 * What a handler can tell whoever called it as a tool while it works: how far it is, and what happens. For everybody else it
 * tells nobody, so that a route need not know how it was called.
 */
import { stateKey } from '../http/state.ts';
import type { Context, StateKey } from '../http/contracts.ts';

/** How far a call is: a number that grows, the number at which it is done, and a sentence for people. */
export type ToolProgress = (progress: number, total?: number, message?: string) => void;

/** How grave a message of a tool is (RFC 5424 §6.2.1), the least first. */
export const TOOL_LOG_LEVELS = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
] as const;
/** One of them. */
export type ToolLogLevel = (typeof TOOL_LOG_LEVELS)[number];
/** Tells the client what happens: any JSON value, by a name of yours. No secrets: models read it. */
export type ToolLog = (level: ToolLogLevel, data: unknown, logger?: string) => void;

/** Who listens to a call. @internal */
export interface ToolListener {
  progress(progress: number, total: number | undefined, message: string | undefined): void;
  log(level: ToolLogLevel, data: unknown, logger: string | undefined): void;
}

/** There for requests that are calls of tools. @internal */
export const TOOL_LISTENER: StateKey<ToolListener> = stateKey('toolListener');

/** `{ progress: Depends(toolProgress) }`: tells an MCP client that asked for it how far the call is. What does not grow is not told. */
export function toolProgress({ state }: Context): ToolProgress {
  if (!state.has(TOOL_LISTENER)) return nothing;
  const listener = state.get(TOOL_LISTENER);
  return (progress, total, message) => listener.progress(progress, total, message);
}

/** `{ tell: Depends(toolLog) }`: tells an MCP client that asked for it what happens. */
export function toolLog({ state }: Context): ToolLog {
  if (!state.has(TOOL_LISTENER)) return nothing;
  const listener = state.get(TOOL_LISTENER);
  return (level, data, logger) => listener.log(level, data, logger);
}

function nothing(): void {
  /* nobody has asked */
}
