"""Do other engines and Ebbtide understand each other's tables? `make interop` asks; `docs/interop.md` answers."""
