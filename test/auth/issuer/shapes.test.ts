/**
 * Access tokens as the public documentation of authorization servers shows them, and the options that the manual
 * gives for each.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { IssuerAuth } from '../../../src/auth/issuer/guard.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Depends } from '../../../src/routing/di.ts';
import { FakeIssuer, TestClient } from '../../../src/testing/index.ts';
import type { TrustedIssuer } from '../../../src/auth/issuer/options.ts';

const CLIENT = '6731de76-14a6-49ae-97bc-6eba6914391e';
const API = '2a9c1f64-7d7b-4b0a-8a6f-0d1f4c1f7b11';

interface Shape {
  readonly options: Omit<TrustedIssuer, 'jwks'>;
  readonly typ: string | undefined;
  readonly access: Readonly<Record<string, unknown>>;
  readonly scopes: readonly string[];
  readonly roles: readonly string[];
  /** Claims of an id_token of the same server. */
  readonly identity: Readonly<Record<string, unknown>>;
}

const SHAPES: Readonly<Record<string, Shape>> = {
  Keycloak: {
    options: {
      issuer: 'https://login.example/realms/shop',
      audience: 'shop-api',
      requireType: false,
      requiredClaims: { typ: 'Bearer' },
      roles: 'realm_access.roles',
    },
    typ: 'JWT',
    access: {
      jti: '7ab1b93d',
      aud: ['shop-api', 'account'],
      typ: 'Bearer',
      azp: 'web',
      sid: '8c5d',
      acr: '1',
      'allowed-origins': ['https://shop.example'],
      realm_access: { roles: ['offline_access', 'admin'] },
      resource_access: { account: { roles: ['view-profile'] } },
      scope: 'openid profile orders:read',
      preferred_username: 'ada',
    },
    scopes: ['openid', 'profile', 'orders:read'],
    roles: ['offline_access', 'admin'],
    identity: { aud: 'shop-api', typ: 'ID', azp: 'web', sid: '8c5d' },
  },
  Entra: {
    options: {
      issuer: 'https://login.microsoftonline.com/aaaabbbb-0000-cccc-1111-dddd2222eeee/v2.0',
      audience: API,
      requireType: false,
      requiredClaims: { ver: '2.0' },
    },
    typ: 'JWT',
    access: {
      aud: API,
      aio: 'AXQAi/8IAAAA',
      azp: CLIENT,
      azpacr: '0',
      name: 'Ada Lovelace',
      oid: '690222be-ff1a-4d56-abd1-7e4f7d38e474',
      rh: 'I',
      roles: ['Orders.Admin'],
      scp: 'access_as_user orders.read',
      tid: 'aaaabbbb-0000-cccc-1111-dddd2222eeee',
      uti: 'fqiBqXLPj0eQa82S-IYFAA',
      ver: '2.0',
    },
    scopes: ['access_as_user', 'orders.read'],
    roles: ['Orders.Admin'],
    identity: { aud: CLIENT, ver: '2.0', nonce: '12345', name: 'Ada Lovelace' },
  },
  Auth0: {
    options: {
      issuer: 'https://tenant.auth0.com/',
      audience: 'https://api.example',
      roles: 'permissions',
    },
    typ: 'at+jwt',
    access: {
      aud: ['https://api.example', 'https://tenant.auth0.com/userinfo'],
      azp: 'my_client_id',
      client_id: 'my_client_id',
      scope: 'openid profile read:orders',
      permissions: ['read:orders'],
      jti: 'x',
    },
    scopes: ['openid', 'profile', 'read:orders'],
    roles: ['read:orders'],
    identity: { aud: 'my_client_id', nonce: 'n', at_hash: 'x' },
  },
  Okta: {
    options: {
      issuer: 'https://org.okta.com/oauth2/default',
      audience: 'api://default',
      requireType: false,
      requiredClaims: { ver: 1 },
      roles: 'groups',
    },
    typ: undefined,
    access: {
      ver: 1,
      jti: 'AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE',
      aud: 'api://default',
      cid: 'nmdP1fcyvdVO11AL7ECm',
      uid: '00ugrenMeqvYla4HW0g3',
      scp: ['openid', 'orders.read'],
      groups: ['Everyone', 'Admins'],
    },
    scopes: ['openid', 'orders.read'],
    roles: ['Everyone', 'Admins'],
    identity: { ver: 1, aud: 'nmdP1fcyvdVO11AL7ECm', amr: ['pwd'], at_hash: 'x' },
  },
  Cognito: {
    options: {
      issuer: 'https://cognito-idp.us-east-1.amazonaws.com/us-east-1_EXAMPLE',
      audience: 'xxxxxxxxxxxxexample',
      audienceClaim: 'client_id',
      requireType: false,
      requiredClaims: { token_use: 'access' },
      roles: 'cognito:groups',
    },
    typ: undefined,
    access: {
      'cognito:groups': ['admins'],
      client_id: 'xxxxxxxxxxxxexample',
      origin_jti: 'aaaaaaaa',
      event_id: 'bbbbbbbb',
      token_use: 'access',
      scope: 'phone openid orders/read',
      username: 'ada',
      version: 2,
    },
    scopes: ['phone', 'openid', 'orders/read'],
    roles: ['admins'],
    identity: { aud: 'xxxxxxxxxxxxexample', token_use: 'id', 'cognito:groups': ['admins'], at_hash: 'x' },
  },
};

for (const [server, { options, typ, access, scopes, roles, identity }] of Object.entries(SHAPES))
  test(`IssuerAuth() accepts an access token of ${server}, and refuses its id_token`, async () => {
    const clock = new ManualClock();
    const issuer = new FakeIssuer(options.issuer, { clock });
    const guard = IssuerAuth({ ...options, jwks: issuer.jwks });
    const app = new Svc({ clock });
    app.get('/', { me: Depends(guard) }, ({ me }) => ({ scopes: me.scopes, roles: me.roles }));
    await using client = new TestClient(app);
    const ask = (claims: Readonly<Record<string, unknown>>, type: string | undefined): Promise<Response> =>
      client.get('/', {
        // the cast is safe: a `typ` that is undefined is left out
        headers: { authorization: `Bearer ${issuer.token(claims, { typ: type as string })}` },
      });
    const accepted = await ask(access, typ);
    assert.deepEqual([accepted.status, await accepted.json()], [200, { scopes, roles }]);
    assert.equal((await ask(identity, typ === 'at+jwt' ? 'JWT' : typ)).status, 401);
  });
