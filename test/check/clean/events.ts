// env: SVC_AUTH_SECRET={secret}
/** Server-sent events: public prices, messages for logged-in users, and an export as lines. */
import {
  BearerAuth,
  Depends,
  EventStreamResponse,
  Field,
  HTMLResponse,
  NDJSONResponse,
  Schema,
  SecurityHeadersMiddleware,
  StreamingResponse,
  Svc,
  cspNonce,
  float,
  lastEventId,
  list,
  str,
} from 'svc';
import type { ServerSentEvent } from 'svc';

class Price extends Schema {
  symbol = Field(str, { minLength: 1, maxLength: 8, pattern: '^[A-Z]{1,8}$' });
  amount = Field(float, { gt: 0 });
}

const prices = new Map<string, number>([
  ['LAMP', 19.9],
  ['CHAIR', 89],
]);

async function* ticks(after: number, signal: AbortSignal): AsyncGenerator<ServerSentEvent> {
  let number = after;
  while (!signal.aborted) {
    for (const [symbol, amount] of prices)
      yield { id: String(++number), event: 'price', data: { symbol, amount } };
    await new Promise((resolve) => {
      setTimeout(resolve, 1_000);
    });
  }
}

function* lines(): Generator<string> {
  yield 'symbol;amount\n';
  for (const [symbol, amount] of prices) yield `${symbol};${amount}\n`;
}

export const app: Svc = new Svc({ title: 'Prices', version: '0.9.0', trustProxy: 1, maxBodyBytes: 1_000 });
app.use(new SecurityHeadersMiddleware());

app.get(
  '/',
  ({ req }) =>
    new HTMLResponse(`<pre id="out"></pre><script nonce="${cspNonce(req)}">
  new EventSource('/ticks').addEventListener('price', ({ data }) => { out.textContent += data + '\\n'; });
</script>`),
);
app.get(
  '/ticks',
  { timeoutMs: 3_600_000 },
  ({ req, signal }) =>
    new EventStreamResponse(ticks(Number(lastEventId(req) ?? 0), signal), {
      heartbeatSeconds: 10,
      retryMs: 2_000,
    }),
);
app.get('/prices', { response: list(Price) }, () =>
  [...prices].map(([symbol, amount]) => ({ symbol, amount })),
);
app.get('/prices/{symbol}', { response: Price }, ({ params }) => ({
  symbol: params.symbol,
  amount: prices.get(params.symbol) ?? 1,
}));
app.get('/prices.csv', () => new StreamingResponse(lines(), { mediaType: 'text/csv; charset=utf-8' }));
app.get(
  '/prices.ndjson',
  () => new NDJSONResponse([...prices].map(([symbol, amount]) => ({ symbol, amount }))),
);
app.put(
  '/prices',
  {
    me: Depends(BearerAuth()),
    body: Price,
    response: Price,
    summary: 'Set a price',
    description: 'Sets the price of an article, and sends it to every subscriber.',
  },
  ({ me, body }) => {
    if (me.sub !== '') prices.set(body.symbol, body.amount);
    return body;
  },
);
