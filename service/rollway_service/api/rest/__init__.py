"""The REST door: a file per noun; each route decodes, calls one operation, encodes."""
