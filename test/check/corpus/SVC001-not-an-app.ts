// export: app // SVC001
/** The export `app` is a function that creates the application. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

function build(): Svc {
  const made = new Svc({ title: 'Status page', trustProxy: 1 });
  made.use(new SecurityHeadersMiddleware());
  made.get('/status', { response: Status }, () => ({ state: 'green' }));
  return made;
}

export const app: { readonly build: () => Svc } = { build };
