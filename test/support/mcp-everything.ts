/**
 * An application with every kind of tool, for independent MCP clients. As a program it serves over standard
 * input and output. With the argument `http` and the URL of a Redis server, it serves on a free port, which it
 * prints, as one of several processes.
 */
import { setTimeout } from 'node:timers/promises';
import {
  BearerAuth,
  Depends,
  Field,
  Schema,
  Svc,
  ToolContent,
  bool,
  createLogger,
  int,
  list,
  literal,
  str,
  toolClient,
  toolLog,
  toolProgress,
} from 'svc';
import { described, standard } from './standard.ts';
import type { RoomBus } from 'svc';

class User extends Schema {
  id = Field(int, { ge: 1 });
  name = Field(str, { minLength: 1, maxLength: 40 });
  role = Field(literal('admin', 'user'), { default: 'user' });
}
class NewUser extends Schema {
  name = Field(str, { minLength: 2, description: 'Name of the user' });
  tags = Field(list(str, { maxLength: 5 }), { default: () => [] });
}

/** A schema of another library, with keywords of JSON Schema 2020-12. */
const contact = standard(
  (value) => ({ value }),
  described({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  }),
);

/** An image of one pixel in base64. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';
const IMAGE = { type: 'image', data: PNG, mimeType: 'image/png' } as const;

/**
 * Returns an application with the tools that the conformance suite calls by name, and with routes of every
 * kind.
 */
