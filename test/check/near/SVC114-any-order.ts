/** Plugins are registered before the plugins that they require, and an optional requirement is missing. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';
import type { Plugin } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const newsletter: Plugin = { name: 'newsletter', requires: ['mail'], after: ['traces', 'templates'], register: (host) => { host.log.debug('newsletter_ready'); } };
const templates: Plugin = { name: 'templates', after: ['mail'], register: (host) => { host.log.debug('templates_ready'); } };
const mail: Plugin = { name: 'mail', register: (host) => { host.log.debug('mail_ready'); } };

export const app: Svc = new Svc({ title: 'Letters', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(newsletter).register(templates).register(mail);
app.get('/status', { response: Status }, () => ({ state: 'green' }));
