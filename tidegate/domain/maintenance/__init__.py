"""Tables kept healthy by policy: what is asked for, what is known, what is worth doing, and what is decided.

    operations, options   what can be done to a table, and with which options
    patterns, policy      which policy speaks for a table, and what it asks of each operation
    health, conditions    what a table looks like; None is unknown, never zero
    debt, value           how bad it is, and what doing something about it would gain and cost
    state, throttle       what was done before, and what follows from that
    budget                what may be spent, and on which tables it is spent best
    clock, decision       run or not, with every reason: the one function that engine and doors ask

All of it is pure: values in, values out, `now` is an argument.
"""
