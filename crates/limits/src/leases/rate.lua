-- Takes one of a rate, by the clock of the server: the generic cell rate algorithm, as policy::rate has it. Answers 0, or in how
-- many milliseconds to ask again: whoever is refused is given a moment of its own.
-- KEYS: rate (hash: next, given; in us)    ARGV: interval, tolerance, longest wait, all in us
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local interval, tolerance, wait_max = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local used = redis.call('HMGET', KEYS[1], 'next', 'given')
local next = math.max(tonumber(used[1] or 0) or 0, now)
local given = tonumber(used[2] or 0) or 0
-- Further ahead than it ever comes: the clock was set back, or the server is another one.
if next > now + tolerance + interval then
  next = now + tolerance + interval
  redis.call('HSET', KEYS[1], 'next', string.format('%.0f', next))
end
if given > now + wait_max then given = 0 end
if next - now <= tolerance then
  redis.call('HSET', KEYS[1], 'next', string.format('%.0f', next + interval))
  redis.call('PEXPIRE', KEYS[1], math.ceil((next - now + tolerance) / 1000) + 60000)
  return 0
end
given = math.min(math.max(next - tolerance, given + interval), now + wait_max)
redis.call('HSET', KEYS[1], 'given', string.format('%.0f', given))
return math.max(1, math.ceil((given - now) / 1000))
