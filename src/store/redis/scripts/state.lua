-- What is kept under a key: the policy and a NUL; the queue, four numbers; for each limit a head of nine and
-- a trail; then whatever the rules add; then slots that were given back, each with what was charged for it.
--
-- turns   the first instant that no turn is for
-- given   how many slots were given back
-- hold    until when nothing is booked; 0 if there was no pause
-- length  how long that is: it lasts no longer, whatever becomes of the clock
--
-- epoch   which history this is: another one if the state was lost and begun anew; 0 if there is none yet. The instant
--         at which it began, but later than any history that was known then; odd if that one was known to be lost
-- seq     how many units were charged in this history
-- quiet   when whatever was unknown at the beginning of this history is over; 0 if there was nothing
-- newest  the newest slot
-- x, y    the rule's own
-- late    what releases cost, together, that were over later than their slots were good
-- close   when no slot is too close to these any more
-- times   how many times this was written in this history
--
-- trail   a random number for each of the last times: whoever finds another one than it has seen knows that the state
--         was replaced by an older one, in which the same slots were booked again
--
-- NEAR (slots that are further ahead are given out a few at a time), LONGEST_QUEUE (how many horizons ahead the last
-- turn is), LOOK (after which whoever is held asks again) and SLACK (for how much longer all is kept than it matters)
-- stand before this file.
--
-- The first arguments of a script are the policy, and how many limits it has.
--
-- Instants are microseconds of the server's clock. They, and all products, are below 2^53, so that doubles are exact.

local KEY = KEYS[1]
local POLICY = ARGV[1] .. '\0'
local LONGEST_POLICY = 65536
local QUEUE = 32
local TRAIL = 16
local FIELDS = 72
local HEAD = FIELDS + TRAIL * 8
local HEADS = #POLICY + QUEUE
local LOGS = HEADS + tonumber(ARGV[2]) * HEAD
local RETURNED = 16
local MOST_RETURNED = 1000
local NEVER = math.huge

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- As `%`, but exact for all whole numbers that doubles hold.
local over = math.fmod

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

local queue = { turns = 0, given = 0, hold = 0, length = 0 }

