/** Rules of the plugin for `svc check`. */
import { issueInProduction, weaknessesOf } from './provider/options.ts';
import { issuesOfRedirect } from './redirects.ts';
import type { Env } from '../base/config.ts';
import type { Durability } from '../db/plugin.ts';
import type { Rule } from '../http/contracts.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { OAuthProvider } from './provider/options.ts';

/** Returns the rules of `svc check` that apply in this environment and with this storage. */
export function rulesOf(
  options: ReadOptions,
  providers: readonly OAuthProvider[],
  env: Env,
  storage: Durability | undefined,
): readonly Rule[] {
  const subject = 'plugin oauth';
  return [
    {
      id: 'SVC209',
      severity: 'error',
      phase: 'graph',
      why: 'An attacker who can choose the redirect URI of a login receives its code; a redirect URI without TLS sends the code in clear text',
      remedy:
        'Name each redirect URI exactly as it is registered at the provider: allowedRedirectUris: ["https://app.example/oauth/callback"]',
      run(_view, report) {
        const {
          allowedRedirectUris,
          allowLoopbackRedirects: allowsLoopback,
          postLogoutRedirectUris = [],
        } = options;
        if (providers.length > 0 && allowedRedirectUris.length === 0 && env === 'production')
          report(subject, 'no redirect URI is allowed, so users cannot log in');
        for (const [name, entries] of Object.entries({ allowedRedirectUris, postLogoutRedirectUris }))
          entries.forEach((entry, index) => {
            for (const problem of issuesOfRedirect(entry, { env, allowsLoopback }))
              report(subject, `entry ${index + 1} of ${name} ${problem}`);
          });
      },
    },
    {
      id: 'SVC204',
      severity: 'error',
      phase: 'security',
      why: 'Without a limit an attacker can try passwords, codes and tokens until one fits',
      remedy: 'Leave out limits, or give each a number: limits: { login: 20, token: 60 }',
      run(_view, report) {
        const open = (['login', 'callback', 'token', 'forged'] as const).filter(
          (name) => options.limits[name] === false,
        );
        if (open.length > 0) report(subject, `the limits are off: ${open.join(', ')}`);
      },
    },
    {
      id: 'oauth/provider',
      severity: 'error',
      phase: 'graph',
      why: 'A development provider checks no passwords, and without TLS any server can answer for a provider',
      remedy:
        'Give production a real identity provider, without allowInsecure; where this is development or a test, say so: SVC_ENV=development',
      run(_view, report) {
        if (env !== 'production') return;
        for (const provider of providers) {
          const problem = issueInProduction(provider);
          if (problem !== undefined) report(subject, `provider "${provider.name}" ${problem}`);
        }
      },
    },
    {
      id: 'oauth/native-redirects',
      severity: 'warning',
      phase: 'security',
      why: 'Any application on a device may claim a private-use scheme or a port of the loopback interface: only PKCE keeps the code from it',
      remedy:
        'Leave out nativeRedirects where there is no native client or single-page application; prefer https addresses that the platform verifies',
      run(_view, report) {
        if (options.nativeRedirects.length > 0)
          report(
            subject,
            `codes may go to ${options.nativeRedirects.length} addresses of clients (nativeRedirects)`,
          );
      },
    },
    {
      id: 'oauth/weak-provider',
      severity: 'warning',
      phase: 'security',
      why: 'Nonce and PKCE keep a stolen code or id_token from being used in another browser; nothing else does',
      remedy:
        'Remove usesNonce, usesPkce, clientIdName and HS256 if the provider supports the standard; otherwise accept the finding',
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
      why: 'Logins in memory end with the process, and other processes do not have them; a rotation that the database loses ends its login',
      remedy:
        'Register a database that keeps what is committed: app.register(new DatabasePlugin("sqlite:./data.db")), without synchronous: "normal"',
      run(_view, report) {
        if (env !== 'production') return;
        if (storage === undefined) report(subject, 'there is no database to keep logins in');
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
      why: 'A login whose idle limit exceeds its absolute limit ends before its idle limit',
      remedy:
        'Make refreshIdleTtlSeconds smaller than refreshAbsoluteTtlSeconds, and accessTtlSeconds smaller than both',
      run(_view, report) {
        if (options.refreshIdleTtlSeconds > options.refreshAbsoluteTtlSeconds)
          report(subject, 'refreshIdleTtlSeconds is above refreshAbsoluteTtlSeconds');
        if (options.accessTtlSeconds > options.refreshAbsoluteTtlSeconds)
          report(subject, 'accessTtlSeconds is above refreshAbsoluteTtlSeconds');
      },
    },
  ];
}
