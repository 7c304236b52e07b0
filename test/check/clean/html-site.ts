// env: SVC_AUTH_SECRET={secret}
/** HTML pages: password login, session, forms with CSRF tokens and flash messages. */
import {
  CSRFMiddleware,
  Depends,
  Field,
  HTMLResponse,
  LoginRequired,
  MemoryRecordStore,
  RateLimitMiddleware,
  RedirectResponse,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  Svc,
  Unauthorized,
  checkPassword,
  cspNonce,
  csrfField,
  localPath,
  requireSession,
  sessionKey,
  str,
} from 'svc';

const user = sessionKey<string>('user');
const signedIn = requireSession(user);
const accounts = new Map<string, string>();
const entries: { readonly author: string; readonly text: string }[] = [];

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

export const app: Svc = new Svc({ title: 'Guest book', trustProxy: 'private', maxBodyBytes: 20_000 });
app.use(new SecurityHeadersMiddleware({ contentSecurityPolicy: { imgSrc: ["'self'", 'data:'] } }));
app.use(
  new RateLimitMiddleware({ perMinute: 120, rules: [{ path: '/login', methods: ['POST'], perMinute: 5 }] }),
);
app.use(
  new SessionMiddleware({
    store: new MemoryRecordStore({ maxRecords: 50_000 }),
    maxAgeSeconds: 86_400,
    cookie: { sameSite: 'lax' },
  }),
);
app.use(new CSRFMiddleware());

app.exceptionHandler(
  LoginRequired,
  (_error, req) => new RedirectResponse(`/login?next=${encodeURIComponent(req.path)}`, { status: 303 }),
);

app.get('/', ({ req }) => {
  const notices = req.session
    .takeFlashes()
    .map(({ text }) => `<p role="status">${escape(text)}</p>`)
    .join('');
  const list = entries
    .slice(-20)
    .map(({ author, text }) => `<li><b>${escape(author)}</b> ${escape(text)}</li>`)
    .join('');
  return new HTMLResponse(
    `<style nonce="${cspNonce(req)}">b { color: teal }</style>${notices}<ul>${list}</ul>`,
  );
});
app.get(
  '/login',
  { query: { next: Field('/', { maxLength: 500 }) } },
  ({ req, query }) =>
    new HTMLResponse(
      `<form method="post">${csrfField(req)}<input name="name"><input name="password" type="password"><input type="hidden" name="next" value="${escape(query.next)}"><button>Log in</button></form>`,
    ),
);
app.post(
  '/login',
  {
    public: 'it is the way in',
    description: 'Logs in.',
    form: {
      name: Field(str, { minLength: 1, maxLength: 80 }),
      password: Field(str, { minLength: 1, maxLength: 200, secret: true }),
      next: Field('/', { maxLength: 500 }),
    },
  },
  async ({ req, form }) => {
    if (!(await checkPassword(form.password, accounts.get(form.name) ?? '')))
      throw new Unauthorized('the name or the password is wrong');
    req.session.regenerate();
    req.session.set(user, form.name);
    return new RedirectResponse(localPath(form.next) ?? '/', { status: 303 });
  },
);
app.post(
  '/entries',
  {
    me: Depends(signedIn),
    form: { text: Field(str, { minLength: 1, maxLength: 500 }) },
    description: 'Adds an entry to the guest book.',
  },
  ({ req, me, form }) => {
    entries.push({ author: me, text: form.text });
    req.session.flash('info', 'Thank you!');
    return new RedirectResponse('/', { status: 303 });
  },
);
app.delete('/session', { me: Depends(signedIn), status: 204, description: 'Logs out.' }, ({ req, me }) => {
  if (me !== '') req.session.destroy();
});
