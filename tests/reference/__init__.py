"""The definitions: what the native core computes, in plain Python. Nothing in the product imports them."""
