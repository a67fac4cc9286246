"""The live page: a network that settles, is nudged and learns, in a browser."""