export function everything({
  prints = false,
  pageSize = 6,
  roomBus,
}: { prints?: boolean; pageSize?: number; roomBus?: RoomBus } = {}): Svc {
  const app = new Svc({
    title: 'everything',
    version: '1.2.3',
    env: 'test',
    authSecret: '3f0a9c7d5e1b48263f0a9c7d5e1b4826',
    roomBus,
    logger: createLogger({ sink: () => undefined }),
  });
  const users: User[] = [User.parse({ id: 1, name: 'Ada' })];
  app.get(
    '/users',
    {
      response: list(User),
      query: { limit: Field(10, { ge: 1, le: 100, description: 'Maximum number of users' }) },
      description: 'Lists users',
    },
    ({ query }) => users.slice(0, query.limit),
  );
  app.get(
    '/users/{id:int}',
    { response: User, description: 'Shows a user' },
    ({ params }) => users.find(({ id }) => id === params.id) ?? [null, 404],
  );
  app.post(
    '/users',
    { body: NewUser, response: User, status: 201, public: 'a fixture', description: 'Adds a user' },
    ({ body }) => User.parse({ id: users.length + 1, name: body.name }),
  );
  app.get('/me', { me: Depends(BearerAuth()), description: 'Returns the caller' }, ({ me }) => ({
    sub: me.sub,
  }));
  app.get('/printing', { description: 'Prints to standard output' }, () => {
    if (prints) console.log('this output is not a message');
    return 'printed';
  });
  app.get('/waiting', { description: 'Waits until it is cancelled' }, async ({ signal }) => {
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    return 'cancelled';
  });
  app.tool(
    'test_param_headers',
    { description: 'Repeats an argument', args: { region: Field(str) }, paramHeaders: { region: 'Region' } },
    ({ args }) => args.region,
  );
  app.tool(
    'json_schema_2020_12_tool',
    { description: 'Tool with JSON Schema 2020-12 features', args: contact },
    () => 'noted',
  );
  app.tool('test_simple_text', { description: 'Text' }, () => 'This is a simple text response for testing.');
  app.tool('test_image_content', { description: 'A picture' }, () => new ToolContent([IMAGE]));
  app.tool(
    'test_audio_content',
    { description: 'A sound' },
    () => new ToolContent([{ type: 'audio', data: WAV, mimeType: 'audio/wav' }]),
  );
  app.tool(
    'test_embedded_resource',
    { description: 'A file' },
    () =>
      new ToolContent([
        {
          type: 'resource',
          resource: {
            uri: 'test://embedded-resource',
            mimeType: 'text/plain',
            text: 'This is an embedded resource content.',
          },
        },
      ]),
  );
  app.tool(
    'test_multiple_content_types',
    { description: 'Several' },
    () =>
      new ToolContent([
        { type: 'text', text: 'Multiple content types test:' },
        IMAGE,
        {
          type: 'resource',
          resource: {
            uri: 'test://mixed-content-resource',
            mimeType: 'application/json',
            text: '{"test":"data","value":123}',
          },
        },
      ]),
  );
  app.tool(
    'test_tool_with_logging',
    { description: 'Sends log messages', tell: Depends(toolLog) },
    async ({ tell }) => {
      for (const text of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
        tell('info', text);
        await setTimeout(20); // clients may lose messages that arrive in one chunk with the answer
      }
      return 'logged';
    },
  );
  app.tool(
    'test_tool_with_progress',
    { description: 'Reports progress', progress: Depends(toolProgress) },
    async ({ progress }) => {
      for (const step of [0, 50, 100]) {
        progress(step, 100, `Completed step ${step} of 100`);
        await setTimeout(20);
      }
      return 'progressed';
    },
  );
  app.tool('test_error_handling', { description: 'Fails' }, () => [
    { title: 'This tool intentionally returns an error for testing' },
    500,
  ]);
  app.prompt('test_simple_prompt', { description: 'Text' }, () => 'This is a simple prompt for testing.');
  app.prompt(
    'test_prompt_with_arguments',
    {
      description: 'With arguments',
      args: {
        arg1: Field(str, { description: 'First test argument' }),
        arg2: Field(str, { description: 'Second test argument' }),
      },
    },
    ({ args }) => `Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`,
  );
  app.prompt(
    'test_prompt_with_embedded_resource',
    { description: 'With a file', args: { resourceUri: Field(str) } },
    ({ args }) => [
      {
        role: 'user',
        content: {
          type: 'resource',
          resource: {
            uri: args.resourceUri,
            mimeType: 'text/plain',
            text: 'Embedded resource content for testing.',
          },
        },
      },
      { role: 'user', content: { type: 'text', text: 'Please process the embedded resource above.' } },
    ],
  );
  app.prompt('test_prompt_with_image', { description: 'With a picture' }, () => [
    { role: 'user', content: IMAGE },
    { role: 'user', content: { type: 'text', text: 'Please analyze the image above.' } },
  ]);
  app.prompt(
    'choose',
    { description: 'With a choice', args: { colour: Field(literal('red', 'green')) } },
    ({ args }) => `Paint it ${args.colour}`,
  );
  app.tool(
    'test_logging_tool',
    { description: 'Sends one log message', tell: Depends(toolLog) },
    ({ tell }) => {
      tell('info', 'sent');
      return 'logged';
    },
  );
  app.resource(
    'test://static-text',
    { title: 'Static text', description: 'Text' },
    () => 'This is the content of the static text resource.',
  );
  app.resource('test://static-binary', { description: 'A picture', mimeType: 'image/png' }, () =>
    Buffer.from(PNG, 'base64'),
  );
  app.resource('test://watched-resource', { description: 'Constant text' }, () => 'watched');
  app.resource(
    'test://template/{id}/data',
    { description: 'By id', mimeType: 'application/json' },
    ({ args }) => ({ id: args['id'], templateTest: true, data: `Data for ID: ${args['id']}` }),
  );
  asking(app);
  return app.mountMcp('/mcp', { pageSize });
}

