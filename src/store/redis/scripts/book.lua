-- Books slots that all limits allow, and charges every one of them.
--
-- KEYS  where all of it is kept
-- ARGV  policy, nonce, horizon, how many, when the run began (0: now), for how many milliseconds to keep the policy at
--       least, how many limits the policy has; then for each that is charged: which it is, how many units are in the
--       logs before its own, rule, count, period, burst, whether it starts empty, cost, whether to distrust what is
--       kept; and what the client last saw of it: epoch, seq, newest, settled (0 each if nothing).
-- Returns {-1, the other policy}, or {now, when to ask again (0: never), what was found, slots, what is kept of each}.

local RULES = { sliding = sliding, bucket = bucket, interval = interval, fixed = fixed }
local SLACK = 10000000

local FOUND_LOST, FOUND_STEPPED_BACK, TOLD_TO_DISTRUST = 1, 2, 3

local function server_now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local now = server_now()
local nonce, horizon, wanted = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local began, keep = tonumber(ARGV[5]), tonumber(ARGV[6])
local logs = #POLICY + tonumber(ARGV[7]) * HEAD
local FIRST, EACH = 7, 13

local function limit(at)
  local number = function(offset) return tonumber(ARGV[at + offset]) end
  return {
    head = #POLICY + number(1) * HEAD,
    log = logs + number(2) * 8,
    rule = RULES[ARGV[at + 3]],
    count = number(4),
    period = number(5),
    burst = number(6),
    starts_empty = number(7) == 1,
    cost = number(8),
    is_distrusted = number(9) == 1,
    known = { epoch = number(10), seq = number(11), newest = number(12), settled = number(13) },
  }
end

-- Whether less is kept than this client has seen, of what still matters.
local function is_lost(state, exists)
  local known = state.known
  if known.settled <= now then
    return false
  end
  if not exists then
    return true
  end
  if state.epoch ~= known.epoch then
    return known.settled > state.quiet
  end
  if state.seq == known.seq then
    return state.newest ~= known.newest
  end
  return state.seq < known.seq or state.newest < known.newest or not state.rule.remembers(state, known)
end

local function begin(state)
  state.epoch, state.seq, state.quiet, state.newest = nonce, 0, 0, 0
  state.rule.begin(state)
end

local function drain(state, at)
  begin(state)
  state.rule.drain(state, at)
  state.newest = at
  state.is_changed = true
end

-- Slots that nothing is known of may have been booked up to the horizon, and by none further ahead.
local function silence(state)
  local known = state.known
  drain(state, now + horizon)
  state.quiet = math.max(state.quiet, state.newest + math.max(known.settled - known.newest, 0))
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
    begin(state)
    if state.starts_empty then
      drain(state, began > 0 and math.min(began, now) or now)
    end
  end
  state.rule.open(state)
  return found
end

local function book(limits, since)
  local slots, again = {}, 0
  while #slots < wanted do
    local slot = since
    for _, state in ipairs(limits) do
      slot = math.max(slot, state.rule.earliest(state, since))
    end
    if slot > now + horizon then
      again = slot == NEVER and 0 or slot - horizon
      break
    end
    for _, state in ipairs(limits) do
      state.rule.charge(state, slot, since)
      state.newest, state.seq, state.is_changed = slot, state.seq + state.cost, true
    end
    table.insert(slots, slot)
    since = slot
  end
  return slots, again
end

-- Returns for how many milliseconds it is needed.
local function save(state)
  state.rule.write(state)
  write_head(state)
  return divide_up(math.max(state.rule.settled(state) - now, 0) + SLACK, 1000)
end

local is_kept, other = read_policy()
if other then
  return { -1, other }
end

local limits, since, found = {}, now, 0
for at = FIRST, #ARGV - EACH, EACH do
  local state = limit(at)
  found = math.max(found, open(state))
  since = math.max(since, state.newest)
  table.insert(limits, state)
end

local slots, again = book(limits, since)

local millis, kept = keep, {}
for index, state in ipairs(limits) do
  if state.is_changed then
    millis = math.max(millis, save(state))
  end
  kept[index] = { state.epoch, state.seq, state.newest, state.rule.settled(state) }
end
if millis > 0 then
  if not is_kept then
    write(0, POLICY)
  end
  redis.call('PEXPIRE', KEY, math.max(millis, redis.call('PTTL', KEY)))
end

return { now, again, found, slots, kept }
