"""What a model may call, and who runs it: functions, callbacks, an HTTP address."""
