/**
 * Repository of a new project: files that git ignores, and the workflow that checks each push.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** `.gitignore`. */
export const GITIGNORE: Template = () => `.env
node_modules/
coverage/
data.db*
svc.sarif
*.log
`;

/** `.github/workflows/ci.yml`: types, tests on both databases, `svc check`, the image. */
export const CI: Template = ({ source }) => `name: ci
on:
  push:
    branches: [main]
  pull_request:

permissions:
  contents: read

jobs:
  test:
    runs-on: ubuntu-latest
    permissions:
      contents: read
      security-events: write # what svc check finds goes to code scanning
    services:
      postgres:
        image: postgres:17
        env:
          POSTGRES_PASSWORD: only-for-tests
        ports: ["5432:5432"]
        options: --health-cmd pg_isready --health-interval 2s --health-timeout 5s --health-retries 30
    steps:
      - uses: actions/checkout@v6
      - uses: actions/setup-node@v6
        with:
          node-version: 24
          cache: npm
      - run: npm ci
${source === 'registry' ? '      - run: npm run typecheck\n' : ''}      - run: npm test
        env:
          POSTGRES_URL: postgres://postgres:only-for-tests@127.0.0.1:5432/postgres
      - name: svc check
        run: |
          export SVC_AUTH_SECRET=$(node -p "crypto.randomBytes(32).toString('hex')")
          npx --no svc check src/app.ts --env production --max-warnings 0 --output sarif=svc.sarif
      - uses: github/codeql-action/upload-sarif@v4
        # Forks may not write there, and private repositories need GitHub Code Security for it.
        if: \${{ !cancelled() && hashFiles('svc.sarif') != '' && github.event.pull_request.head.repo.fork != true }}
        with:
          sarif_file: svc.sarif
          category: svc
      - run: docker build .
`;
