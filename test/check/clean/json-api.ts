// env: SVC_AUTH_SECRET={secret}
/** A JSON API for tasks: tokens, scopes, pagination and custom errors. */
import {
  BearerAuth,
  CORSMiddleware,
  CompressionMiddleware,
  Depends,
  Field,
  JSONResponse,
  NotFound,
  RateLimitMiddleware,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  TimeoutMiddleware,
  bool,
  datetime,
  int,
  list,
  literal,
  provide,
  requireRoles,
  requireScopes,
  str,
  uuid,
} from 'svc';

class NewTask extends Schema {
  title = Field(str, { minLength: 1, maxLength: 120, example: 'Water the plants' });
  notes = Field('', { maxLength: 2_000 });
  priority = Field(literal('low', 'normal', 'high'), { default: 'normal' });
  tags = Field(list(str, { minLength: 1, maxLength: 30 }), { default: () => [], maxLength: 10 });
}
class Task extends Schema {
  id = Field(uuid);
  title = Field(str, { maxLength: 120 });
  priority = Field(literal('low', 'normal', 'high'));
  isDone = Field(bool);
  createdAt = Field(datetime);
}
class Change extends Schema {
  title = Field(str, { minLength: 1, maxLength: 120, optional: true });
  isDone = Field(bool, { optional: true });
}
class Refusal extends Schema {
  detail = Field(str, { maxLength: 200 });
}
class Page extends Schema {
  items = Field(list(Task));
  total = Field(int, { ge: 0 });
}

type Row = {
  id: string;
  title: string;
  priority: 'low' | 'normal' | 'high';
  isDone: boolean;
  createdAt: Date;
};
const rows = new Map<string, Row>();
const paging = provide(
  { query: { page: Field(1, { ge: 1, le: 1_000 }), size: Field(int, { default: 20, ge: 1, le: 100 }) } },
  ({ query }) => ({ offset: (query.page - 1) * query.size, limit: query.size }),
);
const row = provide({ me: Depends(BearerAuth()) }, ({ me, req }) => {
  const found = rows.get(String(req.pathParams['id']));
  if (found === undefined || me.sub === '') throw new NotFound('the task does not exist');
  return found;
});

export const app: Svc = new Svc({ title: 'Tasks', version: '2.3.0', trustProxy: 1, maxBodyBytes: 50_000 });
app.use(new SecurityHeadersMiddleware());
app.use(new CORSMiddleware({ origins: ['https://tasks.example'] }));
app.use(new RateLimitMiddleware({ perMinute: 300 }));
app.use(new CompressionMiddleware());
app.use(new TimeoutMiddleware({ seconds: 10 }));
app.exceptionHandler(
  RangeError,
  { response: { 409: Refusal } },
  () => new JSONResponse({ detail: 'the task conflicts with another one' }, { status: 409 }),
);

app.get(
  '/tasks',
  {
    name: 'tasks',
    me: Depends(requireScopes('tasks:read')),
    page: Depends(paging),
    response: Page,
    summary: 'All tasks',
  },
  ({ me, page }) => {
    const items = [...rows.values()].filter(({ title }) => title !== me.sub);
    return { items: items.slice(page.offset, page.offset + page.limit), total: items.length };
  },
);
app.post(
  '/tasks',
  {
    me: Depends(requireScopes('tasks:write')),
    body: NewTask,
    response: Task,
    status: 201,
    summary: 'Add a task',
    description: 'Adds a task and answers with it.',
  },
  ({ me, body }) => {
    const task: Row = {
      id: '00000000-0000-4000-8000-000000000000',
      title: `${body.title} (${me.sub})`,
      priority: body.priority,
      isDone: false,
      createdAt: new Date(),
    };
    rows.set(task.id, task);
    return task;
  },
);
app.get('/tasks/{id:uuid}', { name: 'task', row: Depends(row), response: Task }, ({ row }) => row);
app.patch(
  '/tasks/{id:uuid}',
  {
    me: Depends(requireScopes('tasks:write')),
    row: Depends(row),
    body: Change,
    response: Task,
    description: 'Changes a task.',
  },
  ({ me, row, body }) => {
    if (me.sub === '') throw new RangeError();
    return Object.assign(row, { title: body.title ?? row.title, isDone: body.isDone ?? row.isDone });
  },
);
app.delete(
  '/tasks/{id:uuid}',
  { me: Depends(requireRoles('admin')), status: 204, description: 'Removes a task.' },
  ({ me, params }) => {
    if (me.sub !== '') rows.delete(params.id);
  },
);
