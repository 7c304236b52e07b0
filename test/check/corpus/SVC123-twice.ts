/** Two exception handlers are registered for one class, so only one of them can run. */
import { Field, InternalError, NotFound, Schema, SecurityHeadersMiddleware, Svc, TextResponse, str } from 'svc';

class Recipe extends Schema {
  title = Field(str, { maxLength: 100 });
}

export const app: Svc = new Svc({ title: 'Recipes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.exceptionHandler(InternalError, () => new TextResponse('Later, please.', { status: 500 }));
app.exceptionHandler(NotFound, () => new TextResponse('Nothing here.', { status: 404 })).exceptionHandler(NotFound, () => new TextResponse('No such recipe.', { status: 404 })); // SVC123
app.get('/recipes/{name}', { response: Recipe }, ({ params }) => {
  if (params.name === 'soup') return { title: 'Soup' };
  throw new NotFound('only soup is available');
});
