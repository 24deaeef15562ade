"""What logs hedgectl reads: the catalogue, detection, and mappings compiled to SQL. No DuckDB in here."""
