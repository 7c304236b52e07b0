/**
 * Idempotency keys (draft-ietf-httpapi-idempotency-key-header-07). A client that does not know whether its
 * request arrived sends it again with the same key. The request is executed once, in one of the processes
 * that share the store.
 *
 * For a request with a new key, the middleware stores a claim: a record that this key is in use. It executes
 * the request, and then stores the response for ttlSeconds.
 *
 * While the first request with a key runs, a repeated request gets 409 with Retry-After. After that, a
 * repeated request gets the stored response with `Idempotency-Replayed: true`, if the guards of the route
 * still accept its credentials. A different request with the
 * same key gets 422.
 *
 * After a response with 5xx, 401, 408, 421, 424, 425, 428 or 429, the record of the key is deleted, so that a
 * repeated request is executed again.
 *
 * The record of a running request expires after leaseSeconds, and is renewed while the handler runs. If the
 * process dies, the record expires, and the next attempt executes the request again. So a request may be
 * executed twice if the process dies just before it stores the response.
 */
import { sharedCounter } from '../../observability/metrics.ts';
import { createHash, randomUUID } from 'node:crypto';
import { BadRequest, Conflict, HTTPException, UnprocessableContent } from '../../base/errors.ts';
import { bool, given, int, isFunction, readOptions, shown, text, outOfRange } from '../../base/options.ts';
import { MemoryRecordStore, recordMembers } from '../../cache/stores.ts';
import { clientOf } from '../request/proxy.ts';
import { HeaderList, isMethods, isToken } from '../headers.ts';
import { OneApplication } from '../pipeline.ts';
import { isServedByMany } from '../../base/config.ts';
import { TransportRequest } from '../request/request.ts';
import { SESSION } from '../state.ts';
import { HttpResponse, fieldOf, lengthOf } from '../response.ts';
import { isChunks } from '../chunks.ts';
import type { RecordStore } from '../../cache/stores.ts';
import type { Finding } from '../../base/findings.ts';
import type { Counter } from '../../observability/metrics.ts';
import type {
  Awaitable,
  CompiledRoute,
  CompiledView,
  HttpRequest,
  Middleware,
  Next,
  Services,
} from '../contracts.ts';

/** Options of {@link IdempotencyMiddleware}. An option that is `undefined` has its default. */
export interface IdempotencyOptions {
  /** Name of the request header field that contains the key. Default `Idempotency-Key`. */
  readonly header?: string | undefined;
  /** Lifetime of a stored response in seconds, 1 ... 31_536_000. Default 86_400. */
  readonly ttlSeconds?: number | undefined;
  /**
   * Returns the owner of the key as a text, so that a client never gets the response of another client. Use
   * only verified data. Default, and if the result is undefined: the client's credentials, which are
   * `Authorization`, the credentials that the route accepts, and the session. If there are none: all cookies
   * together, or else the address.
   */
  readonly principal?: ((req: HttpRequest) => Awaitable<string | undefined>) | undefined;
  /** Store that all processes share. Default: 10_000 records in the memory of this process. */
  readonly store?: RecordStore | undefined;
  /** Methods of the requests that may have a key. Default POST and PATCH. */
  readonly methods?: readonly string[] | undefined;
  /** Whether a request without a key is refused with 400. Default false. */
  readonly required?: boolean | undefined;
  /**
   * Maximum size in bytes of the body of a request with a key, 0 ... 1_000_000_000. Default 1_000_000; a
   * larger body gets 413. The body is read whole before the handler runs.
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * Maximum size in bytes of a stored response, header fields and body, 0 ... 16_777_216. Default 65_536. If
   * a response is larger, only its status is stored, and a repeated request gets 409.
   */
  readonly maxAnswerBytes?: number | undefined;
  /**
   * Time in seconds after which a request may be executed again if the process that executed it died, 1 ...
   * 3_600. Default 30.
   */
  readonly leaseSeconds?: number | undefined;
}

const MEMORY_RECORDS = 10_000;
/**
 * The record of a running request is renewed whenever a third of its lifetime has passed, so one failed
 * renewal does no harm.
 */
const RENEWALS = 3;

type Fate = 'executed' | 'replayed' | 'in_progress' | 'mismatch' | 'answer_lost';

