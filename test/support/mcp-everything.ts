/**
 * An application with a tool of every kind, for independent clients. As a program it serves over standard
 * input and output, or with the argument `http`, on a free port that it prints.
 */
import { setTimeout } from 'node:timers/promises';
import {
  BearerAuth,
  Depends,
  Field,
  Schema,
  Svc,
  ToolContent,
  createLogger,
  int,
  list,
  literal,
  str,
  toolLog,
  toolProgress,
} from 'svc';

class User extends Schema {
  id = Field(int, { ge: 1 });
  name = Field(str, { minLength: 1, maxLength: 40 });
  role = Field(literal('admin', 'user'), { default: 'user' });
}
class NewUser extends Schema {
  name = Field(str, { minLength: 2, description: 'Name of the user' });
  tags = Field(list(str, { maxLength: 5 }), { default: () => [] });
}

/** An image of one pixel, and an empty sound. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';
const IMAGE = { type: 'image', data: PNG, mimeType: 'image/png' } as const;

/** Tools that the conformance suite calls by name, and routes of every shape. */
export function everything({ prints = false }: { prints?: boolean } = {}): Svc {
  const app = new Svc({
    title: 'everything',
    version: '1.2.3',
    env: 'test',
    authSecret: '3f0a9c7d5e1b48263f0a9c7d5e1b4826',
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
  return app.mountMcp('/mcp', { pageSize: 5 });
}

if (import.meta.main) {
  const app = everything({ prints: true });
  if (process.argv[2] === 'http') console.log((await app.run({ port: 0 })).url);
  else await app.mcpServer({ pageSize: 5 }).serve();
}
