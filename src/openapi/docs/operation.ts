/**
 * Writes one operation as HTML: purpose, security, inputs and responses. It is readable without JavaScript;
 * the script of the page adds a form for calls.
 */
import { http } from '../../base/node-http.ts';
import { inline, prose } from './markdown.ts';
import { NOTHING, html, joined } from './markup.ts';
import { isFile, record, text } from '../reader.ts';
import { factsOf } from './schema.ts';
import type {
  Callback,
  DocumentedResponse,
  Example,
  MediaContent,
  Operation,
  Parameter,
  RequestBody,
} from './document.ts';
import type { Markup } from './markup.ts';
import type { SchemaWriter } from './schema.ts';

/** Headings for the parameters in each part of a request. */
const PLACES: Readonly<Record<string, string>> = {
  path: 'Path parameters',
  query: 'Query parameters',
  header: 'Headers',
  cookie: 'Cookies',
};
/** Maximum number of characters of a shown example. */
const MOST_CHARACTERS = 20_000;
/** Maximum number of examples for one media type. */
const MOST_EXAMPLES = 10;

/**
 * Writes an operation as a closed `<details>` element. The id is on an element inside it, so that browsers
 * open the `<details>` when a link leads to the id.
 */
export function operationMarkup(operation: Operation, schemas: SchemaWriter): Markup {
  const { id, method, path, summary, description, isDeprecated, parameters, body, responses } = operation;
  const { callbacks, isWebhook } = operation;
  return html`<details class="op ${method}${isWebhook && ' hook'}"><summary><h3><b class="m">${method.toUpperCase()}</b> <code>${pathMarkup(path)}</code></h3>${summary !== undefined && html`<span class="s">${summary}</span>`}${isDeprecated && html`<s>deprecated</s>`}${operation.isProtected && LOCK}</summary><div class="b" id="${id}"><div class="d">${accessMarkup(operation)}${prose(description)}${parametersMarkup(parameters, schemas)}${body !== undefined && bodyMarkup(body, schemas)}${responses.length > 0 && responsesMarkup(responses, schemas)}${callbacks.length > 0 && callbacksMarkup(callbacks, schemas)}</div></div></details>
`;
}

const LOCK: Markup = html`<span class="l" title="Requires authorization"><span class="v">requires authorization</span></span>`;

export function pathMarkup(path: string): Markup {
  const parts = path.split(/(\{[^}]*\})/);
  return html`${parts.map((part, index) => (index % 2 === 0 ? part : html`<i>${part}</i>`))}`;
}

function accessMarkup({ security, isProtected }: Operation): Markup {
  const needs = security.filter((alternative) => alternative.length > 0);
  const alternatives = needs.map((alternative) => joined(alternative, ' + ', schemeMarkup));
  if (alternatives.length === 0) return NOTHING;
  return html`<p class="a">${isProtected && LOCK} Authorization: ${joined(alternatives, ' or ')}${needs.length < security.length && ', or none'}</p>`;
}

function schemeMarkup([scheme, scopes]: readonly [string, readonly string[]]): Markup {
  return html`<code>${scheme}</code>${scopes.map((scope) => html` <code>${scope}</code>`)}`;
}

function parametersMarkup(parameters: readonly Parameter[], schemas: SchemaWriter): Markup {
  const groups = Object.entries(PLACES).map(([place, title]) => {
    const found = parameters.filter((parameter) => parameter.in === place);
    const items = found.map((parameter) => parameterMarkup(parameter, schemas));
    return found.length > 0 && html`<h4>${title}</h4><ul class="f">${items}</ul>`;
  });
  return html`${groups}`;
}

function parameterMarkup(
  { name, isRequired, isDeprecated, description, schema, examples }: Parameter,
  schemas: SchemaWriter,
): Markup {
  const said = description ?? text(record(schema)['description']);
  return html`<li><code>${name}</code> <span class="t">${schemas.type(schema)}</span>${isRequired && html` <em>required</em>`}${isDeprecated && html` <s>deprecated</s>`}${prose(said)}${factsOf(
    schema,
    examples.map(({ value }) => value),
  )}${record(schema)['$ref'] === undefined && schemas.members(schema)}`;
}

function bodyMarkup({ isRequired, description, contents }: RequestBody, schemas: SchemaWriter): Markup {
  return html`<h4>Request body${isRequired && html` <em>required</em>`}</h4>${prose(description)}${contentsMarkup(contents, schemas, true)}`;
}

