-- At least P/N between two slots, for each unit of the first: x is when the gap after the newest slot is over.
-- `period` is in such units that P/N is period/count microseconds.

local interval = new_rule('interval')

function interval.most()
  return NEVER
end

function interval.memory(state)
  return divide_up(state.cost * state.period, state.count)
end

function interval.earliest(state)
  return math.max(state.quiet, state.x)
end

function interval.charge(state, slot)
  state.x = slot + interval.memory(state)
end

function interval.overrun(state, slot)
  state.x = math.max(state.x, slot + interval.memory(state))
end

interval.matters_until = interval.earliest
