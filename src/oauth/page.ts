/** HTML pages of OAuthPlugin and DevProvider. They load no external resources. */

/**
 * Returns a page with a heading. `head` contains additional elements of `<head>`, and `body` the content
 * below the heading.
 */
export function pageOf(title: string, head: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
${head}
</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
}

/**
 * Returns the Content Security Policy of a page. `source` is the directive for its style or script, and
 * `forms` lists the targets of its forms.
 */
export function policyOf(source: string, forms: string): string {
  return `default-src 'none'; ${source}; form-action ${forms}; base-uri 'none'; frame-ancestors 'none'`;
}
