/**
 * OpenAPI documents for tests of the documentation page: one with every feature, one with hostile texts, and
 * ones of any size. They are written by hand, independent of the package's own generator.
 */

const PROBLEM = {
  description: 'The cause of the error',
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
};

/** A document with every kind of schema, parameter, body, response and security scheme. */
export const LIBRARY: object = {
  openapi: '3.1.0',
  info: {
    title: 'City Library',
    version: '2.3.0',
    summary: 'Books, their readers, and who has borrowed what.',
    description:
      'Everything under `/books` is public. To change something, show a token.\n\n- Times are in UTC.\n- Errors are `application/problem+json`.',
    contact: { name: 'The librarians', url: 'https://library.example/contact' },
    license: { name: 'CC0', url: 'javascript:alert(1)' },
  },
  servers: [{ url: '/' }],
  tags: [
    { name: 'books', description: 'Books on the shelves.' },
    { name: 'readers', description: 'Registered borrowers.' },
    { name: 'desk', description: 'Cookies, keys and files: what the people at the desk use.' },
  ],
  paths: {
    '/books': {
      get: {
        operationId: 'listBooks',
        tags: ['books'],
        summary: 'List books, the newest first',
        description: 'Gives a page at a time. `total` counts all that fit the question.',
        parameters: [
          {
            name: 'page',
            in: 'query',
            schema: { type: 'integer', minimum: 1, maximum: 1_000_000, default: 1 },
            description: 'Counts from one.',
          },
          { name: 'size', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
          {
            name: 'genre',
            in: 'query',
            schema: { type: 'array', items: { $ref: '#/components/schemas/Genre' }, uniqueItems: true },
            description: 'Any of these.',
          },
          {
            name: 'q',
            in: 'query',
            schema: { type: 'string', minLength: 1, maxLength: 100 },
            example: 'dune',
            deprecated: true,
          },
        ],
        responses: {
          200: {
            description: 'A page of books',
            headers: {
              'X-Request-Id': {
                description: 'Names the request in our log',
                schema: { type: 'string', format: 'uuid' },
              },
            },
            content: { 'application/json': { schema: { $ref: '#/components/schemas/BookPage' } } },
          },
          400: PROBLEM,
        },
      },
      post: {
        operationId: 'addBook',
        tags: ['books'],
        summary: 'Add a book',
        description:
          '## Before\n\n1. Look for it with [a search](#listBooks).\n2. *Nothing* found? **Add** it.\n\n| Field | | Bytes |\n|---|:-:|--:|\n| `title` | ~~no~~ yes | 200 |\n\n> Kept for ever.\n\n---\n\n```json\n{ "title": "Dune" }\n```',
        security: [{ bearerAuth: ['books:write'] }, { apiKey: [] }],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/NewBook' } } },
        },
        responses: {
          201: {
            description: 'The book as it is kept',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Book' } } },
          },
          400: PROBLEM,
          401: PROBLEM,
          403: PROBLEM,
          409: PROBLEM,
        },
      },
    },
    '/books/{id}': {
      parameters: [
        { name: 'id', in: 'path', required: true, schema: { type: 'integer', minimum: 1 }, example: 7 },
      ],
      get: {
        operationId: 'readBook',
        tags: ['books'],
        summary: 'Read a book',
        responses: {
          200: {
            description: 'The book',
            content: {
              'application/json': {
                schema: { $ref: '#/components/schemas/Book' },
                example: {
                  id: 7,
                  title: 'Dune',
                  genre: 'novel',
                  author: { name: 'Frank Herbert' },
                  isbn: null,
                  parts: [],
                },
              },
            },
          },
          404: PROBLEM,
        },
      },
      patch: {
        operationId: 'changeBook',
        tags: ['books'],
        summary: 'Change some of a book',
        security: [{ bearerAuth: ['books:write'] }],
        parameters: [
          {
            name: 'If-Match',
            in: 'header',
            schema: { type: 'string' },
            description: 'The `ETag` of what you have read.',
          },
        ],
        requestBody: {
          required: true,
          content: {
            'application/merge-patch+json': {
              schema: {
                type: 'object',
                additionalProperties: false,
                properties: {
                  title: { type: ['string', 'null'], maxLength: 200 },
                  genre: { $ref: '#/components/schemas/Genre' },
                },
              },
            },
          },
        },
        responses: {
          200: {
            description: 'As it is now',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Book' } } },
          },
          404: PROBLEM,
          412: PROBLEM,
        },
      },
      delete: {
        operationId: 'removeBook',
        tags: ['books'],
        summary: 'Take a book off the shelf',
        deprecated: true,
        security: [{ bearerAuth: ['books:write'] }],
        responses: { 204: { description: 'It is gone' }, 404: PROBLEM },
      },
    },
    '/books/{id}/cover': {
      parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
      get: {
        operationId: 'readCover',
        tags: ['books'],
        summary: 'Its cover',
        responses: {
          200: {
            description: 'A picture',
            content: { 'image/png': { schema: { type: 'string', format: 'binary' } } },
          },
        },
      },
      put: {
        operationId: 'putCover',
        tags: ['books'],
        summary: 'Give it a cover',
        security: [{ bearerAuth: ['books:write'] }],
        requestBody: {
          required: true,
          content: {
            'multipart/form-data': {
              schema: {
                type: 'object',
                required: ['cover'],
                properties: {
                  cover: { type: 'string', format: 'binary', description: 'PNG or JPEG, up to 2 MB' },
                  caption: { type: 'string', maxLength: 80 },
                  pages: { type: 'array', items: { type: 'string', format: 'binary' } },
                },
              },
            },
          },
        },
        responses: {
          200: {
            description: 'The stored cover',
            content: {
              'application/json': {
                schema: {
                  type: 'object',
                  properties: { filename: { type: 'string' }, bytes: { type: 'integer' } },
                },
              },
            },
          },
          413: PROBLEM,
        },
      },
    },
    '/readers/me': {
      get: {
        operationId: 'me',
        tags: ['readers'],
        summary: 'The current reader',
        security: [{ bearerAuth: [] }],
        responses: {
          200: {
            description: 'You',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Reader' } } },
          },
          401: PROBLEM,
        },
      },
    },
    '/readers/{name}/loans': {
      get: {
        operationId: 'listLoans',
        tags: ['readers'],
        summary: 'Loans of a reader',
        security: [{ bearerAuth: [] }, {}],
        parameters: [
          { name: 'name', in: 'path', required: true, schema: { type: 'string', pattern: '^[a-z]+$' } },
          { name: 'since', in: 'query', schema: { type: 'string', format: 'date' } },
          { name: 'open', in: 'query', schema: { type: 'boolean' } },
        ],
        responses: {
          200: {
            description: 'Loans',
            content: {
              'application/json': { schema: { type: 'array', items: { $ref: '#/components/schemas/Loan' } } },
            },
          },
          default: PROBLEM,
        },
      },
    },
    '/desk/till': {
      get: {
        operationId: 'readTill',
        tags: ['desk'],
        summary: 'Balance of the till',
        security: [{ apiKey: [] }],
        responses: {
          200: {
            description: 'An amount',
            content: {
              'application/json': { schema: { type: 'object', properties: { cents: { type: 'integer' } } } },
            },
          },
          401: PROBLEM,
        },
      },
      post: {
        operationId: 'payFine',
        tags: ['desk'],
        summary: 'Pay a fine',
        security: [{ session: [], csrf: [] }],
        requestBody: {
          required: true,
          content: {
            'application/x-www-form-urlencoded': {
              schema: {
                type: 'object',
                required: ['cents', 'how'],
                properties: {
                  cents: { type: 'integer', minimum: 1, example: 250 },
                  how: { enum: ['cash', 'card'] },
                  note: { type: 'string' },
                },
              },
            },
          },
        },
        responses: {
          200: {
            description: 'Paid',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Event' } } },
          },
          403: PROBLEM,
        },
      },
    },
    '/desk/events': {
      get: {
        operationId: 'followEvents',
        tags: ['desk'],
        summary: 'Follow what happens',
        responses: {
          200: {
            description: 'One event after another',
            content: { 'text/event-stream': { schema: { $ref: '#/components/schemas/Event' } } },
          },
        },
      },
    },
    '/health': {
      get: {
        summary: 'Whether it runs',
        responses: {
          200: { description: 'It does', content: { 'text/plain': { schema: { type: 'string' } } } },
        },
      },
    },
  },
  components: {
    securitySchemes: {
      bearerAuth: {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'JWT',
        description: 'A token from the desk.',
      },
      apiKey: { type: 'apiKey', in: 'header', name: 'X-Desk-Key' },
      login: {
        type: 'oauth2',
        flows: {
          clientCredentials: {
            tokenUrl: 'https://desk.example/token',
            scopes: { 'loans:write': 'Lend books' },
          },
        },
      },
      session: { type: 'apiKey', in: 'cookie', name: 'svc_session' },
      csrf: {
        type: 'apiKey',
        in: 'header',
        name: 'X-CSRF-Token',
        description: 'From a page of the library.',
      },
    },
    schemas: {
      Genre: {
        type: 'string',
        enum: ['novel', 'poetry', 'science', 'history'],
        description: 'Where it stands.',
      },
      Author: {
        type: 'object',
        required: ['name'],
        properties: { name: { type: 'string', maxLength: 200 }, born: { type: ['integer', 'null'] } },
      },
      NewBook: {
        type: 'object',
        required: ['title', 'genre'],
        additionalProperties: false,
        description: 'A book as it comes in.',
        properties: {
          title: { type: 'string', minLength: 1, maxLength: 200, pattern: '\\S', example: 'Dune' },
          genre: { $ref: '#/components/schemas/Genre' },
          author: { $ref: '#/components/schemas/Author' },
          isbn: { type: ['string', 'null'], pattern: '^[0-9-]{10,17}$', default: null },
          price: { type: 'number', exclusiveMinimum: 0, multipleOf: 0.01, example: 12.5 },
          labels: { type: 'object', additionalProperties: { type: 'string' }, maxProperties: 10 },
          parts: { type: 'array', items: { $ref: '#/components/schemas/Part' }, maxItems: 50 },
        },
      },
      Book: {
        type: 'object',
        required: ['id', 'title', 'genre'],
        properties: {
          id: { type: 'integer', readOnly: true },
          title: { type: 'string' },
          genre: { $ref: '#/components/schemas/Genre' },
          author: { anyOf: [{ $ref: '#/components/schemas/Author' }, { type: 'null' }] },
          isbn: { type: ['string', 'null'] },
          addedAt: { type: 'string', format: 'date-time' },
          parts: { type: 'array', items: { $ref: '#/components/schemas/Part' } },
        },
      },
      Part: {
        type: 'object',
        required: ['title'],
        description: 'A part may have parts.',
        properties: {
          title: { type: 'string' },
          parts: { type: 'array', items: { $ref: '#/components/schemas/Part' } },
        },
      },
      BookPage: {
        type: 'object',
        required: ['items', 'total', 'page', 'size'],
        properties: {
          items: { type: 'array', items: { $ref: '#/components/schemas/Book' } },
          total: { type: 'integer' },
          page: { type: 'integer' },
          size: { type: 'integer' },
        },
      },
      Reader: {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string' },
          email: { type: 'string', format: 'email' },
          password: { type: 'string', format: 'password', writeOnly: true },
          since: { type: 'string', format: 'date' },
        },
      },
      Loan: {
        allOf: [
          { $ref: '#/components/schemas/Timestamps' },
          {
            type: 'object',
            required: ['book'],
            properties: {
              book: { $ref: '#/components/schemas/Book' },
              due: { type: 'string', format: 'date' },
            },
          },
        ],
      },
      Timestamps: { type: 'object', properties: { createdAt: { type: 'string', format: 'date-time' } } },
      Paid: {
        type: 'object',
        required: ['kind', 'cents'],
        properties: { kind: { const: 'paid' }, cents: { type: 'integer', minimum: 0 } },
      },
      Borrowed: {
        type: 'object',
        required: ['kind', 'book'],
        properties: {
          kind: { const: 'borrowed' },
          book: { type: 'integer' },
          at: { type: 'array', prefixItems: [{ type: 'number' }, { type: 'number' }] },
        },
      },
      Event: {
        oneOf: [{ $ref: '#/components/schemas/Paid' }, { $ref: '#/components/schemas/Borrowed' }],
        discriminator: {
          propertyName: 'kind',
          mapping: { paid: '#/components/schemas/Paid', borrowed: '#/components/schemas/Borrowed' },
        },
      },
      Problem: {
        type: 'object',
        description: 'RFC 9457',
        properties: {
          type: { type: 'string', format: 'uri-reference' },
          title: { type: 'string' },
          status: { type: 'integer' },
          detail: { type: 'string' },
          request_id: { type: 'string' },
        },
      },
    },
  },
};

