/**
 * Script of the docs page: an opened operation gets fields for its parameters, an editor for its body, and the request that they
 * make. code.js shows that request as code, answer.js sends it.
 */

let lastId = 0;
const nextId = () => `:${++lastId}`;
const SAFE = ['GET', 'HEAD', 'OPTIONS', 'TRACE'];
const PLACES = ['path', 'query', 'header', 'cookie'];
const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
const pairOf = (name, value) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;

async function addTry(fold, body) {
  const panel = make('div', { class: 'y', role: 'group', 'aria-label': 'Try it out' });
  body.append(panel);
  try {
    await loadDocument();
  } catch {
    panel.append(contentOf(':failed'));
    panel.querySelector('button').addEventListener('click', () => {
      panel.remove();
      addTry(fold, body);
    });
    return;
  }
  const method = fold.querySelector('.m').textContent;
  const path = fold.querySelector('h3 code').textContent;
  const item = resolved(openApi.paths?.[path]);
  const operation = item[method.toLowerCase()];
  if (!operation) return;
  panel.append(contentOf(':try'));
  startForm(panel, { method, path, item, operation });
}

/** Adds fields and the send button to the panel of an operation. */
function startForm(panel, { method, path, item, operation }) {
  const [form, needs, send, out] = ['form', '.need', '.main', '.out'].map((selector) =>
    panel.querySelector(selector),
  );
  const fields = mergedParameters(item, operation).map(parameterField);
  const body = operation.requestBody && bodyField(resolved(operation.requestBody));
  panel
    .querySelector('.fields')
    .append(...fields.flatMap(({ elements }) => elements), ...(body?.elements ?? []));
  const request = () => requestOf({ method, path, operation, fields, body });
  const showCode = startCode(panel.querySelector('.curl'), request);
  const link = make('a', { class: 'button', target: '_blank', rel: 'noopener' }, 'Open in a new tab');
  if (method === 'GET' && Object.keys(operation.responses ?? {}).some((status) => status.startsWith('3')))
    send.after(link); // such as a login: the response is for browsers
  const show = () => {
    showCode();
    link.href = request().url;
    const missing = missingProofs(operation);
    needs.hidden = missing.length === 0;
    needs.firstElementChild.textContent = `Needs ${missing.join(' or ')}.`;
  };
  form.addEventListener('submit', sending({ send, out, fields, request }));
  form.addEventListener('input', show);
  form.addEventListener('change', show);
  form.addEventListener('keydown', ({ key, ctrlKey, metaKey }) => {
    if (key === 'Enter' && (ctrlKey || metaKey)) form.requestSubmit();
  });
  needs.querySelector('button').addEventListener('click', openAuth);
  document.addEventListener('proofs', show);
  addExamples(panel, operation);
  const first = () => form.querySelector('input,select,textarea') ?? send;
  panel.parentElement.prepend(jump('Go to the form', first));
  form.append(jump('Back to the description', () => panel.closest('.op').querySelector('summary')));
  show();
}

/** Returns the listener that sends the request of a form, or stops the request that is under way. */
function sending({ send, out, fields, request }) {
  let running;
  return async (event) => {
    event.preventDefault();
    if (running) return running.abort();
    const empty = fields.filter((field) => !field.check());
    if (empty.length > 0) {
      out.replaceChildren(); // the shown response belongs to other values
      return empty[0].focus();
    }
    running = new AbortController();
    send.textContent = 'Stop';
    try {
      await answer(out, request(), running.signal);
    } finally {
      running = undefined;
      send.textContent = 'Send';
    }
  };
}

/** Adds an example of each response with JSON. Statuses with equal content share one; that of the success is open. */
function addExamples(panel, operation) {
  const groups = new Map();
  for (const [status, given] of Object.entries(operation.responses ?? {})) {
    const { content } = resolved(given);
    const [, media] = Object.entries(content ?? {}).find(([type]) => /[/+]json/.test(type)) ?? [];
    const example = media && (exampleIn(media) ?? (media.schema && responseSample(media.schema)));
    if (example === undefined) continue;
    const text = JSON.stringify(content);
    groups.set(text, { example, statuses: [...(groups.get(text)?.statuses ?? []), status] });
  }
  for (const { example, statuses } of groups.values()) {
    const isGood = statuses[0].startsWith('2');
    const given = { class: `curl ${isGood ? 'eg' : 'er'}`, open: isGood && !panel.querySelector('.eg') };
    const code = { tabindex: '0', 'aria-label': 'Example response' };
    const summary = make('summary', {}, `Example response ${statuses.join(', ')}`);
    panel.append(make('details', given, summary, make('pre', code, ...jsonNodes(JSON.stringify(example)))));
  }
}

