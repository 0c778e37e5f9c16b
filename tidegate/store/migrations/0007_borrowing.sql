-- Pools that borrow slots of others; readings that grow stale; schedules that pause.
-- depends: 0006_deadlines

ALTER TABLE pool
    ADD COLUMN borrow_from text,                 -- of which pool slots are borrowed when its own are taken; NULL: of none
    ADD COLUMN borrow_max integer CHECK (borrow_max >= 1),
    ADD CHECK ((borrow_from IS NULL) = (borrow_max IS NULL));
ALTER TABLE run_live ADD COLUMN borrower text;   -- whose run it is that has a slot of `pool`; NULL: one of its own
CREATE INDEX run_live_borrower ON run_live (borrower) WHERE borrower IS NOT NULL;

-- What pools may borrow now, and how many runs they may let start in all: their own free slots, and those of another
-- while nobody waits for them there.
CREATE VIEW loan AS
SELECT p.name, p.borrow_from AS lender,
       greatest(p.borrow_max - (SELECT count(*) FROM run_live r WHERE r.borrower = p.name AND r.slot_held), 0) AS left_over
FROM pool p WHERE p.borrow_from IS NOT NULL;

CREATE VIEW pool_room AS
SELECT p.name, greatest(p.slots - p.used, 0) + coalesce((
           SELECT least(greatest(o.slots - o.used, 0), l.left_over) FROM loan l JOIN pool o ON o.name = l.lender
           WHERE l.name = p.name AND NOT EXISTS (SELECT FROM run_live w WHERE w.wake_key = 'pool:' || o.name)
       ), 0) AS room
FROM pool p;

-- Schedules that a run's end asked to pause (retry.then: pause), until a scheduler has done it.
CREATE TABLE pausing (
    schedule_id bigint PRIMARY KEY,
    at          instant NOT NULL,
    reason      text NOT NULL
);

ALTER TABLE gauge ADD COLUMN stale_at instant;   -- from when on this reading counts as none; NULL: never