/** Writes each success response separately, and errors with equal content together. */
function responsesMarkup(responses: readonly DocumentedResponse[], schemas: SchemaWriter): Markup {
  const groups = Map.groupBy(responses, ({ status, contents }) =>
    /^[23]/.test(status) ? status : JSON.stringify(contents),
  );
  return html`<h4>Responses</h4>${[...groups.values()].map((group) => (group.length === 1 ? responseMarkup(group[0]!, schemas) : errorsMarkup(group, schemas)))}`;
}

function errorsMarkup(group: readonly DocumentedResponse[], schemas: SchemaWriter): Markup {
  const rows = group.map(
    (response) =>
      html`<dt>${statusMarkup(response)}<dd>${phraseOf(response)}${response.headers.map(([name]) => html` <code>${name}</code>`)}`,
  );
  return html`<details class="r"><summary>${joined(group, ' ', statusMarkup)}</summary><dl>${rows}</dl>${contentsMarkup(group[0]!.contents, schemas, false)}</details>`;
}

function callbacksMarkup(callbacks: readonly Callback[], schemas: SchemaWriter): Markup {
  const each = callbacks.map(
    ({ name, method, expression, body }) =>
      html`<p>${name}: <b>${method.toUpperCase()}</b> <code>${expression}</code></p>${body !== undefined && contentsMarkup(body.contents, schemas, true)}`,
  );
  return html`<h4>Callbacks</h4>${each}`;
}

function statusMarkup({ status }: DocumentedResponse): Markup {
  return html`<b class="c${status.charAt(0).toLowerCase()}">${status}</b>`;
}

function phraseOf({ status, description }: DocumentedResponse): Markup {
  return inline(description === '' ? (http.STATUS_CODES[status] ?? '') : description);
}

function headersMarkup(headers: DocumentedResponse['headers'], schemas: SchemaWriter): Markup {
  if (headers.length === 0) return NOTHING;
  return html`<p class="k">Headers</p><ul class="f">${headers.map(([name, about, schema]) => html`<li><code>${name}</code> <span class="t">${schema !== undefined && schemas.type(schema)}</span>${prose(about)}`)}</ul>`;
}

/**
 * Writes a response. A success is shown open, with the members of its content. Other responses are closed,
 * and show only the type of their content.
 */
function responseMarkup(response: DocumentedResponse, schemas: SchemaWriter): Markup {
  const { status, contents, headers } = response;
  const isGood = /^2/.test(status);
  const inner = html`${headersMarkup(headers, schemas)}${contentsMarkup(contents, schemas, isGood)}`;
  const head = html`${statusMarkup(response)} ${phraseOf(response)}`;
  if (inner.text === '') return html`<p class="r">${head}</p>`;
  return isGood
    ? html`<details class="r" open><summary>${head}</summary>${inner}</details>`
    : html`<details class="r"><summary>${head}</summary>${inner}</details>`;
}

/** Writes the contents of a body. Media types with the same schema share one description. */
function contentsMarkup(contents: readonly MediaContent[], schemas: SchemaWriter, isWhole: boolean): Markup {
  const groups = Map.groupBy(contents, ({ schema, examples, fieldTypes }) =>
    JSON.stringify([schema, examples, [...fieldTypes]]),
  );
  return html`${[...groups.values()].map((group) => contentMarkup(group, schemas, isWhole))}`;
}

function contentMarkup(group: readonly MediaContent[], schemas: SchemaWriter, isWhole: boolean): Markup {
  const { schema, examples, fieldTypes } = group[0]!;
  const isBinary = isFile(schema) || schema === undefined;
  return html`<p class="t">${joined(group, ' or ', ({ type }) => html`<code>${type}</code>`)} ${isBinary ? '' : schemas.type(schema)}</p>${factsOf(schema)}${isWhole && schemas.members(schema, fieldTypes)}${examples.slice(0, MOST_EXAMPLES).map(exampleMarkup)}`;
}

function exampleMarkup({ name, value }: Example): Markup {
  const shown = typeof value === 'string' ? value : JSON.stringify(value, undefined, 2);
  return html`<details class="e"><summary>Example${name !== undefined && `: ${name}`}</summary><pre tabindex="0">${shown.slice(0, MOST_CHARACTERS)}</pre></details>`;
}
