/**
 * Moves the time of a Redis server forward: shortens the lifetime of all keys, and makes rate limit buckets
 * older.
 */
import { RedisScript, type Redis } from '../../src/db/index.ts';

const TRAVEL = new RedisScript(`for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if string.find(key, ARGV[2], 1, true) == 1 and redis.call('TYPE', key).ok == 'string' then
    local at = tonumber(redis.call('GET', key))
    if at then redis.call('SET', key, string.format('%.17g', at - ARGV[1]), 'KEEPTTL') end
  end
  if left >= 0 then if left <= tonumber(ARGV[1]) then redis.call('DEL', key) else redis.call('PEXPIRE', key, left - ARGV[1]) end end
end
return 1`);

/** Lets `ms` pass. `buckets`: prefix of the keys of rate limits. */
export async function travel(redis: Redis, ms: number, buckets: string = 'svc:rl:'): Promise<void> {
  await redis.script(TRAVEL, [], [ms, buckets]);
}
