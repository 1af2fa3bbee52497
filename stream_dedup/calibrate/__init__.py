"""``calibrate``: what each limit and each number of look-ups would make of the user's own articles.

The parts, each on its own: ``reading`` (lines in, signatures out), ``nearest`` (each article's nearest earlier entry by
how much of the search finds it, with ``lists``), ``figures`` (what is counted and suggested, with ``valley`` and
``labels``), ``edge`` (pairs for a person to judge), ``report`` (all of it in order), ``text``, ``picture`` and ``page``
(how it looks).
"""
