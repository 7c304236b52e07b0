/**
 * `svc/db`: clients for SQL databases and for Redis, caches, and stores for sessions, idempotency keys and
 * rate limits. A store keeps its data in memory, or in a database that several processes share. This module
 * works without the framework.
 */
/// <reference types="node" preserve="true" />
import '../base/need-node.ts';
export { MemoryCache } from '../cache/cache.ts';
export { StoreFull } from '../base/errors.ts';
export { MemoryRateLimitStore, MemoryRecordStore, MemoryRoomBus } from '../cache/stores.ts';
export { Database } from './database.ts';
export { conflictOn } from './constraints.ts';
export {
  CheckViolation,
  CommitOutcomeUnknown,
  ConnectionLost,
  ConstraintViolation,
  Corrupt,
  DataError,
  DatabaseError,
  Deadlock,
  DiskFull,
  ExclusionViolation,
  ForeignKeyViolation,
  LockTimeout,
  NotNullViolation,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
  ReadOnly,
  SerializationFailure,
  StatementError,
  StorageFailed,
  TransactionAborted,
  UniqueViolation,
} from './errors.ts';
export { Migrator } from './migrations/migrations.ts';
export { Seeder } from './migrations/seeds.ts';
export { openDatabase } from './open.ts';
export { KeysetPage, KeysetPages } from './pages/keyset.ts';
export { OffsetPage, OffsetPages } from './pages/offset.ts';
export { DatabasePlugin, database, db } from './plugin.ts';
export { DatabaseRecordStore, recordStoreMigration } from './record-store.ts';
export { Redis, RedisScript } from './redis/redis.ts';
export { DedicatedRedis } from './redis/dedicated.ts';
export { RedisError } from './redis/connection.ts';
export { RedisPlugin, redis } from './redis/plugin.ts';
export { RedisRoomBus } from './redis/rooms.ts';
export { RedisCache, RedisRateLimitStore, RedisRecordStore } from './redis/stores.ts';
export { transaction } from './request-transaction.ts';
export { Session } from './session.ts';
export { sql } from './sql.ts';
export { Transaction } from './transaction.ts';
export { json, typed } from './values.ts';
export type { CacheBackend, RateLimitStore, RecordStore, RoomBus } from '../cache/stores.ts';
export type { ConflictRule, ConflictRules } from './constraints.ts';
export type { ConstraintKind, DatabaseErrorCode } from './errors.ts';
export type {
  Column,
  Connection,
  Dialect,
  Driver,
  DriverLoad,
  ExecuteResult,
  Int8,
  Isolation,
  ListenOptions,
  Notified,
  Row,
  SqlValue,
  Table,
} from './driver.ts';
export type { QueryOptions } from './limits.ts';
export type { MigrationDone, MigratorOptions, UnfinishedMigration } from './migrations/migrations.ts';
export type { ContributedMigration, MigrationSources } from './migrations/source.ts';
export type { Migratable, MigrationPolicy, OpenMigrator } from './migrations/start.ts';
export type { SeedDone } from './migrations/seeds.ts';
export type { MigrationState } from './migrations/state.ts';
export type { DatabaseOptions, PoolOptions } from './open.ts';
export type { KeysetPageBody, KeysetPagesOptions, KeysetQuery } from './pages/keyset.ts';
export type { OffsetPageBody, OffsetPagesOptions, OffsetQuery } from './pages/offset.ts';
export type { Direction, PageOrder } from './pages/order.ts';
export type { DatabasePluginOptions } from './plugin.ts';
export type { PoolEvent, PoolEventKind } from './wire/pool-settings.ts';
export type { DatabaseRecordStoreOptions } from './record-store.ts';
export type { RedisArgument, RedisOptions } from './redis/redis.ts';
export type { RedisCommandOptions } from './redis/command.ts';
export type { RedisValue } from './redis/connection.ts';
export type { RedisPluginOptions } from './redis/plugin.ts';
export type { RedisRoomBusOptions } from './redis/rooms.ts';
export type { RedisCacheOptions, RedisStoreOptions } from './redis/stores.ts';
export type { RedisSubscribeOptions, RedisSubscriberFunction } from './redis/subscriber.ts';
export type { OwnType } from './own-types.ts';
export type { RowOptions, SetOptions, SetsOf, ValueOptions } from './rows.ts';
export type { RequestTransactionOptions, TransactionSource } from './request-transaction.ts';
export type { Sql, SqlCondition } from './sql.ts';
export type { TransactionOptions } from './transaction.ts';
export type { Json, Parameter, Params, Typed } from './values.ts';
