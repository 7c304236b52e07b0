/**
 * Container of a new project: its image, and a composition of the image with PostgreSQL.
 *
 * Each text is a template literal: a backslash before a backquote, a dollar sign or a backslash is not part of the file.
 */
import type { Template } from '../options.ts';

/** Returns the name of the image: the package name without its scope, which Docker refuses. */
export function imageOf(name: string): string {
  return name.replace(/^@.*\//, '');
}

/** `Dockerfile`: one stage installs packages, the second adds the application and runs it without privileges. */
export const DOCKERFILE: Template = ({
  source,
  name,
}) => `# docker build -t ${imageOf(name)} . && docker run --rm -p 8000:8000 -e SVC_AUTH_SECRET -v ${imageOf(name)}-data:/data ${imageOf(name)}
FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
${source === 'vendor' ? 'COPY vendor ./vendor\n' : ''}RUN npm ci --omit=dev --ignore-scripts

FROM node:24-slim
# DATABASE_URL and SVC_DATABASE_URL of the deployment count before this one.
ENV SVC_ENV=production SVC_HOST=0.0.0.0 SVC_PORT=8000 DATABASE_URL=sqlite:///data/data.db
WORKDIR /app
COPY --from=packages /app ./
COPY src ./src
COPY migrations ./migrations
# A new volume takes over whose folder this is. SQLite writes files beside the database, so it needs one of its own.
RUN mkdir /data && chown node:node /data
VOLUME /data
USER node
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.SVC_PORT + '/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Not through npm, and by exec: SIGTERM must reach the process that drains.
CMD ["sh", "-c", "node node_modules/svc/bin/svc.js migrate up src/app.ts && exec node node_modules/svc/bin/svc.js run src/app.ts"]
`;

/** `.dockerignore`: files that the image leaves out. */
export const DOCKERIGNORE: Template = () => `.env
.env.*
.git
.github
node_modules
test
coverage
data.db*
*.log
`;

/** `compose.yaml`: the image with PostgreSQL. */
export const COMPOSE: Template =
  () => `# docker compose up --build: the application at http://127.0.0.1:8000, and PostgreSQL. Values come from .env, or from the environment.
services:
  app:
    build: .
    ports: ["127.0.0.1:8000:8000"]
    environment:
      - DATABASE_URL=postgres://app:\${POSTGRES_PASSWORD:?}@db/app?sslmode=disable # it never leaves the network of this file
      - SVC_AUTH_SECRET=\${SVC_AUTH_SECRET:?}
      - SVC_AUTH_SECRET_PREVIOUS
      - SVC_ENV
      - SVC_BASE_URL
      - SVC_GITHUB_CLIENT_ID
      - SVC_GITHUB_CLIENT_SECRET
      - SVC_GOOGLE_CLIENT_ID
      - SVC_GOOGLE_CLIENT_SECRET
      - SVC_TRUST_PROXY
    depends_on:
      db: { condition: service_healthy }
    restart: unless-stopped
    stop_grace_period: 35s
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
  db:
    image: postgres:17
    environment:
      - POSTGRES_USER=app
      - POSTGRES_DB=app
      - POSTGRES_PASSWORD=\${POSTGRES_PASSWORD:?}
    volumes: ["db:/var/lib/postgresql/data"]
    healthcheck:
      test: ["CMD", "pg_isready", "-h", "127.0.0.1", "-U", "app"]
      interval: 2s
      timeout: 5s
      retries: 30
    restart: unless-stopped
volumes:
  db:
`;
