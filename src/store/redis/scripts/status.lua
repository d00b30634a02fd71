-- How much of each limit is used. Changes nothing.
--
-- KEYS  where all of it is kept
-- ARGV  policy, how many limits it has, how many units are in all logs, a number for a release that costs 1 under each
--       limit; for each: how many units are in the logs before its own, rule, count, period, burst, how late a release
--       may be, how many releases may have slots at one instant, what it is told of periods and of hours, a number for
--       a release that costs 1 under it alone
-- Returns the other policy, or {now, the newest slot (0: it was given back), turns, until when it is held (0: it is
--       not), {for each limit {how many releases would have a slot right now, when the next slot is}}}.

local is_kept, other = read_policy()
if not is_kept or other then
  return other or ''
end

local FIRST, EACH = 5, 10

local function open(index)
  local at = FIRST + (index - 1) * EACH
  local state = read_limit(index - 1, at)
  state.most = tonumber(ARGV[at + 6])
  state.seq, state.times, state.quiet, state.newest, state.cost = 0, 0, 0, 0, 1
  read_calendar(state, ARGV[at + 7], ARGV[at + 8])
  state.charge = tonumber(ARGV[at + 9])
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

local returned = read_returned(LOGS + tonumber(ARGV[3]) * 8)

-- The first slot that was given back; one that is booked anew is later.
local function first_returned(charge)
  for _, one in ipairs(returned) do
    if one.charge == charge or one.charge == tonumber(ARGV[4]) then
      return one.slot
    end
  end
end

local answers, newest = {}, 0
for index = 1, tonumber(ARGV[2]) do
  local state = open(index)
  local since = math.max(now, state.newest)
  newest = math.max(newest, state.newest)
  table.insert(answers, { free(state, since), first_returned(state.charge) or slot_of(state, since, 1) })
end
for _, one in ipairs(returned) do
  newest = one.slot == newest and 0 or newest
end
return { now, newest, queue.turns, held_until(), answers }
