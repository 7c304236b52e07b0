/**
 * Checks the header fields that MCP requests over HTTP have since protocol version 2026-07-28. Proxies read
 * these fields instead of the body, so the fields must match the body (MCP 2026-07-28, Streamable HTTP).
 *
 * Each of these header fields repeats a value of the body:
 *   - MCP-Protocol-Version repeats the version in `_meta`.
 *   - Mcp-Method repeats `method`.
 *   - Mcp-Name repeats `params.name` in tools/call and prompts/get, and `params.uri` in resources/read.
 *
 * Mcp-Param-NAME repeats an argument of tools/call, if the tool says so with `paramHeaders`.
 *
 * A value that is not printable ASCII is sent in the form `=?base64?...?=`.
 */
import { HEADER_MISMATCH, RpcError, modernDialect, unsupportedVersion } from './messages.ts';
import { McpDispatcher } from './server.ts';
import { own } from '../base/options.ts';
import { isAsciiValue } from '../http/headers.ts';
import { record } from '../openapi/reader.ts';
import { fromBase64 } from '../schema/formats.ts';
import type { RpcRequest } from './messages.ts';
import type { HeaderView } from '../http/headers.ts';

/** The member of `params` whose value the header field Mcp-Name repeats, by method. */
const NAMED: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

export function issueOfFields(headers: HeaderView, { method, params }: RpcRequest): RpcError | undefined {
  const said = headers['mcp-protocol-version'];
  const version = McpDispatcher.versionOf(params);
  if (said === undefined) return mismatch('The field MCP-Protocol-Version is missing');
  if (typeof version !== 'string')
    return modernDialect(said) === undefined ? unsupportedVersion(said) : undefined;
  if (said !== version) return differs('MCP-Protocol-Version', said, version);
  // an unknown version is refused later, by readModern()
  if (modernDialect(version) === undefined) return undefined;
  const named = headers['mcp-method'];
  if (named === undefined) return mismatch('The field Mcp-Method is missing');
  if (named !== method) return differs('Mcp-Method', named, method);
  const key = own(NAMED, method);
  const name = key === undefined ? undefined : params[key];
  if (typeof name !== 'string') return undefined;
  const given = headers['mcp-name'];
  if (given === undefined) return mismatch('The field Mcp-Name is missing');
  const decoded = decode(given);
  if (decoded === undefined)
    return mismatch('The field Mcp-Name has characters that are not allowed: send it as =?base64?...?=');
  return decoded === name ? undefined : differs('Mcp-Name', decoded, name);
}

/** Returns an error if the header fields do not match the arguments that a tool wants to see repeated. */
export function issueOfParams(
  headers: HeaderView,
  repeated: readonly (readonly [argument: string, header: string])[],
  given: unknown,
): RpcError | undefined {
  for (const [argument, header] of repeated) {
    const field = `Mcp-Param-${header}`;
    const value = record(given)[argument] ?? undefined;
    const said = headers[field.toLowerCase()];
    if (value === undefined && said === undefined) continue;
    if (said === undefined) return mismatch(`The field ${field} is missing`);
    const decoded = decode(said);
    if (decoded === undefined)
      return mismatch(`The field ${field} is neither printable ASCII nor valid base64 in =?base64?...?=`);
    const wanted = typeof value === 'object' ? JSON.stringify(value) : String(value ?? '');
    if (decoded !== wanted) return differs(field, decoded, wanted);
  }
  return undefined;
}

/**
 * Decodes a header field: either printable ASCII, or base64 in the form `=?base64?...?=`. Returns
 * undefined for other values.
 */
function decode(value: string): string | undefined {
  if (!isAsciiValue(value)) return undefined;
  if (!value.startsWith('=?base64?') || !value.endsWith('?=')) return value;
  const bytes = fromBase64(value.slice('=?base64?'.length, -'?='.length));
  return bytes && Buffer.from(bytes).toString();
}

function mismatch(problem: string): RpcError {
  return new RpcError(HEADER_MISMATCH, `Header mismatch: ${problem}`);
}

function differs(field: string, said: string, wanted: string): RpcError {
  return mismatch(`${field} says '${said.slice(0, 200)}', the message '${wanted.slice(0, 200)}'`);
}