const BREAK =
  '"><img src=x onerror=alert(1)>\'</script><script>alert(2)</script></style></textarea>&amp;<!--';

/** Each text tries to escape from its place in the page. */
export const HOSTILE: object = {
  openapi: '3.1.0',
  info: {
    title: BREAK,
    version: BREAK,
    summary: BREAK,
    description: `${BREAK}\n\n- ${BREAK}\n\n\`${BREAK}`,
    termsOfService: 'javascript:alert(3)',
    contact: { name: BREAK, url: 'data:text/html,<script>alert(4)</script>' },
    license: { name: BREAK, url: ` java${'\n'}script:alert(5)` },
  },
  externalDocs: { url: `https://docs.example/${BREAK}`, description: BREAK },
  servers: [{ url: `javascript:alert(6)//${BREAK}` }],
  tags: [{ name: BREAK, description: BREAK }],
  paths: {
    [`/${BREAK}/{${BREAK}}`]: {
      get: {
        operationId: BREAK,
        tags: [BREAK],
        summary: BREAK,
        description: BREAK,
        security: [{ [BREAK]: [BREAK] }],
        parameters: [
          {
            name: BREAK,
            in: 'path',
            required: true,
            description: BREAK,
            schema: { type: BREAK, format: BREAK, pattern: BREAK, enum: [BREAK], default: BREAK },
          },
          { name: BREAK, in: 'query', schema: { type: 'string', default: BREAK, minLength: BREAK } },
        ],
        requestBody: {
          description: BREAK,
          content: { [BREAK]: { schema: { $ref: `#/components/schemas/${BREAK}` }, example: BREAK } },
        },
        responses: {
          [BREAK]: {
            description: BREAK,
            headers: { [BREAK]: { description: BREAK, schema: { type: 'string', format: BREAK } } },
            content: { [BREAK]: { schema: { $ref: BREAK } } },
          },
          200: { description: BREAK, content: { 'application/json': { example: { [BREAK]: BREAK } } } },
        },
      },
    },
  },
  components: {
    schemas: {
      [BREAK]: {
        type: 'object',
        description: BREAK,
        required: [BREAK],
        properties: {
          [BREAK]: {
            type: [BREAK],
            const: BREAK,
            discriminator: { propertyName: BREAK, mapping: { [BREAK]: BREAK } },
          },
          __proto__: { type: 'string' },
          constructor: { type: 'string' },
        },
      },
    },
    securitySchemes: { [BREAK]: { type: 'http', scheme: BREAK, description: BREAK } },
  },
};

