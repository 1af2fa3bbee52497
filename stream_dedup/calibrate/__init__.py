"""``calibrate``: shows what each limit and each number of look-ups would decide about the user's own articles.

The parts: ``reading`` (lines to signatures), ``nearest`` (each article's nearest earlier entry at each length of the
plan), ``figures`` (counts, labels, suggestion), ``report`` (runs all parts in order, and has the pairs for a person to
judge), ``text`` and ``page`` (output).
"""