/** Returns a button that is visible when it has the focus, and moves the focus to an element. */
const jump = (text, target) =>
  make('button', { type: 'button', class: 'skip', onclick: () => target().focus() }, text);

/** Returns the parameters of an operation and its path. If both have a parameter, that of the operation is used. */
function mergedParameters(item, operation) {
  const byName = new Map();
  for (const given of [...(item.parameters ?? []), ...(operation.parameters ?? [])]) {
    const parameter = resolved(given);
    if (parameter.name) byName.set(`${parameter.in} ${parameter.name}`, parameter);
  }
  return [...byName.values()].sort((left, right) => PLACES.indexOf(left.in) - PLACES.indexOf(right.in));
}

// ── fields ──

function parameterField(parameter) {
  const { name, in: place, required: isRequired = false } = parameter;
  const [media] = Object.values(parameter.content ?? {});
  const schema = resolved(parameter.schema ?? media?.schema);
  const field = valueField({ name, place, isRequired, schema, example: exampleIn(parameter) });
  return { ...field, parameter, isJson: media !== undefined };
}

function exampleIn(owner) {
  if (owner.example !== undefined) return owner.example;
  const [first] = Object.values(owner.examples ?? {}).map(resolved);
  return first?.value;
}

/** Returns a label, a control and a place for an error. Lists are entered line by line, objects as JSON. */
function valueField({ name, place = '', isRequired, schema, example, mediaType = '' }) {
  const id = nextId();
  const control = controlOf(schema, isRequired);
  const isList = typeName(schema) === 'array';
  const isFiles = control.type === 'file';
  control.id = id;
  control.classList.add('in');
  if (isRequired) control.setAttribute('aria-required', 'true');
  const usual = isRequired ? sample(schema) : (schema.example ?? schema.const);
  const begin = example === undefined ? usual : example;
  if (!isFiles && begin !== undefined && begin !== null)
    control.value = isList && Array.isArray(begin) ? begin.map(asText).join('\n') : asText(begin);
  if ('placeholder' in control && schema.default !== undefined)
    control.placeholder = `default ${asText(schema.default)}`;
  const wrong = make('p', { class: 'wrongs', id: `${id}-wrong`, hidden: true }, 'Required');
  const hints = [
    make('span', { class: 't' }, place && ` ${place}`, isList && !isFiles && ', one on a line'),
    isRequired && make('em', {}, ' required'),
    isFiles && make('span', { class: 't' }, fileHint(schema, mediaType)),
  ];
  const label = make('label', { for: id }, make('code', {}, name), ...hints);
  if (isFiles && mediaType) control.setAttribute('accept', acceptOf(mediaType));
  return {
    name,
    schema,
    elements: [label, control, wrong],
    focus: () => control.focus(),
    values() {
      if (isFiles) return [...control.files];
      return isList ? control.value.split('\n').filter(Boolean) : [control.value].filter(Boolean);
    },
    check() {
      const isEmpty = place === 'path' && control.value === '';
      control.classList.toggle('wrong', isEmpty);
      control.setAttribute('aria-invalid', String(isEmpty));
      if (isEmpty) control.setAttribute('aria-describedby', wrong.id);
      wrong.hidden = !isEmpty;
      return !isEmpty;
    },
  };
}

function fileHint(schema, mediaType) {
  const { maxLength } = schema.items ? resolved(schema.items) : schema;
  const size = maxLength === undefined ? '' : `up to ${sizeText(maxLength)}`;
  const type = mediaType === 'application/octet-stream' ? '' : mediaType;
  return [type, size]
    .filter(Boolean)
    .map((text) => ` · ${text}`)
    .join('');
}

/** Returns the `accept` attribute of a file field; empty for wildcards that browsers do not support. */
function acceptOf(mediaType) {
  return mediaType === 'application/octet-stream' || /(?:^|[ ,])\*/.test(mediaType) ? '' : mediaType;
}

