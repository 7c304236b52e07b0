/**
 * Parameters of the OAuth endpoints: each at most once (RFC 6749 §3.1, §3.2), and limited in length.
 */
import { OAuthError } from './errors.ts';
import { parseObject } from '../crypto/jwt-json.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { MultiMap } from '../http/request/query.ts';

const MAX_LENGTH = 4_096;
const MAX_BODY_BYTES = 16_384;

/** Returns a parameter; an empty one counts as absent (RFC 6749 §3.1). Longer ones than `maxLength`, by default 4,096, are refused. */
export type Parameters = (name: string, maxLength?: number) => string | undefined;

/** Parameters of a query or form. @throws OAuthError `invalid_request` for a repeated or too long parameter */
export function parametersOf(from: MultiMap): Parameters {
  return (name, maxLength = MAX_LENGTH) => {
    const values = from.getAll(name);
    if (values.length > 1)
      throw new OAuthError('invalid_request', {
        description: `The parameter ${name} is there more than once`,
      });
    const [value] = values;
    if (value !== undefined && value.length > maxLength)
      throw new OAuthError('invalid_request', { description: `The parameter ${name} is too long` });
    return value === '' ? undefined : value;
  };
}

/** Parameters of a body, which is a form or a JSON object of strings; none without a body. @throws HTTPException 400, 413, 415 */
export async function bodyParameters(req: HttpRequest): Promise<Parameters> {
  const type = req.headers['content-type'];
  const options = { maxBytes: MAX_BODY_BYTES };
  if (type === undefined && (await req.body(options)).length === 0) return () => undefined;
  if (type === undefined || !/^application\/(?:[\w.+-]*\+)?json\s*(?:;|$)/i.test(type))
    return parametersOf(await req.form(options));
  await req.json(options); // throws for invalid JSON, with the position
  const body = parseObject(await req.text(options));
  if (body === undefined)
    throw new OAuthError('invalid_request', {
      description: 'The body has to be a JSON object without duplicate members',
    });
  return (name, maxLength = MAX_LENGTH) => {
    const value: unknown = Object.hasOwn(body, name) ? body[name] : undefined;
    if (value === undefined || value === null || value === '') return undefined;
    if (typeof value !== 'string' || value.length > maxLength)
      throw new OAuthError('invalid_request', {
        description: `The parameter ${name} is a string of at most ${maxLength} characters`,
      });
    return value;
  };
}
