-- Books slots that all limits allow, and charges every one of them.
--
-- KEYS  the policy's, then one for each limit
-- ARGV  policy, nonce, horizon, how many, when the run began (0: now); then for each limit: rule, count, period,
--       burst, whether it starts empty, cost, whether to distrust what is kept; and what the client last saw of it:
--       epoch, seq, newest, settled (0 each if nothing).
-- Returns {-1, the other policy}, or {now, when to ask again (0: never), what was found, slots, what is kept of each}.

local RULES = { sliding = sliding, bucket = bucket, interval = interval, fixed = fixed }
local SLACK = 10000000

local FOUND_LOST, FOUND_STEPPED_BACK, TOLD_TO_DISTRUST = 1, 2, 3

local function server_now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local now = server_now()
local policy, nonce = ARGV[1], tonumber(ARGV[2])
local horizon, wanted = tonumber(ARGV[3]), tonumber(ARGV[4])
local began = tonumber(ARGV[5])

local function limit(index)
  local at = 5 + (index - 1) * 11
  local number = function(offset) return tonumber(ARGV[at + offset]) end
  return {
    key = KEYS[1 + index],
    rule = RULES[ARGV[at + 1]],
    count = number(2),
    period = number(3),
    burst = number(4),
    starts_empty = number(5) == 1,
    cost = number(6),
    is_distrusted = number(7) == 1,
    known = { epoch = number(8), seq = number(9), newest = number(10), settled = number(11) },
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

local function open(state, is_policy_kept)
  local exists = read_head(state)
  local found = 0
  if state.is_distrusted then
    found = TOLD_TO_DISTRUST
  elseif is_lost(state, exists) or (exists and not is_policy_kept) then
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

local function save(state)
  local ttl = math.max(state.rule.settled(state) - now, 0) + SLACK
  local millis = divide_up(ttl, 1000)
  state.rule.write(state)
  write_head(state)
  redis.call('PEXPIRE', state.key, millis)
  return millis
end

local kept_policy = redis.call('GET', KEYS[1])
if kept_policy and kept_policy ~= policy then
  return { -1, kept_policy }
end

local limits, since, found = {}, now, 0
for index = 1, #KEYS - 1 do
  local state = limit(index)
  found = math.max(found, open(state, kept_policy))
  since = math.max(since, state.newest)
  limits[index] = state
end

local slots, again = book(limits, since)

local millis, kept = 0, {}
for index, state in ipairs(limits) do
  if state.is_changed then
    millis = math.max(millis, save(state))
  end
  kept[index] = { state.epoch, state.seq, state.newest, state.rule.settled(state) }
end
if millis > 0 then
  redis.call('SET', KEYS[1], policy, 'PX', math.max(millis, redis.call('PTTL', KEYS[1])))
end

return { now, again, found, slots, kept }
