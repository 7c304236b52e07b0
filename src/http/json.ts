/**
 * JSON out: `JSON.stringify` with what it lacks settled. Bigints are decimal strings, and a value that has no JSON form, or
 * contains itself, is an error that says where. Inside of objects JSON.stringify alone decides: a Map or a Set there is `{}`.
 */
import { SvcError } from '../errors.ts';
import { slowJson } from './slow-json.ts';

/** The JSON text of a value. @throws SvcError `E_REPLY` with the place of a cycle, or of what cannot be JSON */
export function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    text = slowJson(value);
  }
  if (text === undefined) throw new SvcError('E_REPLY', [`${describe(value)} has no JSON form`]);
  return text;
}

function describe(value: unknown): string {
  return typeof value === 'function' ? `the function ${value.name || '(anonymous)'}` : `a value of type ${typeof value}`;
}
