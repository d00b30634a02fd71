-- For how many microseconds what is kept under a key is held, whatever its limits; it is described in state.lua.
--
-- KEYS  where it is kept

local kept = redis.call('GETRANGE', KEYS[1], 0, 65535)
local policy = string.find(kept, '%z')
if not policy or #kept < policy + 32 then
  return 0
end
-- After the turns and the number of slots that were given back.
local hold, length = struct.unpack('>dd', kept, policy + 17)
local time = redis.call('TIME')
local left = hold - tonumber(time[1]) * 1000000 - tonumber(time[2])
return math.max(math.min(left, length), 0)
