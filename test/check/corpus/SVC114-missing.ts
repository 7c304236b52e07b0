/** A plugin requires another plugin that is not registered. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, str } from 'svc';
import type { Plugin } from 'svc';

class Status extends Schema {
  state = Field(str, { maxLength: 20 });
}

const mail: Plugin = { name: 'mail', register: (host) => { host.log.debug('mail_ready'); } };
const newsletter: Plugin = { name: 'newsletter', requires: ['mail', 'templates'], register: (host) => { host.log.debug('newsletter_ready'); } };

export const app: Svc = new Svc({ title: 'Letters', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.register(mail);
app.register(newsletter); // SVC114
app.get('/status', { response: Status }, () => ({ state: 'green' }));
