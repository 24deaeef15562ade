"""Live hedged calls: scheduled honestly, capped, cancelled for real, accounted for to the last attempt."""
