"""``calibrate``: shows what each limit and each number of look-ups would decide about the user's own articles.

The parts: ``reading`` (lines to signatures), ``nearest`` (each article's nearest earlier entry at each length of the
plan, with ``list_lengths``), ``figures`` (counts and suggestion, with ``valley`` and ``labels``), ``edge`` (pairs for
a person to judge), ``report`` (runs all parts in order), ``text``, ``picture`` and ``page`` (output).
"""
