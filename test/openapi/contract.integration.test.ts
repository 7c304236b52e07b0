/**
 * The application behaves as its document says. Requests are made from the document alone. They are accepted
 * exactly when another JSON Schema implementation accepts them, and every response is documented.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { inspect } from 'node:util';
import { createToken } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { SCOPE, SECRET, addRefusals, generatedApp } from '../support/openapi-app.ts';
import { Referee, inventFrom, placeOf, undocumented, writeTexts } from '../support/openapi-referee.ts';
import { Random } from '../support/schema-reference.ts';
import { scratch } from '../support/scratch.ts';
import { withMessage } from '../support/told.ts';
import type { OpenApiDocument, Operation } from '../../src/index.ts';
import type { Written } from '../support/openapi-referee.ts';

const ROUTES = 150;
const REQUESTS = 25;

/** Texts that a request can contain, by their place in the request. */
const CARRIED = {
  path: (text: string) => text !== '.' && text !== '..' && !/e[+-]?\d+$/.test(text), // numbers in a path have no exponent
  query: () => true,
  header: (text: string) => /^[\x21-\x2b\x2d-\x7e]+$/.test(text), // a comma separates items
  cookie: (text: string) => /^[\w.:@+=-]+$/.test(text),
};

interface MadeRequest {
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: string | FormData | URLSearchParams | undefined;
  /** Expected status; 2 stands for any success. */
  readonly expected: 2 | 400 | 401 | 403 | 404 | 415;
}

/** Makes a request to an operation from the document alone. */
class RequestMaker {
  readonly #random: Random;
  readonly #referee: Referee;
  readonly #tokens: { readonly plain: string; readonly scoped: string };

