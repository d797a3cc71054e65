"""RL training on top of environments and rewards (paper Section 5, Appendix F)."""
