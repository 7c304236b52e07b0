/**
 * `svc`: every public name, one by one. What is not named here is private; test/api-surface.test.ts holds the list.
 */
export { Svc } from './app.ts';
export type { LifecycleHook, RunOptions, RunningServer, SvcOptions } from './app.ts';
export { BearerAuth } from './auth.ts';
export type { BearerAuthOptions } from './auth.ts';
export { APIKeyAuth } from './auth-keys.ts';
export type { APIKeyPlace, KnownKeys, LookedUpKeys } from './auth-keys.ts';
export { requireIf, requireRoles, requireScopes } from './auth-require.ts';
export type { ConditionOptions, RoleRequirement, ScopeRequirement } from './auth-require.ts';
export { LoginRequired, requireSession } from './auth-session.ts';
export type { AuthSource } from './auth-source.ts';
export { BackgroundTasks } from './background.ts';
export { MemoryCache } from './cache.ts';
export type { MemoryCacheOptions } from './cache.ts';
export { cached } from './cached.ts';
export type { Cached, CachedOptions, CachedStats } from './cached.ts';
export { systemClock } from './clock.ts';
export type { Clock } from './clock.ts';
export { Config } from './config.ts';
export type { CastOptions, Env } from './config.ts';
export { Depends, provide } from './di.ts';
export type { Dependency, DependencySource, DependsOptions, Provided, ProviderContext, ProviderSpec, Scope } from './di.ts';
export { BadRequest, ClientDisconnected, Forbidden, HTTPException, InternalError, MethodNotAllowed, NotFound, PayloadTooLarge, SvcError, Unauthorized } from './errors.ts';
export type { FaultCode, HTTPExceptionOptions, Issue } from './errors.ts';
export type { Finding, Place, Report, Severity } from './findings.ts';
export { InvalidToken, createToken, verifyToken } from './jwt.ts';
export type { Claims, CreateTokenOptions, TokenRefusal, TokenRequirements, VerifyTokenOptions } from './jwt.ts';
export type { Secrets } from './keys.ts';
export { createLogger } from './log.ts';
export type { LogLevel, LogSink, Logger, LoggerOptions } from './log.ts';
export type { Counter, Histogram, Metrics } from './metrics.ts';
export { checkPassword, hashPassword, needsRehash } from './password.ts';
export type { CheckPasswordOptions, PasswordOptions, Pepper } from './password.ts';
export { Router } from './route.ts';
export type { Allowance, Dependencies, ErrorStatus, Handler, HandlerContext, HandlerResult, ReplyOf, RouteSpec, RouterOptions, Routes } from './route.ts';
export {
  Field, Schema, ValidationError, any, bool, bytes, date, datetime, file, float, int, lazy, list, literal, nullable, record, str, union, uuid,
} from './schema.ts';
export type { FieldOptions, Infer, Result, SaveOptions, SchemaClass, TypeSource, UploadFile, Wire } from './schema.ts';
export type {
  Awaitable, BodyOptions, CompiledRoute, CompiledView, Context, FormData_, FormOptions, FormPart, Host, HttpRequest, Middleware, MiddlewareKind, Next, Plugin, RateLimitKey, RouteRateLimit, RouterLike, Rule,
  SecurityRequirement, Services, Session, SessionKey, Flash, StateKey, StateMap,
} from './http/contracts.ts';
export type { DirectiveName, Directives, Sources } from './http/content-security-policy.ts';
export { CORSMiddleware } from './http/cors.ts';
export type { CORSOptions } from './http/cors.ts';
export type { CookieOptions } from './http/cookies.ts';
export { CSRFMiddleware, csrfField, csrfToken } from './http/csrf.ts';
export type { CSRFOptions } from './http/csrf.ts';
export type { ErrorClass, ExceptionHandler } from './http/exception-handlers.ts';
export { FileResponse } from './http/files.ts';
export type { FileOptions } from './http/files.ts';
export { HeaderList } from './http/headers.ts';
export type { HeaderView } from './http/headers.ts';
export { localPath } from './http/local-path.ts';
export type { AllowedOrigins, OriginTest, Origins } from './http/origins.ts';
export type { PathParams } from './http/path.ts';
export type { MiddlewareFunction } from './http/pipeline.ts';
export type { ForwardedHeader, TrustProxy } from './http/proxy.ts';
export type { MultiMap } from './http/query.ts';
export { RateLimitMiddleware } from './http/rate-limit.ts';
export type { RateLimitOptions, RateLimitPathRule } from './http/rate-limit.ts';
export { RateLimiter, TooManyRequests } from './http/rate-limiter.ts';
export type { RateLimitStoreOptions, RateLimiterOptions } from './http/rate-limiter.ts';
export { reply } from './http/reply.ts';
export type { Reply } from './http/reply.ts';
export { HTMLResponse, HttpResponse, JSONResponse, RedirectResponse, StreamingResponse, TextResponse } from './http/response.ts';
export type { ResponseOptions, StreamingOptions } from './http/response.ts';
export { SessionMiddleware, sessionKey } from './http/sessions.ts';
export type { SessionCookieOptions, SessionOptions } from './http/sessions.ts';
export { SecurityHeadersMiddleware, cspNonce } from './http/security-headers.ts';
export type { ReferrerPolicy, SecurityHeadersOptions, StrictTransportSecurity } from './http/security-headers.ts';
export { services, stateKey } from './http/state.ts';
export { MemoryRateLimitStore, MemoryRecordStore, StoreFull } from './stores.ts';
export type { CacheBackend, MemoryRateLimitStoreOptions, MemoryRecordStoreOptions, RateLimitResult, RateLimitRule, RateLimitStore, RecordStore } from './stores.ts';
