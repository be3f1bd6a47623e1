-- Says what token_bucket_take.lua would say, and writes nothing.
--
-- KEYS[1]  the subject's bucket
-- ARGV[1]  n, units of debt in a microsecond (limit.Rule.Denominator)
-- ARGV[2]  the cost in units (limit.Rule.Units); more than ARGV[3] where it can never pass
-- ARGV[3]  the debt of an empty bucket in units (limit.Rule.Capacity)
-- ARGV[4]  the debt that can be owed without a settlement in units (limit.Rule.Bound)
-- ARGV[5]  the most debt that is counted in units (limit.Rule.MaxDebt)
-- ARGV[6]  the time in microseconds; for tests, else absent: the server's clock decides
--
-- Reply    would be admitted: the debt after the charge
--          would be refused:  -1 - debt
-- Errors   as in token_bucket_take.lua, where the stored text is explained too.
local now = ARGV[6]
if now then
  now = now + 0
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local n, cap, debt = ARGV[1] + 0, ARGV[3] + 0, 0
if now < 1 or now + ARGV[4] / n >= 9007199254740992 then return redis.error_reply('CLOCK the time is out of range') end
local v = redis.call('GET', KEYS[1])
if v then
  local top = ARGV[4] + 0
  if string.byte(v) == 45 then v, top = string.sub(v, 2), ARGV[5] + 0 end
  local frac = string.sub(v, 17) + 0
  if frac >= n then frac = n - 1 end
  local gap = string.sub(v, 1, 16) - now
  if gap > top / n then debt = top elseif gap >= 0 then debt = gap * n + frac end
  if debt > top then debt = top end
end
local after = debt + ARGV[2]
if after > cap then return -1 - debt end
return after
