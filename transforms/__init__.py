"""The stages: one module each, the rule as plain functions first, then the PTransform that applies it."""
