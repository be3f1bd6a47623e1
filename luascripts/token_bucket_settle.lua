-- Corrects one earlier charge to a token bucket (limit.Rule.Settle). Not idempotent: send it once.
--
-- KEYS[1]  the subject's bucket
-- ARGV[1]  n, units of debt in a microsecond (limit.Rule.Denominator)
-- ARGV[2]  the correction in units: positive charges more, negative gives back
-- ARGV[3]  the debt that can be owed without a settlement in units (limit.Rule.Bound)
-- ARGV[4]  the most debt that is counted in units (limit.Rule.MaxDebt)
-- ARGV[5]  the state that the charge left, in the form of the stored text, without "-"
-- ARGV[6]  the time in microseconds; for tests, else absent: the server's clock decides
--
-- Reply    0
-- Errors   as in token_bucket_take.lua, CLOCK also if a debt would last beyond 2^53 microseconds; there the
--          stored text is explained too.
--
-- A refund gives back at most what time has not given back already, so a bucket that has been full since is not
-- filled twice. It writes the state and its expiry anew, so the key lives just as long as there is debt;
-- where none is left the key goes. If nothing changes, nothing is written.
--
-- A debt beyond the bound, of another limit or another clock, is moved by whole microseconds and not cut.
local now = ARGV[6]
local grace = 0
if now then
  now, grace = now + 0, 3600000
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local n, bound, most = ARGV[1] + 0, ARGV[3] + 0, ARGV[4] + 0
local beyond, wrong = 9007199254740992, 'CLOCK the time is out of range'
if now < 1 or now + bound / n >= beyond then return redis.error_reply(wrong) end

-- What a stored text owes, and whether that was cut to top.
local function owed(text, top)
  local frac = string.sub(text, 17) + 0
  if frac >= n then frac = n - 1 end
  local gap = string.sub(text, 1, 16) - now
  if gap < 0 then return 0, false elseif gap > top / n then return top, true end
  local debt = gap * n + frac
  if debt > top then return top, true end
  return debt, false
end

local debt, cut, sign = 0, false, ''
local v = redis.call('GET', KEYS[1])
if v then
  local top = bound
  if string.byte(v) == 45 then v, top, sign = string.sub(v, 2), most, '-' end
  debt, cut = owed(v, top)
end
local more, back = ARGV[2] + 0, 0
if more < 0 then
  back = math.min(-more, (owed(ARGV[5], most)))
  if back == 0 then return 0 end
end
if cut then
  -- More is owed than this limit allows, under another one: that debt is moved, not forgiven.
  local at = string.sub(v, 1, 16) + 0
  local moved = at - math.floor(back / n)
  if more > 0 then moved = math.max(at, math.min(at + math.floor(more / n), now + 3153600000000000)) end
  if moved >= beyond then return redis.error_reply(wrong) end
  local text = sign .. string.format('%016.0f', moved) .. string.sub(v, 17)
  redis.call('SET', KEYS[1], text, 'PX', math.ceil((moved - now + 1) / 1000) + grace)
  return 0
end
local after
if more > 0 then after = math.min(debt + more, most) else after = debt - back end
if after <= 0 then
  if v then redis.call('DEL', KEYS[1]) end
  return 0
end
local q = math.floor(after / n)
if now + q >= beyond then return redis.error_reply(wrong) end
local text = string.format('%016.0f%03d', now + q, after - q * n)
if after > bound then text = '-' .. text end
redis.call('SET', KEYS[1], text, 'PX', math.ceil((q + 1) / 1000) + grace)
return 0
