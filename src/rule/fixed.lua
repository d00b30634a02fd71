-- At most N units in each of a row of windows of length P: x is the start of the last window, y what was used of it.

local fixed = new_rule('fixed')

function fixed.earliest(state)
  if state.cost > state.count then
    return NEVER
  end
  local next_window = state.y + state.cost > state.count and state.x + state.period or 0
  return math.max(state.quiet, next_window)
end

function fixed.charge(state, slot)
  if slot >= state.x + state.period then
    state.x, state.y = slot, 0
  end
  state.y = state.y + state.cost
end

function fixed.matters_until(state)
  return math.max(state.quiet, state.x + state.period)
end
