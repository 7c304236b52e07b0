/**
 * The ways to end a login, and when each thing that names the login ends. The manual has this table, and
 * login-ends.test.ts tests each of its cells.
 */
import { jws } from './fake-provider.ts';
import type { OAuthPluginOptions } from 'svc/oauth';
import type { LoginSite, Tokens } from './site.ts';

/** When a thing ends: `now` at once, `soon` within five seconds, `exp` when the token expires, `-` never. */
export type Moment = 'now' | 'soon' | 'exp' | '-';

/** Columns of the table. */
export const THINGS = [
  'session',
  'session elsewhere',
  'refresh token',
  'access token',
  'WebSocket',
  'WebSocket elsewhere',
  'event stream',
  'MCP session',
  'stored response',
  'background task',
] as const;

export type Thing = (typeof THINGS)[number];

/** A user who is logged in, in two processes that share a database. */
export interface Visit {
  readonly here: LoginSite;
  readonly there: LoginSite;
  readonly tokens: Tokens;
  readonly loginId: string;
  /** Field `Cookie` with a copy of the session cookie. */
  readonly cookie: string;
  /** Users for whom `onRefresh` returns false. */
  readonly disabled: Set<string>;
  /** Logs in again in another browser, and returns its tokens. */
  loginAgain(): Promise<Tokens>;
}

export interface Way {
  /** Text of the first column, in Markdown. */
  readonly name: string;
  readonly moments: Readonly<Record<Thing, Moment>>;
  readonly plugin?: Partial<OAuthPluginOptions>;
  /** Ends the login, in the process `here`. */
  end(visit: Visit): Promise<unknown>;
}

const USUAL: Way['moments'] = {
  session: 'now',
  'session elsewhere': 'soon',
  'refresh token': 'now',
  'access token': 'exp',
  WebSocket: 'now',
  'WebSocket elsewhere': 'soon',
  'event stream': 'now',
  'MCP session': 'now',
  'stored response': 'now',
  'background task': '-',
};

/** Idle limit of the logins, in seconds. */
export const IDLE_SECONDS = 600;

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';

/** Returns a logout token of the provider for the user Ada. */
export function logoutTokenOf(site: LoginSite, jti: string): string {
  const iat = Math.floor(site.clock.nowMs() / 1_000);
  return jws(
    { alg: 'RS256', kid: 'rsa', typ: 'logout+jwt' },
    { iss: site.fake.url, aud: 'client', iat, exp: iat + 120, jti, events: { [EVENT]: {} }, sub: 'ada' },
  );
}

export const WAYS: readonly Way[] = [
  {
    name: '`revokeAll(sub)`',
    moments: USUAL,
    end: ({ here }) => here.oauth.revokeAll('user-ada'),
  },
  {
    name: '`revokeAll(sub)` with `enforceValidAfter`',
    moments: { ...USUAL, 'access token': 'soon' },
    plugin: { enforceValidAfter: true },
    end: ({ here }) => here.oauth.revokeAll('user-ada'),
  },
  {
    name: '`revokeSession(sub, id)`',
    moments: USUAL,
    end: ({ here, loginId }) => here.oauth.revokeSession('user-ada', loginId),
  },
  {
    name: '`logout(req, response)`',
    moments: USUAL,
    end: ({ here, cookie }) => here.browser().post('/leave', { headers: { cookie } }),
  },
  {
    name: '`POST /oauth/revoke`',
    moments: USUAL,
    end: ({ here, tokens }) => here.revoke({ token: tokens.refresh_token }, here.browser()),
  },
  {
    name: '`POST /oauth/logout`',
    moments: USUAL,
    end: ({ here, tokens }) =>
      here.browser().post('/oauth/logout', { form: { refresh_token: tokens.refresh_token } }),
  },
  {
    name: 'back-channel logout',
    moments: USUAL,
    end: ({ here }) =>
      here
        .browser()
        .post('/oauth/own/backchannel-logout', { form: { logout_token: logoutTokenOf(here, 'jti-1') } }),
  },
  {
    name: '`POST /oauth/{provider}/unlink` by another login of the user',
    moments: USUAL,
    end: async ({ here, loginAgain }) =>
      here.browser().post('/oauth/own/unlink', {
        headers: { authorization: `Bearer ${(await loginAgain()).access_token}` },
      }),
  },
  {
    name: 'a rotated refresh token comes again',
    moments: USUAL,
    end: async ({ here, tokens }) => {
      await here.refresh(tokens.refresh_token, {}, here.browser());
      await here.clock.advance(1);
      return here.refresh(tokens.refresh_token, {}, here.browser());
    },
  },
  {
    name: '`onRefresh` returns false',
    moments: USUAL,
    end: ({ here, tokens, disabled }) => {
      disabled.add('user-ada');
      return here.refresh(tokens.refresh_token, {}, here.browser());
    },
  },
  {
    name: 'the login expires (`refreshIdleTtlSeconds`, `refreshAbsoluteTtlSeconds`)',
    moments: {
      ...USUAL,
      session: 'soon',
      WebSocket: 'soon',
      'event stream': 'soon',
      'MCP session': 'soon',
      'stored response': 'soon',
    },
    end: async ({ here, there }) => {
      for (const { clock } of [here, there]) await clock.advance(IDLE_SECONDS * 1_000);
    },
  },
];

const TEXTS: Readonly<Record<Moment, string>> = {
  now: 'at once',
  soon: '≤ 5 s',
  exp: 'when it expires',
  '-': 'finishes',
};

/** Returns the lines of the table in the manual. Ways with equal cells share a row. */
export function tableOfEnds(): string[] {
  const rows = Map.groupBy(WAYS, ({ moments }) => THINGS.map((thing) => TEXTS[moments[thing]]).join(' | '));
  return [
    `| Ways to end a login | ${THINGS.join(' | ')} |`,
    `|---|${THINGS.map(() => '---|').join('')}`,
    ...Array.from(rows, ([cells, ways]) => `| ${ways.map(({ name }) => name).join(', ')} | ${cells} |`),
  ];
}
