// Package eventstest helps tests that need events or a log of them.
//
// Start with [Draft] and [Record] for valid facts with ids and times that depend
// on nothing but a number, [Samples] for at least one draft of every kind,
// [MemLog] for a log without a disk, and [TestLog], the laws that every
// events.Log keeps.
//
// What the package promises: the same arguments give the same bytes; a [MemLog]
// starts no goroutine and reads no clock, so it works inside a testing/synctest
// bubble; it obeys [TestLog] until a test asks it for a [Fault].
//
// Dependencies: oklog/ulid, to make ULIDs of numbers.
package eventstest