/** Adds tools and a prompt that send requests to the client. The conformance suite calls them by name. */
function asking(app: Svc): void {
  const client = Depends(toolClient);
  app.tool(
    'test_sampling',
    { description: 'Asks the model', args: { prompt: Field(str) }, client },
    async ({ args, client }) => {
      const { content } = await client.sample({ messages: args.prompt, maxTokens: 100 });
      return `LLM response: ${JSON.stringify(content)}`;
    },
  );
  app.tool(
    'test_elicitation',
    { description: 'Asks the user', args: { message: Field(str) }, client },
    async ({ args, client }) => {
      const answer = await client.elicit({
        message: args.message,
        schema: {
          username: Field(str, { description: "User's response" }),
          email: Field(str, { email: true, description: "User's email address" }),
        },
      });
      return `User response: ${JSON.stringify(answer)}`;
    },
  );
  app.tool('test_elicitation_sep1034_defaults', { description: 'Defaults', client }, async ({ client }) => {
    const answer = await client.elicit({
      message: 'Check the values',
      schema: {
        name: Field('John Doe'),
        age: Field(30),
        score: Field(95.5),
        status: Field(literal('active', 'inactive', 'pending'), { default: 'active' }),
        verified: Field(true),
      },
    });
    return `Elicitation completed: ${JSON.stringify(answer)}`;
  });
  app.tool('test_elicitation_sep1330_enums', { description: 'Choices', client }, async ({ client }) => {
    const titled = [1, 2, 3].map((n) => ({ const: `value${n}`, title: `Choice ${n}` }));
    const plain = ['option1', 'option2', 'option3'];
    const answer = await client.elicit({
      message: 'Choose',
      jsonSchema: {
        type: 'object',
        properties: {
          untitledSingle: { type: 'string', enum: plain },
          titledSingle: { type: 'string', oneOf: titled },
          legacyEnum: { type: 'string', enum: ['opt1', 'opt2'], enumNames: ['Option One', 'Option Two'] },
          untitledMulti: { type: 'array', items: { type: 'string', enum: plain } },
          titledMulti: { type: 'array', items: { anyOf: titled } },
        },
      },
    });
    return `Elicitation completed: ${JSON.stringify(answer)}`;
  });
  const name = { key: 'user_name', message: 'What is your name?', schema: { name: Field(str) } };
  const confirm = { key: 'confirm', message: 'Please confirm', schema: { ok: Field(bool) } };
  const asks = { description: 'Asks the client', client };
  app.tool('test_input_required_result_elicitation', asks, async ({ client }) => {
    const { content } = await client.elicit(name);
    return `Hello, ${content?.name ?? 'stranger'}!`;
  });
  app.tool('test_streaming_elicitation', asks, async ({ client }) => (await client.elicit(name)).action);
  app.tool('test_input_required_result_sampling', asks, async ({ client }) =>
    client.sample({ key: 'capital_question', messages: 'What is the capital of France?', maxTokens: 100 }),
  );
  app.tool('test_missing_capability', asks, async ({ client }) =>
    client.sample({ messages: 'Say hello', maxTokens: 10 }),
  );
  app.tool('test_input_required_result_list_roots', asks, async ({ client }) => ({
    roots: await client.roots({ key: 'client_roots' }),
  }));
  for (const tool of [
    'test_input_required_result_request_state',
    'test_input_required_result_tampered_state',
  ])
    app.tool(tool, asks, async ({ client }) => `state-ok: ${(await client.elicit(confirm)).action}`);
  app.tool('test_input_required_result_multiple_inputs', asks, async ({ client }) => {
    const [user, greeting, roots] = await Promise.all([
      client.elicit(name),
      client.sample({ key: 'greeting', messages: 'Generate a greeting', maxTokens: 50 }),
      client.roots({ key: 'client_roots' }),
    ]);
    return { user, greeting, roots };
  });
  app.tool('test_input_required_result_multi_round', asks, async ({ client }) => {
    const first = await client.elicit({ ...name, key: 'step1' });
    const second = await client.elicit({
      key: 'step2',
      message: `What is your favorite color, ${first.content?.name}?`,
      schema: { color: Field(str) },
    });
    return { name: first.content?.name, color: second.content?.color };
  });
  app.tool('test_input_required_result_capabilities', asks, async ({ client }) =>
    client.can('elicit') ? client.elicit(name) : client.sample({ messages: 'Invent a name', maxTokens: 10 }),
  );
  app.prompt(
    'test_input_required_result_prompt',
    { description: 'Asks the user', client },
    async ({ client }) => {
      const { content } = await client.elicit({
        key: 'user_context',
        message: 'What context should the prompt use?',
        schema: { context: Field(str) },
      });
      return `Use this context: ${content?.context ?? 'none'}`;
    },
  );
}

if (import.meta.main) {
  if (process.argv[2] === 'http') {
    const { Redis, RedisRoomBus } = await import('svc/db');
    const redis = new Redis(process.argv[3]!);
    await redis.open();
    const app = everything({ pageSize: 100, roomBus: new RedisRoomBus(redis) });
    console.log((await app.run({ port: 0 })).url);
  } else await everything({ prints: true }).mcpServer({ pageSize: 6 }).serve();
}
