/**
 * `svc/db`: what the framework keeps data in, usable without it. Stores of one process, so far.
 */
export { MemoryCache } from '../cache.ts';
export { MemoryRateLimitStore, MemoryRecordStore, MemoryRoomBus, StoreFull } from '../stores.ts';
export type { CacheBackend, RateLimitStore, RecordStore, RoomBus } from '../stores.ts';
