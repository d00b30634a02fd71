-- Keeps the value of a key, and swaps it if it still is the one that was read. Processes that want to do so at the same
-- time queue with their requests. One of them has the turn: only it may swap, and it replies to the others.
--
-- KEYS  where it is kept: a hash of the value and the queue
-- ARGV  what the value begins with that was read, as no other does ('': there was none); the new value ('': it only
--       queues or reads); for how many milliseconds to keep that; the number of the request ('': it does not queue);
--       the request ('': nobody else can decide on it); for how many microseconds it may have the turn; the numbers of
--       requests, each followed by the reply. Requests and replies have no tabs and line feeds.
-- Returns the time in seconds and microseconds; what became of it: 0 neither, 1 swapped, 2 replied, 3 it has the turn,
--       4 it waits; the value, with 0, 2 and 3; the reply, or the numbers of the others' requests, each followed by it

local KEY, begins, new, keep, id, request, turn = KEYS[1], unpack(ARGV, 1, 6)
-- In microseconds: for how long a request is kept that nobody asks about, how often it is noted that somebody does, and
-- more than any turn, so that the clock was set back if one lasts longer.
local STALE, LOOK, LONGEST = 2000000, 500000, 10000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local kept = redis.call('HGET', KEY, 'value') or ''
-- One that another program has altered is empty.
local before = string.match(redis.call('HGET', KEY, 'queue') or '', '^%d* %d+\n.*') or ''
if id == '' and new == '' then
  return { time[1], time[2], 0, kept, {} }
end

local first, till = string.match(before .. ' 0\n', '^(%d*) (%d+)\n')
local is_over = now > tonumber(till) or tonumber(till) > now + LONGEST
local noted = string.match(before, '\n' .. id .. ' (%d+) [^\t\n]*\t\n')
if noted and now - noted < LOOK and first ~= id and first ~= '' and not is_over then
  return { time[1], time[2], 4, '', {} }
end

local queue, own, others, is_alone, outcome, value, told = {}, nil, {}, true, 0, kept, {}
for its, seen, asked, reply in string.gmatch(before, '(%d+) (%d+) ([^\t\n]*)\t([^\t\n]*)\n') do
  if its == id or not (its == first and is_over or math.abs(now - seen) > STALE + turn) then
    table.insert(queue, { its, seen, asked, reply })
    own = its == id and #queue or own
    is_alone = is_alone and (its == id or reply ~= '')
    if its ~= id and asked ~= '' then
      others[#others + 1], others[#others + 2] = its, asked
    end
  end
end

local is_same = string.sub(kept, 1, #begins) == begins and (kept == '') == (begins == '')
local has_turn = is_alone or first == '' or first == id or is_over
if own and queue[own][4] ~= '' then
  outcome, told = 2, { table.remove(queue, own)[4] }
elseif new ~= '' and (kept == new or is_same and has_turn) then
  outcome, value, first, till = 1, '', '', 0
  redis.call('HSET', KEY, 'value', new)
  table.remove(queue, own or #queue + 1)
  local replies = {}
  for index = 7, #ARGV, 2 do
    replies[ARGV[index]] = ARGV[index + 1]
  end
  for _, entry in ipairs(queue) do
    if replies[entry[1]] then
      entry[3], entry[4] = '', replies[entry[1]]
    elseif entry[3] == '' and entry[4] == '' and first == '' then
      first, till = entry[1], now + turn
    end
  end
elseif id ~= '' then
  queue[own or #queue + 1], outcome, value = { id, now, request, '' }, 4, ''
  if has_turn then
    first, till, outcome, value, told = id, now + turn, 3, kept, others
  end
end

local after = #queue > 0 and string.format('%s %.0f\n', first, till) or ''
for _, entry in ipairs(queue) do
  after = after .. string.format('%s %.0f %s\t%s\n', unpack(entry))
end
redis.call('HSET', KEY, 'queue', after)
if kept == '' or outcome == 1 then
  redis.call('PEXPIRE', KEY, keep)
end
return { time[1], time[2], outcome, value, told }
