/**
 * The application of http.ts and startup.ts on other frameworks, each written as its manual does. Each
 * function resolves to the node:http server that it listens with. The file is copied to the folder where the
 * packages are installed.
 */
import { createServer } from 'node:http';

const TAGS = ['a', 'b'];
const payload = () => ({ id: 1, name: 'Ada Lovelace', email: 'ada@example.com', active: true, tags: TAGS });
const HOST = '127.0.0.1';

/** Fastify, with JSON Schema for the bodies. */
export async function fastify({ routes }) {
  const { default: Fastify } = await import('fastify');
  const app = Fastify();
  app.get('/json', async () => payload());
  app.get('/text', async () => 'Hello, World!');
  for (const path of routes) app.get(path, async (req) => req.params);
  app.post('/users', async (req, reply) => reply.code(201).send({ ok: true, name: req.body.name }));
  const text = (minLength, maxLength) => ({ type: 'string', minLength, maxLength });
  const object = (properties) => ({ type: 'object', required: Object.keys(properties), properties });
  const body = object({
    name: text(1, 50),
    email: { type: 'string', format: 'email' },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    active: { type: 'boolean' },
    role: { enum: ['admin', 'user', 'guest'] },
    score: { type: 'number', minimum: 0, maximum: 1 },
    tags: { type: 'array', maxItems: 10, items: text(0, 20) },
    home: object({ street: text(1, 1_000), city: text(1, 1_000), zip: text(3, 10) }),
  });
  app.post('/accounts', { schema: { body } }, async (req, reply) =>
    reply.code(201).send({ ok: true, name: req.body.name, city: req.body.home.city }),
  );
  await app.listen({ port: 0, host: HOST });
  return app.server;
}

/** Hono on its Node server, with zod for the bodies. */
export async function hono({ routes }) {
  const { Hono } = await import('hono');
  const { serve } = await import('@hono/node-server');
  const { zValidator } = await import('@hono/zod-validator');
  const { z } = await import('zod');
  const app = new Hono();
  app.get('/json', (c) => c.json(payload()));
  app.get('/text', (c) => c.text('Hello, World!'));
  for (const path of routes) app.get(path, (c) => c.json(c.req.param()));
  app.post('/users', async (c) => c.json({ ok: true, name: (await c.req.json()).name }, 201));
  const Account = z.object({
    name: z.string().min(1).max(50),
    email: z.email(),
    age: z.int().min(0).max(150),
    active: z.boolean(),
    role: z.enum(['admin', 'user', 'guest']),
    score: z.number().min(0).max(1),
    tags: z.array(z.string().max(20)).max(10),
    home: z.object({ street: z.string().min(1), city: z.string().min(1), zip: z.string().min(3).max(10) }),
  });
  app.post('/accounts', zValidator('json', Account), (c) => {
    const { name, home } = c.req.valid('json');
    return c.json({ ok: true, name, city: home.city }, 201);
  });
  return new Promise((resolve) => {
    const server = serve({ fetch: app.fetch, port: 0, hostname: HOST }, () => resolve(server));
  });
}

/** sirv, which looks at each file once. */
export async function sirv({ folder }) {
  const { default: handlerOf } = await import('sirv');
  const server = createServer(handlerOf(folder, { etag: true })).listen(0, HOST);
  return new Promise((resolve) => server.once('listening', () => resolve(server)));
}

/** Koa with its router. */
export async function koa({ routes }) {
  const { default: Koa } = await import('koa');
  const { Router } = await import('@koa/router');
  const router = new Router();
  router.get('/json', (context) => void (context.body = payload()));
  for (const path of routes) router.get(path, (context) => void (context.body = context.params));
  const server = new Koa().use(router.routes()).listen(0, HOST);
  return new Promise((resolve) => server.once('listening', () => resolve(server)));
}

/** NestJS on Fastify: plain JavaScript calls its decorators by hand. It answers GET alone. */
export async function nest({ routes }) {
  await import('reflect-metadata');
  const { NestFactory } = await import('@nestjs/core');
  const { Controller, Get, Module, Param } = await import('@nestjs/common');
  const { FastifyAdapter } = await import('@nestjs/platform-fastify');
  class Items {
    json() {
      return payload();
    }
    text() {
      return 'Hello, World!';
    }
    params(all) {
      return all;
    }
  }
  const decorate = (decorator, key) =>
    decorator(Items.prototype, key, Object.getOwnPropertyDescriptor(Items.prototype, key));
  decorate(Get('json'), 'json');
  decorate(Get('text'), 'text');
  decorate(Get(routes), 'params');
  Param()(Items.prototype, 'params', 0);
  Controller()(Items);
  class Root {}
  Module({ controllers: [Items] })(Root);
  const app = await NestFactory.create(Root, new FastifyAdapter(), { logger: false });
  await app.listen(0, HOST);
  return app.getHttpServer();
}
