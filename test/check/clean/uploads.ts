// env: SVC_AUTH_SECRET={secret}
/** Uploads of pictures and documents: limited size, known types, and file names chosen by the server. */
import { join } from 'node:path';
import {
  BadRequest,
  Depends,
  Field,
  FileResponse,
  NotFound,
  RateLimitMiddleware,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  datetime,
  file,
  int,
  list,
  requireScopes,
  str,
  uuid,
} from 'svc';

class Stored extends Schema {
  id = Field(uuid);
  title = Field(str, { maxLength: 120 });
  bytes = Field(int, { ge: 0 });
  storedAt = Field(datetime);
}

interface Kept {
  readonly id: string;
  readonly title: string;
  readonly bytes: number;
  readonly storedAt: Date;
}
const folder = join(import.meta.dirname, 'uploads');
const kept = new Map<string, Kept>();
let next = 0;
const newId = (): string => `00000000-0000-4000-8000-${String(++next).padStart(12, '0')}`;

export const app: Svc = new Svc({
  title: 'Drive',
  version: '1.4.0',
  trustProxy: 1,
  maxBodyBytes: 30_000_000,
});
app.use(new SecurityHeadersMiddleware());
app.use(new RateLimitMiddleware({ perMinute: 60, burst: 10 }));

app.post(
  '/pictures',
  {
    me: Depends(requireScopes('files')),
    summary: 'Upload a picture',
    description: 'Stores a picture of at most five megabytes.',
    form: {
      title: Field(str, { minLength: 1, maxLength: 120 }),
      picture: Field(file, { minLength: 1, maxLength: 5_000_000, contentTypes: ['image/png', 'image/jpeg'] }),
    },
    response: Stored,
    status: 201,
  },
  async ({ me, form }) => {
    const start = (await form.picture.bytes()).subarray(0, 2);
    if (!['\x89P', '\xff\xd8'].includes(Buffer.from(start).toString('latin1')))
      throw new BadRequest('the file is not a picture');
    const entry: Kept = {
      id: newId(),
      title: `${form.title} of ${me.sub}`.slice(0, 120),
      bytes: form.picture.size,
      storedAt: new Date(),
    };
    await form.picture.save(join(folder, entry.id));
    kept.set(entry.id, entry);
    return entry;
  },
);
app.post(
  '/documents',
  {
    me: Depends(requireScopes('files')),
    description: 'Stores up to three documents.',
    requestTimeoutMs: 300_000,
    form: { documents: Field(list(file, { maxLength: 8_000_000 }), { minLength: 1, maxLength: 3 }) },
    response: list(Stored),
    status: 201,
  },
  async ({ me, form }) => {
    const entries = form.documents.map((document): Kept => ({
      id: newId(),
      title: `${me.sub}/${document.filename}`.slice(0, 120),
      bytes: document.size,
      storedAt: new Date(),
    }));
    for (const [index, entry] of entries.entries()) {
      await form.documents[index]!.save(join(folder, entry.id));
      kept.set(entry.id, entry);
    }
    return entries;
  },
);
app.get('/files/{id:uuid}', { me: Depends(requireScopes('files')) }, ({ me, params }) => {
  const entry = kept.get(params.id);
  if (entry === undefined || me.sub === '') throw new NotFound('the file does not exist');
  return new FileResponse(join(folder, entry.id), {
    filename: entry.title,
    mediaType: 'application/octet-stream',
  });
});
