/**
 * Two untrusted certificates for localhost and 127.0.0.1. Only for tests: the keys are public. Both end in
 * 2126.
 */
import { CERTIFICATE_PEM, KEY_PEM } from '../oauth/support/tls.ts';

/** A certificate and its key. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** A certificate signed by an authority of its own. */
export const FIRST: Pair = { cert: CERTIFICATE_PEM, key: KEY_PEM };

/** A self-signed certificate. */
export const SECOND: Pair = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUVsgls+frubQArm35z6ZLow1m6BwwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTE3NTY1NloYDzIxMjYxMDI4
MTc1NjU2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQKtN0/HoJAlFoQGlnUo2xJ/oUUNjNZogOXnmVfSARQqZ6Geyv3Ot9+
FRDaeWMK/rIEzk6JFqFlWb698l/JefCYo28wbTAdBgNVHQ4EFgQUE64dhPftra/A
xqc64OO2WvFenSowHwYDVR0jBBgwFoAUE64dhPftra/Axqc64OO2WvFenSowDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAIBSmYcj2NHBG3B6ZDf0zwoci5t7g+uCZO1FHNyg/nhRAiBq
ajhXvU7yfKXBO9w0telwIvKGlwEZ5dlw4wDCXdl/oA==
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgBHdA8vcJ4qABhS2z
vtp8+1712ykYQvCnV5PC2WrJUiOhRANCAAQKtN0/HoJAlFoQGlnUo2xJ/oUUNjNZ
ogOXnmVfSARQqZ6Geyv3Ot9+FRDaeWMK/rIEzk6JFqFlWb698l/JefCY
-----END PRIVATE KEY-----
`,
};
