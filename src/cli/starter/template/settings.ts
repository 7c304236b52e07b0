/**
 * Settings of a new project: the code that reads them, and the two files that set them on a developer's machine.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** `src/settings.ts`. */
export const SETTINGS: Template = () => `/**
 * What can be set, from outside: read once, at the start. A value that does not fit ends it with the name of the variable.
 */
import type { Config } from 'svc';

export interface Settings {
  /** Where notes are kept: \`sqlite:\` with a path, or \`postgres:\` with a server. */
  readonly databaseUrl: string;
  /** Where people reach it. */
  readonly baseUrl: URL | undefined;
  /** What it is at GitHub and Google; empty where people do not log in there. */
  readonly github: Client;
  readonly google: Client;
  /** Notes on a page unless the request says. */
  readonly pageSize: number;
  /** Notes that one person keeps at most. */
  readonly maxNotes: number;
  /** Requests of one client. */
  readonly requestsPerMinute: number;
}

/** What an identity provider knows an application by. */
export interface Client {
  readonly id: string;
  readonly secret: string;
}

export function readSettings(config: Config): Settings {
  const number = (key: string, fallback: number, greatest: number): number =>
    config.get(key, fallback, { cast: (text) => wholeNumber(text, greatest), needs: \`a whole number 1 … \${greatest}\` });
  return {
    databaseUrl: config.get('databaseUrl', process.env['DATABASE_URL'] ?? 'sqlite:./data.db'), // many platforms set that one
    baseUrl: config.get('baseUrl', undefined, { cast: (text) => new URL(text), needs: 'an address such as https://notes.example' }),
    github: { id: config.get('githubClientId', ''), secret: config.get('githubClientSecret', '') },
    google: { id: config.get('googleClientId', ''), secret: config.get('googleClientSecret', '') },
    pageSize: number('pageSize', 20, 100),
    maxNotes: number('maxNotes', 1_000, 1_000_000),
    requestsPerMinute: number('requestsPerMinute', 120, 1_000_000),
  };
}

/** NaN for a text that does not fit. */
function wholeNumber(text: string, greatest: number): number {
  const value = Number(text);
  return Number.isInteger(value) && value >= 1 && value <= greatest ? value : Number.NaN;
}
`;

/** `.env`: settings of this machine, with secrets. */
export const ENV: Template = ({
  secret,
  password,
}) => `# This machine's settings, for "npm run dev" and "docker compose up". Never committed, and never copied to another machine.
SVC_ENV=development
SVC_AUTH_SECRET=${secret}
POSTGRES_PASSWORD=${password}
`;

/** `.env.example`: `.env` without its values, to be committed. */
export const ENV_EXAMPLE: Template =
  () => `# Copy to .env, and fill in: README.md says what each of them is for.
SVC_ENV=development
# node -p "crypto.randomBytes(32).toString('hex')"
SVC_AUTH_SECRET=
# Of the database that compose.yaml starts
POSTGRES_PASSWORD=
# SVC_HOST=127.0.0.1
# SVC_PORT=8000
# SVC_DATABASE_URL=sqlite:./data.db
# SVC_BASE_URL=
# SVC_GITHUB_CLIENT_ID=
# SVC_GITHUB_CLIENT_SECRET=
# SVC_GOOGLE_CLIENT_ID=
# SVC_GOOGLE_CLIENT_SECRET=
# SVC_PAGE_SIZE=20
# SVC_MAX_NOTES=1000
# SVC_REQUESTS_PER_MINUTE=120
# SVC_TRUST_PROXY=
# SVC_AUTH_SECRET_PREVIOUS=
`;
