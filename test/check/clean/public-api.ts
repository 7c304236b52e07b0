// env: SVC_ENV=production METRICS_KEY={secret}
/** Public data for scripts: rate limits with headers, a cache and public documentation. */
import {
  CORSMiddleware,
  CompressionMiddleware,
  ConcurrencyLimitMiddleware,
  Field,
  NotFound,
  RateLimitMiddleware,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  TimeoutMiddleware,
  cached,
  date,
  float,
  int,
  list,
  literal,
  str,
} from 'svc';

class Station extends Schema {
  id = Field(int, { ge: 1 });
  name = Field(str, { maxLength: 80 });
  latitude = Field(float, { ge: -90, le: 90 });
  longitude = Field(float, { ge: -180, le: 180 });
}
class Reading extends Schema {
  station = Field(int, { ge: 1 });
  day = Field(date);
  kind = Field(literal('rain', 'wind', 'sun'));
  value = Field(float);
}

const stations = [
  { id: 1, name: 'Cabo da Roca', latitude: 38.78, longitude: -9.5 },
  { id: 2, name: 'Sagres', latitude: 37.01, longitude: -8.94 },
];
const readings = cached(
  async (station: number, day: string, kind: 'rain' | 'wind' | 'sun') =>
    await Promise.resolve([{ station, day, kind, value: 12.5 }]),
  { ttlSeconds: 300, staleSeconds: 3_600, maxEntries: 5_000 },
);

export const app: Svc = new Svc({
  title: 'Weather',
  version: '5.0.0',
  trustProxy: ['10.0.0.0/8'],
  maxBodyBytes: 1_000,
  maxConnections: 5_000,
  ops: { metrics: { auth: process.env['METRICS_KEY'] } },
});
app.use(new SecurityHeadersMiddleware({ crossOriginResourcePolicy: 'cross-origin' }));
app.use(
  new CORSMiddleware({
    origins: '*',
    methods: ['GET'],
    exposeHeaders: ['RateLimit', 'RateLimit-Policy', 'Retry-After'],
    maxAgeSeconds: 86_400,
  }),
);
app.use(
  new RateLimitMiddleware({
    perMinute: 60,
    burst: 20,
    legacyHeaders: true,
    rules: [{ path: '/stations/{id:int}/readings', perMinute: 20 }],
  }),
);
app.use(new ConcurrencyLimitMiddleware({ max: 200 }));
app.use(new CompressionMiddleware());
app.use(new TimeoutMiddleware({ seconds: 5 }));

app.get(
  '/stations',
  {
    name: 'stations',
    query: { name: Field('', { maxLength: 80 }), size: Field(int, { default: 50, ge: 1, le: 200 }) },
    response: list(Station),
    summary: 'Stations by name',
  },
  ({ query }) => stations.filter(({ name }) => name.includes(query.name)).slice(0, query.size),
);
app.get(
  '/stations/{id:int}',
  { name: 'station', response: Station, summary: 'One station' },
  ({ params }) => {
    const found = stations.find(({ id }) => id === params.id);
    if (found === undefined) throw new NotFound('the station does not exist');
    return found;
  },
);
app.get(
  '/stations/{id:int}/readings',
  {
    name: 'readings',
    query: { day: Field(date), kind: Field(literal('rain', 'wind', 'sun'), { default: 'rain' }) },
    response: list(Reading),
    summary: 'Measurements of a station on one day',
  },
  async ({ params, query }) => await readings(params.id, query.day, query.kind),
);

if (import.meta.main) await app.run({ host: '0.0.0.0' });
