/**
 * Script of the docs page: the request of a form as code, in curl, with fetch, in Python, and with the client that
 * `svc openapi --client` writes.
 */

const CODE = 'svc-docs-code';
const LANGUAGES = { curl: curlCode, fetch: fetchCode, 'Generated client': clientCode, Python: pythonCode };
const NAMES = { fetch: 'JavaScript: fetch', 'Generated client': 'JavaScript: generated client' };

/** Fills the section for code. Returns a function that updates the code. */
function startCode(part, request) {
  const [select, code, button] = ['select', 'pre', '.button'].map((selector) => part.querySelector(selector));
  select.append(
    ...Object.keys(LANGUAGES).map((name) => make('option', { value: name }, NAMES[name] ?? name)),
  );
  const kept = stored('localStorage', CODE);
  if (kept && Object.hasOwn(LANGUAGES, kept)) select.value = kept;
  const show = () => {
    code.textContent = LANGUAGES[select.value](request());
  };
  select.addEventListener('change', () => {
    stored('localStorage', CODE, select.value);
    show();
  });
  button.addEventListener('click', () => copy(code.textContent, button));
  return show;
}

/** Returns the header fields of a request, with a placeholder for the CSRF token. */
const headersOf = ({ headers, needsToken }) => [
  ...headers,
  ...(needsToken ? [['X-CSRF-Token', '<token of your session>']] : []),
];
const cookieOf = ({ cookies }) => cookies.map((pair) => pair.join('=')).join('; ');

// ── curl ──

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

const METHOD_FLAGS = { GET: '', HEAD: ' -I' };

