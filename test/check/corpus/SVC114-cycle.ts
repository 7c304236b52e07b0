/** Two plugins each require the other to start first. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';
import type { Plugin } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const plugin = (name: string, ...requires: readonly string[]): Plugin => ({ name, requires, register: (host) => { host.log.debug('ready'); } });

export const app: Svc = new Svc({ title: 'Search', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(plugin('storage'));
app.register(plugin('index', 'queue', 'storage')).register(plugin('queue', 'index')); // SVC114
app.get('/status', { response: Status }, () => ({ state: 'green' }));