const WORDS = [
  'order',
  'invoice',
  'customer',
  'product',
  'shipment',
  'payment',
  'refund',
  'address',
  'basket',
  'coupon',
  'review',
  'supplier',
  'warehouse',
  'employee',
  'contract',
  'ticket',
  'message',
  'campaign',
  'report',
  'budget',
  'project',
  'milestone',
  'comment',
  'document',
  'folder',
];
const FIELDS: readonly (readonly [string, object])[] = [
  ['name', { type: 'string', minLength: 1, maxLength: 120 }],
  ['email', { type: 'string', format: 'email' }],
  ['amount', { type: 'number', minimum: 0 }],
  ['count', { type: 'integer', minimum: 0, maximum: 1000 }],
  ['isActive', { type: 'boolean', default: true }],
  ['createdAt', { type: 'string', format: 'date-time' }],
  ['note', { type: ['string', 'null'], maxLength: 500 }],
  ['tags', { type: 'array', items: { type: 'string' }, maxItems: 20 }],
  ['status', { enum: ['new', 'open', 'closed'] }],
];

/**
 * Returns a document with this number of operations on generated resources: list, create, read, replace and
 * delete.
 */
export function largeDocument(operations: number): object {
  const paths: Record<string, Record<string, object>> = {};
  const schemas: Record<string, object> = {
    Problem: {
      type: 'object',
      properties: { title: { type: 'string' }, status: { type: 'integer' }, detail: { type: 'string' } },
    },
  };
  const tags: object[] = [];
  for (let number = 0; number * 5 < operations; number++) {
    const word = WORDS[number % WORDS.length]!;
    const thing =
      number < WORDS.length
        ? word
        : `${WORDS[(Math.floor(number / WORDS.length) * 7) % WORDS.length]!}-${word}`;
    const name = thing
      .split('-')
      .map((part) => part[0]!.toUpperCase() + part.slice(1))
      .join('');
    const tag = `${thing}s`;
    const properties = Object.fromEntries(FIELDS.filter((_, index) => (number * 31 + index * 17) % 5 !== 0));
    const ref = { $ref: `#/components/schemas/${name}` };
    const fresh = { $ref: `#/components/schemas/New${name}` };
    schemas[name] = {
      type: 'object',
      required: ['id'],
      properties: {
        id: { type: 'integer' },
        ...properties,
        ...(number > 0
          ? {
              owner: {
                $ref: `#/components/schemas/${Object.keys(schemas)[1 + ((number * 13) % (Object.keys(schemas).length - 1))]!}`,
              },
            }
          : {}),
      },
    };
    schemas[`New${name}`] = {
      type: 'object',
      required: Object.keys(properties).slice(0, 2),
      additionalProperties: false,
      properties,
    };
    tags.push({
      name: tag,
      description: `Everything about a ${thing.replace('-', ' ')}, and who may change it.`,
    });
    const errors = (...statuses: number[]): object =>
      Object.fromEntries(statuses.map((status) => [status, PROBLEM]));
    const json = (schema: object): object => ({ 'application/json': { schema } });
    const security = [{ bearerAuth: [`${tag}:write`] }];
    const each: readonly (readonly [string, string, object])[] = [
      [
        `/api/${tag}`,
        'get',
        {
          operationId: `list${name}s`,
          summary: `List every ${thing.replace('-', ' ')}`,
          parameters: [
            { name: 'page', in: 'query', schema: { type: 'integer', minimum: 1, default: 1 } },
            { name: 'size', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
          ],
          responses: {
            200: { description: 'A page', content: json({ type: 'array', items: ref }) },
            ...errors(400),
          },
        },
      ],
      [
        `/api/${tag}`,
        'post',
        {
          operationId: `create${name}`,
          summary: `Create a ${thing.replace('-', ' ')}`,
          security,
          requestBody: { required: true, content: json(fresh) },
          responses: { 201: { description: 'Created', content: json(ref) }, ...errors(400, 401, 403) },
        },
      ],
      [
        `/api/${tag}/{id}`,
        'get',
        {
          operationId: `read${name}`,
          summary: `Read a ${thing.replace('-', ' ')}`,
          parameters: [ID],
          responses: { 200: { description: 'Found', content: json(ref) }, ...errors(404) },
        },
      ],
      [
        `/api/${tag}/{id}`,
        'put',
        {
          operationId: `replace${name}`,
          summary: `Replace a ${thing.replace('-', ' ')}`,
          security,
          parameters: [ID],
          requestBody: { required: true, content: json(fresh) },
          responses: { 200: { description: 'Replaced', content: json(ref) }, ...errors(400, 401, 403, 404) },
        },
      ],
      [
        `/api/${tag}/{id}`,
        'delete',
        {
          operationId: `delete${name}`,
          summary: `Delete a ${thing.replace('-', ' ')}`,
          security,
          parameters: [ID],
          responses: { 204: { description: 'Deleted' }, ...errors(401, 403, 404) },
        },
      ],
    ];
    for (const [path, method, operation] of each)
      (paths[path] ??= {})[method] = { tags: [tag], ...operation };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Everything Inc.', version: '1.0.0' },
    tags,
    paths,
    components: { schemas, securitySchemes: { bearerAuth: { type: 'http', scheme: 'bearer' } } },
  };
}

const ID = { name: 'id', in: 'path', required: true, schema: { type: 'integer', minimum: 1 } };
