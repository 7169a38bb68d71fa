"""The gRPC doors: `rollway.v1` for trainers and researchers, `rollway.worker.v1` for workers."""
