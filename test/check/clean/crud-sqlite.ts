// env: SVC_AUTH_SECRET={secret} SVC_PAGE_SIZE=50
/** Books in SQLite: transactions, conflict replies and pagination. */
import {
  BearerAuth,
  Depends,
  Field,
  JSONResponse,
  NotFound,
  Schema,
  SecurityHeadersMiddleware,
  StreamingResponse,
  Svc,
  int,
  list,
  nullable,
  provide,
  reply,
  requireRoles,
  str,
} from 'svc';
import { DatabasePlugin, UniqueViolation, db, sql } from 'svc/db';
import type { Database } from 'svc/db';

class NewBook extends Schema {
  isbn = Field(str, { minLength: 13, maxLength: 13, pattern: '^[0-9]{13}$', example: '9780141187761' });
  title = Field(str, { minLength: 1, maxLength: 200 });
  year = Field(nullable(int), { default: null, ge: 1450, le: 2100 });
}
class Book extends Schema {
  id = Field(int, { ge: 1 });
  isbn = Field(str);
  title = Field(str);
  year = Field(nullable(int));
}
class Refusal extends Schema {
  detail = Field(str, { maxLength: 200 });
}

export const app: Svc = new Svc({ title: 'Library', version: '1.3.0', trustProxy: 1, maxBodyBytes: 20_000 });
const pageSize = app.config.get('pageSize', 20);
app.use(new SecurityHeadersMiddleware());
app.register(new DatabasePlugin('sqlite:./library.db', { statementTimeoutMs: 3_000, busyTimeoutMs: 2_000 }));
app.exceptionHandler(
  UniqueViolation,
  { response: { 409: Refusal } },
  () => new JSONResponse({ detail: 'the book already exists' }, { status: 409 }),
);

const book = provide({ db: Depends(db) }, async ({ db, req }) => {
  const row = await db.fetchOne(
    sql`select id, isbn, title, year from books where id = ${Number(req.pathParams['id'])}`,
    { as: Book },
  );
  if (row === undefined) throw new NotFound('the book does not exist');
  return row;
});
async function* csv(database: Database): AsyncGenerator<string> {
  for await (const { isbn, title } of database.stream(
    'select id, isbn, title, year from books order by id',
    [],
    { as: Book },
  ))
    yield `${isbn};${JSON.stringify(title)}\n`;
}

app.get(
  '/books',
  { db: Depends(db), query: { after: Field(0, { ge: 0 }) }, response: list(Book) },
  async ({ db, query }) =>
    await db.fetchAll(
      'select id, isbn, title, year from books where id > ? order by id limit ?',
      [query.after, pageSize],
      { as: Book },
    ),
);
app.get(
  '/books.csv',
  { db: Depends(db) },
  ({ db }) => new StreamingResponse(csv(db), { mediaType: 'text/csv; charset=utf-8' }),
);
app.get('/books/{id:int}', { book: Depends(book), response: Book }, ({ book }) => book);
app.post(
  '/books',
  {
    me: Depends(BearerAuth()),
    db: Depends(db),
    body: NewBook,
    response: { 201: Book },
    status: 201,
    description: 'Adds a book.',
  },
  async ({ me, db, body }) => {
    const id = await db.transaction(async (tx) => {
      const { lastInsertId } = await tx.execute('insert into books (isbn, title, year) values (?, ?, ?)', [
        body.isbn,
        body.title,
        body.year,
      ]);
      await tx.execute('insert into journal (book, author) values (?, ?)', [Number(lastInsertId), me.sub]);
      return Number(lastInsertId);
    });
    return reply({ id, isbn: body.isbn, title: body.title, year: body.year }, 201);
  },
);
app.put(
  '/books/{id:int}',
  {
    me: Depends(BearerAuth()),
    db: Depends(db),
    book: Depends(book),
    body: NewBook,
    response: Book,
    description: 'Changes a book.',
  },
  async ({ me, db, book, body }) => {
    await db.execute('update books set isbn = ?, title = ?, year = ?, author = ? where id = ?', [
      body.isbn,
      body.title,
      body.year,
      me.sub,
      book.id,
    ]);
    return { id: book.id, isbn: body.isbn, title: body.title, year: body.year };
  },
);
app.delete(
  '/books/{id:int}',
  { me: Depends(requireRoles('librarian')), db: Depends(db), status: 204, description: 'Removes a book.' },
  async ({ me, db, params }) => {
    await db.execute('delete from books where id = ? and ? <> ?', [params.id, me.sub, '']);
  },
);
