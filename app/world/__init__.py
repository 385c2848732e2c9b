"""What the board holds: versions on disk, archive state, content hashes, tokens, and World, the one door for writes."""
