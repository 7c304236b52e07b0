// env: SVC_AUTH_SECRET={secret} SVC_MAIL_FROM=shop@shop.example
/** Orders whose mails are sent after the reply, and a queue that shutdown empties. */
import {
  BackgroundTasks,
  BearerAuth,
  Depends,
  Field,
  IdempotencyMiddleware,
  RateLimitMiddleware,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  datetime,
  int,
  list,
  literal,
  provide,
  str,
} from 'svc';
import type { Context } from 'svc';

class Line extends Schema {
  article = Field(int, { ge: 1 });
  pieces = Field(int, { ge: 1, le: 100 });
}
class NewOrder extends Schema {
  email = Field(str, { email: true, maxLength: 254 });
  lines = Field(list(Line), { minLength: 1, maxLength: 50 });
}
class Order extends Schema {
  id = Field(int, { ge: 1 });
  state = Field(literal('open', 'sent'));
  placedAt = Field(datetime);
}

export const app: Svc = new Svc({ title: 'Shop', version: '3.0.1', trustProxy: 1, maxBodyBytes: 50_000 });
const sender = app.config.get('mailFrom', 'orders@shop.example');

/** Mails that wait to be sent. */
class Outbox {
  readonly #waiting: string[] = [];
  add(mail: string): void {
    this.#waiting.push(mail);
  }
  async flush(): Promise<number> {
    return await Promise.resolve(this.#waiting.splice(0).length);
  }
}
async function* outbox(): AsyncGenerator<Outbox> {
  const box = new Outbox();
  try {
    yield box;
  } finally {
    await box.flush();
  }
}
const language = ({ req }: Context): string => (req.headers['accept-language'] ?? 'en').slice(0, 2);
const mailer = provide(
  { outbox: Depends(outbox, { scope: 'app' }), language: Depends(language) },
  ({ outbox, language }) =>
    (to: string, text: string) => {
      outbox.add(`From: ${sender}\nTo: ${to}\nContent-Language: ${language}\n\n${text}`);
    },
);

app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60 }));
app.use(new IdempotencyMiddleware({ ttlSeconds: 86_400 }));

const orders = new Map<number, { id: number; state: 'open' | 'sent'; placedAt: Date }>();
app.post(
  '/orders',
  {
    me: Depends(BearerAuth()),
    body: NewOrder,
    mail: Depends(mailer),
    tasks: Depends(BackgroundTasks),
    response: Order,
    status: 201,
    summary: 'Order',
    description: 'Places an order. A mail confirms the order.',
  },
  ({ me, body, mail, tasks, req }) => {
    const order = { id: orders.size + 1, state: 'open' as const, placedAt: new Date() };
    orders.set(order.id, order);
    tasks.add(
      (to: string, text: string) => {
        mail(to, text);
      },
      body.email,
      `Order ${order.id} of ${me.sub} (${req.id})`,
    );
    return order;
  },
);
app.get(
  '/orders/{id:int}',
  { me: Depends(BearerAuth()), response: Order },
  ({ me, params }) =>
    orders.get(params.id) ?? { id: params.id, state: me.sub === '' ? 'open' : 'sent', placedAt: new Date(0) },
);
app.onStartup(({ log }) => {
  log.info('shop_opens');
});
app.onShutdown(({ log }) => {
  log.info('shop_closes');
});
