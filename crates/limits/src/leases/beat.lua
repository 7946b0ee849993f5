-- Counts the processes that are alive, this one among them, by the clock of the server.
-- KEYS: processes (sorted set, process -> until when its sign of life lasts)    ARGV: process, how long one lasts
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
-- Longer than a sign lasts: the clock was set back. Whoever is alive says so again.
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + tonumber(ARGV[2])), '+inf')
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
