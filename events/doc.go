// Package events holds what happened: the closed set of facts, their
// envelope, their bytes, and the contract of the log that keeps them.
//
// Start with [Event] and the structs that implement it (agent.go, round.go,
// call.go, engine.go), then [Draft] (stamped, not yet in the book) and
// [Recorded] (in the book). [Encode] and [Decode] turn one into the bytes of
// the other; [Log] is where the bytes live.
//
// What the package promises:
//
//   - Names are for ever; a shape has a schema number. A field may be added
//     when its zero value means the old behaviour and it is marked omitzero,
//     so that old bytes still re-encode to themselves. Any other change takes
//     a new schema number and a pure upcaster ([Upcaster]).
//   - Stored bytes are hashed as they are and never re-marshalled. Bytes that
//     would not re-encode to themselves are refused ([ErrNotCanonical]), and
//     so is an unknown kind or a schema from the future: the unknown one may
//     be a revocation.
//   - No event holds a map, a float, a pointer or a secret. Money is an integer
//     in micro-units, a duration an integer in microseconds, a time an
//     [Instant] in UTC that is never used for order. [Seq] is the only order.
//
// The package reads no clock and does no IO. Its values are safe to share
// between goroutines as long as nobody changes them.
//
// Dependencies: go-json-experiment/json because encoding/json takes "RULE"
// for "rule", the last of two equal keys and trailing data; oklog/ulid because
// ids sort by time and fit in a subject token.
package events
