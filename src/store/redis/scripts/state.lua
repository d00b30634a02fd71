-- What is kept under a key: the policy and a NUL; for each limit a head of six numbers; then whatever the rules add.
--
-- epoch   which history this is: another one if the state was lost and begun anew; 0 if there is none yet
-- seq     how many units were charged in this history
-- quiet   when whatever was unknown at the beginning of this history is over; 0 if there was nothing
-- newest  the newest slot
-- x, y    the rule's own
--
-- Instants are microseconds of the server's clock. They, and all products, are below 2^53, so that doubles are exact.

local KEY = KEYS[1]
local POLICY = ARGV[1] .. '\0'
local LONGEST_POLICY = 65536
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

local function read(from, length)
  return redis.call('GETRANGE', KEY, from, from + length - 1)
end

local function write(from, bytes)
  redis.call('SETRANGE', KEY, from, bytes)
end

local function damaged(how)
  error('the state of throttle is damaged: ' .. how)
end

-- Whether a policy is kept, and which, if it is not ours.
local function read_policy()
  local kept = read(0, #POLICY)
  if kept == POLICY or kept == '' then
    return kept == POLICY
  end
  local other = string.match(read(0, LONGEST_POLICY), '^([^%z]*)%z')
  return true, other or damaged('there is no policy')
end

local function read_head(state)
  local head = read(state.head, HEAD)
  if #head > 0 and #head < HEAD then
    damaged(#head .. ' bytes')
  end
  if #head == 0 or struct.unpack('>d', head) == 0 then
    return false
  end
  state.epoch, state.seq, state.quiet, state.newest, state.x, state.y = struct.unpack('>dddddd', head)
  return true
end

local function write_head(state)
  write(
    state.head,
    struct.pack('>dddddd', state.epoch, state.seq, state.quiet, state.newest, state.x, state.y)
  )
end
