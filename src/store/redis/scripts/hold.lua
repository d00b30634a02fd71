-- Holds what is kept under a key, whatever its limits; what is kept is described in state.lua.
--
-- KEYS  where it is kept
-- ARGV  for how many microseconds; 0: it is not held any more
-- Returns whether anything is kept there.

local kept = redis.call('GETRANGE', KEYS[1], 0, 65535)
local policy = string.find(kept, '%z')
if not policy then
  return 0
end
local time = redis.call('TIME')
local length = tonumber(ARGV[1])
local hold = length > 0 and tonumber(time[1]) * 1000000 + tonumber(time[2]) + length or 0
-- After the turns and the number of slots that were given back.
redis.call('SETRANGE', KEYS[1], policy + 16, struct.pack('>dd', hold, length))
local millis = math.ceil(length / 1000) + 10000
redis.call('PEXPIRE', KEYS[1], math.max(millis, redis.call('PTTL', KEYS[1])))
return 1
