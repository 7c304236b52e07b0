/** Type assertions for WebSockets: compiled, never run. */
import { Depends, Field, Router, Schema, Svc, int, list, rooms, str } from 'svc';
import { TestClient } from 'svc/testing';
import type { RoomSender, Socket, WebSocketClose, WebSocketRouter } from 'svc';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<_T extends true>(): void {
  /* for the compiler */
}

class Line extends Schema {
  text = Field(str);
  times = Field(1);
}

const app = new Svc();
app
  .websocket('/rooms/{room}/{n:int}', {
    message: Line,
    query: { since: Field(int) },
    user: Depends(() => 'ada'),
    protocols: ['a'],
    compression: { level: 3 },
    slowConsumer: 'wait',
  })
  .onOpen((socket, { params, query, user, req }) => {
    is<Equal<typeof params.room, string>>();
    is<Equal<typeof params.n, number>>();
    is<Equal<typeof query.since, number>>();
    is<Equal<typeof user, string>>();
    is<Equal<typeof req.id, string>>();
    is<Equal<typeof socket, Socket<Line>>>();
  })
  .onMessage(async (socket, message, { user }) => {
    is<Equal<typeof message, Line>>();
    is<Equal<typeof message.times, number>>();
    is<Equal<typeof user, string>>();
    socket.sendJson(message);
    await socket.drain();
  })
  .onClose((_socket, close) => {
    is<Equal<typeof close, WebSocketClose>>();
  })
  .onError((_socket, error) => {
    is<Equal<typeof error, unknown>>();
  });

app.websocket('/echo', async (socket, { params }) => {
  is<Equal<keyof typeof params, never>>();
  for await (const message of socket) {
    is<Equal<typeof message, string | Uint8Array>>();
    socket.send(message);
  }
});
app.websocket('/lists', { message: list(int) }, async (socket) => {
  for await (const message of socket) is<Equal<(typeof message)[number], number>>();
});
const router = new Router({ deps: { tenant: Depends(() => 7) } });
router.websocket('/x', { own: Depends(() => 'own') }).onMessage((_socket, message, { tenant, own }) => {
  is<Equal<typeof tenant, number>>();
  is<Equal<typeof own, string>>();
  is<Equal<typeof message, string | Uint8Array>>();
});
const plain = app.websocket('/plain');
is<
  typeof plain extends WebSocketRouter<infer C, string | Uint8Array>
    ? C extends { readonly params: object }
      ? true
      : false
    : false
>();
app.post('/all', { all: Depends(rooms) }, ({ all }) => {
  is<Equal<typeof all, RoomSender>>();
  all.broadcast('room', 'text', { except: plain });
});
const client = new TestClient(app);
void client.websocket('/echo', { protocols: ['a'], compression: true }).then(async (socket) => {
  const message = await socket.receive();
  is<Equal<typeof message, string | Uint8Array>>();
});

// @ts-expect-error a key that is neither option nor dependency
app.websocket('/x', { heartbeat: 5 });
// @ts-expect-error an option of another type
app.websocket('/x', { heartbeatMs: '5 s' });
// @ts-expect-error a policy that is none
app.websocket('/x', { slowConsumer: 'ignore' });
// @ts-expect-error a reserved name
app.websocket('/x', { params: Depends(() => 1) });
// @ts-expect-error a WebSocket has no body
app.websocket('/x', { body: Line });
// @ts-expect-error a parameter that the path does not have
app.websocket('/rooms/{room}').onOpen((_socket, { params }) => params.other);
// @ts-expect-error a template that cannot be read
app.websocket('/rooms/{n:number}');
// @ts-expect-error numbers are no messages
app.websocket('/x').onOpen((socket) => socket.send(5));
// @ts-expect-error a message of another type
app.websocket('/x', { message: Line }).onMessage((_socket, message: { other: string }) => message);