  constructor(random: Random, referee: Referee) {
    this.#random = random;
    this.#referee = referee;
    this.#tokens = {
      plain: createToken('ada', SECRET),
      scoped: createToken('ada', SECRET, { claims: { scopes: [SCOPE] } }),
    };
  }

  make(template: string, operation: Operation, place: readonly string[]): MadeRequest {
    const headers: Record<string, string> = {};
    const query = new URLSearchParams();
    const cookies: string[] = [];
    let path = template,
      isPath = true,
      fits = true;
    for (const parameter of operation.parameters ?? []) {
      const { name, in: where, schema, required = false } = parameter;
      const written = this.#write(schema, placeOf(place, operation, parameter), required, where);
      if (where === 'path') {
        path = path.replace(`{${name}}`, encodeURIComponent(written.texts[0]!));
        isPath &&= written.fits;
        continue;
      }
      fits &&= written.fits;
      if (where === 'query') for (const text of written.texts) query.append(name, text);
      else if (written.texts.length === 0) continue;
      else if (where === 'header') headers[name] = written.texts.join(', ');
      else cookies.push(`${name}=${written.texts[0]!}`);
    }
    if (cookies.length > 0) headers['Cookie'] = cookies.join('; ');
    const proof = this.#prove(operation, headers);
    const { body, verdict } = this.#body(operation, place, headers);
    const refused = !isPath ? 404 : (proof ?? (verdict === 415 ? 415 : fits ? verdict : 400));
    return { url: `${path}${query.size === 0 ? '' : `?${query}`}`, headers, body, expected: refused };
  }

  #write(
    schema: Readonly<Record<string, unknown>>,
    place: readonly string[],
    isRequired: boolean,
    where: keyof typeof CARRIED,
  ): Written {
    for (;;) {
      const written = writeTexts(
        this.#random,
        schema,
        place,
        isRequired,
        this.#referee,
        CARRIED[where],
        where === 'cookie' ? 1 : Infinity,
      );
      if (where !== 'path' || written.texts.length > 0) return written;
    }
  }

  /** Adds credentials to a request. Returns the status that they should lead to. */
  #prove(
    { security, 'x-svc-requires': requires = [] }: Operation,
    headers: Record<string, string>,
  ): 401 | 403 | undefined {
    if (security.length === 0) return undefined;
    const kind = this.#random.pick([
      'none',
      'wrong',
      'plain',
      'scoped',
      'scoped',
      'scoped',
      'scoped',
    ] as const);
    if (kind !== 'none')
      headers['Authorization'] = `Bearer ${kind === 'wrong' ? 'nonsense' : this.#tokens[kind]}`;
    if (kind === 'none')
      return security.some((alternative) => Object.keys(alternative).length === 0) ? undefined : 401;
    return kind === 'wrong' ? 401 : kind === 'plain' && requires.length > 0 ? 403 : undefined;
  }

  #body(
    { requestBody }: Operation,
    place: readonly string[],
    headers: Record<string, string>,
  ): { readonly body: MadeRequest['body']; readonly verdict: 2 | 400 | 415 } {
    if (requestBody === undefined) return { body: undefined, verdict: 2 };
    const type = this.#random.pick(Object.keys(requestBody.content));
    const media = requestBody.content[type]!;
    const at = [...place, 'requestBody', 'content', type, 'schema'];
    if (this.#random.chance(0.03)) {
      headers['Content-Type'] = 'text/csv';
      return { body: 'a,b', verdict: 415 };
    }
    if (type === 'application/json') {
      headers['Content-Type'] = type;
      const value = inventFrom(this.#random, media.schema, this.#referee);
      return { body: JSON.stringify(value), verdict: this.#referee.fits(at, value) ? 2 : 400 };
    }
    const { properties = {}, required = [] } = media.schema as {
      properties?: Record<string, Record<string, unknown>>;
      required?: string[];
    };
    const form = type === 'multipart/form-data' ? new FormData() : new URLSearchParams();
    let fits = true;
    for (const [name, schema] of Object.entries(properties)) {
      if ('contentMediaType' in schema) {
        if (!required.includes(name) && this.#random.chance(0.5)) continue;
        const [sent, allowed] = [
          this.#random.pick(['image/png', 'text/csv', 'video/mp4']),
          media.encoding?.[name]?.contentType ?? '',
        ];
        (form as FormData).append(name, new File(['content'], 'name', { type: sent }));
        fits &&= allowed
          .split(', ')
          .some(
            (one) => one === sent || one === 'application/octet-stream' || one === `${sent.split('/')[0]!}/*`,
          );
        continue;
      }
      const written = this.#write(schema, [...at, 'properties', name], required.includes(name), 'query');
      for (const text of written.texts) form.append(name, text);
      fits &&= written.fits;
    }
    if (form instanceof FormData && [...form].length === 0) form.append('unknown', 'x'); // undici cannot send an empty form
    return { body: form, verdict: fits ? 2 : 400 };
  }
}

for (const seed of [1, 2]) {
  test(`the server accepts a generated request exactly if the OpenAPI document allows it, and its response is documented (seed ${seed})`, async (t) => {
    const folder = scratch(t, 'ajv', { ajv: '^8.17.0', 'ajv-formats': '^3.0.0' });
    if (folder === undefined) return;
    const app = generatedApp(seed, ROUTES);
    await using client = new TestClient(app);
    const document = (await (await client.get('/openapi.json')).json()) as OpenApiDocument;
    const referee = new Referee(folder, document);
    const random = new Random(seed);
    const maker = new RequestMaker(random, referee);
    const outcomes = new Map<number, number>();
    for (const [template, item] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        const place = ['paths', template, method];
        for (let i = 0; i < REQUESTS; i++) {
          const { url, headers, body, expected } = maker.make(template, operation, place);
          const response = await client.request(method.toUpperCase(), url, {
            headers,
            ...(body === undefined ? {} : { body }),
          });
          const text = await response.text();
          const { status } = response;
          const shown = (): string =>
            inspect({ method, url, headers, body, answer: [status, text], operation }, { depth: 12 });
          const isGood = expected === 2 ? status < 300 || status === 409 : status === expected;
          if (!isGood) assert.fail(`${expected} was expected: ${shown()}`);
          const type = response.headers.get('content-type');
          const missing = undocumented(
            operation,
            place,
            {
              status,
              type,
              body: text === '' ? undefined : (JSON.parse(text) as unknown),
              hasBody: text !== '',
            },
            referee,
          );
          withMessage(() => assert.equal(missing, undefined), shown);
          outcomes.set(expected, (outcomes.get(expected) ?? 0) + 1);
        }
      }
    }
    const all = [...outcomes.values()].reduce((sum, count) => sum + count, 0);
    t.diagnostic(
      `${all} requests: ${[...outcomes]
        .sort(([left], [right]) => left - right)
        .map(([outcome, count]) => `${count} of ${outcome === 2 ? 'success' : outcome}`)
        .join(', ')}`,
    );
    assert.ok(
      outcomes.get(2)! > all / 6 &&
        outcomes.get(400)! > all / 6 &&
        [401, 403, 404, 415].every((outcome) => outcomes.get(outcome)! > 10),
      'every outcome is among them',
    );
  });
}

/** Number and first seed of the generated applications. */
const APPLICATIONS = Number(process.env['OPENAPI_APPLICATIONS'] ?? 15);
const FIRST_SEED = Number(process.env['OPENAPI_SEED'] ?? 1);

test(`every reply of a generated application is documented, whatever exception handlers, guards and layers it has (seeds from ${FIRST_SEED})`, async (t) => {
  const folder = scratch(t, 'ajv', { ajv: '^8.17.0', 'ajv-formats': '^3.0.0' });
  if (folder === undefined) return;
  const counts = new Map<number, number>();
  for (let seed = FIRST_SEED; seed < FIRST_SEED + APPLICATIONS; seed++) {
    const app = generatedApp(seed, 6);
    const handlers = addRefusals(seed, app);
    await using client = new TestClient(app, { raiseErrors: false });
    const document = app.openapi();
    const referee = new Referee(folder, document);
    const maker = new RequestMaker(new Random(seed), referee);
    for (const [template, item] of Object.entries(document.paths))
      for (const [method, operation] of Object.entries(item)) {
        const place = ['paths', template, method];
        for (let i = 0; i < 12; i++) {
          const { url, headers, body } = maker.make(template, operation, place);
          const sent = { headers, ...(body === undefined ? {} : { body }) };
          const response = await client.request(method.toUpperCase(), url, sent);
          const text = await response.text();
          const type = response.headers.get('content-type');
          const { status } = response;
          counts.set(status, (counts.get(status) ?? 0) + 1);
          const read: unknown = type?.includes('json') === true ? JSON.parse(text) : text;
          const reply = { status, type, body: read, hasBody: text !== '' };
          const missing = undocumented(operation, place, reply, referee);
          if (missing !== undefined)
            assert.fail(
              `seed ${seed}: ${missing} is not documented: ${inspect({ method, url, headers, body, status, text, handlers, operation }, { depth: 12 })}`,
            );
        }
      }
  }
  t.diagnostic([...counts].map(([status, count]) => `${count} of ${status}`).join(', '));
  assert.ok(counts.size > 15, 'many statuses are among them');
});
