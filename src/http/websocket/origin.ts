/**
 * Whose pages may open a WebSocket. Browsers send an origin with each handshake, cookies too, and read what comes: nothing else
 * keeps other sites out (RFC 6455 §10.2, "cross-site WebSocket hijacking").
 */
import { Forbidden } from '../../base/errors.ts';
import { CORSMiddleware } from '../middleware/cors.ts';
import { AllowedOrigins, fieldOf } from '../origins.ts';
import { readTrustProxy } from '../request/proxy.ts';
import { isOwnOrigin } from '../same-origin.ts';
import type { CompiledView, HttpRequest } from '../contracts.ts';
import type { Origins } from '../origins.ts';

/** Looks at the origin of handshakes. */
export class OriginGuard {
  readonly #allowed: AllowedOrigins | undefined;
  readonly #allowsAbsent: boolean;
  /** Those that CORS lets in with their cookies. */
  #others: AllowedOrigins | undefined;
  #knowsScheme = false;

  /** Without `origins`: those of the application itself, and those that its CORSMiddleware lets in with credentials. @throws SvcError `E_CORS` */
  constructor(origins: Origins | undefined, allowsAbsent: boolean) {
    if (origins !== undefined) this.#allowed = new AllowedOrigins(origins);
    this.#allowsAbsent = allowsAbsent;
  }

  /** Whether every page may open one. */
  get isOpen(): boolean {
    return this.#allowed?.isAny === true;
  }

  /** What it needs to know of the application. */
  compile(view: CompiledView): void {
    this.#knowsScheme = readTrustProxy(view.config('trustProxy')) !== undefined;
    if (this.#allowed !== undefined) return;
    const cors = view.middleware.find((layer) => layer instanceof CORSMiddleware);
    if (cors?.allowsCredentials === true) this.#others = cors.allowed;
  }

  /** A promise where somebody has to be asked, undefined where not. @throws Forbidden for another origin, and for none, which only clients send that are no browsers */
  mustAdmit(req: HttpRequest): Promise<void> | undefined {
    if (this.isOpen) return undefined;
    const origin = fieldOf(req, 'origin');
    if (origin === undefined) {
      if (!this.#allowsAbsent) throw new Forbidden('A WebSocket is opened with an Origin');
      return undefined;
    }
    return isOwnOrigin(origin, req, this.#knowsScheme) ? undefined : this.#mustAllow(origin, req);
  }

  async #mustAllow(origin: string, req: HttpRequest): Promise<void> {
    const allowed = this.#allowed ?? this.#others;
    if (allowed === undefined || !(await allowed.allows(origin, req)))
      throw new Forbidden('This origin may not open a WebSocket here');
  }
}
