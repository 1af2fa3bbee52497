"""The records that ``scan`` and its compiled functions (``scan_kernel``) share, and the rank of a near entry."""

from __future__ import annotations

import numpy as np

from stream_dedup.core.model import SKETCH_SIZES

DISTANCE_SHIFT = 32
"""Near entries are ranked by ``distance << 32 | doc_number``: nearest, then earliest."""
DOC_NUMBER = (1 << DISTANCE_SHIFT) - 1
"""The document number in a rank."""
NO_RANK = (1 << 63) - 1
"""Means no entry: greater than every rank."""

ARTICLE = np.dtype(
    [
        ("keys", "<u8", (4,)),
        ("words", "<u8", (4,)),
        ("sure", "<u8", (4, 2)),
        ("group", "<u8"),
        ("own_id", "<u8"),
        ("own_id_mask", "<u8"),
        ("before", "<i8"),
        ("oldest", "<i8"),
        ("reach", "<i4"),
        ("sieve", "<i4"),
        ("room", "<i4"),
        ("limit", "<i4"),
        ("least_equal", "<i4"),
        ("sketch_words", "<i4"),
        ("certain", "<i4"),
        ("far", "<i4"),
        ("far_equal", "<i4"),
        ("form_limit", "<i4"),
        ("form", "<u8"),
        ("sketch", "<u8", (SKETCH_SIZES[-1] // 8,)),
    ],
    align=True,
)
"""One article of a query as the kernel takes it: 248 bytes. ``own_id_mask`` is 0 where any id will do; of two words the
sieve counts the differing bits that ``sure`` has in the first of the word's masks, and those that it has in the second,
and ``sieve`` is the greatest sum of the two. ``room`` is the candidates that may still be checked, ``limit`` the newest
entries of a posting list compared. ``sketch_words`` is 0 where sketches are not compared, and ``certain`` the greatest
distance at which the signatures decide alone; beyond ``far`` bits at least ``far_equal`` values must be equal. ``form``
is 0 where forms are not compared or the article has none."""
NO_BOUND = (1 << 31) - 1
"""Room of an article whose candidates are all checked."""
SPAN = np.dtype([("keys", "<i8"), ("doc_numbers", "<i8"), ("entries", "<i8"), ("part", "<i8")], align=True)
"""A part of a posting list: the addresses of its first key and its first document number, its entries, and in
``part`` the number of the look-up in the plan, the table, the run, and the block, each in so many bits. Where a bucket
has several lists, it is the whole bucket until it is compared."""
PART_TABLE_BITS, PART_RUN_BITS, PART_BLOCK_BITS = 4, 16, 24
GROUP = np.dtype([("lanes", "<u8"), ("part", "<i8"), ("entry", "<i8"), ("compared", "<i8")], align=True)
"""Keys of a part of a posting list that were compared at once, some of which pass the sieve: those in ``lanes``, the
number of the part among the spans, how many newer entries of it were compared before, and how many of all articles."""
WAITING = np.dtype([("article", "<i8"), ("rank", "<i8"), ("at", "<i8")], align=True)
"""A candidate that passed the sieve. Step 1 leaves the distance of the words in ``rank`` and the address of its number
in ``at``; step 2 its rank and its document number; then ``at`` is the address of its row."""
CURSOR = np.dtype([(name, "<i8") for name in ("article", "lookup", "span", "entry", "lists", "candidates")], align=True)
"""Where step 1 goes on: the article, the first look-up whose lists are found, the part of these, and how many of its
entries are compared; then the posting lists and entries compared so far."""
LOOKUPS_AT_ONCE = 64
"""Look-ups of an article whose lists are found before the first of them is compared: few enough that the lists of the
rest are not found in vain where the bound is reached, and that the spans stay in the processor's first cache."""