/** The store has `text` under `key`. `print` is the fingerprint of the request. */
interface Claim {
  readonly key: string;
  readonly print: string;
  readonly text: string;
}

/**
 * Executes requests with the same idempotency key only once. Routes with `meta: { idempotency: false }`
 * ignore the key. This is useful for routes with large bodies.
 */
export class IdempotencyMiddleware implements Middleware {
  readonly kind = 'idempotency';
  /** Whether the option `principal` is set. */
  readonly knowsPrincipal: boolean;
  readonly #application = new OneApplication();
  /** Name of the request header field that contains the key. */
  readonly header: string;
  readonly #field: string;
  readonly #principal: IdempotencyOptions['principal'];
  readonly #methods: ReadonlySet<string>;
  /** Whether a request without a key is refused. */
  readonly isRequired: boolean;
  readonly #limits: {
    readonly ttlMs: number;
    readonly leaseMs: number;
    readonly maxBodyBytes: number;
    readonly maxAnswerBytes: number;
  };
  #store: RecordStore | undefined;
  readonly #isShared: boolean;
  #services!: Services;
  #counter!: Counter;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: IdempotencyOptions = {}) {
    const owner = 'IdempotencyMiddleware';
    const read = readOptions(owner, options, {
      header: text('Idempotency-Key'),
      ttlSeconds: int(86_400, 1, 31_536_000),
      required: bool(false),
      leaseSeconds: int(30, 1, 3_600),
      principal: given<NonNullable<IdempotencyOptions['principal']>>('a function', isFunction),
      store: given<RecordStore>(
        'a RecordStore',
        (value) => typeof (value as Partial<RecordStore> | null)?.add === 'function',
      ),
      methods: given<readonly string[]>('a list of methods in capitals', isMethods),
      maxBodyBytes: int(1_000_000, 0, 1_000_000_000),
      maxAnswerBytes: int(65_536, 0, 16_777_216),
    });
    if (!isToken(read.header))
      throw outOfRange(owner, 'header', 'must be the name of a header field', JSON.stringify(read.header));
    this.header = read.header;
    this.#field = read.header.toLowerCase();
    this.#principal = read.principal;
    this.knowsPrincipal = read.principal !== undefined;
    this.#methods = new Set(read.methods ?? ['POST', 'PATCH']);
    this.isRequired = read.required;
    this.#limits = {
      ttlMs: read.ttlSeconds * 1_000,
      leaseMs: read.leaseSeconds * 1_000,
      maxBodyBytes: read.maxBodyBytes,
      maxAnswerBytes: read.maxAnswerBytes,
    };
    this.#store = read.store;
    this.#isShared = read.store !== undefined && !(read.store instanceof MemoryRecordStore);
  }

  /** Maximum size in bytes of a body with a key. @internal */
  get maxBodyBytes(): number {
    return this.#limits.maxBodyBytes;
  }

  /** Whether this middleware processes the idempotency keys of requests to a route. @internal */
  covers({ method, meta }: CompiledRoute): boolean {
    return this.#methods.has(method) && meta['idempotency'] !== false;
  }

  handle(req: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const { route } = req;
    if (route === undefined || !this.covers(route)) return next();
    const field = fieldOf(req, this.#field);
    if (field === undefined) {
      if (!this.isRequired) return next();
      throw new BadRequest(
        `This request needs the header field ${this.header}: choose a unique text for each request, and send the same text when you repeat the request`,
        { code: 'idempotency_key_absent' },
      );
    }
    const key = readIdempotencyKey(field);
    if (key === undefined)
      throw new BadRequest(
        `The header field ${this.header} must be one string of 1 to 255 characters in quotation marks`,
        { code: 'idempotency_key_malformed' },
      );
    return this.#once(req, route, key, next);
  }

  *compile(view: CompiledView): Iterable<Omit<Finding, 'place'>> {
    const subject = 'middleware idempotency';
    const stranger = this.#application.claim(subject, view);
    if (stranger !== undefined) return yield stranger;
    this.#services = view.services;
    this.#counter = sharedCounter(
      view.services.metrics,
      'svc_idempotent_requests_total',
      'Requests with an idempotency key, by outcome',
      ['fate'],
    );
    this.#store ??= new MemoryRecordStore({ maxRecords: MEMORY_RECORDS, clock: view.services.clock });
    if (!this.#isShared && isServedByMany(view)) {
      yield {
        rule: 'SVC403',
        severity: 'warning',
        subject,
        message:
          'the stored responses are in the memory of one process, so a repeated request that reaches another process is executed again',
        remedy:
          'Use a store that all processes share: new IdempotencyMiddleware({ store: new DatabaseRecordStore(plugin) }), where plugin is the DatabasePlugin',
      };
    }
    const inner = view.middleware.slice(view.middleware.indexOf(this) + 1);
    const bypassed = inner.find(({ kind }) => kind === 'session' || kind === 'csrf');
    if (bypassed !== undefined) {
      yield {
        rule: 'SVC121',
        severity: 'error',
        subject,
        message: `the middleware "${bypassed.kind}" runs after IdempotencyMiddleware, so a repeated request gets the stored response before that middleware has checked the client`,
        remedy: `Register ${bypassed.constructor.name} before IdempotencyMiddleware`,
      };
    }
    if (inner.some(({ kind }) => kind === 'compression')) {
      yield {
        rule: 'SVC121',
        severity: 'warning',
        subject,
        message:
          'the middleware "compression" runs after IdempotencyMiddleware, so stored responses are compressed, although clients that repeat a request may not accept the compression',
        remedy: 'Register CompressionMiddleware before IdempotencyMiddleware',
      };
    }
  }

  async #once(req: HttpRequest, route: CompiledRoute, clientKey: string, next: Next): Promise<HttpResponse> {
    const { maxBodyBytes: maxBytes } = this.#limits;
    const body = await (req instanceof TransportRequest
      ? req.wholeBody({ maxBytes })
      : req.body({ maxBytes }));
    const print = fingerprint(req.target, fieldOf(req, 'content-type') ?? '', body);
    const key = recordKey([route.method, route.template, clientKey, ...(await this.#senderOf(req, route))]);
    const text = encodeRecord({ kind: 'claimed', print, owner: randomUUID() });
    const store = this.#store!; // `#store` is defined: compile() has set it
    for (let attempt = 0; attempt < 2; attempt++) {
      // add() and get() both fail if the record of another request expires between them; then they are called
      // again
      if (await store.add(key, text, this.#limits.leaseMs))
        return this.#execute(req, { key, print, text }, next);
      const known = await store.get(key);
      if (known !== undefined) return this.#known(req, known, print);
    }
    throw this.#inProgress();
  }

  /**
   * Returns texts that identify the client. The key of the stored record contains them, so that two clients
   * may send equal idempotency keys.
   */
  async #senderOf(req: HttpRequest, { security }: CompiledRoute): Promise<readonly string[]> {
    const principal: unknown = await this.#principal?.(req);
    if (typeof principal === 'string') return ['principal', principal];
    if (principal !== undefined)
      throw outOfRange(
        'IdempotencyMiddleware',
        'principal',
        'must return text or undefined',
        shown(principal),
      );
    const shownByClient: string[] = [];
    const add = (what: string, value: string | undefined): void => {
      if (value !== undefined) shownByClient.push(what, value);
    };
    add('authorization', fieldOf(req, 'authorization'));
    for (const { credential } of security) {
      if (credential !== undefined)
        add(
          credential.name,
          credential.in === 'header'
            ? fieldOf(req, credential.name.toLowerCase())
            : req.cookies[credential.name],
        );
    }
    if (req.state.has(SESSION) && !req.session.isNew) add('session', req.session.id);
    if (shownByClient.length === 0) add('cookie', fieldOf(req, 'cookie'));
    if (shownByClient.length === 0) add('address', clientOf(req.ip));
    return shownByClient;
  }

  async #known(req: HttpRequest, text: string, print: string): Promise<HttpResponse> {
    const record = decodeRecord(text);
    if (record !== undefined && record.print !== print) {
      this.#count('mismatch');
      throw new UnprocessableContent(`The key in ${this.header} has been used for another request`, {
        code: 'idempotency_key_reused',
      });
    }
    if (record?.kind === 'claimed') throw this.#inProgress();
    if (record?.kind === 'answered') {
      const stored = replay(record);
      // the credentials may have ended since the response was stored
      const response = await admitted(req, stored);
      if (response === stored) this.#count('replayed');
      return response;
    }
    this.#count('answer_lost');
    throw new HTTPException(
      409,
      `The request has already been executed${record === undefined ? '' : ` with status ${record.status}`}, but the response was not stored, and cannot be sent again`,
      { code: 'idempotency_answer_lost' },
    );
  }

  #inProgress(): HTTPException {
    this.#count('in_progress');
    return new Conflict(
      'Another request with the same idempotency key is still being executed; repeat the request later',
      { code: 'idempotency_in_progress', headers: { 'Retry-After': '1' } },
    );
  }

  #count(fate: Fate): void {
    this.#counter.add(1, fate);
  }

  async #execute(req: HttpRequest, claim: Claim, next: Next): Promise<HttpResponse> {
    this.#count('executed');
    const lease = this.#keep(claim);
    const response = await next(); // next() never rejects, so no try is needed
    const late = req instanceof TransportRequest ? req.late : undefined;
    if (late === undefined) await this.#finish(claim, lease, response);
    else {
      // the time limit has passed, so the client got 503. The handler still runs, and its response is stored
      void late.then((answer) =>
        (req as TransportRequest).afterwards(() => this.#finish(claim, lease, answer)),
      );
    }
    return response;
  }

  /**
   * Renews the claim regularly, until the returned object is disposed of or another process has replaced the
   * claim.
   */
  #keep({ key, text }: Claim): Disposable {
    const { clock, log } = this.#services;
    const { leaseMs } = this.#limits;
    let isOver = false;
    let timer: Disposable;
    const renew = async (): Promise<void> => {
      try {
        // replace() returns false if another process has replaced the claim; then #finish() logs this
        if (await this.#store!.replace(key, text, text, leaseMs)) schedule();
      } catch (error) {
        log.error('idempotency_store_failed', error);
        schedule();
      }
    };
    const schedule = (): void => {
      if (!isOver) timer = clock.after(leaseMs / RENEWALS, () => void renew());
    };
    schedule();
    return {
      [Symbol.dispose]() {
        isOver = true;
        timer[Symbol.dispose]();
      },
    };
  }

  /** If the store fails, the response is still sent, and the claim expires later. */
  async #finish({ key, print, text }: Claim, lease: Disposable, response: HttpResponse): Promise<void> {
    lease[Symbol.dispose]();
    try {
      // if the status is not final, a lifetime of 0 deletes the claim, unless another process has replaced it
      const isKept = isFinal(response.status)
        ? await this.#store!.replace(
            key,
            text,
            encodeRecord(recordOf(response, print, this.#limits.maxAnswerBytes)),
            this.#limits.ttlMs,
          )
        : await this.#store!.replace(key, text, text, 0);
      if (!isKept) this.#services.log.warn('idempotency_lease_lost', { status: response.status });
    } catch (error) {
      this.#services.log.error('idempotency_store_failed', error, { status: response.status });
    }
  }
}

