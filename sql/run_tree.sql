-- The tree of an agent's run: its events, each under the one that it has as parent_id. This is the
-- run that began last; for another one, give its store and id in `root`.
--
-- depth                 0 for the event that began the run
-- store_id, id, parent_id, event_type, created_at
--                       of the event. Events under the same one are in the order of their ids
WITH RECURSIVE root AS (
    SELECT e.store_id AS store_id, e.id AS id
    FROM events e
    WHERE e.parent_id IS NULL AND e.event_type = 'agent.started'
    ORDER BY e.created_at DESC, e.id DESC
    LIMIT 1
),
tree AS (
    SELECT
        e.store_id AS store_id,
        e.id AS id,
        e.parent_id AS parent_id,
        e.event_type AS event_type,
        e.created_at AS created_at,
        0 AS depth,
        CAST(10000000000000000 + e.id AS VARCHAR(8000)) AS path
    FROM events e
    JOIN root r ON r.store_id = e.store_id AND r.id = e.id
    UNION ALL
    SELECT
        e.store_id AS store_id,
        e.id AS id,
        e.parent_id AS parent_id,
        e.event_type AS event_type,
        e.created_at AS created_at,
        t.depth + 1 AS depth,
        CAST(t.path || CAST(10000000000000000 + e.id AS VARCHAR(8000)) AS VARCHAR(8000)) AS path
    FROM events e
    JOIN tree t ON t.store_id = e.store_id AND t.id = e.parent_id
)
SELECT depth, store_id, id, parent_id, event_type, created_at
FROM tree
ORDER BY path;
