/**
 * `svc`: exports every public name, one by one. Names that are missing here are private.
 * test/api-surface.test.ts checks the list.
 */
/// <reference types="node" preserve="true" />
import './base/need-node.ts';
export { Svc } from './app/svc.ts';
export type { LifecycleHook } from './app/svc.ts';
export type { RunOptions, SvcOptions } from './app/options.ts';
export type { RunningServer } from './app/lifecycle.ts';
export { APIKeyAuth } from './auth/api-key.ts';
export type { APIKeyPlace, KnownKeys, LookedUpKeys } from './auth/api-key.ts';
export { BearerAuth, requireSession } from './auth/auth.ts';
export type { AuthSource, BearerAuthOptions } from './auth/auth.ts';
export { IssuerAuth } from './auth/issuer/guard.ts';
export type {
  IssuerAlgorithm,
  IssuerAuthOptions,
  IssuerClaims,
  TrustedIssuer,
} from './auth/issuer/options.ts';
export { requireIf, requireRoles, requireScopes } from './auth/require.ts';
export type { ConditionOptions, RoleRequirement, ScopeRequirement } from './auth/require.ts';
export {
  BadRequest,
  ClientDisconnected,
  Conflict,
  Forbidden,
  HTTPException,
  InternalError,
  LoginRequired,
  MethodNotAllowed,
  NotFound,
  PayloadTooLarge,
  RequestTimeout,
  StoreFull,
  SvcError,
  TooManyRequests,
  Unauthorized,
  UnprocessableContent,
} from './base/errors.ts';
export { BackgroundTasks } from './routing/background.ts';
export { MemoryCache } from './cache/cache.ts';
export type { MemoryCacheOptions } from './cache/cache.ts';
export { cached } from './cache/cached.ts';
export type { Cached, CachedOptions, CachedStats } from './cache/cached.ts';
export { systemClock } from './base/clock.ts';
export type { Clock, TimerOptions } from './base/clock.ts';
export { Config } from './base/config.ts';
export type { CastOptions, Env } from './base/config.ts';
export { Depends, provide } from './routing/di.ts';
export type {
  Dependency,
  DependencySource,
  DependsOptions,
  Provided,
  ProviderContext,
  ProviderSpec,
  Scope,
} from './routing/di.ts';
export type { HTTPExceptionOptions, Issue, TooManyRequestsOptions } from './base/errors.ts';
export type { FaultCode } from './base/faults.ts';
export type { Finding, Place, Report, Severity } from './base/findings.ts';
export { InvalidToken, createToken, verifyToken } from './crypto/jwt.ts';
export type {
  Claims,
  CreateTokenOptions,
  TokenRefusal,
  TokenRequirements,
  VerifyTokenOptions,
} from './crypto/jwt.ts';
export type { Secrets } from './crypto/keys.ts';
export type { FetchHandler } from './http/fetch-mount.ts';
export type { FetchMountOptions } from './routing/spec.ts';
export { createLogger } from './observability/log.ts';
export type { LogLevel, LogOutput, LogSink, Logger, LoggerOptions } from './observability/log.ts';
export { McpServer } from './mcp/mcp.ts';
export type { McpCallOptions, StdioOptions, StdioStreams } from './mcp/mcp.ts';
export { ToolContent } from './mcp/results.ts';
export type { ToolAudience, ToolContentPart, ToolResult } from './mcp/results.ts';
export type { McpConversation } from './mcp/conversation.ts';
export type { PromptMessage } from './mcp/prompts.ts';
export type { McpAuthorization, McpMountOptions } from './mcp/mount.ts';
export { toolClient, toolLog, toolProgress } from './mcp/calls.ts';
export type { ToolLog, ToolLogLevel, ToolProgress } from './mcp/calls.ts';
export type {
  ClientAbility,
  ClientRoot,
  Elicited,
  FormQuestion,
  FormValues,
  QuestionOptions,
  RawFormQuestion,
  Sampled,
  SampledMessage,
  SampleQuestion,
  ToolClient,
  UrlQuestion,
} from './mcp/questions.ts';
export type { McpServerOptions } from './mcp/server.ts';
export type {
  CheckedTool,
  PromptReply,
  PromptSpec,
  ResourceContext,
  ResourceSpec,
  ToolContext,
  ToolSpec,
} from './mcp/mcp.ts';
export type { Tool } from './mcp/tools.ts';
export type { Counter, Histogram, Metrics } from './observability/metrics.ts';
export type { Span, SpanError, SpanKind, SpanStart, SpanValue, Tracer } from './observability/tracer.ts';
export type { OpenApiOptions } from './openapi/openapi.ts';
export type {
  Contact,
  DocumentedMethod,
  DocumentedResponse,
  DocumentedServer,
  License,
  MediaType,
  OpenApiDocument,
  Operation,
  Parameter,
  PathItem,
  Reference,
  RequestBody,
  SecurityAlternatives,
} from './openapi/document.ts';
export { checkPassword, hashPassword, needsRehash } from './crypto/password.ts';
export type { CheckPasswordOptions, PasswordOptions, Pepper } from './crypto/password.ts';
export type { Host, Plugin, RouterLike } from './routing/plugin.ts';
export { Router } from './routing/route.ts';
export type { Handler, HandlerContext, RouterOptions, Routes } from './routing/route.ts';
export type {
  Allowance,
  Callback,
  Dependencies,
  ErrorStatus,
  GetSpec,
  HandlerResult,
  MountOptions,
  ReplyOf,
  RouteSpec,
  SentRequest,
  ToolDescription,
  ToolHints,
} from './routing/spec.ts';
export {
  Field,
  Schema,
  ValidationError,
  any,
  bool,
  bytes,
  date,
  datetime,
  decimal,
  file,
  float,
  int,
  intersection,
  lazy,
  list,
  literal,
  nullable,
  record,
  str,
  tuple,
  union,
  uuid,
} from './schema/schema.ts';
export type {
  CountOptions,
  DecimalOptions,
  Deprecation,
  DerivedClass,
  FieldNames,
  ListOptions,
  FieldOptions,
  FieldType,
  FileFieldOptions,
  Infer,
  NumberOptions,
  PlainOptions,
  Result,
  RuleProblem,
  RuleResult,
  SaveOptions,
  SchemaClass,
  StandardIssue,
  StandardProps,
  StandardResult,
  StandardSchema,
  StandardTarget,
  TextOptions,
  TypeSource,
  UploadFile,
  Wire,
} from './schema/schema.ts';
export type {
  Awaitable,
  BodyOptions,
  CompiledRoute,
  CompiledView,
  Context,
  FormFields,
  FormOptions,
  FormPart,
  HttpRequest,
  Middleware,
  MiddlewareFunction,
  MiddlewareKind,
  Next,
  RateLimitKey,
  RouteRateLimit,
  Rule,
  SecurityRequirement,
  Services,
  Session,
  SessionKey,
  Flash,
  StateKey,
  StateMap,
} from './http/contracts.ts';
export { CompressionMiddleware } from './http/middleware/compression.ts';
export type { CompressionOptions } from './http/middleware/compression.ts';
export type { ContentCoding } from './http/content-codings.ts';
export type { DirectiveName, Directives, Sources } from './http/middleware/security-headers.ts';
export { ConcurrencyLimitMiddleware } from './http/middleware/concurrency-limit.ts';
export type { ConcurrencyLimitOptions } from './http/middleware/concurrency-limit.ts';
export { CORSMiddleware } from './http/middleware/cors.ts';
export type { CORSOptions } from './http/middleware/cors.ts';
export type { CookieOptions } from './http/cookies.ts';
export { CSRFMiddleware, csrfField, csrfToken } from './http/session/csrf.ts';
export type { CSRFOptions } from './http/session/csrf.ts';
export { HeaderList, contentDisposition } from './http/headers.ts';
export type { DispositionType, HeaderView } from './http/headers.ts';
export { ETagMiddleware } from './http/middleware/etag.ts';
export type { ETagOptions } from './http/middleware/etag.ts';
export { EventBroadcast, EventStreamResponse, lastEventId } from './http/streaming/event-stream.ts';
export type {
  EventBroadcastOptions,
  EventStreamOptions,
  Events,
  ServerSentEvent,
} from './http/streaming/event-stream.ts';
export type { ErrorClass, ExceptionHandler } from './http/pipeline.ts';
export type { ExceptionSpec } from './routing/declared-responses.ts';
export { FileResponse } from './http/files/files.ts';
export type { FileOptions } from './http/files/files.ts';
export { checkPreconditions } from './http/files/preconditions.ts';
export type { CurrentState, PreconditionOptions } from './http/files/preconditions.ts';
export { IdempotencyMiddleware } from './http/middleware/idempotency.ts';
export type { IdempotencyOptions } from './http/middleware/idempotency.ts';
export type { LimitOptions } from './http/server/options.ts';
export { localPath } from './http/path.ts';
export { NDJSONResponse, escapeHtml } from './http/response.ts';
export type { AllowedOrigins, OriginTest, Origins } from './http/origins.ts';
export type { PathParams } from './http/path.ts';
export type { ForwardedHeader, TrustProxy } from './http/request/proxy.ts';
export type { MultiMap } from './http/request/query.ts';
export { RateLimitMiddleware } from './http/middleware/rate-limit.ts';
export type { RateLimitOptions, RateLimitPathRule } from './http/middleware/rate-limit.ts';
export { RateLimiter } from './http/middleware/rate-limiter.ts';
export type { RateLimitStoreOptions, RateLimiterOptions } from './http/middleware/rate-limiter.ts';
export { reply } from './http/reply.ts';
export type { Reply } from './http/reply.ts';
export { RequestIDMiddleware } from './http/middleware/request-id.ts';
export type { RequestIDOptions } from './http/request-id.ts';
export {
  HTMLResponse,
  HttpResponse,
  JSONResponse,
  RedirectResponse,
  StreamingResponse,
  TextResponse,
} from './http/response.ts';
export type { ResponseOptions, StreamingOptions } from './http/response.ts';
export { rooms } from './http/websocket/rooms.ts';
export type { BroadcastOptions, RoomSender } from './http/websocket/rooms.ts';
export { SessionMiddleware, sessionKey } from './http/session/middleware.ts';
export type { SessionCookieOptions, SessionOptions } from './http/session/middleware.ts';
export { SecurityHeadersMiddleware, cspNonce } from './http/middleware/security-headers.ts';
export type {
  ReferrerPolicy,
  SecurityHeadersOptions,
  StrictTransportSecurity,
} from './http/middleware/security-headers.ts';
export { services, stateKey } from './http/state.ts';
export type { AppState } from './http/state.ts';
export type { StaticOptions } from './http/files/static.ts';
export type { DotfilePolicy } from './http/files/static-folder.ts';
export { TimeoutMiddleware } from './http/middleware/timeout.ts';
export type { TimeoutOptions } from './http/middleware/timeout.ts';
export type { TlsOptions } from './http/server/options.ts';
export { traceHeaders } from './http/request-id.ts';
export type { TraceContext } from './http/request-id.ts';
export { TrustedHostMiddleware } from './http/middleware/trusted-host.ts';
export type { TrustedHostOptions } from './http/middleware/trusted-host.ts';
export type { WebSocketClose } from './http/websocket/closing.ts';
export type { WebSocketCompression } from './http/websocket/handshake.ts';
export type { SlowConsumerPolicy } from './http/websocket/sender.ts';
export {
  MemoryRateLimitStore,
  MemoryRecordStore,
  MemoryRoomBus,
  RecordRateLimitStore,
} from './cache/stores.ts';
export type {
  CacheBackend,
  MemoryRateLimitStoreOptions,
  MemoryRecordStoreOptions,
  RateLimitResult,
  RateLimitRule,
  RateLimitStore,
  RecordRateLimitStoreOptions,
  RecordStore,
  RoomBus,
  RoomSubscriber,
} from './cache/stores.ts';
export { WebSocketRouter } from './routing/websocket.ts';
export type { MessageOf, Socket, SocketContext, SocketHandler, WebSocketSpec } from './routing/websocket.ts';