async function admitted(req: HttpRequest, stored: HttpResponse): Promise<HttpResponse> {
  if (!(req instanceof TransportRequest) || req.match.kind !== 'found') return stored;
  return (await req.match.endpoint.admit?.(req, stored)) ?? stored;
}

/**
 * The stored record of a request. It is `claimed` while a process executes the request. After that it is
 * `answered` and contains the response. If the response is a stream or too large, the record is `done` and
 * contains only the status. `print` is the fingerprint of the request.
 */
export type IdempotencyRecord =
  | { readonly kind: 'claimed'; readonly print: string; readonly owner: string }
  | {
      readonly kind: 'answered';
      readonly print: string;
      readonly status: number;
      readonly fields: readonly string[];
      readonly body: string | Uint8Array | null;
    }
  | { readonly kind: 'done'; readonly print: string; readonly status: number };

/** Maximum length of the header field in characters. A longer field is invalid. */
const MAX_FIELD = 1_024;
const MAX_KEY = 255;
/**
 * A string in quotation marks, as in structured fields. Parameters that follow the string are ignored (RFC
 * 9651 §3.3.3).
 */
const QUOTED =
  /^"((?:[ !#-[\]-~]|\\["\\])*)"(?: *; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[ !#-[\]-~]|\\["\\])*"|[^";, ]+))?)*$/;
