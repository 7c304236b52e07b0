/** A router and one of its routes declare different dependencies under one name. */
import { Depends, Field, Router, Schema, SecurityHeadersMiddleware, Svc, int } from 'svc';

class Size extends Schema {
  rows = Field(int, { ge: 0 });
}

const primary = (): { count(): number } => ({ count: () => 10 });
const replica = (): { count(): number } => ({ count: () => 9 });

const figures = new Router({ deps: { db: Depends(primary) } });
figures.get('/orders', { response: Size }, ({ db }) => ({ rows: db.count() }));
figures.get('/customers', { copy: Depends(replica), response: Size }, ({ db, copy }) => ({ rows: db.count() - copy.count() }));
figures.get('/visits', { db: Depends(replica), response: Size }, ({ db }) => ({ rows: db.count() })); // SVC113

export const app: Svc = new Svc({ title: 'Figures', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.includeRouter(figures, '/figures');
