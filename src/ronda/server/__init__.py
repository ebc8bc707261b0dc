"""The loop behind HTTP: doors that speak other people's dialects, and the runs behind them."""
