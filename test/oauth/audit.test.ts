/** Outcomes of failed logins, as the metric svc_oauth_logins_total counts them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HTTPException } from '../../src/base/errors.ts';
import { outcomeOf } from '../../src/oauth/audit.ts';
import { OAuthError } from '../../src/oauth/errors.ts';

for (const [error, expected] of [
  [new Error('a bug'), 'failed'],
  ['text', 'failed'],
  [new HTTPException(400), 'refused'],
  [new HTTPException(499), 'refused'],
  [new HTTPException(500), 'failed'],
  [new HTTPException(503), 'failed'],
  [new OAuthError('provider_error'), 'provider_failed'],
  [new OAuthError('invalid_state'), 'state_rejected'],
  [new OAuthError('state_browser_mismatch'), 'state_rejected'],
  [new OAuthError('temporarily_unavailable'), 'failed'],
  [new OAuthError('invalid_grant'), 'refused'],
  [new OAuthError('invalid_request', { reason: 'invalid_request' }), 'refused'],
  [new OAuthError('access_denied', { reason: 'email_unverified' }), 'refused'],
  [new OAuthError('access_denied'), 'refused'],
  ...(
    [
      'access_denied',
      'login_required',
      'interaction_required',
      'consent_required',
      'account_selection_required',
    ] as const
  ).map((code) => [new OAuthError(code, { reason: code }), 'denied'] as const),
] as const)
  test(`outcomeOf() returns "${expected}" for ${error instanceof OAuthError ? `the code ${error.code} with the reason ${error.reason}` : String(error)}${error instanceof HTTPException ? ` (${error.status})` : ''}`, () => {
    assert.equal(outcomeOf(error), expected);
  });
