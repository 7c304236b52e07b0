/**
 * OAuthPlugin: options, methods for the application, and clean-up. endpoints.ts lists the routes.
 */
import { randomInt } from 'node:crypto';
import { tokenIssuer } from '../auth/auth.ts';
import { SvcError } from '../base/errors.ts';
import { given, int, readOptions } from '../base/options.ts';
import { durability } from '../db/plugin.ts';
import { recordStoreMigration } from '../db/record-store.ts';
import { OAuthErrorResponses, answering } from './error-responses.ts';
import { loginAuthority } from '../http/state.ts';
import { PREFIX, PROVIDER_TOKEN_TABLE, USED_TABLE, assemble } from './assembly.ts';
import { endpointsOf } from './endpoints.ts';
import { FailurePages } from './failure-page.ts';
import { readPluginOptions, wrongOption } from './plugin-options.ts';
import { rulesOf } from './plugin-rules.ts';
import { identitiesOf } from './provider-tokens.ts';
import { OAuthProvider } from './provider/presets.ts';
import { isSubject } from './provider/user-info.ts';
import { OAUTH_TABLES, PROVIDER_SESSIONS } from './tokens/sql-store.ts';
import { isPending } from './tokens/store.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { Host, Plugin } from '../routing/plugin.ts';
import type { HttpResponse } from '../http/response.ts';
import type { Registered } from './assembly.ts';
import type { OAuthPluginOptions, ReadOptions } from './plugin-options.ts';
import type { IssueOptions, IssuedLogin } from './logins.ts';
import type {
  Identity,
  ProviderTokenAnswer,
  ProviderTokenOptions,
  StoredProviderTokens,
} from './provider-tokens.ts';
import type { LoginRow } from './tokens/store.ts';

/** A login of a user, as `listSessions()` returns it. */
export interface SessionInfo {
  readonly id: string;
  readonly provider: string;
  /** Id of the user at the provider. For a login by `issue()`, the application's id of the user. */
  readonly subject: string;
  readonly createdAt: Date;
  readonly lastUsedAt: Date;
  readonly userAgent: string | null;
  readonly ip: string | null;
  /** True for the login whose id was passed to `listSessions()` as `currentId`. */
  readonly isCurrent: boolean;
}

const SUBJECT = given<string>('the id of a user at the provider', isSubject);
const CLEAN_UP_MS = 600_000;
const CLEAN_UP_BATCH = 1_000;

/** Login through identity providers; see README.md in this folder. */
export class OAuthPlugin implements Plugin {
  readonly name = 'oauth';
  readonly secrets: readonly string[] | undefined;
  readonly #options: ReadOptions;
  readonly #providers: readonly OAuthProvider[];
  #registered: Registered | undefined;
  #timer: Disposable | undefined;
  /** The last clean-up, which may still be running. */
  #cleaning: Promise<unknown> | undefined;
  #isStopped = false;

