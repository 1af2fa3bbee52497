"""Sketches: a second summary of a text in a few bytes, made of other features than the signature.

A sketch is a row of values of 4 bits, two in a byte, the first in the high half. Values at one position of two sketches
are equal about as often as the share of their shingles that the texts have in common (the Jaccard similarity J);
unequal minima give equal values by chance in 1 of 16. So of W values about W (J + (1 - J) / 16) are equal. The sums of
a signature add up weighted words or characters and forget their order. A sketch counts the shingles of the text, each
once: where the
signature is wrong about two texts, the sketch has no reason to be.

The algorithm is one-permutation MinHash (Li, Owen and Zhang 2012), with b = 4 bits of each value (Li and König 2010)
and optimal densification (Shrivastava 2017):

1. A shingle is a run of k letters and digits; white space and punctuation do not count. A text of fewer than k is one
   shingle, filled up with zeros. There are values for each k of ``sketcher.Sketcher``; they do not share shingles.
2. Each shingle has one hash of 32 bits: a polynomial of its code points, mixed.
3. The range of hashes is divided into as many bins as there are values. The smallest hash in a bin is its minimum.
4. A bin without a shingle takes the minimum of another bin: the first of an order of all bins of its own that has one.
   Short texts have few shingles, and most would have empty bins otherwise.
5. The value is the top 4 bits of the minimum mixed with the number of the bin, so that chance decides anew about a
   minimum that several bins have.

All is whole-number arithmetic modulo 2**32: a sketch depends on the text and the seed alone, on every machine and in
every batch. A text without letters and digits has the sketch of k zeros.
"""

from __future__ import annotations

VALUE_BITS = 4
"""Bits of a value; with fewer, more of the unequal values are equal by chance, with more there are fewer values."""
FACTOR = 0x9E3779B1
"""Factor of the polynomial, and what the number of a bin is multiplied by."""
