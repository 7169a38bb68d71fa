"""The SDK's clients, written once: `_sync` is made from these files by `make sdk` and never edited."""
