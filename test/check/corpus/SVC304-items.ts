/** A list has a maximum length, but its texts have none. */
import { Field, Schema, SecurityHeadersMiddleware, Svc, int, list, str } from 'svc';

class Words extends Schema {
  words = Field(list(str), { minLength: 1, maxLength: 100 });
}
class Numbers extends Schema {
  numbers = Field(list(int), { minLength: 1, maxLength: 100 });
}
class Answer extends Schema {
  longest = Field(int, { ge: 0 });
}

export const app: Svc = new Svc({ title: 'Words', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.post('/numbers', { public: 'a calculation that keeps nothing', body: Numbers, response: Answer, description: 'Returns the largest number.' }, ({ body }) => ({ longest: Math.max(0, ...body.numbers) }));
app.post('/words', { public: 'a calculation that keeps nothing', body: Words, response: Answer, description: 'Returns the length of the longest word.' }, ({ body }) => ({ longest: Math.max(...body.words.map((word) => word.length)) })); // SVC304
