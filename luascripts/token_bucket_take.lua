-- Charges a cost to a token bucket, if the bucket holds it.
--
-- KEYS[1]  the subject's bucket
-- ARGV[1]  n, units of debt in a microsecond (limit.Rule.Denominator)
-- ARGV[2]  the cost in units (limit.Rule.Units); more than ARGV[3] where it can never pass
-- ARGV[3]  the debt of an empty bucket in units (limit.Rule.Capacity)
-- ARGV[4]  the debt that can be owed without a settlement in units (limit.Rule.Bound)
-- ARGV[5]  the most debt that is counted in units (limit.Rule.MaxDebt)
-- ARGV[6]  the time in microseconds; for tests, else absent: the server's clock decides
--
-- Reply    admitted: {debt after the charge, time in microseconds}
--          refused:  -1 - debt, one integer. Nothing was written, unless a debt was cut to the bound: the clock went back,
--          or the limit was larger before. Then it is the cut debt that time pays back, or the wait would not be enough.
-- Errors   CLOCK, if the time is not after 1970, or the bucket would be full at 2^53 microseconds (in 2255) or later;
--          WRONGTYPE, or "attempt to perform arithmetic", if something else is stored under the key; and whatever
--          the server says to GET and SET. A failed call has written nothing.
--
-- What is stored is the instant at which the bucket is full again (limit.State), as one decimal number: 16 digits of
-- whole microseconds, then at least three of units; with a "-" in front where a settlement has put the
-- subject further into debt than the bound. Up to 19 digits Redis keeps as an integer, in no memory beyond the key's.
-- The key expires when the bucket is full, because a full bucket and no bucket are the same.
--
-- Every number here is a whole one below 2^53, where doubles are exact, or on the far side of a bound that it is compared
-- with. tostring would keep 14 digits: '%.0f' keeps all. Sixteen digits, zeros in front, are enough below 2^53.
local now = ARGV[6]
local grace = 0
if now then
  -- A clock that a test holds still must not lose its keys to the real one.
  now, grace = now + 0, 3600000
else
  -- Once: before Redis 7.2 the clock runs on inside a script.
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local n, cap, debt, cut = ARGV[1] + 0, ARGV[3] + 0, 0, false
if now < 1 or now + ARGV[4] / n >= 9007199254740992 then return redis.error_reply('CLOCK the time is out of range') end
local v = redis.call('GET', KEYS[1])
if v then
  local top = ARGV[4] + 0
  -- Not v < '0': strings compare by the server's locale.
  if string.byte(v) == 45 then v, top = string.sub(v, 2), ARGV[5] + 0 end
  -- Another limit may have written it, with more units in a microsecond.
  local frac = string.sub(v, 17) + 0
  if frac >= n then frac = n - 1 end
  local gap = string.sub(v, 1, 16) - now
  -- Within the bound first: a server whose Lua counts in integers would overflow.
  if gap > top / n then debt = top + 1 elseif gap >= 0 then debt = gap * n + frac end
  if debt > top then debt, cut = top, true end
end
local after = debt + ARGV[2]
local kept = after
if after > cap then
  -- One integer, because a refusal is what has to be cheap under attack.
  if not cut then return -1 - debt end
  kept = debt
end
local q = math.floor(kept / n)
local text = string.format('%016.0f%03d', now + q, kept - q * n)
if kept > ARGV[4] + 0 then text = '-' .. text end
redis.call('SET', KEYS[1], text, 'PX', math.ceil((q + 1) / 1000) + grace)
if after > cap then return -1 - debt end
return {after, now}
