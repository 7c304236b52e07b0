/** The optional requirements of two plugins contradict each other. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';
import type { Plugin } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const plugin = (name: string, ...after: readonly string[]): Plugin => ({ name, after, register: (host) => { host.log.debug('ready'); } });

export const app: Svc = new Svc({ title: 'Traces', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(plugin('traces', 'figures')).register(plugin('figures', 'traces')); // SVC114
app.register(plugin('mail', 'telephone'));
app.get('/status', { response: Status }, () => ({ state: 'green' }));
