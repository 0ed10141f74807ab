"""Published figures, each as a configuration with the interval that it is expected in. Holds no public API."""
