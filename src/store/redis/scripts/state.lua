-- What is kept of a limit under its key: six numbers, and after them whatever the rule adds.
--
-- epoch   which history this is: another one if the state was lost and begun anew
-- seq     how many units were charged in this history
-- quiet   when whatever was unknown at the beginning of this history is over; 0 if there was nothing
-- newest  the newest slot
-- x, y    the rule's own
--
-- Instants are microseconds of the server's clock. They, and all products, are below 2^53, so that doubles are exact.

local HEAD = 48
local NEVER = math.huge

-- As `%`, but exact for all whole numbers that doubles hold.
local function over(dividend, divisor)
  return math.fmod(dividend, divisor)
end

local function divide_up(dividend, divisor)
  local rest = over(dividend, divisor)
  local whole = (dividend - rest) / divisor
  return rest > 0 and whole + 1 or whole
end

local function read_head(state)
  local head = redis.call('GETRANGE', state.key, 0, HEAD - 1)
  if #head == 0 then
    return false
  end
  if #head < HEAD then
    error('the state of throttle is damaged: ' .. #head .. ' bytes')
  end
  state.epoch, state.seq, state.quiet, state.newest, state.x, state.y = struct.unpack('>dddddd', head)
  return true
end

local function write_head(state)
  local head =
    struct.pack('>dddddd', state.epoch, state.seq, state.quiet, state.newest, state.x, state.y)
  redis.call('SETRANGE', state.key, 0, head)
end
