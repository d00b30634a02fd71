-- At most N units in any window of length P: a ring of the slots of the last N units, 8 bytes each.
-- Unit u, counted from 0, is at place u mod N. `log` is where the ring begins.

local sliding = new_rule('sliding')

-- The number of units read at once: they are asked for one after the other.
local AHEAD = 64

function sliding.open(state)
  state.written, state.unwritten = state.seq, {}
  state.ahead, state.ahead_from = '', 0
end

local function put(state, place, units)
  if #units > 0 then
    write(state.log + place * 8, units)
  end
end

-- The last N units that are not written yet: where a limit is not asked, there may be more. And their number.
local function last_units(state)
  local first, lacking = #state.unwritten + 1, state.count
  while first > 1 and lacking > 0 do
    first = first - 1
    local one = state.unwritten[first]
    one.units = math.min(one.units, lacking)
    lacking = lacking - one.units
  end
  local units = {}
  for index = first, #state.unwritten do
    local one = state.unwritten[index]
    table.insert(units, string.rep(struct.pack('>d', one.slot), one.units))
  end
  return table.concat(units), state.count - lacking
end

function sliding.write(state)
  local units, number = last_units(state)
  local place = over(state.seq - number, state.count)
  local before_the_end = (state.count - place) * 8
  put(state, place, string.sub(units, 1, before_the_end))
  put(state, 0, string.sub(units, before_the_end + 1))
  state.written, state.unwritten = state.seq, {}
end

local function read_ahead(state, unit)
  local place = over(unit, state.count)
  local units = math.min(AHEAD, state.written - unit, state.count - place)
  state.ahead = read(state.log + place * 8, units * 8)
  state.ahead_from = unit
  if #state.ahead < units * 8 then
    damaged('units are missing')
  end
end

local function slot_of(state, unit)
  if unit >= state.written then
    sliding.write(state)
  end
  if unit < state.ahead_from or unit >= state.ahead_from + #state.ahead / 8 then
    read_ahead(state, unit)
  end
  local slot = struct.unpack('>d', state.ahead, (unit - state.ahead_from) * 8 + 1)
  return slot > 0 and slot or damaged('a unit is missing')
end

function sliding.earliest(state)
  if state.cost > state.count then
    return NEVER
  end
  -- This unit has to be over: with it, as many of the last N are as are needed.
  local unit = state.seq - state.count + state.cost - 1
  if unit < 0 then
    return state.quiet
  end
  return math.max(state.quiet, slot_of(state, unit) + state.period)
end

function sliding.charge(state, slot)
  table.insert(state.unwritten, { slot = slot, units = state.cost })
end

function sliding.matters_until(state)
  return math.max(state.quiet, state.newest + state.period)
end
