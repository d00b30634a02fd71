-- How much of each limit is used. Changes nothing.
--
-- KEYS  where all of it is kept
-- ARGV  policy, how many limits it has; for each: how many units are in the logs before its own, rule, count, period,
--       burst, how many releases may have slots at one instant, what it is told of periods and of hours
-- Returns the other policy, or {now, turns, until when it is held (0: it is not), {for each limit {how many releases
--       would have a slot right now, when the next slot is}}}.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local limits = tonumber(ARGV[2])
local heads = #POLICY + QUEUE

local is_kept, other = read_policy()
if not is_kept or other then
  return other or ''
end

local function open(index)
  local at = 2 + (index - 1) * 8
  local number = function(offset) return tonumber(ARGV[at + offset]) end
  local state = {
    head = heads + (index - 1) * HEAD,
    log = heads + limits * HEAD + number(1) * 8,
    rule = RULES[ARGV[at + 2]],
    count = number(3),
    period = number(4),
    burst = number(5),
    most = number(6),
    seq = 0,
    quiet = 0,
    newest = 0,
    cost = 1,
  }
  read_calendar(state, ARGV[at + 7], ARGV[at + 8])
  if not read_head(state) then
    state.rule.begin(state)
  end
  state.rule.open(state)
  return state
end

local function slot_of(state, since, cost)
  state.cost = cost
  return earliest(state, since, since)
end

-- The dearest release that may be at this instant costs as much as there is.
local function free(state, since)
  local least, most = 0, since > now and 0 or state.most
  while least < most do
    local middle = math.ceil((least + most) / 2)
    if slot_of(state, since, middle) <= now then
      least = middle
    else
      most = middle - 1
    end
  end
  return least
end

local answers = {}
for index = 1, limits do
  local state = open(index)
  local since = math.max(now, state.newest)
  table.insert(answers, { free(state, since), slot_of(state, since, 1) })
end
return { now, queue.turns, held_until(now), answers }
