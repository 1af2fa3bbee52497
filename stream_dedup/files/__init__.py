"""``filter``: JSON Lines in, JSON Lines out."""
