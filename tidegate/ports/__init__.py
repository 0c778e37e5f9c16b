"""Everything impure, as protocols: what the engine and control ask of a store, and how a backend is spoken to."""
