/**
 * Answers of a provider that must be JSON: status 200, a JSON media type, valid UTF-8, and the form expected.
 */
import { isRecord } from '../../base/options.ts';
import { parseValue } from '../../crypto/jwt-json.ts';
import { ProviderFault } from './failure.ts';
import type { OutboundAnswer } from './outbound.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The JSON value of an answer. `what` begins the reason of a failure. @throws ProviderFault `provider_error` */
export function jsonValue(what: string, answer: OutboundAnswer): unknown {
  if (answer.status !== 200) throw new ProviderFault('provider_error', `${what}_status_${answer.status}`);
  if (!isJson(answer.mediaType)) throw new ProviderFault('provider_error', `${what}_media_type`);
  let text: string;
  try {
    text = utf8.decode(answer.body);
    JSON.parse(text);
  } catch {
    throw new ProviderFault('provider_error', `${what}_not_json`); // without the cause, which quotes the text
  }
  const value = parseValue(text);
  if (value === undefined) throw new ProviderFault('provider_error', `${what}_ambiguous_json`); // a member twice: readers differ in which one counts
  return value;
}

/** The JSON object of an answer. @throws ProviderFault `provider_error` */
export function jsonObject(what: string, answer: OutboundAnswer): Record<string, unknown> {
  const value = jsonValue(what, answer);
  if (!isRecord(value)) throw new ProviderFault('provider_error', `${what}_not_object`);
  return value;
}

/** `application/json`, or any type with its suffix (RFC 6839 §3.1). */
export function isJson(mediaType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json$/.test(mediaType);
}

/** An object without its members that are null, which say nothing: some providers write every member that they know of. */
export function withoutNulls(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}
