/**
 * Preconditions of requests (RFC 9110 §13). If the client already has the content, the response is a 304. If
 * the client requires that the resource is unchanged, but it has changed, the response is a 412.
 *
 * `If-Match` overrides `If-Unmodified-Since`, and `If-None-Match` overrides `If-Modified-Since`. Ranges are
 * applied after the preconditions.
 */
import { systemClock } from '../../base/clock.ts';
import { HTTPException, SvcError } from '../../base/errors.ts';
import { httpDate, parseHttpDate } from '../headers.ts';
import type { HttpRequest } from '../contracts.ts';
import { fieldOf, type Answered } from '../response.ts';

/** Validators of a resource: the values of `ETag` and `Last-Modified`. */
export interface Validators {
  /** Entity tag, `"..."` or `W/"..."`. A weak tag (`W/`) may stay unchanged when the content changes. */
  readonly etag: string | undefined;
  readonly lastModified: string | undefined;
}

/** State of a resource for {@link checkPreconditions}: the validators that a GET response would contain. */
export interface CurrentState {
  /** The value of `ETag` with its quotes: `'"v3"'`. A weak tag (`'W/"v3"'`) never matches `If-Match`. */
  readonly etag?: string | undefined;
  /** Date of the last change. Only whole seconds are compared. */
  readonly lastModified?: Date | undefined;
}

/** Options of {@link checkPreconditions}. */
export interface PreconditionOptions {
  /**
   * Whether an existing resource may be changed only with `If-Match` or `If-Unmodified-Since`. If so, a
   * request without them gets 428 (RFC 6585 §3). Default false.
   */
  readonly isRequired?: boolean | undefined;
}

/**
 * Refuses a request whose preconditions fail. Call it before a handler of PUT, PATCH or DELETE changes the
 * resource, so that a client does not overwrite changes that it has not seen. `current` is the state of the
 * resource; undefined if it does not exist. A client sends `If-None-Match: *` to create a resource only if it
 * does not exist.
 *
 * Example:
 *   const note = await notes.find(params.id);
 *   checkPreconditions(req, { etag: `"${note.version}"` }, { isRequired: true });
 *
 * `If-Match` overrides `If-Unmodified-Since` (RFC 9110 §13.2.2), and matches only strong tags. Another
 * request may change the resource after this check. So make the change itself depend on the version, too.
 *
 * @throws HTTPException 412 if a precondition fails, 428 if `isRequired` is true and the request has no
 *   precondition; SvcError `E_HEADER` for a tag without quotes
 */
export function checkPreconditions(
  req: HttpRequest,
  current: CurrentState | undefined,
  { isRequired = false }: PreconditionOptions = {},
): void {
  const { headers } = req;
  const match = headers['if-match'];
  if (current === undefined) {
    // even `If-Match: *` fails, because the resource does not exist (RFC 9110 §13.1.1)
    if (match !== undefined) throw preconditionFailed();
    return;
  }
  const { etag, lastModified } = current;
  if (etag !== undefined && !TAG.test(etag))
    throw new SvcError('E_HEADER', [
      'ETag',
      'the entity tag has no quotation marks: write "v3", or W/"v3" for a weak tag',
    ]);
  const validators = {
    etag,
    lastModified: lastModified === undefined ? undefined : httpDate(lastModified.getTime()),
  };
  if (isWithheld(req, validators)) throw preconditionFailed();
  const none = headers['if-none-match'];
  if (none !== undefined && req.method !== 'GET' && req.method !== 'HEAD' && listsTag(none, etag, false))
    // for GET and HEAD, ETagMiddleware sends a 304 instead
    throw preconditionFailed();
  if (isRequired && match === undefined && headers['if-unmodified-since'] === undefined)
    throw new HTTPException(
      428,
      'The request needs the header field If-Match with the current entity tag of the resource',
    );
}

/** Syntax of one entity tag (RFC 9110 §8.8.3). */
const TAG = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/;

function preconditionFailed(): HTTPException {
  return new HTTPException(
    412,
    'The current state of the resource does not meet the preconditions of the request, such as If-Match',
  );
}

/** Returns whether the response is a 304. Applies the preconditions in the order of RFC 9110 §13.2.2. */
export function clientHas(request: Answered, validators: Validators): boolean {
  if (isWithheld(request, validators)) throw preconditionFailed();
  return isKnown(request, validators);
}

/** Whether `If-Match` or, if this field is absent, `If-Unmodified-Since` requires a 412. */
function isWithheld(request: Answered, { etag, lastModified }: Validators): boolean {
  const match = fieldOf(request, 'if-match');
  if (match !== undefined) return !listsTag(match, etag, true);
  const since = fieldOf(request, 'if-unmodified-since');
  return since !== undefined && isUnchangedSince(since, lastModified) === false;
}

/** Whether `If-None-Match` (RFC 9110 §13.1.2) or, if it is absent, `If-Modified-Since` allows a 304. */
function isKnown(request: Answered, { etag, lastModified }: Validators): boolean {
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const none = fieldOf(request, 'if-none-match');
  if (none !== undefined) return none === etag || listsTag(none, etag, false);
  const since = fieldOf(request, 'if-modified-since');
  return since !== undefined && isUnchangedSince(since, lastModified) === true;
}

/**
 * Whether the ranges of a request apply to this content (RFC 9110 §13.1.5). They do not apply if `If-Range`
 * has another tag, another date, or a weak tag. `isDateStrong` is true if every change of the content also
 * changes `lastModified`.
 */
export function isSameForRange(
  request: Answered,
  { etag, lastModified }: Validators,
  isDateStrong: boolean,
): boolean {
  const condition = fieldOf(request, 'if-range');
  if (condition === undefined) return true;
  if (condition.includes('"')) return condition === etag && !condition.startsWith('W/');
  return isDateStrong && condition === lastModified;
}

/** Undefined if one of the dates is invalid or missing, so that the condition must be ignored. */
function isUnchangedSince(since: string, lastModified: string | undefined): boolean | undefined {
  if (lastModified === undefined) return undefined;
  if (since === lastModified) return true;
  const [limit, modified] = [since, lastModified].map((text) => parseHttpDate(text, systemClock.nowMs()));
  return limit === undefined || modified === undefined ? undefined : modified <= limit;
}

/** Whether `list` is `*` or contains the tag. Everything after a malformed member is ignored. */
function listsTag(list: string, etag: string | undefined, isStrong: boolean): boolean {
  if (list.trim() === '*') return true;
  if (etag === undefined || (isStrong && etag.startsWith('W/'))) return false;
  const opaque = etag.startsWith('W/') ? etag.slice(2) : etag;
  const tag = /[ \t,]*(W\/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?=,|$)/y;
  for (let found = tag.exec(list); found !== null; found = tag.exec(list)) {
    if (found[2] === opaque && !(isStrong && found[1] !== undefined)) return true;
  }
  return false;
}
