-- Books slots that all limits allow, and charges every one of them.
--
-- KEYS  where all of it is kept
-- ARGV  policy, how many limits it has, a random number, horizon, how many, when the run began (0: now), for how many
--       milliseconds to keep the policy at least, its turn (0: none), how many slots it gets if they are far ahead, how
--       many units are in all logs, a number for what is charged, how many slots are given back, how far ahead a slot
--       may be to be of use (0: free at once), how many releases were over later than their slots were good, how long
--       ago, for how long nothing is to be booked (0: it may be);
--       for each limit that is charged: which it is, how many units are in the logs before its own, rule, count,
--       period, burst, how late a release may be, whether it starts empty, cost, whether to distrust what is kept, and
--       what the client last saw of it: epoch, times, stamp, newest, matters_until (0 each if nothing), and what it is told of
--       periods and of hours;
--       the slots that are given back.
-- Returns the other policy, or {now, when to ask again (0: never), what was found, slots, what is kept of each (epoch,
--       times, stamp, newest, matters_until, late, close; 0 each if nothing), the turn (0: none),
--       whether the policy was kept before, until when nothing is booked (0: it may be), when the next slot is (0: not
--       known)}.

local FOUND_LOST, FOUND_STEPPED_BACK, TOLD_TO_DISTRUST, NOT_COVERED = 1, 2, 3, 4

local stamp, horizon, wanted = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local began, keep = tonumber(ARGV[6]), tonumber(ARGV[7])
local turn, few = tonumber(ARGV[8]), tonumber(ARGV[9])
local charge, given = tonumber(ARGV[11]), tonumber(ARGV[12])
local returned_at = LOGS + tonumber(ARGV[10]) * 8
local latest = now + tonumber(ARGV[13])
local late, ago = tonumber(ARGV[14]), tonumber(ARGV[15])
local pause = tonumber(ARGV[16])
local FIRST, EACH = 17, 17

local function limit(at)
  local number = function(offset) return tonumber(ARGV[at + offset]) end
  local state = read_limit(number(0), at + 1)
  state.starts_empty = number(7) == 1
  state.cost = number(8)
  state.is_distrusted = number(9) == 1
  state.known = {
    epoch = number(10), times = number(11), stamp = number(12), newest = number(13), matters_until = number(14)
  }
  read_calendar(state, ARGV[at + 15], ARGV[at + 16])
  return state
end

-- Whether a state has vanished that has not expired.
local function has_vanished(known, at)
  return at < known.matters_until + SLACK
end

-- Whether another history than the known one begins too early, or with too much.
local function is_wrong_successor(state, known)
  local lost_until = state.epoch + horizon
  if state.epoch < known.epoch then
    -- It was replaced, and has come back.
    return true
  elseif over(state.epoch, 2) == 1 then
    return known.newest > lost_until
  end
  local memory = math.max(state.rule.memory(state), known.matters_until - known.newest)
  return has_vanished(known, state.epoch) and lost_until + memory > now
end

-- Whether less is kept than this client has seen. It matters even if all that was seen is over: others may have booked
-- since.
local function is_lost(state, exists)
  local known = state.known
  if known.epoch == 0 then
    return false
  elseif not exists then
    return has_vanished(known, now)
  elseif state.epoch ~= known.epoch then
    return is_wrong_successor(state, known)
  end
  local since = state.times - known.times
  return since < 0 or (since < TRAIL and read_stamp(state, known.times) ~= known.stamp)
end

local function begin(state, is_after_loss)
  local epoch = math.max(now, (state.epoch or 0) + 1, state.known.epoch + 1)
  state.epoch = epoch + over(epoch + (is_after_loss and 1 or 0), 2)
  state.seq, state.times, state.quiet, state.newest = 0, 0, 0, 0
  state.late, state.close = 0, 0
  state.rule.begin(state)
end

local function drain(state, at, is_after_loss)
  begin(state, is_after_loss)
  state.rule.drain(state, at)
  state.newest = at
  state.is_changed = true
end

-- Slots that nothing is known of may have been booked up to the horizon, and by none further ahead.
local function silence(state)
  local known = state.known
  drain(state, now + horizon, true)
  state.quiet = math.max(state.quiet, state.newest + math.max(known.matters_until - known.newest, 0))
end

local function open(state)
  local exists = read_head(state)
  local found = 0
  if state.is_distrusted then
    found = TOLD_TO_DISTRUST
  elseif is_lost(state, exists) then
    found = FOUND_LOST
  elseif exists and state.newest > now + horizon then
    found = FOUND_STEPPED_BACK
  end
  if found > 0 then
    silence(state)
  elseif not exists then
    begin(state, false)
    if state.starts_empty then
      drain(state, began > 0 and math.min(began, now) or now, false)
    end
  end
  state.rule.open(state)
  return found
end

-- The turn after another.
local function after(limits, at)
  local gap = 0
  for _, state in ipairs(limits) do
    gap = math.max(gap, divide_up(state.cost * state.period, math.max(state.count, 1)))
  end
  return at + gap
end

-- Whether whoever asks gets no slot: it is beyond the horizon, or is for those who were turned away before, unless they
-- leave so much time unused that they cannot all be there any more.
local function is_turned_away(slot)
  local is_its_turn = turn > 0 and turn <= math.min(now + horizon, queue.turns)
  local others_wait = queue.turns > now + horizon and slot > now + horizon / 2
  return slot > now + horizon or (others_wait and not is_its_turn)
end

-- The turn is the instant at which the slot is expected to be. Of those who wait, some may never come back.
local function turn_of(slot)
  local kept = turn > 0 and turn <= queue.turns
  return math.max(math.min(kept and turn or queue.turns, now + LONGEST_QUEUE * horizon), slot)
