"""Known mistakes of this field as changes of the source: what stands in the real SQL and the real parts, and who sees.

Each is one piece of text that is replaced by another in a copy of the tree, and the one check that must fail then
(`python tools/mutants.py` does it; `make mutants`). The mistakes that are put into the simulated world instead are
beside the simulator's tests (`sim/mistakes.py`, `sim/gate_mistakes.py`).
"""

from __future__ import annotations

from one_mistake import Mistake
from sink_mistakes import RELAYED

_QUERIES = "tidegate/store/queries/"
_CONFORMANCE = "tests/conformance/test_"
_SWEEP = "tests/sim/test_sweep.py::test_no_law_breaks_whatever_fails[0]"

# ── several processes, one database ────────────────────────────────────────────────────────────────────────────────

_TOGETHER = (
    Mistake(
        "due-unlocked",
        "Two schedulers read the same due clocks: nothing is claimed.",
        _QUERIES + "clocks.sql",
        "    LIMIT %(limit)s\n    FOR NO KEY UPDATE SKIP LOCKED\n)\nSELECT due.*",
        "    LIMIT %(limit)s\n)\nSELECT due.*",
        _CONFORMANCE + "claims.py::test_two_timekeepers_never_take_the_same_clock",
    ),
    Mistake(
        "waiting-unlocked",
        "Two schedulers judge the same waiting run.",
        _QUERIES + "admission.sql",
        "    ORDER BY wake_at, rank, slot, schedule_id, ord\n    LIMIT %(limit)s\n    FOR UPDATE SKIP LOCKED",
        "    ORDER BY wake_at, rank, slot, schedule_id, ord\n    LIMIT %(limit)s",
        _CONFORMANCE + "claims.py::test_two_admitters_never_judge_the_same_run",
    ),
    Mistake(
        "ready-unlocked",
        "Two workers start the same ready run.",
        _QUERIES + "attempts.sql",
        "    ORDER BY rank, slot, schedule_id, ord\n    LIMIT %(limit)s\n    FOR UPDATE SKIP LOCKED",
        "    ORDER BY rank, slot, schedule_id, ord\n    LIMIT %(limit)s",
        _CONFORMANCE + "claims.py::test_two_dispatchers_never_start_the_same_run",
    ),
    Mistake(
        "double-admission",
        "Counters are made, but not locked: two admissions pass one limit.",
        _QUERIES + "admission.sql",
        "ON CONFLICT (key) DO UPDATE SET held = excluded.held WHERE false;",
        "ON CONFLICT (key) DO NOTHING;",
        "tests/store/test_waits.py::test_who_judges_by_a_counter_holds_it_until_the_commit",
    ),
    Mistake(
        "orphans-unlocked",
        "Two workers adopt the same orphan.",
        _QUERIES + "attempts.sql",
        "FOR UPDATE OF l SKIP LOCKED;\n\n-- adopt",
        ";\n\n-- adopt",
        _CONFORMANCE + "stopping.py::test_two_never_adopt_the_same",
    ),
    Mistake(
        "consumer-passes-open-transaction",
        "Events are numbered without holding their topic until the commit: who reads on passes an open transaction.",
        _QUERIES + "events.sql",
        "WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE;",
        "WHERE id = ANY(%(ids)s) ORDER BY id;",
        "tests/store/test_waits.py::test_nobody_reads_on_over_an_open_transaction",
    ),
    Mistake(
        "lost-notification",
        "Who knows the head of its queue never looks below it again: a lost notification is never made up for.",
        "tidegate/store/floors.py",
        "_SWEEP_EVERY = 5.0",
        "_SWEEP_EVERY = 1e9",
        "tests/store/test_waits.py::test_a_mark_is_left_out_every_few_seconds_should_a_notification_have_been_lost",
    ),
    Mistake(
        "sleeps-until-called",
        "A part sleeps until it is woken or its instant comes, however long: a lost wake-up is never made up for.",
        "tidegate/engine/loop.py",
        "wanted = latest if outcome.next is None else min(outcome.next, latest)",
        "wanted = latest + (1 << 50) if outcome.next is None else outcome.next",
        "tests/engine/test_loop_laws.py::test_every_part_is_called_once_a_second_though_every_wake_up_is_lost",
    ),
    Mistake(
        "announced-before-commit",
        "Others are told of a change before it is committed, and of one that is rolled back.",
        "tidegate/store/store.py",
        "                tx = ControlTransaction(self.parts, session)\n                yield tx\n",
        "                tx = ControlTransaction(self.parts, session)\n"
        "                try:\n                    yield tx\n"
        "                finally:\n"
        "                    await self.parts.database.execute(I.notify, topics=Texts(sorted(tx.topics)))\n",
        "tests/store/test_faults.py::test_what_people_change_is_announced_after_the_commit",
    ),
)

