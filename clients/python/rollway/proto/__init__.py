"""The gRPC contract: .proto files by hand, and the modules that `make proto` makes of them."""
