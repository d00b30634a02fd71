-- Bursts of up to B units, then N per P: x is the level at the newest slot, in grains. One unit is `period` grains,
-- and `count` of them accrue each microsecond, so that nothing is lost to rounding.

local bucket = new_rule('bucket')

function bucket.begin(state)
  state.x, state.y = state.burst * state.period, 0
end

function bucket.most()
  return NEVER
end

function bucket.memory(state)
  return divide_up(state.burst * state.period, state.count)
end

function bucket.drain(state, at)
  state.x = 0
  state.quiet = at + bucket.memory(state)
end

local function accrued(state, level, micros, cap)
  local lacking = math.max(cap * state.period - level, 0)
  if micros >= divide_up(lacking, state.count) then
    return level + lacking
  end
  return level + state.count * micros
end

local function level_at(state, since)
  return accrued(state, state.x, since - state.newest, state.burst)
end

function bucket.earliest(state, since)
  local lacking = math.max(state.cost * state.period - level_at(state, since), 0)
  return since + divide_up(lacking, state.count)
end

-- While one dearer than the burst waits, there is room for as much as it needs.
function bucket.charge(state, slot, since)
  local cap = math.max(state.burst, state.cost)
  local level = accrued(state, level_at(state, since), slot - since, cap)
  state.x = level - state.cost * state.period
end

function bucket.waive_debt(state)
  state.x = math.max(state.x, 0)
end

function bucket.matters_until(state)
  return state.newest + divide_up(math.max(state.burst * state.period - state.x, 0), state.count)
end
