"""The jobs of the driver, one module each; each returns a table and a status."""
