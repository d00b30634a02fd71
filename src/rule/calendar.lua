-- At most N units in each period of the calendar: x is when the last one began in which something is used, y how much
-- of it is used. A server knows no zones, so it is told when periods begin: `starts`, in their order. Nothing is in the
-- first `opens` and the last `closes` microseconds of a period.

local calendar = new_rule('calendar')

-- No period is as long as this multiple of what it is called.
local LONGER = 2

-- If the clock was set back, the last period is still that one: none begins a second time.
function calendar.begin(state)
  state.x, state.y = state.x or 0, 0
end

function calendar.memory(state)
  return LONGER * state.period
end

-- Which one holds an instant; 0 if it is before the first, and the last if it is in that or later.
local function period_of(state, at)
  local index = 0
  while index < #state.starts and state.starts[index + 1] <= at do
    index = index + 1
  end
  return index
end

local function shown(state, at)
  return state.y > 0 and math.max(at, state.x) or at
end

local function end_of(state, at)
  return state.starts[period_of(state, at) + 1] or at + calendar.memory(state)
end

function calendar.drain(state, at)
  state.x, state.y = math.max(at, state.x, state.known.newest), state.count
  state.quiet = end_of(state, state.x)
end

-- Where nothing is known of the periods, not before this. It is further ahead than any slot.
function calendar.earliest(state, _, from)
  if state.cost > state.count then
    return NEVER
  end
  local at = shown(state, from)
  for index = math.max(period_of(state, at), 1), #state.starts - 1 do
    local start, next_start = state.starts[index], state.starts[index + 1]
    local used = start <= state.x and state.x < next_start and state.y or 0
    local slot = math.max(at, start + state.opens)
    if slot < next_start - state.closes and used + state.cost <= state.count then
      return slot
    end
  end
  return math.max(at, state.starts[#state.starts] + state.opens)
end

function calendar.charge(state, slot)
  local at = shown(state, slot)
  local start = state.starts[period_of(state, at)] or at
  if state.y == 0 or state.x < start then
    state.x, state.y = start, 0
  end
  state.y = state.y + state.cost
end

function calendar.matters_until(state)
  return math.max(state.quiet, state.y > 0 and end_of(state, state.x) or 0)
end
