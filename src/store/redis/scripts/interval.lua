-- At least P/N between two slots, for each unit of the first: x is when the gap after the newest slot is over.
-- `period` is in such units that P/N is period/count microseconds.

local interval = new_rule()

local function gap(state)
  return divide_up(state.cost * state.period, state.count)
end

function interval.drain(state, at)
  state.quiet = at + gap(state)
end

function interval.earliest(state)
  return math.max(state.quiet, state.x)
end

function interval.charge(state, slot)
  state.x = slot + gap(state)
end

interval.settled = interval.earliest
