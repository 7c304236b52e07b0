// env: SVC_AUTH_SECRET={secret}
/** One application for several tenants, with a host, rows and rate limits for each. */
import {
  BearerAuth,
  Depends,
  Field,
  Forbidden,
  NotFound,
  RateLimiter,
  Router,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  int,
  list,
  provide,
  requireRoles,
  stateKey,
  str,
  uuid,
} from 'svc';

class TenantClaims extends Schema {
  tenant = Field(str, { minLength: 1, maxLength: 40 });
}
class Project extends Schema {
  id = Field(uuid);
  name = Field(str, { minLength: 1, maxLength: 80 });
}
class NewProject extends Schema {
  name = Field(str, { minLength: 1, maxLength: 80 });
}
class Usage extends Schema {
  projects = Field(int, { ge: 0 });
}

class Rows {
  readonly #projects = new Map<string, string>();
  all(): { id: string; name: string }[] {
    return [...this.#projects].map(([id, name]) => ({ id, name }));
  }
  add(name: string): { id: string; name: string } {
    const id = `00000000-0000-4000-8000-${String(this.#projects.size + 1).padStart(12, '0')}`;
    this.#projects.set(id, name);
    return { id, name };
  }
  remove(id: string): boolean {
    return this.#projects.delete(id);
  }
}

const tenantName = stateKey<string>('tenant-name');
const tenants = new Map<string, Rows>([
  ['acme', new Rows()],
  ['umbrella', new Rows()],
]);
const claims = BearerAuth(undefined, { schema: TenantClaims });
const projects = provide({ claims: Depends(claims), name: Depends(tenantName) }, ({ claims, name }) => {
  if (claims.tenant !== name) throw new Forbidden('the token belongs to another tenant');
  const rows = tenants.get(name);
  if (rows === undefined) throw new NotFound('the tenant does not exist');
  return rows;
});
const creations = new RateLimiter({ name: 'creations', perMinute: 10 });

export const app: Svc = new Svc({ title: 'Projects', version: '1.1.0', trustProxy: 1, maxBodyBytes: 10_000 });
app.use(new SecurityHeadersMiddleware());
app.use((req, next) => {
  req.state.set(tenantName, req.host.split('.', 1)[0] ?? '');
  return next();
});

const api = new Router({ prefix: '/projects', tags: ['projects'], deps: { projects: Depends(projects) } });
api.get('/', { response: list(Project) }, ({ projects }) => projects.all());
api.post(
  '/',
  { me: Depends(claims), body: NewProject, response: Project, status: 201, description: 'Starts a project.' },
  async ({ me, req, projects, body }) => {
    await creations.take(req, `${me.tenant}/${me.sub}`);
    return projects.add(body.name);
  },
);
api.delete(
  '/{id:uuid}',
  { me: Depends(requireRoles('owner')), status: 204, description: 'Ends a project.' },
  ({ me, projects, params }) => {
    if (me.sub !== '' && !projects.remove(params.id)) throw new NotFound('the project does not exist');
  },
);
app.includeRouter(api);
app.get('/usage', { projects: Depends(projects), response: Usage }, ({ projects }) => ({
  projects: projects.all().length,
}));
