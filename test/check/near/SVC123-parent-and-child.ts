/** Exception handlers are registered for a class and for its subclasses. */
import { BadRequest, Field, HTTPException, NotFound, Schema, SecurityHeadersMiddleware, Svc, TextResponse, ValidationError, str } from 'svc';

class Recipe extends Schema {
  title = Field(str, { maxLength: 100 });
}
class NoSuchRecipe extends NotFound {}

export const app: Svc = new Svc({ title: 'Recipes', trustProxy: 1 });
app.use(new SecurityHeadersMiddleware());
app.exceptionHandler(HTTPException, (error) => new TextResponse('No.', { status: error.status }));
app.exceptionHandler(NotFound, () => new TextResponse('Nothing here.', { status: 404 }));
app.exceptionHandler(NoSuchRecipe, () => new TextResponse('No such recipe.', { status: 404 }));
app.exceptionHandler(ValidationError, () => new TextResponse('Not like this.', { status: 400 }));
app.exceptionHandler(BadRequest, () => new TextResponse('Not so.', { status: 400 }));
app.get('/recipes/{name}', { response: Recipe }, ({ params }) => {
  if (params.name === 'soup') return { title: 'Soup' };
  throw new NoSuchRecipe();
});
