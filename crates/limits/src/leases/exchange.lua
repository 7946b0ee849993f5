-- Gives back, renews and takes leases of one recipient, by the clock of the server. Its first command deletes: after that a
-- server that is full takes the rest as well, which is little.
-- KEYS: leases (sorted set, token -> expiry; and a mark), queue (hash, waiting process -> "since last", in us and ms)
-- ARGV: limit share term mark-kept wait-kept process held, three counts, then so many tokens to give, to renew, to take
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local limit, share, term = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local mark_kept, wait_kept, me, held = ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local gives, renews, takes = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local to_renew = 10 + gives
local to_take = to_renew + renews

for i = 1, gives do redis.call('ZREM', KEYS[1], ARGV[10 + i]) end
-- Asked before without an answer that arrived.
for i = 1, takes do redis.call('ZREM', KEYS[1], ARGV[to_take + i]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
-- Further ahead than a term: the clock was set back, or the server is another one. From here on it is a term.
local far = 1e15
local ahead = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + term), string.format('(%.0f', far))
for i = 1, #ahead do redis.call('ZADD', KEYS[1], now + term, ahead[i]) end
local unknown = 0
for i = 1, renews do unknown = unknown + redis.call('ZADD', KEYS[1], now + term, ARGV[to_renew + i]) end

-- The mark says since when the recipient is known. In the same key, so that it is lost with the leases; never expired.
local known_since = math.min(tonumber(redis.call('ZSCORE', KEYS[1], 'known') or far + now) - far, now)
redis.call('ZADD', KEYS[1], far + known_since, 'known')
redis.call('PEXPIRE', KEYS[1], mark_kept)
local young = now - known_since < term

-- Who waits keeps asking; one that stopped is out. Each that waits for longer has one place before us.
local others, before, since = 0, 0, math.huge
local queue = redis.call('HGETALL', KEYS[2])
for i = 1, #queue, 2 do
  local first, last = string.match(queue[i + 1], '^(%d+) (%d+)$')
  first, last = tonumber(first), tonumber(last)
  if queue[i] == me then
    since = first or math.huge
    if since > time[1] * 1e6 + time[2] then since = math.huge end
  elseif not last or last + wait_kept < now or last > now then
    redis.call('HDEL', KEYS[2], queue[i])
  end
end
for i = 1, #queue, 2 do
  local first, last = string.match(queue[i + 1], '^(%d+) (%d+)$')
  first, last = tonumber(first), tonumber(last)
  if queue[i] ~= me and last and last <= now and last + wait_kept >= now then
    others = others + 1
    if first < since or (first == since and queue[i] < me) then before = before + 1 end
  end
end

-- While others wait nobody takes more than an equal part; whoever has that does not wait.
local most = limit
if others > 0 then most = math.max(1, math.floor(limit / (others + 1))) end
if young then most = math.min(most, share) end
local granted = math.min(takes, limit - (redis.call('ZCARD', KEYS[1]) - 1) - before, most - held)
if granted < 0 then granted = 0 end
for i = 1, granted do redis.call('ZADD', KEYS[1], now + term, ARGV[to_take + i]) end
if granted > 0 or since == math.huge then since = time[1] * 1e6 + time[2] end
if granted < takes and held + granted < most then
  redis.call('HSET', KEYS[2], me, string.format('%.0f %.0f', since, now))
  redis.call('PEXPIRE', KEYS[2], wait_kept)
elseif #queue > 0 then
  redis.call('HDEL', KEYS[2], me)
end
return { granted, unknown, young and 1 or 0 }
