package main

import "runtime/debug"

// serviceVersion is the version of the NATS service, which must be semantic.
const serviceVersion = "0.1.0"

// version is what built the binary: the release, and the commit where known.
func version() string {
	v := serviceVersion
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "+" + s.Value[:12]
			}
		}
	}
	return v
}
