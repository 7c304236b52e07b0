/**
 * `svc`: every public name, one by one. What is not named here is private; test/api-surface.test.ts holds the list.
 */
/// <reference types="node" preserve="true" />
export { Svc } from './app.ts';
export type { LifecycleHook, RunOptions, RunningServer, SvcOptions } from './app.ts';
export { BearerAuth } from './auth.ts';
export type { BearerAuthOptions } from './auth.ts';
export { APIKeyAuth } from './auth-keys.ts';
export type { APIKeyPlace, KnownKeys, LookedUpKeys } from './auth-keys.ts';
export { requireIf, requireRoles, requireScopes } from './auth-require.ts';
export type { ConditionOptions, RoleRequirement, ScopeRequirement } from './auth-require.ts';
export { BadRequest, ClientDisconnected, Forbidden, HTTPException, InternalError, LoginRequired, MethodNotAllowed, NotFound, PayloadTooLarge, RequestTimeout, StoreFull, SvcError, TooManyRequests, Unauthorized } from './errors.ts';
export { requireSession } from './auth-session.ts';
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
export type { HTTPExceptionOptions, Issue } from './errors.ts';
export type { FaultCode } from './faults.ts';
export type { Finding, Place, Report, Severity } from './findings.ts';
export { InvalidToken, createToken, verifyToken } from './jwt.ts';
export type { Claims, CreateTokenOptions, TokenRefusal, TokenRequirements, VerifyTokenOptions } from './jwt.ts';
export type { Secrets } from './keys.ts';
export { createLogger } from './log.ts';
export type { LogLevel, LogSink, Logger, LoggerOptions } from './log.ts';
export { McpServer } from './mcp.ts';
export type { McpCallOptions, StdioOptions, StdioStreams } from './mcp.ts';
export { ToolContent } from './mcp-results.ts';
export type { ToolAudience, ToolContentPart, ToolResult } from './mcp-results.ts';
export type { McpConversation } from './mcp-conversation.ts';
export type { PromptMessage } from './mcp-prompts.ts';
export type { McpMountOptions } from './mcp/mount.ts';
export { toolLog, toolProgress } from './mcp-reporting.ts';
export type { ToolLog, ToolLogLevel, ToolProgress } from './mcp-reporting.ts';
export type { McpServerOptions } from './mcp-server.ts';
export type { CheckedTool, PromptReply, PromptSpec, ToolContext, ToolSpec } from './mcp-toolbox.ts';
export type { Tool } from './mcp-tools.ts';
export type { Counter, Histogram, Metrics } from './metrics.ts';
export type { OpenApiOptions } from './openapi.ts';
export type {
  Contact, DocumentedMethod, DocumentedResponse, DocumentedServer, License, MediaType, OpenApiDocument, Operation, Parameter, PathItem, Reference, RequestBody, SecurityAlternatives,
} from './openapi-parts.ts';
export { checkPassword, hashPassword, needsRehash } from './password.ts';
export type { CheckPasswordOptions, PasswordOptions, Pepper } from './password.ts';
export { Router } from './route.ts';
export type { ErrorStatus, Handler, HandlerContext, HandlerResult, ReplyOf, RouterOptions, Routes } from './route.ts';
export type { Allowance, Dependencies, RouteSpec, ToolDescription, ToolHints } from './route-spec.ts';
export {
  Field, Schema, ValidationError, any, bool, bytes, date, datetime, file, float, int, lazy, list, literal, nullable, record, str, union, uuid,
} from './schema.ts';
export type {
  CountOptions, FieldOptions, FieldType, FileFieldOptions, Infer, NumberOptions, PlainOptions, Result, SaveOptions, SchemaClass, TextOptions, TypeSource, UploadFile, Wire,
} from './schema.ts';
export type {
  Awaitable, BodyOptions, CompiledRoute, CompiledView, Context, FormData_, FormOptions, FormPart, Host, HttpRequest, Middleware, MiddlewareKind, Next, Plugin, RateLimitKey, RouteRateLimit, RouterLike, Rule,
  SecurityRequirement, Services, Session, SessionKey, Flash, StateKey, StateMap,
} from './http/contracts.ts';
export { CompressionMiddleware } from './http/compression.ts';
export type { CompressionOptions } from './http/compression.ts';
export type { ContentCoding } from './http/content-codings.ts';
export type { DirectiveName, Directives, Sources } from './http/content-security-policy.ts';
export { ConcurrencyLimitMiddleware } from './http/concurrency-limit.ts';
export type { ConcurrencyLimitOptions } from './http/concurrency-limit.ts';
export { CORSMiddleware } from './http/cors.ts';
export type { CORSOptions } from './http/cors.ts';
export type { CookieOptions } from './http/cookies.ts';
export { CSRFMiddleware, csrfField, csrfToken } from './http/csrf.ts';
export type { CSRFOptions } from './http/csrf.ts';
export { HeaderList, contentDisposition } from './http/headers.ts';
export type { DispositionType, HeaderView } from './http/headers.ts';
export { ETagMiddleware } from './http/etag.ts';
export type { ETagOptions } from './http/etag.ts';
export { EventBroadcast } from './http/event-broadcast.ts';
export type { EventBroadcastOptions } from './http/event-broadcast.ts';
export { EventStreamResponse, lastEventId } from './http/event-stream.ts';
export type { EventStreamOptions, Events, ServerSentEvent } from './http/event-stream.ts';
export type { ErrorClass, ExceptionHandler } from './http/exception-handlers.ts';
export { FileResponse } from './http/files.ts';
export type { FileOptions } from './http/files.ts';
export { IdempotencyMiddleware } from './http/idempotency.ts';
export type { IdempotencyOptions } from './http/idempotency.ts';
export type { LimitOptions } from './http/limits.ts';
export { localPath } from './http/local-path.ts';
export { NDJSONResponse } from './http/ndjson.ts';
export type { AllowedOrigins, OriginTest, Origins } from './http/origins.ts';
export type { PathParams } from './http/path.ts';
export type { MiddlewareFunction } from './http/pipeline.ts';
export type { ForwardedHeader, TrustProxy } from './http/proxy.ts';
export type { MultiMap } from './http/query.ts';
export { RateLimitMiddleware } from './http/rate-limit.ts';
export type { RateLimitOptions, RateLimitPathRule } from './http/rate-limit.ts';
export { RateLimiter } from './http/rate-limiter.ts';
export type { RateLimitStoreOptions, RateLimiterOptions } from './http/rate-limiter.ts';
export { reply } from './http/reply.ts';
export type { Reply } from './http/reply.ts';
export { RequestIDMiddleware } from './http/request-id-middleware.ts';
export type { RequestIDOptions } from './http/request-id.ts';
export { HTMLResponse, HttpResponse, JSONResponse, RedirectResponse, StreamingResponse, TextResponse } from './http/response.ts';
export type { ResponseOptions, StreamingOptions } from './http/response.ts';
export type { DependencyEvent, HandlerEvent, RequestEvent } from './http/request-event.ts';
export { rooms } from './http/rooms.ts';
export type { BroadcastOptions, RoomSender } from './http/rooms.ts';
export { SessionMiddleware, sessionKey } from './http/sessions.ts';
export type { SessionCookieOptions, SessionOptions } from './http/sessions.ts';
export { SecurityHeadersMiddleware, cspNonce } from './http/security-headers.ts';
export type { ReferrerPolicy, SecurityHeadersOptions, StrictTransportSecurity } from './http/security-headers.ts';
export { services, stateKey } from './http/state.ts';
export type { AppState } from './http/state.ts';
export type { StaticOptions } from './http/static.ts';
export type { DotfilePolicy } from './http/static-folder.ts';
export { TimeoutMiddleware } from './http/timeout.ts';
export type { TimeoutOptions } from './http/timeout.ts';
export type { TlsOptions } from './http/tls-options.ts';
export { traceHeaders } from './http/trace-context.ts';
export type { TraceContext } from './http/trace-context.ts';
export { TrustedHostMiddleware } from './http/trusted-host.ts';
export type { TrustedHostOptions } from './http/trusted-host.ts';
export type { WebSocketClose } from './http/websocket.ts';
export type { WebSocketCompression } from './http/ws-deflate.ts';
export type { SlowConsumerPolicy } from './http/ws-sender.ts';
export { MemoryRateLimitStore, MemoryRecordStore, MemoryRoomBus } from './stores.ts';
export type {
  CacheBackend, MemoryRateLimitStoreOptions, MemoryRecordStoreOptions, RateLimitResult, RateLimitRule, RateLimitStore, RecordStore, RoomBus, RoomSubscriber,
} from './stores.ts';
export { WebSocketRouter } from './ws-route.ts';
export type { MessageOf, Socket, SocketContext, SocketHandler, WebSocketSpec } from './ws-route.ts';
