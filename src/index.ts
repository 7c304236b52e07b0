/**
 * `svc`: every public name, one by one. What is not named here is private; test/api-surface.test.ts holds the list.
 */
export { Svc } from './app.ts';
export type { LifecycleHook, RunOptions, RunningServer, SvcOptions } from './app.ts';
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
export { createLogger } from './log.ts';
export type { LogLevel, LogSink, Logger, LoggerOptions } from './log.ts';
export type { Counter, Histogram, Metrics } from './metrics.ts';
export { Router } from './route.ts';
export type { Allowance, Dependencies, ErrorStatus, Handler, HandlerContext, HandlerResult, ReplyOf, RouteSpec, RouterOptions, Routes } from './route.ts';
export {
  Field, Schema, ValidationError, any, bool, bytes, date, datetime, file, float, int, lazy, list, literal, nullable, record, str, union, uuid,
} from './schema.ts';
export type { FieldOptions, Infer, Result, SchemaClass, TypeSource, Wire } from './schema.ts';
export type {
  Awaitable, BodyOptions, CompiledRoute, CompiledView, Context, FormData_, Host, HttpRequest, Middleware, MiddlewareKind, Next, Plugin, RouterLike, Rule,
  SecurityRequirement, Session, StateKey, StateMap, UploadFile,
} from './http/contracts.ts';
export type { CookieOptions } from './http/cookies.ts';
export type { ErrorClass, ExceptionHandler } from './http/exception-handlers.ts';
export { FileResponse } from './http/files.ts';
export type { FileOptions } from './http/files.ts';
export { HeaderList } from './http/headers.ts';
export type { HeaderView } from './http/headers.ts';
export type { PathParams } from './http/path.ts';
export type { MiddlewareFunction } from './http/pipeline.ts';
export type { MultiMap } from './http/query.ts';
export { reply } from './http/reply.ts';
export type { Reply } from './http/reply.ts';
export { HTMLResponse, HttpResponse, JSONResponse, RedirectResponse, StreamingResponse, TextResponse } from './http/response.ts';
export type { ResponseOptions, StreamingOptions } from './http/response.ts';
export { stateKey } from './http/state.ts';
export type { CacheBackend } from './stores.ts';
