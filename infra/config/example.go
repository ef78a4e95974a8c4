package config

import _ "embed"

//go:embed example.yaml
var example string

// Example is a catalog for people to take from: roles with limits, and what is around
// them. It is valid as it stands, without agents, channels and people.
func Example() []byte { return []byte(example) }
