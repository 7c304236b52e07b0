/** A static site: pages, immutable assets and one computed reply. */
import {
  CompressionMiddleware,
  ETagMiddleware,
  Field,
  FileResponse,
  HTMLResponse,
  NotFound,
  RedirectResponse,
  Schema,
  SecurityHeadersMiddleware,
  Svc,
  TextResponse,
  list,
  str,
} from 'svc';

class Entry extends Schema {
  title = Field(str, { maxLength: 120 });
  path = Field(str, { maxLength: 200 });
}

const pages = new Map<string, string>([
  ['about', 'About us'],
  ['imprint', 'Imprint'],
  ['contact', 'Contact'],
]);
const moved = new Map<string, string>([['about-us', 'about']]);
const assets = new URL('../public', import.meta.url);

function layout(title: string, content: string): string {
  const links = [...pages].map(([name, text]) => `<a href="/pages/${name}">${text}</a>`).join(' ');
  return `<!doctype html><html lang="en"><title>${title}</title><link rel="stylesheet" href="/assets/site.css"><nav>${links}</nav><main><h1>${title}</h1>${content}</main></html>`;
}

export const app: Svc = new Svc({ title: 'Site', version: '1.0.0', trustProxy: 1, enableDocs: false });
app.use(
  new SecurityHeadersMiddleware({
    contentSecurityPolicy: {
      defaultSrc: "'none'",
      styleSrc: "'self'",
      imgSrc: ["'self'", 'data:'],
      fontSrc: "'self'",
    },
    referrerPolicy: 'strict-origin',
  }),
);
app.use(new CompressionMiddleware({ thresholdBytes: 512, encodings: ['br', 'gzip'] }));
app.use(new ETagMiddleware());

app.exceptionHandler(
  NotFound,
  (_error, req) =>
    new HTMLResponse(layout('Not here', `<p>Nothing at this address (${req.id}).</p>`), { status: 404 }),
);

app.mountStatic('/assets', assets, { name: 'assets', maxAgeSeconds: 31_536_000, immutable: true, index: [] });
app.get('/', { name: 'home' }, () => new HTMLResponse(layout('Welcome', '<p>Good to see you.</p>')));
app.get('/pages/{name}', { name: 'page' }, ({ params }) => {
  const target = moved.get(params.name);
  if (target !== undefined)
    return new RedirectResponse(app.urlFor('page', { name: target }), { status: 308 });
  const title = pages.get(params.name);
  if (title === undefined) throw new NotFound();
  return new HTMLResponse(layout(title, '<p>…</p>'));
});
app.get('/pages.json', { response: list(Entry) }, () =>
  [...pages].map(([name, title]) => ({ title, path: app.urlFor('page', { name }) })),
);
app.get('/robots.txt', () => new TextResponse('User-agent: *\nAllow: /\n'));
app.get(
  '/site.css',
  () => new FileResponse(new URL('../public/site.css', import.meta.url), { mediaType: 'text/css' }),
);
app.get(
  '/sitemap.xml',
  () =>
    new TextResponse(
      `<urlset>${[...pages.keys()].map((name) => `<url><loc>https://site.example/pages/${name}</loc></url>`).join('')}</urlset>`,
      { mediaType: 'application/xml' },
    ),
);