/** A key without quotation marks. The draft requires them, but many clients omit them. */
const BARE = /^[A-Za-z0-9._~:+=@/-]+$/;

/**
 * Parses an `Idempotency-Key` field (draft-ietf-httpapi-idempotency-key-header-07 §2.1): a quoted string of 1
 * ... 255 characters. The quotation marks may be missing. Returns undefined for all other text, for example
 * two keys.
 */
export function readIdempotencyKey(field: string): string | undefined {
  if (field.length > MAX_FIELD) return undefined;
  const text = field.trim();
  const quoted = QUOTED.exec(text);
  const key = quoted !== null ? quoted[1]!.replace(/\\(.)/g, '$1') : BARE.test(text) ? text : '';
  return key.length > 0 && key.length <= MAX_KEY ? key : undefined;
}

/**
 * Returns the key of a record: a hash of `parts`, which are the method, the route, the client and the sent
 * key. So two clients never share a record, and the store contains no credentials.
 */
export function recordKey(parts: readonly string[]): string {
  return `idempotency:${createHash('sha256').update(JSON.stringify(parts)).digest('base64url')}`;
}

/** Detects different requests with the same key. */
export function fingerprint(target: string, contentType: string, body: Uint8Array): string {
  return createHash('sha256')
    .update(`${JSON.stringify([target, contentType])}\n`)
    .update(body)
    .digest('base64url');
}

