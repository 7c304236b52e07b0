/** The response is a plain object that is not a schema. */
import { SecurityHeadersMiddleware, Svc } from 'svc';

const Note = { text: 'string' };

export const app: Svc = new Svc({ title: 'Notes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/notes', { response: Note as never }, () => ({ text: '' }) as never); // SVC107
