"""The SDK's clients, made from `_async` by `make sdk` and never edited."""