# ── leases, fences and who is dead ─────────────────────────────────────────────────────────────────────────────────

_FENCES = (
    Mistake(
        "fence-missing",
        "A transaction does not look whether its writer was declared dead.",
        _QUERIES + "instances.sql",
        "WHERE id = %(id)s AND epoch = %(epoch)s AND ended_at IS NULL FOR KEY SHARE;",
        "WHERE id = %(id)s AND epoch <= %(epoch)s + 1000 FOR KEY SHARE;",
        _CONFORMANCE + "life_of_a_run.py::test_every_part_is_fenced",
    ),
    Mistake(
        "fence-unlocked",
        "The fence is looked at and not held: a takeover does not wait for who is writing.",
        _QUERIES + "instances.sql",
        "AND ended_at IS NULL FOR KEY SHARE;",
        "AND ended_at IS NULL;",
        "tests/store/test_waits.py::test_a_takeover_waits_for_who_is_writing",
    ),
    Mistake(
        "lease-stolen",
        "A lease is taken whether it has expired or not.",
        _QUERIES + "instances.sql",
        "WHERE l.expires <= %(now)s\nRETURNING token;",
        "WHERE l.expires <= %(now)s OR true\nRETURNING token;",
        _CONFORMANCE + "membership.py::test_one_leads_at_a_time",
    ),
    Mistake(
        "lease-renewed-when-expired",
        "A leader renews a lease that ran out, as if nobody could have led meanwhile.",
        _QUERIES + "instances.sql",
        "AND epoch = %(epoch)s AND expires > %(now)s\nRETURNING token;",
        "AND epoch = %(epoch)s\nRETURNING token;",
        _CONFORMANCE + "membership.py::test_an_expired_lease_is_not_renewed_but_taken_anew",
    ),
    Mistake(
        "renewal-steals",
        "`expired OR mine`: whoever led before takes the lease back from who leads now.",
        _QUERIES + "instances.sql",
        "WHERE duty = %(duty)s AND instance_id = %(id)s AND epoch = %(epoch)s AND expires > %(now)s\nRETURNING token;",
        "WHERE duty = %(duty)s AND (expires > %(now)s OR instance_id = %(id)s)\nRETURNING token;",
        _CONFORMANCE + "membership.py::test_a_stale_leader_cannot_take_back_what_another_took",
    ),
    Mistake(
        "stale-token-rules",
        "A leader's writes are taken although its lease has gone to another.",
        _QUERIES + "instances.sql",
        "WHERE token = %(token)s AND instance_id = %(id)s AND expires > %(now)s FOR SHARE;",
        "WHERE token >= %(token)s FOR SHARE;",
        _CONFORMANCE + "membership.py::test_a_resync_under_a_stale_token_is_refused",
    ),
    Mistake(
        "dead-leads-on",
        "A dead leader keeps its lease until it expires.",
        _QUERIES + "instances.sql",
        "    DELETE FROM lease WHERE instance_id IN (SELECT id FROM retired)",
        "    DELETE FROM lease WHERE instance_id IN (SELECT id FROM retired) AND false",
        _CONFORMANCE + "membership.py::test_death_hands_over_at_once",
    ),
    Mistake(
        "expiry-by-local-clock",
        "Whether a heartbeat is too old is asked of the machine's own clock.",
        "tidegate/engine/membership.py",
        "await self._store.silent(now, self._settings.patience)",
        'await self._store.silent(__import__("time").time_ns() // 1000, self._settings.patience)',
        "tests/engine/test_upkeep_laws.py::"
        "test_a_frozen_process_is_retired_when_it_was_silent_for_too_long_and_can_never_come_back",
    ),
    Mistake(
        "session-lock-unseen",
        "That the session of a process is gone is not looked at: its death shows only in its heartbeat.",
        _QUERIES + "instances.sql",
        "OR (%(heard)s\n",
        "OR (false AND %(heard)s\n",
        "tests/store/test_faults.py::test_the_end_of_its_session_shows_a_dead_member_at_once",
    ),
    Mistake(
        "restart-is-death",
        "After a restart of the server everybody whose session it lost is declared dead.",
        _QUERIES + "instances.sql",
        "pg_postmaster_start_time() < clock_timestamp() - %(patience)s * interval '1 microsecond'",
        "%(patience)s > 0",
        "tests/store/test_faults.py::test_the_end_of_its_session_shows_a_dead_member_at_once",
    ),
    Mistake(
        "heartbeat-goes-back",
        "A heartbeat that arrives late takes back a newer one.",
        _QUERIES + "instances.sql",
        "SET heartbeat = greatest(heartbeat, %(now)s)",
        "SET heartbeat = %(now)s",
        _CONFORMANCE + "membership.py::test_a_heartbeat_never_goes_back",
    ),
    Mistake(
        "dead-goes-on",
        "Who was declared dead goes on when it is back.",
        _QUERIES + "instances.sql",
        "WHERE id = %(id)s AND epoch = %(epoch)s AND ended_at IS NULL\nRETURNING id;",
        "WHERE id = %(id)s\nRETURNING id;",
        "tests/conformance/test_membership.py::test_who_was_declared_dead_registers_anew",
    ),
)

