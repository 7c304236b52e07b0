/** Rules of OAuthPlugin for `svc check`. */
import { issueInProduction, weaknessesOf } from './provider/options.ts';
import { callbackPathsOf } from './assembly.ts';
import { endsInOneOf, issuesOfRedirect } from './redirects.ts';
import type { Env } from '../base/config.ts';
import type { Durability } from '../db/plugin.ts';
import type { Explanation } from '../base/findings.ts';
import type { Rule } from '../http/contracts.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { OAuthProvider } from './provider/options.ts';

export function rulesOf(
  options: ReadOptions,
  providers: readonly OAuthProvider[],
  env: Env,
  storage: Durability | undefined,
): readonly (Rule & Partial<Explanation>)[] {
  const subject = 'plugin oauth';
  return [
    {
      id: 'SVC209',
      severity: 'error',
      phase: 'graph',
      cwe: [601],
      sources: ['RFC 9700 §2.1'],
      why: 'An attacker who can choose the redirect URI of a login receives the authorization code; without TLS, anyone on the network can read the code',
      remedy:
        'Name each redirect URI exactly as it is registered at the provider: allowedRedirectUris: ["https://app.example/oauth/callback"]',
      wrong: "allowedRedirectUris: ['http://shop.example/*']",
      right: "allowedRedirectUris: ['https://shop.example/oauth/callback']",
      run(_view, report) {
        const { allowedRedirectUris, postLogoutRedirectUris = [], allowLoopbackRedirects } = options;
        if (providers.length > 0 && allowedRedirectUris.length === 0 && env === 'production')
          report(subject, 'no redirect URI is allowed, so users cannot log in');
        for (const [name, entries] of Object.entries({ allowedRedirectUris, postLogoutRedirectUris }))
          entries.forEach((entry, index) => {
            for (const problem of issuesOfRedirect(entry, { env, allowsLoopback: allowLoopbackRedirects }))
              report(subject, `entry ${index + 1} of ${name} ${problem}`);
          });
      },
    },
    {
      id: 'SVC204',
      severity: 'error',
      phase: 'security',
      why: 'Without a limit an attacker can try passwords, codes and tokens until one fits',
      remedy: 'Omit the option "limits", or set each limit to a number: limits: { login: 20, token: 60 }',
      run(_view, report) {
        const open = (['login', 'callback', 'token', 'forged'] as const).filter(
          (name) => options.limits[name] === false,
        );
        if (open.length > 0) report(subject, `these rate limits are disabled: ${open.join(', ')}`);
      },
    },
    {
      id: 'oauth/provider',
      severity: 'error',
      phase: 'graph',
      why: 'A development provider checks no passwords; without TLS, any server can pretend to be the provider',
      remedy:
        'In production, use a real identity provider without allowInsecure; in development, set SVC_ENV=development',
      run(_view, report) {
        if (env !== 'production') return;
        for (const provider of providers) {
          const problem = issueInProduction(provider);
          if (problem !== undefined) report(subject, `provider "${provider.name}" ${problem}`);
        }
      },
    },
    {
      id: 'oauth/callback-path',
      severity: 'warning',
      phase: 'security',
      why: 'In cookie mode the provider sends the browser to the redirect URI, where only the callback of the plugin can complete the login: at another path, each login ends in a 404',
      remedy:
        'Let each entry of allowedRedirectUris end in the callback of a provider: https://app.example/oauth/callback, or https://app.example/oauth/<name>/callback with several providers',
      run({ routes }, report) {
        if (options.mode !== 'cookie') return; // in JSON mode a page may send the code to the callback
        const paths = providers.flatMap((provider) => callbackPathsOf(provider, providers));
        // a page of the application may redirect to the callback
        const pages = routes.filter(({ method, template }) => method === 'GET' && template !== '/');
        const ends = [...paths, ...pages.map(({ template }) => template)];
        options.allowedRedirectUris.forEach((entry, index) => {
          if (!endsInOneOf(entry, ends))
            report(
              subject,
              `entry ${index + 1} of allowedRedirectUris ends in no callback path: ${paths.join(', ')}`,
            );
        });
      },
    },
    {
      id: 'oauth/native-redirects',
      severity: 'warning',
      phase: 'security',
      why: 'Any application on a device may claim a private-use URI scheme or a loopback port, and so receive an authorization code; only PKCE makes a stolen code useless',
      remedy:
        'Remove the option "nativeRedirects" if no native client or single-page application needs it; otherwise prefer https addresses, whose owner the operating system verifies',
      run(_view, report) {
        if (options.nativeRedirects.length > 0)
          report(
            subject,
            `the option "nativeRedirects" lets ${options.nativeRedirects.length} client addresses receive authorization codes`,
          );
      },
    },
    {
      id: 'oauth/fresh-login',
      severity: 'warning',
      phase: 'security',
      why: 'With a stolen session or access token of an old login, an attacker can link his own account, and then log in as the user',
      remedy:
        'Remove the option "freshSeconds: false", so that a user logs in again before accounts are linked or unlinked',
      run(_view, report) {
        if (options.freshSeconds === false)
          report(
            subject,
            'the option "freshSeconds" is false, so logins of any age can link and unlink accounts',
          );
      },
    },
    {
      id: 'oauth/weak-provider',
      severity: 'warning',
      phase: 'security',
      why: 'Only the nonce and PKCE prevent an attacker from using a stolen code or id_token in another browser',
      remedy:
        'Remove the options usesNonce, usesPkce and clientIdName and the algorithm HS256; restore only those without which logins at the provider fail, and ignore the warnings that remain',
      run(_view, report) {
        for (const provider of providers)
          for (const weakness of weaknessesOf(provider))
            report(subject, `provider "${provider.name}" ${weakness}`);
      },
    },
    {
      id: 'oauth/store',
      severity: 'error',
      phase: 'graph',
      why: 'Logins in memory are lost when the process ends, and unknown to other processes; a login also ends if the database loses the newest refresh token',
      remedy:
        'Register a database that keeps every commit: app.register(new DatabasePlugin("sqlite:./data.db")), without the option synchronous: "normal"',
      run(_view, report) {
        if (env !== 'production') return;
        if (storage === undefined) report(subject, 'no database is registered, so logins are only in memory');
        else if (storage.synchronous === 'normal' && !storage.isInMemory)
          report(
            subject,
            'the database may lose its last commits when the power fails (synchronous "normal"), so clients may hold newer tokens than the database',
          );
      },
    },
    {
      id: 'oauth/lifetimes',
      severity: 'error',
      phase: 'graph',
      why: 'A login ends after refreshAbsoluteTtlSeconds, so a longer idle limit or token lifetime has no effect',
      remedy:
        'Make refreshIdleTtlSeconds smaller than refreshAbsoluteTtlSeconds, and accessTtlSeconds smaller than both',
      run(_view, report) {
        if (options.refreshIdleTtlSeconds > options.refreshAbsoluteTtlSeconds)
          report(subject, 'refreshIdleTtlSeconds is greater than refreshAbsoluteTtlSeconds');
        if (options.accessTtlSeconds > options.refreshAbsoluteTtlSeconds)
          report(subject, 'accessTtlSeconds is greater than refreshAbsoluteTtlSeconds');
      },
    },
  ];
}
