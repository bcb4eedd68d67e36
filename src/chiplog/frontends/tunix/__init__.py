"""The metrics and tracing API of Tunix: a program is ported by changing `tunix` to `chiplog.frontends.tunix`."""