function curlCode(request) {
  const { method, url, body } = request;
  const parts = [`curl${METHOD_FLAGS[method] ?? ` -X ${method}`} ${quoted(url)}`];
  for (const [name, value] of headersOf(request)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (request.cookies.length > 0) parts.push(`-b ${quoted(cookieOf(request))}`);
  if (body?.text !== undefined) parts.push(`--data-raw ${quoted(body.text)}`);
  else if (body?.file) parts.push(`--data-binary ${quoted(`@${body.file.name}`)}`);
  for (const [name, value] of body?.parts ?? []) {
    const isAFile = value instanceof File;
    const flag = body.isMultipart ? (isAFile ? '-F' : '--form-string') : '--data-urlencode';
    parts.push(`${flag} ${quoted(`${name}=${isAFile ? `@${value.name}` : value}`)}`);
  }
  return parts.join(' \\\n  ');
}

// ── JavaScript ──

/** Returns a value as JavaScript code; a file becomes the name of a variable. */
function literalOf(value, indent = '') {
  if (value instanceof File) return 'file';
  if (typeof value !== 'object' || value === null) return textLiteral(value);
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  const lines = entries.map(([name, each]) => `${isList ? '' : `${keyOf(name)}: `}${literalOf(each, inner)}`);
  if (lines.length === 0) return isList ? '[]' : '{}';
  const short = lines.join(', ');
  const [open, close] = isList ? ['[', ']'] : ['{ ', ' }'];
  if (short.length + indent.length < 60 && !short.includes('\n')) return open + short + close;
  return `${open.trim()}\n${lines.map((line) => `${inner}${line},\n`).join('')}${indent}${close.trim()}`;
}

const textLiteral = (value) =>
  typeof value === 'string' && !/['\\\n\r]/.test(value) ? `'${value}'` : JSON.stringify(value);
const keyOf = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : textLiteral(name));

function fetchCode(request) {
  const { method, url, body } = request;
  const headers = headersOf(request);
  const cookie = cookieOf(request);
  const lines = [];
  if (method !== 'GET') lines.push(`method: '${method}',`);
  const fields = [...headers, ...(cookie ? [['Cookie', cookie]] : [])];
  if (fields.length > 0) lines.push(`headers: ${literalOf(Object.fromEntries(fields), '  ')},`);
  if (body) lines.push(`body: ${bodyLiteral(body)},`);
  const given = lines.length === 0 ? '' : `, {\n${lines.map((line) => `  ${line}\n`).join('')}}`;
  return `${formCode(body)}const response = await fetch(${textLiteral(url)}${given});\nconsole.log(response.status, await response.text());`;
}

function bodyLiteral({ text, parts, type }) {
  if (parts) return 'form';
  if (text === undefined) return 'file';
  const value = /[/+]json/.test(type) ? jsonOf(text) : undefined;
  return value === undefined ? textLiteral(text) : `JSON.stringify(${literalOf(value, '  ')})`;
}

function formCode(body) {
  if (!body?.parts) return '';
  const lines = body.parts.map(
    ([name, value]) => `form.append(${textLiteral(name)}, ${literalOf(value)});\n`,
  );
  return `const form = new ${body.isMultipart ? 'FormData' : 'URLSearchParams'}();\n${lines.join('')}`;
}

// ── the generated client ──

/** Members of the client's input, by the place of a parameter. */
const MEMBERS = { path: 'params', query: 'query', header: 'headers', cookie: 'cookies' };

function clientCode({ operation, inputs, body }) {
  const groups = Object.entries(MEMBERS).map(([place, member]) => [member, inputs[place]]);
  const given = Object.fromEntries(groups.filter(([, values]) => Object.keys(values).length > 0));
  const json = body?.text === undefined ? undefined : jsonOf(body.text);
  if (body?.parts) given.form = body.input;
  else if (body) given.body = json === undefined ? (body.text ?? body.file) : json;
  const id = operation.operationId ?? 'operation';
  const call = /^[A-Za-z_$][\w$]*$/.test(id) ? `.${id}` : `[${textLiteral(id)}]`;
  const [scheme] = chosenProofs(operation).map(([name]) => name);
  const auth = scheme === undefined ? '' : `, auth: { ${keyOf(scheme)}: () => credential }`;
  const input = Object.keys(given).length === 0 ? '' : literalOf(given);
  return [
    "import { createClient, unwrap } from './api.ts';",
    '',
    `const api = createClient({ baseUrl: ${textLiteral(base().replace(/\/$/, ''))}${auth} });`,
    `const data = await unwrap(api${call}(${input}));`,
  ].join('\n');
}

// ── Python ──

function pythonCode(request) {
  const { method, url, body } = request;
  const lines = [JSON.stringify(url)];
  const cookie = cookieOf(request);
  const json = body?.text !== undefined && /[/+]json/.test(body.type) ? jsonOf(body.text) : undefined;
  const headers = [...headersOf(request), ...(cookie ? [['Cookie', cookie]] : [])];
  const shown = headers.filter(
    ([name, value]) => json === undefined || name !== 'Content-Type' || value !== 'application/json',
  );
  if (shown.length > 0) lines.push(`headers=${pythonLiteral(Object.fromEntries(shown), '    ')}`);
  if (json !== undefined) lines.push(`json=${pythonLiteral(json, '    ')}`);
  else if (body?.text !== undefined) lines.push(`data=${JSON.stringify(body.text)}`);
  else if (body?.file) lines.push(`data=open(${JSON.stringify(body.file.name)}, "rb")`);
  const texts = body?.parts?.filter(([, value]) => !(value instanceof File)) ?? [];
  const files = body?.parts?.filter(([, value]) => value instanceof File) ?? [];
  const pair = ([name, value]) =>
    `(${JSON.stringify(name)}, ${value instanceof File ? `open(${JSON.stringify(value.name)}, "rb")` : JSON.stringify(value)})`;
  if (texts.length > 0) lines.push(`data=[${texts.map(pair).join(', ')}]`);
  if (files.length > 0) lines.push(`files=[${files.map(pair).join(', ')}]`);
  const call = [
    'response = requests.request(',
    `    "${method}",`,
    ...lines.map((line) => `    ${line},`),
    ')',
  ];
  return ['import requests', '', ...call, 'print(response.status_code, response.text)'].join('\n');
}

const PYTHON_WORDS = { true: 'True', false: 'False', null: 'None' };

function pythonLiteral(value, indent) {
  if (typeof value !== 'object' || value === null)
    return PYTHON_WORDS[String(value)] ?? JSON.stringify(value);
  const inner = `${indent}    `;
  const isList = Array.isArray(value);
  const lines = Object.entries(value).map(
    ([name, each]) => `${inner}${isList ? '' : `${JSON.stringify(name)}: `}${pythonLiteral(each, inner)},\n`,
  );
  const [open, close] = isList ? '[]' : '{}';
  return lines.length === 0 ? open + close : `${open}\n${lines.join('')}${indent}${close}`;
}