  /**
   * @throws SvcError `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` for an invalid option, `E_OAUTH_PROVIDERS` for
   * invalid providers
   */
  constructor(options: OAuthPluginOptions) {
    this.#options = readPluginOptions(options);
    this.#providers = providersOf(this.#options);
    if (this.#options.authSecret === undefined) this.secrets = ['authSecret'];
  }

  /**
   * Ends every login of a user, for example after a password change or a breach. `sub` is the application's
   * id of the user. Returns how many logins it ended.
   */
  async revokeAll(sub: string): Promise<number> {
    const { ends, clock, audit } = this.#use();
    const count = await ends.revokeAll(sub, clock.nowMicros());
    audit.allRevoked(sub, count);
    return count;
  }

  /**
   * Returns the logins of a user that have not ended. The most recently used login comes first. `currentId`
   * is the claim `sid` of the current access token.
   */
  async listSessions(
    sub: string,
    { currentId }: { readonly currentId?: string | undefined } = {},
  ): Promise<SessionInfo[]> {
    const { store, clock } = this.#use();
    const rows = await store.listLogins(sub, clock.nowMicros());
    return rows.filter((row) => !isPending(row)).map((row) => sessionOf(row, currentId));
  }

  /** Ends one login of a user. Returns false if the user has no login with that id. */
  async revokeSession(sub: string, id: string): Promise<boolean> {
    const { ends, clock, audit } = this.#use();
    const isEnded = await ends.revokeOf(sub, id, clock.nowMicros());
    if (isEnded) audit.tokenRevoked(undefined, id, 'user', sub);
    return isEnded;
  }

  /**
   * Starts a login for a user whom the application has identified itself, for example by password. The user
   * gets rotating refresh tokens, as after a login at a provider.
   *
   * In JSON mode, send `body` of the result to the client. In cookie mode, pass `response`, on which the
   * cookies are set. If `SessionMiddleware` is in use, the session is renewed.
   *
   * Call `issue()` only in a POST route behind `CSRFMiddleware`, or in a route that ignores cookies.
   *
   * @throws SvcError `E_OPTION_RANGE` for an invalid option, `E_OAUTH_USER` for a user, scopes or claims that
   * cannot be in a token; OAuthError `invalid_dpop_proof` or `use_dpop_nonce` for an invalid proof,
   * `access_denied` when the user was revoked, `temporarily_unavailable` when the database fails
   */
  async issue(sub: string, options: IssueOptions): Promise<IssuedLogin> {
    return this.#use().logins.issue(sub, options);
  }

  /**
   * Returns an access token of a user for the API of a provider, from the last login by this identity.
   * Refreshes a token that expires within `minValiditySeconds`. If there is no token, `kind` of the result is
   * the reason. Requires the option `storeProviderTokens`.
   *
   * Name the identity by `subject` if users may have several at one provider.
   *
   * @throws SvcError `E_OPTION_RANGE` for an invalid option; OAuthError `subject_required` without `subject`
   * when the user has several identities at the provider, `provider_error`, `provider_timeout` or
   * `temporarily_unavailable` when the provider or the database fails
   */
  async providerToken(
    sub: string,
    provider: string,
    options: ProviderTokenOptions = {},
  ): Promise<ProviderTokenAnswer> {
    const { subject, minValiditySeconds } = readOptions('OAuthPlugin.providerToken()', options, {
      subject: SUBJECT,
      minValiditySeconds: int(60, 0, 3_600),
    });
    return this.#storedTokens().get(sub, provider, subject, minValiditySeconds);
  }

  /**
   * Deletes a user's tokens of an identity at a provider, for example when you delete the account. Returns
   * whether there were any.
   *
   * @throws OAuthError `subject_required` without `subject` when the user has several identities at the provider
   */
  async forgetProviderToken(
    sub: string,
    provider: string,
    options: { readonly subject?: string | undefined } = {},
  ): Promise<boolean> {
    const { subject } = readOptions('OAuthPlugin.forgetProviderToken()', options, { subject: SUBJECT });
    return this.#storedTokens().forget(sub, provider, subject);
  }

  /**
   * Returns the identities of a user at the providers, as far as the plugin knows them: identities with
   * stored tokens (option `storeProviderTokens`), and identities with a login that has not ended. The complete
   * list is the application's: it stores what `onUser` and `onLink` receive.
   */
  async listIdentities(sub: string): Promise<Identity[]> {
    return identitiesOf(this.#use(), sub);
  }

  #storedTokens(): StoredProviderTokens {
    const { providerTokens } = this.#use();
    if (providerTokens !== undefined) return providerTokens;
    throw wrongOption('storeProviderTokens', 'must be true when providerToken() is used', 'false');
  }

  /**
   * Logs out the user of a request. Returns whether a login has ended. Call this method in a POST route
   * behind `CSRFMiddleware`.
   *
   * In cookie mode, the login of the refresh cookie ends, and the cookies are deleted on `response`. If
   * `SessionMiddleware` is in use, the login of the session ends as well, and the session is destroyed.
   *
   * In JSON mode without a session, call `revokeSession(me.sub, me.sid)` to end the login of an access token.
   *
   * @throws OAuthError `temporarily_unavailable` when the database does not answer; then nothing has changed
   */
  async logout(req: HttpRequest, response: HttpResponse): Promise<boolean> {
    return this.#use().tokenEndpoints.logout(req, response);
  }

  /** Registers the routes, migrations and rules. Called by `app.register()`. */
  register(host: Host): void {
    const assembled = (this.#registered = assemble(host, this.#options, this.#providers));
    const { mode, errorPath, allowedRedirectUris } = this.#options;
    const pages = mode === 'cookie' ? new FailurePages(PREFIX, errorPath, allowedRedirectUris) : undefined;
    host.use(new OAuthErrorResponses(PREFIX, pages), 'outside');
    for (const { method, path, spec, handler } of endpointsOf(this.#options, assembled))
      host.routes.route(path, [method], spec, answering(handler));
    host.migration('oauth_logins', OAUTH_TABLES);
    host.migration('oauth_used', recordStoreMigration(USED_TABLE));
    host.migration('oauth_provider_sessions', PROVIDER_SESSIONS);
    host.migration('oauth_provider_tokens', recordStoreMigration(PROVIDER_TOKEN_TABLE));
    host.provide(tokenIssuer, () => assembled.issuer);
    host.provide(loginAuthority, () => assembled.live);
    const storage = assembled.isPersistent ? host.get(durability) : undefined;
    for (const rule of rulesOf(this.#options, this.#providers, host.env, storage)) host.rule(rule);
    if (!assembled.isPersistent && host.env !== 'production')
      assembled.log.warn('logins_in_memory', {
        remedy: 'Register a DatabasePlugin to keep logins after the process ends',
      });
  }

  async startup(signal: AbortSignal): Promise<void> {
    const { connected, connect } = this.#use();
    // an earlier shutdown closed the clients of the providers, so they are created again
    if (this.#isStopped) for (const one of connected.values()) one.client = connect(one.provider);
    this.#isStopped = false;
    for (const { client } of connected.values()) await client.start(signal);
    this.#scheduleCleanUp();
  }

  async shutdown(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.[Symbol.dispose]();
    for (const { client } of this.#use().connected.values()) client.close();
    await this.#cleaning; // the clean-up needs the database, which closes after this method
  }

  #use(): Registered {
    if (this.#registered === undefined) throw new SvcError('E_OAUTH_UNREGISTERED', []);
    return this.#registered;
  }

  /** Schedules the next clean-up in 5 to 15 minutes, at another time than other processes. */
  #scheduleCleanUp(): void {
    const { clock, log } = this.#use();
    this.#timer = clock.after(CLEAN_UP_MS / 2 + randomInt(CLEAN_UP_MS), () => {
      this.#cleaning = this.cleanUp()
        .catch((error: unknown) => log.error('clean_up_failed', error))
        .finally(() => {
          if (!this.#isStopped) this.#scheduleCleanUp();
        });
    });
  }

  /**
   * Deletes logins whose maximum lifetime is over, in batches. It runs automatically about every ten minutes.
   * Returns the number of deleted rows.
   */
  async cleanUp(): Promise<number> {
    const { store, clock } = this.#use();
    let removed = 0;
    for (;;) {
      const count = this.#isStopped ? 0 : await store.cleanUp(clock.nowMicros(), CLEAN_UP_BATCH);
      removed += count;
      if (count < CLEAN_UP_BATCH) return removed;
    }
  }
}

function providersOf({ provider, providers, onUser, onLink }: ReadOptions): readonly OAuthProvider[] {
  const all = provider !== undefined ? [provider] : [...(providers ?? [])];
  const refuse = (problem: string): never => {
    throw new SvcError('E_OAUTH_PROVIDERS', [problem]);
  };
  if (provider !== undefined && providers !== undefined)
    refuse('the options "provider" and "providers" are both set: set only one of the two');
  if (providers?.length === 0 || !all.every((one) => one instanceof OAuthProvider))
    refuse('each provider must be made by githubProvider(), googleProvider() or new OAuthProvider()');
  if (new Set(all.map((one) => one.name)).size < all.length) refuse('two providers have the same name');
  if (all.length === 0 && (onUser !== undefined || onLink !== undefined))
    refuse('the options "onUser" and "onLink" require the option "provider" or "providers"');
  if (all.length > 0 && onUser === undefined)
    throw wrongOption('onUser', 'must be a function (provider, info) that returns the subject', 'none');
  return all;
}

function sessionOf(row: LoginRow, currentId: string | undefined): SessionInfo {
  return {
    id: row.id,
    provider: row.provider,
    subject: row.subject,
    createdAt: new Date(row.createdAt / 1_000),
    lastUsedAt: new Date(row.lastUsedAt / 1_000),
    userAgent: row.userAgent,
    ip: row.ip,
    isCurrent: row.id === currentId,
  };
}
