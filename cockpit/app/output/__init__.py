"""Between what is painted and the terminal: what it shows is kept, only what differs is written.

Pure but for ``textual_frames``, which alone knows what Textual paints: a frame can be encoded
without Textual. Sizes and places are cells, from the upper left, 0 first.
"""
