-- At least P/N between two slots, for each unit of the first: x is when the gap after the newest slot is over.
-- `period` is in such units that P/N is period/count microseconds.

local interval = {}

local function gap(state)
  return divide_up(state.cost * state.period, state.count)
end

function interval.begin(state)
  state.x, state.y = 0, 0
end

function interval.open() end

function interval.remembers()
  return true
end

function interval.drain(state, at)
  state.x = 0
  state.quiet = at + gap(state)
end

function interval.write() end

function interval.earliest(state)
  return math.max(state.quiet, state.x)
end

function interval.charge(state, slot)
  state.x = slot + gap(state)
end

function interval.settled(state)
  return math.max(state.quiet, state.x)
end
