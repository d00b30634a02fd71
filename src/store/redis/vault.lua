-- Keeps the value of a key; swaps it if it still is the one that was read. Whoever is refused gets a place in a queue,
-- and while there is one, only the first in it may swap, if it comes in time.
--
-- KEYS  where it is kept: a hash of the value and the queue
-- ARGV  what the value begins with that was read, as no other does ('': there was none); the new value ('': only
--       read); for how many milliseconds to keep that; the number of the process; for how many microseconds it may be
--       waited for once it is the first (0: not at all, it gets no place)
-- Returns the time in seconds and microseconds; 1 if it was swapped, or the place in the queue as a negative number, 0
--       if it was only read; and the value if it was not swapped.

local KEY, begins, new, keep, id, turn = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local kept = redis.call('HGET', KEY, 'value') or ''
if new == '' then
  return { time[1], time[2], 0, kept }
end

local queue, place = {}, 0
for its, its_turn, until_ in string.gmatch(redis.call('HGET', KEY, 'queue') or '', '(%d+) (%d+) (%d+)') do
  local is_late = #queue == 0 and until_ ~= '0' and tonumber(until_) < now
  if not is_late then
    table.insert(queue, { its, its_turn, until_ })
    place = its == id and #queue or place
  end
end

local is_same = string.sub(kept, 1, #begins) == begins and (kept == '') == (begins == '')
local is_swapped = is_same and (#queue == 0 or place == 1)
if is_swapped then
  redis.call('HSET', KEY, 'value', new)
  redis.call('PEXPIRE', KEY, keep)
  if place == 1 then
    table.remove(queue, 1)
  end
elseif place == 0 and turn ~= '0' then
  table.insert(queue, { id, turn, '0' })
  place = #queue
end
if queue[1] and queue[1][3] == '0' then
  queue[1][3] = string.format('%.0f', now + queue[1][2])
end
for index, waiting in ipairs(queue) do
  queue[index] = table.concat(waiting, ' ')
end
if #queue > 0 or place > 0 then
  redis.call('HSET', KEY, 'queue', table.concat(queue, ';'))
  if kept == '' then
    redis.call('PEXPIRE', KEY, keep)
  end
end
return { time[1], time[2], is_swapped and 1 or -place, is_swapped and '' or kept }