/**
 * Header fields that are not stored, because they concern only one client, one connection or one point in
 * time.
 */
const UNKEPT_FIELDS =
  /^(?:set-cookie|date|age|x-request-id|traceparent|tracestate|ratelimit.*|x-ratelimit-.*|access-control-.*)$/i;
/** Statuses below 500 that are not stored, so that a repeated request is executed again. */
const UNKEPT_STATUSES: ReadonlySet<number> = new Set([401, 408, 421, 424, 425, 428, 429]);

/** Whether a repeated request gets the stored response, and is not executed again. */
export function isFinal(status: number): boolean {
  return status < 500 && !UNKEPT_STATUSES.has(status);
}

/** A stream, or a response that exceeds `maxBytes`, is recorded by its status only. */
export function recordOf(response: HttpResponse, print: string, maxBytes: number): IdempotencyRecord {
  const { status, body } = response;
  const fields: string[] = [];
  let bytes = 0;
  for (const [name, value] of response.headers) {
    if (UNKEPT_FIELDS.test(name)) continue;
    fields.push(name, value);
    bytes += name.length + value.length;
  }
  if (isChunks(body)) return { kind: 'done', print, status };
  bytes += body === null ? 0 : lengthOf(response);
  return bytes > maxBytes
    ? { kind: 'done', print, status }
    : { kind: 'answered', print, status, fields, body };
}

export function replay({
  status,
  fields,
  body,
}: IdempotencyRecord & { readonly kind: 'answered' }): HttpResponse {
  const response = new HttpResponse(body, { status });
  for (const [name, value] of new HeaderList([...fields])) response.headers.append(name, value);
  response.headers.set('Idempotency-Replayed', 'true');
  return response;
}

/** Encodes a record as text for the store. */
export function encodeRecord(record: IdempotencyRecord): string {
  if (record.kind !== 'answered' || !(record.body instanceof Uint8Array)) return JSON.stringify(record);
  return JSON.stringify({ ...record, body: undefined, bytes: Buffer.from(record.body).toString('base64') });
}

/** Returns undefined for other text, such as a record of another version of the framework. */
export function decodeRecord(text: string): IdempotencyRecord | undefined {
  const { kind, print, owner, status, fields, body, bytes } = recordMembers(text);
  if (typeof print !== 'string') return undefined;
  if (kind === 'claimed' && typeof owner === 'string') return { kind, print, owner };
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 599) return undefined;
  const dealt = { print, status: status as number };
  if (kind === 'done') return { kind, ...dealt };
  if (kind !== 'answered' || !Array.isArray(fields) || !fields.every((field) => typeof field === 'string'))
    return undefined;
  const answered = { kind, ...dealt, fields: fields as readonly string[] } as const;
  if (typeof body === 'string' || body === null) return { ...answered, body };
  return typeof bytes === 'string' ? { ...answered, body: Buffer.from(bytes, 'base64') } : undefined;
}