function controlOf(schema, isRequired) {
  const type = typeName(schema);
  const isList = type === 'array';
  if (isFile(schema) || (isList && isFile(resolved(schema.items))))
    return make('input', { type: 'file', multiple: isList });
  const only = schema.const === undefined ? undefined : [schema.const];
  const choices = schema.enum ?? only ?? (type === 'boolean' ? [true, false] : undefined);
  if (choices) {
    const usual = schema.default === undefined ? '' : `default ${asText(schema.default)}`;
    const none = isRequired ? [] : [make('option', { value: '' }, usual)];
    return make('select', {}, ...none, ...choices.map((value) => make('option', { value }, String(value))));
  }
  if (isList || type === 'object')
    return make('textarea', { class: 'c', rows: isList ? 2 : 4, spellcheck: 'false' });
  const isSecret = schema.format === 'password' || (schema.writeOnly && type === 'string');
  return make('input', {
    type: isSecret ? 'password' : 'text',
    inputmode: { integer: 'numeric', number: 'decimal' }[type],
    autocomplete: 'off',
    spellcheck: 'false',
  });
}

// ── bodies ──

/** Returns a field with one editor for each media type, of which one is shown. */
function bodyField(body) {
  const content = body.content ?? {};
  const types = Object.keys(content);
  if (types.length === 0) return undefined;
  const id = nextId();
  const holder = make('div');
  const options = types.map((type) => make('option', { value: type }, type));
  const select = make('select', { id, class: 'in' }, ...options);
  let editor;
  const choose = () => {
    editor = bodyEditor(select.value, content[select.value] ?? {}, body.required === true);
    holder.replaceChildren(...editor.elements);
  };
  select.addEventListener('change', choose);
  choose();
  const choice = types.length > 1 ? [make('label', { for: id }, 'Media type'), select] : [];
  return { elements: [...choice, holder], read: () => editor.read() };
}

function bodyEditor(type, media, isRequired) {
  const schema = resolved(media.schema);
  if (type.startsWith('multipart/') || type === 'application/x-www-form-urlencoded')
    return formEditor(type, schema, exampleIn(media), media.encoding ?? {});
  const id = nextId();
  const label = make('label', { for: id }, 'Body', make('span', { class: 't' }, ` ${type}`));
  const isJson = /[/+]json/.test(type);
  if (!isJson && (isFile(schema) || (!media.schema && !type.startsWith('text/')))) {
    const file = make('input', { id, class: 'in', type: 'file' });
    return { elements: [label, file], read: () => ({ type, file: file.files[0] }) };
  }
  const wrong = make('p', { class: 'wrongs', id: `${id}-wrong` });
  const given = { id, class: 'in c', spellcheck: 'false', 'aria-describedby': wrong.id };
  const area = make('textarea', given);
  area.addEventListener('input', () => {
    const isWrong = isJson && area.value !== '' && jsonOf(area.value) === undefined;
    wrong.textContent = isWrong ? 'Not valid JSON' : '';
    area.classList.toggle('wrong', isWrong);
  });
  const example = exampleIn(media);
  const fill = (begin) => {
    area.value = isJson ? JSON.stringify(begin, undefined, 2) : asText(begin ?? '');
    area.rows = Math.min(Math.max(area.value.split('\n').length, 3), 14);
    area.dispatchEvent(new Event('input', { bubbles: true }));
  };
  const choice = isJson ? variantChoice(schema, fill) : [];
  fill(example === undefined ? sample(schema) : example);
  const read = () => (area.value === '' && !isRequired ? undefined : { type, text: area.value });
  return { elements: [...choice, label, area, wrong], read };
}

/** Returns a choice between the named alternatives of a union; choosing one fills in a value of it. */
function variantChoice(schema, fill) {
  const variants = (schema.oneOf ?? schema.anyOf ?? []).filter((one) => one.$ref);
  if (variants.length < 2) return [];
  const id = nextId();
  const options = variants.map((one, index) =>
    make('option', { value: index }, decoded(one.$ref.split('/').at(-1))),
  );
  const select = make('select', { id, class: 'in' }, ...options);
  select.addEventListener('change', () => fill(alternative(schema, [variants[select.value]], [schema])));
  return [make('label', { for: id }, 'One of'), select];
}

/** Returns the value of a JSON text; undefined for another text. */
function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the schema of a form's field. A field with a media type of its own is a file, even if it contains text. */
function formField(schema) {
  if (schema.items) return { ...schema, items: formField(resolved(schema.items)) };
  return schema.contentMediaType && !schema.contentEncoding ? { ...schema, format: 'binary' } : schema;
}

