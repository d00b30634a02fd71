-- At most N units in each of a row of windows of length P: x is the start of the last window, y what was used of it.

local fixed = new_rule('fixed')

function fixed.earliest(state, _, from)
  if state.cost > state.count then
    return NEVER
  end
  local at, next_window = math.max(state.quiet, from), state.x + state.period
  -- A release that is as late as it may be must still be in its window.
  local is_over = state.y + state.cost > state.count or at + state.lateness >= next_window
  return state.y > 0 and is_over and math.max(at, next_window) or at
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
