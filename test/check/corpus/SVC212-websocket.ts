// awaits: websocket
// env: SVC_AUTH_SECRET={secret}
/** Pages of every site may open the WebSocket. */
import { BearerAuth, Depends, Field, Schema, SecurityHeadersMiddleware, Svc, list, str } from 'svc';

class Message extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
}

export const app: Svc = new Svc({ title: 'Chat', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.get('/rooms', { me: Depends(BearerAuth()), response: list(str, { maxLength: 80 }) }, ({ me }) => [me.sub]);
const live = app as unknown as { websocket(path: string, spec: object): { onMessage(fn: (socket: { sendJson(value: unknown): void }, message: Message) => void): unknown } };
live.websocket('/rooms/{room}', { me: Depends(BearerAuth()), message: Message }).onMessage((socket, message) => { socket.sendJson({ text: message.text }); });
live.websocket('/public/{room}', { me: Depends(BearerAuth()), message: Message, origins: '*' }).onMessage((socket, message) => { socket.sendJson({ text: message.text }); }); // SVC212