function formEditor(type, schema, example, encoding) {
  const required = schema.required ?? [];
  const isMultipart = type.startsWith('multipart/');
  const members = Object.entries(schema.properties ?? {}).map(([name, member]) => [
    name,
    isMultipart ? formField(resolved(member)) : resolved(member),
  ]);
  const fields = members
    .filter(([, member]) => !member.readOnly)
    .map(([name, member]) =>
      valueField({
        name,
        isRequired: required.includes(name),
        schema: member,
        example: example?.[name],
        mediaType: encoding[name]?.contentType,
      }),
    );
  const parts = () => fields.flatMap(({ name, values }) => values().map((value) => [name, value]));
  const input = () =>
    Object.fromEntries(fields.map((field) => [field.name, typedValue(field.schema, field.values())]));
  return {
    elements: fields.flatMap(({ elements }) => elements),
    read: () => ({ type, isMultipart, parts: parts(), input: input() }),
  };
}

// ── requests ──

function requestOf({ method, path, operation, fields, body }) {
  const hasBody = method !== 'GET' && method !== 'HEAD';
  /** @type {any} */
  const request = {
    method,
    url: '',
    query: [],
    headers: [],
    cookies: [],
    body: hasBody ? body?.read() : undefined,
    operation,
    inputs: { path: {}, query: {}, header: {}, cookie: {} },
  };
  let filled = path;
  for (const { parameter, isJson, schema, values } of fields) {
    const { name, in: place } = parameter;
    const texts = values();
    if (texts.length > 0 && request.inputs[place]) request.inputs[place][name] = typedValue(schema, texts);
    if (place === 'path') filled = filled.replace(`{${name}}`, () => encodeURIComponent(texts.join(',')));
    else if (texts.length === 0) continue;
    else if (place === 'query') request.query.push(...queryOf(parameter, isJson ? {} : schema, texts));
    else if (place === 'header') request.headers.push([name, texts.join(',')]);
    else if (place === 'cookie') request.cookies.push([name, texts.join(',')]);
  }
  addProofs(request, operation);
  const wantsToken = alternativesOf(operation).some((one) => one.some(([, scheme]) => isCsrf(scheme)));
  const { text, file, type } = request.body ?? {};
  if (text !== undefined || file) request.headers.push(['Content-Type', type]);
  const query = request.query.length > 0 ? `?${request.query.join('&')}` : '';
  return {
    ...request,
    needsToken: wantsToken && !SAFE.includes(method),
    url: base().replace(/\/$/, '') + filled + query,
  };
}

/** Returns the texts or files of a field as a value of its schema; undefined if there are none. */
function typedValue(schema, texts) {
  const type = typeName(schema);
  if (type === 'array')
    return texts.length === 0 ? undefined : texts.map((text) => typedValue(resolved(schema.items), [text]));
  const [text] = texts;
  if (text === undefined || text instanceof File) return text;
  if (type === 'boolean') return text === 'true';
  const isNumber = (type === 'integer' || type === 'number') && Number.isFinite(Number(text));
  if (isNumber) return Number(text);
  const value = type === 'object' ? jsonOf(text) : undefined;
  return value === undefined ? text : value;
}

/** Returns the base URL of the operations: a server of the document that is this site, else the folder of the document. */
function base() {
  for (const { url, variables } of openApi.servers ?? []) {
    const text = String(url).replace(/\{([^}]*)\}/g, (_, name) => variables?.[name]?.default ?? '');
    if (!URL.canParse(text || '.', documentUrl())) continue;
    const found = new URL(text || '.', documentUrl());
    if (found.origin === location.origin) return found.origin + found.pathname;
  }
  const beside = new URL('.', documentUrl());
  return beside.origin + beside.pathname;
}

const SEPARATORS = { spaceDelimited: '%20', pipeDelimited: '%7C' };

function queryOf({ name, style, explode }, schema, texts) {
  const type = typeName(schema);
  if (type === 'array' && explode === false)
    return [`${encodeURIComponent(name)}=${texts.map(encodeURIComponent).join(SEPARATORS[style] ?? ',')}`];
  const members = type === 'object' ? jsonOf(texts[0]) : undefined;
  if (members) {
    const nameOf = (key) => (style === 'deepObject' ? `${name}[${key}]` : key);
    return Object.entries(members).map(([key, value]) => pairOf(nameOf(key), asText(value)));
  }
  return texts.map((text) => pairOf(name, text));
}
