"""The report: one self-contained HTML file with the decision, the pictures behind it and their numbers."""