-- Whether a policy is kept, and which, if it is not ours. Also reads the queue.
local function read_policy()
  local kept = read(0, #POLICY + QUEUE)
  if string.sub(kept, 1, #POLICY) == POLICY then
    if #kept == #POLICY + QUEUE then
      queue.turns, queue.given, queue.hold, queue.length = struct.unpack('>dddd', kept, #POLICY + 1)
    end
    return true
  end
  if kept == '' then
    return false
  end
  local other = string.match(read(0, LONGEST_POLICY), '^([^%z]*)%z')
  return true, other or damaged('there is no policy')
end

local function write_queue()
  write(#POLICY, struct.pack('>dddd', queue.turns, queue.given, queue.hold, queue.length))
end

-- Until when nothing is booked; 0 if something may be.
local function held_until()
  local latest = math.min(queue.hold, now + queue.length)
  return latest > now and latest or 0
end

-- The slots that were given back and are not over, each with what was charged for it, earliest first.
local function read_returned(from)
  local slots = {}
  local bytes = queue.given > 0 and read(from, queue.given * RETURNED) or ''
  for at = 1, #bytes, RETURNED do
    local slot, charge = struct.unpack('>dd', bytes, at)
    if slot >= now then
      table.insert(slots, { slot = slot, charge = charge })
    end
  end
  return slots
end

local function write_returned(from, slots)
  table.sort(slots, function(one, other) return one.slot < other.slot end)
  local bytes = {}
  for index = 1, math.min(#slots, MOST_RETURNED) do
    bytes[index] = struct.pack('>dd', slots[index].slot, slots[index].charge)
  end
  queue.given = #bytes
  if #bytes > 0 then
    write(from, table.concat(bytes))
  end
end

local function read_head(state)
  local head = read(state.head, FIELDS)
  if #head > 0 and #head < FIELDS then
    damaged(#head .. ' bytes')
  end
  if #head == 0 or struct.unpack('>d', head) == 0 then
    return false
  end
  state.epoch, state.seq, state.quiet, state.newest, state.x, state.y, state.late, state.close, state.times =
    struct.unpack('>ddddddddd', head)
  return true
end

-- The place of the random number for one of the last times.
local function trail(state, times)
  return state.head + FIELDS + over(times, TRAIL) * 8
end

local function read_stamp(state, times)
  return struct.unpack('>d', read(trail(state, times), 8))
end

local function write_head(state, stamp)
  state.times = state.times + 1
  local head = struct.pack(
    '>ddddddddd',
    state.epoch, state.seq, state.quiet, state.newest, state.x, state.y, state.late, state.close, state.times
  )
  write(state.head, head)
  write(trail(state, state.times), struct.pack('>d', stamp))
end

-- What most rules have in common: x and y begin at 0, and nothing is kept but the head.
local common = {}

function common.begin(state)
  state.x, state.y = 0, 0
end

function common.open() end

function common.waive_debt() end

-- Charges releases again that were over only then.
function common.overrun(state, slot)
  state.rule.charge(state, slot, slot)
end

function common.write() end

-- The most that one release can be charged.
function common.most(state)
  return state.count
end

-- For how long a release matters, in microseconds.
function common.memory(state)
  return state.period
end

-- Nothing is left of what was before, so nothing is let through until all of that is over.
function common.drain(state, at)
  state.quiet = at + state.rule.memory(state)
end

local RULES = {}

local function new_rule(name)
  RULES[name] = setmetatable({}, { __index = common })
  return RULES[name]
end

local function numbers(text)
  local all = {}
  for number in string.gmatch(text, '%S+') do
    table.insert(all, tonumber(number))
  end
  return all
end

-- One limit, of which stands from `at` on: how many units are in the logs before its own, rule, count, period, burst,
-- how late a release may be for its slot.
local function read_limit(index, at)
  local number = function(offset) return tonumber(ARGV[at + offset]) end
  return {
    head = HEADS + index * HEAD,
    log = LOGS + number(0) * 8,
    rule = RULES[ARGV[at + 1]],
    count = number(2),
    period = number(3),
    burst = number(4),
    lateness = number(5),
  }
end

-- What a limit is told of the calendar, see calendar.rs.
local function read_calendar(state, periods, hours)
  local starts, spans = numbers(periods), numbers(hours)
  state.opens, state.closes = table.remove(starts, 1), table.remove(starts, 1)
  state.ahead_of_hours, state.known_from, state.known_until =
    table.remove(spans, 1), table.remove(spans, 1), table.remove(spans, 1)
  state.starts, state.spans = starts, spans
end

-- Whether that reaches from now to `latest`.
local function is_covered(state, latest)
  local starts, from, to = state.starts, state.known_from, state.known_until
  return (#starts == 0 or (starts[1] <= now and latest < starts[#starts]))
    and (not from or (from <= now and latest < to))
end

-- Whether it is asked at this instant, and so nothing is charged that is not there.
local function is_asked(state, at)
  for index = 1, #state.spans, 2 do
    if at < state.spans[index + 1] then
      return at >= state.spans[index]
    end
  end
  return not state.known_from
end

-- The first instant from `from` on from which on it is not asked until a release that is late is over.
local function first_free(state, from)
  if not state.known_from then
    return NEVER
  end
  local at = from
  for index = 1, #state.spans, 2 do
    if at < state.spans[index] - state.ahead_of_hours then
      break
    end
    at = math.max(at, state.spans[index + 1])
  end
  return at
end

-- The first instant from `from` on at which one limit allows a slot that is waited for since `since`.
local function earliest(state, since, from)
  local free = first_free(state, from)
  if free == from then
    return from
  end
  return math.min(free, math.max(from, state.rule.earliest(state, since, from)))
end

-- The first instant that all limits allow. What one allows at one instant it may not allow at a later one, so all are
-- asked again until they agree.
local function agreed(limits, since)
  local from, slot = since, nil
  repeat
    slot = from
    for _, state in ipairs(limits) do
      from = earliest(state, since, from)
    end
  until from == slot
  return slot
end

-- Nothing is owed that was charged when a limit was not asked.
local function waive_debt(state, slot)
  if not is_asked(state, slot) then
    state.rule.waive_debt(state)
  end
end