# ── what is on record ──────────────────────────────────────────────────────────────────────────────────────────────

_RECORD = (
    Mistake(
        "recorded-again",
        "A fire that is on record already comes to life again.",
        _QUERIES + "clocks.sql",
        "    FROM made JOIN d ON d.slot = made.slot AND d.schedule_id = made.schedule_id\n",
        "    FROM d\n",
        _CONFORMANCE + "life_of_a_run.py::test_a_fire_that_is_on_record_is_not_recorded_again",
    ),
    Mistake(
        "advance-before-insert",
        "The cursor moves, and the transaction that should record the fires is another, later one.",
        "tidegate/engine/timekeeper.py",
        "            await tx.record(plans, now)\n",
        "            await tx.record([one._replace(fires=(), missed=()) for one in plans], now)\n"
        "        async with self._store.transaction(self._fence) as tx:\n"
        "            await tx.record(plans, now)\n",
        _SWEEP,
    ),
    Mistake(
        "unknown-is-undone",
        "A commit that got no answer is taken for one that did not happen.",
        "tidegate/store/connection.py",
        'if committing and (error.sqlstate is None or error.sqlstate[:2] in ("08", "57", "58", "XX")):',
        "if False:",
        "tests/store/test_faults.py::test_a_commit_without_an_answer_is_said_to_be_unknown",
    ),
    Mistake(
        "locks-of-the-frozen",
        "A process that froze in a transaction keeps its locks.",
        "tidegate/store/connection.py",
        "SET idle_in_transaction_session_timeout = '2s';",
        "SET idle_in_transaction_session_timeout = 0;",
        "tests/store/test_faults.py::test_who_sleeps_in_a_transaction_loses_its_locks",
    ),
    Mistake(
        "waits-for-ever",
        "An answer that never comes on a connection that stays up is waited for as long as the process lives.",
        "tidegate/store/connection.py",
        "    alarm = asyncio.get_running_loop().call_later(seconds, _give_up, connection, seconds)\n",
        "    alarm = asyncio.get_running_loop().call_later(86_400, _give_up, connection, seconds)\n",
        "tests/store/test_faults.py::test_an_answer_that_never_comes_is_not_waited_for",
    ),
    Mistake(
        "silent-for-good",
        "A catalog that did not answer once is asked over the same connection for ever.",
        "tidegate/lake/catalogs.py",
        "        except TimeoutError:\n            self._renew(line)\n",
        "        except TimeoutError:\n",
        "tests/lake/test_catalogs.py::test_a_database_that_swallowed_a_question_is_heard_again",
    ),
    Mistake(
        "secrets-elsewhere",
        "The headers of a program go wherever an answer says.",
        "tidegate/launchers/http_call.py",
        "        if self._elsewhere(url):\n            return headers\n",
        "",
        "tests/launchers/test_http.py::test_secrets_go_to_the_origin_that_the_program_names_and_to_no_other[ended]",
    ),
    Mistake(
        "endless-head",
        "A webhook that sends a little now and then is listened to without end.",
        "tidegate/sinks/webhook.py",
        "            async with asyncio.timeout(TIMEOUT), request as answer:\n",
        "            async with request as answer:\n",
        "tests/sinks/test_webhook.py::test_a_head_without_end_is_no_answer",
    ),
    Mistake(
        "changed-passes",
        "A waiting run whose schedule was changed counts as woken for a slot, and passes those who come first.",
        _QUERIES + "runs.sql",
        "%(now)s) THEN -1\n",
        "%(now)s) THEN 0\n",
        _CONFORMANCE + "gates.py::test_a_new_revision_does_not_let_a_waiting_run_pass_those_before_it",
    ),
    Mistake(
        "start-before-record",
        "The backend is asked before the possible crash is on record.",
        "tidegate/engine/dispatcher.py",
        "                launches = await tx.claim_ready(self._kinds, now, self._batch.size)\n",
        "                launches = await tx.claim_ready(self._kinds, now, self._batch.size)\n"
        "                for one in launches:\n"
        "                    await self._launchers[one.program.kind].start(one)\n",
        "tests/engine/test_dispatch_laws.py::test_the_possible_crash_is_on_record_before_the_backend_is_touched",
    ),
    Mistake(
        "orphan-relaunched",
        "What a dead worker left is taken for lost, and tried again, without asking the backend.",
        "tidegate/engine/supervisor.py",
        "            report = await launcher.seal(entry.launch)\n",
        "            report = None\n",
        "tests/engine/test_supervision_laws.py::test_what_runs_is_adopted_and_not_started_again",
    ),
    Mistake(
        "doubt-forgotten",
        "A claim whose commit got no answer is never looked up: its attempts are nobody's.",
        "tidegate/engine/dispatcher.py",
        "            self._watch.doubt(launches, Stage.CLAIMED, now)\n",
        "",
        "tests/engine/test_dispatch_laws.py::"
        "test_after_a_claim_without_an_answer_the_worker_looks_before_anything_starts",
    ),
    Mistake(
        "late-end-counts",
        "The end of an earlier attempt ends the one that runs.",
        _QUERIES + "attempts.sql",
        "    WHERE l.attempts = d.number AND l.state IN ('starting', 'running', 'stopping')\n"
        "    ORDER BY l.schedule_id, l.slot, l.ord\n    FOR UPDATE OF l\n), closed AS (\n"
        "    DELETE FROM attempt_open a USING d\n"
        "    WHERE a.schedule_id = d.schedule_id AND a.slot = d.slot AND a.ord = d.ord AND a.number = d.number\n",
        "    ORDER BY l.schedule_id, l.slot, l.ord\n    FOR UPDATE OF l\n), closed AS (\n"
        "    DELETE FROM attempt_open a USING d\n"
        "    WHERE a.schedule_id = d.schedule_id AND a.slot = d.slot AND a.ord = d.ord\n",
        _CONFORMANCE + "life_of_a_run.py::test_the_end_of_an_earlier_attempt_does_not_end_the_one_that_runs",
    ),
    Mistake(
        "retry-keeps-its-slot",
        "A run that is to be tried again does not give its slot back while it waits.",
        _QUERIES + "attempts.sql",
        "    RETURNING l.slot, l.schedule_id, l.ord, l.pool, c.number,",
        "    RETURNING l.slot, l.schedule_id, l.ord, NULL::text AS pool, c.number,",
        _CONFORMANCE + "limits.py::test_a_retry_lets_others_have_its_slot",
    ),
    Mistake(
        "publishers-id-ignored",
        "The same event told twice under one id is two events.",
        _QUERIES + "events.sql",
        "ORDER BY source, id\nON CONFLICT DO NOTHING\nRETURNING source, id;",
        "ORDER BY source, id\nON CONFLICT (source, id) DO UPDATE SET at = excluded.at\nRETURNING source, id;",
        _CONFORMANCE + "publishing.py::test_the_publishers_id_makes_it_once",
    ),
    Mistake(
        "input-of-nobody",
        "The input of a run that never started is given to nobody.",
        "tidegate/store/holdings.py",
        "    await _give_back_input(tx, [row for row in gone if row[7] and not row[6]])\n",
        "",
        _CONFORMANCE + "inputs.py::test_who_never_started_gives_its_input_to_the_next",
    ),
    Mistake(
        "input-given-twice",
        "What a later run was given already is owed again.",
        _QUERIES + "collecting.sql",
        "AND o.n = d.to_n AND d.from_n < d.to_n;",
        "AND d.from_n < d.to_n;",
        _CONFORMANCE + "inputs.py::test_a_later_run_that_took_its_input_already_keeps_it",
    ),
)

