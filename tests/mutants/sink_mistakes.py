"""Mistakes of the relay and its sinks (see `source_mistakes`)."""

from __future__ import annotations

from one_mistake import Mistake

_QUERIES = "tidegate/store/queries/"
_LAWS = "tests/engine/test_relay_laws.py::test_"

RELAYED = (
    Mistake(
        "first-days-are-all",
        "What lies in the first days that have events is taken for all there is.",
        "tidegate/store/sinks.py",
        "                if len(found) == limit and max(row[0] for row in found) < days[-1]:\n",
        "                if found:\n",
        "tests/conformance/test_sinks.py::test_a_sink_that_was_away_for_days_reads_every_event_of_each[postgres]",
    ),
    Mistake(
        "days-do-not-meet",
        "Of transactions that met at midnight one is passed over, where a day ends what is read at once.",
        "tidegate/store/sinks.py",
        "                if len(found) == limit and max(row[0] for row in found) < days[-1]:\n",
        "                if len(found) == limit:\n",
        "tests/conformance/test_sinks.py::test_a_sink_that_was_away_for_days_reads_every_event_of_each[postgres]",
    ),
    Mistake(
        "a-part-is-a-failure",
        "A sink that takes a part at a time counts as broken.",
        "tidegate/engine/relay.py",
        "        if part and (delivery.fault or not delivery.passed):\n",
        "        if part:\n",
        _LAWS + "a_sink_that_takes_a_part_at_a_time_is_well_and_gets_the_rest_at_once",
    ),
    Mistake(
        "signed-for-the-past",
        "A request is signed for the time of the event: receivers refuse what waited.",
        "tidegate/sinks/webhook.py",
        "        stamp = int(time.time())",
        "        stamp = message.at // 1_000_000",
        "tests/sinks/test_webhook.py::"
        "test_the_time_of_a_request_is_its_own_so_that_receivers_do_not_refuse_what_waited",
    ),
    Mistake(
        "one-server-for-ever",
        "That another server took over is not seen: what is given out again is passed over as read.",
        "tidegate/engine/relay.py",
        "        if settled.server != self._server or settled.pos < self._upto:\n",
        "        if self._server == 0:\n",
        "tests/sinks/test_relay.py::test_what_a_standby_gives_out_again_is_read_although_it_was_read_before[seen-late]",
    ),
    Mistake(
        "the-tide-never-falls",
        "How far the log was settled is kept although the server has forgotten some of it.",
        "tidegate/store/tide.py",
        "        if server != self.server or drawn < newest[0] or number < newest[1]:\n",
        "        if self.server == 0:\n",
        "tests/sinks/test_relay.py::"
        "test_what_a_standby_gives_out_again_is_read_although_it_was_read_before[seen-at-once]",
    ),
    Mistake(
        "moved-on-another-server",
        "A place that was read on another server is kept.",
        _QUERIES + "sinks.sql",
        "WHERE name = %(sink)s AND rev = %(rev)s AND pos = %(seen)s\n"
        "  AND (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint = %(server)s\n",
        "WHERE name = %(sink)s AND rev = %(rev)s AND pos = %(seen)s AND %(server)s::bigint IS NOT NULL\n",
        "tests/sinks/test_relay.py::test_a_place_that_was_read_on_another_server_is_not_kept",
    ),
)
