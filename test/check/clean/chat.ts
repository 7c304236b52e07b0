// awaits: websocket
// env: SVC_AUTH_SECRET={secret}
/** Chat rooms over WebSockets: admission, message formats and broadcasts. */
import {
  BearerAuth,
  Depends,
  Field,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  int,
  list,
  provide,
  str,
} from 'svc';

class Message extends Schema {
  text = Field(str, { minLength: 1, maxLength: 500 });
}
class Room extends Schema {
  name = Field(str, { minLength: 1, maxLength: 40, pattern: '^[a-z0-9-]+$' });
  people = Field(int, { ge: 0 });
}

/** The part of a socket that this application uses. */
interface Socket {
  sendJson(value: unknown): void;
  join(room: string): void;
  leave(room: string): void;
  close(code?: number, reason?: string): void;
}
interface Context {
  readonly params: { readonly room: string };
  readonly me: { readonly sub: string };
  readonly history: readonly string[];
}
interface Live {
  onOpen(fn: (socket: Socket, context: Context) => void): this;
  onMessage(fn: (socket: Socket, message: Message, context: Context) => void): this;
  onClose(
    fn: (
      socket: Socket,
      close: { code: number; reason: string; wasClean: boolean },
      context: Context,
    ) => void,
  ): this;
  onError(fn: (socket: Socket, error: unknown, context: Context) => void): this;
}

const people = new Map<string, number>();
const history = provide({ query: { since: Field(0, { ge: 0 }) } }, ({ query }) => [`since ${query.since}`]);

export const app: Svc = new Svc({ title: 'Chat', version: '1.0.0', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());

app.get('/rooms', { me: Depends(BearerAuth()), response: list(Room) }, ({ me }) =>
  [...people].filter(([name]) => name !== me.sub).map(([name, count]) => ({ name, people: count })),
);

const live = app as unknown as { websocket(path: string, spec: object): Live };
live
  .websocket('/rooms/{room}', { me: Depends(BearerAuth()), history: Depends(history), message: Message })
  .onOpen((socket, { params, me, history }) => {
    people.set(params.room, (people.get(params.room) ?? 0) + 1);
    socket.join(params.room);
    socket.sendJson({ welcome: me.sub, history });
  })
  .onMessage((socket, message, { me }) => {
    if (message.text === '/quit') socket.close(1000, 'goodbye');
    else socket.sendJson({ from: me.sub, text: message.text });
  })
  .onClose((socket, _close, { params }) => {
    people.set(params.room, Math.max(0, (people.get(params.room) ?? 0) - 1));
    socket.leave(params.room);
  })
  .onError((socket) => {
    socket.close(1011);
  });