# ── what is decided ────────────────────────────────────────────────────────────────────────────────────────────────

_DECISIONS = (
    Mistake(
        "wall-time-as-cursor",
        "The cursor is the time at which somebody looked, not the fire.",
        "tidegate/domain/planning.py",
        "    return Plan(clock, (fire,), (), at, revision.rev, following, at, None, 0)",
        "    return Plan(clock, (fire._replace(fire_time=now),), (), now, revision.rev, following, now, None, 0)",
        _SWEEP,
    ),
    Mistake(
        "cap-without-carry-over",
        "What the cap on catching up cuts is forgotten.",
        "tidegate/domain/planning.py",
        "        if number < block.n:\n            whole = False\n",
        "        if number < block.n and block.fate is not Fate.CATCH_UP:\n            whole = False\n",
        "tests/engine/test_timekeeping_laws.py::test_what_the_cap_cuts_comes_in_the_next_pass",
    ),
    Mistake(
        "first-schedule-takes-the-cap",
        "Of all that is to be caught up, one schedule takes the whole pass.",
        "tidegate/domain/planning.py",
        "        for index in queue[:cap]:\n            shares[index] += 1\n        cap -= min(cap, len(queue))",
        "        shares[queue[0]] += 1\n        cap -= 1",
        "tests/domain/test_time_planning.py::test_the_cap_is_dealt_out_in_turn_so_that_no_schedule_starves_another",
    ),
    Mistake(
        "missed-runs-all-the-same",
        "A single fire that is due runs however late it is, whatever the policy of catching up.",
        "tidegate/domain/planning.py",
        "not now - revision.spec.catch_up.grace <= fire.fire_time <= now",
        "not fire.fire_time <= now",
        _SWEEP,
    ),
    Mistake(
        "disabled-is-caught-up",
        "The time during which a schedule was disabled is caught up.",
        "tidegate/domain/reigns.py",
        "        if after < last and revision.mode.works:",
        "        if after < last:",
        "tests/domain/test_time_planning.py::test_the_time_while_disabled_is_never_caught_up",
    ),
    Mistake(
        "jitter-drawn-anew",
        "Jitter is drawn anew whenever somebody asks.",
        "tidegate/domain/fires.py",
        'digest = blake2b(f"{name}\\0{fire_time}".encode(), digest_size=8, person=b"tidegate").digest()',
        'digest = __import__("os").urandom(8)',
        "tests/domain/test_time_fires.py::test_jitter_is_a_function_of_schedule_and_fire_time_and_keeps_the_order",
    ),
    Mistake(
        "backoff-beyond-its-cap",
        "Jitter is added to the cap instead of staying inside.",
        "tidegate/domain/retry.py",
        "    return int(min(cap, grown) * u)",
        "    return int(min(cap, grown) * (u + 0.2))",
        "tests/engine/test_retry_laws.py::test_backoff_grows_to_its_cap_and_jitter_stays_inside",
    ),
    Mistake(
        "outage-eats-the-budget",
        "A lost worker counts as a failure of the program.",
        "tidegate/domain/retry.py",
        "    return RetryAt(at=now + wait, failures=0, lost=1)",
        "    return RetryAt(at=now + wait, failures=1, lost=1)",
        "tests/engine/test_retry_laws.py::test_what_is_lost_or_refused_has_a_budget_of_its_own",
    ),
    Mistake(
        "shutdown-is-a-crash",
        "What a clean shutdown stopped counts as a crash.",
        "tidegate/domain/retry.py",
        "        return RetryAt(at=now, failures=0, lost=0)",
        "        return RetryAt(at=now, failures=1, lost=0)",
        "tests/engine/test_retry_laws.py::test_what_a_shutdown_stopped_runs_again_and_costs_nothing",
    ),
    Mistake(
        "restart-slides",
        "When a crashed run starts again is not kept: each scheduler that restarts pushes it on.",
        _QUERIES + "admission.sql",
        ", restart_at = coalesce(l.restart_at, d.restart_at)\n",
        "\n",
        _CONFORMANCE + "crashes.py::test_its_restart_is_said_once_and_no_restart_of_a_scheduler_pushes_it_on",
    ),
    Mistake(
        "the-dead-count-as-up",
        "A scheduler that died counts as one that has been up all the time.",
        _QUERIES + "instances.sql",
        "role IN ('scheduler', 'all') AND heartbeat >= %(now)s - %(patience)s\n",
        "role IN ('scheduler', 'all') AND %(now)s::bigint > %(patience)s::bigint\n",
        _CONFORMANCE + "crashes.py::test_a_scheduler_that_is_silent_does_not_count_as_up",
    ),
    Mistake(
        "tidy-exit-is-success",
        "A program that was stopped and exits with 0 has succeeded.",
        "tidegate/domain/stopping.py",
        "        case StopReason.CANCEL | StopReason.WINDOW:\n            return Ended.CANCELLED",
        "        case StopReason.CANCEL | StopReason.WINDOW:\n"
        "            return reported if reported is Ended.SUCCEEDED else Ended.CANCELLED",
        "tests/engine/test_retry_laws.py::test_who_asked_it_to_stop_says_how_it_ended",
    ),
    Mistake(
        "skip-judged-early",
        "`skip` is judged while something else is still waited for.",
        "tidegate/domain/admission.py",
        "    if waits:\n        return _hold(candidate, waits)\n",
        "    if waits and not any(one.skips for one in unmet):\n        return _hold(candidate, waits)\n",
        "tests/engine/test_admission_laws.py::"
        "test_a_skip_that_might_be_met_by_then_does_not_end_what_waits_for_something_else",
    ),
    Mistake(
        "compaction-is-news",
        "A table that was merely arranged anew counts as new data.",
        "tidegate/domain/lake.py",
        "        return self.operation != REARRANGED and not self.maintenance",
        "        return not self.maintenance",
        "tests/domain/test_lake.py::test_compaction_and_maintenance_are_no_news_but_move_the_cursor",
    ),
    Mistake(
        "pid-is-a-name",
        "A process is known by its pid alone: a stranger that was given the same one is taken for it.",
        "tidegate/launchers/processes.py",
        "    return ref.boot == this_boot() and start is not None and ref.start in (start, UNKNOWN)",
        "    return start is not None",
        "tests/launchers/test_commands.py::test_a_reused_pid_or_another_boot_is_never_taken_for_the_process",
    ),
)

MISTAKES = (*_TOGETHER, *_FENCES, *_RECORD, *_DECISIONS, *RELAYED)
