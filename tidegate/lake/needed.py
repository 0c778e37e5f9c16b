"""Which snapshots somebody still reads from, by the ledger.

On a page of its own, since two ask: the store, when maintenance is decided and predicted, and the attempt that lets
snapshots expire, which may begin much later than it was asked for, and does not know the store.
"""

NEEDED = """
SELECT dataset, snapshot FROM dataset_cursor WHERE dataset = ANY(%(names)s) AND snapshot IS NOT NULL
UNION
SELECT dataset, (snapshot #>> '{}')::bigint FROM owed
WHERE dataset = ANY(%(names)s) AND snapshot #>> '{}' ~ '^[0-9]{1,19}$'
UNION -- of a schedule that was given nothing yet: behind the first that it is to be given
SELECT o.dataset, (e.payload ->> 'previous_snapshot')::bigint
FROM owed o
JOIN event_key k ON k.type = 'dataset.updated' AND k.key = o.dataset AND k.match IS NULL
CROSS JOIN LATERAL (
    SELECT event_day, event_pos FROM arrival a WHERE a.key_id = k.id AND a.n > o.n AND a.day >= o.day
    ORDER BY a.n LIMIT 1
) a
JOIN event e ON e.day = a.event_day AND e.pos = a.event_pos
WHERE o.dataset = ANY(%(names)s) AND o.snapshot #>> '{}' IS NULL
  AND e.payload ->> 'previous_snapshot' ~ '^[0-9]{1,19}$'
UNION
SELECT i.key, (i.value ->> v.which)::bigint
FROM run_live l
JOIN run r ON r.slot = l.slot AND r.schedule_id = l.schedule_id AND r.ord = l.ord
CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(r.inputs) WHEN 'object' THEN r.inputs ELSE '{}' END) AS i
CROSS JOIN unnest(ARRAY['from_snapshot', 'to_snapshot']) AS v(which)
WHERE i.key = ANY(%(names)s) AND i.value ->> v.which ~ '^[0-9]{1,19}$'
ORDER BY 1, 2
"""
"""Table and snapshot, of the tables of `names`: from where watchers and schedules read on, and what live runs were
given."""
