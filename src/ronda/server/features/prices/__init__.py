"""What the operator says that models cost."""
