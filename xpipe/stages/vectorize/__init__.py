"""Stage vectorize: texts and further columns of tables become features."""