end

-- Who was the last of the queue leaves none behind.
local function leave_queue(limits)
  if turn > 0 and queue.turns == after(limits, turn) then
    queue.turns, queue.is_changed = turn, true
  end
end

-- Takes slots of this charge that were given back; those that are given back now are for others. Also returns the first
-- that is left.
local function take_back(returned, close)
  local slots, rest = {}, {}
  for _, one in ipairs(returned) do
    local is_taken = one.charge == charge and one.slot <= latest and #slots < wanted
    if late == 0 or one.slot >= close then
      table.insert(is_taken and slots or rest, is_taken and one.slot or one)
    end
  end
  for index = #ARGV - given + 1, #ARGV do
    local slot = tonumber(ARGV[index])
    -- Whoever gives it back may not know yet that it is too close.
    if slot > now and slot >= close then
      table.insert(rest, { slot = slot, charge = charge })
    end
  end
  if #slots > 0 or given > 0 or (late > 0 and #returned > 0) then
    write_returned(returned_at, rest)
    queue.is_changed = true
  end
  local left = NEVER
  for _, one in ipairs(rest) do
    left = one.charge == charge and math.min(left, one.slot) or left
  end
  return slots, left
end

-- Charges releases once more, as they were over only then. What is booked stays booked, and the log is in the order of
-- time.
local function charge_late(limits, newest)
  local over = now - ago
  local slot = math.max(over, newest)
  for _, state in ipairs(limits) do
    -- More than all there is makes no difference to a window. But it has to be seen that something is charged.
    state.cost = math.min(state.cost * late, math.max(state.rule.most(state), 1))
    state.rule.overrun(state, slot)
    waive_debt(state, slot)
    state.newest, state.seq, state.is_changed = slot, state.seq + state.cost, true
    state.late, state.close = state.late + state.cost, math.max(state.close, over + state.rule.memory(state))
  end
end

local function book(limits, since, slots, left)
  local again, its_turn, next_slot, is_first = 0, 0, 0, true
  while #slots < wanted do
    local slot = agreed(limits, since)
    if slot == NEVER then
      break
    end
    local is_away = is_first and is_turned_away(slot)
    slot = is_away and turn_of(slot) or slot
    if slot > latest then
      -- One that was given back is before all that are booked anew.
      next_slot = math.min(slot, left)
      again = next_slot - (latest - now)
      break
    elseif is_away or slot > now + horizon then
      next_slot, again = slot, slot - horizon
      if is_away then
        its_turn = slot
        queue.turns, queue.is_changed = math.max(queue.turns, after(limits, slot)), true
      end
      break
    end
    if is_first then
      leave_queue(limits)
      wanted = slot > now + NEAR and math.min(wanted, #slots + few) or wanted
      is_first = false
    end
    for _, state in ipairs(limits) do
      state.rule.charge(state, slot, since)
      waive_debt(state, slot)
      state.newest, state.seq, state.is_changed = slot, state.seq + state.cost, true
    end
    table.insert(slots, slot)
    since = slot
  end
  return again, its_turn, next_slot
end

-- Returns for how many milliseconds it is needed.
local function save(state)
  state.rule.write(state)
  write_head(state, stamp)
  return divide_up(math.max(state.rule.matters_until(state) - now, 0) + SLACK, 1000)
end

local is_kept, other = read_policy()
if other then
  return other
end

local limits, since, found, is_same = {}, now, 0, true
for at = FIRST, #ARGV - given - EACH + 1, EACH do
  local state = limit(at)
  if not is_covered(state, now + horizon) then
    return { now, 0, NOT_COVERED, {}, {}, 0, is_kept and 1 or 0, 0, 0 }
  end
  found = math.max(found, open(state))
  since = math.max(since, state.newest)
  is_same = is_same and state.epoch == state.known.epoch
  table.insert(limits, state)
end

if found > 0 then
  queue.turns, queue.given, queue.is_changed = 0, 0, true
end
if not is_same then
  -- They are of a history that was lost.
  given = 0
end
if late > 0 then
  charge_late(limits, since)
end
if now + pause > math.max(now, held_until()) then
  queue.hold, queue.length, queue.is_changed = now + pause, pause, true
end
local held = late == 0 and held_until() or 0
if held > 0 then
  wanted = 0
end
local close = 0
for _, state in ipairs(limits) do
  close = math.max(close, state.close)
end
local slots, left = take_back(read_returned(returned_at), close)
local again, its_turn, next_slot = book(limits, since, slots, left)
if held > 0 then
  again, its_turn, next_slot = math.min(held, now + LOOK), turn, 0
end

local millis, kept = keep, {}
for index, state in ipairs(limits) do
  if state.is_changed then
    millis = math.max(millis, save(state))
  end
  local is_written = state.times > 0
  kept[index] = is_written and {
    state.epoch, state.times, read_stamp(state, state.times), state.newest, state.rule.matters_until(state),
    state.late, state.close
  } or { 0, 0, 0, 0, 0, 0, 0 }
end
if queue.is_changed then
  millis = math.max(millis, divide_up(horizon + SLACK, 1000))
end
if millis > 0 and held_until() > 0 then
  millis = math.max(millis, divide_up(held_until() - now + SLACK, 1000))
end
if millis > 0 then
  if not is_kept then
    write(0, POLICY)
  end
  if queue.is_changed then
    write_queue()
  end
  redis.call('PEXPIRE', KEY, math.max(millis, redis.call('PTTL', KEY)))
end

return { now, again, found, slots, kept, its_turn, is_kept and 1 or 0, held_until(), next_slot }
